/** Encodes speech, 16-bit mono, to the target content types that our encoders reach: PCM, G.711, Opus raw, in
 *  Ogg and in WebM or Matroska. It is guaranteed that packets are indivisible, and that `headers` initialise
 *  a player.
 *  Source: docs/spec/translation.md, section 12.10; docs/spec/engines.md, section 5. */
import { createRequire } from "node:module"
import { companded } from "./g711.ts"
import { Resampler } from "./resampler.ts"

export interface Encoded {
  readonly packets: ReadonlyArray<Uint8Array>
  readonly durationMs: number
}

export interface MediaEncoder {
  /** Packets that come before all others. */
  readonly headers: ReadonlyArray<Uint8Array>
  /** Encodes one utterance. Its last frame is padded with silence. */
  encode(pcm: Int16Array, rate: number): Promise<Encoded>
  close(): void
}

const bytesOf = (pcm: Int16Array): Uint8Array =>
  new Uint8Array(pcm.buffer, pcm.byteOffset, pcm.byteLength).slice()

const packetMs = 100

const raw =
  (rate: number, pack: (pcm: Int16Array) => Uint8Array): (() => MediaEncoder) =>
  () => {
    let resampler: Resampler | undefined
    let from = 0
    return {
      headers: [],
      encode: async (pcm, pcmRate) => {
        if (pcmRate !== rate && from !== pcmRate) {
          resampler?.close()
          resampler = await Resampler.make(pcmRate, rate)
          from = pcmRate
        }
        const samples = pcmRate === rate ? pcm : resampler!.push(pcm)
        const size = (rate * packetMs) / 1_000
        const packets: Array<Uint8Array> = []
        for (let at = 0; at < samples.length; at += size) packets.push(pack(samples.slice(at, at + size)))
        return { packets, durationMs: Math.round((samples.length * 1_000) / rate) }
      },
      close: () => resampler?.close()
    }
  }

const opusRate = 24_000
const opusFrame = opusRate / 50
const opusBitrate = 32_000
const preSkip = 312

interface Opus {
  encode(pcm: Buffer, frame: number): Buffer
  encoderCTL(control: number, value: number): void
  delete(): void
}

const setBitrate = 4_002

/** Wraps frames into the pages of a container. */
interface Container {
  readonly headers: ReadonlyArray<Uint8Array>
  readonly pages: (frames: ReadonlyArray<Uint8Array>) => ReadonlyArray<Uint8Array>
}

/** Encodes Opus in packets of 20 ms. */
const opus =
  (wrap: () => Container): (() => MediaEncoder) =>
  () => {
    const { headers, pages } = wrap()
    let encoder: Opus | undefined
    let resampler: Resampler | undefined
    let from = 0
    return {
      headers,
      encode: async (pcm, rate) => {
        if (encoder === undefined) {
          const OpusScript = createRequire(import.meta.url)("opusscript") as {
            new (rate: number, channels: number, application: number): Opus
          }
          encoder = new OpusScript(opusRate, 1, 2_048)
          encoder.encoderCTL(setBitrate, opusBitrate)
        }
        if (rate !== opusRate && from !== rate) {
          resampler?.close()
          resampler = await Resampler.make(rate, opusRate)
          from = rate
        }
        const samples = rate === opusRate ? pcm : resampler!.push(pcm)
        const frames: Array<Uint8Array> = []
        for (let at = 0; at < samples.length; at += opusFrame) {
          const frame = new Int16Array(opusFrame)
          frame.set(samples.subarray(at, at + opusFrame))
          frames.push(new Uint8Array(encoder.encode(Buffer.from(frame.buffer), opusFrame)))
        }
        return { packets: pages(frames), durationMs: frames.length * 20 }
      },
      close: () => {
        encoder?.delete()
        resampler?.close()
      }
    }
  }

/** Writes the identification header (RFC 7845, section 5.1). */
const opusHead = (): Uint8Array => {
  const head = Buffer.alloc(19)
  head.write("OpusHead")
  head[8] = 1
  head[9] = 1
  head.writeUInt16LE(preSkip, 10)
  head.writeUInt32LE(opusRate, 12)
  return head
}

const opusTags = (): Uint8Array => {
  const vendor = "Troupe"
  const tags = Buffer.alloc(8 + 4 + vendor.length + 4)
  tags.write("OpusTags")
  tags.writeUInt32LE(vendor.length, 8)
  tags.write(vendor, 12)
  return tags
}

/** The checksum table of Ogg pages (RFC 3533). */
const crcTable = Uint32Array.from({ length: 256 }, (_, i) => {
  let r = i << 24
  for (let bit = 0; bit < 8; bit++) r = r & 0x80000000 ? (r << 1) ^ 0x04c11db7 : r << 1
  return r >>> 0
})

/** Writes one Ogg page per 200 ms. */
const oggPages = (): Container => {
  const serial = Math.floor(Math.random() * 2 ** 32)
  let sequence = 0
  let granule = preSkip
  const page = (packets: ReadonlyArray<Uint8Array>, first: boolean, position: number): Uint8Array => {
    const lacing = packets.flatMap((packet) => [
      ...Array.from<number>({ length: Math.floor(packet.length / 255) }).fill(255),
      packet.length % 255
    ])
    const head = Buffer.alloc(27 + lacing.length)
    head.write("OggS")
    head[5] = first ? 2 : 0
    head.writeBigUInt64LE(BigInt(position), 6)
    head.writeUInt32LE(serial, 14)
    head.writeUInt32LE(sequence++, 18)
    head[26] = lacing.length
    head.set(lacing, 27)
    const whole = Buffer.concat([head, ...packets])
    let crc = 0
    for (const byte of whole) crc = ((crc << 8) ^ crcTable[(crc >>> 24) ^ byte]!) >>> 0
    whole.writeUInt32LE(crc, 22)
    return whole
  }
  return {
    headers: [page([opusHead()], true, 0), page([opusTags()], false, 0)],
    pages: (frames: ReadonlyArray<Uint8Array>) => {
      const pages: Array<Uint8Array> = []
      for (let at = 0; at < frames.length; at += 10) {
        const part = frames.slice(at, at + 10)
        granule += part.length * 960
        pages.push(page(part, false, granule))
      }
      return pages
    }
  }
}

/** Writes an EBML element (RFC 8794) with its size in 8 bytes. */
const element = (id: number, ...content: ReadonlyArray<Uint8Array>): Uint8Array => {
  const body = Buffer.concat(content)
  const size = Buffer.alloc(8)
  size.writeBigUInt64BE(BigInt(body.length) | (1n << 56n))
  return Buffer.concat([idBytes(id), size, body])
}

const idBytes = (id: number): Uint8Array => Buffer.from(id.toString(16), "hex")

const uint = (value: number): Uint8Array => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

const float = (value: number): Uint8Array => {
  const bytes = Buffer.alloc(4)
  bytes.writeFloatBE(value)
  return bytes
}

/** The size of an element that never ends. */
const unknownSize = Buffer.from("01ffffffffffffff", "hex")

const matroska = (docType: "webm" | "matroska") => (): Container => {
  let atMs = 0
  const head = Buffer.concat([
    element(
      0x1a45dfa3,
      element(0x4286, uint(1)),
      element(0x42f7, uint(1)),
      element(0x42f2, uint(4)),
      element(0x42f3, uint(8)),
      element(0x4282, Buffer.from(docType)),
      element(0x4287, uint(4)),
      element(0x4285, uint(2))
    ),
    idBytes(0x18538067),
    unknownSize,
    element(
      0x1549a966,
      element(0x2ad7b1, uint(1_000_000)),
      element(0x4d80, Buffer.from("Troupe")),
      element(0x5741, Buffer.from("Troupe"))
    ),
    element(
      0x1654ae6b,
      element(
        0xae,
        element(0xd7, uint(1)),
        element(0x73c5, uint(1)),
        element(0x83, uint(2)),
        element(0x86, Buffer.from("A_OPUS")),
        element(0x56aa, uint(Math.round((preSkip / 48) * 1_000_000))),
        element(0x56bb, uint(80_000_000)),
        element(0x63a2, opusHead()),
        element(0xe1, element(0xb5, float(48_000)), element(0x9f, uint(1)))
      )
    )
  ])
  return {
    headers: [head],
    pages: (frames: ReadonlyArray<Uint8Array>) => {
      const clusters: Array<Uint8Array> = []
      for (let at = 0; at < frames.length; at += 10) {
        const part = frames.slice(at, at + 10)
        clusters.push(
          element(
            0x1f43b675,
            element(0xe7, uint(atMs)),
            ...part.map((frame, i) => {
              const block = Buffer.alloc(4)
              block[0] = 0x81
              block.writeInt16BE(i * 20, 1)
              block[3] = 0x80
              return element(0xa3, block, frame)
            })
          )
        )
        atMs += part.length * 20
      }
      return clusters
    }
  }
}

const encoders: Record<string, () => MediaEncoder> = {
  "audio/pcm;encoding=s16le;rate=16000": raw(16_000, bytesOf),
  "audio/pcm;encoding=s16le;rate=24000": raw(24_000, bytesOf),
  "audio/pcm;encoding=alaw;rate=8000": raw(8_000, (pcm) => companded(pcm, "alaw")),
  "audio/pcm;encoding=ulaw;rate=8000": raw(8_000, (pcm) => companded(pcm, "ulaw")),
  "audio/opus": opus(() => ({ headers: [opusHead(), opusTags()], pages: (frames) => frames })),
  "audio/ogg": opus(oggPages),
  "audio/ogg;codecs=opus": opus(oggPages),
  "audio/webm": opus(matroska("webm")),
  "audio/webm;codecs=opus": opus(matroska("webm")),
  "audio/x-matroska;codecs=opus": opus(matroska("matroska"))
}

export const supportedTargetTypes: ReadonlyArray<string> = Object.keys(encoders)

export const encoderFor = (contentType: string): (() => MediaEncoder) | undefined =>
  encoders[contentType.replace(/\s+/g, "").toLowerCase()]
