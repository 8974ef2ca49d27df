/** Files of voice jobs: audio of the declared types is decoded to PCM, transcripts are written as text and
 *  subtitles. Pure apart from the decoders.
 *  Source: docs/spec/translation.md, section 13.1. */
import { AudioFault, type Pcm } from "../../../actors/engines/ports.ts"
import { decoderFor } from "../../../actors/engines/speech/decoder.ts"

/** Content types that a job may declare, limited to those our decoders read (no AAC, so no MP4). */
const decoders: Readonly<Record<string, string | "wav">> = {
  "audio/mpeg": "audio/mpeg",
  "audio/ogg": "audio/ogg",
  "audio/flac": "audio/flac",
  "audio/webm": "audio/webm",
  "audio/wav": "wav"
}

export const readable = (contentType: string): boolean => Object.hasOwn(decoders, contentType.toLowerCase())

const headerBytesMax = 65_536

interface Wave {
  readonly rate: number
  readonly channels: number
  readonly dataAt: number
}

/** Reads the header of a WAV file with 16-bit PCM; returns undefined when more bytes are needed. The sample
 *  rate must be one that can be resampled. */
const waveOf = (head: Buffer): Wave | undefined => {
  if (head.length < 12) return undefined
  if (head.toString("latin1", 0, 4) !== "RIFF" || head.toString("latin1", 8, 12) !== "WAVE")
    throw new AudioFault({ detail: "no WAV file" })
  let format: { readonly rate: number; readonly channels: number } | undefined
  for (let at = 12; at + 8 <= head.length;) {
    const name = head.toString("latin1", at, at + 4)
    const size = head.readUInt32LE(at + 4)
    if (name === "data") {
      if (format === undefined) throw new AudioFault({ detail: "a WAV file without format" })
      return { ...format, dataAt: at + 8 }
    }
    if (name === "fmt ") {
      if (at + 24 > head.length) return undefined
      const [kind, channels, rate, bits] = [
        head.readUInt16LE(at + 8),
        head.readUInt16LE(at + 10),
        head.readUInt32LE(at + 12),
        head.readUInt16LE(at + 22)
      ]
      if (
        !(kind === 1 || kind === 0xfffe) ||
        bits !== 16 ||
        channels < 1 ||
        channels > 8 ||
        ![8_000, 16_000, 44_100, 48_000].includes(rate)
      )
        throw new AudioFault({ detail: "a WAV file of another kind than 16-bit PCM" })
      format = { rate, channels }
    }
    at += 8 + size + (size % 2)
  }
  if (head.length > headerBytesMax) throw new AudioFault({ detail: "a WAV file without sound" })
  return undefined
}

/** Decodes audio to 16 kHz mono PCM. Throws AudioFault when the bytes do not match the declared type. */
export async function* pcmOf(contentType: string, bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Pcm> {
  const type = decoders[contentType.toLowerCase()]!
  let decoder = type === "wav" ? undefined : decoderFor(type)!()
  let head = Buffer.alloc(0)
  let channels = 1
  let odd = Buffer.alloc(0)
  try {
    for await (const chunk of bytes) {
      let sound = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
      if (decoder === undefined) {
        head = Buffer.concat([head, sound])
        const wave = waveOf(head)
        if (wave === undefined) continue
        decoder = decoderFor(`audio/pcm;encoding=s16le;rate=${wave.rate}`)!()
        channels = wave.channels
        sound = head.subarray(wave.dataAt)
      }
      if (type === "wav") {
        const whole = Buffer.concat([odd, sound])
        const frame = 2 * channels
        const usable = whole.length - (whole.length % frame)
        odd = whole.subarray(usable)
        sound = channels === 1 ? whole.subarray(0, usable) : mono(whole, usable / frame, channels)
      }
      for (const pcm of await decoder.push(sound)) if (pcm.length > 0) yield pcm
    }
    if (decoder === undefined) throw new AudioFault({ detail: "a WAV file without sound" })
    for (const pcm of await decoder.flush()) if (pcm.length > 0) yield pcm
  } finally {
    decoder?.close()
  }
}

const mono = (bytes: Buffer, frames: number, channels: number): Buffer => {
  const out = Buffer.alloc(frames * 2)
  for (let i = 0; i < frames; i++) {
    let sum = 0
    for (let channel = 0; channel < channels; channel++)
      sum += bytes.readInt16LE((i * channels + channel) * 2)
    out.writeInt16LE(Math.trunc(sum / channels), i * 2)
  }
  return out
}

export interface Line {
  readonly text: string
  readonly startMs: number
  readonly endMs: number
}

const stamp = (ms: number): string => {
  const two = (n: number): string => String(Math.floor(n)).padStart(2, "0")
  return `${two(ms / 3_600_000)}:${two((ms / 60_000) % 60)}:${two((ms / 1_000) % 60)},${String(Math.floor(ms % 1_000)).padStart(3, "0")}`
}

export const srtOf = (lines: ReadonlyArray<Line>): string =>
  lines
    .map(({ text, startMs, endMs }, i) => `${i + 1}\n${stamp(startMs)} --> ${stamp(endMs)}\n${text}\n`)
    .join("\n")

export const textOf = (lines: ReadonlyArray<Line>, spaced: boolean): string =>
  lines.map(({ text }) => text).join(spaced ? " " : "")
