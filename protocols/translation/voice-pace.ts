/** How fast source audio may come (translation 12.5). Plain numbers, the clock given: one object per connection, one call per chunk. */

export const chunkBytesMax = 102_400
export const chunkMsMax = 1_000
export const idleMsMax = 30_000
/** Sound ahead of twice real time that is still tolerated: where its length can be told from its size, and where only decoding tells. */
export const aheadMsMax = { plain: 5_000, decoded: 30_000 }

export class Pace {
  private readonly startedMs: number
  private lastMs: number
  /** Sound of this connection so far. */ heardMs = 0
  private readonly aheadMs: number

  constructor(nowMs: number, plain: boolean) {
    this.startedMs = nowMs
    this.lastMs = nowMs
    this.aheadMs = plain ? aheadMsMax.plain : aheadMsMax.decoded
  }
  /** A chunk has come, of `ms` of sound (0 where that is not known yet). False: faster than twice real time. */
  chunk(nowMs: number, ms: number): boolean {
    this.lastMs = nowMs
    return this.heard(nowMs, this.heardMs + ms)
  }
  /** The decoder says how much sound it was. */
  heard(nowMs: number, totalMs: number): boolean {
    this.heardMs = totalMs
    return totalMs <= 2 * (nowMs - this.startedMs) + this.aheadMs
  }
  idle(nowMs: number): boolean { return nowMs - this.lastMs >= idleMsMax }
}
