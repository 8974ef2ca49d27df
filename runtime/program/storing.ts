/** A long operation of the store as an Effect: a backup, a check. */
import { Effect } from "effect"
import { StorageFault } from "../../storage/store.ts"

/** Runs a long operation of the store; an interruption aborts it and waits until it has let go. */
export const storing = <A>(work: (signal: AbortSignal) => Promise<A>): Effect.Effect<A, StorageFault> =>
  Effect.callback<A, StorageFault>((resume, signal) => {
    const done = work(signal).then(
      (value) => resume(Effect.succeed(value)),
      (cause: unknown) => resume(cause instanceof StorageFault ? Effect.fail(cause) : Effect.die(cause))
    )
    return Effect.promise(() => done)
  })
