/** Chat's figures for /metrics, in Prometheus text. Guarantee: a client cannot make more than `modelsMax` label
 *  values by asking for models.
 *  Source: docs/spec/chat.md, section 18. */
/** Bucket bounds in seconds of turns, first tokens and commits. */
const bounds = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

/** Bucket bounds in seconds of the time that the proxy adds to a turn. */
const overheadBounds = [0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 1]

/** Models beyond this many are counted as `other`. */
const modelsMax = 200

class Histogram {
  /** Counts between one bound and the next; the last bucket is above all bounds. */
  private readonly buckets: Array<number>

  private sum = 0
  private count = 0
  private readonly bounds: ReadonlyArray<number>

  constructor(bounds: ReadonlyArray<number>) {
    this.bounds = bounds
    this.buckets = [...bounds.map(() => 0), 0]
  }

  observe(seconds: number): void {
    this.sum += seconds
    this.count++
    let bucket = 0
    while (bucket < this.bounds.length && seconds > this.bounds[bucket]!) bucket++
    this.buckets[bucket]!++
  }

  lines(name: string): ReadonlyArray<string> {
    let cumulative = 0
    return [
      `# TYPE ${name} histogram`,
      ...this.bounds.map((bound, i) => `${name}_bucket{le="${bound}"} ${(cumulative += this.buckets[i]!)}`),
      `${name}_bucket{le="+Inf"} ${this.count}`,
      `${name}_sum ${this.sum}`,
      `${name}_count ${this.count}`
    ]
  }
}

const escape = (value: string): string =>
  value.replace(/[\\"\n]/g, (char) => (char === "\n" ? "\\n" : `\\${char}`))

interface Counter {
  value: number
}

const tokensIn = 'proxy_tokens_total{direction="input"}'
const tokensOut = 'proxy_tokens_total{direction="output"}'

interface TurnCounter {
  readonly upstream: string
  readonly label: string
  readonly outcome: string
  readonly counter: Counter
}

type Gauge = readonly [name: string, value: number]

const withoutLabels = (name: string): string => name.split("{")[0]!

export class ChatMetrics {
  readonly duration = new Histogram(bounds)
  readonly firstToken = new Histogram(bounds)
  readonly overhead = new Histogram(overheadBounds)
  readonly commit = new Histogram(bounds)
  private readonly counters = new Map<string, Counter>()

  /** The counter of the last turn, because turns of one model come in rows. */
  private lastTurn: TurnCounter | undefined = undefined

  private readonly models = new Set<string>()
  lastCommitMs = 0

  /** Counters of requests by status and endpoint: they come with every turn, so their names are built once. */
  private readonly requestCounters = new Map<number, Map<string, Counter>>()

  private counter(name: string): Counter {
    const existing = this.counters.get(name)
    if (existing !== undefined) return existing
    const counter = { value: 0 }
    this.counters.set(name, counter)
    return counter
  }

  private add(name: string, amount = 1): void {
    this.counter(name).value += amount
  }

  request(endpoint: string, status: number): void {
    let byEndpoint = this.requestCounters.get(status)
    if (byEndpoint === undefined) {
      byEndpoint = new Map()
      this.requestCounters.set(status, byEndpoint)
    }
    let counter = byEndpoint.get(endpoint)
    if (counter === undefined) {
      counter = this.counter(`proxy_requests_total{endpoint="${endpoint}",status="${status}"}`)
      byEndpoint.set(endpoint, counter)
    }
    counter.value++
  }

  turn(upstream: string, model: string, outcome: string): void {
    const label = this.modelLabel(model)
    const last = this.lastTurn
    const isSame = last?.upstream === upstream && last.label === label && last.outcome === outcome
    const current = isSame ? last : this.turnCounter(upstream, label, outcome)
    current.counter.value++
  }

  private turnCounter(upstream: string, label: string, outcome: string): TurnCounter {
    const name = `proxy_turns_total{upstream="${upstream}",model="${escape(label)}",outcome="${outcome}"}`
    const current = { upstream, label, outcome, counter: this.counter(name) }
    this.lastTurn = current
    return current
  }

  private modelLabel(model: string): string {
    if (this.models.has(model)) return model
    if (this.models.size >= modelsMax) return "other"
    this.models.add(model)
    return model
  }

  tokens(input: number, output: number): void {
    this.add(tokensIn, input)
    this.add(tokensOut, output)
  }

  retry(upstream: string, reason: string): void {
    this.add(`proxy_upstream_retries_total{upstream="${upstream}",reason="${reason}"}`)
  }

  backpressure(): void {
    this.add("proxy_stream_backpressure_total")
  }

  committed(ms: number): void {
    this.lastCommitMs = ms
    this.commit.observe(ms / 1_000)
  }

  text(gauges: ReadonlyArray<Gauge>): string {
    const typed = new Set<string>()
    const lines: Array<string> = []
    const add = (name: string, value: number, type: "counter" | "gauge"): void => {
      const family = withoutLabels(name)
      if (!typed.has(family)) {
        typed.add(family)
        lines.push(`# TYPE ${family} ${type}`)
      }
      lines.push(`${name} ${value}`)
    }
    for (const name of [...this.counters.keys()].sort()) add(name, this.counters.get(name)!.value, "counter")
    for (const [name, value] of gauges)
      add(name, value, withoutLabels(name).endsWith("_total") ? "counter" : "gauge")
    return [
      ...lines,
      ...this.duration.lines("proxy_turn_duration_seconds"),
      ...this.firstToken.lines("proxy_ttft_seconds"),
      ...this.overhead.lines("proxy_overhead_seconds"),
      ...this.commit.lines("proxy_storage_commit_seconds"),
      ""
    ].join("\n")
  }
}
