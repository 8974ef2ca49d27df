/** Chat's figures for /metrics. Guarantee: a client cannot make more than `modelsMax` label values by asking for
 *  models.
 *  Source: docs/spec/chat.md, section 18. */
import type { HistogramSeries, Metrics, Series } from "../../runtime/metrics.ts"

/** Bucket bounds in seconds of turns, first tokens and commits. */
const bounds = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

/** Bucket bounds in seconds of the time that the proxy adds to a turn. */
const overheadBounds = [0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 1]

/** Models beyond this many are counted as `other`. */
const modelsMax = 200

const families = {
  requests: { name: "proxy_requests_total", help: "Answers of chat by endpoint and status." },
  turns: { name: "proxy_turns_total", help: "Turns by upstream, model and outcome." },
  tokens: { name: "proxy_tokens_total", help: "Tokens by direction." },
  retries: { name: "proxy_upstream_retries_total", help: "Repeated calls, by what failed before." },
  backpressure: { name: "proxy_stream_backpressure_total", help: "Streams paused for a slow client." },
  duration: { name: "proxy_turn_duration_seconds", help: "Length of a turn." },
  firstToken: { name: "proxy_ttft_seconds", help: "Time to the first event of the model." },
  overhead: { name: "proxy_overhead_seconds", help: "Part of a turn that was not the upstream's." },
  commit: { name: "proxy_storage_commit_seconds", help: "Time until a stored response was on disk." },
  inFlight: { name: "proxy_inflight_turns", help: "Turns under way." },
  sessions: { name: "proxy_sessions_active", help: "Stored sessions." },
  ended: { name: "proxy_sessions_expired_total", help: "Sessions that ended, by reason." },
  queued: { name: "proxy_queue_depth", help: "Turns that wait for an upstream." },
  breaker: { name: "proxy_upstream_breaker", help: "0 closed, 1 probing, 2 open." }
}

interface TurnCounter {
  readonly upstream: string
  readonly label: string
  readonly outcome: string
  readonly series: Series
}

/** What is read from elsewhere when somebody asks. */
export interface ChatGauges {
  readonly turnsInFlight: number
  readonly sessionsActive: number
  readonly sessionsEnded: ReadonlyArray<readonly [reason: string, count: number]>
  readonly upstreams: ReadonlyArray<{
    readonly id: string
    readonly queued: number
    readonly breaker: number
  }>
}

export class ChatMetrics {
  private readonly metrics: Metrics
  readonly duration: HistogramSeries
  readonly firstToken: HistogramSeries
  readonly overhead: HistogramSeries
  readonly commit: HistogramSeries
  private readonly inputTokens: Series
  private readonly outputTokens: Series
  private readonly backpressures: Series

  /** The counter of the last turn, because turns of one model come in rows. */
  private lastTurn: TurnCounter | undefined = undefined

  private readonly models = new Set<string>()
  lastCommitMs = 0

  /** Counters of requests by status and endpoint: they come with every turn, so they are looked up without a
   *  key that must be built. */
  private readonly requestCounters = new Map<number, Map<string, Series>>()

  constructor(metrics: Metrics) {
    this.metrics = metrics
    this.duration = metrics.histogram(families.duration, bounds)
    this.firstToken = metrics.histogram(families.firstToken, bounds)
    this.overhead = metrics.histogram(families.overhead, overheadBounds)
    this.commit = metrics.histogram(families.commit, bounds)
    this.inputTokens = metrics.counter(families.tokens, { direction: "input" })
    this.outputTokens = metrics.counter(families.tokens, { direction: "output" })
    this.backpressures = metrics.counter(families.backpressure)
  }

  request(endpoint: string, status: number): void {
    let byEndpoint = this.requestCounters.get(status)
    if (byEndpoint === undefined) {
      byEndpoint = new Map()
      this.requestCounters.set(status, byEndpoint)
    }
    let series = byEndpoint.get(endpoint)
    if (series === undefined) {
      series = this.metrics.counter(families.requests, { endpoint, status: String(status) })
      byEndpoint.set(endpoint, series)
    }
    series.value++
  }

  turn(upstream: string, model: string, outcome: string): void {
    const label = this.modelLabel(model)
    const last = this.lastTurn
    const isSame = last?.upstream === upstream && last.label === label && last.outcome === outcome
    const current = isSame ? last : this.turnCounter(upstream, label, outcome)
    current.series.value++
  }

  private turnCounter(upstream: string, label: string, outcome: string): TurnCounter {
    const series = this.metrics.counter(families.turns, { upstream, model: label, outcome })
    const current = { upstream, label, outcome, series }
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
    this.inputTokens.value += input
    this.outputTokens.value += output
  }

  retry(upstream: string, reason: string): void {
    this.metrics.counter(families.retries, { upstream, reason }).value++
  }

  backpressure(): void {
    this.backpressures.value++
  }

  committed(ms: number): void {
    this.lastCommitMs = ms
    this.commit.observe(ms / 1_000)
  }

  /** Reads the gauges whenever the metrics are read. */
  publish(read: () => ChatGauges): void {
    const { metrics } = this
    metrics.onScrape(() => {
      const { turnsInFlight, sessionsActive, sessionsEnded, upstreams } = read()
      metrics.gauge(families.inFlight).value = turnsInFlight
      metrics.gauge(families.sessions).value = sessionsActive
      for (const [reason, count] of sessionsEnded) metrics.counter(families.ended, { reason }).value = count
      for (const { id: upstream, queued, breaker } of upstreams) {
        metrics.gauge(families.queued, { upstream }).value = queued
        metrics.gauge(families.breaker, { upstream }).value = breaker
      }
    })
  }
}
