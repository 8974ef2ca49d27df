/** Voice messages as JSON text and as MessagePack. The audio message, which arrives fifty times a second,
 *  has a faster parser of its own (bench/voice-chunk). Pure.
 *  Source: docs/spec/translation.md, sections 12.4 to 12.6. */
import { Packr, Unpackr } from "msgpackr"
import { parseBounded } from "../../shared/json-values.ts"

export type ClientMessage = { readonly is: "chunk"; readonly data: Uint8Array } | { readonly is: "end" }

/** Faults of a message: `undecodable` is not a map with one member, `unknown` has an unknown name or a
 *  member of the wrong type, `frame` is text where binary belongs or the reverse. */
export type Malformed =
  | { readonly is: "undecodable" }
  | { readonly is: "unknown"; readonly name: string }
  | { readonly is: "frame" }

export interface TranscriptSegment {
  readonly text: string
  readonly start_time: number
  readonly end_time: number
  readonly language?: string
}

export type ServerMessage =
  | {
      readonly source_transcript_update: {
        readonly concluded: ReadonlyArray<TranscriptSegment>
        readonly tentative: ReadonlyArray<TranscriptSegment>
      }
    }
  | {
      readonly target_transcript_update: {
        readonly language: string
        readonly concluded: ReadonlyArray<TranscriptSegment>
        readonly tentative: ReadonlyArray<TranscriptSegment>
      }
    }
  | {
      readonly target_media_chunk: {
        readonly language: string
        readonly data: ReadonlyArray<Uint8Array>
        readonly duration: number
        readonly text: string | null
        readonly content_type?: string
        readonly headers?: number
      }
    }
  | { readonly end_of_source_transcript: {} }
  | { readonly end_of_target_transcript: { readonly language: string } }
  | { readonly end_of_target_media: { readonly language: string } }
  | { readonly end_of_stream: {} }
  | {
      readonly error: {
        readonly request_type: string
        readonly error_code: number
        readonly reason_code: number
        readonly error_message: string
      }
    }

export interface Codec {
  decode(message: Uint8Array, isText: boolean): ClientMessage | Malformed
  encode(message: ServerMessage): string | Uint8Array
}

/** Reads a map with exactly one member, which is a message in both formats. */
const messageOf = (
  value: unknown,
  dataOf: (value: unknown) => Uint8Array | undefined
): ClientMessage | Malformed => {
  if (typeof value !== "object" || value === null || Array.isArray(value) || value instanceof Uint8Array)
    return { is: "undecodable" }
  const names = Object.keys(value)
  if (names.length !== 1) return { is: "undecodable" }
  const name = names[0]!
  const body = (value as Record<string, unknown>)[name]
  if (typeof body !== "object" || body === null || Array.isArray(body) || body instanceof Uint8Array)
    return { is: "unknown", name }
  if (name === "end_of_source_media") return { is: "end" }
  if (name !== "source_media_chunk") return { is: "unknown", name }
  const data = dataOf((body as Record<string, unknown>)["data"])
  return data === undefined ? { is: "unknown", name } : { is: "chunk", data }
}

const prefix = Buffer.from('{"source_media_chunk":{"data":"')
const quote = 0x22
const brace = 0x7d
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/

const decoded = (text: string): Uint8Array | undefined =>
  base64.test(text) ? Buffer.from(text, "base64") : undefined

const text = new TextDecoder("utf-8", { fatal: true })

const paddingOf = (encoded: string): number => {
  if (encoded.endsWith("==")) return 2
  return encoded.endsWith("=") ? 1 : 0
}

export const jsonCodec: Codec = {
  decode: (message, isText) => {
    if (!isText) return { is: "frame" }
    const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength)
    const { length } = bytes
    if (
      length > prefix.length + 3 &&
      bytes[length - 1] === brace &&
      bytes[length - 2] === brace &&
      bytes[length - 3] === quote &&
      bytes.compare(prefix, 0, prefix.length, 0, prefix.length) === 0
    ) {
      const encoded = bytes.toString("latin1", prefix.length, length - 3)
      const data = Buffer.from(encoded, "base64")
      // Node skips characters that are not base64; the decoded length reveals it.
      const padding = paddingOf(encoded)
      if (
        (encoded.length - padding) % 4 !== 1 &&
        (padding === 0 || encoded.length % 4 === 0) &&
        data.length === Math.floor(((encoded.length - padding) * 3) / 4) &&
        !encoded.includes("-") &&
        !encoded.includes("_")
      )
        return { is: "chunk", data }
    }
    let value: unknown
    try {
      value = parseBounded(text.decode(message))
    } catch {
      return { is: "undecodable" }
    }
    return messageOf(value, (data) => (typeof data === "string" ? decoded(data) : undefined))
  },
  encode: (message) =>
    JSON.stringify(
      "target_media_chunk" in message
        ? {
            target_media_chunk: {
              ...message.target_media_chunk,
              data: message.target_media_chunk.data.map((packet) => Buffer.from(packet).toString("base64"))
            }
          }
        : message
    )
}

const packr = new Packr({ useRecords: false, variableMapSize: true })
const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: false })

/** Accepts nested maps with string keys only. */
const plain = (value: unknown, depth = 0): unknown => {
  if (!(value instanceof Map)) return value
  if (depth > 4) return undefined
  const object: Record<string, unknown> = Object.create(null) as Record<string, unknown>
  for (const [key, member] of value) {
    if (typeof key !== "string") return undefined
    object[key] = plain(member, depth + 1)
  }
  return object
}

export const msgpackCodec: Codec = {
  decode: (message, isText) => {
    if (isText) return { is: "frame" }
    let value: unknown
    try {
      value = plain(unpackr.unpack(Buffer.from(message)))
    } catch {
      return { is: "undecodable" }
    }
    return messageOf(value, (data) => (data instanceof Uint8Array ? new Uint8Array(data) : undefined))
  },
  encode: (message) => new Uint8Array(packr.pack(message))
}

export const codecOf = (format: "json" | "msgpack"): Codec => (format === "json" ? jsonCodec : msgpackCodec)
