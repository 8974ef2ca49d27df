import { describe, expect, it } from "vitest"
import { decoderFor, pcmFormatOf, supportedSourceTypes } from "../../../actors/engines/speech/decoder.ts"
import { encoderFor, supportedTargetTypes } from "../../../actors/engines/speech/encoder.ts"
import { alaw, companded, ulaw } from "../../../actors/engines/speech/g711.ts"
import { AudioFault, type AudioDecoder } from "../../../actors/engines/ports.ts"

const tone = (rate: number, ms: number, hz = 440): Int16Array =>
  Int16Array.from({ length: (rate * ms) / 1_000 }, (_, i) =>
    Math.round(8_000 * Math.sin((2 * Math.PI * hz * i) / rate))
  )

const joined = (parts: ReadonlyArray<Int16Array>): Int16Array => {
  const all = new Int16Array(parts.reduce((n, p) => n + p.length, 0))
  let at = 0
  for (const p of parts) {
    all.set(p, at)
    at += p.length
  }
  return all
}

const bytesOf = (pcm: Int16Array): Uint8Array => new Uint8Array(pcm.buffer, pcm.byteOffset, pcm.byteLength)
const energy = (pcm: Int16Array): number => Math.sqrt(pcm.reduce((sum, s) => sum + s * s, 0) / pcm.length)

/** Crossings of zero per second: the pitch of a tone, whatever the gain. */
const hertz = (pcm: Int16Array): number =>
  pcm.reduce((n, s, i) => n + (i > 0 && s >= 0 && pcm[i - 1]! < 0 ? 1 : 0), 0) / (pcm.length / 16_000)

const decoded = async (decoder: AudioDecoder, bytes: Uint8Array, cut: number): Promise<Int16Array> => {
  const parts: Array<Int16Array> = []
  for (let at = 0; at < bytes.length; at += cut)
    parts.push(...(await decoder.push(bytes.subarray(at, at + cut))))
  parts.push(...(await decoder.flush()))
  decoder.close()
  return joined(parts)
}

const check = (pcm: Int16Array, ms: number): void => {
  expect(Math.abs(pcm.length / 16 - ms)).toBeLessThan(60)
  const middle = pcm.slice(1_600, -1_600)
  expect(Math.abs(hertz(middle) - 440)).toBeLessThan(12)
  expect(energy(middle)).toBeGreaterThan(4_000)
  expect(energy(middle)).toBeLessThan(7_000)
}

describe("PCM", () => {
  for (const rate of [8_000, 16_000, 44_100, 48_000])
    it(`s16le at ${rate} becomes 16 kHz, however it is cut`, async () => {
      for (const cut of [320, 1_000, 6_400])
        check(
          await decoded(
            decoderFor(`audio/PCM; encoding=s16le; rate=${rate}`)!(),
            bytesOf(tone(rate, 1_000)),
            cut
          ),
          1_000
        )
    })
  for (const law of ["alaw", "ulaw"] as const)
    it(`${law} at 8000`, async () => {
      check(
        await decoded(
          decoderFor(`audio/pcm;encoding=${law};rate=8000`)!(),
          companded(tone(8_000, 1_000), law),
          160
        ),
        1_000
      )
    })
  it("G.711 tables hold the values of the standard and encoding inverts them", () => {
    expect([
      alaw[0xd5],
      alaw[0x55],
      alaw[0xaa],
      alaw[0x2a],
      ulaw[0xff],
      ulaw[0x7f],
      ulaw[0x80],
      ulaw[0x00]
    ]).toEqual([8, -8, 32_256, -32_256, 0, 0, 32_124, -32_124])
    for (const [law, table] of [
      ["alaw", alaw],
      ["ulaw", ulaw]
    ] as const)
      for (const value of table) {
        const again = table[companded(Int16Array.of(value), law)[0]!]!
        expect(Math.abs(again - value)).toBeLessThanOrEqual(Math.max(8, Math.abs(value) / 16))
      }
  })
  it("the sound in a PCM chunk can be told from its size; other types cannot", () => {
    expect(pcmFormatOf("audio/pcm;encoding=s16le;rate=16000")).toEqual({
      encoding: "s16le",
      rate: 16_000,
      frameBytes: 2
    })
    expect(pcmFormatOf("audio/auto")).toBeUndefined()
  })
})

describe("containers, there and back", () => {
  for (const [target, sources] of [
    ["audio/ogg;codecs=opus", ["audio/ogg;codecs=opus", "audio/ogg", "audio/auto"]],
    ["audio/webm;codecs=opus", ["audio/webm;codecs=opus", "audio/webm", "audio/auto"]],
    ["audio/x-matroska;codecs=opus", ["audio/x-matroska;codecs=opus", "audio/x-matroska"]]
  ] as const)
    it(`${target} is read as ${sources.join(", ")}`, async () => {
      const encoder = encoderFor(target)!()
      const packets = [...encoder.headers]
      for (let i = 0; i < 5; i++) {
        const { packets: more, durationMs } = await encoder.encode(tone(16_000, 400), 16_000)
        expect(durationMs).toBe(400)
        packets.push(...more)
      }
      encoder.close()
      for (const source of sources)
        check(await decoded(decoderFor(source)!(), Buffer.concat(packets), 700), 2_000)
    })
  it("raw Opus starts with the two header packets of RFC 7845", async () => {
    const encoder = encoderFor("audio/opus")!()
    expect(encoder.headers.map((packet) => Buffer.from(packet.slice(0, 8)).toString())).toEqual([
      "OpusHead",
      "OpusTags"
    ])
    expect((await encoder.encode(tone(16_000, 100), 16_000)).packets).toHaveLength(5)
  })
  for (const type of [
    "audio/pcm;encoding=s16le;rate=16000",
    "audio/pcm;encoding=s16le;rate=24000",
    "audio/pcm;encoding=ulaw;rate=8000"
  ])
    it(`${type} has no headers and its own rate`, async () => {
      const { packets, durationMs } = await encoderFor(type)!().encode(tone(16_000, 300), 16_000)
      const rate = Number(/rate=(\d+)/.exec(type)![1])
      const width = type.includes("s16le") ? 2 : 1
      expect(Math.abs((packets.reduce((n, p) => n + p.length, 0) / width / rate) * 1_000 - 300)).toBeLessThan(
        10
      )
      expect(Math.abs(durationMs - 300)).toBeLessThan(10)
    })
})

it("every compressed type names garbage as such", async () => {
  const noise = new Uint8Array(60_000).map((_, i) => (i * 7_919) >> 3)
  for (const type of supportedSourceTypes.filter((name) => !name.startsWith("audio/pcm"))) {
    await expect(decoded(decoderFor(type)!(), noise, 5_000), type).rejects.toBeInstanceOf(AudioFault)
  }
})

it("AAC has no decoder here and is not offered; unknown types neither", () => {
  for (const type of ["audio/x-matroska;codecs=aac", "audio/pcm;encoding=s16le;rate=22050", "video/mp4", ""])
    expect(decoderFor(type)).toBeUndefined()
  expect(supportedTargetTypes).not.toContain("video/mp2t;codecs=aac")
})
