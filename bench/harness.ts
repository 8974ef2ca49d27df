/** Side by side: candidates as processes of their own, server on core 0, load on core 1 where taskset is;
 *  interleaved rounds; each round gives the ratio to its floor, and the median of those is reported. Method:
 *  performance notes in RESULTS.md. */
import { execFileSync, spawn, type ChildProcess } from "node:child_process"
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { cpus } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"

export const root = fileURLToPath(new URL("../..", import.meta.url))
const folder = fileURLToPath(new URL(".", import.meta.url))
const children = new Set<ChildProcess>()
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(143))

process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL")
})

export const pins = ((): boolean => {
  try {
    execFileSync("taskset", ["-c", "0", "true"], { stdio: "ignore" })
    return cpus().length > 1
  } catch {
    return false
  }
})()

const pinned = (
  core: 0 | 1,
  command: string,
  args: ReadonlyArray<string>
): readonly [string, ReadonlyArray<string>] =>
  pins ? ["taskset", ["-c", String(core), command, ...args]] : [command, args]

/** user + system time of a process so far, in ms. */
export const cpuMsOf = (pid: number): number => {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8")
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  return (Number(fields[11]) + Number(fields[12])) * 10
}

export interface Running {
  readonly pid: number
  readonly said: string
  kill(): void
}

/** Starts a program of bench/programs; resolves with its first line. */
export const start = (
  core: 0 | 1,
  program: string,
  ...args: ReadonlyArray<string | number>
): Promise<Running> =>
  new Promise((resolve, reject) => {
    const [command, words] = pinned(core, process.execPath, [
      "--expose-gc",
      join(folder, "programs", `${program}.js`),
      ...args.map(String)
    ])
    const child = spawn(command, words as Array<string>, { stdio: ["ignore", "pipe", "inherit"] })
    children.add(child)
    child.on("exit", (code) => {
      children.delete(child)
      reject(new Error(`${program} ${args.join(" ")} ended (${code})`))
    })
    createInterface({ input: child.stdout }).once("line", (said) =>
      resolve({ pid: child.pid!, said, kill: () => child.kill("SIGKILL") })
    )
  })

/** Runs a program to its end; its last line is JSON. */
export const run = <A>(core: 0 | 1, program: string, ...args: ReadonlyArray<string | number>): Promise<A> =>
  runWatched(core, program, args, () => {})

/** As `run`; `began` is called when it says "connected". */
export const runWatched = async <A>(
  core: 0 | 1,
  program: string,
  args: ReadonlyArray<string | number>,
  began: () => void
): Promise<A> => {
  const [command, words] = pinned(core, process.execPath, [
    "--expose-gc",
    join(folder, "programs", `${program}.js`),
    ...args.map(String)
  ])
  const child = spawn(command, words as Array<string>, { stdio: ["ignore", "pipe", "inherit"] })
  children.add(child)
  let out = ""
  child.stdout.on("data", (data) => {
    out += String(data)
    if (String(data).startsWith("connected")) began()
  })
  const code = await new Promise((resolve) => child.on("close", resolve))
  children.delete(child)
  if (code !== 0) throw new Error(`${program} ${args.join(" ")} ended (${String(code)})`)
  return JSON.parse(out.trim().split("\n").at(-1)!) as A
}

export const median = (values: ReadonlyArray<number>): number => {
  const sorted = [...values].sort((a, b) => a - b)
  const half = sorted.length >> 1
  return sorted.length === 0
    ? NaN
    : sorted.length % 2 === 1
      ? sorted[half]!
      : (sorted[half - 1]! + sorted[half]!) / 2
}

export interface Size {
  readonly smoke: boolean
  readonly rounds: number
  readonly seconds: number
}

export interface Row {
  readonly bench: string
  readonly candidate: string
  readonly unit: string
  readonly value: number
  /** Against the floor of the same round: median, least, most. */
  readonly ratio: number
  readonly min: number
  readonly max: number
  readonly extra: string
  readonly note: string
}

export interface Measured {
  readonly value: number
  readonly extra?: string
  /** Why the figure says nothing. */
  readonly invalid?: string
}

/** `cost`: a ratio of 2 is twice as dear; `rate`: a ratio of 2 is twice as fast. The first candidate is the
 *  floor. */
export const sideBySide = async (
  bench: string,
  unit: string,
  size: Size,
  candidates: ReadonlyArray<readonly [name: string, measure: () => Promise<Measured>]>
): Promise<ReadonlyArray<Row>> => {
  const values = new Map<string, Array<Measured>>(candidates.map(([name]) => [name, []]))
  const ratios = new Map<string, Array<number>>(candidates.map(([name]) => [name, []]))
  const round = async (turn: number): Promise<void> => {
    const seen = new Map<string, Measured>()
    for (let i = 0; i < candidates.length; i++) {
      const [name, measure] = candidates[(i + turn) % candidates.length]!
      seen.set(name, await measure())
    }
    const floor = seen.get(candidates[0]![0])!
    for (const [name, measured] of seen) {
      values.get(name)!.push(measured)
      ratios.get(name)!.push(measured.value / floor.value)
    }
  }
  for (let turn = 0; turn < size.rounds; turn++) await round(turn)
  const spread = (list: ReadonlyArray<number>): number => Math.max(...list) / Math.min(...list)
  if (!size.smoke && [...ratios.values()].some((list) => spread(list) > 1.5))
    for (let turn = 0; turn < 2; turn++) await round(turn)
  return candidates.map(([candidate]) => {
    const list = ratios.get(candidate)!
    const all = values.get(candidate)!
    const invalid = all.find((one) => one.invalid !== undefined)?.invalid
    return {
      bench,
      candidate,
      unit,
      value: median(all.map(({ value }) => value)),
      ratio: median(list),
      min: Math.min(...list),
      max: Math.max(...list),
      extra: all.at(-1)!.extra ?? "",
      note: [
        invalid === undefined ? "" : `invalid: ${invalid}`,
        spread(list) > 1.5 && !size.smoke ? "unstable" : ""
      ]
        .filter((text) => text !== "")
        .join("; ")
    }
  })
}

const shown = (value: number): string =>
  value >= 1_000 ? Math.round(value).toLocaleString("en") : value >= 10 ? value.toFixed(1) : value.toFixed(2)

export const table = (rows: ReadonlyArray<Row>): string =>
  [
    "| bench | candidate | value | ratio to floor | min – max | |",
    "|---|---|---|---|---|---|",
    ...rows.map(
      ({ bench, candidate, unit, value, ratio, min, max, extra, note }) =>
        `| ${bench} | ${candidate} | ${shown(value)} ${unit} | ${ratio.toFixed(2)} | ${min.toFixed(2)} – ${max.toFixed(2)} | ${[extra, note].filter((text) => text !== "").join("; ")} |`
    )
  ].join("\n")

const keptMax = 20

/** One JSON per run, the last twenty, for trends. */
export const keep = (rows: ReadonlyArray<Row>): void => {
  const results = join(root, "bench", ".results")
  mkdirSync(results, { recursive: true })
  writeFileSync(join(results, `${new Date().toISOString().replaceAll(":", "")}.json`), JSON.stringify(rows))
  for (const old of readdirSync(results).sort().slice(0, -keptMax)) rmSync(join(results, old))
}

export const machine = (): string => {
  const model = cpus()[0]?.model ?? "?"
  const load = existsSync("/proc/loadavg")
    ? readFileSync("/proc/loadavg", "utf8").split(" ").slice(0, 2).join(" ")
    : "?"
  return `${cpus().length} x ${model}, Node ${process.version}, load ${load}, ${pins ? "server on core 0, load on core 1" : "not pinned"}, ${new Date().toISOString()}`
}
