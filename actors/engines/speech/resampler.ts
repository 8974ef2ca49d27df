/** Resamples sound from any rate to any other, by the Speex resampler (WASM). It is guaranteed that chunks
 *  may be cut anywhere: its state lasts between them. Source: docs/spec/engines.md, section 5. */
import type { Pcm } from "../ports.ts"

const quality = 5
const samplesMax = 16_384
let loading: Promise<any> | undefined

export class Resampler {
  private readonly wasm: any
  private readonly state: number
  private readonly input: number
  private readonly output: number
  private readonly lengths: number
  private readonly ratio: number

  static async make(from: number, to: number): Promise<Resampler> {
    return new Resampler(
      await (loading ??= import("@echogarden/speex-resampler-wasm/simd").then(({ default: speex }) =>
        (speex as () => Promise<unknown>)()
      )),
      from,
      to
    )
  }

  private constructor(wasm: any, from: number, to: number) {
    this.wasm = wasm
    this.ratio = to / from
    this.lengths = wasm._malloc(8)
    this.state = wasm._speex_resampler_init(1, from, to, quality, this.lengths)
    wasm._speex_resampler_skip_zeros(this.state)
    this.input = wasm._malloc(2 * samplesMax)
    this.output = wasm._malloc(2 * this.outputMax)
  }

  private get outputMax(): number {
    return Math.ceil(samplesMax * this.ratio) + 64
  }

  push(samples: Int16Array): Pcm {
    const parts: Array<Int16Array> = []
    for (let at = 0; at < samples.length;) {
      const part = samples.subarray(at, at + samplesMax)
      this.wasm.HEAP16.set(part, this.input >> 1)
      this.wasm.HEAP32[this.lengths >> 2] = part.length
      this.wasm.HEAP32[(this.lengths >> 2) + 1] = this.outputMax
      this.wasm._speex_resampler_process_int(
        this.state,
        0,
        this.input,
        this.lengths,
        this.output,
        this.lengths + 4
      )
      const consumed: number = this.wasm.HEAP32[this.lengths >> 2]
      const produced: number = this.wasm.HEAP32[(this.lengths >> 2) + 1]
      parts.push(this.wasm.HEAP16.slice(this.output >> 1, (this.output >> 1) + produced))
      at += Math.max(consumed, 1)
    }
    if (parts.length === 1) return parts[0]!
    const whole = new Int16Array(parts.reduce((sum, part) => sum + part.length, 0))
    let at = 0
    for (const part of parts) {
      whole.set(part, at)
      at += part.length
    }
    return whole
  }

  close(): void {
    this.wasm._speex_resampler_destroy(this.state)
    for (const pointer of [this.lengths, this.input, this.output]) this.wasm._free(pointer)
  }
}
