/** The histogram of latencies that every load program reports, in ms. */
import { build, type Histogram } from "hdr-histogram-js"

/** Makes a histogram that records µs, to three digits, up to a minute. */
export const newHistogram = (): Histogram =>
  build({ lowestDiscernibleValue: 1, highestTrackableValue: 60_000_000, numberOfSignificantValueDigits: 3 })

export const recordMs = (histogram: Histogram, ms: number): void =>
  histogram.recordValue(Math.max(1, Math.round(ms * 1_000)))

/** Returns a percentile in ms, and 0 when nothing was recorded. */
export const percentileMs = (histogram: Histogram, percentile: number): number =>
  histogram.totalCount === 0 ? 0 : histogram.getValueAtPercentile(percentile) / 1_000

/** Reads a monotonic clock, in ms, that load and servers share. */
export const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6
