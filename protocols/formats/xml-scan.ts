/** XML scanner. Its tokens cover the whole input, with positions; a DOCTYPE is skipped and never
 *  interpreted, and no entity is expanded, so entity bombs and external entities have no effect. It checks
 *  nesting (without recursion), the single root, attributes and legal characters. Hot path (bench/documents):
 *  the current token is in fields of one object, so no object is allocated per token.
 *  Source: docs/spec/documents.md, section 3.2. */
import { BadDocument, limits } from "./document.ts"
import { legal } from "./splice.ts"

export type Kind = "text" | "cdata" | "comment" | "pi" | "doctype" | "open" | "close" | "empty"

export interface ScanOptions {
  /** Accept any number of roots, and text outside of them. */
  readonly fragment?: boolean
  readonly doctype?: "refused"
  /** Namespace addresses and the prefix under which their names are reported; without it names are reported
   *  as written. */
  readonly namespaces?: ReadonlyMap<string, string>
  readonly part?: string
}

const space = (code: number): boolean => code === 32 || code === 10 || code === 13 || code === 9

const nameStart = (code: number): boolean =>
  (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || code === 95 || code === 58 || code > 127

const nameEnd = (code: number): boolean => space(code) || code === 62 || code === 47 || code === 61
const illegalInXml = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\uFFFE\uFFFF]/

/** Returns whether an attribute occurs twice. A few names are compared with each other, many through a
 *  set. */
const doubled = (text: string, spans: ReadonlyArray<number>, count: number): boolean => {
  if (count > 8) {
    const names = new Set<string>()
    for (let i = 0; i < count; i++) names.add(text.slice(spans[2 * i], spans[2 * i + 1]))
    return names.size < count
  }
  for (let i = 1; i < count; i++) {
    const from = spans[2 * i]!
    const length = spans[2 * i + 1]! - from
    for (let j = 0; j < i; j++) {
      const other = spans[2 * j]!
      if (spans[2 * j + 1]! - other !== length) continue
      let k = 0
      while (k < length && text.charCodeAt(from + k) === text.charCodeAt(other + k)) k++
      if (k === length) return true
    }
  }
  return false
}

interface Scope {
  readonly depth: number
  readonly prefixes: ReadonlyMap<string, string>
  readonly names: Map<string, string>
}

export class XmlScanner {
  readonly text: string
  kind: Kind = "text"
  from = 0
  to = 0

  /** Element name of an open, close or empty token. */
  name = ""

  depth = 0
  private readonly options: ScanOptions

  /** Names of the open elements, as written and as reported. */
  private readonly stack: Array<string> = []

  private readonly told: Array<string> = []

  /** Attributes of the current open or empty tag: their number, and the offsets of their names. */
  private attributeCount = 0

  private readonly nameSpans: Array<number> = []
  private readonly scopes: Array<Scope> = []
  private rooted = false

  constructor(text: string, options: ScanOptions = {}) {
    this.text = text
    this.options = options
    if (illegalInXml.test(text)) this.fail(text.search(illegalInXml))
    if (options.namespaces !== undefined)
      this.scopes.push({ depth: 0, prefixes: new Map(), names: new Map() })
  }

  private where(at: number): string {
    return `${this.options.part === undefined ? "" : `${this.options.part} `}offset ${at}`
  }

  fail(at: number): never {
    throw new BadDocument("damaged document", this.where(at))
  }

  /** Moves to the next token. It returns false at the end of the input, and throws when an element is still
   *  open there. */
  next(): boolean {
    const { text } = this
    const from = (this.from = this.to)
    if (from >= text.length) {
      if (this.stack.length > 0 || (!this.rooted && this.options.fragment !== true)) this.fail(from)
      return false
    }
    if (text.charCodeAt(from) !== 60) {
      const end = text.indexOf("<", from)
      this.kind = "text"
      this.to = end < 0 ? text.length : end
      if (this.depth === 0 && this.options.fragment !== true && text.slice(from, this.to).trim() !== "")
        this.fail(from)
      return true
    }
    const code = text.charCodeAt(from + 1)
    if (code === 47) return this.close(from)
    if (code === 33) return this.declaration(from)
    if (code === 63) return this.until("pi", "?>", from + 2)
    if (!nameStart(code)) this.fail(from)
    return this.open(from)
  }

  private until(kind: Kind, mark: string, at: number): true {
    const end = this.text.indexOf(mark, at)
    if (end < 0 || end - at > limits.tokenCharsMax) this.fail(this.from)
    this.kind = kind
    this.to = end + mark.length
    return true
  }

  private declaration(from: number): boolean {
    const { text } = this
    if (text.startsWith("<!--", from)) return this.until("comment", "-->", from + 4)
    if (text.startsWith("<![CDATA[", from)) {
      if (this.depth === 0 && this.options.fragment !== true) this.fail(from)
      return this.until("cdata", "]]>", from + 9)
    }
    if (!/^<!DOCTYPE[\s[>]/.test(text.slice(from, from + 10)) || this.rooted) this.fail(from)
    if (this.options.doctype === "refused")
      throw new BadDocument("DOCTYPE is not allowed here", this.where(from))
    let quote = 0
    let inside = false
    for (let i = from + 9; i < text.length; i++) {
      const code = text.charCodeAt(i)
      if (quote !== 0) {
        if (code === quote) quote = 0
      } else if (code === 34 || code === 39) quote = code
      else if (code === 60 && text.startsWith("<!--", i)) {
        i = text.indexOf("-->", i + 4)
        if (i < 0) this.fail(from)
        i += 2
      } else if (code === 91) inside = true
      else if (code === 93) inside = false
      else if (code === 62 && !inside) {
        this.kind = "doctype"
        this.to = i + 1
        return true
      }
    }
    return this.fail(from)
  }

  private nameAt(from: number): number {
    let i = from
    while (i < this.text.length && !nameEnd(this.text.charCodeAt(i))) i++
    return i
  }

  private close(from: number): true {
    const { text } = this
    const name = this.stack.pop()
    if (name === undefined || !text.startsWith(name, from + 2)) this.fail(from)
    let at = from + 2 + name!.length
    while (space(text.charCodeAt(at))) at++
    if (text.charCodeAt(at) !== 62) this.fail(from)
    this.kind = "close"
    this.to = at + 1
    this.name = this.told.pop()!
    if (this.scopes.length > 1 && this.scopes.at(-1)!.depth === this.depth) this.scopes.pop()
    this.depth--
    return true
  }

  private open(from: number): true {
    const { text } = this
    const end = this.nameAt(from + 1)
    const name = text.slice(from + 1, end)
    const { nameSpans } = this
    let at = end
    let spaces = false
    let count = 0
    for (;;) {
      while (space(text.charCodeAt(at))) at++
      const code = text.charCodeAt(at)
      if (code === 62 || code === 47) break
      if (!nameStart(code) || count >= limits.attributesMax) this.fail(from)
      const nameFrom = at
      at = this.nameAt(at)
      nameSpans[2 * count] = nameFrom
      nameSpans[2 * count++ + 1] = at
      if (at - nameFrom >= 5 && text.startsWith("xmlns", nameFrom)) spaces = true
      while (space(text.charCodeAt(at))) at++
      if (text.charCodeAt(at) !== 61) this.fail(from)
      at++
      while (space(text.charCodeAt(at))) at++
      const quote = text.charCodeAt(at)
      if (quote !== 34 && quote !== 39) this.fail(from)
      const close = text.indexOf(quote === 34 ? '"' : "'", at + 1)
      if (close < 0) this.fail(from)
      const less = text.indexOf("<", at + 1)
      if (less >= 0 && less < close) this.fail(from)
      at = close + 1
      const after = text.charCodeAt(at)
      if (!space(after) && after !== 62 && after !== 47) this.fail(from)
    }
    this.attributeCount = count
    if (count > 1 && doubled(text, nameSpans, count)) this.fail(from)
    const empty = text.charCodeAt(at) === 47
    if (empty && text.charCodeAt(at + 1) !== 62) this.fail(from)
    if (this.depth === 0) {
      if (this.rooted && this.options.fragment !== true) this.fail(from)
      this.rooted = true
    }
    this.kind = empty ? "empty" : "open"
    this.to = empty ? at + 2 : at + 1
    if (this.stack.length >= limits.depthMax) throw new BadDocument("nested too deeply", this.where(from))
    const scoped = spaces && this.options.namespaces !== undefined
    if (scoped) this.scopes.push(this.scope(this.depth + 1))
    this.name = this.resolved(name)
    if (empty) {
      if (scoped) this.scopes.pop()
    } else {
      this.stack.push(name)
      this.told.push(this.name)
      this.depth++
    }
    return true
  }

  private scope(depth: number): Scope {
    const prefixes = new Map(this.scopes.at(-1)!.prefixes)
    for (const { name, value } of this.attributes()) {
      if (name === "xmlns") prefixes.set("", value)
      else if (name.startsWith("xmlns:")) prefixes.set(name.slice(6), value)
    }
    return { depth, prefixes, names: new Map() }
  }

  private resolved(name: string): string {
    const { namespaces } = this.options
    if (namespaces === undefined) return name
    const { names, prefixes } = this.scopes.at(-1)!
    let resolved = names.get(name)
    if (resolved === undefined) {
      const colon = name.indexOf(":")
      const prefix = colon < 0 ? "" : name.slice(0, colon)
      const as = namespaces.get(prefixes.get(prefix) ?? "")
      names.set(name, (resolved = as === undefined ? name : `${as}:${name.slice(colon + 1)}`))
    }
    return resolved
  }

  get raw(): string {
    return this.text.slice(this.from, this.to)
  }

  /** Attributes of the current open or empty tag, with known references decoded. Spans are those of the
   *  values without quotes. */
  attributes(): ReadonlyArray<{
    readonly name: string
    readonly value: string
    readonly from: number
    readonly to: number
  }> {
    return attributesOf(this.raw).map(({ name, value, from, to }) => ({
      name,
      value,
      from: this.from + from,
      to: this.from + to
    }))
  }

  attribute(name: string): string | undefined {
    return this.attributeCount > 0 && this.raw.includes(name)
      ? this.attributes().find((found) => found.name === name)?.value
      : undefined
  }

  /** Value of the first attribute with this local name, whatever its prefix. */
  local(name: string): string | undefined {
    return this.attributeCount > 0 && this.raw.includes(name)
      ? this.attributes().find((found) => found.name === name || found.name.endsWith(`:${name}`))?.value
      : undefined
  }

  /** Skips the rest of the element just opened; the current token is then its end tag. */
  skip(): void {
    if (this.kind !== "open") return
    const inside = this.depth
    while (this.depth >= inside) this.next()
  }
}

export const attributesOf = (
  tag: string
): ReadonlyArray<{
  readonly name: string
  readonly value: string
  readonly from: number
  readonly to: number
}> => {
  const found: Array<{ name: string; value: string; from: number; to: number }> = []
  for (const match of tag.matchAll(/([^\s=<>/"']+)\s*=\s*("[^"]*"|'[^']*')/g)) {
    const to = match.index + match[0].length - 1
    const from = to - match[2]!.length + 2
    found.push({ name: match[1]!, value: decodeReferences(tag.slice(from, to)), from, to })
  }
  return found
}

const predefinedEntities: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'"
}
const reference = /&(?:#(\d{1,7})|#[xX]([0-9A-Fa-f]{1,6})|([A-Za-z_:][\w.:-]{0,99}));/g

const characterOf = (
  decimal: string | undefined,
  hex: string | undefined,
  name: string | undefined
): string | undefined => {
  if (name !== undefined) return predefinedEntities[name]
  const code = decimal !== undefined ? Number(decimal) : Number.parseInt(hex!, 16)
  return code === 9 ||
    code === 10 ||
    code === 13 ||
    (code >= 32 &&
      code <= 0x10ffff &&
      !(code >= 0xd800 && code <= 0xdfff) &&
      code !== 0xfffe &&
      code !== 0xffff)
    ? String.fromCodePoint(code)
    : undefined
}

/** Decodes the five predefined entities and numeric references; any other reference is left as it is. */
export const decodeReferences = (raw: string): string =>
  raw.includes("&")
    ? raw.replace(reference, (whole, decimal, hex, name) => characterOf(decimal, hex, name) ?? whole)
    : raw

/** Lists runs of text and unknown references, with their positions. */
export const textRuns = (
  raw: string,
  at: number,
  text: (text: string, from: number, to: number) => void,
  point: (from: number, to: number) => void
): void => {
  if (!raw.includes("&")) {
    if (raw !== "") text(raw, at, at + raw.length)
    return
  }
  let from = 0
  let gathered = ""
  let last = 0
  const flush = (to: number): void => {
    if (to > from) text(gathered + raw.slice(last, to), at + from, at + to)
    gathered = ""
  }
  for (const found of raw.matchAll(reference)) {
    const decoded = characterOf(found[1], found[2], found[3])
    if (decoded !== undefined) {
      gathered += raw.slice(last, found.index) + decoded
      last = found.index + found[0].length
      continue
    }
    flush(found.index)
    point(at + found.index, at + found.index + found[0].length)
    from = last = found.index + found[0].length
  }
  flush(raw.length)
}

export const escapeXml = (text: string): string =>
  legal(text)
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll("\r", "&#13;")

export const escapeAttribute = (text: string): string =>
  escapeXml(text)
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&apos;")
    .replaceAll("\n", "&#10;")
    .replaceAll("\t", "&#9;")
