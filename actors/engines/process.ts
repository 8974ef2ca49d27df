/** An engine that owns a process or a worker is a supervised actor: its activity starts it, passes its canary, and lives as long as it.
 *  Its death is a defect, so the kernel starts it again within the restart intensity; who was using it is tried once more, then told.
 *  Source: design section 7, spec engines section 1. */
import { Cause, Context, Deferred, Effect, Exit, Schema, type Scope, Stream } from "effect"
import { command, named, persist, reply } from "../../runtime/actor.ts"
import type { ActorSystem } from "../../runtime/registry.ts"
import { EngineFault, type Readiness } from "./ports.ts"

/** A live process or worker, in the hands of its users. */
export interface Live<Handle> {
  readonly handle: Handle
  /** Fails when it dies by itself; never succeeds. */ readonly death: Effect.Effect<never, EngineFault>
}
/** Starts it and passes its canary; closing the scope ends it. Fails with `unavailable` when something is missing (it is not tried
 *  again), with anything else when it may work the next time. */
export type Start<Handle> = Effect.Effect<Live<Handle>, EngineFault, Scope.Scope>

/** What the activities start, by actor id. */
export class EngineStarts extends Context.Service<EngineStarts, Map<string, (up: () => Effect.Effect<void>) => Effect.Effect<never, EngineFault>>>()("actors/engines/EngineStarts") {}

export const EngineProcess = named("engine", {
  state: Schema.TaggedUnion({ Running: { up: Schema.Boolean }, Stopped: {}, Missing: { reason: Schema.String } }),
  event: Schema.TaggedUnion({ CameUp: {}, WasStarted: {}, WasStopped: {}, WasMissing: { reason: Schema.String } }),
  commands: {
    Start: command({}, { reply: Schema.Void }), Stop: command({}, { reply: Schema.Void }),
    CameUp: command({}, { reply: Schema.Void }), Miss: command({ reason: Schema.String }, { reply: Schema.Void })
  },
  keep: "memory", mailbox: { capacity: 64 },
  restart: { times: 5, within: "1 minute", backoff: "100 millis" },
  passivateAfter: "1 day"
}).behaves<EngineStarts>({
  initial: { _tag: "Running", up: false },
  on: {
    Running: {
      Start: () => reply(undefined), Stop: () => persist({ _tag: "WasStopped" }).reply(undefined),
      CameUp: () => persist({ _tag: "CameUp" }).reply(undefined), Miss: (_, { reason }) => persist({ _tag: "WasMissing", reason }).reply(undefined)
    },
    Stopped: { Start: () => persist({ _tag: "WasStarted" }).reply(undefined), Stop: () => reply(undefined), CameUp: () => reply(undefined), Miss: () => reply(undefined) },
    Missing: { Start: () => reply(undefined), Stop: () => reply(undefined), CameUp: () => reply(undefined), Miss: () => reply(undefined) }
  },
  evolve: {
    CameUp: (state) => state._tag === "Running" ? { ...state, up: true } : state,
    WasStarted: () => ({ _tag: "Running", up: false }),
    WasStopped: () => ({ _tag: "Stopped" }),
    WasMissing: (_, { reason }) => ({ _tag: "Missing", reason })
  },
  activity: {
    Running: (_, { id }) => Stream.unwrap(Effect.map(EngineStarts, (starts) => {
      let announce: (() => void) | undefined
      const up = new Promise<void>((resolve) => { announce = resolve })
      const live = starts.get(id)!(() => Effect.sync(() => announce!()))
      // One stream for both: the news that it is up, and its end.
      return Stream.merge(
        Stream.map(Stream.fromEffect(Effect.promise(() => up)), () => ({ _tag: "CameUp" as const })),
        Stream.catch(Stream.fromEffect(live), (fault: EngineFault) =>
          fault.reason === "unavailable" ? Stream.succeed({ _tag: "Miss" as const, reason: fault.detail }) : Stream.die(fault)),
        { haltStrategy: "right" })
    }))
  }
})

export interface Supervised<Handle> {
  readonly id: string
  /** Lends the live handle; a user whose engine crashes under it is tried once more with the next. */
  readonly use: <A>(work: (handle: Handle) => Effect.Effect<A, EngineFault>, deadlineMs?: number) => Effect.Effect<A, EngineFault>
  readonly readiness: () => Readiness
  readonly start: () => void
  readonly stop: () => void
}
const deadlineMsDefault = 10_000
/** Callers waiting for a start at once. */
const waitersMax = 256

export const supervise = <Handle>(system: ActorSystem, starts: Map<string, any>, id: string, begin: Start<Handle>): Supervised<Handle> => {
  const ref = () => system.ref(EngineProcess, id)
  let live: { readonly handle: Handle } | undefined
  let why = "not started yet"
  let over: EngineFault | undefined
  let waiting: Array<Deferred.Deferred<Handle, EngineFault>> = []
  const settle = (exit: Exit.Exit<Handle, EngineFault>): void => {
    const settled = waiting
    waiting = []
    for (const waiter of settled) Deferred.doneUnsafe(waiter, exit)
  }
  const giveUp = (fault: EngineFault): void => { over = fault; why = fault.detail; settle(Exit.fail(fault)) }
  const unavailable = (detail: string): EngineFault => new EngineFault({ reason: "unavailable", engine: id, detail })

  starts.set(id, (up: () => Effect.Effect<void>) => Effect.scoped(Effect.gen(function* () {
    over = undefined
    const { handle, death } = yield* begin
    live = { handle }
    settle(Exit.succeed(handle))
    yield* up()
    return yield* death
  })).pipe(Effect.onExit((exit) => Effect.sync(() => {
    live = undefined
    const fault = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
    if (fault instanceof EngineFault) { why = fault.detail; if (fault.reason === "unavailable") giveUp(fault) }
  }))))
  const start = (): void => {
    if (ref().tell("Start", {})) return
    giveUp(unavailable(`failed too often: ${why}`))
  }
  const watch = (): void => { system.watch("engine", id, (ending) => { if (ending === "failed") giveUp(unavailable(`failed too often: ${why}`)); watch() }) }
  watch()

  const handle: Effect.Effect<Handle, EngineFault> = Effect.suspend(() => {
    if (live !== undefined) return Effect.succeed(live.handle)
    if (over !== undefined) return Effect.fail(over)
    if (waiting.length >= waitersMax) return Effect.fail(new EngineFault({ reason: "overloaded", engine: id, detail: "too many callers wait for its start" }))
    const waiter = Deferred.makeUnsafe<Handle, EngineFault>()
    waiting.push(waiter)
    start()
    return Deferred.await(waiter)
  })
  return {
    id, start,
    stop: () => { ref().tell("Stop", {}); live = undefined; why = "stopped" },
    readiness: () => live !== undefined ? { ready: true } : { ready: false, reason: why },
    use: (work, deadlineMs = deadlineMsDefault) => {
      const once = Effect.flatMap(handle, work)
      return once.pipe(
        Effect.catch((fault: EngineFault) => fault.reason === "crashed" ? once : Effect.fail(fault)),
        Effect.timeoutOrElse({ duration: deadlineMs, orElse: () => Effect.fail(new EngineFault({ reason: "timeout", engine: id, detail: `no answer within ${deadlineMs} ms` })) }))
    }
  }
}
