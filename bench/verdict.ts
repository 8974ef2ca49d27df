/** Judges rounds of after ÷ before by pure statistics and the rule of bench/README.md. A median of seven or
 *  more rounds within 0.95 to 1.05 is "unchanged"; a figure that its own rounds contradict is "not shown". */

export const median = (values: ReadonlyArray<number>): number => quantileOf(sortedOf(values), 0.5)

const sortedOf = (values: ReadonlyArray<number>): ReadonlyArray<number> => [...values].sort((a, b) => a - b)

/** Returns a quantile, interpolated between two values; NaN when there are none. */
const quantileOf = (sorted: ReadonlyArray<number>, share: number): number => {
  if (sorted.length === 0) return NaN
  const position = (sorted.length - 1) * share
  const below = Math.floor(position)
  const above = Math.ceil(position)
  return sorted[below]! + (sorted[above]! - sorted[below]!) * (position - below)
}

export const spreadOf = (values: ReadonlyArray<number>): number => Math.max(...values) / Math.min(...values)

export const roundsDefault = 7
export const roundsMax = 15
export const spreadMax = 1.5
const lower = 0.95
const upper = 1.05
const confidence = 0.95

export interface Interval {
  readonly low: number
  readonly high: number
}

/** Returns the interval of the median by order statistics: the k-th least and the k-th greatest value, with
 *  the greatest k for which both tails of Binomial(n, ½) are at most 5 %. It assumes only that rounds are
 *  independent. With seven rounds these are the least and the greatest value, with fifteen the fourth from
 *  each end; with fewer than six there is none. */
export const medianInterval = (values: ReadonlyArray<number>): Interval | undefined => {
  const n = values.length
  let term = 0.5 ** n
  let tail = 0
  let rank = 0
  while (rank < n / 2 && 2 * (tail + term) <= 1 - confidence) {
    tail += term
    term = (term * (n - rank)) / (rank + 1)
    rank++
  }
  if (rank === 0) return undefined
  const sorted = sortedOf(values)
  return { low: sorted[rank - 1]!, high: sorted[n - rank]! }
}

export type Verdict = "unchanged" | "better" | "worse" | "not shown" | "too few rounds"

export interface Judgement {
  readonly verdict: Verdict
  readonly median: number
  readonly min: number
  readonly max: number
  readonly interval: Interval | undefined
  /** Describes in words a difference under 5 % that fifteen rounds do prove. */
  readonly smallDifference: string | undefined
}

const contains = ({ low, high }: Interval, value: number): boolean => low <= value && value <= high

/** Judges the ratios; with `rate` more is better, otherwise less. */
export const judge = (ratios: ReadonlyArray<number>, rate = false): Judgement => {
  const sorted = sortedOf(ratios)
  const middle = quantileOf(sorted, 0.5)
  const interval = medianInterval(ratios)
  const small = middle >= lower && middle <= upper
  const differs = interval !== undefined && !contains(interval, 1)
  const verdict = (): Verdict => {
    if (ratios.length < roundsDefault) return "too few rounds"
    if (quantileOf(sorted, 0.25) < lower && quantileOf(sorted, 0.75) > upper) return "not shown"
    // One odd round among fifteen does not move their median; among seven it may.
    if (ratios.length < roundsMax && spreadOf(ratios) > spreadMax) return "not shown"
    if (small) return "unchanged"
    if (!differs) return "not shown"
    return middle > 1 === rate ? "better" : "worse"
  }
  const judged = verdict()
  return {
    verdict: judged,
    median: middle,
    min: sorted.at(0) ?? NaN,
    max: sorted.at(-1) ?? NaN,
    interval,
    smallDifference:
      judged === "unchanged" && ratios.length >= roundsMax && differs
        ? `${(100 * Math.abs(middle - 1)).toFixed(1)} % ${middle > 1 ? "more" : "less"}`
        : undefined
  }
}
