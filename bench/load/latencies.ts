/** A histogram of latencies, read in ms: what every load program reports. */
import { build, type Histogram } from "hdr-histogram-js"

/** In µs, to three digits, up to a minute. */
export const newHistogram = (): Histogram =>
  build({ lowestDiscernibleValue: 1, highestTrackableValue: 60_000_000, numberOfSignificantValueDigits: 3 })

export const recordMs = (histogram: Histogram, ms: number): void =>
  histogram.recordValue(Math.max(1, Math.round(ms * 1_000)))

/** Zero where nothing was recorded. */
export const percentileMs = (histogram: Histogram, percentile: number): number =>
  histogram.totalCount === 0 ? 0 : histogram.getValueAtPercentile(percentile) / 1_000

/** A monotonic clock that load and servers share, in ms. */
export const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6
