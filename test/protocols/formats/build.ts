/** Documents made by hand, to the byte, for tests of what a document may be. */
import { PDFDocument, StandardFonts, rgb, degrees } from "@cantoo/pdf-lib"
import { archive } from "../../../protocols/formats/zip.ts"

export const zipOf = (parts: Record<string, string | Buffer>): Buffer =>
  archive(new Map(Object.entries(parts).map(([name, content]) => [name, Buffer.from(content as any)])))

const types = (overrides: Record<string, string>): string =>
  `<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/>${Object.entries(
    overrides
  )
    .map(([part, type]) => `<Override PartName="/${part}" ContentType="${type}"/>`)
    .join("")}</Types>`

const word = "application/vnd.openxmlformats-officedocument.wordprocessingml."
export const w = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
export const mainPart = "word/document.xml"

export const docxParts = (
  body: string,
  more: Record<string, string | Buffer> = {},
  type = `${word}document.main+xml`,
  overrides: Record<string, string> = {}
): Record<string, string | Buffer> => ({
  "[Content_Types].xml": types({ [mainPart]: type, ...overrides }),
  [mainPart]:
    body.startsWith("<") && body.includes("document")
      ? body
      : `<?xml version="1.0"?><w:document ${w}><w:body>${body}</w:body></w:document>`,
  ...more
})

export const docxOf = (...parts: Parameters<typeof docxParts>): Buffer => zipOf(docxParts(...parts))

export const p = (...runs: ReadonlyArray<string>): string =>
  `<w:p>${runs.map((run) => (run.startsWith("<") ? run : `<w:r><w:t xml:space="preserve">${run}</w:t></w:r>`)).join("")}</w:p>`

export const pptxOf = (slides: ReadonlyArray<string>): Buffer => {
  const a =
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
  const present = "application/vnd.openxmlformats-officedocument.presentationml."
  return zipOf({
    "[Content_Types].xml": types({
      "ppt/presentation.xml": `${present}presentation.main+xml`,
      ...Object.fromEntries(slides.map((_, i) => [`ppt/slides/slide${i + 1}.xml`, `${present}slide+xml`]))
    }),
    "ppt/presentation.xml": `<p:presentation ${a}/>`,
    ...Object.fromEntries(
      slides.map((text, i) => [
        `ppt/slides/slide${i + 1}.xml`,
        `<p:sld ${a}><p:cSld><a:p><a:r><a:t>${text}</a:t></a:r></a:p></p:cSld></p:sld>`
      ])
    )
  })
}

export const xlsxOf = (strings: ReadonlyArray<string>, sheet: string): Buffer => {
  const x = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
  const sheets = "application/vnd.openxmlformats-officedocument.spreadsheetml."
  return zipOf({
    "[Content_Types].xml": types({
      "xl/workbook.xml": `${sheets}sheet.main+xml`,
      "xl/sharedStrings.xml": `${sheets}sharedStrings+xml`,
      "xl/worksheets/sheet1.xml": `${sheets}worksheet+xml`
    }),
    "xl/workbook.xml": `<workbook ${x}/>`,
    "xl/sharedStrings.xml": `<sst ${x}>${strings.map((text) => `<si><t>${text}</t></si>`).join("")}</sst>`,
    "xl/worksheets/sheet1.xml": `<worksheet ${x}>${sheet}</worksheet>`
  })
}

export interface PageText {
  readonly text: string
  readonly x?: number
  readonly y?: number
  readonly size?: number
  readonly colour?: readonly [number, number, number]
  readonly turn?: number
}

/** Pages of lines in Helvetica. */
export const pdfOf = async (
  pages: ReadonlyArray<ReadonlyArray<PageText>>,
  change: (doc: PDFDocument) => void | Promise<void> = () => {}
): Promise<Buffer> => {
  const doc = await PDFDocument.create({ updateMetadata: false })
  const font = await doc.embedFont(StandardFonts.Helvetica)
  for (const lines of pages) {
    const page = doc.addPage([595, 842])
    for (const [
      i,
      { text, x = 72, y = 760 - i * 40, size = 12, colour = [0, 0, 0], turn = 0 }
    ] of lines.entries())
      page.drawText(text, {
        x,
        y,
        size,
        font,
        color: rgb(colour[0], colour[1], colour[2]),
        rotate: degrees(turn)
      })
  }
  await change(doc)
  return Buffer.from(await doc.save({ useObjectStreams: false, addDefaultPage: false }))
}

/** What a reader finds on the pages. */
export const pdfText = async (bytes: Buffer): Promise<ReadonlyArray<string>> => {
  const globals = globalThis as any
  globals.DOMMatrix ??= Object
  globals.Path2D ??= Object
  globals.ImageData ??= Object
  const { getDocument } = await import("pdfjs-dist/legacy/build/pdf.mjs")
  const doc = await getDocument({
    data: new Uint8Array(bytes),
    verbosity: 0,
    disableFontFace: true,
    useSystemFonts: false,
    isEvalSupported: false
  }).promise
  const pages: Array<string> = []
  for (let n = 1; n <= doc.numPages; n++)
    pages.push(
      (await (await doc.getPage(n)).getTextContent()).items
        .map((item) => ("str" in item ? item.str + (item.hasEOL ? "\n" : "") : ""))
        .join(" ")
    )
  await doc.loadingTask.destroy()
  return pages
}
