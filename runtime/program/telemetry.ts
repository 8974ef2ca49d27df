/** Counts answers by service and status, and words the numbers of /metrics. */
import type { ActorSystem } from "../registry.ts"
import type { StatusCounts } from "./telemetry/exchanges.ts"

/** Counts responses by service and status. */
export class ResponseCounter {
  private readonly counts = new Map<string, number>()

  readonly countsOf = (service: string): StatusCounts => ({
    count: (status) => {
      const name = `service="${service}",status="${status}"`
      this.counts.set(name, (this.counts.get(name) ?? 0) + 1)
    }
  })

  get lines(): ReadonlyArray<string> {
    return [...this.counts].map(([labels, value]) => `troupe_http_responses_total{${labels}} ${value}`)
  }
}

export const metricsText = (answers: ResponseCounter, actors: ActorSystem): string => {
  const kinds = actors.overview()
  const gauge = (
    name: string,
    help: string,
    type: "gauge" | "counter",
    of: (kind: (typeof kinds)[number]) => number
  ): ReadonlyArray<string> => [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} ${type}`,
    ...kinds.map((kind) => `${name}{kind="${kind.kind}"} ${of(kind)}`)
  ]
  const { rss, heapUsed } = process.memoryUsage()
  return [
    "# HELP troupe_http_responses_total Responses by service and status.",
    "# TYPE troupe_http_responses_total counter",
    ...answers.lines,
    ...gauge("troupe_actors_live", "Actors in memory.", "gauge", ({ live }) => live),
    ...gauge(
      "troupe_actors_failed",
      "Actors beyond their restart intensity.",
      "gauge",
      ({ failed }) => failed
    ),
    ...gauge("troupe_actor_messages_total", "Commands handled.", "counter", ({ handled }) => handled),
    ...gauge(
      "troupe_actor_refused_total",
      "Commands refused by a full mailbox.",
      "counter",
      ({ refused }) => refused
    ),
    ...gauge(
      "troupe_actor_restarts_total",
      "Restarts after a defect.",
      "counter",
      ({ restarts }) => restarts
    ),
    ...gauge("troupe_actor_activations_total", "Activations.", "counter", ({ activations }) => activations),
    ...gauge(
      "troupe_actor_passivations_total",
      "Passivations.",
      "counter",
      ({ passivations }) => passivations
    ),
    "# TYPE process_resident_memory_bytes gauge",
    `process_resident_memory_bytes ${rss}`,
    "# TYPE nodejs_heap_used_bytes gauge",
    `nodejs_heap_used_bytes ${heapUsed}`,
    ""
  ].join("\n")
}
