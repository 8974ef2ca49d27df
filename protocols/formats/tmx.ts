/** TMX 1.4, streamed in both directions: units are returned as they arrive, lines are written as they are
 *  produced. Guarantee: memory use does not depend on file size, because a piece of markup or text longer
 *  than `pieceCharsMax` is refused. Only the five predefined XML entities are expanded.
 *  Source: TMX 1.4b; docs/spec/translation.md, section 9.10. */
import { TextDecoder } from "node:util"
import { SaxesParser } from "saxes"

export interface TmxVariant {
  /** Language code as spelled in the file. */
  readonly language: string
  readonly text: string
}

export interface TmxUnit {
  readonly variants: ReadonlyArray<TmxVariant>
}

export interface TmxHeader {
  /** Source language of the file in lower case; "*all*" means that each unit states its own. */
  readonly source: string | undefined
}

export class TmxFault extends Error {
  constructor(detail: string) {
    super(detail)
    this.name = "TmxFault"
  }
}

const pieceCharsMax = 4_194_304
const segmentCharsMax = 65_536
const variantsMax = 1_000
const depthMax = 64

const encodingOf = ([first, second]: Uint8Array): "utf-8" | "utf-16le" | "utf-16be" => {
  if ((first === 0xff && second === 0xfe) || (first === 0x3c && second === 0)) return "utf-16le"
  if ((first === 0xfe && second === 0xff) || (first === 0 && second === 0x3c)) return "utf-16be"
  return "utf-8"
}

/** Chooses UTF-8, or UTF-16 by byte order mark or by the zero byte next to the first "<"; a declaration of
 *  any other encoding is refused. */
const decoderOf = (first: Uint8Array): TextDecoder => {
  const name = encodingOf(first)
  if (name === "utf-8") {
    const declared = /^[\s\S]{0,80}?encoding\s*=\s*["']([^"']*)["']/.exec(
      Buffer.from(first.subarray(0, 100)).toString("latin1")
    )?.[1]
    if (declared !== undefined && !/^(?:utf-?8|us-ascii)$/i.test(declared))
      throw new TmxFault(`encoding ${declared} is not supported`)
  }
  return new TextDecoder(name, { fatal: true })
}

/** Inline elements that contain code and no text. */
const codes = new Set(["bpt", "ept", "ph", "it", "ut"])

export class TmxReader {
  header: TmxHeader | undefined
  private readonly parser = new SaxesParser({ xmlns: false })
  private decoder: TextDecoder | undefined
  private units: Array<TmxUnit> = []
  private variants: Array<TmxVariant> = []
  private language = ""
  private text = ""
  private inSegment = 0
  private inCode = 0
  private depth = 0
  private sinceEvent = 0
  private sawRoot = false

  constructor() {
    this.parser.on("error", (fault) => {
      throw new TmxFault(`not well-formed XML (${fault.message.split("\n")[0]!.slice(0, 120)})`)
    })
    this.parser.on("opentag", ({ name, attributes }) => {
      this.sinceEvent = 0
      if (++this.depth > depthMax) throw new TmxFault("nested too deeply")
      if (!this.sawRoot) {
        if (name !== "tmx") throw new TmxFault("the root element is not tmx")
        this.sawRoot = true
      }
      if (this.inSegment > 0) {
        this.inSegment++
        if (codes.has(name)) this.inCode++
        return
      }
      if (name === "header") this.header = { source: attributes["srclang"]?.trim().toLowerCase() }
      else if (name === "tu") this.variants = []
      else if (name === "tuv") {
        this.language = attributes["xml:lang"] ?? attributes["lang"] ?? ""
        this.text = ""
      } else if (name === "seg") {
        this.inSegment = 1
        this.text = ""
      }
    })
    this.parser.on("text", (text) => {
      this.sinceEvent = 0
      if (this.inSegment > 0 && this.inCode === 0 && this.text.length <= segmentCharsMax) this.text += text
    })
    this.parser.on("cdata", (text) => {
      if (this.inSegment > 0 && this.inCode === 0 && this.text.length <= segmentCharsMax) this.text += text
    })
    this.parser.on("closetag", ({ name }) => {
      this.sinceEvent = 0
      this.depth--
      if (this.inSegment > 0) {
        this.inSegment--
        if (codes.has(name)) this.inCode--
        return
      }
      // The text is too long for a segment; emptying it makes the unit be skipped and counted.
      if (name === "tuv") {
        if (this.variants.length < variantsMax)
          this.variants.push({
            language: this.language,
            text: this.text.length > segmentCharsMax ? "" : this.text.trim()
          })
      } else if (name === "tu") {
        this.units.push({ variants: this.variants })
        this.variants = []
      }
    })
  }

  /** Returns the units that end in these bytes; throws TmxFault when the file is not valid. */
  push(bytes: Uint8Array): ReadonlyArray<TmxUnit> {
    this.decoder ??= decoderOf(bytes)
    this.sinceEvent += bytes.length
    if (this.sinceEvent > pieceCharsMax) throw new TmxFault("a piece of text or markup is too long")
    try {
      this.parser.write(this.decoder.decode(bytes, { stream: true }))
    } catch (cause) {
      throw cause instanceof TmxFault ? cause : new TmxFault("not valid text of its encoding")
    }
    return this.taken()
  }

  end(): ReadonlyArray<TmxUnit> {
    try {
      this.parser.write(this.decoder?.decode() ?? "")
      this.parser.close()
    } catch (cause) {
      throw cause instanceof TmxFault ? cause : new TmxFault("not valid text of its encoding")
    }
    if (!this.sawRoot) throw new TmxFault("the root element is not tmx")
    return this.taken()
  }

  private taken(): ReadonlyArray<TmxUnit> {
    const { units } = this
    this.units = []
    return units
  }
}

/** Escapes text and removes the characters that XML 1.0 cannot represent. */
const escaped = (text: string): string =>
  text
    .toWellFormed()
    .replace(/(?![\t\n\r\u007F-\u009F])\p{Cc}|[\uFFFE\uFFFF]/gu, "")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("\r", "&#13;")

export const tmxBegin = (source: string): string =>
  `<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n<header creationtool="troupe" creationtoolversion="1" segtype="sentence" o-tmf="troupe" adminlang="en" srclang="${escaped(source)}" datatype="plaintext"/>\n<body>\n`

export const tmxUnit = (variants: ReadonlyArray<TmxVariant>): string =>
  `<tu>${variants.map(({ language, text }) => `<tuv xml:lang="${escaped(language)}"><seg>${escaped(text)}</seg></tuv>`).join("")}</tu>\n`

export const tmxEnd = "</body>\n</tmx>\n"
