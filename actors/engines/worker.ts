/** A worker thread for a WASM or native engine: dist/workers/NAME.js, which talks in messages. It is
 *  guaranteed that its death is reported once to each listener; engines never run on the event loop.
 *  Source: docs/spec/engines.md, section 1. */
import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Worker, type TransferListItem } from "node:worker_threads"

/** Finds a worker's file beside the bundle, or in dist/ when running from the sources. */
const fileOf = (name: string): string => {
  for (const folder of ["./workers/", "../workers/", "../../dist/workers/"]) {
    const file = fileURLToPath(new URL(`${folder}${name}.js`, import.meta.url))
    if (existsSync(file)) return file
  }
  throw new Error(`the worker ${name} is not built: run npm run build`)
}

export interface EngineWorker<In, Out> {
  send(message: In, transfer?: ReadonlyArray<TransferListItem>): void
  /** Sets the listener; there is one at a time. */
  listen(listener: ((message: Out) => void) | undefined): void
  /** Calls the listener with the reason of its death; at once when it is dead already. */
  onDeath(listener: (reason: string) => void): void
  readonly dead: boolean
  kill(): void
}

/** Starts a worker. With a heap of more than `heapMiBMax` the thread dies, alone. */
export const startWorker = <In, Out>(
  name: string,
  data: unknown,
  heapMiBMax?: number
): EngineWorker<In, Out> => {
  const worker = new Worker(fileOf(name), {
    workerData: data,
    stdout: true,
    stderr: true,
    ...(heapMiBMax === undefined ? {} : { resourceLimits: { maxOldGenerationSizeMb: heapMiBMax } })
  })
  worker.unref()
  worker.stdout.resume()
  worker.stderr.resume()
  let listener: ((message: Out) => void) | undefined
  let reason: string | undefined
  const deathListeners: Array<(reason: string) => void> = []
  const die = (detail: string): void => {
    if (reason !== undefined) return
    reason = detail
    for (const onDeath of deathListeners) onDeath(detail)
  }
  worker.on("message", (message: Out) => listener?.(message))
  worker.on("error", (cause) => die(cause.message))
  worker.on("exit", (code) => die(`the worker ended with code ${code}`))
  return {
    send: (message, transfer = []) => worker.postMessage(message, transfer),
    listen: (onMessage) => {
      listener = onMessage
    },
    onDeath: (onDeath) => {
      if (reason === undefined) deathListeners.push(onDeath)
      else onDeath(reason)
    },
    get dead() {
      return reason !== undefined
    },
    kill: () => {
      die("killed")
      void worker.terminate()
    }
  }
}
