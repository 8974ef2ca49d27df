/** Buffers the sound that no final text covers yet, so that it can be recognized again after a crash. It
 *  holds 30 s at most and drops the oldest sound first. Positions are in ms of the session's audio. */
import type { Pcm } from "../engines/ports.ts"

const bufferedMsMaxDefault = 30_000

/** PCM is 16 kHz mono everywhere behind the decoder. */
export const samplesPerMs = 16

export class ReplayBuffer {
  private readonly parts: Array<Pcm> = []
  private samples = 0
  private positionMs: number
  private readonly samplesMax: number

  constructor(startMs: number, bufferedMsMax = bufferedMsMaxDefault) {
    this.positionMs = startMs
    this.samplesMax = bufferedMsMax * samplesPerMs
  }

  /** The position of the oldest sample in the buffer. */
  get startMs(): number {
    return this.positionMs
  }

  /** Returns a copy of the list, oldest part first; the samples themselves are shared. */
  get contents(): Array<Pcm> {
    return [...this.parts]
  }

  push(pcm: Pcm): void {
    this.parts.push(pcm)
    this.samples += pcm.length
    while (this.samples > this.samplesMax && this.parts.length > 1) this.drop(this.parts[0]!.length)
  }

  /** Drops the sound before `untilMs`; a time beyond the buffer's end empties it. */
  dropUntil(untilMs: number): void {
    const samples = Math.floor((untilMs - this.positionMs) * samplesPerMs)
    if (samples > 0) this.drop(Math.min(samples, this.samples))
  }

  private drop(samples: number): void {
    this.positionMs += samples / samplesPerMs
    this.samples -= samples
    let left = samples
    while (left > 0) {
      const first = this.parts[0]!
      if (first.length > left) {
        this.parts[0] = first.subarray(left)
        return
      }
      this.parts.shift()
      left -= first.length
    }
  }
}
