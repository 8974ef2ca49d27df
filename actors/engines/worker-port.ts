/** The end of the connection that an engine's worker holds (actors/engines/worker.ts): its options, and the
 *  messages from and to the server. It is guaranteed that the worker ends when the server does, whatever it
 *  ends by, and only then: a signal to the whole group, such as Ctrl-C, is the server's to answer, which may
 *  still finish what it has begun.
 *  Source: docs/spec/engines.md, section 1. */

/** The last message of a worker, which ends by an error that nothing caught. */
export interface UncaughtError {
  readonly uncaughtError: string
}

/** The options of `startWorker`. */
export const workerOptions = <Options>(): Options => JSON.parse(process.argv[2]!) as Options

export const post = <Out extends object>(message: Out): void => {
  process.send?.(message)
}

/** Calls the listener with each message of the server, in order. */
export const onMessage = <In>(listener: (message: In) => void): void => {
  process.on("message", (message) => listener(message as In))
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {})

process.on("disconnect", () => process.exit())

process.on("uncaughtException", (cause: unknown) => {
  const uncaughtError = cause instanceof Error ? cause.message : String(cause)
  if (process.send === undefined) return process.exit(1)
  process.send({ uncaughtError } satisfies UncaughtError, () => process.exit(1))
})
