/** One timer wheel serves every deadline of the kernel: buckets of 50 ms in a map and one tick for all, so
 *  that no ask and no actor needs a timer of its own. Time is passed in from outside (the Effect Clock), so
 *  tests control it. */

export const tickMs = 50

export class Timers {
  private readonly buckets = new Map<number, Array<() => void>>()
  private currentBucket: number

  constructor(nowMs: number) {
    this.currentBucket = Math.floor(nowMs / tickMs)
  }

  /** Calls `fire` in the first tick at or after `atMs`. There is no way to cancel: `fire` has to check
   *  whether it still matters. */
  schedule(atMs: number, fire: () => void): void {
    const bucket = Math.max(Math.ceil(atMs / tickMs), this.currentBucket + 1)
    const waiting = this.buckets.get(bucket)
    if (waiting === undefined) this.buckets.set(bucket, [fire])
    else waiting.push(fire)
  }

  tick(nowMs: number): void {
    const now = Math.floor(nowMs / tickMs)
    if (this.buckets.size === 0) {
      this.currentBucket = now
      return
    }
    const due =
      now - this.currentBucket > this.buckets.size
        ? [...this.buckets.keys()].filter((bucket) => bucket <= now).sort((a, b) => a - b)
        : Array.from({ length: Math.max(now - this.currentBucket, 0) }, (_, i) => this.currentBucket + 1 + i)
    this.currentBucket = now
    for (const bucket of due) {
      const fires = this.buckets.get(bucket)
      if (fires === undefined) continue
      this.buckets.delete(bucket)
      for (const fire of fires) fire()
    }
  }
}
