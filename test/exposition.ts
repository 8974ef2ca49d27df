/** A strict parser of the Prometheus text format 0.0.4: it throws at whatever a scraper might refuse.
 *  Source: prometheus.io/docs/instrumenting/exposition_formats. */

export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface ParsedFamily {
  readonly name: string
  readonly type: string
  readonly help: string
  readonly samples: Array<Sample>
}

const metricName = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
const types = ["counter", "gauge", "histogram", "summary", "untyped"]

const numberOf = (text: string): number => {
  if (text === "+Inf") return Number.POSITIVE_INFINITY
  if (text === "-Inf") return Number.NEGATIVE_INFINITY
  if (text === "NaN") return Number.NaN
  if (!/^-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i.test(text)) throw new Error(`no number: ${text}`)
  return Number(text)
}

const labelsOf = (text: string): Record<string, string> => {
  const labels: Record<string, string> = {}
  const one = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)/y
  while (one.lastIndex < text.length) {
    const found = one.exec(text)
    if (found === null) throw new Error(`no labels: {${text}}`)
    const [, name, value] = found as unknown as [string, string, string]
    if (Object.hasOwn(labels, name)) throw new Error(`label ${name} twice`)
    labels[name] = value.replace(/\\(.)/g, (_, char: string) => (char === "n" ? "\n" : char))
  }
  return labels
}

const checkHistogram = ({ name, samples }: ParsedFamily): void => {
  const series = new Map<string, Array<Sample>>()
  for (const sample of samples) {
    const { le: _, ...labels } = sample.labels
    const key = JSON.stringify(labels)
    series.set(key, [...(series.get(key) ?? []), sample])
  }
  for (const of of series.values()) {
    const buckets = of.filter((sample) => sample.name === `${name}_bucket`)
    const bounds = buckets.map(({ labels }) => numberOf(labels["le"] ?? "none"))
    const counts = buckets.map(({ value }) => value)
    const [count] = of.filter((sample) => sample.name === `${name}_count`)
    const sums = of.filter((sample) => sample.name === `${name}_sum`)
    if (count === undefined || sums.length !== 1 || of.length !== buckets.length + 2)
      throw new Error(`${name} is not whole`)
    if (bounds.at(-1) !== Number.POSITIVE_INFINITY || counts.at(-1) !== count.value)
      throw new Error(`${name}: the last bucket is not all`)
    if (bounds.some((bound, at) => at > 0 && bound <= bounds[at - 1]!))
      throw new Error(`${name}: bounds are out of order`)
    if (counts.some((value, at) => at > 0 && value < counts[at - 1]!))
      throw new Error(`${name}: buckets are not cumulative`)
  }
}

const check = (family: ParsedFamily): void => {
  const { name, type, samples } = family
  if (samples.length === 0) throw new Error(`${name} has no sample`)
  const keys = samples.map((sample) => `${sample.name}${JSON.stringify(sample.labels)}`)
  if (new Set(keys).size < keys.length) throw new Error(`${name}: a sample appears twice`)
  if (type === "counter")
    for (const { value } of samples) if (!(value >= 0)) throw new Error(`${name} counts ${value}`)
  if (type === "counter" && !name.endsWith("_total")) throw new Error(`${name} is a counter without _total`)
  if (type === "histogram") checkHistogram(family)
}

const belongs = (name: string, { name: family, type }: ParsedFamily): boolean =>
  type === "histogram"
    ? [`${family}_bucket`, `${family}_sum`, `${family}_count`].includes(name)
    : name === family

/** Parses a whole exposition; each family must have HELP, then TYPE, then its samples, in one block. */
export const parseExposition = (text: string): ReadonlyMap<string, ParsedFamily> => {
  if (!text.endsWith("\n")) throw new Error("the last line does not end")
  const families = new Map<string, ParsedFamily>()
  let help: { readonly name: string; readonly text: string } | undefined
  let family: ParsedFamily | undefined
  for (const line of text.slice(0, -1).split("\n")) {
    const comment = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line)
    if (comment !== null) {
      const [, word, name, rest] = comment as unknown as [string, string, string, string]
      if (!metricName.test(name)) throw new Error(`no metric name: ${name}`)
      if (families.has(name)) throw new Error(`${name} appears twice`)
      if (word === "HELP") {
        if (help !== undefined) throw new Error(`${help.name} has no TYPE`)
        help = { name, text: rest }
        continue
      }
      if (help?.name !== name) throw new Error(`${name} has no HELP`)
      if (!types.includes(rest)) throw new Error(`no type: ${rest}`)
      family = { name, type: rest, help: help.text, samples: [] }
      families.set(name, family)
      help = undefined
      continue
    }
    const sample = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/s.exec(line)
    if (sample === null) throw new Error(`no sample: ${line}`)
    const [, name, labels, value] = sample as unknown as [string, string, string | undefined, string]
    if (help !== undefined || family === undefined || !belongs(name, family))
      throw new Error(`${name} stands outside of its family`)
    family.samples.push({ name, labels: labelsOf(labels ?? ""), value: numberOf(value) })
  }
  if (help !== undefined) throw new Error(`${help.name} has no TYPE`)
  for (const each of families.values()) check(each)
  return families
}
