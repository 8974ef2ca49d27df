/** One timer wheel serves every deadline of the kernel: buckets of 50 ms in a map and one tick for all, so
 *  that no ask and no actor needs a timer of its own. Its clock is monotonic and comes from outside, so tests
 *  control it and a wall clock that is set back delays nothing; callers give durations, so that nobody can
 *  mix the two clocks. Guarantee: a timer fires once or is
 *  cancelled, a cancelled one holds nothing, and one that throws does not hold up the others. */

export const tickMs = 50

/** One scheduled call, which can be cancelled until it has fired. */
export interface Timer {
  cancel(): void
}

class Scheduled implements Timer {
  readonly fire: () => void
  private readonly bucket: Set<Scheduled>

  constructor(bucket: Set<Scheduled>, fire: () => void) {
    this.bucket = bucket
    this.fire = fire
  }

  cancel(): void {
    this.bucket.delete(this)
  }
}

export class Timers {
  private readonly buckets = new Map<number, Set<Scheduled>>()
  private currentBucket: number
  private readonly monotonicMs: () => number
  private readonly onDefect: (defect: unknown) => void

  /** `onDefect` hears of a timer that threw. */
  constructor(monotonicMs: () => number, onDefect: (defect: unknown) => void = () => {}) {
    this.monotonicMs = monotonicMs
    this.currentBucket = Math.floor(monotonicMs() / tickMs)
    this.onDefect = onDefect
  }

  /** Calls `fire` in the first tick when `ms` have passed. */
  after(ms: number, fire: () => void): Timer {
    const at = Math.max(Math.ceil((this.monotonicMs() + ms) / tickMs), this.currentBucket + 1)
    let bucket = this.buckets.get(at)
    if (bucket === undefined) {
      bucket = new Set()
      this.buckets.set(at, bucket)
    }
    const timer = new Scheduled(bucket, fire)
    bucket.add(timer)
    return timer
  }

  /** Fires what is due, in order of time. */
  tick(): void {
    const now = Math.floor(this.monotonicMs() / tickMs)
    if (now <= this.currentBucket) return
    const elapsed = now - this.currentBucket
    const due =
      elapsed > this.buckets.size
        ? [...this.buckets.keys()].filter((bucket) => bucket <= now).sort((a, b) => a - b)
        : Array.from({ length: elapsed }, (_, i) => this.currentBucket + 1 + i)
    this.currentBucket = now
    for (const bucket of due) this.fire(bucket)
  }

  private fire(at: number): void {
    const bucket = this.buckets.get(at)
    if (bucket === undefined) return
    this.buckets.delete(at)
    for (const { fire } of bucket)
      try {
        fire()
      } catch (defect) {
        this.onDefect(defect)
      }
  }
}
