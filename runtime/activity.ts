/** The activity of an actor's phase: a fiber that is started when the phase is durable, interrupted when the
 *  phase is left, and started again after a crash. Guarantee: one activity of an actor runs at a time; one
 *  that has finished is not run again before its phase is entered anew; what it tells its own actor is
 *  handled, whatever the mailbox holds and however often the disk refuses. Source: docs/architecture.md, "The
 *  life of a cell". */
import { Cause, Effect, Exit, Fiber, Stream } from "effect"
import type { Kind } from "./kind.ts"
import type { Done } from "./mailbox.ts"
import { backoffOf } from "./supervisor.ts"
import type { Timer } from "./timers.ts"

type Tagged = { readonly _tag: string }

/** The actor to which an activity belongs. */
export interface Performer {
  readonly kind: Kind
  readonly id: string
  readonly state: Tagged
  lanes(): Record<string, unknown>
  /** Hears of a defect of the activity. */
  crash(defect: unknown): void
  /** Asks as the actor's own activity: the mailbox has room for it, because there is one at a time. */
  askSelf(command: string, payload: unknown, done: Done): void
}

/** How long an activity waits before it tells again what the disk has refused. */
const retryRest = { firstMs: 50, maxMs: 5_000 }

export class PhaseActivity {
  private readonly performer: Performer
  private fiber: Fiber.Fiber<void> | undefined

  /** The phase whose activity runs, rests or has finished; undefined when there is none. */
  private phase: string | undefined

  private finished = false

  /** Counts what was asked of it. A start that is no longer the newest does nothing. */
  private turn = 0

  /** The phase that rests after a crash, and until when. Another phase begins at once. */
  private restPhase: string | undefined
  private restUntilMs = -Infinity
  private rest: Timer | undefined

  constructor(performer: Performer) {
    this.performer = performer
  }

  get isRunning(): boolean {
    return this.fiber !== undefined
  }

  /** True when it runs or rests before it runs again. */
  get isPending(): boolean {
    return this.fiber !== undefined || this.rest !== undefined
  }

  /** True when it has come to its end in a phase that the actor has not left. */
  get hasFinished(): boolean {
    return this.finished
  }

  /** Completes when the running activity has ended; a clean shutdown waits for it. */
  get ended(): Effect.Effect<void> {
    return this.fiber === undefined ? Effect.void : Effect.asVoid(Fiber.await(this.fiber))
  }

  /** Makes the activity that of `state`'s phase: the one of this phase goes on, any other is interrupted. */
  enter(state: Tagged): void {
    if (this.phase === state._tag) return
    const before = this.fiber
    this.stop()
    if (this.performer.kind.activityOf(state) === undefined) return
    this.phase = state._tag
    if (state._tag !== this.restPhase) this.restUntilMs = -Infinity
    const { turn } = this
    const start = (): void => this.startAfterRest(state, turn)
    if (before === undefined) start()
    else before.addObserver(start)
  }

  /** Interrupts the activity. The next one waits until it has ended. */
  stop(): void {
    this.turn++
    this.phase = undefined
    this.finished = false
    this.rest?.cancel()
    this.rest = undefined
    this.fiber?.interruptUnsafe()
  }

  /** Interrupts the activity. The next one of its phase waits `restMs` besides. */
  stopFor(restMs: number): void {
    this.restPhase = this.phase
    this.stop()
    this.restUntilMs = this.performer.kind.system.monotonicMs() + restMs
  }

  private startAfterRest(state: Tagged, turn: number): void {
    if (turn !== this.turn) return
    const { system } = this.performer.kind
    const restMs = this.restUntilMs - system.monotonicMs()
    if (restMs <= 0) return this.start(state, turn)
    this.rest = system.timers.after(restMs, () => {
      this.rest = undefined
      this.start(state, turn)
    })
  }

  private start(state: Tagged, turn: number): void {
    const { performer } = this
    const { kind, id } = performer
    const work = Effect.suspend(() => {
      // The state of the same phase may have moved on meanwhile.
      const current = performer.state._tag === state._tag ? performer.state : state
      const commands: Stream.Stream<Tagged> = kind.activityOf(current)(current, {
        id,
        lanes: performer.lanes()
      })
      return Stream.runForEach(commands, ({ _tag, ...payload }) => this.tellSelf(_tag, payload, 1))
    })
    const fiber = kind.fork(work)
    this.fiber = fiber
    fiber.addObserver((exit) => {
      if (this.fiber === fiber) this.fiber = undefined
      if (turn !== this.turn) return
      if (Exit.isSuccess(exit)) this.finished = true
      else performer.crash(Cause.squash(exit.cause))
    })
  }

  /** Tells the activity's own actor, and completes when the command is decided and durable, so that the
   *  activity cannot run ahead of the disk. A commit that storage lost is told again; after any other fault
   *  the actor has crashed, and interrupts this activity. */
  private tellSelf(command: string, payload: unknown, attempt: number): Effect.Effect<void> {
    const { performer } = this
    const { system } = performer.kind
    return Effect.callback((resume) => {
      let retry: Timer | undefined
      performer.askSelf(command, payload, (outcome) => {
        if (!("fault" in outcome)) return resume(Effect.void)
        if (outcome.fault._tag !== "Unavailable" || outcome.fault.reason !== "storage") return
        const restMs = backoffOf(attempt, retryRest, system)
        retry = system.timers.after(restMs, () => resume(this.tellSelf(command, payload, attempt + 1)))
      })
      return Effect.sync(() => retry?.cancel())
    })
  }
}
