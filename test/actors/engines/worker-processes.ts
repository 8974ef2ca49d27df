/** The engines' worker processes as a test sees them: all that this process starts, and their crash. */
import type { ChildProcess } from "node:child_process"
import { subscribe } from "node:diagnostics_channel"

/** Every process that is started from now on, in the order of their start. */
export const workerProcesses = (): ReadonlyArray<ChildProcess> => {
  const started: Array<ChildProcess> = []
  subscribe("child_process", (message) => {
    started.push((message as { readonly process: ChildProcess }).process)
  })
  return started
}

/** Ends a process as a crash of its native code would. */
export const endBySignal = (child: ChildProcess, signal: NodeJS.Signals): Promise<void> =>
  new Promise((resolve) => {
    child.once("exit", () => resolve())
    child.kill(signal)
  })
