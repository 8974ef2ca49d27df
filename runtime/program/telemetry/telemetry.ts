/** The telemetry of one node: log, metrics, and what every service is instrumented with. Its Layer gives the
 *  same Logger and the same metric registry to every fiber. Guarantee: whatever it opens is closed with its
 *  scope. Source: docs/operations.md, "Metrics" and "Logs". */
import { Context, Effect, Layer, Logger, Metric, References, type Scope } from "effect"
import type { Engines } from "../../../actors/engines/ports.ts"
import type { Service } from "../../http.ts"
import type { Log } from "../../kind.ts"
import { Metrics } from "../../metrics.ts"
import type { ActorSystem } from "../../registry.ts"
import type { Server } from "../../transport/server.ts"
import { Exchanges } from "./exchanges.ts"
import { jsonLogger, minimumLevel, plainLog, type JsonLoggerOptions, type LeastLevel } from "./logger.ts"
import {
  publishActors,
  publishEngines,
  publishEventLoop,
  publishProcess,
  publishServer,
  responseCounts
} from "./process-metrics.ts"

export interface TelemetryConfig {
  readonly logLevel: LeastLevel
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
  readonly log: Log
  readonly metrics: Metrics
  /** Returns the same service with its answers counted, and its failures logged. */
  readonly instrument: (service: Service) => Service
  /** Publishes the numbers of what is observed. */
  readonly observe: (observed: Observed) => void
}

const make = (
  { logLevel }: TelemetryOptions,
  logger: Logger.Logger<unknown, void>
): Effect.Effect<TelemetryShape, never, Scope.Scope> =>
  Effect.gen(function* () {
    const log = plainLog(logger, yield* Effect.withFiberSucceed((fiber) => fiber), logLevel)
    const metrics = new Metrics()
    const exchanges = new Exchanges({ log, countsOf: responseCounts(metrics) })
    publishProcess(metrics)
    yield* Effect.acquireRelease(
      Effect.sync(() => publishEventLoop(metrics)),
      (end) => Effect.sync(end)
    )
    return {
      log,
      metrics,
      instrument: (service) => exchanges.instrument(service),
      observe: ({ actors, engines, server }) => {
        publishActors(metrics, actors)
        publishEngines(metrics, engines)
        publishServer(metrics, server)
      }
    }
  })

export class Telemetry extends Context.Service<Telemetry, TelemetryShape>()("troupe/Telemetry") {
  static readonly make = (options: TelemetryOptions): Effect.Effect<TelemetryShape, never, Scope.Scope> =>
    make(options, loggerOf(options))

  /** Provides Telemetry, and lets the log calls and metrics of every fiber below arrive in the same place. */
  static readonly layer = (options: TelemetryOptions): Layer.Layer<Telemetry> => {
    const logger = loggerOf(options)
    return Layer.effect(Telemetry, make(options, logger)).pipe(
      Layer.flatMap((context) =>
        Layer.mergeAll(
          Layer.succeedContext(context),
          Layer.succeed(
            Metric.MetricRegistry,
            Context.get(Context.get(context, Telemetry).metrics.context, Metric.MetricRegistry)
          )
        )
      ),
      Layer.provideMerge(Logger.layer([logger])),
      Layer.provideMerge(Layer.succeed(References.MinimumLogLevel, minimumLevel(options.logLevel)))
    )
  }
}

const loggerOf = ({ logLevel, write }: TelemetryOptions): Logger.Logger<unknown, void> =>
  jsonLogger({ least: logLevel, ...(write && { write }) })
