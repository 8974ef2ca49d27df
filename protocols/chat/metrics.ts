/** Chat's figures for /metrics, in Prometheus text. Source: chat section 18. */
const bounds = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

const fine = [0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 1]

/** Label values beyond this many are `other`. */
const modelsMax = 200

class Histogram {
  /** Between one bound and the next; the last is above all of them. */
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
    let at = 0
    while (at < this.bounds.length && seconds > this.bounds[at]!) at++
    this.buckets[at]!++
  }

  lines(name: string): ReadonlyArray<string> {
    let below = 0
    return [
      `# TYPE ${name} histogram`,
      ...this.bounds.map((bound, i) => `${name}_bucket{le="${bound}"} ${(below += this.buckets[i]!)}`),
      `${name}_bucket{le="+Inf"} ${this.count}`,
      `${name}_sum ${this.sum}`,
      `${name}_count ${this.count}`
    ]
  }
}

const escape = (value: string): string =>
  value.replace(/[\\"\n]/g, (char) => (char === "\n" ? "\\n" : `\\${char}`))

interface Count {
  value: number
}

const tokensIn = 'proxy_tokens_total{direction="input"}'
const tokensOut = 'proxy_tokens_total{direction="output"}'

export class ChatMetrics {
  readonly duration = new Histogram(bounds)
  readonly firstToken = new Histogram(bounds)
  readonly overhead = new Histogram(fine)
  readonly commit = new Histogram(bounds)
  private readonly counts = new Map<string, Count>()

  private lastTurn:
    | { readonly upstream: string; readonly label: string; readonly outcome: string; readonly count: Count }
    | undefined = undefined

  private readonly models = new Set<string>()
  lastCommitMs = 0

  /** Names that come with every turn, found without building them anew: by what they are made of. */
  private readonly known = new Map<number, Map<string, Count>>()

  private count(name: string): Count {
    let count = this.counts.get(name)
    if (count === undefined) this.counts.set(name, (count = { value: 0 }))
    return count
  }

  private add(name: string, amount = 1): void {
    this.count(name).value += amount
  }

  request(endpoint: string, status: number): void {
    let of = this.known.get(status)
    if (of === undefined) this.known.set(status, (of = new Map()))
    let count = of.get(endpoint)
    if (count === undefined)
      of.set(
        endpoint,
        (count = this.count(`proxy_requests_total{endpoint="${endpoint}",status="${status}"}`))
      )
    count.value++
  }

  turn(upstream: string, model: string, outcome: string): void {
    const known = this.models.has(model) || this.models.size < modelsMax
    if (known) this.models.add(model)
    const label = known ? model : "other"
    let last = this.lastTurn
    if (
      last === undefined ||
      last.upstream !== upstream ||
      last.label !== label ||
      last.outcome !== outcome
    ) {
      last = this.lastTurn = {
        upstream,
        label,
        outcome,
        count: this.count(
          `proxy_turns_total{upstream="${upstream}",model="${known ? escape(model) : "other"}",outcome="${outcome}"}`
        )
      }
    }
    last.count.value++
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

  text(gauges: ReadonlyArray<readonly [name: string, value: number]>): string {
    const names = [...this.counts.keys()].sort()
    const kinds = new Set<string>()
    const lines: Array<string> = []
    for (const name of names) {
      const plain = name.split("{")[0]!
      if (!kinds.has(plain)) {
        kinds.add(plain)
        lines.push(`# TYPE ${plain} counter`)
      }
      lines.push(`${name} ${this.counts.get(name)!.value}`)
    }
    for (const [name, value] of gauges) {
      const plain = name.split("{")[0]!
      if (!kinds.has(plain)) {
        kinds.add(plain)
        lines.push(`# TYPE ${plain} ${plain.endsWith("_total") ? "counter" : "gauge"}`)
      }
      lines.push(`${name} ${value}`)
    }
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
