/** Prints and stores the results of a run. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { cpus } from "node:os"
import { join } from "node:path"
import { pins } from "./processes.ts"
import type { ComparedRow, Row } from "./rounds.ts"
import { root } from "./tree.ts"

const numberText = (value: number): string => {
  if (value >= 1_000) return Math.round(value).toLocaleString("en")
  return value >= 10 ? value.toFixed(1) : value.toFixed(2)
}

const line = (cells: ReadonlyArray<string>): string => `| ${cells.join(" | ")} |`

const notes = (...texts: ReadonlyArray<string | undefined>): string =>
  texts.filter((text) => text !== undefined && text !== "").join("; ")

export const table = (rows: ReadonlyArray<Row>): string =>
  [
    "| bench | candidate | value | ratio to floor | min – max | |",
    "|---|---|---|---|---|---|",
    ...rows.map(({ bench, candidate, unit, value, ratio, min, max, extra, note }) =>
      line([
        bench,
        candidate,
        `${numberText(value)} ${unit}`,
        ratio.toFixed(2),
        `${min.toFixed(2)} – ${max.toFixed(2)}`,
        notes(extra, note)
      ])
    )
  ].join("\n")

const sideText = (value: number, unit: string, toFloor: number | undefined): string =>
  `${numberText(value)} ${unit}${toFloor === undefined ? "" : ` (${toFloor.toFixed(2)} × floor)`}`

export const comparedTable = (rows: ReadonlyArray<ComparedRow>): string =>
  [
    "| bench | before | after | after ÷ before | min – max | 95 % interval | rounds | verdict | |",
    "|---|---|---|---|---|---|---|---|---|",
    ...rows.map((row) =>
      line([
        row.candidate === "troupe" ? row.bench : `${row.bench}: ${row.candidate}`,
        sideText(row.before, row.unit, row.beforeToFloor),
        sideText(row.after, row.unit, row.afterToFloor),
        row.median.toFixed(3),
        `${row.min.toFixed(3)} – ${row.max.toFixed(3)}`,
        row.interval === undefined
          ? "none"
          : `${row.interval.low.toFixed(3)} – ${row.interval.high.toFixed(3)}`,
        String(row.ratios.length),
        row.verdict,
        notes(row.smallDifference, row.note)
      ])
    )
  ].join("\n")

const storedMax = 20

/** Stores one JSON file per run, and the last twenty of them, so that trends can be seen. */
export const store = (rows: ReadonlyArray<Row | ComparedRow>): void => {
  const folder = join(root, "bench", ".results")
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `${new Date().toISOString().replaceAll(":", "")}.json`), JSON.stringify(rows))
  for (const old of readdirSync(folder).sort().slice(0, -storedMax)) rmSync(join(folder, old))
}

export const machine = (): string => {
  const model = cpus()[0]?.model ?? "?"
  const load = existsSync("/proc/loadavg")
    ? readFileSync("/proc/loadavg", "utf8").split(" ").slice(0, 2).join(" ")
    : "?"
  const placement = pins ? "server on core 0, load on core 1" : "not pinned"
  return `${cpus().length} x ${model}, Node ${process.version}, load ${load}, ${placement}, ${new Date().toISOString()}`
}
