/** Runs the processes of a bench: servers on core 0 and load on core 1, where taskset is available.
 *  Guarantee: however the run ends (its end, an error, Ctrl-C), every process and the scratch folder end with
 *  it. */
import { execFileSync, spawn, type ChildProcess, type SpawnOptions } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { cpus, tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import type { Tree } from "./tree.ts"

const children = new Set<ChildProcess>()
let scratch: string | undefined

/** Makes a folder for this run, which is removed at its end. */
export const scratchFolder = (name: string): string => {
  scratch ??= mkdtempSync(join(tmpdir(), "troupe-bench-run-"))
  const folder = join(scratch, name)
  mkdirSync(folder, { recursive: true })
  return folder
}

process.on("SIGINT", () => process.exit(130))
process.on("SIGTERM", () => process.exit(143))
process.on("SIGHUP", () => process.exit(129))

process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL")
  // A killed process may write for a moment yet, hence the retries.
  if (scratch !== undefined) rmSync(scratch, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
})

/** True when processes can be pinned to one core each. */
export const pins = ((): boolean => {
  try {
    execFileSync("taskset", ["-c", "0", "true"], { stdio: "ignore" })
    return cpus().length > 1
  } catch {
    return false
  }
})()

/** Works like `spawn`, but the process ends with the run at the latest. */
export const launch = (
  command: string,
  args: ReadonlyArray<string>,
  options: SpawnOptions = {}
): ChildProcess => {
  const child = spawn(command, args, options)
  children.add(child)
  child.on("exit", () => children.delete(child))
  return child
}

/** Runs a command which prints only when it fails. */
export const runToEnd = (
  command: string,
  args: ReadonlyArray<string>,
  options: SpawnOptions = {}
): Promise<void> =>
  new Promise((resolve, reject) => {
    const child = launch(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] })
    let output = ""
    const collect = (data: Buffer): void => {
      output += String(data)
    }
    child.stdout!.on("data", collect)
    child.stderr!.on("data", collect)
    child.on("error", reject)
    child.on("close", (code) => {
      if (code === 0) resolve()
      else reject(new Error(`${command} ${args.join(" ")} ended (${String(code)})\n${output}`))
    })
  })

export const serverCore = 0
export const loadCore = 1

/** A program of bench/programs, of one tree. */
export interface Program {
  readonly tree: Tree
  readonly core: typeof serverCore | typeof loadCore
  readonly name: string
  readonly args: ReadonlyArray<string | number>
}

const labelOf = ({ name, args }: Program): string => `${name} ${args.join(" ")}`

const launchProgram = ({ tree, core, name, args }: Program): ChildProcess => {
  const words = ["--expose-gc", join(tree.programs, `${name}.js`), ...args.map(String)]
  const options: SpawnOptions = {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, TMPDIR: tree.temporary }
  }
  return pins
    ? launch("taskset", ["-c", String(core), process.execPath, ...words], options)
    : launch(process.execPath, words, options)
}

/** The user and system time of a process so far, in ms. */
export const cpuMsOf = (pid: number): number => {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8")
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  return (Number(fields[11]) + Number(fields[12])) * 10
}

export interface RunningServer {
  readonly pid: number
  /** The line begins with the server's port; anything else that a client needs follows after a space. */
  readonly firstLine: string
  kill(): void
}

/** Starts a server; resolves with the first line that it prints, when it listens. */
export const start = (program: Program): Promise<RunningServer> =>
  new Promise((resolve, reject) => {
    const child = launchProgram(program)
    child.on("error", reject)
    child.on("exit", (code) => reject(new Error(`${labelOf(program)} ended (${String(code)})`)))
    createInterface({ input: child.stdout! }).once("line", (firstLine) =>
      resolve({ pid: child.pid!, firstLine, kill: () => child.kill("SIGKILL") })
    )
  })

/** Runs a program to its end; its last line is JSON. `onConnected` is called when it prints "connected". */
export const run = async <A>(program: Program, onConnected?: () => void): Promise<A> => {
  const child = launchProgram(program)
  let output = ""
  child.stdout!.on("data", (data) => {
    output += String(data)
    if (String(data).startsWith("connected")) onConnected?.()
  })
  const code = await new Promise((resolve, reject) => {
    child.on("error", reject)
    child.on("close", resolve)
  })
  if (code !== 0) throw new Error(`${labelOf(program)} ended (${String(code)})`)
  return JSON.parse(output.trim().split("\n").at(-1)!) as A
}
