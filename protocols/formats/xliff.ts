/** XLIFF 1.2, 2.0 and 2.1: `source` is read, and `target` is written with the codes of the source;
 *  alternatives, notes and modules are unchanged.
 *  Source: docs/spec/documents.md, section 5.7; OASIS XLIFF 1.2, 2.0, 2.1. */
import { BadDocument, type ExtractOptions, type Format } from "./document.ts"
import { decodeXml, encodeXml } from "./encoding.ts"
import {
  Builder,
  editsOf,
  replace,
  Segments,
  splice,
  type Edit,
  type Placed,
  type Writing
} from "./splice.ts"
import { escapeAttribute, escapeXml, textRuns, XmlScanner } from "./xml-scan.ts"

interface Range {
  readonly from: number
  readonly to: number
}

/** Positions of an element: the whole, its content, and its start tag. */
interface Element extends Range {
  readonly tag: Range
  readonly inner: Range
  readonly empty: boolean
}

interface Unit {
  source: Element | undefined
  segmented: Element | undefined
  target: Element | undefined
  readonly tag: Range
  readonly translate: boolean
  /** The content is copied to the target without translation. */
  readonly ignorable: boolean
}

const writing: Writing = { escape: escapeXml }
const inlinePoints = new Set(["x", "ph", "it", "bx", "ex", "cp", "sm", "em"])
const local = (name: string): string => name.slice(name.indexOf(":") + 1)

const majorOf = (text: string): 1 | 2 => {
  const root = /<(?:[\w.-]+:)?xliff\b[^>]*>/.exec(
    text.includes("<!--") ? text.replace(/<!--[\s\S]*?-->/g, (comment) => " ".repeat(comment.length)) : text
  )?.[0]
  if (root === undefined) throw new BadDocument("not an XLIFF file")
  const version = /\sversion\s*=\s*["']([^"']*)["']/.exec(root)?.[1]
  if (version === "1.2" || version === "1.1" || version === "1.0") return 1
  if (version === "2.0" || version === "2.1") return 2
  throw new BadDocument("unsupported XLIFF version")
}

/** Reads the content of one source or segment, and of the sub-flows inside its codes. */
const inline = (text: string, { from, to }: Range, segments: Segments): void => {
  if (text.indexOf("<", from) === to) {
    // The usual case is text alone, up to its end tag.
    const builder = new Builder()
    textRuns(
      text.slice(from, to),
      from,
      (words, a, b) => builder.text(words, a, b),
      (a, b) => builder.point(a, b)
    )
    segments.add(builder, writing)
    return
  }
  const scan = new XmlScanner(text.slice(from, to), { fragment: true })
  const builder = new Builder()
  const pairs: Array<string> = []
  while (scan.next()) {
    const at = from + scan.from
    const end = from + scan.to
    const name = local(scan.name)
    switch (scan.kind) {
      case "text":
        textRuns(
          scan.raw,
          at,
          (words, a, b) => builder.text(words, a, b),
          (a, b) => builder.point(a, b)
        )
        break
      case "cdata":
        builder.text(scan.raw.slice(9, -3), at, end)
        break
      case "comment":
      case "pi":
        builder.point(at, end)
        break
      case "empty":
        if (name === "sc") {
          pairs.push(scan.local("id") ?? "")
          builder.start(at, end, { needed: true })
        } else if (name === "ec" && pairs.length > 0 && pairs.at(-1) === scan.local("startRef")) {
          pairs.pop()
          builder.end(at, end)
        } else builder.point(at, end)
        break
      case "open": {
        if (name === "g" || name === "pc" || (name === "mrk" && scan.local("translate") !== "no")) {
          pairs.push(`<${name}`)
          builder.start(at, end, { needed: true })
          break
        }
        const id = scan.local("rid") ?? scan.local("id") ?? ""
        const openAt = scan.from
        if (name === "mrk") {
          scan.skip()
          builder.point(from + openAt, from + scan.to, undefined, true)
          break
        }
        const subs: Array<Range> = []
        for (const depth = scan.depth; scan.depth >= depth && scan.next();) {
          if (scan.kind === "open" && local(scan.name) === "sub") {
            const subAt = scan.to
            scan.skip()
            subs.push({ from: from + subAt, to: from + scan.from })
          }
        }
        const whole = [from + openAt, from + scan.to] as const
        if (name === "bpt") {
          pairs.push(id)
          builder.start(...whole, { needed: true })
        } else if (name === "ept" && pairs.at(-1) === id) {
          pairs.pop()
          builder.end(...whole)
        } else builder.point(...whole, undefined, !inlinePoints.has(name) && name !== "ept")
        for (const sub of subs) inline(text, sub, segments)
        break
      }
      case "close":
        if (pairs.at(-1)?.startsWith("<") === true) {
          pairs.pop()
          builder.end(at, end)
        } else builder.point(at, end)
        break
      case "doctype":
        break
    }
  }
  segments.add(builder, writing)
}

/** Lists the parts of a segmented source, which are translated one by one. */
const markedSegments = (text: string, { from, to }: Range): ReadonlyArray<Range> => {
  const scan = new XmlScanner(text.slice(from, to), { fragment: true })
  const found: Array<Range> = []
  while (scan.next()) {
    if (scan.kind !== "open" || local(scan.name) !== "mrk" || scan.local("mtype") !== "seg") continue
    const at = scan.to
    scan.skip()
    found.push({ from: from + at, to: from + scan.from })
  }
  return found
}

/** Reads all units; `language` is called with the tags that state the target language. */
const unitsOf = (
  text: string,
  major: 1 | 2,
  language: (tag: string, from: number, to: number) => void
): ReadonlyArray<Unit> => {
  const scan = new XmlScanner(text)
  const units: Array<Unit> = []
  const inherited: Array<boolean> = []
  const speaks = major === 1 ? "file" : "xliff"
  let unit: Unit | undefined
  let unitDepth = 0
  const element = (): Element => {
    const tag = { from: scan.from, to: scan.to }
    const empty = scan.kind === "empty"
    scan.skip()
    return {
      from: tag.from,
      to: scan.to,
      tag,
      inner: empty ? { from: tag.to, to: tag.to } : { from: tag.to, to: scan.from },
      empty
    }
  }
  while (scan.next()) {
    const name = local(scan.name)
    if (scan.kind === "close") {
      if (unit !== undefined && scan.depth < unitDepth) unit = undefined
      inherited.pop()
      continue
    }
    if (scan.kind !== "open" && scan.kind !== "empty") continue
    if (unit !== undefined) {
      if (name === "source") {
        unit.source = element()
        continue
      }
      if (name === "seg-source") {
        unit.segmented = element()
        continue
      }
      if (name === "target") {
        unit.target = element()
        continue
      }
      if (scan.kind === "open") scan.skip()
      continue
    }
    if (name === "alt-trans" || name === "matches" || name === "glossary") {
      scan.skip()
      continue
    }
    if (name === speaks) language(scan.raw, scan.from, scan.to)
    const translateAttribute = scan.local("translate")
    const translate = isTranslated(translateAttribute, inherited.at(-1) ?? true)
    if (scan.kind === "empty") continue
    inherited.push(translate)
    if (name === (major === 1 ? "trans-unit" : "segment") || (major === 2 && name === "ignorable")) {
      unit = {
        source: undefined,
        segmented: undefined,
        target: undefined,
        tag: { from: scan.from, to: scan.to },
        translate,
        ignorable: name === "ignorable"
      }
      unitDepth = scan.depth
      units.push(unit)
    }
  }
  return units
}

const isTranslated = (attribute: string | undefined, inherited: boolean): boolean => {
  if (attribute === "no") return false
  return attribute === "yes" ? true : inherited
}

const patterns = new Map<string, RegExp>()

/** Pattern of an attribute; it is cached, as only a few names are used. */
const attributePattern = (name: string): RegExp => {
  let pattern = patterns.get(name)
  if (pattern === undefined)
    patterns.set(name, (pattern = new RegExp(`(\\s${name}\\s*=\\s*)(?:"[^"]*"|'[^']*')`)))
  return pattern
}

const withAttribute = (tag: string, name: string, value: string): string => {
  const had = attributePattern(name)
  return had.test(tag)
    ? tag.replace(had, `$1"${escapeAttribute(value)}"`)
    : tag.replace(/\s*(\/?)>$/, ` ${name}="${escapeAttribute(value)}"$1>`)
}

const withoutAttribute = (tag: string, name: string): string => tag.replace(attributePattern(name), "")

/** XLIFF 1: removes `approved`, because nobody has approved a machine translation. */
const notApproved = (tag: string): string =>
  tag.includes("approved") && /\sapproved\s*=\s*["']yes["']/.test(tag)
    ? withAttribute(tag, "approved", "no")
    : tag

class Reading {
  readonly segments: Segments
  private readonly text: string
  private readonly major: 1 | 2
  private readonly languages: Array<Edit> = []
  private readonly units: ReadonlyArray<{ readonly unit: Unit; readonly placed: ReadonlyArray<Placed> }>

  constructor(text: string, options: ExtractOptions) {
    this.text = text
    this.major = majorOf(text)
    this.segments = new Segments(options)
    const attribute = this.major === 1 ? "target-language" : "trgLang"
    const units: Array<{ readonly unit: Unit; readonly placed: ReadonlyArray<Placed> }> = (this.units = [])
    for (const unit of unitsOf(text, this.major, (tag, from, to) => {
      const changed = withAttribute(tag, attribute, options.target)
      if (changed !== tag) this.languages.push(replace(from, to, changed))
    })) {
      if (unit.source === undefined || !unit.translate) continue
      const before = this.segments.placed.length
      if (!unit.ignorable) {
        const parts = unit.segmented === undefined ? [] : markedSegments(text, unit.segmented.inner)
        for (const part of parts.length > 0 ? parts : [unit.source.inner]) inline(text, part, this.segments)
      }
      units.push({ unit, placed: this.segments.placed.slice(before) })
    }
  }

  write(translated: (id: number) => string | undefined): string {
    const edits: Array<Edit> = [...this.languages]
    for (const { unit, placed } of this.units) {
      const unitEdits: Array<Edit> = []
      for (const one of placed) unitEdits.push(...editsOf(one, translated(one.segment.id)))
      const { inner } = unit.segmented ?? unit.source!
      this.unit(unit, splice(this.text, unitEdits, inner.from, inner.to), edits)
    }
    return splice(this.text, edits)
  }

  /** XLIFF 2: sets the state of a segment to translated; an ignorable has no state. */
  private stateOf(unit: Unit, tag: string): string {
    if (unit.ignorable) return tag
    return withoutAttribute(withAttribute(tag, "state", "translated"), "subState")
  }

  private unit(unit: Unit, content: string, edits: Array<Edit>): void {
    const { text, major } = this
    const { source, target, segmented, tag } = unit
    const raw = text.slice(tag.from, tag.to)
    const changed = major === 1 ? notApproved(raw) : this.stateOf(unit, raw)
    if (changed !== raw) edits.push(replace(tag.from, tag.to, changed))
    if (target !== undefined) {
      const was = text.slice(target.tag.from, target.tag.to)
      let opening = was
      if (major === 1 && /\sstate\s*=/.test(was))
        opening = withoutAttribute(withAttribute(was, "state", "translated"), "state-qualifier")
      if (target.empty)
        edits.push(
          replace(
            target.from,
            target.to,
            `${opening.replace(/\s*\/>$/, ">")}${content}</${/^<([^\s/>]+)/.exec(was)![1]!}>`
          )
        )
      else {
        if (opening !== was) edits.push(replace(target.tag.from, target.tag.to, opening))
        edits.push(replace(target.inner.from, target.inner.to, content))
      }
      return
    }
    const after = segmented ?? source!
    const opening = text.slice(source!.tag.from, source!.tag.to)
    const name =
      opening === "<source>" ? "target" : /^<([^\s/>]+)/.exec(opening)![1]!.replace(/source$/, "target")
    const indent = text.slice(indentAt(text, after.from), after.from)
    const space = major === 2 ? (/\sxml:space\s*=\s*(?:"[^"]*"|'[^']*')/.exec(opening)?.[0] ?? "") : ""
    edits.push(replace(after.to, after.to, `${indent}<${name}${space}>${content}</${name}>`))
  }
}

/** Offset at which the indentation before an element starts, including its line end; the search backwards is
 *  bounded. */
const indentAt = (text: string, from: number): number => {
  const first = Math.max(0, from - 200)
  let at = from
  while (at > first && (text.charCodeAt(at - 1) === 32 || text.charCodeAt(at - 1) === 9)) at--
  if (at > first && text.charCodeAt(at - 1) === 10)
    return at - 1 > first && text.charCodeAt(at - 2) === 13 ? at - 2 : at - 1
  return at > first && text.charCodeAt(at - 1) === 13 ? at - 1 : at
}

export const xliff: Format = {
  id: "xliff",
  extensions: ["xlf", "xliff"],
  mime: "application/xliff+xml",
  inspect: (bytes) => {
    if (bytes.length === 0) throw new BadDocument("empty")
    majorOf(decodeXml(bytes).text.slice(0, 65_536))
  },
  extract: (bytes, options) => {
    const file = decodeXml(bytes)
    const reading = new Reading(file.text, options)
    return {
      segments: reading.segments.list,
      characters: reading.segments.characters,
      warnings: [],
      rebuild: (translated) => encodeXml(reading.write(translated), file)
    }
  }
}
