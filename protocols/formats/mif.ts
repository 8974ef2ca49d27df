/** FrameMaker interchange format: strings of paragraphs, notes and table cells, index markers and variables
 *  are translated; every statement stays at its place.
 *  Source: docs/spec/documents.md, section 5.13; MIF reference. */
import { BadDocument, type Format } from "./document.ts"
import { decodePlain, encodePlain } from "./encoding.ts"
import { Builder, Segments, spliced, type Writing } from "./splice.ts"

interface Statement {
  readonly name: string
  readonly from: number
  readonly at: number
}

const escapes: Readonly<Record<string, string>> = {
  "\\\\": "\\",
  "\\>": ">",
  "\\t": "\t",
  "\\q": "'",
  "\\Q": "`"
}

const escape = /\\(?:[\\>tqQ]|x([0-9A-Fa-f]{2}) |u([0-9A-Fa-f]{4}))/g

/** Decodes FrameMaker's escapes. It returns undefined for a special character (a hexadecimal escape) or an
 *  escape that it cannot read; such text becomes a code and is written back as it is. */
const decoded = (raw: string): string | undefined => {
  let odd = false
  const text = raw.replace(escape, (whole, hex: string | undefined, wide: string | undefined) => {
    if (hex !== undefined) {
      odd = true
      return whole
    }
    return wide !== undefined ? String.fromCharCode(Number.parseInt(wide, 16)) : escapes[whole]!
  })
  return odd || /\\(?![\\>tqQu])/.test(raw) || /\\u(?![0-9A-Fa-f]{4})/.test(raw) ? undefined : text
}

const escapeOf: Readonly<Record<string, string>> = {
  "\\": "\\\\",
  ">": "\\>",
  "`": "\\Q",
  "'": "\\q",
  "\t": "\\t"
}

const encoded = (text: string): string =>
  text.replace(/[\\>`'\t]/g, (char) => escapeOf[char]!).replace(/[\r\n]+/g, " ")

const writing: Writing = { escape: encoded, fixed: true }
const block = /\\?<\$[^<>\\]{1,100}\\?>/g

export const mif: Format = {
  id: "mif",
  extensions: ["mif"],
  mime: "application/vnd.mif",
  inspect: (bytes) => {
    if (bytes.length === 0) throw new BadDocument("empty")
    const head = bytes.toString("latin1", 0, 4_096)
    const version = /^\s*(?:#[^\n]*\n\s*)*<MIFFile\s+([\d.]+)\s*>/.exec(
      head.replace(/^\u00EF\u00BB\u00BF/, "")
    )?.[1]
    if (version === undefined) throw new BadDocument("not a MIF file")
    if (Number(version) < 8) throw new BadDocument("MIF 8 or newer")
  },
  extract: (bytes, options) => {
    const file = decodePlain(bytes)
    const segments = new Segments(options)
    read(file.text, segments)
    return {
      segments: segments.list,
      characters: segments.characters,
      warnings: [],
      rebuild: (translated) => {
        const text = spliced(file.text, segments.placed, translated)
        return text === file.text ? bytes : encodePlain(text, file)
      }
    }
  }
}

const read = (text: string, segments: Segments): void => {
  const stack: Array<Statement> = []
  const saved: Array<Builder> = []
  let builder = new Builder()
  let xrefFrom = -1
  const damaged = (at: number): never => {
    throw new BadDocument("damaged document", `offset ${at}`)
  }
  const within = (name: string): boolean => stack.some((one) => one.name === name)
  const string = (from: number, to: number): void => {
    const top = stack.at(-1)?.name
    const raw = text.slice(from, to)
    if (top === "String" && stack.at(-2)?.name === "ParaLine" && within("Para")) {
      if (xrefFrom >= 0) return
      const words = decoded(raw)
      if (words === undefined) builder.point(from, to, undefined, true)
      else builder.text(words, from, to)
    } else if (
      (top === "MText" &&
        /<MTypeName `(?:Index|Subject|Author)'/.test(text.slice(stack.at(-2)!.from, to + 1_000))) ||
      top === "VariableDef" ||
      top === "XRefDef"
    )
      pieces(segments, raw, from, top === "MText" ? /[:;]/g : block)
  }
  for (let at = 0; at < text.length;) {
    const code = text.charCodeAt(at)
    if (code === 60) {
      const name = /^<\s*([A-Za-z]\w*)/.exec(text.slice(at, at + 100))
      if (name === null) damaged(at)
      stack.push({ name: name![1]!, from: at, at: at + name![0].length })
      at += name![0].length
      if (stack.at(-1)!.name === "Para") {
        saved.push(builder)
        builder = new Builder()
      }
    } else if (code === 62) {
      const closed = stack.pop()
      if (closed === undefined) damaged(at)
      at++
      ended(closed!, at)
    } else if (code === 96) {
      const end = text.indexOf("'", at + 1)
      if (end < 0) damaged(at)
      string(at + 1, end)
      at = end + 1
    } else if (code === 35 || (code === 38 && (at === 0 || text[at - 1] === "\n"))) {
      const end = text.indexOf("\n", at)
      at = end < 0 ? text.length : end + 1
    } else at++
  }
  if (stack.length > 0) damaged(stack.at(-1)!.from)

  function ended({ name, from }: Statement, to: number): void {
    const parent = stack.at(-1)?.name
    if (name === "Para") {
      if (builder.hasText) segments.add(builder, writing)
      builder = saved.pop()!
      return
    }
    if (parent !== "ParaLine") return
    if (name === "XRef") xrefFrom = from
    else if (name === "XRefEnd" && xrefFrom >= 0) {
      builder.point(xrefFrom, to, undefined, true)
      xrefFrom = -1
    } else if (
      xrefFrom < 0 &&
      name !== "String" &&
      name !== "TextRectID" &&
      name !== "ElementBegin" &&
      name !== "ElementEnd" &&
      !(name === "Char" && /^<Char\s+SoftHyphen/.test(text.slice(from, to)))
    )
      builder.point(from, to, undefined, name === "Variable" || name === "Char")
  }
}

/** Adds a string whose parts are divided by separators or building blocks, which are written back
 *  unchanged. */
const pieces = (segments: Segments, raw: string, at: number, between: RegExp): void => {
  const builder = new Builder()
  let from = 0
  const words = (to: number): void => {
    if (to === from) return
    const text = decoded(raw.slice(from, to))
    if (text === undefined) builder.point(at + from, at + to, undefined, true)
    else builder.text(text, at + from, at + to)
  }
  for (const found of raw.matchAll(between)) {
    words(found.index)
    from = found.index + found[0].length
    builder.point(at + found.index, at + from)
  }
  words(raw.length)
  segments.add(builder, writing)
}
