/** The worker of a WASM or native engine: dist/workers/NAME.js in a process of its own, which talks in
 *  messages. It is guaranteed that a crash of an engine's native code ends that process alone, that its death
 *  is reported once to each listener, and that no worker outlives the server. The worker's own end is
 *  actors/engines/worker-port.ts. Source: docs/spec/engines.md, section 1. */
import { fork, type ChildProcess } from "node:child_process"
import { existsSync } from "node:fs"
import { constants, setPriority } from "node:os"
import { fileURLToPath } from "node:url"
import type { UncaughtError } from "./worker-port.ts"

/** Finds a worker's file beside the bundle, or in dist/ when running from the sources. */
export const workerFile = (name: string): string => {
  for (const folder of ["./workers/", "../workers/", "../../dist/workers/"]) {
    const file = fileURLToPath(new URL(`${folder}${name}.js`, import.meta.url))
    if (existsSync(file)) return file
  }
  throw new Error(`the worker ${name} is not built: run npm run build`)
}

export interface EngineWorker<In, Out> {
  send(message: In): void
  /** Sets the listener; there is one at a time. */
  listen(listener: ((message: Out) => void) | undefined): void
  /** Calls the listener with the reason of its death; at once when it is dead already. */
  onDeath(listener: (reason: string) => void): void
  readonly dead: boolean
  kill(): void
  /** From now on it gets the processor when nobody else wants it. */
  stepBack(): void
}

/** What a worker's environment has of ours: where things lie and how to speak, but no setting of the service,
 *  so no secret. */
const environmentNames = [
  "PATH",
  "HOME",
  "TMPDIR",
  "LANG",
  "LC_ALL",
  "TZ",
  "LD_LIBRARY_PATH",
  "DYLD_LIBRARY_PATH",
  "CUDA_VISIBLE_DEVICES"
]

const workerEnvironment = (): Record<string, string> => {
  const environment: Record<string, string> = {}
  for (const name of environmentNames) {
    const value = process.env[name]
    if (value !== undefined) environment[name] = value
  }
  return environment
}

class WorkerProcess<In extends object, Out extends object> implements EngineWorker<In, Out> {
  private readonly child: ChildProcess
  private listener: ((message: Out) => void) | undefined
  private reason: string | undefined
  private uncaught: string | undefined
  private readonly deathListeners: Array<(reason: string) => void> = []

  constructor(name: string, options: unknown) {
    const child = fork(workerFile(name), [JSON.stringify(options ?? {})], {
      serialization: "advanced",
      // Without this the child would run with our own flags, a debugger's port included.
      execArgv: [],
      env: workerEnvironment(),
      stdio: ["ignore", "ignore", "ignore", "ipc"]
    })
    this.child = child
    // An engine that is up does not keep a program alive that has nothing else to do.
    child.unref()
    child.channel?.unref()
    child.on("message", (message) => this.receive(message as Out | UncaughtError))
    child.on("error", (cause) => this.die(cause.message))
    child.on("exit", (code, signal) => this.die(this.uncaught ?? `the worker ended with ${signal ?? code}`))
  }

  get dead(): boolean {
    return this.reason !== undefined
  }

  private receive(message: Out | UncaughtError): void {
    if ("uncaughtError" in message) this.uncaught = message.uncaughtError
    else this.listener?.(message)
  }

  private die(reason: string): void {
    if (this.reason !== undefined) return
    this.reason = reason
    // A process that cannot be talked to is of no use, whatever else it does.
    this.child.kill("SIGKILL")
    for (const onDeath of this.deathListeners) onDeath(reason)
  }

  send(message: In): void {
    if (this.reason === undefined && this.child.connected) this.child.send(message)
  }

  listen(listener: ((message: Out) => void) | undefined): void {
    this.listener = listener
  }

  onDeath(listener: (reason: string) => void): void {
    if (this.reason === undefined) this.deathListeners.push(listener)
    else listener(this.reason)
  }

  kill(): void {
    this.die("killed")
  }

  stepBack(): void {
    try {
      if (this.child.pid !== undefined) setPriority(this.child.pid, constants.priority.PRIORITY_BELOW_NORMAL)
    } catch {
      /* it has ended already, or the system does not allow it */
    }
  }
}

/** Starts a worker with options, which it gets as JSON. */
export const startWorker = <In extends object, Out extends object>(
  name: string,
  options: unknown
): EngineWorker<In, Out> => new WorkerProcess(name, options)
