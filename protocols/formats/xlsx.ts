/** Excel: shared and inline strings, comments, headers, prompts, and texts of drawings and charts are
 *  translated. Formulas, numbers, names and the header cells of tables are not, because formulas refer to
 *  them. Sheets without inline strings are not parsed.
 *  Source: docs/spec/documents.md, section 5.3. */
import type { Format } from "./document.ts"
import { contentTypesOf, inspectOffice, PackageReading } from "./office-package.ts"
import { readOfficeText } from "./office-paragraphs.ts"
import { Builder, type Segments } from "./splice.ts"
import { attributesOf, escapeAttribute, escapeXml, decodeReferences } from "./xml-scan.ts"
import { openPackage, type Zip } from "./zip.ts"
import { plainOf } from "./marks.ts"

const main = /spreadsheetml\.(?:sheet|template)\.main\+xml$/
const strings = /spreadsheetml\.sharedStrings\+xml$/
const sheets = /spreadsheetml\.(?:worksheet|chartsheet|dialogsheet)\+xml$/
const comments = /spreadsheetml\.comments\+xml$/
const drawings = /drawing\+xml$|drawingml\.chart\+xml$|drawingml\.diagramData\+xml$/
const tables = /spreadsheetml\.table\+xml$/
const cellCharsMax = 32_767
const headerCode = /&(?:[LCRPNDTZFGAUSEXYBIOH&]|"[^"]*"|\d{1,3}|K[0-9A-Fa-f]{6})/g
const prompts = new Set(["promptTitle", "prompt", "errorTitle", "error"])

/** Finds the byte offsets of an element that occurs once in a sheet, without parsing the sheet. */
const windowOf = (
  bytes: Buffer,
  name: string
): { readonly from: number; readonly to: number } | undefined => {
  const at = bytes.lastIndexOf(`${name}>`)
  const from = bytes.indexOf(name)
  if (from < 0 || at <= from) return undefined
  const open = bytes.lastIndexOf("<", from)
  return bytes[open + 1] === 47 ? undefined : { from: open, to: at + name.length + 1 }
}

const headers = (text: string, segments: Segments): void => {
  for (const found of text.matchAll(
    /<((?:\w+:)?(?:odd|even|first)(?:Header|Footer))\b[^>]*>([^<]*)<\/\1>/g
  )) {
    const raw = found[2]!
    const at = found.index + found[0].indexOf(">") + 1
    // Header codes are written with &amp; in the source, so the pieces between them are taken from the raw
    // text.
    let from = 0
    const builder = new Builder()
    const words = (to: number): void => {
      if (to > from) builder.text(decodeReferences(raw.slice(from, to)), at + from, at + to)
    }
    for (const code of raw.matchAll(
      /&amp;(?:[LCRPNDTZFGAUSEXYBIOH]|&quot;.*?&quot;|"[^"]*"|\d{1,3}|K[0-9A-Fa-f]{6}|&amp;)/g
    )) {
      words(code.index)
      from = code.index + code[0].length
      builder.point(at + code.index, at + from)
    }
    words(raw.length)
    segments.add(builder, {
      escape: (translation) =>
        escapeXml(translation.replace(headerCode, "")).replaceAll("&amp;", "&amp;&amp;"),
      fixed: true
    })
  }
}

const validations = (text: string, segments: Segments): void => {
  for (const tag of text.matchAll(/<(?:\w+:)?dataValidation\s[^>]*>/g))
    for (const { name, value, from, to } of attributesOf(tag[0])) {
      if (!prompts.has(name) || value === "") continue
      const builder = new Builder()
      builder.text(value, tag.index + from, tag.index + to)
      segments.add(builder, {
        escape: (translation) => escapeAttribute(translation.slice(0, name.endsWith("Title") ? 32 : 255))
      })
    }
}

const columnNames = (zip: Zip, parts: ReadonlyArray<string>): ReadonlySet<string> => {
  const found = new Set<string>()
  for (const part of parts)
    for (const tag of zip
      .part(part)
      ?.toString("utf8")
      .matchAll(/<(?:\w+:)?tableColumn\s[^>]*>/g) ?? []) {
      const name = attributesOf(tag[0]).find((one) => one.name === "name")?.value
      if (name !== undefined) found.add(name.replaceAll("_x000a_", "\n"))
    }
  return found
}

export const xlsx: Format = {
  id: "xlsx",
  extensions: ["xlsx"],
  mime: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
  inspect: (bytes) => inspectOffice(bytes, main, "not an Excel document"),
  extract: (bytes, options) => {
    const reading = new PackageReading(openPackage(bytes, "not an Excel document"), options)
    const types = [...contentTypesOf(reading.zip)!]
    const of = (kind: RegExp): ReadonlyArray<string> =>
      types.filter(([, type]) => kind.test(type)).map(([part]) => part)
    const tableColumns = columnNames(reading.zip, of(tables))
    const isTableColumn = (text: string): boolean => tableColumns.has(text)
    for (const part of of(strings))
      reading.part(part, (text, segments) => readOfficeText(text, segments, { part, keeps: isTableColumn }))
    for (const part of of(sheets)) {
      const sheet = reading.zip.part(part)
      if (sheet === undefined) continue
      // One window at a time, in file order.
      if (sheet.includes("inlineStr"))
        reading.part(part, (text, segments) => {
          readOfficeText(text, segments, { part, keeps: isTableColumn })
          headers(text, segments)
          validations(text, segments)
        })
      else
        for (const [name, read] of [
          ["dataValidations", validations],
          ["headerFooter", headers]
        ] as const) {
          const window = windowOf(sheet, name)
          if (window !== undefined) reading.part(part, read, window)
        }
    }
    for (const part of of(comments))
      reading.part(part, (text, segments) => readOfficeText(text, segments, { part }))
    for (const part of of(drawings))
      reading.part(part, (text, segments) => readOfficeText(text, segments, { part, altTexts: true }))
    return reading.done({
      accept: (text) => {
        if (plainOf(text).length <= cellCharsMax) return true
        if (!reading.warnings.includes(tooLong)) reading.warnings.push(tooLong)
        return false
      }
    })
  }
}

const tooLong = "a translation is longer than a cell may be; its source was kept"
