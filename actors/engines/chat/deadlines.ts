/** Holds all deadlines of the model servers' calls in one set, which is swept on the kernel's timer wheel. It
 *  is guaranteed that a call needs no timer of its own, and that nothing of an ended call is retained.
 *  Source: docs/spec/chat.md, section 17. */
import { IndexedSet, type Indexed } from "../../../runtime/indexed-set.ts"

/** The clock of the timers. Durations are never measured by wall time, which can be set (K-8). */
export interface Clock {
  monotonicMs(): number
  readonly timers: { after(ms: number, fire: () => void): unknown }
}

const sweepMs = 50

export class Deadlines {
  private readonly waiting = new IndexedSet<Deadline>()
  private armed = false
  readonly clock: Clock

  constructor(clock: Clock) {
    this.clock = clock
  }

  start(ms: number, fire: () => void): Deadline {
    const deadline = new Deadline(this, this.clock.monotonicMs() + ms, fire)
    this.waiting.add(deadline)
    if (!this.armed) this.arm()
    return deadline
  }

  forget(deadline: Deadline): void {
    this.waiting.delete(deadline)
  }

  get size(): number {
    return this.waiting.size
  }

  private arm(): void {
    this.armed = true
    this.clock.timers.after(sweepMs, () => {
      this.armed = false
      const now = this.clock.monotonicMs()
      this.waiting.forEach((deadline) => {
        if (deadline.due(now)) {
          this.waiting.delete(deadline)
          deadline.fire()
        }
      })
      if (this.waiting.size > 0 && !this.armed) this.arm()
    })
  }
}

export class Deadline implements Indexed {
  index = -1
  private atMs: number
  /** The ms to add at the next sweep; undefined when nothing has renewed the deadline since the last. */
  private touchedMs: number | undefined = undefined

  readonly fire: () => void
  private readonly owner: Deadlines

  constructor(owner: Deadlines, atMs: number, fire: () => void) {
    this.owner = owner
    this.atMs = atMs
    this.fire = fire
  }

  renew(ms: number): void {
    this.touchedMs = undefined
    this.atMs = this.owner.clock.monotonicMs() + ms
  }

  /** Renews the deadline as of the next sweep, so that the clock is not read for each chunk of a stream. */
  touch(ms: number): void {
    this.touchedMs = ms
  }

  due(monotonicMs: number): boolean {
    if (this.touchedMs !== undefined) this.renew(this.touchedMs)
    return this.atMs <= monotonicMs
  }

  stop(): void {
    this.owner.forget(this)
  }
}
