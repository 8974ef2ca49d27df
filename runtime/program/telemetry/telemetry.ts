/** The telemetry of one node: log, metrics, traces, and what every service is instrumented with. Its Layer gives the
 *  same Logger and the same metric registry to every fiber. Guarantee: whatever it opens is closed with its
 *  scope. Source: docs/operations.md, "Metrics" and "Logs". */
import { Context, Effect, Layer, Logger, Metric, References, type Scope, Tracer } from "effect"
import type { Engines } from "../../../actors/engines/ports.ts"
import type { Service } from "../../http.ts"
import type { Log } from "../../kind.ts"
import { Metrics } from "../../metrics.ts"
import type { ActorSystem } from "../../registry.ts"
import type { Server } from "../../transport/server.ts"
import type { Store } from "../../../storage/store.ts"
import { Exchanges } from "./exchanges.ts"
import { jsonLogger, minimumLevel, plainLog, type JsonLoggerOptions, type LeastLevel } from "./logger.ts"
import {
  publishActors,
  publishEngines,
  publishEventLoop,
  publishProcess,
  publishServer,
  publishStore,
  responseCounts
} from "./process-metrics.ts"
import { OtlpExporter, sendTo } from "./otlp.ts"
import { Tracing } from "./tracing.ts"

export interface TelemetryConfig {
  readonly logLevel: LeastLevel
  /** Base address of an OTLP collector; tracing is off without one. */
  readonly otlpUrl: string | undefined
  /** Headers for the collector, as `name=value,name=value` with percent-encoded values. */
  readonly otlpHeaders: string | undefined
  readonly traceSamplePercent: number
  readonly serviceName: string
}

export interface TelemetryOptions extends TelemetryConfig {
  /** Receives each line of the log; standard error unless a test reads them. */
  readonly write?: JsonLoggerOptions["write"]
}

export interface Observed {
  readonly actors: ActorSystem
  readonly engines: Engines
  readonly server: Server
}

interface TelemetryShape {
  readonly logger: Logger.Logger<unknown, void>
  readonly log: Log
  readonly metrics: Metrics
  /** Returns the same service with its answers counted, and its failures logged. */
  readonly instrument: (service: Service) => Service
  /** Is there where tracing is configured. */
  readonly tracing: Tracing | undefined
  /** Publishes the numbers of what is observed. */
  readonly observe: (observed: Observed) => void
  readonly observeStore: (store: Store) => void
}

const version = "0.1.0"

/** A value with a lone percent sign is taken as it is. */
const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Reads headers in the form of OTEL_EXPORTER_OTLP_HEADERS. */
export const headersIn = (text = ""): Readonly<Record<string, string>> =>
  Object.fromEntries(
    text
      .split(",")
      .map((pair) => pair.trim())
      .filter((pair) => /^[\w-]+\s*=/.test(pair))
      .map((pair) => {
        const at = pair.indexOf("=")
        return [pair.slice(0, at).trim().toLowerCase(), decoded(pair.slice(at + 1).trim())]
      })
  )

const spanFamilies = {
  exported: { name: "troupe_spans_exported_total", help: "Spans that the collector took." },
  dropped: { name: "troupe_spans_dropped_total", help: "Spans lost because it did not." }
}

const startTracing = (
  options: TelemetryOptions,
  url: string,
  log: Log,
  metrics: Metrics
): Effect.Effect<Tracing, never, Scope.Scope> =>
  Effect.gen(function* () {
    const exporter = yield* Effect.acquireRelease(
      Effect.sync(
        () =>
          new OtlpExporter({
            send: sendTo(url, headersIn(options.otlpHeaders)),
            serviceName: options.serviceName,
            version,
            log,
            exported: metrics.counter(spanFamilies.exported),
            dropped: metrics.counter(spanFamilies.dropped)
          })
      ),
      (opened) => Effect.promise(() => opened.close())
    )
    return new Tracing({
      ended: exporter.push,
      accepts: () => exporter.accepts,
      samplePercent: options.traceSamplePercent
    })
  })

const make = (options: TelemetryOptions): Effect.Effect<TelemetryShape, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { logLevel, otlpUrl, write } = options
    let tracing: Tracing | undefined
    const logger = jsonLogger({
      least: logLevel,
      ...(write && { write }),
      ...(otlpUrl === undefined ? {} : { traceId: () => tracing?.traceId })
    })
    const log = plainLog(logger, yield* Effect.withFiberSucceed((fiber) => fiber), logLevel)
    const metrics = new Metrics()
    const exchanges = new Exchanges({ log, countsOf: responseCounts(metrics) })
    publishProcess(metrics)
    yield* Effect.acquireRelease(
      Effect.sync(() => publishEventLoop(metrics)),
      (end) => Effect.sync(end)
    )
    if (otlpUrl !== undefined) tracing = yield* startTracing(options, otlpUrl, log, metrics)
    return {
      logger,
      log,
      metrics,
      tracing,
      instrument: (service) => {
        const heard = exchanges.instrument(service)
        return tracing?.instrument(heard) ?? heard
      },
      observeStore: (store) => publishStore(metrics, store),
      observe: ({ actors, engines, server }) => {
        publishActors(metrics, actors)
        publishEngines(metrics, engines)
        publishServer(metrics, server)
      }
    }
  })

export class Telemetry extends Context.Service<Telemetry, TelemetryShape>()("program/Telemetry") {
  /** Provides Telemetry, and lets what every fiber above logs, counts and traces arrive in the same place. */
  static readonly layer = (options: TelemetryOptions): Layer.Layer<Telemetry> =>
    Layer.unwrap(
      Effect.map(make(options), (telemetry) =>
        Layer.mergeAll(
          Layer.succeed(Telemetry)(telemetry),
          Logger.layer([telemetry.logger]),
          Layer.succeed(References.MinimumLogLevel)(minimumLevel(options.logLevel)),
          Layer.succeed(Metric.MetricRegistry)(Context.get(telemetry.metrics.context, Metric.MetricRegistry)),
          telemetry.tracing === undefined
            ? Layer.empty
            : Layer.succeed(Tracer.Tracer)(telemetry.tracing.tracer)
        )
      )
    )
}
