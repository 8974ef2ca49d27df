/** What one document costs in memory at its peak, over what the program had before. node main.mjs pdf|docx;
 *  prints MiB, and of packages the MiB of the largest part. */
import { documentTypeOf } from "../../../protocols/formats/catalogue.ts"
import { Zip } from "../../../protocols/formats/zip.ts"
import { docxOf, mainPart, p, pdfOf } from "./build.ts"

const kind = process.argv[2]!

const lines = Array.from({ length: 40 }, (_, i) => ({
  text: `Line ${i} of a page with enough words to be worth a translation`,
  y: 800 - i * 18,
  size: 10
}))

const bytes =
  kind === "pdf"
    ? await pdfOf(Array.from({ length: 500 }, () => lines))
    : docxOf(
        Array.from({ length: 40_000 }, (_, i) =>
          p(
            `<w:r><w:rPr><w:lang w:val="en"/></w:rPr><w:t>Paragraph ${i} with </w:t></w:r>`,
            `some words in more than one run`
          )
        ).join("")
      )

const format = await documentTypeOf(kind)!.load()
;(globalThis as { gc?: () => void }).gc?.()
const before = process.memoryUsage().rss
let peak = before

const watch = setInterval(() => {
  peak = Math.max(peak, process.memoryUsage().rss)
}, 5)

const extraction = await format.extract(bytes, { target: "de", charactersMax: 10_000_000 })
peak = Math.max(peak, process.memoryUsage().rss)
const rebuilt = await extraction.rebuild((id) => `${extraction.segments[id]!.text.toUpperCase()} und mehr`)
peak = Math.max(peak, process.memoryUsage().rss)
clearInterval(watch)
const part = kind === "docx" ? new Zip(bytes).get(mainPart)!.size : 0

console.log(
  `peak ${Math.round((peak - before) / 1_048_576)} ${extraction.segments.length} ${rebuilt.length} ${part / 1_048_576}`
)
