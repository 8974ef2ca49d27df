/** Converts the text of a PDF to a Word document: paragraphs with size, weight, slant and alignment,
 *  headings by rank of font size, and one section per page size. Pictures and ruled tables are not converted.
 *  Source: docs/spec/documents.md, section 5.4 step 8. */
import type { Face } from "./pdf-fonts.ts"
import type { TextBlock } from "./pdf-layout.ts"
import { legal } from "./splice.ts"
import { watermarked } from "./watermark-docx.ts"
import { escapeXml } from "./xml-scan.ts"
import { archive, Zip } from "./zip.ts"

interface Page {
  readonly blocks: ReadonlyArray<TextBlock>
  readonly faces: ReadonlyMap<string, Face>
  readonly width: number
  readonly height: number
}

const head = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
const word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
const office = "application/vnd.openxmlformats-officedocument.wordprocessingml"
const twips = (points: number): number => Math.round(points * 20)

export const pdfAsDocx = (
  pages: ReadonlyArray<Page>,
  textOf: (block: TextBlock) => string | undefined,
  watermark: string | undefined
): Buffer => {
  const sizes = new Map<number, number>()
  for (const { blocks } of pages)
    for (const { size, text } of blocks)
      sizes.set(Math.round(size), (sizes.get(Math.round(size)) ?? 0) + text.length)
  const body = [...sizes].sort(([, a], [, b]) => b - a)[0]?.[0] ?? 11
  const ranks = [...sizes.keys()]
    .filter((size) => size > body * 1.15)
    .sort((a, b) => b - a)
    .slice(0, 3)
  const section = ({ width, height }: Page): string =>
    `<w:sectPr><w:pgSz w:w="${twips(width)}" w:h="${twips(height)}"/><w:pgMar w:top="1134" w:right="1134" w:bottom="1134" w:left="1134" w:header="567" w:footer="567" w:gutter="0"/></w:sectPr>`
  const out: Array<string> = []
  for (const [i, page] of pages.entries()) {
    for (const block of page.blocks) {
      const face = page.faces.get(block.font) ?? "Sans"
      const rank = ranks.indexOf(Math.round(block.size))
      const look = `${/Bold/.test(face) ? "<w:b/>" : ""}${/Italic|Oblique/.test(face) ? "<w:i/>" : ""}<w:sz w:val="${Math.max(2, Math.round(block.size * 2))}"/>`
      out.push(
        `<w:p><w:pPr>${rank < 0 ? "" : `<w:pStyle w:val="Heading${rank + 1}"/>`}${block.centred ? '<w:jc w:val="center"/>' : ""}</w:pPr><w:r><w:rPr>${look}</w:rPr><w:t xml:space="preserve">${escapeXml(legal(textOf(block) ?? block.text))}</w:t></w:r></w:p>`
      )
    }
    const next = pages[i + 1]
    if (next === undefined) out.push(section(page))
    else if (Math.abs(next.width - page.width) > 1 || Math.abs(next.height - page.height) > 1)
      out.push(`<w:p><w:pPr>${section(page)}</w:pPr></w:p>`)
    else out.push('<w:p><w:r><w:br w:type="page"/></w:r></w:p>')
  }
  const styles = [1, 2, 3]
    .map(
      (n) =>
        `<w:style w:type="paragraph" w:styleId="Heading${n}"><w:name w:val="heading ${n}"/><w:pPr><w:keepNext/><w:spacing w:before="240" w:after="120"/><w:outlineLvl w:val="${n - 1}"/></w:pPr></w:style>`
    )
    .join("")
  const document = archive(
    new Map(
      Object.entries({
        "[Content_Types].xml": `${head}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/><Override PartName="/word/document.xml" ContentType="${office}.document.main+xml"/><Override PartName="/word/styles.xml" ContentType="${office}.styles+xml"/></Types>`,
        "_rels/.rels": `${head}<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/></Relationships>`,
        "word/_rels/document.xml.rels": `${head}<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" Target="styles.xml"/></Relationships>`,
        "word/styles.xml": `${head}<w:styles xmlns:w="${word}"><w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/></w:style>${styles}</w:styles>`,
        "word/document.xml": `${head}<w:document xmlns:w="${word}"><w:body>${out.join("")}</w:body></w:document>`
      }).map(([name, text]) => [name, Buffer.from(text)])
    )
  )
  return watermark === undefined ? document : watermarked(new Zip(document), new Map(), watermark)
}
