/** Runs a plan: one simulated process after the other over one disk, step by step, with the model looking on;
 *  in the end everything is mended, and everything must come to rest. */
import { Context, Effect, type Fiber } from "effect"
import { Actors, type ActorSystem } from "../../runtime/registry.ts"
import type { Store } from "../../storage/store.ts"
import { storeOf, Writer } from "../../storage/writer.ts"
import type { Part } from "./cast/cast.ts"
import { Clients } from "./clients.ts"
import { Disk } from "./disk.ts"
import { diskIsTrue, Liveness, settleLoop } from "./liveness.ts"
import { Loop, nodeTurn, Time } from "./loop.ts"
import { Model, type RunOptions, type Violation } from "./model.ts"
import { observedStore, type Breakage } from "./observed-store.ts"
import type { Plan, Rest, Step } from "./plan.ts"
import { hearing } from "./probe.ts"
import { Random } from "./random.ts"
import { Tally } from "./tally.ts"
import { Work } from "./work.ts"

export interface RunResult {
  readonly violation: Violation | undefined
  /** The step at which it was seen; the number of steps where it was seen at the end. */
  readonly stepsRun: number
  readonly fingerprint: string
  readonly tally: Tally
  readonly lines: ReadonlyArray<string>
}

interface Process {
  readonly loop: Loop
  readonly system: ActorSystem
  readonly clients: Clients
  readonly main: Fiber.Fiber<unknown, unknown>
}

/** What a run does with a promise that was rejected and heard by nobody. */
const rejections: { onRejection: ((fault: unknown) => void) | undefined } = { onRejection: undefined }

/** Makes rejections that nobody hears violations of the run under way. The program calls it once. */
export const hearRejections = (): void => {
  process.on("unhandledRejection", (fault) => rejections.onRejection?.(fault))
  process.on("warning", ({ message }) => {
    if (message.startsWith("a commit's callback threw")) rejections.onRejection?.(message)
  })
}

/** Memory is compared with the disk so often, besides at every decision. */
const memoryEverySteps = 64

class Simulation {
  private readonly plan: Plan
  private readonly options: RunOptions
  private readonly tally = new Tally()
  private readonly model: Model
  private readonly time = new Time()
  private readonly disk: Disk
  private readonly work: Work
  private readonly liveness: Liveness
  private readonly breakage: Breakage = { unreadable: new Set(), expiryFaults: 0 }
  private readonly random: Random
  private readonly kinds: ReadonlySet<string>
  private process!: Process
  private ids = 0

  constructor(plan: Plan, options: RunOptions) {
    this.plan = plan
    this.options = options
    this.model = new Model(this.tally, options)
    this.disk = new Disk({
      leaving: this.model.leave,
      written: (changes) => this.model.written(changes, this.disk),
      lost: this.model.lose
    })
    this.work = new Work(plan.seed, plan.odds, this.model)
    this.liveness = new Liveness(this.model, this.time, plan.residentMax)
    this.random = new Random(plan.seed ^ 0x5eed)
    this.kinds = new Set(plan.parts.map(({ role }) => role.definition.kind))
  }

  async run(): Promise<RunResult> {
    hearing.model = this.model
    rejections.onRejection = (fault) => this.model.violate("nothing escapes", `a promise: ${String(fault)}`)
    this.start()
    let stepsRun = 0
    for (const step of this.plan.steps) {
      if (this.model.violation !== undefined) break
      if (this.options.keepsLines === true)
        this.model.note(`step ${stepsRun} ${describe(step, this.plan.parts)}`)
      await this.take(step)
      await nodeTurn()
      stepsRun++
      if (stepsRun % memoryEverySteps === 0) this.liveness.memoryIsDisk(this.process.system)
    }
    if (this.model.violation === undefined) await this.finish()
    await this.kill()
    const { violation, fingerprint, lines } = this.model
    return { violation, stepsRun, fingerprint: fingerprint.text, tally: this.tally, lines }
  }

  // The process

  private start(): void {
    const { model, time, disk, breakage, work } = this
    const loop = new Loop(time, (where, fault) =>
      model.violate("nothing escapes", `${where}: ${String(fault)}`)
    )
    const context = loop.context()
    let system: ActorSystem | undefined
    const store = observedStore({
      disk,
      loop,
      model,
      breakage,
      sweep: {
        attempted: () => this.liveness.sweepAttempted(),
        succeeded: () => this.liveness.swept(system!)
      }
    })
    const main = Effect.runForkWith(context)(
      Effect.scoped(
        Effect.gen({ self: this }, function* () {
          system = yield* Actors.make({
            store,
            scheduler: loop.scheduler,
            ...(this.plan.residentMax === undefined ? {} : { residentMax: this.plan.residentMax }),
            random: () => this.random.next(),
            newId: () => `id-${++this.ids}`,
            log: (_, message, fields) => model.logged(message, fields)
          })
          return yield* Effect.never
        })
      )
    )
    const surroundings = { work, time, system: () => system! }
    for (const role of new Set(this.plan.parts.map((part) => part.role))) {
      const services = role.services?.(surroundings)
      system!.host(
        role.definition,
        (services === undefined ? context : Context.merge(context, services)) as Context.Context<any>
      )
    }
    this.process = {
      loop,
      system: system!,
      clients: new Clients({ model, loop, system: system!, parts: this.plan.parts, context }),
      main
    }
    this.liveness.sweepAttempted()
    loop.enter("the start", () => system!.resume())
  }

  /** The process is no more: nothing of it runs on. */
  private async kill(): Promise<void> {
    this.process.loop.kill()
    hearing.model = undefined
    for (let i = 0; i < 3; i++) await nodeTurn()
  }

  private async crash(landed: boolean): Promise<void> {
    this.model.count(landed ? "crash, tail landed" : "crash, tail lost")
    this.process.loop.kill()
    this.disk.crash(landed)
    this.model.processDied()
    await this.kill()
    this.restart()
  }

  private restart(): void {
    hearing.model = this.model
    diskIsTrue(this.model, plainStore(this.disk))
    if (this.model.violation === undefined) this.start()
  }

  /** A clean stop: what was accepted is flushed, and everybody who asked is answered. */
  private async stop(): Promise<void> {
    this.model.count("clean stop")
    const { loop, main } = this.process
    let ended = false
    main.addObserver(() => {
      ended = true
    })
    loop.enter("stop", () => main.interruptUnsafe())
    for (let i = 0; i < 40 && !ended; i++) {
      await this.settle()
      settleLoop(loop)
      await nodeTurn()
      if (i > 10) loop.advance(100)
    }
    if (!ended) this.model.violate("a clean stop ends", "it did not")
    for (const ask of this.model.asks)
      if (ask.deadlineMs === undefined)
        this.model.violate("answered in the end", `ask ${ask.number} was not when the process stopped`)
    this.disk.crash(true)
    await this.kill()
    this.model.processDied()
    this.restart()
  }

  // Steps

  private async take(step: Step): Promise<void> {
    const part = this.plan.parts[step.on]!
    const { loop, clients } = this.process
    switch (step.act) {
      case "say":
        clients.say(part, step)
        break
      case "watch":
        clients.watch(part, step)
        break
      case "unwatch":
        clients.unwatch(step.salt)
        break
      case "leave":
        clients.leave(step.salt)
        break
      case "lanes":
        clients.moveLanes(part)
        break
      case "settle":
        await this.settle(step.fault)
        break
      case "wait":
        await this.wait(step.ms)
        break
      case "jump":
        this.model.count(step.ms < 0 ? "wall clock back" : "wall clock forward")
        this.time.jumpWall(step.ms)
        break
      case "spoil record":
        this.breakage.unreadable.add(`${part.role.definition.kind}/${part.id}`)
        if (step.restarts) clients.restart(part)
        break
      case "mend records":
        this.breakage.unreadable.clear()
        break
      case "spoil expiry":
        this.breakage.expiryFaults++
        break
      case "restart":
        if (step.mends) this.breakage.unreadable.clear()
        clients.restart(part)
        break
      case "crowd":
        this.crowd(part, step.size, new Random(step.salt))
        break
      case "crash":
        return this.crash(step.landed)
      case "stop":
        return this.stop()
      case "rest":
    }
    this.rest(loop, step.rest)
  }

  private crowd(part: Part, size: number, random: Random): void {
    const { clients } = this.process
    const name = `${part.role.definition.kind}/${part.id}`
    for (let i = 0; i < size; i++) {
      const at = random.next()
      if (at < 0.4) clients.tellSomething(part, random)
      else if (at < 0.7) clients.tellSomething(random.pick(this.plan.parts), random)
      else {
        if (at < 0.85) this.breakage.unreadable.add(name)
        else this.breakage.unreadable.delete(name)
        clients.restart(part)
      }
    }
  }

  /** The disk answers, and the writer hears it. */
  private async settle(fault?: "full" | "io"): Promise<void> {
    if (!this.disk.writing) return
    if (fault !== undefined) this.model.count(fault === "full" ? "disk full" : "disk error")
    this.disk.settle(fault)
    await nodeTurn()
  }

  private async wait(ms: number): Promise<void> {
    const { loop } = this.process
    if (this.disk.writing) this.model.count("commit delayed")
    if (ms > 6_000) this.model.count("loop stalled")
    settleLoop(loop)
    await nodeTurn()
    loop.advance(ms)
    settleLoop(loop)
    await nodeTurn()
    settleLoop(loop)
    this.liveness.waited()
  }

  private rest(loop: Loop, rest: Rest): void {
    if (rest === "soon") loop.runSoon()
    if (rest === "turn") {
      loop.runTurn()
      this.liveness.turned(this.process.system, this.kinds)
    }
    if (rest === "quiet") settleLoop(loop)
    if (loop.quiet) this.liveness.nobodyStarves(this.process.system, this.kinds)
  }

  /** Everything is mended, time passes, and everything must have come to its end. */
  private async finish(): Promise<void> {
    this.model.log("everything is mended")
    this.work.calm = true
    this.breakage.unreadable.clear()
    this.breakage.expiryFaults = 0
    const { loop, system, clients } = this.process
    for (const part of this.plan.parts) {
      const kind = part.role.definition.kind
      if (system.list(kind, 1_000).some(({ id, status }) => id === part.id && status === "failed"))
        clients.restart(part)
    }
    for (let i = 0; i < 12; i++) {
      settleLoop(loop)
      await nodeTurn()
      while (this.disk.writing && this.model.violation === undefined) {
        await this.settle()
        settleLoop(loop)
      }
      await this.wait(i === 6 ? 31_000 : 1_100)
    }
    settleLoop(loop)
    this.liveness.nobodyStarves(system, this.kinds)
    this.liveness.memoryIsDisk(system)
    this.liveness.nobodyIsForgotten(system)
    if (this.model.violation === undefined) await this.stop()
  }
}

const plainStore = (disk: Disk): Store =>
  storeOf(new Writer(disk), {
    blobs: undefined as never,
    durability: "full",
    writeFault: () => undefined,
    backup: async () => ({ entries: 0, files: 0, bytes: 0 }),
    check: async () => ({ ok: true, entries: 0, faults: [] }),
    close: async () => {}
  })

const describe = (step: Step, parts: ReadonlyArray<Part>): string => {
  const { on, salt: _, ...deed } = step
  const { role, id } = parts[on]!
  return `${role.definition.kind}/${id} ${JSON.stringify(deed)}`
}

/** Runs a plan from an empty disk to its end, or to the first broken promise. */
export const runPlan = (plan: Plan, options: RunOptions = {}): Promise<RunResult> =>
  new Simulation(plan, options).run()
