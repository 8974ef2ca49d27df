/** How fast source audio may come (translation 12.5). Plain numbers, the clock given: one object per session,
 *  one call per chunk. It outlives a connection, because what one has sent may be decoded under the next. */

export const chunkBytesMax = 102_400
export const chunkMsMax = 1_000
export const idleMsMax = 30_000

/** Sound ahead of twice real time that is still tolerated: where its length can be told from its size, and
 *  where only decoding tells. */
export const aheadMsMax = { plain: 5_000, decoded: 30_000 }

export class AudioRateLimiter {
  private startedMs: number
  private lastMs: number
  private leftMs: number | undefined

  /** Sound of this session so far. */
  heardMs = 0

  /** What of it has been booked. */
  billedMs = 0

  private readonly aheadMs: number

  constructor(nowMs: number, plain: boolean) {
    this.startedMs = nowMs
    this.lastMs = nowMs
    this.aheadMs = plain ? aheadMsMax.plain : aheadMsMax.decoded
  }

  /** A chunk has come, of `ms` of sound (0 where that is not known yet). False: faster than twice real time.
   *  */
  chunk(nowMs: number, ms: number): boolean {
    this.lastMs = nowMs
    return this.heard(nowMs, this.heardMs + ms)
  }

  /** The decoder says how much sound it was. */
  heard(nowMs: number, totalMs: number): boolean {
    this.heardMs = totalMs
    return totalMs <= 2 * (nowMs - this.startedMs) + this.aheadMs
  }

  /** The connection is gone: the time until the next earns nothing. */
  leave(nowMs: number): void {
    this.leftMs = nowMs
  }

  join(nowMs: number): void {
    if (this.leftMs !== undefined) this.startedMs += nowMs - this.leftMs
    this.leftMs = undefined
    this.lastMs = nowMs
  }

  idle(nowMs: number): boolean {
    return nowMs - this.lastMs >= idleMsMax
  }
}
