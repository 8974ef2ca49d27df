/** XML: text nodes are translated, and an outline of the document tells block elements from inline ones;
 *  attributes, comments and declarations are unchanged. DITA is built on this module.
 *  Source: docs/spec/documents.md, sections 5.10, 5.12, 7.3; ITS 2.0 local attributes. */
import { BadDocument, type Extraction, type ExtractOptions, type Format } from "./document.ts"
import { decodeXml, encodeXml } from "./encoding.ts"
import { Builder, hasWords, replace, Segments, spliced, type Edit, type Writing } from "./splice.ts"
import { escapeXml, textRuns, XmlScanner } from "./xml-scan.ts"

export type Role = "block" | "inline" | "lock" | "skip" | "own"

/** Rules of an XML vocabulary. An `own` element is a separate segment inside another, which has a point in
 *  its place. `keep` makes white space significant. */
export interface Dialect {
  readonly roleOf: (name: string) => Role
  readonly preserves?: (name: string) => boolean
  /** Write the target language to `xml:lang` of the root. */
  readonly setsLanguage?: boolean
  readonly checkRoot?: (name: string) => void
}

const cdataEscape = (text: string): string => text.replaceAll("]]>", "]]]]><![CDATA[>")
const writing: Writing = { escape: escapeXml, collapse: true }
const preserving: Writing = { escape: escapeXml }
const inCdata: Writing = { escape: cdataEscape }

/** Settings of one element, which its descendants inherit. */
interface Frame {
  readonly name: string
  readonly role: Role
  readonly locked: boolean
  readonly preserve: boolean
  readonly builder: Builder | undefined
  readonly from: number
}

/** Roles by the value of `its:withinText`, which overrides the dialect; `translate` overrides the parent
 *  (ITS 2.0). */
const itsRoles = new Map<string | undefined, Role>([
  ["yes", "inline"],
  ["no", "block"],
  ["nested", "own"]
])

const lockedBy = new Map<string | undefined, boolean>([
  ["no", true],
  ["yes", false]
])

export const extractXml = (
  text: string,
  dialect: Dialect,
  options: ExtractOptions,
  segments: Segments,
  edits: Array<Edit>
): void => {
  const scan = new XmlScanner(text)
  const frames: Array<Frame> = []
  let builder = new Builder()
  let rooted = false
  const flush = (preserve: boolean): void => {
    if (builder.empty) return
    if (builder.hasText) segments.add(builder, preserve ? preserving : writing)
    builder = new Builder()
  }
  while (scan.next()) {
    const top = frames.at(-1)
    switch (scan.kind) {
      case "text":
        if (top === undefined || top.role === "skip") break
        if (top.locked) {
          if (!builder.empty || hasWords(scan.raw)) lockText(builder, scan)
          break
        }
        textRuns(
          scan.raw,
          scan.from,
          (words, from, to) => builder.text(words, from, to),
          (from, to) => builder.point(from, to)
        )
        break
      case "cdata":
        if (top === undefined || top.role === "skip") break
        if (top.locked) {
          builder.point(scan.from, scan.to, undefined, true)
          break
        }
        if (builder.hasText) builder.point(scan.from, scan.to, undefined, true)
        else {
          flush(top.preserve)
          const own = new Builder()
          own.text(text.slice(scan.from + 9, scan.to - 3), scan.from + 9, scan.to - 3)
          segments.add(own, inCdata)
        }
        break
      case "comment":
      case "pi":
        if (!builder.empty) builder.point(scan.from, scan.to)
        break
      case "open":
      case "empty": {
        if (!rooted) {
          rooted = true
          dialect.checkRoot?.(scan.name)
          const lang =
            dialect.setsLanguage === true
              ? scan.attributes().find(({ name }) => name === "xml:lang")
              : undefined
          if (lang !== undefined && lang.value !== options.target)
            edits.push(replace(lang.from, lang.to, options.target))
        }
        const asked = scan.local("translate")
        const within = scan.attribute("its:withinText")
        const role = top?.role === "skip" ? "skip" : (itsRoles.get(within) ?? dialect.roleOf(scan.name))
        const locked = lockedBy.get(asked) ?? (top?.locked === true || role === "lock")
        const space = scan.attribute("xml:space")
        const preserve =
          space === "preserve" ||
          (space !== "default" && (top?.preserve === true || dialect.preserves?.(scan.name) === true))
        if (role === "skip") {
          if (!builder.empty) builder.point(scan.from, scan.to)
          if (scan.kind === "open")
            frames.push({ name: scan.name, role, locked, preserve, builder: undefined, from: scan.from })
          break
        }
        if (role === "block") {
          if (scan.kind === "empty") {
            flush(preserve)
            break
          }
          flush(top?.preserve === true)
          frames.push({ name: scan.name, role, locked, preserve, builder: undefined, from: scan.from })
          break
        }
        if (scan.kind === "empty") {
          builder.point(scan.from, scan.to)
          break
        }
        if (role === "own") {
          frames.push({ name: scan.name, role, locked, preserve, builder, from: scan.from })
          builder = new Builder()
          break
        }
        if (locked && top?.locked !== true) {
          const from = scan.from
          scan.skip()
          builder.point(from, scan.to, undefined, true)
          break
        }
        builder.start(scan.from, scan.to)
        frames.push({ name: scan.name, role, locked, preserve, builder: undefined, from: scan.from })
        break
      }
      case "close": {
        const frame = frames.pop()!
        if (frame.role === "skip") {
          if (!builder.empty) builder.point(scan.from, scan.to)
        } else if (frame.role === "block") flush(frame.preserve)
        else if (frame.role === "own") {
          flush(frame.preserve)
          builder = frame.builder!
          builder.point(frame.from, scan.to)
        } else if (builder.depth > 0) builder.end(scan.from, scan.to)
        else builder.point(scan.from, scan.to)
        break
      }
      case "doctype":
        break
    }
  }
}

const lockText = (builder: Builder, scan: XmlScanner): void =>
  builder.point(scan.from, scan.to, undefined, true)

const visible = /\S/

/** Decides whether an element is structural, block or inline: by the majority of its occurrences in the
 *  document. */
export const outlineOf = (text: string): ((name: string) => Role) => {
  interface Count {
    inStructure: number
    inText: number
    structural: number
    text: number
  }
  interface Open {
    readonly count: Count
    words: boolean
    /** Counts of the child elements, whose role is known only at the end tag. */
    inner: Array<Count> | undefined
  }
  const counts = new Map<string, Count>()
  const stack: Array<Open> = []
  const countOf = (name: string): Count => {
    let count = counts.get(name)
    if (count === undefined) counts.set(name, (count = { inStructure: 0, inText: 0, structural: 0, text: 0 }))
    return count
  }
  const settle = (open: Open): void => {
    const { count, words, inner } = open
    if (words) count.text++
    else if (inner !== undefined && inner.length > 0) count.structural++
    if (inner === undefined) return
    for (const one of inner)
      if (words) one.inText++
      else one.inStructure++
  }
  const scan = new XmlScanner(text)
  while (scan.next()) {
    const top = stack.length > 0 ? stack[stack.length - 1] : undefined
    if (scan.kind === "open" || scan.kind === "empty") {
      const count = countOf(scan.name)
      if (top !== undefined) (top.inner ??= []).push(count)
      if (scan.kind === "open") stack.push({ count, words: false, inner: undefined })
    } else if (scan.kind === "close") settle(stack.pop()!)
    else if (
      top !== undefined &&
      !top.words &&
      (scan.kind === "text" || scan.kind === "cdata") &&
      visible.test(scan.raw)
    )
      top.words = true
  }
  return (name) => {
    const count = counts.get(name)
    return count === undefined || count.inText > count.inStructure ? "inline" : "block"
  }
}

const roleOfOutline = (text: string): Dialect => ({ roleOf: outlineOf(text) })

export const xmlDocument = (
  bytes: Buffer,
  options: ExtractOptions,
  dialectOf: (text: string) => Dialect
): Extraction => {
  const file = decodeXml(bytes)
  const segments = new Segments(options)
  const edits: Array<Edit> = []
  extractXml(file.text, dialectOf(file.text), options, segments, edits)
  return {
    segments: segments.list,
    characters: segments.characters,
    warnings: [],
    rebuild: (translated) => {
      const translatedText = spliced(file.text, segments.placed, translated)
      if (translatedText === file.text) return bytes
      return encodeXml(
        edits.length === 0 ? translatedText : spliced(file.text, segments.placed, translated, edits),
        file
      )
    }
  }
}

export const xml: Format = {
  id: "xml",
  extensions: ["xml"],
  mime: "application/xml",
  inspect: (bytes) => {
    if (bytes.length === 0) throw new BadDocument("empty")
  },
  extract: (bytes, options) => xmlDocument(bytes, options, roleOfOutline)
}
