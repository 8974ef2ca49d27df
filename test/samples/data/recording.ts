/** A recording of answers: several runs put together, what time and chance make left open, and a later run compared with it. */

export interface Said {
  readonly status: number
  readonly type: string
  readonly body: unknown
}
export interface Transcript {
  readonly answers: Readonly<Record<string, Said>>
  /** By moment and address. */
  readonly states: Readonly<Record<string, unknown>>
  readonly journals: Readonly<Record<string, unknown>>
  /** Names of what lies there at the end. */
  readonly after: Readonly<Record<"kinds" | "tables" | "counters" | "blobs", ReadonlyArray<string>>>
}

/** Stands in a recording where two answers of the same program to the same question differ; as a member's name: there are more, named by chance. */
const any = "\u0000any "
const kindOf = (value: unknown): string => {
  if (Array.isArray(value)) return "array"
  return value === null ? "null" : typeof value
}
const same = (values: ReadonlyArray<unknown>): unknown => {
  const [first] = values
  if (values.every((value) => JSON.stringify(value) === JSON.stringify(first))) return first
  const kinds = new Set(values.map(kindOf))
  if (kinds.size > 1) return `${any}${[...kinds].sort().join(" ")}`
  if (Array.isArray(first)) {
    const lengths = new Set((values as ReadonlyArray<ReadonlyArray<unknown>>).map(({ length }) => length))
    return lengths.size > 1
      ? `${any}array`
      : first.map((_, i) => same((values as ReadonlyArray<ReadonlyArray<unknown>>).map((value) => value[i])))
  }
  if (typeof first === "object" && first !== null) {
    const all = values as ReadonlyArray<Record<string, unknown>>
    const names = Object.keys(first).filter((name) => all.every((value) => name in value))
    const common = Object.fromEntries(names.map((name) => [name, same(all.map((value) => value[name]))]))
    return all.every((value) => Object.keys(value).length === names.length)
      ? common
      : { ...common, [any]: true }
  }
  return `${any}${kindOf(first)}`
}
/** One recording of several. */
export const masked = (transcripts: ReadonlyArray<Transcript>): Transcript => same(transcripts) as Transcript
/** `said` with everything that the recording leaves open put as the recording has it; then the two can be compared. */
export const opened = (recorded: unknown, said: unknown): unknown => {
  if (typeof recorded === "string" && recorded.startsWith(any))
    return recorded.slice(any.length).split(" ").includes(kindOf(said)) ? recorded : said
  if (Array.isArray(recorded) && Array.isArray(said))
    return said.map((value, i) => opened(recorded[i], value))
  if (kindOf(recorded) === "object" && kindOf(said) === "object") {
    const stored = recorded as Record<string, unknown>
    const common = Object.entries(said as object).filter(([name]) => !(any in stored) || name in stored)
    return {
      ...Object.fromEntries(common.map(([name, value]) => [name, opened(stored[name], value)])),
      ...(any in stored ? { [any]: true } : {})
    }
  }
  return said
}
