/** Fonts for translated text: HarfBuzz shapes it, and each document embeds one subset per face, with a map
 *  back to Unicode. The faces are DejaVu from an npm package, so no system font is needed.
 *  Source: docs/spec/documents.md, sections 5.4 steps 4, 5. */
import { createRequire } from "node:module"
import { readFileSync } from "node:fs"
import { PDFDict, PDFName, PDFNumber, PDFString, type PDFDocument, type PDFRef } from "@cantoo/pdf-lib"

export type Face =
  | "Sans"
  | "Sans-Bold"
  | "Sans-Oblique"
  | "Sans-BoldOblique"
  | "Serif"
  | "Serif-Bold"
  | "Serif-Italic"
  | "Serif-BoldItalic"
  | "SansMono"

/** Scripts that the faces do not cover, or that need more than placing letters side by side. */
const beyond = new Set(
  "ar fa ur ps ckb prs he yi ja zh yue ko th my km lo hi bn ta te ml mr gu pa ne sa as or kn si bho mai gom am ti dv sd".split(
    " "
  )
)

export const hasFont = (language: string): boolean => !beyond.has(language.split("-")[0]!.toLowerCase())

/** Faces by weight (regular, bold), then by slant. */
const faces = {
  serif: [
    ["Serif", "Serif-Italic"],
    ["Serif-Bold", "Serif-BoldItalic"]
  ],
  sans: [
    ["Sans", "Sans-Oblique"],
    ["Sans-Bold", "Sans-BoldOblique"]
  ]
} as const

export const faceOf = (name: string, family: string): Face => {
  const bold = /bold|black|heavy|semibold|demi/i.test(name)
  const slant = /ital|obli/i.test(name)
  if (/mono|courier|consol/i.test(name) || family === "monospace") return "SansMono"
  if (
    /times|serif|roman|georgia|garamond|palatino|book|minion|cambria|cmr|nimbusrom/i.test(
      name.replace(/sans[- ]?serif/i, "")
    ) ||
    family === "serif"
  )
    return faces.serif[bold ? 1 : 0][slant ? 1 : 0]
  return faces.sans[bold ? 1 : 0][slant ? 1 : 0]
}

interface Shaper {
  readonly unitsPerEm: number
  shape(
    text: string
  ): ReadonlyArray<{ readonly glyph: number; readonly advance: number; readonly cluster: number }>
}

const shaperOf = async (bytes: Uint8Array): Promise<Shaper> => {
  const hb = await import("harfbuzzjs")
  const face = new hb.Face(
    new hb.Blob(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer)
  )
  const font = new hb.Font(face)
  // One buffer serves all calls: the library frees a buffer only at garbage collection, so a new one per line
  // would let memory grow.
  const buffer = new hb.Buffer()
  return {
    unitsPerEm: face.upem,
    shape: (text) => {
      buffer.clearContents()
      buffer.addText(text)
      buffer.guessSegmentProperties()
      hb.shape(font, buffer, [new hb.Feature("liga", 0), new hb.Feature("clig", 0)])
      const positions = buffer.getGlyphPositions()
      return buffer
        .getGlyphInfos()
        .map(({ codepoint, cluster }, i) => ({ glyph: codepoint, advance: positions[i]!.xAdvance, cluster }))
    }
  }
}

const fileOf = (face: Face): Buffer =>
  readFileSync(createRequire(import.meta.url).resolve(`dejavu-fonts-ttf/ttf/DejaVu${face}.ttf`))

const wordsMax = 50_000

/** One face in one document. Text is measured and recorded first, then the subset is made, then the text is
 *  encoded with the subset's glyphs. */
export class DocumentFont {
  readonly ref: PDFRef
  readonly name: string
  private shaper: Shaper
  private readonly doc: PDFDocument
  private readonly face: Face
  private readonly noted = new Set<string>()
  private readonly glyphs = new Map<number, { readonly text: string; readonly advance: number }>()

  private constructor(doc: PDFDocument, face: Face, shaper: Shaper) {
    this.doc = doc
    this.face = face
    this.shaper = shaper
    this.ref = doc.context.nextRef()
    this.name = `Troupe${face.replace("-", "")}`
  }

  static async open(doc: PDFDocument, face: Face): Promise<DocumentFont> {
    return new DocumentFont(doc, face, await shaperOf(fileOf(face)))
  }

  /** Width of a text, in the unit of `size`. Each word is shaped once and cached, because line breaking
   *  measures a line many times. */
  width(text: string, size: number): number {
    let units = 0
    for (const [i, word] of text.split(" ").entries())
      units += this.unitsOf(word) + (i === 0 ? 0 : this.unitsOf(" "))
    return (units * size) / this.shaper.unitsPerEm
  }

  private readonly units = new Map<string, number>()

  private unitsOf(word: string): number {
    let units = this.units.get(word)
    if (units === undefined) {
      units = this.shaper.shape(word).reduce((sum, { advance }) => sum + advance, 0)
      if (this.units.size < wordsMax) this.units.set(word, units)
    }
    return units
  }

  note(text: string): void {
    for (const letter of text) this.noted.add(letter)
  }

  private program: Buffer = Buffer.alloc(0)

  async subset(): Promise<void> {
    const make = (await import("subset-font")).default as (
      font: Buffer,
      text: string,
      options: Record<string, unknown>
    ) => Promise<Buffer>
    this.program = Buffer.from(
      await make(fileOf(this.face), [...this.noted].join(""), { targetFormat: "truetype" })
    )
    this.shaper = await shaperOf(this.program)
  }

  /** Operand of the Tj operator; it may be called only after `subset`. */
  encoded(text: string): string {
    const shaped = this.shaper.shape(text)
    let hex = ""
    for (const [i, { glyph, advance, cluster }] of shaped.entries()) {
      const next = shaped[i + 1]?.cluster ?? text.length
      if (!this.glyphs.has(glyph))
        this.glyphs.set(glyph, { text: text.slice(cluster, Math.max(next, cluster + 1)), advance })
      hex += glyph.toString(16).padStart(4, "0")
    }
    return `<${hex}>`
  }

  /** Embeds the font; it is called once, after all text has been encoded. */
  embed(): void {
    const { context } = this.doc
    const scale = 1_000 / this.shaper.unitsPerEm
    const name = PDFName.of(`TROUPE+DejaVu${this.face}`)
    const dict = (entries: Record<string, any>): PDFDict => context.obj(entries) as unknown as PDFDict
    const program = context.register(context.flateStream(this.program, { Length1: this.program.length }))
    const descriptor = context.register(
      dict({
        Type: "FontDescriptor",
        FontName: name,
        Flags: 4,
        FontBBox: [-1_000, -400, 2_000, 1_100],
        ItalicAngle: 0,
        Ascent: 928,
        Descent: -236,
        CapHeight: 729,
        StemV: 80,
        FontFile2: program
      })
    )
    const widths: Array<any> = []
    for (const [glyph, { advance }] of [...this.glyphs].sort(([a], [b]) => a - b))
      widths.push(PDFNumber.of(glyph), context.obj([Math.round(advance * scale)]))
    const descendant = context.register(
      dict({
        Type: "Font",
        Subtype: "CIDFontType2",
        BaseFont: name,
        CIDSystemInfo: dict({
          Registry: PDFString.of("Adobe"),
          Ordering: PDFString.of("Identity"),
          Supplement: 0
        }),
        FontDescriptor: descriptor,
        DW: 600,
        W: context.obj(widths),
        CIDToGIDMap: "Identity"
      })
    )
    const unicode = context.register(context.flateStream(toUnicode(this.glyphs)))
    context.assign(
      this.ref,
      dict({
        Type: "Font",
        Subtype: "Type0",
        BaseFont: name,
        Encoding: "Identity-H",
        DescendantFonts: [descendant],
        ToUnicode: unicode
      })
    )
  }
}

const hex = (text: string): string =>
  [...Buffer.from(text, "utf16le").swap16()].map((byte) => byte.toString(16).padStart(2, "0")).join("")

const toUnicode = (glyphs: ReadonlyMap<number, { readonly text: string }>): string => {
  const rows = [...glyphs].map(
    ([glyph, { text }]) => `<${glyph.toString(16).padStart(4, "0")}> <${hex(text)}>`
  )
  const blocks: Array<string> = []
  for (let at = 0; at < rows.length; at += 100) {
    const block = rows.slice(at, at + 100)
    blocks.push(`${block.length} beginbfchar\n${block.join("\n")}\nendbfchar`)
  }
  return `/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def /CMapName /Adobe-Identity-UCS def /CMapType 2 def\n1 begincodespacerange <0000> <ffff> endcodespacerange\n${blocks.join("\n")}\nendcmap CMapName currentdict /CMap defineresource pop end end`
}
