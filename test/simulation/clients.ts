/** The clients of a simulated process: they ask by callback and by fiber, tell, repeat, go away, watch, move
 *  lanes, and throw from within the callbacks that they hand in. */
import { Cause, Effect, Exit, type Context, type Fiber } from "effect"
import type { Outcome } from "../../runtime/mailbox.ts"
import type { ActorSystem, Ending } from "../../runtime/registry.ts"
import type { AskFault } from "../../runtime/supervisor.ts"
import type { Message } from "./cast/role.ts"
import type { Part } from "./cast/cast.ts"
import type { Loop } from "./loop.ts"
import type { Ask, Model, Watch } from "./model.ts"
import type { Step } from "./plan.ts"
import { Random } from "./random.ts"

type Saying = Extract<Step, { readonly act: "say" }>
type Watching = Extract<Step, { readonly act: "watch" }>

/** An actor's address, whatever its definition. */
interface AnyRef {
  ask(command: string, payload: unknown, timeoutMs?: number): Effect.Effect<unknown, unknown>
  askNow(command: string, payload: unknown, done: (outcome: Outcome) => void): void
  tell(command: string, payload: unknown): boolean
  readonly lanes: Record<string, { offer(item: unknown, weight?: number): boolean; takeNow(): unknown }>
}

interface Waiting {
  readonly ask: Ask
  readonly fiber: Fiber.Fiber<unknown, unknown>
}

const timeoutsMs = [500, 5_000]
const sound = new Uint8Array(6_400)

interface ClientOptions {
  readonly model: Model
  readonly loop: Loop
  readonly system: ActorSystem
  readonly parts: ReadonlyArray<Part>
  readonly context: Context.Context<never>
}

export class Clients {
  private readonly model: Model
  private readonly loop: Loop
  private readonly system: ActorSystem
  private readonly parts: ReadonlyArray<Part>
  private readonly fork: (effect: Effect.Effect<unknown, unknown>) => Fiber.Fiber<unknown, unknown>
  private readonly refs = new Map<Part, AnyRef>()
  private waiting: Array<Waiting> = []
  private unwatches: Array<{ readonly watch: Watch; readonly stop: () => void }> = []
  private asks = 0

  constructor({ model, loop, system, parts, context }: ClientOptions) {
    this.model = model
    this.loop = loop
    this.system = system
    this.parts = parts
    this.fork = Effect.runForkWith(context)
  }

  private ref(part: Part): AnyRef {
    const existing = this.refs.get(part)
    if (existing !== undefined) return existing
    const created = this.system.ref(part.role.definition, part.id) as unknown as AnyRef
    this.refs.set(part, created)
    return created
  }

  say(part: Part, step: Saying): void {
    const random = new Random(step.salt)
    for (let i = 0; i < step.times; i++) {
      const message = this.wordsFor(part, random)
      if (step.via === "tell") this.tell(part, message)
      else if (step.via === "fiber") this.askByFiber(part, message, random.pick(timeoutsMs))
      else this.askByCallback(part, message, step, step.repeats)
    }
  }

  tellSomething(part: Part, random: Random): void {
    this.tell(part, this.wordsFor(part, random))
  }

  private wordsFor({ role, id }: Part, random: Random): Message {
    const { accepted: state } = this.model.ledger(role.definition, id)
    return role.say({ id, state, nowMs: this.loop.time.wallMs, random })
  }

  private newAsk(part: Part, message: Message, deadlineMs: number | undefined): Ask {
    const ask: Ask = {
      number: ++this.asks,
      ledger: this.model.ledger(part.role.definition, part.id),
      command: message.command,
      askedMs: this.loop.time.monotonicMs,
      deadlineMs,
      answers: 0,
      abandoned: false,
      decision: undefined,
      dependsOn: undefined,
      own: undefined
    }
    this.model.asked(ask, message.payload)
    return ask
  }

  private tell(part: Part, { command, payload }: Message): void {
    this.loop.enter("tell", () => {
      const accepted = this.ref(part).tell(command, payload)
      this.model.log(`tell ${part.role.definition.kind}/${part.id} ${command} ${accepted}`)
    })
  }

  private askByCallback(part: Part, message: Message, step: Saying, repeats: number): void {
    const ask = this.newAsk(part, message, undefined)
    const done = (outcome: Outcome): void => {
      if (ask.abandoned) return
      this.model.answered(ask, outcome)
      const isFault = "fault" in outcome
      if (isFault && outcome.fault._tag === "MailboxFull") this.model.count("mailbox full")
      if (repeats > 0 && this.model.violation === undefined && (isFault || !step.onlyFaults)) {
        this.model.count(isFault ? "repeat from a fault" : "repeat from an answer")
        if (step.elsewhere) {
          const random = new Random(step.salt + repeats)
          const other = random.pick(this.parts)
          this.askByCallback(other, this.wordsFor(other, random), step, repeats - 1)
        } else this.askByCallback(part, { ...message, payload: { ...message.payload } }, step, repeats - 1)
      }
      if (!step.throws) return
      this.model.count("callback threw")
      throw new Error("a bug of the client")
    }
    this.loop.enter("askNow", () => this.ref(part).askNow(message.command, message.payload, done))
  }

  private askByFiber(part: Part, message: Message, timeoutMs: number): void {
    const ask = this.newAsk(part, message, this.loop.time.monotonicMs + timeoutMs)
    this.loop.enter("ask", () => {
      const fiber = this.fork(this.ref(part).ask(message.command, message.payload, timeoutMs))
      this.waiting.push({ ask, fiber })
      fiber.addObserver((exit) => {
        this.waiting = this.waiting.filter((waiting) => waiting.ask !== ask)
        if (!ask.abandoned) this.model.answered(ask, outcomeOf(exit))
      })
    })
  }

  /** One of those who wait for an answer goes away. */
  leave(salt: number): void {
    if (this.waiting.length === 0) return
    const { ask, fiber } = this.waiting[salt % this.waiting.length]!
    this.model.count("client went away")
    this.model.log(`leave ${ask.number}`)
    ask.abandoned = true
    this.model.asks.delete(ask)
    this.loop.enter("interrupt", () => fiber.interruptUnsafe())
  }

  watch(part: Part, { throws, restarts }: Watching): void {
    const ledger = this.model.ledger(part.role.definition, part.id)
    const watch: Watch = { ledger, endsBefore: ledger.ends, told: 0, removed: false }
    this.model.watches.add(watch)
    const onEnding = (ending: Ending): void => {
      this.model.ended(watch, ending)
      if (restarts && ending === "failed") this.restart(part)
      if (!throws) return
      this.model.count("watcher threw")
      throw new Error("a bug of the watcher")
    }
    this.loop.enter("watch", () => {
      this.unwatches.push({ watch, stop: this.system.watch(ledger.kind, ledger.id, onEnding) })
    })
  }

  unwatch(salt: number): void {
    if (this.unwatches.length === 0) return
    const [entry] = this.unwatches.splice(salt % this.unwatches.length, 1)
    entry!.stop()
    entry!.watch.removed = true
    this.model.watches.delete(entry!.watch)
  }

  /** An operator restarts the actor. */
  restart({ role, id }: Part): void {
    this.loop.enter("restart", () => {
      this.model.log(`restart ${role.definition.kind}/${id}`)
      this.model.beginsAnew(this.model.ledger(role.definition, id))
      if (this.system.restart(role.definition.kind, id)) this.model.count("operator restarted")
    })
  }

  /** Puts something into each lane in, and takes everything from each lane out. */
  moveLanes(part: Part): void {
    const lanes = part.role.definition.lanes as Record<string, { readonly direction: string }> | undefined
    if (lanes === undefined) return
    this.loop.enter("lanes", () => {
      const ends = this.ref(part).lanes
      for (const [name, { direction }] of Object.entries(lanes))
        if (direction === "out") ends[name]!.takeNow()
        else ends[name]!.offer(name === "audio" ? sound : "word", name === "audio" ? 200 : 1)
    })
  }
}

const outcomeOf = (exit: Exit.Exit<unknown, unknown>): Outcome => {
  if (Exit.isSuccess(exit)) return { reply: exit.value }
  const failure = Cause.squash(exit.cause) as { readonly _tag?: string }
  const isFault = ["Unavailable", "AskTimeout", "MailboxFull"].includes(failure._tag ?? "")
  return isFault ? { fault: failure as AskFault } : { refuse: failure }
}
