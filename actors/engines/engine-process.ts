/** An engine that owns a process or a worker thread is a supervised actor: its activity starts it, passes its
 *  canary, and lives as long as it. Its death is a defect, so the kernel starts it again within the restart
 *  intensity. It is guaranteed that a call which was using it is tried once more, and then fails.
 *  Source: docs/spec/engines.md, section 1. */
import { Cause, Context, Deferred, Effect, Exit, Schema, type Scope, Stream } from "effect"
import { command, defineActor, persist, reply } from "../../runtime/actor.ts"
import type { ActorSystem } from "../../runtime/registry.ts"
import { EngineFault, type Readiness } from "./ports.ts"

/** A live process, for its users. */
export interface Live<Handle> {
  readonly handle: Handle
  /** Fails when it dies by itself; it never succeeds. */
  readonly death: Effect.Effect<never, EngineFault>
}

/** Starts it and passes its canary; closing the scope ends it. Fails with `unavailable` when something is
 *  missing (it is not tried again), with anything else when it may work the next time. */
export type Start<Handle> = Effect.Effect<Live<Handle>, EngineFault, Scope.Scope>

/** What an activity runs for as long as its engine lives; it says by `announceUp` that the engine can be
 *  used. */
export type EngineStart = (announceUp: () => Effect.Effect<void>) => Effect.Effect<never, EngineFault>

/** What the activities start, by actor id. */
export type EngineStartMap = Map<string, EngineStart>

export class EngineStarts extends Context.Service<EngineStarts, EngineStartMap>()(
  "actors/engines/EngineStarts"
) {}

export const EngineProcess = defineActor("engine", {
  state: Schema.TaggedUnion({
    Running: { up: Schema.Boolean },
    Stopped: {},
    Missing: { reason: Schema.String }
  }),
  event: Schema.TaggedUnion({
    CameUp: {},
    WasStarted: {},
    WasStopped: {},
    WasMissing: { reason: Schema.String }
  }),
  commands: {
    Start: command({}, { reply: Schema.Void }),
    Stop: command({}, { reply: Schema.Void }),
    CameUp: command({}, { reply: Schema.Void }),
    Miss: command({ reason: Schema.String }, { reply: Schema.Void })
  },
  keep: "memory",
  mailbox: { capacity: 64 },
  restart: { times: 5, within: "1 minute", backoff: "100 millis" },
  passivateAfter: "1 day"
}).behaves<EngineStarts>({
  initial: { _tag: "Running", up: false },
  on: {
    Running: {
      Start: () => reply(undefined),
      Stop: () => persist({ _tag: "WasStopped" }).reply(undefined),
      CameUp: () => persist({ _tag: "CameUp" }).reply(undefined),
      Miss: (_, { reason }) => persist({ _tag: "WasMissing", reason }).reply(undefined)
    },
    Stopped: {
      Start: () => persist({ _tag: "WasStarted" }).reply(undefined),
      Stop: () => reply(undefined),
      CameUp: () => reply(undefined),
      Miss: () => reply(undefined)
    },
    Missing: {
      Start: () => reply(undefined),
      Stop: () => reply(undefined),
      CameUp: () => reply(undefined),
      Miss: () => reply(undefined)
    }
  },
  evolve: {
    CameUp: (state) => (state._tag === "Running" ? { ...state, up: true } : state),
    WasStarted: () => ({ _tag: "Running", up: false }),
    WasStopped: () => ({ _tag: "Stopped" }),
    WasMissing: (_, { reason }) => ({ _tag: "Missing", reason })
  },
  activity: {
    Running: (_, { id }) =>
      Stream.unwrap(
        Effect.map(EngineStarts, (starts) => {
          let announceUp: (() => void) | undefined
          const up = new Promise<void>((resolve) => {
            announceUp = resolve
          })
          const live = starts.get(id)!(() => Effect.sync(() => announceUp!()))
          // One stream carries both: the news that it is up, and its end.
          return Stream.merge(
            Stream.map(Stream.fromEffect(Effect.promise(() => up)), () => ({ _tag: "CameUp" as const })),
            Stream.catch(Stream.fromEffect(live), (fault: EngineFault) =>
              fault.reason === "unavailable"
                ? Stream.succeed({ _tag: "Miss" as const, reason: fault.detail })
                : Stream.die(fault)
            ),
            { haltStrategy: "right" }
          )
        })
      )
  }
})

export interface Supervised<Handle> {
  readonly id: string
  /** Lends the live handle; a user whose engine crashes under it is tried once more with the next. */
  readonly use: <A>(
    work: (handle: Handle) => Effect.Effect<A, EngineFault>,
    deadlineMs?: number
  ) => Effect.Effect<A, EngineFault>
  readonly readiness: () => Readiness
  /** True once it is given up: something is missing, its canary fails, or it crashed too often. A restart by
   *  hand clears it. */
  readonly lost: () => boolean
  /** True while somebody uses it, or waits for it. */
  readonly busy: () => boolean
  readonly start: () => void
  readonly stop: () => void
}

export interface SuperviseOptions<Handle> {
  readonly system: ActorSystem
  readonly starts: EngineStartMap
  /** The actor's id, which names the engine in faults. */
  readonly id: string
  readonly start: Start<Handle>
}

const deadlineMsDefault = 10_000

/** A process that misses a deadline by so much, and answers nobody meanwhile, is ended and started again. */
const overdueMs = 2_000

/** So many callers wait for a start at once. */
const waitersMax = 256

/** One start of the process, which its users share. */
interface Lease<Handle> {
  readonly handle: Handle
  /** How many users it has answered. */
  answers: number
  /** Ends it because it is silent. */
  readonly end: () => void
}

class SupervisedEngine<Handle> implements Supervised<Handle> {
  readonly id: string
  private readonly system: ActorSystem
  private live: Lease<Handle> | undefined

  /** Why it is not live, for the operator. */
  private reason = "not started yet"

  /** Why it was given up. */
  private lostFault: EngineFault | undefined

  private users = 0
  private readonly waiting = new Set<Deferred.Deferred<Lease<Handle>, EngineFault>>()

  constructor({ system, starts, id, start }: SuperviseOptions<Handle>) {
    this.id = id
    this.system = system
    starts.set(id, (announceUp) => this.run(start, announceUp))
    this.watch()
  }

  /** Runs one start until its death, and notes why it ended. */
  private run(
    start: Start<Handle>,
    announceUp: () => Effect.Effect<void>
  ): Effect.Effect<never, EngineFault> {
    // An end for its silence is ours and no crash: it is followed by the next start.
    const life = Effect.scoped(
      Effect.gen({ self: this }, function* () {
        this.lostFault = undefined
        const { handle, death } = yield* start
        const ended = Deferred.makeUnsafe<void>()
        const lease = {
          handle,
          answers: 0,
          end: () => {
            this.reason = "it answered nobody any more"
            Deferred.doneUnsafe(ended, Exit.void)
          }
        }
        this.live = lease
        this.settle(Exit.succeed(lease))
        yield* announceUp()
        yield* Effect.raceFirst(death, Deferred.await(ended))
      })
    )
    return Effect.forever(Effect.onExit(life, (exit) => Effect.sync(() => this.onExit(exit))))
  }

  private onExit(exit: Exit.Exit<void, EngineFault>): void {
    this.live = undefined
    const fault = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
    if (!(fault instanceof EngineFault)) return
    this.reason = fault.detail
    if (fault.reason === "unavailable") this.giveUp(fault)
  }

  /** Gives up when the actor has failed for good, and goes on watching it. */
  private watch(): void {
    this.system.watch("engine", this.id, (ending) => {
      if (ending === "failed") this.failedTooOften()
      this.watch()
    })
  }

  private fault(reason: EngineFault["reason"], detail: string): EngineFault {
    return new EngineFault({ reason, engine: this.id, detail })
  }

  private giveUp(fault: EngineFault): void {
    this.lostFault = fault
    this.reason = fault.detail
    this.settle(Exit.fail(fault))
  }

  private failedTooOften(): void {
    this.giveUp(this.fault("unavailable", `failed too often: ${this.reason}`))
  }

  /** Answers everybody who waits for a start. */
  private settle(exit: Exit.Exit<Lease<Handle>, EngineFault>): void {
    const waiters = [...this.waiting]
    this.waiting.clear()
    for (const waiter of waiters) Deferred.doneUnsafe(waiter, exit)
  }

  readonly start = (): void => {
    if (!this.system.ref(EngineProcess, this.id).tell("Start", {})) this.failedTooOften()
  }

  readonly stop = (): void => {
    this.system.ref(EngineProcess, this.id).tell("Stop", {})
    this.live = undefined
    this.reason = "stopped"
  }

  readonly readiness = (): Readiness =>
    this.live !== undefined ? { ready: true } : { ready: false, reason: this.reason }

  readonly lost = (): boolean => this.lostFault !== undefined

  readonly busy = (): boolean => this.users > 0

  /** Returns the live start, or waits for the next one. */
  private readonly lease: Effect.Effect<Lease<Handle>, EngineFault> = Effect.suspend(() => {
    if (this.live !== undefined) return Effect.succeed(this.live)
    if (this.lostFault !== undefined) return Effect.fail(this.lostFault)
    if (this.waiting.size >= waitersMax)
      return Effect.fail(this.fault("overloaded", "too many callers wait for its start"))
    const waiter = Deferred.makeUnsafe<Lease<Handle>, EngineFault>()
    this.waiting.add(waiter)
    if (this.waiting.size === 1) this.start()
    return Effect.onInterrupt(Deferred.await(waiter), () =>
      Effect.sync(() => {
        this.waiting.delete(waiter)
      })
    )
  })

  /** Ends a start that has missed a deadline, its users' or its own, unless it answers somebody within a little
   *  longer. */
  private endIfSilent(late: Lease<Handle>): void {
    const { answers } = late
    this.system.timers.after(overdueMs, () => {
      if (late.answers === answers) late.end()
    })
  }

  /** Notes an answer. Users learn of its death before its scope is closed: the next try must not get the dead
   *  one. */
  private onAnswer(lease: Lease<Handle>, exit: Exit.Exit<unknown, EngineFault>): void {
    if (Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)) return
    lease.answers++
    if (Exit.isFailure(exit) && this.live === lease && crashed(exit.cause)) this.live = undefined
  }

  readonly use = <A>(
    work: (handle: Handle) => Effect.Effect<A, EngineFault>,
    deadlineMs = deadlineMsDefault
  ): Effect.Effect<A, EngineFault> =>
    Effect.suspend(() => {
      let current: Lease<Handle> | undefined
      let answers = 0
      const startedMs = this.system.monotonicMs()
      this.users++
      const once = Effect.flatMap(this.lease, (lease) => {
        current = lease
        answers = lease.answers
        return Effect.onExit(work(lease.handle), (exit) => Effect.sync(() => this.onAnswer(lease, exit)))
      })
      return once.pipe(
        Effect.catch((fault: EngineFault) => (fault.reason === "crashed" ? once : Effect.fail(fault))),
        Effect.timeoutOrElse({
          duration: deadlineMs,
          orElse: () =>
            Effect.suspend(() => {
              if (current !== undefined) this.endIfSilent(current)
              return Effect.fail(this.fault("timeout", `no answer within ${deadlineMs} ms`))
            })
        }),
        // Users have deadlines of their own, mostly shorter: one that goes after it has waited in vain tells the
        // same of the engine.
        Effect.onInterrupt(() =>
          Effect.sync(() => {
            const waitedMs = this.system.monotonicMs() - startedMs
            if (current?.answers === answers && waitedMs >= overdueMs) this.endIfSilent(current)
          })
        ),
        Effect.ensuring(
          Effect.sync(() => {
            this.users--
          })
        )
      )
    })
}

/** Makes an engine supervised; it is started by its first user, or by `start`. */
export const supervise = <Handle>(options: SuperviseOptions<Handle>): Supervised<Handle> =>
  new SupervisedEngine(options)

const crashed = (cause: Cause.Cause<EngineFault>): boolean => {
  const fault = Cause.squash(cause)
  return fault instanceof EngineFault && fault.reason === "crashed"
}
