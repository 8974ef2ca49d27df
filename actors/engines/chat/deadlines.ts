/** Deadlines in one bag, swept on the house's timer wheel: no timer per call, and nothing stays behind when a
 *  call is over. */
import { IndexedSet, type Indexed } from "../../../runtime/indexed-set.ts"

export interface Clock {
  nowMs(): number
  readonly timers: { schedule(atMs: number, fire: () => void): void }
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
    const deadline = new Deadline(this, this.clock.nowMs() + ms, fire)
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
    this.clock.timers.schedule(this.clock.nowMs() + sweepMs, () => {
      this.armed = false
      const now = this.clock.nowMs()
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
  private soon: number | undefined = undefined
  readonly fire: () => void
  private readonly of: Deadlines

  constructor(of: Deadlines, atMs: number, fire: () => void) {
    this.of = of
    this.atMs = atMs
    this.fire = fire
  }

  renew(ms: number): void {
    this.soon = undefined
    this.atMs = this.of.clock.nowMs() + ms
  }

  /** As `renew`, counted from the next sweep: the clock is not read for each chunk of a stream. */
  touch(ms: number): void {
    this.soon = ms
  }

  due(nowMs: number): boolean {
    if (this.soon !== undefined) this.renew(this.soon)
    return this.atMs <= nowMs
  }

  stop(): void {
    this.of.forget(this)
  }
}
