/** The built program as its users start it: a child process with a data folder of its own, its first start
 *  with demo secrets, the command line against it, its stop by a signal. */
import { execFile, spawn, type ChildProcess } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { vi } from "vitest"
import { onSmallDisk, SmallDisk } from "../small-disk.ts"

const root = new URL("../..", import.meta.url).pathname
const script = join(root, "runtime/bin/troupe.mjs")

/** How long a condition may take on a machine that is busy. */
const patienceMs = 60_000

vi.setConfig({ testTimeout: 2 * patienceMs, hookTimeout: 2 * patienceMs })

/** Waits until the probe does not throw, and resolves with what it returned. It asks seldom enough for the rate
 *  limit of a key. */
export const until = <A>(probe: () => A | Promise<A>): Promise<A> =>
  vi.waitFor(probe, { timeout: patienceMs, interval: 50 })

export interface Secrets {
  readonly developerKey: string
  readonly adminKey: string
  readonly operatorToken: string
  readonly storeToken: string
  readonly storeUser: string
  readonly storePassword: string
  readonly oauthAdminKey: string
  readonly oauthClientId: string
  readonly oauthClientSecret: string
  readonly oauthUser: string
  readonly oauthPassword: string
  readonly oauthUserId: string
}

export interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
}

export interface ProgramOptions {
  readonly env?: Readonly<Record<string, string>>
  /** The folder of an earlier program. */
  readonly home?: string
  readonly port?: number
  /** What runs the program; default: Node with the built program's script. */
  readonly command?: ReadonlyArray<string>
  /** Mounts a disk of this size over the folder, such as "24m". */
  readonly diskSize?: string
}

/** A new folder below the machine's temporary one. */
export const newHome = (): string => mkdtempSync(join(tmpdir(), "troupe-shipped-"))

/** Finds a port for a program that is started again on it: on a port that the system chose for its listener
 *  (port 0) the connections of the first process stand in the way of the second for a minute. */
export const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as AddressInfo
      probe.close(() => resolve(port))
    })
  })

export class Program {
  readonly home: string
  readonly port: number
  readonly process: ChildProcess
  readonly exited: Promise<number | null>
  private readonly env: Readonly<Record<string, string>>
  private readonly said: { out: string; err: string }

  private constructor(
    { home, port, env }: Required<Pick<ProgramOptions, "home" | "port" | "env">>,
    child: ChildProcess,
    said: { out: string; err: string },
    exited: Promise<number | null>
  ) {
    this.home = home
    this.port = port
    this.env = env
    this.process = child
    this.said = said
    this.exited = exited
  }

  /** The disk that `diskSize` asked for. */
  disk: SmallDisk | undefined = undefined

  static async start(options: ProgramOptions = {}): Promise<Program> {
    const { env = {}, home = newHome(), port = 0, command = [process.execPath, script], diskSize } = options
    const whole = {
      PATH: process.env["PATH"] ?? "",
      TROUPE_DATA: join(home, "data"),
      TROUPE_PORT: String(port),
      ...env
    }
    const serve = [...command, "serve"]
    const [file, ...words] = diskSize === undefined ? serve : onSmallDisk(home, diskSize, serve)
    const child = spawn(file!, words, { env: whole, cwd: home })
    const said = { out: "", err: "" }
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      said.out += text
    })
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      said.err += text
    })
    const exited = new Promise<number | null>((resolve) => child.on("close", resolve))
    const listening = await until(() => {
      const at = /listens on http:\/\/localhost:(\d+)/.exec(said.out)
      if (at !== null) return Number(at[1])
      throw new Error(`not listening: ${said.out}${said.err}`)
    }).catch((cause: Error) => {
      child.kill("SIGKILL")
      throw cause
    })
    const disk = diskSize === undefined ? undefined : new SmallDisk(child.pid!, home)
    const outside = { ...whole, TROUPE_DATA: join(disk?.folder ?? home, "data"), ...env }
    const program = new Program({ home, port: listening, env: outside }, child, said, exited)
    program.disk = disk
    if (env["DEEPL_UPSTREAM_URL"] !== undefined)
      await until(async () => {
        const { engines } = (await (await fetch(`${program.url}/health/details`)).json()) as {
          readonly engines: ReadonlyArray<{ readonly id: string; readonly ready: boolean }>
        }
        if (!engines.some(({ id, ready }) => id === "deepl-upstream" && ready))
          throw new Error("the languages of the upstream are not read yet")
      })
    return program
  }

  /** As the program names itself, so that issuer and addresses agree. */
  get url(): string {
    return `http://localhost:${this.port}`
  }

  get out(): string {
    return this.said.out
  }

  get log(): string {
    return this.said.err
  }

  get isAlive(): boolean {
    return this.process.exitCode === null && this.process.signalCode === null
  }

  /** Runs the command line against this program. */
  run(...words: ReadonlyArray<string>): Promise<Ran> {
    return this.runIn({}, ...words)
  }

  /** The same in another environment. */
  runIn(env: Readonly<Record<string, string>>, ...words: ReadonlyArray<string>): Promise<Ran> {
    return new Promise((resolve) => {
      execFile(
        process.execPath,
        [script, ...words],
        { env: { ...this.env, TROUPE_PORT: String(this.port), ...env }, cwd: this.home, timeout: patienceMs },
        (cause, out, err) => {
          const code = typeof cause?.code === "number" ? cause.code : 1
          resolve({ code: cause === null ? 0 : code, out, err })
        }
      )
    })
  }

  async secrets(): Promise<Secrets> {
    return JSON.parse((await this.run("keys", "--json")).out) as Secrets
  }

  /** Stops the process and resolves with its exit code; the folder stays. */
  async end(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<number | null> {
    this.process.kill(signal)
    return this.exited
  }

  /** Ends what still runs, and removes the folder. */
  async close(): Promise<void> {
    await this.end("SIGKILL")
    rmSync(this.home, { recursive: true, force: true })
  }
}
