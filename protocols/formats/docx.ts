/** Word documents: every part that holds text is found by its content type. Deleted text, field codes and
 *  formulas are never translated. Paragraphs are read and spliced by office-paragraphs.ts, which pptx and
 *  xlsx share.
 *  Source: docs/spec/documents.md, section 5.1. */
import type { Format } from "./document.ts"
import { contentTypesOf, inspectOffice, PackageReading } from "./office-package.ts"
import { readOfficeText } from "./office-paragraphs.ts"
import { openPackage } from "./zip.ts"
import { watermarked } from "./watermark-docx.ts"

const main = /wordprocessingml\.(?:document|template)\.main\+xml$/

const stories =
  /wordprocessingml\.(?:document\.main|template\.main|header|footer|footnotes|endnotes|comments|document\.glossary)\+xml$/

const drawings = /drawingml\.(?:chart|diagramData)\+xml$|ms-office\.drawingml\.diagramDrawing\+xml$/

export const docx: Format = {
  id: "docx",
  extensions: ["docx"],
  mime: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
  inspect: (bytes) => inspectOffice(bytes, main, "not a Word document"),
  extract: (bytes, options) => {
    const reading = new PackageReading(openPackage(bytes, "not a Word document"), options)
    const types = contentTypesOf(reading.zip)!
    const parts = [...types]
      .filter(([, type]) => stories.test(type) || drawings.test(type))
      .sort(([, a], [, b]) => Number(main.test(b)) - Number(main.test(a)))
    for (const [part, type] of parts)
      reading.part(part, (text, segments) =>
        readOfficeText(text, segments, { part, cached: drawings.test(type) })
      )
    if ([...types.keys()].some((part) => part.startsWith("_xmlsignatures/")))
      reading.warnings.push("the document was signed; the signature no longer fits")
    const { watermark } = options
    return reading.done(
      watermark === undefined ? {} : { finish: (zip, changed) => watermarked(zip, changed, watermark) }
    )
  }
}
