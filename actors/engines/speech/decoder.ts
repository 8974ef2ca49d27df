/** Decodes source audio of every content type for which a decoder exists in npm, to 16 kHz mono. AAC has none
 *  and is not offered. Containers go through mediabunny, which has a packet when its cluster or page is
 *  whole. It is guaranteed that PCM at 16 kHz is decoded synchronously (hot path).
 *  Source: docs/spec/translation.md, section 12.10; docs/spec/engines.md, section 5. */
import type { FLACDecoder } from "@wasm-audio-decoders/flac"
import { AudioFault, type AudioDecoder, type Pcm } from "../ports.ts"
import { alaw, ulaw } from "./g711.ts"
import { Resampler } from "./resampler.ts"

const rate = 16_000

type Codec = "opus" | "flac" | "mp3"
type Format = "FLAC" | "MP3" | "OGG" | "WEBM" | "MATROSKA"

interface ContainerType {
  readonly formats: ReadonlyArray<Format>
  readonly codecs: ReadonlyArray<Codec>
}

const containers: Record<string, ContainerType> = {
  "audio/auto": { formats: ["FLAC", "MP3", "OGG", "WEBM", "MATROSKA"], codecs: ["opus", "flac", "mp3"] },
  "audio/flac": { formats: ["FLAC"], codecs: ["flac"] },
  "audio/mpeg": { formats: ["MP3"], codecs: ["mp3"] },
  "audio/ogg": { formats: ["OGG"], codecs: ["opus", "flac"] },
  "audio/webm": { formats: ["WEBM", "MATROSKA"], codecs: ["opus"] },
  "audio/x-matroska": { formats: ["MATROSKA", "WEBM"], codecs: ["flac", "mp3", "opus"] },
  "audio/ogg;codecs=flac": { formats: ["OGG"], codecs: ["flac"] },
  "audio/ogg;codecs=opus": { formats: ["OGG"], codecs: ["opus"] },
  "audio/webm;codecs=opus": { formats: ["WEBM", "MATROSKA"], codecs: ["opus"] },
  "audio/x-matroska;codecs=flac": { formats: ["MATROSKA", "WEBM"], codecs: ["flac"] },
  "audio/x-matroska;codecs=mp3": { formats: ["MATROSKA", "WEBM"], codecs: ["mp3"] },
  "audio/x-matroska;codecs=opus": { formats: ["MATROSKA", "WEBM"], codecs: ["opus"] }
}

export interface PcmFormat {
  readonly encoding: "s16le" | "alaw" | "ulaw"
  readonly rate: number
  /** The bytes of one sample. */
  readonly frameBytes: 1 | 2
}

const pcmFormats: Record<string, PcmFormat> = Object.fromEntries([
  ...[8_000, 16_000, 44_100, 48_000].map((hz) => [
    `audio/pcm;encoding=s16le;rate=${hz}`,
    { encoding: "s16le", rate: hz, frameBytes: 2 }
  ]),
  ...(["alaw", "ulaw"] as const).map((encoding) => [
    `audio/pcm;encoding=${encoding};rate=8000`,
    { encoding, rate: 8_000, frameBytes: 1 }
  ])
])

/** Normalizes a content type: they are compared without spaces and case. */
export const plainType = (contentType: string): string => contentType.replace(/\s+/g, "").toLowerCase()

export const supportedSourceTypes: ReadonlyArray<string> = [
  ...Object.keys(pcmFormats),
  ...Object.keys(containers)
]

/** The format of a PCM content type, by which a chunk's length in time is known before it is decoded. */
export const pcmFormatOf = (contentType: string): PcmFormat | undefined => pcmFormats[plainType(contentType)]

export const decoderFor = (contentType: string): (() => AudioDecoder) | undefined => {
  const type = plainType(contentType)
  const pcm = pcmFormats[type]
  if (pcm !== undefined)
    return () => (pcm.encoding === "s16le" && pcm.rate === rate ? new PlainDecoder() : new PcmDecoder(pcm))
  const container = containers[type]
  if (container === undefined) return undefined
  const { formats, codecs } = container
  const create = () => new ContainerDecoder(formats, codecs)
  return formats.includes("OGG") && codecs.includes("flac") ? () => new SniffingDecoder(create) : create
}

/** Views bytes as samples; bytes at an odd offset are copied. */
const samplesOf = (bytes: Uint8Array): Int16Array =>
  bytes.byteOffset % 2 === 0
    ? new Int16Array(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.length >> 1)
    : new Int16Array(bytes.slice(0, bytes.length & ~1).buffer)

/** Decodes s16le at 16 kHz, which is our format. */
class PlainDecoder implements AudioDecoder {
  push(chunk: Uint8Array): ReadonlyArray<Pcm> {
    return [samplesOf(chunk)]
  }

  flush(): ReadonlyArray<Pcm> {
    return []
  }

  close(): void {}
}

class PcmDecoder implements AudioDecoder {
  private readonly format: PcmFormat
  private resampler: Resampler | undefined

  constructor(format: PcmFormat) {
    this.format = format
  }

  async push(chunk: Uint8Array): Promise<ReadonlyArray<Pcm>> {
    const table = this.format.encoding === "alaw" ? alaw : ulaw
    const samples =
      this.format.encoding === "s16le" ? samplesOf(chunk) : Int16Array.from(chunk, (byte) => table[byte]!)
    this.resampler ??= await Resampler.make(this.format.rate, rate)
    return [this.resampler.push(samples)]
  }

  flush(): ReadonlyArray<Pcm> {
    return []
  }

  close(): void {
    this.resampler?.close()
  }
}

interface Decoded {
  readonly channelData: ReadonlyArray<Float32Array>
  readonly sampleRate: number
  readonly errors: ReadonlyArray<unknown>
}

interface PacketDecoder {
  decode(packet: Uint8Array): Promise<Decoded>
  free(): void
}

const packetDecoder = async (codec: Codec, channels: number): Promise<PacketDecoder> => {
  if (codec === "opus") {
    const { OpusDecoder } = await import("opus-decoder")
    const decoder = new OpusDecoder({
      sampleRate: rate,
      channels,
      streamCount: 1,
      coupledStreamCount: channels - 1,
      channelMappingTable: channels === 1 ? [0] : [0, 1]
    })
    await decoder.ready
    return { decode: async (packet) => decoder.decodeFrame(packet), free: () => decoder.free() }
  }
  if (codec === "mp3") {
    const { MPEGDecoder } = await import("mpg123-decoder")
    const decoder = new MPEGDecoder()
    await decoder.ready
    return { decode: async (packet) => decoder.decode(packet), free: () => decoder.free() }
  }
  const { FLACDecoder } = await import("@wasm-audio-decoders/flac")
  const decoder = new FLACDecoder()
  await decoder.ready
  return { decode: async (packet) => decoder.decodeFrames([packet]), free: () => void decoder.free() }
}

/** Decodes a container: bytes go in as they come, a loop beside pulls packets out of them and collects
 *  sound. */
class ContainerDecoder implements AudioDecoder {
  private readonly formats: ReadonlyArray<Format>
  private readonly codecs: ReadonlyArray<Codec>
  private controller: ReadableStreamDefaultController<Uint8Array> | undefined
  private readonly loop: Promise<void>
  private decoded: Array<Pcm> = []
  private fault: AudioFault | undefined
  private closed = false

  constructor(formats: ReadonlyArray<Format>, codecs: ReadonlyArray<Codec>) {
    this.formats = formats
    this.codecs = codecs
    const stream = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.controller = controller
      }
    })
    this.loop = this.pull(stream).catch((cause: unknown) => {
      this.fault =
        cause instanceof AudioFault
          ? cause
          : new AudioFault({ detail: cause instanceof Error ? cause.message : String(cause) })
    })
  }

  private async pull(stream: ReadableStream<Uint8Array>): Promise<void> {
    const media = await import("mediabunny")
    const input = new media.Input({
      source: new media.ReadableStreamSource(stream),
      formats: this.formats.map((name) => media[name])
    })
    const track = await input.getPrimaryAudioTrack()
    if (track === null) throw new AudioFault({ detail: "there is no audio track" })
    const codec = (await track.getCodec()) as Codec
    if (!this.codecs.includes(codec)) throw new AudioFault({ detail: `the codec is ${String(codec)}` })
    const config = await track.getDecoderConfig()
    const decoder = await packetDecoder(codec, Math.min(config?.numberOfChannels ?? 1, 2))
    const mixer = new Mixer()
    try {
      for await (const packet of new media.EncodedPacketSink(track).packets()) {
        if (this.closed) return
        this.decoded.push(...(await mixer.push(await decoder.decode(packet.data))))
      }
    } finally {
      decoder.free()
      mixer.close()
    }
  }

  async push(chunk: Uint8Array): Promise<ReadonlyArray<Pcm>> {
    this.check()
    this.controller?.enqueue(chunk.slice())
    await new Promise((resolve) => setImmediate(resolve))
    this.check()
    return this.takeDecoded()
  }

  async flush(): Promise<ReadonlyArray<Pcm>> {
    this.end()
    await this.loop
    this.check()
    return this.takeDecoded()
  }

  close(): void {
    this.closed = true
    this.end()
  }

  private end(): void {
    try {
      this.controller?.close()
    } catch {
      /* closed already */
    }
    this.controller = undefined
  }

  private check(): void {
    if (this.fault !== undefined) throw this.fault
  }

  private takeDecoded(): ReadonlyArray<Pcm> {
    const { decoded } = this
    this.decoded = []
    return decoded
  }
}

/** Decodes FLAC in Ogg, which the container reader does not know: the FLAC decoder reads the pages itself. */
class OggFlacDecoder implements AudioDecoder {
  private readonly mixer = new Mixer()
  private readonly ready: Promise<FLACDecoder>
  private hasSound = false

  constructor() {
    this.ready = import("@wasm-audio-decoders/flac").then(async ({ FLACDecoder }) => {
      const decoder = new FLACDecoder()
      await decoder.ready
      return decoder
    })
    this.ready.catch(() => {})
  }

  push(chunk: Uint8Array): Promise<ReadonlyArray<Pcm>> {
    return this.decode((decoder) => decoder.decode(chunk))
  }

  async flush(): Promise<ReadonlyArray<Pcm>> {
    const rest = await this.decode((decoder) => decoder.flush())
    if (!this.hasSound) throw new AudioFault({ detail: "there is no audio track" })
    return rest
  }

  private async decode(step: (decoder: FLACDecoder) => Promise<Decoded>): Promise<ReadonlyArray<Pcm>> {
    try {
      const sound = await this.mixer.push(await step(await this.ready))
      this.hasSound ||= sound.length > 0
      return sound
    } catch (cause) {
      throw new AudioFault({ detail: cause instanceof Error ? cause.message : String(cause) })
    }
  }

  close(): void {
    this.mixer.close()
    this.ready.then(
      (decoder) => decoder.free(),
      () => {}
    )
  }
}

/** The length of an Ogg page's head, its lacing values (255 at most), and what a stream of FLAC starts
 *  with. */
const sniffBytes = 27 + 255 + 5

/** Waits for the first bytes, which distinguish FLAC in Ogg from what the container reader reads. */
class SniffingDecoder implements AudioDecoder {
  private readonly container: () => AudioDecoder
  private head: Buffer = Buffer.alloc(0)
  private chosen: AudioDecoder | undefined

  constructor(container: () => AudioDecoder) {
    this.container = container
  }

  push(chunk: Uint8Array): Promise<ReadonlyArray<Pcm>> | ReadonlyArray<Pcm> {
    if (this.chosen !== undefined) return this.chosen.push(chunk)
    this.head = Buffer.concat([this.head, chunk])
    return this.head.length < sniffBytes &&
      this.head.subarray(0, 4).equals(Buffer.from("OggS").subarray(0, this.head.length))
      ? []
      : this.choose().push(this.head)
  }

  async flush(): Promise<ReadonlyArray<Pcm>> {
    if (this.chosen !== undefined) return this.chosen.flush()
    const chosen = this.choose()
    return [...(await chosen.push(this.head)), ...(await chosen.flush())]
  }

  close(): void {
    this.chosen?.close()
  }

  private choose(): AudioDecoder {
    const { head } = this
    const data = 27 + (head[26] ?? 0)
    return (this.chosen =
      head.toString("latin1", 0, 4) === "OggS" && head.toString("latin1", data, data + 5) === "\x7fFLAC"
        ? new OggFlacDecoder()
        : this.container())
  }
}

/** Mixes channels to one, and resamples to our rate. */
class Mixer {
  private resampler: Resampler | undefined

  async push({ channelData, sampleRate }: Decoded): Promise<ReadonlyArray<Pcm>> {
    const mono = monoOf(channelData)
    if (mono.length === 0) return []
    if (sampleRate !== rate) this.resampler ??= await Resampler.make(sampleRate, rate)
    return [this.resampler === undefined ? mono : this.resampler.push(mono)]
  }

  close(): void {
    this.resampler?.close()
    this.resampler = undefined
  }
}

const monoOf = (channels: ReadonlyArray<Float32Array>): Int16Array => {
  const [left, right] = channels
  if (left === undefined) return new Int16Array(0)
  return Int16Array.from(left, (sample, i) => {
    const value = right === undefined ? sample : (sample + right[i]!) / 2
    return Math.max(-32_768, Math.min(32_767, Math.round(value * 32_767)))
  })
}
