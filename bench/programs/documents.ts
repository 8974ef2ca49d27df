/** Measures the document pipeline in one thread: ours (extract, identity, rebuild) against the least that any
 *  tool must do with the same file (unpack, parse with counting handlers, pack): node documents.js FORMAT
 *  CANDIDATE SCALE. It prints milliseconds. Source: docs/spec/documents.md, section 13. */
import { createRequire } from "node:module"
import { performance } from "node:perf_hooks"
import { createCipheriv, randomBytes } from "node:crypto"
import { deflateRawSync } from "node:zlib"
import { keysOf, newDocumentId, newDocumentKey, sealing } from "../../actors/documents/sealed.ts"
import { documentTypeOf } from "../../protocols/formats/catalogue.ts"
import { archive, Zip } from "../../protocols/formats/zip.ts"

const [format = "docx", candidate = "ours", scale = "1"] = process.argv.slice(2)
const n = Math.max(20, Math.round(Number(scale) * 9_750))

const { SaxesParser } = createRequire(import.meta.url)("saxes") as {
  SaxesParser: new () => {
    on(name: string, handler: () => void): void
    write(text: string): { close(): void }
  }
}

const words = (i: number): string => `Paragraph ${i} says that the weather is fine and the way is long.`
const lines = Array.from({ length: n }, (_, i) => words(i))

const parts = (entries: Record<string, string>): Buffer =>
  archive(new Map(Object.entries(entries).map(([name, text]) => [name, Buffer.from(text)])))

const types = (part: string, type: string): string =>
  `<Types><Override PartName="/${part}" ContentType="application/vnd.openxmlformats-officedocument.${type}+xml"/>`

/** A document of n paragraphs in each format. */
const documents: Record<string, () => Buffer> = {
  docx: () =>
    parts({
      "[Content_Types].xml": `${types("word/document.xml", "wordprocessingml.document.main")}</Types>`,
      "word/document.xml": `<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>${lines
        .map(
          (line, i) =>
            `<w:p w:rsidR="00A${i}"><w:pPr><w:pStyle w:val="Body"/></w:pPr><w:r><w:rPr><w:lang w:val="en"/></w:rPr><w:t xml:space="preserve">${line.slice(0, 30)}</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>${line.slice(30)}</w:t></w:r></w:p>`
        )
        .join("")}</w:body></w:document>`
    }),
  xlsx: () =>
    parts({
      "[Content_Types].xml": `${types("xl/workbook.xml", "spreadsheetml.sheet.main")}<Override PartName="/xl/sharedStrings.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"/></Types>`,
      "xl/workbook.xml": "<workbook/>",
      "xl/sharedStrings.xml": `<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">${[...lines, ...lines, ...lines].map((line) => `<si><t>${line}</t></si>`).join("")}</sst>`
    }),
  xml: () =>
    Buffer.from(
      `<doc>${lines.map((line, i) => `<p id="p${i}">${line.slice(0, 20)}<b>${line.slice(20, 40)}</b>${line.slice(40)}</p>`).join("\n")}</doc>`
    ),
  xlf: () =>
    Buffer.from(
      `<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file><body>${lines.map((line, i) => `<trans-unit id="${i}"><source>${line}</source></trans-unit>`).join("\n")}</body></file></xliff>`
    ),
  html: () =>
    Buffer.from(
      `<!doctype html><html><body>${lines.map((line) => `<p class="a">${line.slice(0, 20)}<b>${line.slice(20, 40)}</b>${line.slice(40)}</p>`).join("\n")}</body></html>`
    ),
  json: () =>
    Buffer.from(
      JSON.stringify(
        Object.fromEntries(lines.map((line, i) => [`key${i}`, { text: line, number: i }])),
        undefined,
        1
      )
    ),
  srt: () =>
    Buffer.from(lines.map((line, i) => `${i + 1}\n00:00:01,000 --> 00:00:02,000\n${line}\n`).join("\n")),
  txt: () => Buffer.from(lines.join("\n")),
  seal: () => randomBytes(Math.max(65_536, n * 2_000))
}

const bytes = documents[format]!()
let work = 0

const parse = (text: string): void => {
  const parser = new SaxesParser()
  for (const event of ["opentag", "text", "closetag"])
    parser.on(event, () => {
      work++
    })
  parser.write(text).close()
}

const least = async (): Promise<void> => {
  switch (format) {
    case "docx":
    case "xlsx": {
      const zip = new Zip(Buffer.from(bytes))
      for (const { name } of zip.entries) {
        const part = zip.part(name)!
        parse(part.toString("utf8"))
        work += deflateRawSync(part, { level: 6 }).length
      }
      return
    }
    case "xml":
    case "xlf": {
      const text = bytes.toString("utf8")
      parse(text)
      work += Buffer.from(text).length
      return
    }
    case "html": {
      const { Parser } = await import("htmlparser2")
      const parser = new Parser({
        ontext: () => {
          work++
        },
        onopentag: () => {
          work++
        }
      })
      parser.write(bytes.toString("utf8"))
      parser.end()
      return
    }
    case "json":
      work += JSON.stringify(JSON.parse(bytes.toString("utf8"))).length
      return
    case "seal": {
      const key = randomBytes(32)
      for (let at = 0; at < bytes.length; at += 65_536) {
        const cipher = createCipheriv("aes-256-gcm", key, randomBytes(12))
        work +=
          cipher.update(bytes.subarray(at, at + 65_536)).length +
          cipher.final().length +
          cipher.getAuthTag().length
      }
      return
    }
    default:
      work += Buffer.from(bytes.toString("utf8").split("\n").join("\n")).length
  }
}

const type = documentTypeOf(format)

const ours = async (): Promise<void> => {
  if (format === "seal") {
    const id = newDocumentId()
    for await (const part of sealing([bytes], keysOf(newDocumentKey(), id)!, "source")) work += part.length
    return
  }
  const extraction = await (
    await type!.load()
  ).extract(Buffer.from(bytes), { target: "de", charactersMax: 1e9 })
  if (extraction.segments.length < n / 2) throw new Error("segments are missing")
  const again = await extraction.rebuild((id) => extraction.segments[id]!.text)
  if (format !== "xlf" && !Buffer.from(again).equals(bytes)) throw new Error("identity does not hold")
  work += again.length
}

const run = candidate === "ours" ? ours : least
const rounds = Number(scale) < 0.5 ? 1 : 5
await run()
const times: Array<number> = []

for (let i = 0; i < rounds; i++) {
  const startedMs = performance.now()
  await run()
  times.push(performance.now() - startedMs)
}

console.log(
  JSON.stringify({
    value: Math.round(times.sort((a, b) => a - b)[rounds >> 1]! * 100) / 100,
    extra: `${(bytes.length / 1_048_576).toFixed(1)} MiB, work ${work}`
  })
)
