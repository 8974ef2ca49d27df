/** Limits how fast source audio may arrive. Plain numbers, with the time as an argument: one object per
 *  session, one call per chunk. It outlives a connection, because audio sent on one may be decoded under the
 *  next.
 *  Source: docs/spec/translation.md, section 12.5. */

export const chunkBytesMax = 102_400
export const chunkMsMax = 1_000
export const idleMsMax = 30_000

/** Tolerated milliseconds of audio ahead of twice real time: where duration follows from size, and where
 *  only decoding reveals it. */
export const aheadMsMax = { plain: 5_000, decoded: 30_000 }

export class AudioRateLimiter {
  private startedMs: number
  private lastMs: number
  private leftMs: number | undefined

  /** Milliseconds of audio received in this session. */
  heardMs = 0

  /** Milliseconds of audio that have been booked. */
  billedMs = 0

  private readonly aheadMs: number

  constructor(nowMs: number, plain: boolean) {
    this.startedMs = nowMs
    this.lastMs = nowMs
    this.aheadMs = plain ? aheadMsMax.plain : aheadMsMax.decoded
  }

  /** Counts a chunk of `ms` of audio (0 where its duration is not known yet). Returns false when audio
   *  arrives faster than twice real time. */
  chunk(nowMs: number, ms: number): boolean {
    this.lastMs = nowMs
    return this.heard(nowMs, this.heardMs + ms)
  }

  /** Corrects the duration to what the decoder reports; returns false when audio is too fast. */
  heard(nowMs: number, totalMs: number): boolean {
    this.heardMs = totalMs
    return totalMs <= 2 * (nowMs - this.startedMs) + this.aheadMs
  }

  /** Stops the clock when the connection closes: the time until the next connection earns no allowance. */
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
