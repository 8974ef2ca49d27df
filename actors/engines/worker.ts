/** A worker thread for a WASM or native engine: it runs dist/workers/NAME.js and exchanges messages. Its
 *  death is reported once. Engines never run on the event loop. Source: docs/spec/engines.md, section 1. */
import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Worker, type TransferListItem } from "node:worker_threads"

/** Locates the worker's file beside the bundle, or in dist/ when the program runs from its sources. */
const fileOf = (name: string): string => {
  for (const place of ["./workers/", "../workers/", "../../dist/workers/"]) {
    const file = fileURLToPath(new URL(`${place}${name}.js`, import.meta.url))
    if (existsSync(file)) return file
  }
  throw new Error(`the worker ${name} is not built: run npm run build`)
}

export interface EngineWorker<In, Out> {
  send(message: In, transfer?: ReadonlyArray<TransferListItem>): void
  /** Sets the listener for messages; there is one at a time. */
  listen(heard: ((message: Out) => void) | undefined): void
  /** Calls back with the reason of the worker's death, at once when it is dead already. */
  onDeath(died: (reason: string) => void): void
  readonly dead: boolean
  kill(): void
}

/** Starts a worker. When its heap exceeds `heapMiBMax`, that thread alone dies. */
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
  const mourners: Array<(reason: string) => void> = []
  const die = (why: string): void => {
    if (reason !== undefined) return
    reason = why
    for (const died of mourners) died(why)
  }
  worker.on("message", (message: Out) => listener?.(message))
  worker.on("error", (cause) => die(cause.message))
  worker.on("exit", (code) => die(`the worker ended with code ${code}`))
  return {
    send: (message, transfer = []) => worker.postMessage(message, transfer),
    listen: (heard) => {
      listener = heard
    },
    onDeath: (died) => {
      if (reason === undefined) mourners.push(died)
      else died(reason)
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
