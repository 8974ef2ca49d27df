/** A reference to one actor: what the rest of the program holds of it. It survives the actor's passivation,
 *  its end and its restart. Guarantee: every ask is answered exactly once. Source: docs/architecture.md, "The
 *  kernel". */
import { Effect, Schema } from "effect"
import type { Commands, Definition, OuterEnds, Payload, Refusal, Reply } from "./actor.ts"
import type { Cell } from "./cell.ts"
import type { Host, Kind } from "./kind.ts"
import type { Done, Outcome } from "./mailbox.ts"
import { AskTimeout, Unavailable, type AskFault } from "./supervisor.ts"

type CommandsOf<D> = D extends Definition<any, infer Cs, any, any, any> ? Cs : never
type LanesOf<D> = D extends Definition<any, any, any, infer Ls, any> ? Ls : never

/** The answer to an ask: the reply, a refusal which the command declares, or a fault that says why there is
 *  neither. */
export type Answer<C> =
  | { readonly reply: Reply<C> }
  | { readonly refuse: Refusal<C> }
  | { readonly fault: AskFault }

/** A reference to one actor. Callers should keep it, because asking through it again costs no look-up. */
export interface Ref<D> {
  readonly kind: string
  readonly id: string
  ask<C extends keyof CommandsOf<D> & string>(
    command: C,
    payload: Payload<CommandsOf<D>[C]>,
    timeoutMs?: number
  ): Effect.Effect<Reply<CommandsOf<D>[C]>, Refusal<CommandsOf<D>[C]> | AskFault>
  /** Works like `ask`, but answers by callback and has no deadline. The callback runs in this very turn when
   *  the actor is idle and nothing has to reach the disk. */
  askNow<C extends keyof CommandsOf<D> & string>(
    command: C,
    payload: Payload<CommandsOf<D>[C]>,
    done: (answer: Answer<CommandsOf<D>[C]>) => void
  ): void
  /** Sends a command without waiting for an answer. Returns false when the command was not accepted, for
   *  example because the mailbox is full. */
  tell<C extends keyof CommandsOf<D> & string>(command: C, payload: Payload<CommandsOf<D>[C]>): boolean
  /** The outer ends of the actor's lanes. They end with the actor; those of one that cannot be in memory have
   *  ended already. */
  readonly lanes: OuterEnds<LanesOf<D>>
}

const askTimeoutMsDefault = 5_000

/** What a reference needs of the actor system. */
export interface Activator<K extends Kind> extends Host {
  readonly running: boolean
  /** Passes every message through its Schema, as it would travel between machines. */
  readonly strict: boolean
  /** Returns the live cell of an address, or undefined when the residency limit leaves no room. */
  cell(kind: K, id: string): Cell | undefined
}

export class Reference<K extends Kind> {
  readonly id: string
  private readonly system: Activator<K>
  private readonly of: K
  private held: Cell | undefined = undefined

  constructor(system: Activator<K>, of: K, id: string) {
    this.system = system
    this.of = of
    this.id = id
  }

  get kind(): string {
    return this.of.name
  }

  get lanes(): unknown {
    return this.live()?.lanes() ?? this.of.endedLanes()
  }

  private live(): Cell | undefined {
    const held = this.held
    return held !== undefined && !held.stopped ? held : (this.held = this.system.cell(this.of, this.id))
  }

  private unavailable(reason: Unavailable["reason"]): Outcome {
    return { fault: new Unavailable({ kind: this.of.name, id: this.id, reason }) }
  }

  askNow(command: string, payload: unknown, done: Done): void {
    if (!this.system.running) return this.of.tellOutcome(done, this.unavailable("stopped"))
    if (this.system.strict) payload = this.throughSchema(command, payload)
    const cell = this.live()
    if (cell === undefined) return this.of.tellOutcome(done, this.unavailable("capacity"))
    cell.ask(command, payload, done)
  }

  tell(command: string, payload: unknown): boolean {
    const cell = this.system.running ? this.live() : undefined
    if (cell === undefined) {
      this.of.deadLetter(this.id, command, this.system.running ? "capacity" : "stopped")
      return false
    }
    return cell.tell(command, this.system.strict ? this.throughSchema(command, payload) : payload)
  }

  ask(command: string, payload: unknown, timeoutMs = askTimeoutMsDefault): Effect.Effect<unknown, unknown> {
    return Effect.suspend(() => {
      let now: Outcome | undefined
      let later: ((outcome: Outcome) => void) | undefined
      this.askNow(command, payload, (outcome) => {
        if (later === undefined) now = outcome
        else later(outcome)
      })
      if (now !== undefined) return asEffect(now)
      return Effect.callback<unknown, unknown>((resume) => {
        // The fiber may have yielded meanwhile.
        if (now !== undefined) return resume(asEffect(now))
        const { system } = this
        const deadline = system.timers.after(timeoutMs, () => {
          later = ignore
          resume(Effect.fail(new AskTimeout({ kind: this.of.name, id: this.id, afterMs: timeoutMs })))
        })
        later = (outcome) => {
          later = ignore
          deadline.cancel()
          resume(asEffect(outcome))
        }
        return Effect.sync(() => {
          later = ignore
          deadline.cancel()
        })
      })
    })
  }

  private throughSchema(command: string, payload: unknown): unknown {
    const schema = (this.of.definition.commands as Commands)[command]!.payload
    return Schema.decodeUnknownSync(schema)(JSON.parse(JSON.stringify(Schema.encodeSync(schema)(payload))))
  }
}

const ignore = (): void => {}

const asEffect = (outcome: Outcome): Effect.Effect<unknown, unknown> =>
  "reply" in outcome
    ? Effect.succeed(outcome.reply)
    : Effect.fail("refuse" in outcome ? outcome.refuse : outcome.fault)
