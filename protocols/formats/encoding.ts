/** Decodes bytes to text and encodes them again. The byte order mark decides first, then the encoding that
 *  the document declares, then UTF-8; the output has the encoding, byte order mark and line ends of the
 *  input. Guarantee: bytes that cannot be decoded are refused, never replaced by U+FFFD.
 *  Source: docs/spec/documents.md, section 3.1. */
import { isUtf8 } from "node:buffer"
import { BadDocument, type Reason } from "./document.ts"

export interface Decoded {
  readonly text: string
  /** Name of the encoding as TextDecoder spells it. */
  readonly encoding: string
  readonly bom: boolean
}

const decoders = new Map<string, InstanceType<typeof TextDecoder> | undefined>()

const decoderOf = (encoding: string): InstanceType<typeof TextDecoder> | undefined => {
  const name = encoding.toLowerCase()
  if (!decoders.has(name)) {
    try {
      decoders.set(name, new TextDecoder(name, { fatal: true, ignoreBOM: true }))
    } catch {
      decoders.set(name, undefined)
    }
  }
  return decoders.get(name)
}

/** Decodes a document. `declared` receives its first kilobyte as Latin-1 and returns the encoding that the
 *  document declares, if any. */
export const decode = (
  bytes: Buffer,
  declared: (head: string) => string | undefined,
  reason: Reason = "encoding"
): Decoded => {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return decoded(bytes.subarray(2), "utf-16le", true, reason)
  if (bytes[0] === 0xfe && bytes[1] === 0xff) return decoded(bytes.subarray(2), "utf-16be", true, reason)
  const bom = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
  const body = bom ? bytes.subarray(3) : bytes
  const said = declared(body.toString("latin1", 0, 1_024))?.toLowerCase()
  if (said === undefined || said === "utf-8" || said === "utf8" || bom)
    return decoded(body, "utf-8", bom, reason)
  return decoded(body, said, false, reason)
}

const decoded = (bytes: Buffer, encoding: string, bom: boolean, reason: Reason): Decoded => {
  if (encoding === "utf-8") {
    if (!isUtf8(bytes)) throw new BadDocument(reason)
    return { text: bytes.toString("utf8"), encoding, bom }
  }
  const decoder = decoderOf(encoding)
  if (decoder === undefined || (encoding.startsWith("utf-16") && !bom)) throw new BadDocument(reason)
  try {
    return { text: decoder.decode(bytes), encoding: decoder.encoding, bom }
  } catch {
    throw new BadDocument(reason)
  }
}

const latin1 = new Set(["windows-1252", "iso-8859-1", "us-ascii"])

/** Encodes text as it was decoded. Node encodes only UTF-8, UTF-16 and Latin-1; for any other encoding the
 *  output is UTF-8 and `redeclare` changes the document's declaration. `refer` says that the format has
 *  numeric character references, which Latin-1 output needs for all other letters. */
export const encode = (
  text: string,
  { encoding, bom }: Decoded,
  how: { readonly refer: boolean; readonly redeclare: (text: string) => string }
): Buffer => {
  if (encoding === "utf-8")
    return bom ? Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(text)]) : Buffer.from(text)
  if (encoding === "utf-16le" || encoding === "utf-16be") {
    const body = Buffer.from(`\uFEFF${text}`, "utf16le")
    return encoding === "utf-16be" ? body.swap16() : body
  }
  if (latin1.has(encoding) && how.refer)
    return Buffer.from(
      text.replace(/[^\u0000-\u007F\u00A0-\u00FF]/gu, (letter) => `&#${letter.codePointAt(0)!};`),
      "latin1"
    )
  return Buffer.from(how.redeclare(text))
}

/** Decodes a format without encoding declarations: UTF-8, or UTF-16 with a byte order mark. */
export const decodePlain = (bytes: Buffer, reason: Reason = "not valid UTF-8"): Decoded =>
  decode(bytes, () => undefined, reason)

export const encodePlain = (text: string, as: Decoded): Buffer =>
  encode(text, as, { refer: false, redeclare: (same) => same })

const xmlDeclared = /^<\?xml[^>]{0,400}?encoding\s*=\s*["']([A-Za-z][\w.:-]{0,39})["']/
export const decodeXml = (bytes: Buffer): Decoded => decode(bytes, (head) => xmlDeclared.exec(head)?.[1])

export const encodeXml = (text: string, as: Decoded): Buffer =>
  encode(text, as, {
    refer: true,
    redeclare: (whole) =>
      whole.replace(/^(<\?xml[^>]{0,400}?encoding\s*=\s*["'])[A-Za-z][\w.:-]{0,39}/, "$1UTF-8")
  })
