/** Parses the value of a configuration key, from the text of the environment or from the YAML file. */
import type { Item, Kind } from "./item.ts"

/** The parsed value, or a text that says what was expected instead. */
export type Parsed = { readonly value: unknown } | string

type Parser = (raw: unknown, item: Item) => Parsed

const unitsMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/** Parses a duration in Go's notation (`90s`, `1h30m`) to ms; a bare number is milliseconds. */
const durationMs = (text: string): number | undefined => {
  if (/^\d+$/.test(text)) return Number(text)
  if (!/^(?:\d+(?:ms|s|m|h))+$/.test(text)) return undefined
  return [...text.matchAll(/(\d+)(ms|s|m|h)/g)].reduce(
    (sum, [, count, unit]) => sum + Number(count) * unitsMs[unit!]!,
    0
  )
}

const splitList = (text: string): ReadonlyArray<string> =>
  text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "")

const parsers: Readonly<Record<Extract<Kind, string>, Parser>> = {
  list: (raw) => {
    const list = typeof raw === "string" ? splitList(raw) : raw
    const isList = Array.isArray(list) && list.every((part) => typeof part === "string")
    return isList ? { value: list } : "wants a list of texts"
  },
  integer: (raw, { min, max }) => {
    const value = typeof raw === "string" && /^-?\d+$/.test(raw.trim()) ? Number(raw) : raw
    const isInRange =
      typeof value === "number" &&
      Number.isSafeInteger(value) &&
      value >= (min ?? -Infinity) &&
      value <= (max ?? Infinity)
    return isInRange ? { value } : `wants an integer from ${min} to ${max}`
  },
  boolean: (raw) => {
    if (raw === true || raw === "true" || raw === "1") return { value: true }
    if (raw === false || raw === "false" || raw === "0") return { value: false }
    return "wants true or false"
  },
  duration: (raw) => {
    const value = typeof raw === "string" ? durationMs(raw.trim()) : raw
    return typeof value === "number" && Number.isSafeInteger(value) && value >= 0
      ? { value }
      : "wants a duration such as 90s, 15m or 1h30m"
  },
  json: (raw) => {
    if (typeof raw !== "string") return { value: raw }
    try {
      return { value: JSON.parse(raw) as unknown }
    } catch {
      return "wants JSON"
    }
  },
  string: (raw) =>
    typeof raw === "string" || typeof raw === "number" ? { value: String(raw) } : "wants a text"
}

export const parse: Parser = (raw, item) => {
  const { kind } = item
  if (typeof kind === "string") return parsers[kind](raw, item)
  return kind.includes(String(raw)) ? { value: String(raw) } : `wants one of ${kind.join(", ")}`
}
