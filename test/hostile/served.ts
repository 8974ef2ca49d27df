/** The built program as a child process of a long run: its log as parsed lines, its command line, what the
 *  system says of it. */
import { execFile, spawn, type ChildProcess } from "node:child_process"
import { readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"

/** Of this file, and of its bundle in a folder below dist/. */
export const root = new URL("../..", import.meta.url).pathname
const script = join(root, "runtime/bin/troupe.mjs")

export interface LogLine {
  readonly level?: string
  readonly message?: string
  readonly traceId?: string
  readonly status?: number
  readonly of?: string
  readonly suppressed?: number
  /** What is no JSON. */
  readonly raw?: string
}

export interface Secrets {
  readonly developerKey: string
  readonly operatorToken: string
  readonly storeToken: string
  readonly storeUser: string
  readonly storePassword: string
  readonly oauthAdminKey: string
  readonly oauthClientId: string
  readonly oauthClientSecret: string
  readonly oauthUser: string
  readonly oauthPassword: string
}

export interface ServedOptions {
  readonly home: string
  readonly port: number
  readonly env: Readonly<Record<string, string>>
  readonly onLine: (line: LogLine) => void
}

const parsed = (text: string): LogLine => {
  try {
    return JSON.parse(text) as LogLine
  } catch {
    return { raw: text }
  }
}

const running = new Set<ChildProcess>()

process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL")
})

const spawned = ({ home, port, env: more }: ServedOptions) => {
  const env = {
    PATH: process.env["PATH"] ?? "",
    TROUPE_DATA: join(home, "data"),
    TROUPE_PORT: String(port),
    ...more
  }
  const child = spawn(process.execPath, [script, "serve"], { env, cwd: home })
  running.add(child)
  child.on("close", () => running.delete(child))
  return { child, env }
}

export class Served {
  readonly port: number
  readonly process: ChildProcess
  readonly exited: Promise<number | null>
  private readonly env: Readonly<Record<string, string>>
  private readonly home: string

  private constructor(
    { home }: ServedOptions,
    env: Readonly<Record<string, string>>,
    child: ChildProcess,
    { port, exited }: { readonly port: number; readonly exited: Promise<number | null> }
  ) {
    this.home = home
    this.env = env
    this.process = child
    this.port = port
    this.exited = exited
  }

  /** Starts the program, and kills it after so many ms, whatever it does then. */
  static async startAndKill(options: ServedOptions, afterMs: number): Promise<void> {
    const { child } = spawned(options)
    child.stdout.resume()
    child.stderr.resume()
    const exited = new Promise((resolve) => child.on("close", resolve))
    await new Promise((resolve) => {
      setTimeout(resolve, afterMs)
    })
    child.kill("SIGKILL")
    await exited
  }

  static async start(options: ServedOptions): Promise<Served> {
    const { child, env } = spawned(options)
    const last: Array<string> = []
    createInterface({ input: child.stderr }).on("line", (text) => {
      if (last.push(text) > 20) last.shift()
      options.onLine(parsed(text))
    })
    const exited = new Promise<number | null>((resolve) => child.on("close", resolve))
    const port = await new Promise<number>((resolve, reject) => {
      createInterface({ input: child.stdout }).on("line", (text) => {
        const at = /listens on http:\/\/localhost:(\d+)/.exec(text)
        if (at !== null) resolve(Number(at[1]))
      })
      void exited.then((code) => reject(new Error(`the program ended (${String(code)}): ${last.join("\n")}`)))
    })
    return new Served(options, env, child, { port, exited })
  }

  get url(): string {
    return `http://localhost:${this.port}`
  }

  get isAlive(): boolean {
    return this.process.exitCode === null && this.process.signalCode === null
  }

  /** Runs the command line against this program, and resolves with what it printed. */
  run(...words: ReadonlyArray<string>): Promise<string> {
    return new Promise((resolve, reject) => {
      execFile(
        process.execPath,
        [script, ...words],
        { env: { ...this.env, TROUPE_PORT: String(this.port) }, cwd: this.home, timeout: 120_000 },
        (cause, out, err) => {
          if (cause === null) resolve(out)
          else reject(new Error(`${words.join(" ")}: ${out}${err}`))
        }
      )
    })
  }

  async secrets(): Promise<Secrets> {
    return JSON.parse(await this.run("keys", "--json")) as Secrets
  }

  async kill(signal: "SIGTERM" | "SIGKILL"): Promise<number | null> {
    this.process.kill(signal)
    return this.exited
  }
}

export const residentMiB = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]) / 1_024

export const openFiles = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length

/** Of a folder with all that is below it; what vanishes meanwhile counts as nothing. */
export const folderMiB = (folder: string): number => {
  let bytes = 0
  for (const name of readdirSync(folder, { recursive: true }))
    try {
      bytes += statSync(join(folder, String(name))).blocks * 512
    } catch {
      continue
    }
  return bytes / 2 ** 20
}
