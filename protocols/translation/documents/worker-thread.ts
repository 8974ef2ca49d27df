/** A worker thread for a format: dist/workers/NAME.js, which talks in messages. It is guaranteed that its
 *  death is reported once to each listener, and that a thread with a larger heap than its limit dies alone.
 *  Formats have threads where engines have processes (actors/engines/worker.ts), because a document's bytes
 *  are handed to a thread without a copy and a thread starts in a third of the time.
 *  Source: docs/spec/documents.md, sections 10 and 11. */
import { Worker, type TransferListItem } from "node:worker_threads"
import { workerFile, type EngineWorker } from "../../../actors/engines/worker.ts"

export interface WorkerThread<In, Out> extends Omit<EngineWorker<In, Out>, "send" | "stepBack"> {
  send(message: In, transfer?: ReadonlyArray<TransferListItem>): void
}

/** The reason of the death of a thread that was killed. */
export const endedByUs = "killed"

export const startThread = <In, Out>(name: string, heapMiBMax: number): WorkerThread<In, Out> => {
  const worker = new Worker(workerFile(name), {
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: heapMiBMax }
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
      die(endedByUs)
      void worker.terminate()
    }
  }
}
