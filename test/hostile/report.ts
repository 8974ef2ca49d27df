/** Judges a hostile run by what does not depend on the machine's speed, and words it. Times are printed and
 *  never judged. */
import { slopeOf, type Measure, type Sample } from "./growth.ts"
import type { KindReport } from "./honest.ts"
import type { HostileReport, PhaseReport } from "./run.ts"

/** Open files of the program beyond its start, when the load has gone. */
const filesLeftMax = 64
const connectionsLeftMax = 8
/** From this length on the last half must be flat: before, caches still fill. */
const flatFromMinutes = 10
const slopeMax = 1.15
const flatMeasures: ReadonlyArray<Measure> = ["residentMiB", "heapMiB", "files", "folderMiB", "actors"]
const measures: ReadonlyArray<Measure> = [
  "residentMiB",
  "heapMiB",
  "files",
  "folderMiB",
  "connections",
  "inFlight",
  "webSockets",
  "actors"
]

export const faultsOf = (report: HostileReport): ReadonlyArray<string> => {
  const faults: Array<string> = []
  for (const phase of ["quiet", "hostile", "floorQuiet", "floorHostile"] as const)
    for (const { kind, wrong, answered, turnedAway, examples } of report[phase].honest.kinds) {
      if (wrong > 0) faults.push(`${phase}: ${kind}: ${wrong} of ${answered} wrong: ${examples.join(" | ")}`)
      if (answered === turnedAway) faults.push(`${phase}: ${kind}: nobody was answered`)
    }
  if (report.unexplained.length > 0)
    faults.push(
      `${report.unexplained.length} of ${report.failures} answers of 5xx have no line in the log: ${JSON.stringify(report.unexplained.slice(0, 5))}`
    )
  if (!report.stayed) faults.push("the process ended")
  if (report.exitCode !== 0) faults.push(`the process ended with ${String(report.exitCode)}`)
  if (!report.check.includes("all well")) faults.push(`check: ${report.check}`)
  const { settled, samples } = report
  if (settled.connections > connectionsLeftMax) faults.push(`${settled.connections} connections are left`)
  if (settled.webSockets > 0) faults.push(`${settled.webSockets} WebSockets are left`)
  if (settled.inFlight > 1) faults.push(`${settled.inFlight} requests are left`)
  const filesAtStart = Math.min(...samples.map(({ files }) => files))
  if (settled.files > filesAtStart + filesLeftMax) faults.push(`${settled.files} files are left open`)
  if (report.minutes >= flatFromMinutes)
    for (const measure of flatMeasures) {
      const slope = slopeOf(samples, measure)
      if (slope > slopeMax) faults.push(`${measure} grows: ${slope.toFixed(2)} in the last quarter`)
    }
  return faults
}

const ms = (value: number): string => value.toFixed(value < 10 ? 2 : 1).padStart(9)
const ratio = (value: number, base: number): string =>
  (base === 0 ? "-" : `${(value / base).toFixed(1)} ×`).padStart(8)

const kindOf = ({ honest }: PhaseReport, kind: string): KindReport | undefined =>
  honest.kinds.find((found) => found.kind === kind)

const latencyLines = ({ quiet, hostile, floorQuiet, floorHostile }: HostileReport): ReadonlyArray<string> => [
  `${"".padEnd(14)}${["answered", "away", "wrong", "quiet p50", "p99", "hostile p50", "p99", "floor p99", "hostile"].map((head) => head.padStart(12)).join("")}   p99 of quiet, of the floor under the same`,
  ...hostile.honest.kinds.map(({ kind, answered, turnedAway, wrong, p50Ms, p99Ms }) => {
    const calm = kindOf(quiet, kind)
    const floorCalm = kindOf(floorQuiet, kind)
    const floor = kindOf(floorHostile, kind)
    const columns = [
      String(answered),
      String(turnedAway),
      String(wrong),
      ms(calm?.p50Ms ?? 0),
      ms(calm?.p99Ms ?? 0),
      ms(p50Ms),
      ms(p99Ms),
      ms(floorCalm?.p99Ms ?? 0),
      ms(floor?.p99Ms ?? 0)
    ]
    return `${kind.padEnd(14)}${columns.map((text) => text.padStart(12)).join("")}   ${ratio(p99Ms, calm?.p99Ms ?? 0)} ${ratio(p99Ms, floor?.p99Ms ?? 0)}`
  })
]

const loadLines = (name: string, { load }: PhaseReport): ReadonlyArray<string> =>
  Object.entries(load).map(
    ([role, { sent, unsent, cut, statuses }]) =>
      `${name} ${role.padEnd(9)} sent ${sent}, no connection free ${unsent}, cut ${cut}; ${Object.entries(
        statuses
      )
        .map(([status, count]) => `${status}: ${count}`)
        .join(", ")}`
  )

const growthLines = ({ samples, settled }: HostileReport): ReadonlyArray<string> => {
  const at = (part: number): Sample =>
    samples[Math.min(samples.length - 1, Math.floor(part * samples.length))]!
  return [
    `${"".padEnd(14)}${["start", "1/4", "1/2", "3/4", "end", "most", "settled"].map((head) => head.padStart(9)).join("")}   last quarter over the one before`,
    ...measures.map((measure) => {
      const points = [0, 0.25, 0.5, 0.75, 1].map((part) => at(part)[measure])
      const most = Math.max(...samples.map((sample) => sample[measure]))
      return `${measure.padEnd(14)}${[...points, most, settled[measure]].map((value) => value.toFixed(0).padStart(9)).join("")}   ${slopeOf(samples, measure).toFixed(2)}`
    })
  ]
}

export const textOf = (report: HostileReport): string =>
  [
    "Honest clients, ms",
    ...latencyLines(report),
    "",
    "Load",
    ...loadLines("program", report.hostile),
    ...loadLines("floor  ", report.floorHostile),
    "",
    "What the program held",
    ...growthLines(report),
    "",
    `Answers of 5xx: ${report.failures}, without a line in the log: ${report.unexplained.length}`,
    `Lines of level error: ${JSON.stringify(report.errorLines)}`,
    `check: ${report.check}; exit code ${String(report.exitCode)}`
  ].join("\n")
