/** The hostile hour: the built program with honest clients of four services, first in quiet, then under floods,
 *  refused requests and rude clients from processes of their own; then the hand-written floor under the same.
 *  Guarantee: every child ends with the run, and nothing leaves this machine.
 *  Source: docs/contributing.md, "Hostile hour". */
import { fork, type ChildProcess } from "node:child_process"
import { createWriteStream, mkdtempSync, rmSync } from "node:fs"
import { createServer, type AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Explanations } from "./explained.ts"
import type { FloorSaid } from "./floor.ts"
import { sampleOf, type Sample } from "./growth.ts"
import type { HonestReport } from "./honest.ts"
import { worldOf } from "./models.ts"
import { chatKeys, prepare, type Accounts, type Prepared } from "./preparation.ts"
import type { Failure, TallyReport } from "./tally.ts"
import { Served, type LogLine } from "./served.ts"

export interface HostileOptions {
  readonly minutes: number
  /** Requests a second that must be refused. */
  readonly refusedPerSecond: number
  readonly env?: Readonly<Record<string, string>>
  readonly say: (text: string) => void
  /** The file that takes the program's log. */
  readonly log?: string
}

export interface PhaseReport {
  readonly honest: HonestReport
  readonly load: Readonly<Record<string, TallyReport>>
}

export interface HostileReport {
  readonly minutes: number
  readonly quiet: PhaseReport
  readonly hostile: PhaseReport
  readonly floorQuiet: PhaseReport
  readonly floorHostile: PhaseReport
  readonly samples: ReadonlyArray<Sample>
  /** When the load had gone. */
  readonly settled: Sample
  readonly failures: number
  readonly unexplained: ReadonlyArray<Failure>
  /** How often each line of level error was written. */
  readonly errorLines: Readonly<Record<string, number>>
  /** The same process served from the first request to the last. */
  readonly stayed: boolean
  readonly check: string
  readonly exitCode: number | null
}

const products = 5
const families = 4
const quietSeconds = 10
const floorSecondsMax = 300
const settleMsMax = 120_000
/** A storm of the log says what it held back when its window ends. */
const logWindowMs = 11_000

const wait = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms)
  })

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as AddressInfo
      probe.close(() => resolve(port))
    })
  })

const roles = new Set<ChildProcess>()

process.on("exit", () => {
  for (const child of roles) child.kill("SIGKILL")
})

/** A process of this same program in another role. */
class Role<Said> {
  private readonly child: ChildProcess
  private last: Said | undefined
  private hear: (() => void) | undefined

  constructor(role: string, settings: object, onSaid?: (said: Said) => void) {
    this.child = fork(process.argv[1]!, ["--role", role, "--settings", JSON.stringify(settings)])
    roles.add(this.child)
    this.child.on("message", (said) => {
      this.last = said as Said
      onSaid?.(this.last)
      this.hear?.()
    })
    this.child.on("exit", () => roles.delete(this.child))
  }

  /** Resolves with what it says next. */
  said(): Promise<Said> {
    return new Promise((resolve, reject) => {
      this.hear = () => resolve(this.last!)
      this.child.once("exit", (code) => reject(new Error(`a load process ended (${String(code)})`)))
    })
  }

  /** Ends it; resolves with its last words. */
  async end(): Promise<Said> {
    const ended = new Promise((resolve) => this.child.once("exit", resolve))
    this.child.send("end")
    await ended
    return this.last!
  }
}

interface Target {
  readonly port: number
  readonly prepared: Pick<Prepared, "honest" | "flood" | "refreshClient">
  readonly isWhole: boolean
}

interface PhaseOptions {
  readonly seconds: number
  readonly refusedPerSecond: number
  readonly isHostile: boolean
  readonly onSecond?: () => Promise<void>
}

const failuresOf = ({ honest, load }: PhaseReport): ReadonlyArray<Failure> => [
  ...honest.tally.failures,
  ...Object.values(load).flatMap(({ failures }) => failures)
]

const runPhase = async (
  { port, prepared, isWhole }: Target,
  { seconds, isHostile, refusedPerSecond, onSecond }: PhaseOptions
): Promise<PhaseReport> => {
  const accounts = prepared.flood
  const failures: Record<string, Array<Failure>> = {}
  const load = isHostile
    ? (["permitted", "refused", "rude"] as const).map((role) => {
        const found: Array<Failure> = (failures[role] = [])
        const settings = { port, accounts, refusedPerSecond }
        const process = new Role<TallyReport>(role, settings, (said) => found.push(...said.failures))
        return [role, process] as const
      })
    : []
  await wait(1_000)
  const honest = new Role<HonestReport>("honest", {
    port,
    accounts: prepared.honest,
    refreshClient: prepared.refreshClient,
    products,
    isWhole
  })
  for (let second = 0; second < seconds; second++) {
    await wait(1_000)
    await onSecond?.()
  }
  const report = await honest.end()
  const reports: Record<string, TallyReport> = {}
  for (const [role, process] of load) reports[role] = { ...(await process.end()), failures: failures[role]! }
  return { honest: report, load: reports }
}

const durations = (minutes: number): Readonly<Record<string, string>> => {
  // Everything that a stranger or a holder of a key leaves behind must reach the age at which it goes, within
  // the first half.
  const seconds = Math.max(10, Math.round(minutes * 10))
  return {
    SERVICE_CLIENT_CREDENTIALS_TOKEN_EXPIRY: `${Math.max(60, seconds)}s`,
    SESSION_RETENTION_MS: String(seconds * 1_000)
  }
}

/** Five products, by the honest hand. */
const stock = async ({ url }: Served, { storeToken }: Accounts): Promise<void> => {
  for (let i = 0; i < products; i++)
    await fetch(`${url}/api/v1/products`, {
      method: "POST",
      headers: { "X-STORE-Auth-Token": storeToken, "Content-Type": "application/json" },
      body: JSON.stringify({
        item_name: `stock ${i}`,
        item_number: `S-${i}`,
        product_status_id: 1,
        primary_category_id: 1
      })
    })
}

export const runHostile = async (options: HostileOptions): Promise<HostileReport> => {
  const { minutes, refusedPerSecond, say } = options
  const home = mkdtempSync(join(tmpdir(), "troupe-hostile-"))
  process.once("exit", () => rmSync(home, { recursive: true, force: true, maxRetries: 5 }))
  const models = new Role<{ readonly port: number }>("models", {})
  const { port: upstreamPort } = await models.said()
  const explanations = new Explanations()
  const errorLines: Record<string, number> = {}
  const log = options.log === undefined ? undefined : createWriteStream(options.log)
  const onLine = (line: LogLine): void => {
    log?.write(`${JSON.stringify(line)}\n`)
    explanations.hear(line)
    if (line.level !== "error" && line.raw === undefined) return
    const text = line.message ?? line.raw!
    errorLines[text] = (errorLines[text] ?? 0) + 1
  }
  const served = await Served.start({
    home,
    port: await freePort(),
    onLine,
    env: {
      ...worldOf(upstreamPort),
      TROUPE_TRUSTED_PROXIES: "127.0.0.1",
      API_KEY: Object.values(chatKeys).join(","),
      ...durations(minutes),
      ...options.env
    }
  })
  try {
    const prepared = await prepare(served, 2 * families)
    await stock(served, prepared.honest)
    const target = (tokens: ReadonlyArray<string>): Target => ({
      port: served.port,
      isWhole: true,
      prepared: { ...prepared, honest: { ...prepared.honest, refreshTokens: tokens } }
    })
    const watched = { pid: served.process.pid!, url: served.url, folder: join(home, "data") }
    const sinceMs = performance.now()
    const samples: Array<Sample> = []
    const everyS = Math.max(1, Math.round(minutes))
    let seconds = 0
    const onSecond = async (): Promise<void> => {
      if (!served.isAlive) throw new Error("the program ended under load")
      if (seconds++ % everyS === 0) samples.push(await sampleOf(watched, sinceMs))
    }
    say(`quiet for ${quietSeconds} s`)
    const quiet = await runPhase(target(prepared.honest.refreshTokens.slice(families)), {
      seconds: quietSeconds,
      refusedPerSecond,
      isHostile: false
    })
    say(`hostile for ${minutes} min`)
    const hostile = await runPhase(target(prepared.honest.refreshTokens.slice(0, families)), {
      seconds: Math.round(60 * minutes),
      refusedPerSecond,
      isHostile: true,
      onSecond
    })
    say("the load has gone")
    const calmMs = performance.now()
    let settled = await sampleOf(watched, sinceMs)
    while (
      (settled.connections > 4 || settled.inFlight > 1 || settled.webSockets > 0) &&
      performance.now() - calmMs < settleMsMax
    ) {
      await wait(1_000)
      settled = await sampleOf(watched, sinceMs)
    }
    await wait(logWindowMs)
    const failures = [...failuresOf(quiet), ...failuresOf(hostile)]
    const unexplained = explanations.unexplained(failures)
    const check = await served.run("check").catch((cause: Error) => cause.message)
    const stayed = served.isAlive
    const exitCode = await served.kill("SIGTERM")
    const floor = new Role<FloorSaid>("floor", { upstreamPort, families: 2 * families, products })
    const said = await floor.said()
    const floorTarget = (refreshTokens: ReadonlyArray<string>): Target => ({
      port: said.port,
      isWhole: false,
      prepared: {
        refreshClient: said.client,
        honest: { ...prepared.honest, client: said.client, refreshTokens },
        flood: { ...prepared.flood, client: said.client }
      }
    })
    say("the floor, quiet and hostile")
    const floorQuiet = await runPhase(floorTarget(said.refreshTokens.slice(families)), {
      seconds: quietSeconds,
      refusedPerSecond,
      isHostile: false
    })
    const floorHostile = await runPhase(floorTarget(said.refreshTokens.slice(0, families)), {
      seconds: Math.round(Math.min(floorSecondsMax, 20 * minutes)),
      refusedPerSecond,
      isHostile: true
    })
    await floor.end()
    return {
      minutes,
      quiet,
      hostile,
      floorQuiet,
      floorHostile,
      samples,
      settled,
      failures: failures.length,
      unexplained,
      errorLines,
      stayed,
      check: check.trim(),
      exitCode
    }
  } finally {
    await served.kill("SIGKILL")
    await models.end()
    for (const child of roles) child.kill("SIGKILL")
  }
}
