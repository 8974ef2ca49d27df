/** Publishes what the process, its actors, its listener and its engines know of themselves.
 *  Source: docs/operations.md, "Metrics". */
import type { Engines } from "../../../actors/engines/ports.ts"
import type { Store } from "../../../storage/store.ts"
import type { Metrics, Series } from "../../metrics.ts"
import type { ActorSystem } from "../../registry.ts"
import type { Server } from "../../transport/server.ts"
import type { StatusCounts } from "./exchanges.ts"

/** Counts answers in `troupe_http_responses_total`. */
export const responseCounts =
  (metrics: Metrics) =>
  (service: string): StatusCounts => {
    const family = { name: "troupe_http_responses_total", help: "Answers by service and status." }
    const byStatus = new Map<number, Series>()
    return {
      count: (status) => {
        let series = byStatus.get(status)
        if (series === undefined) {
          series = metrics.counter(family, { service, status: String(status) })
          byStatus.set(status, series)
        }
        series.value++
      }
    }
  }

type KindView = ReturnType<ActorSystem["overview"]>[number]

/** Kinds are few and ours, so each member of a kind's view may be a series. */
const kindFamilies: ReadonlyArray<{
  readonly type: "counter" | "gauge"
  readonly name: string
  readonly help: string
  readonly of: (kind: KindView) => number
}> = [
  { type: "gauge", name: "troupe_actors_live", help: "Actors in memory.", of: ({ live }) => live },
  {
    type: "gauge",
    name: "troupe_actors_failed",
    help: "Actors beyond their restart intensity.",
    of: ({ failed }) => failed
  },
  {
    type: "counter",
    name: "troupe_actor_messages_total",
    help: "Commands handled.",
    of: ({ handled }) => handled
  },
  {
    type: "counter",
    name: "troupe_actor_refused_total",
    help: "Commands refused by a full mailbox.",
    of: ({ refused }) => refused
  },
  {
    type: "counter",
    name: "troupe_actor_restarts_total",
    help: "Restarts after a defect.",
    of: ({ restarts }) => restarts
  },
  {
    type: "counter",
    name: "troupe_actor_failures_total",
    help: "Actors that went beyond their restart intensity.",
    of: ({ failures }) => failures
  },
  {
    type: "gauge",
    name: "troupe_kind_degraded",
    help: "1 while so many actors of the kind fail that the kind is in trouble, else 0.",
    of: ({ degraded }) => (degraded ? 1 : 0)
  },
  {
    type: "counter",
    name: "troupe_dead_letters_total",
    help: "Commands that reached no actor.",
    of: ({ deadLetters }) => deadLetters
  },
  {
    type: "counter",
    name: "troupe_actor_activations_total",
    help: "Actors loaded from disk or begun.",
    of: ({ activations }) => activations
  },
  {
    type: "counter",
    name: "troupe_actor_passivations_total",
    help: "Actors put back to disk.",
    of: ({ passivations }) => passivations
  }
]

export const publishActors = (metrics: Metrics, actors: ActorSystem): void =>
  metrics.onScrape(() => {
    for (const view of actors.overview())
      for (const family of kindFamilies)
        metrics[family.type](family, { kind: view.kind }).value = family.of(view)
  })

export const publishProcess = (metrics: Metrics): void => {
  const resident = metrics.gauge({ name: "process_resident_memory_bytes", help: "Memory in use." })
  const heap = metrics.gauge({ name: "nodejs_heap_used_bytes", help: "JavaScript heap in use." })
  metrics.onScrape(() => {
    const { rss, heapUsed } = process.memoryUsage()
    resident.value = rss
    heap.value = heapUsed
  })
}

export const publishServer = (metrics: Metrics, server: Server): void => {
  const connections = metrics.gauge({ name: "troupe_connections_open", help: "Open TCP connections." })
  const sockets = metrics.gauge({ name: "troupe_websockets_open", help: "Open WebSockets." })
  const requests = metrics.gauge({ name: "troupe_requests_in_flight", help: "Requests being worked on." })
  metrics.onScrape(() => {
    const load = server.load()
    connections.value = load.connections
    sockets.value = load.sockets
    requests.value = load.requests
  })
}

export const publishStore = (metrics: Metrics, store: Store): void => {
  const full = metrics.gauge({
    name: "troupe_storage_full",
    help: "1 while the disk is full and writes are refused, else 0."
  })
  metrics.onScrape(() => {
    full.value = store.writeFault() === undefined ? 0 : 1
  })
}

const readyFamily = { name: "troupe_engine_ready", help: "1 when the engine can serve, else 0." }
const usedFamily = { name: "troupe_engine_used", help: "Calls that an engine with a limit works on." }
const capacityFamily = { name: "troupe_engine_capacity", help: "Calls that it can work on at once." }

export const publishEngines = (metrics: Metrics, engines: Engines): void =>
  metrics.onScrape(() => {
    for (const { port, info, readiness } of engines.all())
      metrics.gauge(readyFamily, { port, engine: info.id }).value = readiness().ready ? 1 : 0
    const { used, max } = engines.recognizer.capacity()
    metrics.gauge(usedFamily, { port: "recognizer" }).value = used
    metrics.gauge(capacityFamily, { port: "recognizer" }).value = max
  })

/** Bucket bounds in seconds: a beat of the loop, a slow answer, a stall that clients feel. */
const delayBounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const beatMs = 50

/** Measures how late the event loop is, and returns what ends that. A histogram that only grows can be read by
 *  several scrapers; Node's own must be reset by one. */
export const publishEventLoop = (
  metrics: Metrics,
  nowMs: () => number = () => performance.now()
): (() => void) => {
  const delays = metrics.histogram(
    { name: "troupe_event_loop_delay_seconds", help: `Lateness of a timer of ${beatMs} ms.` },
    delayBounds
  )
  let expectedMs = nowMs() + beatMs
  const beat = setInterval(() => {
    const atMs = nowMs()
    delays.observe(Math.max(0, atMs - expectedMs) / 1_000)
    expectedMs = atMs + beatMs
  }, beatMs)
  beat.unref()
  return () => clearInterval(beat)
}
