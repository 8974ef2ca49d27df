/** Yields to other work of the process between slices of a long task. */
import { Effect } from "effect"

/** Rejects when `signal` aborts: whoever waits for the task has gone. */
export const yieldToEventLoop = (signal?: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    setImmediate(() => {
      if (signal?.aborted === true) reject(signal.reason as Error)
      else resolve()
    })
  })

export const nextTurn: Effect.Effect<void> = Effect.callback((resume) => {
  const turn = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(turn))
})
