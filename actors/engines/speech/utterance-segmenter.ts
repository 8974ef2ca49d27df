/** Cuts a stream of sound into utterances by its loudness, for engines that recognize whole pieces; one
 *  object per recognition. It is guaranteed that an utterance lasts 15 s at most. Source:
 *  docs/spec/engines.md, section 4.4. */
import type { Pcm } from "../ports.ts"

/** Samples of 30 ms at 16 kHz. */
const frame = 480

/** An utterance ends after 0.6 s of silence. */
const pauseFrames = 20

/** An utterance lasts 15 s at most. */
const utteranceFramesMax = 500

/** An utterance begins so many frames before it was loud. */
const leadFrames = 8

export interface Utterance {
  readonly pcm: Int16Array
  readonly startMs: number
  readonly endMs: number
}

export class UtteranceSegmenter {
  private rest: Int16Array = new Int16Array(0)
  private frames: Array<Int16Array> = []
  /** The loudness of the background. */
  private floor = 200

  /** Quiet frames in a row. */
  private quiet = 0

  private speaking = false
  /** Samples so far. */
  private position = 0

  /** The utterance that has not ended yet. */
  get open(): Utterance | undefined {
    return this.speaking ? this.cut() : undefined
  }

  push(pcm: Pcm): ReadonlyArray<Utterance> {
    const whole = new Int16Array(this.rest.length + pcm.length)
    whole.set(this.rest)
    whole.set(pcm, this.rest.length)
    const done: Array<Utterance> = []
    let offset = 0
    for (; offset + frame <= whole.length; offset += frame) {
      const piece = whole.slice(offset, offset + frame)
      let power = 0
      for (const sample of piece) power += sample * sample
      const loudness = Math.sqrt(power / frame)
      const loud = loudness > this.floor * 2.5
      if (!loud) this.floor = Math.max(40, this.floor * 0.98 + loudness * 0.02)
      this.frames.push(piece)
      this.position += frame
      if (!this.speaking) {
        if (loud) {
          this.speaking = true
          this.quiet = 0
        } else if (this.frames.length > leadFrames) this.frames.shift()
      } else {
        this.quiet = loud ? 0 : this.quiet + 1
        if (this.quiet >= pauseFrames || this.frames.length >= utteranceFramesMax) done.push(this.finish())
      }
    }
    this.rest = whole.slice(offset)
    return done
  }

  end(): ReadonlyArray<Utterance> {
    return this.speaking ? [this.finish()] : []
  }

  private cut(): Utterance {
    const pcm = new Int16Array(this.frames.length * frame)
    this.frames.forEach((piece, i) => pcm.set(piece, i * frame))
    return {
      pcm,
      startMs: (this.position - pcm.length) / 16,
      endMs: (this.position - this.quiet * frame) / 16
    }
  }

  private finish(): Utterance {
    const whole = this.cut()
    this.frames = []
    this.speaking = false
    this.quiet = 0
    return whole
  }
}
