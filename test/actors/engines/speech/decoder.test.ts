/** FLAC and MP3 as independent encoders write them (test/samples/README.md says how), decoded to 16 kHz. */
import { readFileSync } from "node:fs"
import { afterEach, describe, expect, it, vi } from "vitest"
import { decoderFor } from "../../../../actors/engines/speech/decoder.ts"
import { AudioFault } from "../../../../actors/engines/ports.ts"

afterEach(() => {
  vi.restoreAllMocks()
})

const sample = (name: string): Uint8Array =>
  readFileSync(new URL(`../../../samples/${name}`, import.meta.url))

const decoded = async (type: string, bytes: Uint8Array, cut: number): Promise<Int16Array> => {
  const decoder = decoderFor(type)!()
  const parts: Array<Int16Array> = []
  try {
    for (let at = 0; at < bytes.length; at += cut)
      parts.push(...(await decoder.push(bytes.subarray(at, at + cut))))
    parts.push(...(await decoder.flush()))
  } finally {
    decoder.close()
  }
  return Int16Array.from(parts.flatMap((part) => [...part]))
}

const root = (of: Int16Array): number =>
  Math.sqrt(of.reduce((sum, sample) => sum + sample * sample, 0) / of.length)

const rising = (pcm: Int16Array): number =>
  pcm.reduce((n, sample, i) => n + (i > 0 && sample >= 0 && pcm[i - 1]! < 0 ? 1 : 0), 0)

/** Without a page of numbers where they differ. */
const same = (a: Int16Array, b: Int16Array): boolean =>
  Buffer.from(a.buffer, a.byteOffset, a.byteLength).equals(Buffer.from(b.buffer, b.byteOffset, b.byteLength))

const weather = (() => {
  const wav = readFileSync(new URL("../../../../docs/samples/weather.wav", import.meta.url))
  return new Int16Array(wav.buffer.slice(wav.byteOffset + 44, wav.byteOffset + 44 + 2 * 57_600))
})()

describe("a tone at 44.1 kHz, stereo", () => {
  it.each([
    ["audio/flac", "tone.flac"],
    ["audio/auto", "tone.flac"],
    ["audio/ogg;codecs=flac", "tone.oga"],
    ["audio/ogg", "tone.oga"],
    ["audio/auto", "tone.oga"],
    ["audio/mpeg", "tone.mp3"],
    ["audio/auto", "tone.mp3"]
  ])("%s reads %s: one second, 440 Hz, its loudness, however it is cut", async (type, file) => {
    const whole = await decoded(type, sample(`audio/${file}`), 1_000_000)
    expect(Math.abs(whole.length - 16_000)).toBeLessThan(file.endsWith("mp3") ? 1_600 : 80)
    const middle = whole.slice(3_200, 12_800)
    expect(Math.abs(rising(middle) / 0.6 - 440)).toBeLessThan(4)
    expect(Math.abs(root(middle) / (8_000 / Math.SQRT2) - 1)).toBeLessThan(0.05)
    for (const cut of [37, 333, 4_096])
      expect(same(await decoded(type, sample(`audio/${file}`), cut), whole), `cut by ${cut}`).toBe(true)
  })
})

describe("speech at 16 kHz, mono", () => {
  it("FLAC gives back the very samples; its decoder keeps a last block of 256 to itself (16 ms)", async () => {
    const pcm = await decoded("audio/flac", sample("audio/weather.flac"), 3_000)
    expect(same(pcm, weather.slice(0, pcm.length))).toBe(true)
    expect(weather.length - pcm.length).toBeLessThanOrEqual(256)
  })
  it("MP3 gives back their likeness, moved by less than 0.1 s", async () => {
    const heard = await decoded("audio/mpeg", sample("audio/weather.mp3"), 3_000)
    const likeness = (moved: number): number => {
      let both = 0
      let ours = 0
      let theirs = 0
      for (let i = 8_000; i < 48_000; i++) {
        const a = weather[i]!
        const b = heard[i + moved]!
        both += a * b
        ours += a * a
        theirs += b * b
      }
      return both / Math.sqrt(ours * theirs)
    }
    expect(Math.max(...Array.from({ length: 1_600 }, (_, moved) => likeness(moved)))).toBeGreaterThan(0.95)
  })
})

describe("what is not what it says", () => {
  it.each([
    ["audio/flac", "tone.mp3"],
    ["audio/mpeg", "tone.flac"],
    ["audio/ogg;codecs=opus", "tone.oga"],
    ["audio/webm", "tone.mp3"],
    ["audio/x-matroska;codecs=flac", "tone.flac"]
  ])("%s with the bytes of %s is a fault", async (type, file) => {
    await expect(decoded(type, sample(`audio/${file}`), 2_000)).rejects.toBeInstanceOf(AudioFault)
  })
  it.each([
    ["audio/flac", "weather.flac"],
    ["audio/mpeg", "weather.mp3"]
  ])("%s cut short gives what is whole, or a fault; nothing hangs", async (type, file) => {
    const bytes = sample(`audio/${file}`)
    for (const part of [0.02, 0.5, 0.97]) {
      const pcm = await decoded(type, bytes.subarray(0, Math.floor(bytes.length * part)), 5_000).catch(
        (cause: unknown) => {
          expect(cause).toBeInstanceOf(AudioFault)
          return undefined
        }
      )
      if (pcm !== undefined) expect(pcm.length).toBeLessThanOrEqual(weather.length * part + 8_000)
    }
  })
  it.each([
    ["audio/flac", "weather.flac"],
    ["audio/mpeg", "weather.mp3"]
  ])("%s with damaged bytes is sound or a fault, never a crash", async (type, file) => {
    // The FLAC decoder tells the console of each lost frame.
    vi.spyOn(console, "error").mockImplementation(() => {})
    let seed = 11
    const next = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
      return (seed >> 8) % below
    }
    for (let round = 0; round < 12; round++) {
      const bytes = Uint8Array.from(sample(`audio/${file}`).subarray(0, 20_000))
      for (let i = 0; i < 1 + round * 8; i++) bytes[next(bytes.length)] = next(256)
      const pcm = await decoded(type, bytes, 4_000).catch((cause: unknown) => {
        expect(cause).toBeInstanceOf(AudioFault)
        return undefined
      })
      if (pcm !== undefined) expect(pcm.length).toBeLessThan(20 * weather.length)
    }
  })
})
