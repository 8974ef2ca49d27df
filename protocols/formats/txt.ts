/** Plain text, line by line: line structure, white space, bullets and numbering are preserved. All
 *  characters of the file are billed.
 *  Source: docs/spec/documents.md, sections 5.6, 3.7. */
import { BadDocument, type Format } from "./document.ts"
import { decodePlain, encodePlain } from "./encoding.ts"
import { Builder, codePoints, Segments, spliced } from "./splice.ts"

const line = /[^\r\n\u2028\u2029]+/g
const lead = /^\s*(?:[-*+\u2022\u2013\u2014\u00B7>]\s+|\(?(?:\d{1,3}|[A-Za-z])[.)]\s+)?/
const writing = { escape: (text: string) => text.replace(/[\r\n]+/g, " ") }

export const txt: Format = {
  id: "txt",
  extensions: ["txt"],
  mime: "text/plain",
  inspect: (bytes) => {
    if (bytes.length === 0) throw new BadDocument("empty")
  },
  extract: (bytes, options) => {
    const file = decodePlain(bytes)
    if (file.text.includes("\0")) throw new BadDocument("binary", `offset ${file.text.indexOf("\0")}`)
    const segments = new Segments({ charactersMax: Infinity })
    const counted = new Segments(options)
    counted.count(codePoints(file.text))
    for (const found of file.text.matchAll(line)) {
      const outside = lead.exec(found[0])![0].length
      const text = found[0].slice(outside).trimEnd()
      if (text === "") continue
      const builder = new Builder()
      const from = found.index + outside
      builder.text(text, from, from + text.length)
      segments.add(builder, writing)
    }
    return {
      segments: segments.list,
      characters: counted.characters,
      warnings: [],
      rebuild: (translated) => {
        const text = spliced(file.text, segments.placed, translated)
        return text === file.text ? bytes : encodePlain(text, file)
      }
    }
  }
}
