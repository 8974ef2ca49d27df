/** Numbers for /metrics, in Effect's metric registry. Whoever counts keeps a plain number, and the registry reads
 *  it when it is asked: counting costs an addition. Guarantee: a family has at most `seriesMax` series, whatever
 *  its labels come from; what exceeds them is counted together as `other`.
 *  Source: docs/operations.md, "Metrics". */
import { Context, Metric } from "effect"

export type Labels = Readonly<Record<string, string>>

/** All series of one name. `name` and the names of the labels are of the form that Prometheus accepts. */
export interface MetricFamily {
  readonly name: string
  readonly help: string
}

/** One series of a counter or gauge. */
export interface Series {
  value: number
}

/** One series of a histogram. */
export class HistogramSeries {
  private readonly bounds: ReadonlyArray<number>

  /** Counts between one bound and the next; the last bucket is above all bounds. */
  private readonly buckets: Array<number>

  private sum = 0
  private count = 0
  private min = Number.POSITIVE_INFINITY
  private max = Number.NEGATIVE_INFINITY

  /** `bounds` are in ascending order. */
  constructor(bounds: ReadonlyArray<number>) {
    this.bounds = bounds
    this.buckets = [...bounds.map(() => 0), 0]
  }

  observe(value: number): void {
    this.sum += value
    this.count++
    if (value < this.min) this.min = value
    if (value > this.max) this.max = value
    let bucket = 0
    while (bucket < this.bounds.length && value > this.bounds[bucket]!) bucket++
    this.buckets[bucket]!++
  }

  readonly state = (): Metric.HistogramState => {
    let cumulative = 0
    return {
      buckets: this.bounds.map((bound, at): [number, number] => [bound, (cumulative += this.buckets[at]!)]),
      count: this.count,
      sum: this.sum,
      min: this.min,
      max: this.max
    }
  }
}

type Type = "counter" | "gauge" | "histogram"

interface Registered {
  readonly type: Type
  readonly series: Map<string, Series | HistogramSeries>
}

export const seriesMax = 2_000

const noLabels: Labels = {}
const noUpdate = (): void => {}

const keyOf = (labels: Labels): string => {
  let key = ""
  for (const name in labels) key += `${name}\0${labels[name]}\0`
  return key
}

const others = (labels: Labels): Labels =>
  Object.fromEntries(Object.keys(labels).map((name) => [name, "other"]))

export class Metrics {
  /** Holds the registry: `Metric.snapshot` and every exporter of Effect read it from here. */
  readonly context: Context.Context<never> = Context.make(Metric.MetricRegistry, new Map())

  private readonly families = new Map<string, Registered>()
  private readonly publishers: Array<() => void> = []

  /** Returns the series with these labels; the same one each time. Keep it where counting is frequent. */
  counter(family: MetricFamily, labels: Labels = noLabels): Series {
    return this.series(family, "counter", labels, (attributes) => {
      const series: Series = { value: 0 }
      const options = { description: family.help, attributes, incremental: true }
      Metric.registerUnsafe(Metric.counter(family.name, options), this.context, {
        get: () => ({ count: series.value, incremental: true }),
        update: noUpdate,
        modify: noUpdate
      })
      return series
    })
  }

  gauge(family: MetricFamily, labels: Labels = noLabels): Series {
    return this.series(family, "gauge", labels, (attributes) => {
      const series: Series = { value: 0 }
      const options = { description: family.help, attributes }
      Metric.registerUnsafe(Metric.gauge(family.name, options), this.context, {
        get: () => ({ value: series.value }),
        update: noUpdate,
        modify: noUpdate
      })
      return series
    })
  }

  histogram(
    family: MetricFamily,
    boundaries: ReadonlyArray<number>,
    labels: Labels = noLabels
  ): HistogramSeries {
    return this.series(family, "histogram", labels, (attributes) => {
      const series = new HistogramSeries(boundaries)
      const options = { description: family.help, attributes, boundaries }
      Metric.registerUnsafe(Metric.histogram(family.name, options), this.context, {
        get: series.state,
        update: noUpdate,
        modify: noUpdate
      })
      return series
    })
  }

  /** Calls `publish` before each reading: it sets the series whose numbers live elsewhere. */
  onScrape(publish: () => void): void {
    this.publishers.push(publish)
  }

  /** Brings every series up to date. */
  publish(): void {
    for (const publish of this.publishers) publish()
  }

  private series<S extends Series | HistogramSeries>(
    { name }: MetricFamily,
    type: Type,
    labels: Labels,
    create: (labels: Labels) => S
  ): S {
    let family = this.families.get(name)
    if (family === undefined) this.families.set(name, (family = { type, series: new Map() }))
    if (family.type !== type) throw new Error(`${name} is a ${family.type} already`)
    const key = keyOf(labels)
    const existing = family.series.get(key)
    if (existing !== undefined) return existing as S
    if (family.series.size < seriesMax) {
      const series = create(labels)
      family.series.set(key, series)
      return series
    }
    const rest = others(labels)
    const restKey = keyOf(rest)
    const together = (family.series.get(restKey) as S | undefined) ?? create(rest)
    family.series.set(restKey, together)
    return together
  }
}
