/** An engine that owns a process or a worker is a supervised actor: its activity starts it, passes its
 *  canary, and lives as long as it. Its death is a defect, so the kernel starts it again within the restart
 *  intensity; who was using it is tried once more, then told.
 *  Source: design section 7, spec engines section 1. */
import { Cause, Context, Deferred, Effect, Exit, Schema, type Scope, Stream } from "effect"
import { command, defineActor, persist, reply } from "../../runtime/actor.ts"
import type { ActorSystem } from "../../runtime/registry.ts"
import { EngineFault, type Readiness } from "./ports.ts"

/** A live process or worker, in the hands of its users. */
export interface Live<Handle> {
  readonly handle: Handle
  /** Fails when it dies by itself; never succeeds. */
  readonly death: Effect.Effect<never, EngineFault>
}

/** Starts it and passes its canary; closing the scope ends it. Fails with `unavailable` when something is
 *  missing (it is not tried again), with anything else when it may work the next time. */
export type Start<Handle> = Effect.Effect<Live<Handle>, EngineFault, Scope.Scope>

/** What the activities start, by actor id. */
export class EngineStarts extends Context.Service<
  EngineStarts,
  Map<string, (up: () => Effect.Effect<void>) => Effect.Effect<never, EngineFault>>
>()("actors/engines/EngineStarts") {}

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
          let announce: (() => void) | undefined
          const up = new Promise<void>((resolve) => {
            announce = resolve
          })
          const live = starts.get(id)!(() => Effect.sync(() => announce!()))
          // One stream for both: the news that it is up, and its end.
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
  /** Somebody uses it, or waits for it. */
  readonly busy: () => boolean
  readonly start: () => void
  readonly stop: () => void
}

const deadlineMsDefault = 10_000

/** A process that misses a deadline by so much, and answers nobody meanwhile, is ended and started again. */
const overdueMs = 2_000

/** Callers waiting for a start at once. */
const waitersMax = 256

/** One start of the process, in the hands of its users. */
interface Lent<Handle> {
  readonly handle: Handle
  answers: number
  readonly end: (fault: EngineFault) => void
}

export const supervise = <Handle>(
  system: ActorSystem,
  starts: Map<string, any>,
  id: string,
  begin: Start<Handle>
): Supervised<Handle> => {
  const ref = () => system.ref(EngineProcess, id)
  let live: Lent<Handle> | undefined
  let why = "not started yet"
  let over: EngineFault | undefined
  let users = 0
  const waiting = new Set<Deferred.Deferred<Lent<Handle>, EngineFault>>()
  const settle = (exit: Exit.Exit<Lent<Handle>, EngineFault>): void => {
    const settled = [...waiting]
    waiting.clear()
    for (const waiter of settled) Deferred.doneUnsafe(waiter, exit)
  }
  const faultOf = (reason: EngineFault["reason"], detail: string): EngineFault =>
    new EngineFault({ reason, engine: id, detail })
  const giveUp = (fault: EngineFault): void => {
    over = fault
    why = fault.detail
    settle(Exit.fail(fault))
  }
  const failed = (): void => giveUp(faultOf("unavailable", `failed too often: ${why}`))

  starts.set(id, (up: () => Effect.Effect<void>) =>
    Effect.scoped(
      Effect.gen(function* () {
        over = undefined
        const { handle, death } = yield* begin
        const ended = Deferred.makeUnsafe<never, EngineFault>()
        live = { handle, answers: 0, end: (fault) => Deferred.doneUnsafe(ended, Exit.fail(fault)) }
        settle(Exit.succeed(live))
        yield* up()
        return yield* Effect.raceFirst(death, Deferred.await(ended))
      })
    ).pipe(
      Effect.onExit((exit) =>
        Effect.sync(() => {
          live = undefined
          const fault = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
          if (fault instanceof EngineFault) {
            why = fault.detail
            if (fault.reason === "unavailable") giveUp(fault)
          }
        })
      )
    )
  )
  const start = (): void => {
    if (!ref().tell("Start", {})) failed()
  }
  const watch = (): void => {
    system.watch("engine", id, (ending) => {
      if (ending === "failed") failed()
      watch()
    })
  }
  watch()

  const lend: Effect.Effect<Lent<Handle>, EngineFault> = Effect.suspend(() => {
    if (live !== undefined) return Effect.succeed(live)
    if (over !== undefined) return Effect.fail(over)
    if (waiting.size >= waitersMax)
      return Effect.fail(faultOf("overloaded", "too many callers wait for its start"))
    const waiter = Deferred.makeUnsafe<Lent<Handle>, EngineFault>()
    waiting.add(waiter)
    if (waiting.size === 1) start()
    return Effect.onInterrupt(Deferred.await(waiter), () =>
      Effect.sync(() => {
        waiting.delete(waiter)
      })
    )
  })
  /** Late by a deadline: it gets a little longer, and then has to have answered somebody. */
  const watchOver = (late: Lent<Handle>): void => {
    const { answers } = late
    system.timers.schedule(system.nowMs() + overdueMs, () => {
      if (late.answers === answers) late.end(faultOf("crashed", "it answered nobody any more"))
    })
  }
  return {
    id,
    start,
    stop: () => {
      ref().tell("Stop", {})
      live = undefined
      why = "stopped"
    },
    readiness: () => (live !== undefined ? { ready: true } : { ready: false, reason: why }),
    lost: () => over !== undefined,
    busy: () => users > 0,
    use: (work, deadlineMs = deadlineMsDefault) =>
      Effect.suspend(() => {
        let user: Lent<Handle> | undefined
        users++
        const once = Effect.flatMap(lend, (lent) => {
          user = lent
          return Effect.onExit(work(lent.handle), (exit) =>
            Effect.sync(() => {
              if (Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)) return
              lent.answers++
              // Its users hear of its death before its scope is closed: the next try must not be lent the
              // dead.
              if (Exit.isFailure(exit) && live === lent && crashed(exit.cause)) live = undefined
            })
          )
        })
        return once.pipe(
          Effect.catch((fault: EngineFault) => (fault.reason === "crashed" ? once : Effect.fail(fault))),
          Effect.timeoutOrElse({
            duration: deadlineMs,
            orElse: () =>
              Effect.suspend(() => {
                if (user !== undefined) watchOver(user)
                return Effect.fail(faultOf("timeout", `no answer within ${deadlineMs} ms`))
              })
          }),
          Effect.ensuring(
            Effect.sync(() => {
              users--
            })
          )
        )
      })
  }
}

const crashed = (cause: Cause.Cause<EngineFault>): boolean => {
  const fault = Cause.squash(cause)
  return fault instanceof EngineFault && fault.reason === "crashed"
}
