/** The Prometheus text format, version 0.0.4, of a metric registry. It is a module of its own because Effect's
 *  formatter is unstable: nothing else may import it. Source: docs/operations.md, "Metrics". */
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import type { Metrics } from "../../metrics.ts"

export const prometheusType = "text/plain; version=0.0.4; charset=utf-8"

export const prometheusText = (metrics: Metrics): string => {
  metrics.publish()
  return PrometheusMetrics.formatUnsafe(metrics.context)
}
