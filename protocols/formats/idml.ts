/** InDesign packages: the text of stories by paragraph. Character styles are pairs, line breaks end
 *  paragraphs, and everything else is written back unchanged.
 *  Source: docs/spec/documents.md, section 5.9; IDML specification. */
import { BadDocument, type Format } from "./document.ts"
import { PackageReading } from "./office-package.ts"
import { Builder, type Segments, type Writing } from "./splice.ts"
import { decodeXml } from "./encoding.ts"
import { escapeXml, textRuns, XmlScanner } from "./xml-scan.ts"
import { openPackage } from "./zip.ts"

const writing: Writing = { escape: escapeXml, fixed: true }
const forced = /[\u2028\u00AD\u0003\u0008\uFEFF]/g

/** Elements that contain paragraphs of their own inside a paragraph. */
const nested = new Set([
  "Table",
  "Footnote",
  "Endnote",
  "Note",
  "Rectangle",
  "TextFrame",
  "Group",
  "Oval",
  "Polygon",
  "GraphicLine"
])

interface Open {
  readonly builder: Builder
  readonly base: string | undefined
  readonly current: string | undefined
  readonly from: number
  readonly depth: number
}

const readStory = (text: string, segments: Segments, part: string): void => {
  const scan = new XmlScanner(text, { part })
  const outer: Array<Open> = []
  let builder = new Builder()
  let base: string | undefined
  let current: string | undefined
  let style = ""
  const flush = (): void => {
    if (current !== base && builder.depth > 0) builder.end(scan.from, scan.from)
    if (builder.hasText) segments.add(builder, writing)
    builder = new Builder()
    base = current = undefined
  }
  /** Treats the first character style that has words as the paragraph's own style, so that it needs no
   *  pair. */
  const turn = (at: number): void => {
    base ??= style
    current ??= base
    if (style === current) return
    if (current !== base) builder.end(at, at)
    if (style !== base) builder.start(at, at, { needed: true })
    current = style
  }
  const words = (found: string, from: number, to: number): void => {
    if (found.trim() !== "") turn(from)
    if (!forced.test(found) || found.length !== to - from) {
      builder.text(found, from, to)
      return
    }
    let at = 0
    for (const one of found.matchAll(forced)) {
      if (one.index > at) builder.text(found.slice(at, one.index), from + at, from + one.index)
      builder.point(from + one.index, from + one.index + 1)
      at = one.index + 1
    }
    if (at < found.length) builder.text(found.slice(at), from + at, to)
  }
  while (scan.next()) {
    const { name, kind } = scan
    if (kind === "close") {
      if (name === "ParagraphStyleRange") flush()
      const open = outer.at(-1)
      if (open !== undefined && scan.depth < open.depth) {
        flush()
        outer.pop()
        ;({ builder, base, current } = open)
        builder.point(open.from, scan.to)
      }
      continue
    }
    if (kind !== "open" && kind !== "empty") continue
    if (name === "ParagraphStyleRange") flush()
    else if (name === "CharacterStyleRange") style = scan.raw
    else if (name === "Br") flush()
    else if (name === "Properties" || (name === "Change" && scan.local("ChangeType") === "DeletedText"))
      scan.skip()
    else if (name === "Content" && kind === "open") {
      for (const depth = scan.depth; scan.next() && scan.depth >= depth;) {
        if (scan.kind === "text") textRuns(scan.raw, scan.from, words, (from, to) => builder.point(from, to))
        else if (scan.kind === "cdata") builder.point(scan.from, scan.to, undefined, true)
        else builder.point(scan.from, scan.to)
      }
    } else if (nested.has(name) && kind === "open") {
      outer.push({ builder, base, current, from: scan.from, depth: scan.depth })
      builder = new Builder()
      base = current = undefined
    } else if (name === "TextVariableInstance" || name === "PageReference" || name === "XMLComment") {
      const from = scan.from
      scan.skip()
      builder.point(from, scan.to, undefined, name === "TextVariableInstance")
    }
  }
}

export const idml: Format = {
  id: "idml",
  extensions: ["idml"],
  mime: "application/vnd.adobe.indesign-idml-package",
  inspect: (bytes) => {
    const zip = openPackage(bytes, "not an IDML file")
    if (!zip.has("designmap.xml"))
      throw new BadDocument(
        zip.has("[Content_Types].xml") ? "the content does not match the file extension" : "not an IDML file"
      )
  },
  extract: (bytes, options) => {
    const zip = openPackage(bytes, "not an IDML file")
    const reading = new PackageReading(zip, options)
    const map = zip.part("designmap.xml")
    if (map === undefined) throw new BadDocument("not an IDML file")
    const { text } = decodeXml(map)
    const listed = [...text.matchAll(/<idPkg:Story\s[^>]*?src="([^"]+)"/g)].map(([, src]) => src!)
    // StoryList gives the reading order in packages that have it.
    const order =
      /\sStoryList="([^"]*)"/
        .exec(text)?.[1]
        ?.split(" ")
        .map((id) => `Stories/Story_${id}.xml`) ?? []
    for (const part of new Set([...order.filter((name) => listed.includes(name)), ...listed]))
      reading.part(part, (story, segments) => readStory(story, segments, part))
    return reading.done()
  }
}
