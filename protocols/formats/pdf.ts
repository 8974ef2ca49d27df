/** PDF: the text of a page is removed from its content streams and drawn again in the old boxes, with the
 *  old colour, size and slant; everything else on the page is unchanged. The result resembles the layout
 *  without being identical. pdfjs reads the text, pdf-lib edits the objects.
 *  Source: docs/spec/documents.md, section 5.4. */
import { inflateSync } from "node:zlib"
import {
  PDFArray,
  PDFDict,
  PDFDocument,
  PDFHexString,
  PDFName,
  PDFRawStream,
  PDFRef,
  PDFStream,
  PDFString,
  decodePDFRawStream,
  type PDFObject,
  type PDFPage
} from "@cantoo/pdf-lib"
import { BadDocument, type ExtractOptions, type Extraction, type Format } from "./document.ts"
import { readContent, times, withoutOperators, type Matrix, type TextOperator } from "./pdf-content.ts"
import { DocumentFont, faceOf, hasFont, type Face } from "./pdf-fonts.ts"
import { blocksOf, linesOf, type TextBlock, type TextItem } from "./pdf-layout.ts"
import { pdfAsDocx } from "./pdf-docx.ts"
import { codePoints, isLanguage, legal } from "./splice.ts"
import type { Segment } from "./document.ts"

const streamBytesMax = 96 * 1_048_576
const streamsBytesMax = 768 * 1_048_576
const formDepthMax = 16
const formsMax = 20_000
const pagesMax = 5_000
const unreadableShareMax = 0.3
const scannedCharsMax = 10

/** The text of a page, and the faces of its fonts by pdfjs's font names. */
interface PageText {
  readonly blocks: ReadonlyArray<TextBlock>
  readonly faces: ReadonlyMap<string, Face>
  readonly width: number
  readonly height: number
}

/** Checks that every compressed stream stays within the size limit, before a library decompresses it without
 *  one. */
const guardStreams = (bytes: Buffer): void => {
  let inflatedBytes = 0
  for (let at = bytes.indexOf("stream"); at >= 0; at = bytes.indexOf("stream", at + 6)) {
    if (bytes.toString("latin1", at - 3, at) === "end") continue
    const head = bytes.toString("latin1", Math.max(0, at - 400), at)
    const dictionary = head.slice(Math.max(head.lastIndexOf("endobj"), head.lastIndexOf(" obj")))
    if (!dictionary.includes("FlateDecode") && !/\/Fl\b/.test(dictionary)) continue
    const from = at + 6 + (bytes[at + 6] === 13 ? 2 : 1)
    const end = bytes.indexOf("endstream", from)
    try {
      inflatedBytes += inflateSync(bytes.subarray(from, end < 0 ? undefined : end), {
        maxOutputLength: streamBytesMax,
        finishFlush: 2
      }).length
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE") throw new BadDocument("too large")
    }
    if (inflatedBytes > streamsBytesMax) throw new BadDocument("too large")
    if (end > 0) at = end
  }
}

/** Defines the browser globals that pdfjs expects; none of them draws anything when only text is read. */
const stubs = (): void => {
  const globals = globalThis as Record<string, unknown>
  globals["DOMMatrix"] ??= class {
    a = 1
    b = 0
    c = 0
    d = 1
    e = 0
    f = 0
  }
  globals["Path2D"] ??= Object
  globals["ImageData"] ??= Object
}

const openForText = async (bytes: Buffer) => {
  stubs()
  const pdfjs = await import("pdfjs-dist/legacy/build/pdf.mjs")
  const task = pdfjs.getDocument({
    data: new Uint8Array(bytes),
    isEvalSupported: false,
    disableFontFace: true,
    useSystemFonts: false,
    verbosity: 0,
    stopAtErrors: false
  })
  try {
    return await task.promise
  } catch (cause) {
    if ((cause as Error).name === "PasswordException") throw new BadDocument("password-protected")
    throw new BadDocument("damaged PDF")
  }
}

const readPages = async (
  bytes: Buffer
): Promise<{ readonly pages: ReadonlyArray<PageText>; readonly images: boolean }> => {
  const document = await openForText(bytes)
  const pages: Array<PageText> = []
  let chars = 0
  let unreadable = 0
  let images = false
  try {
    if (document.numPages === 0) throw new BadDocument("damaged PDF")
    if (document.numPages > pagesMax) throw new BadDocument("too large")
    for (let n = 1; n <= document.numPages; n++) {
      let page
      try {
        page = await document.getPage(n)
      } catch {
        throw new BadDocument("damaged PDF", `page ${n}`)
      }
      const content = await page.getTextContent({ disableNormalization: false })
      const faces = new Map<string, Face>()
      const items: Array<TextItem> = []
      for (const item of content.items) {
        if (!("str" in item)) continue
        items.push(item as TextItem)
        chars += item.str.length
        unreadable += item.str.match(/[\uFFFD\uE000-\uF8FF\p{Cc}]/gu)?.length ?? 0
        if (!faces.has(item.fontName)) {
          let name = ""
          try {
            name = (page.commonObjs.get(item.fontName) as { name?: string } | null)?.name ?? ""
          } catch {
            /* a font that is not loaded yet has no name */
          }
          faces.set(item.fontName, faceOf(name, content.styles[item.fontName]?.fontFamily ?? ""))
        }
      }
      if (items.length === 0) images = true
      const [x, y, right, top] = page.view as [number, number, number, number]
      pages.push({ blocks: blocksOf(linesOf(items)), faces, width: right - x, height: top - y })
      page.cleanup()
    }
  } finally {
    await document.loadingTask.destroy()
  }
  if (chars < scannedCharsMax && !pages.some(({ blocks }) => blocks.some(({ text }) => isLanguage(text))))
    throw new BadDocument("no text found")
  if (unreadable > chars * unreadableShareMax) throw new BadDocument("text cannot be extracted")
  return { pages, images }
}

/** Titles of the document outline, which viewers show beside the pages. */
const outlineOf = (doc: PDFDocument): ReadonlyArray<{ readonly item: PDFDict; readonly title: string }> => {
  const found: Array<{ item: PDFDict; title: string }> = []
  const seen = new Set<PDFDict>()
  const waiting: Array<PDFObject | undefined> = [
    (doc.catalog.lookup(PDFName.of("Outlines")) as PDFDict | undefined)?.get?.(PDFName.of("First"))
  ]
  while (waiting.length > 0) {
    const item = doc.context.lookup(waiting.shift())
    if (!(item instanceof PDFDict) || seen.has(item) || seen.size > 10_000) continue
    seen.add(item)
    const title = item.lookup(PDFName.of("Title"))
    if (title instanceof PDFString || title instanceof PDFHexString)
      found.push({ item, title: title.decodeText() })
    waiting.push(item.get(PDFName.of("First")), item.get(PDFName.of("Next")))
  }
  return found
}

export const pdf: Format = {
  id: "pdf",
  extensions: ["pdf"],
  mime: "application/pdf",
  inspect: (bytes) => {
    if (bytes.length === 0) throw new BadDocument("empty")
    if (!bytes.subarray(0, 1_024).includes("%PDF-")) throw new BadDocument("not a PDF")
    if (bytes.includes("/Encrypt"))
      return openForText(bytes).then((document) => document.loadingTask.destroy())
  },
  extract: async (bytes, options) => {
    if (options.convertTo === undefined && !hasFont(options.target))
      throw new BadDocument("no font for this script")
    guardStreams(bytes)
    const { pages } = await readPages(bytes)
    const segments: Array<Segment> = []
    const ids = new Map<TextBlock, number>()
    let characters = 0
    const add = (text: string): number => {
      const billed = codePoints(text)
      characters += billed
      if (characters > options.charactersMax) throw new BadDocument("too many characters")
      segments.push({ id: segments.length, text, billed })
      return segments.length - 1
    }
    for (const { blocks } of pages)
      for (const block of blocks) if (isLanguage(block.text)) ids.set(block, add(block.text))
    const titles: Array<number> = []
    const doc = await load(bytes)
    const outline = outlineOf(doc)
    for (const { title } of outline) titles.push(isLanguage(title) ? add(title) : -1)
    const rebuild: Extraction["rebuild"] = async (translated) => {
      const textOf = (block: TextBlock): string | undefined => {
        const id = ids.get(block)
        return id === undefined ? undefined : translated(id)
      }
      if (options.convertTo === "docx") return pdfAsDocx(pages, textOf, options.watermark)
      for (const [i, { item, title }] of outline.entries()) {
        const translation = titles[i]! < 0 ? undefined : translated(titles[i]!)
        if (translation !== undefined && translation !== title)
          item.set(PDFName.of("Title"), PDFHexString.fromText(translation))
      }
      await set(doc, pages, textOf, options)
      return Buffer.from(await doc.save({ useObjectStreams: true, updateFieldAppearances: false }))
    }
    return { segments, characters, warnings: [], rebuild }
  }
}

const load = async (bytes: Buffer): Promise<PDFDocument> => {
  try {
    return await PDFDocument.load(bytes, {
      updateMetadata: false,
      throwOnInvalidObject: false,
      ...(bytes.includes("/Encrypt") ? { password: "" } : {})
    })
  } catch {
    throw new BadDocument("damaged PDF")
  }
}

interface Draw {
  readonly font: DocumentFont
  readonly text: string
  readonly size: number
  readonly angle: number
  readonly u: number
  readonly v: number
  readonly colour: string
}

/** Removes the source text of each translated block and draws the translation in its place. */
const set = async (
  doc: PDFDocument,
  pages: ReadonlyArray<PageText>,
  textOf: (block: TextBlock) => string | undefined,
  options: ExtractOptions
): Promise<void> => {
  const fonts = new Map<Face, DocumentFont>()
  const drawn: Array<{
    readonly page: PDFPage
    readonly draws: ReadonlyArray<Draw>
    readonly main: string
    readonly mark: string | undefined
  }> = []
  const fontOf = async (face: Face): Promise<DocumentFont> => {
    let font = fonts.get(face)
    if (font === undefined) fonts.set(face, (font = await DocumentFont.open(doc, face)))
    return font
  }
  for (const [i, page] of doc.getPages().entries()) {
    const { blocks = [], faces } = pages[i] ?? {}
    const changed = blocks.filter((block) => {
      const text = textOf(block)
      return text !== undefined && text !== block.text
    })
    if (changed.length === 0 && options.watermark === undefined) continue
    const streams = new PageStreams(doc, page)
    const textOperators = streams.readTextOperators()
    const draws: Array<Draw> = []
    const removed = new Set<TextOperator>()
    for (const block of changed) {
      const of = textOperators.filter((one) => !removed.has(one) && within(block, one))
      for (const one of of) removed.add(one)
      const font = await fontOf(faces?.get(block.font) ?? "Sans")
      draws.push(...setBlock(block, legal(textOf(block)!), font, of[0]?.colour ?? "0 g"))
    }
    for (const { font, text } of draws) font.note(text)
    const main = streams.write(removed)
    const mark =
      options.watermark === undefined || main.includes(watermarkTag) ? undefined : options.watermark
    if (mark !== undefined) (await fontOf("Sans")).note(mark)
    drawn.push({ page, draws, main, mark })
  }
  for (const font of fonts.values()) await font.subset()
  for (const { page, draws, main, mark } of drawn) {
    const own = draws.map(({ font, text, size, angle, u, v, colour }) => {
      const cos = Math.cos(angle)
      const sin = Math.sin(angle)
      return `q ${colour} BT /${font.name} ${round(size)} Tf ${round(cos)} ${round(sin)} ${round(-sin)} ${round(cos)} ${round(u * cos - v * sin)} ${round(u * sin + v * cos)} Tm ${font.encoded(text)} Tj ET Q`
    })
    if (mark !== undefined) own.push(watermarkOf(page, fonts.get("Sans")!, mark))
    const used = new Set([
      ...draws.map(({ font }) => font),
      ...(mark === undefined ? [] : [fonts.get("Sans")!])
    ])
    const resources = page.node.Resources() ?? doc.context.obj({})
    const held = PDFDict.fromMapWithContext(new Map(resources.entries()), doc.context)
    const pageFonts = resources.lookupMaybe(PDFName.of("Font"), PDFDict)
    const names = PDFDict.fromMapWithContext(new Map(pageFonts?.entries() ?? []), doc.context)
    for (const font of used) names.set(PDFName.of(font.name), font.ref)
    held.set(PDFName.of("Font"), names)
    page.node.set(PDFName.of("Resources"), held)
    const body = doc.context.register(
      doc.context.flateStream(Buffer.from(`q\n${main}\nQ\n${own.join("\n")}\n`, "latin1"))
    )
    page.node.set(PDFName.of("Contents"), doc.context.obj([body]))
  }
  for (const font of fonts.values()) font.embed()
  // The structure tree would refer to removed text.
  doc.catalog.delete(PDFName.of("StructTreeRoot"))
  doc.catalog.delete(PDFName.of("MarkInfo"))
}

const round = (value: number): number => Math.round(value * 1_000) / 1_000

/** Returns whether the text operator starts on one of the block's lines. */
const within = ({ lines, angle }: TextBlock, { x, y }: TextOperator): boolean => {
  const u = x * Math.cos(angle) + y * Math.sin(angle)
  const v = y * Math.cos(angle) - x * Math.sin(angle)
  return lines.some(
    (line) =>
      Math.abs(line.v - v) < 0.4 * line.size && u > line.u - 0.6 * line.size && u < line.end + 0.2 * line.size
  )
}

const smallest = 0.7

/** Fits a translation to its old box: first at the original size, then smaller, then by extending the box
 *  downwards. */
const setBlock = (
  block: TextBlock,
  text: string,
  font: DocumentFont,
  colour: string
): ReadonlyArray<Draw> => {
  const broken = (size: number): ReadonlyArray<string> => {
    const width =
      block.lines.length === 1 ? Math.max(block.width * 1.02, block.width + size) : block.width * 1.01
    const lines: Array<string> = []
    let line = ""
    for (const word of text.split(/\s+/)) {
      const longer = line === "" ? word : `${line} ${word}`
      if (line !== "" && font.width(longer, size) > width) {
        lines.push(line)
        line = word
      } else line = longer
    }
    return line === "" ? lines : [...lines, line]
  }
  let size = block.size
  let lines = broken(size)
  while (lines.length > block.lines.length && size > block.size * smallest) {
    size = Math.max(block.size * smallest, size * 0.94)
    lines = broken(size)
  }
  const leading =
    lines.length > block.lines.length
      ? Math.max(size * 1.05, (block.leading * size) / block.size)
      : block.leading
  return lines.map((line, i) => ({
    font,
    text: line,
    size,
    angle: block.angle,
    u: block.centred ? block.u + (block.width - font.width(line, size)) / 2 : block.u,
    v: block.v - i * leading,
    colour
  }))
}

const watermarkTag = "/TroupeWatermark BMC"

/** Draws the watermark at the bottom right of the visible page, for every page rotation. */
const watermarkOf = (page: PDFPage, font: DocumentFont, label: string): string => {
  const { x, y, width, height } = page.getCropBox()
  const turn = ((page.getRotation().angle % 360) + 360) % 360
  const length = font.width(label, 8)
  const edge = 12
  const upright = { cos: 1, sin: 0, left: x + width - edge - length, bottom: y + edge }
  const byRotation: Readonly<Record<number, typeof upright>> = {
    90: { cos: 0, sin: 1, left: x + width - edge, bottom: y + height - edge - length },
    180: { cos: -1, sin: 0, left: x + edge + length, bottom: y + height - edge },
    270: { cos: 0, sin: -1, left: x + edge, bottom: y + edge + length }
  }
  const { cos, sin, left, bottom } = byRotation[turn] ?? upright
  return `${watermarkTag} q 0.6 g BT /${font.name} 8 Tf ${cos} ${sin} ${-sin} ${cos} ${round(left)} ${round(bottom)} Tm ${font.encoded(label)} Tj ET Q EMC`
}

interface Form {
  readonly stream: PDFRawStream
  readonly ref: PDFRef
  readonly text: string
  readonly textOperators: ReadonlyArray<TextOperator>
}

/** The content streams of a page and of the forms that it draws. */
class PageStreams {
  private readonly doc: PDFDocument
  private readonly page: PDFPage
  private readonly forms: Array<Form> = []
  private main = ""
  private operators: Array<TextOperator> = []
  private mainOperators: ReadonlyArray<TextOperator> = []

  constructor(doc: PDFDocument, page: PDFPage) {
    this.doc = doc
    this.page = page
  }

  readTextOperators(): ReadonlyArray<TextOperator> {
    const contents = this.page.node.Contents()
    const streams =
      contents instanceof PDFArray
        ? contents.asArray().map((one) => this.doc.context.lookup(one))
        : [contents]
    this.main = streams.map((stream) => (stream instanceof PDFStream ? bytesOf(stream) : "")).join("\n")
    const { textOperators, forms: drawn } = readContent(this.main)
    this.mainOperators = textOperators
    this.operators = [...textOperators]
    for (const { name, matrix } of drawn) this.form(this.page.node.Resources(), name, matrix, 1)
    return this.operators
  }

  private form(resources: PDFDict | undefined, name: string, matrix: Matrix, depth: number): void {
    if (depth > formDepthMax || this.forms.length >= formsMax) return
    const ref = resources?.lookupMaybe(PDFName.of("XObject"), PDFDict)?.get(PDFName.of(name))
    const stream = this.doc.context.lookup(ref)
    if (
      !(ref instanceof PDFRef) ||
      !(stream instanceof PDFRawStream) ||
      stream.dict.lookup(PDFName.of("Subtype")) !== PDFName.of("Form")
    )
      return
    const own = stream.dict
      .lookupMaybe(PDFName.of("Matrix"), PDFArray)
      ?.asArray()
      .map((value) => Number(String(value))) as unknown as Matrix | undefined
    const text = bytesOf(stream)
    const { textOperators, forms: drawn } = readContent(text, own === undefined ? matrix : times(own, matrix))
    this.forms.push({ stream, ref, text, textOperators: textOperators })
    this.operators.push(...textOperators)
    for (const inner of drawn)
      this.form(
        stream.dict.lookupMaybe(PDFName.of("Resources"), PDFDict) ?? resources,
        inner.name,
        inner.matrix,
        depth + 1
      )
  }

  /** Writes the page's stream without the removed operators; forms are edited in place. */
  write(removed: ReadonlySet<TextOperator>): string {
    for (const { stream, ref, text, textOperators } of this.forms) {
      const removedHere = textOperators.filter((one) => removed.has(one))
      if (removedHere.length === 0 || this.doc.context.lookup(ref) !== stream) continue
      const rewritten = this.doc.context.flateStream(
        Buffer.from(withoutOperators(text, removedHere), "latin1")
      )
      for (const [key, value] of stream.dict.entries())
        if (!["Length", "Filter", "DecodeParms"].includes(key.decodeText())) rewritten.dict.set(key, value)
      this.doc.context.assign(ref, rewritten)
    }
    return withoutOperators(
      this.main,
      this.mainOperators.filter((one) => removed.has(one))
    )
  }
}

const bytesOf = (stream: PDFStream): string => {
  try {
    return Buffer.from(
      stream instanceof PDFRawStream ? decodePDFRawStream(stream).decode() : stream.getContents()
    ).toString("latin1")
  } catch {
    return ""
  }
}
