/** Replaces spans of the original text. A replacement may keep pieces of the span that it replaces, with
 *  further replacements inside them. The second half turns a segment's translation into such replacements.
 *  Pure.
 *  Source: docs/spec/documents.md, sections 1, 2 "Runs". */
import {
  BadDocument,
  type Code,
  type ExtractOptions,
  type Item,
  type Segment,
  type Span,
  type Wrap
} from "./document.ts"
import { hasMarks, markOf, piecesOf, repaired, textOf, type Piece } from "./marks.ts"

/** Replacement of a span; `parts` are new text, or spans of the original to keep there. */
export interface Edit {
  readonly from: number
  readonly to: number
  readonly parts: ReadonlyArray<string | { readonly from: number; readonly to: number }>
}

export const replace = (from: number, to: number, text: string): Edit => ({ from, to, parts: [text] })

/** Applies the edits. An edit inside another applies only where the outer one keeps the span that contains
 *  it. Linear in the text, apart from nesting. */
export const splice = (text: string, edits: ReadonlyArray<Edit>, start = 0, end = text.length): string => {
  if (edits.length === 0) return text.slice(start, end)
  const sorted = inOrder(edits) ? edits : [...edits].sort((a, b) => a.from - b.from || b.to - a.to)
  const first = (at: number): number => {
    let low = 0
    let high = sorted.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (sorted[middle]!.from < at) low = middle + 1
      else high = middle
    }
    return low
  }
  const out: Array<string> = []
  const copy = (from: number, to: number, within: Edit | undefined): void => {
    let at = from
    for (let i = first(from); i < sorted.length; i++) {
      const edit = sorted[i]!
      if (edit.from > to || (edit.from === to && edit.to > edit.from)) break
      if (edit === within || edit.from < at || edit.to > to) continue
      out.push(text.slice(at, edit.from))
      for (const part of edit.parts)
        if (typeof part === "string") out.push(part)
        else copy(part.from, part.to, edit)
      at = edit.to
    }
    out.push(text.slice(at, to))
  }
  copy(start, end, undefined)
  return out.join("")
}

const inOrder = (edits: ReadonlyArray<Edit>): boolean => {
  for (let i = 1; i < edits.length; i++)
    if ((edits[i]!.from - edits[i - 1]!.from || edits[i - 1]!.to - edits[i]!.to) < 0) return false
  return true
}

/** A segment with the source positions that it was read from. */
export interface Placed {
  readonly segment: Segment
  readonly items: ReadonlyArray<Item>
  /** Codes of the segment; the code with id n is at index n − 1. */
  readonly codes: ReadonlyArray<Code>
  readonly writing: Writing
  /** Edits that are applied together with a change of this segment. */
  readonly also: ReadonlyArray<Edit>
}

export interface Writing {
  /** Escapes text for the part. */
  readonly escape: (text: string) => string
  /** Collapse each run of white space to one blank. */
  readonly collapse?: boolean
  /** Keep the codes in source order, because the source has more between them than the codes themselves. */
  readonly fixed?: boolean
  /** Markup to write around text outside every pair, where the source has no text element. */
  readonly wrap?: Wrap
  /** Region that is rewritten when codes change their order; by default from the first item to the last. */
  readonly region?: Span
  /** Edit that replaces the text of one text element; by default the escaped text replaces its span. */
  readonly leaf?: (item: Extract<Item, { is: "text" }>, text: string) => ReadonlyArray<Edit>
}

const letter = /\p{L}/u
export const hasWords = (text: string): boolean => letter.test(text)
const link = /^(?:[a-z][a-z0-9+.-]{1,15}:\/\/\S+|www\.\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+)$/i
const token = /^\w+(?:[_./\\]\w+)+$/

/** Returns whether a text contains language, and not only numbers, symbols, addresses or identifiers. */
export const isLanguage = (text: string): boolean => {
  if (!letter.test(text)) return false
  const trimmed = text.trim()
  if (trimmed.includes(" ")) return true
  return !link.test(trimmed) && !(token.test(trimmed) && /[_/\\\d]|\.\w+\./.test(trimmed))
}

const highSurrogate = /[\uD800-\uDBFF]/

export const codePoints = (text: string): number => {
  let count = text.length
  if (!highSurrogate.test(text)) return count
  for (let i = 0; i < text.length - 1; i++)
    if ((text.charCodeAt(i) & 0xfc00) === 0xd800 && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00) {
      count--
      i++
    }
  return count
}

const none: ReadonlyArray<never> = []

/** Collects the items of one segment and numbers its points and pairs from 1. Most segments are one text
 *  without codes, so the collections for codes are allocated only when needed. */
export class Builder {
  readonly items: Array<Item> = []
  private coded: Array<Code> | undefined = undefined
  private open: Array<{ readonly id: number; readonly at: number }> | undefined = undefined
  private worded = false

  /** Codes so far; the code with id n is at index n − 1. */
  get codes(): ReadonlyArray<Code> {
    return this.coded ?? none
  }

  private code(kind: Code["kind"], more?: { readonly needed?: boolean; readonly wrap?: Wrap }): number {
    const coded = (this.coded ??= [])
    const id = coded.length + 1
    coded.push(more === undefined ? { id, kind } : { id, kind, ...more })
    return id
  }

  text(text: string, from: number, to: number): void {
    if (hasMarks(text)) {
      this.point(from, to)
      return
    }
    this.items.push({ is: "text", text, from, to })
    if (text !== "") this.worded = true
  }

  point(from: number, to: number, wrap?: Wrap, lock = false): void {
    const id = this.code(lock ? "lock" : "point")
    this.items.push(wrap === undefined ? { is: "whole", id, from, to } : { is: "whole", id, from, to, wrap })
  }

  start(from: number, to: number, more?: { readonly needed?: boolean; readonly wrap?: Wrap }): number {
    const id = this.code("pair", more)
    ;(this.open ??= []).push({ id, at: this.items.length })
    this.items.push({ is: "open", id, from, to })
    return id
  }

  end(from: number, to: number): void {
    this.items.push({ is: "close", id: this.open!.pop()!.id, from, to })
  }

  get depth(): number {
    return this.open === undefined ? 0 : this.open.length
  }

  get hasText(): boolean {
    return this.worded
  }

  get empty(): boolean {
    return this.items.length === 0
  }

  /** Turns the edges of unbalanced pairs into points, so that their markup is written back unchanged. */
  settle(): void {
    if (this.open === undefined) return
    for (const { id, at } of this.open.splice(0)) {
      this.coded![id - 1] = { ...this.coded![id - 1]!, kind: "point" }
      this.items[at] = { ...this.items[at]!, is: "whole" } as Item
    }
  }
}

const uncollapsed = /[\t\r\n\f]| {2}/

const collapsed = (text: string): string =>
  uncollapsed.test(text) ? text.replace(/[ \t\r\n\f]+/g, " ") : text

/** Segments of one part in document order. */
export class Segments {
  readonly placed: Array<Placed> = []
  readonly list: Array<Segment> = []
  characters = 0
  private readonly charactersMax: number

  constructor({ charactersMax }: Pick<ExtractOptions, "charactersMax">) {
    this.charactersMax = charactersMax
  }

  /** Adds a segment; a text without language is left in place and not billed. */
  add(
    builder: Builder,
    writing: Writing,
    more?: {
      readonly context?: string | undefined
      /** The text occurs a second time in the document and is billed only once. */
      readonly unbilled?: boolean
      readonly also?: ReadonlyArray<Edit>
    }
  ): void {
    builder.settle()
    const { items, codes } = builder
    const collapse = writing.collapse === true
    let text = ""
    let plain = ""
    for (const item of items) {
      if (item.is === "text") {
        const words = collapse ? collapsed(item.text) : item.text
        plain += words
        text += words
      } else
        text += markOf(item.id, item.is === "whole" && codes[item.id - 1]!.kind === "lock" ? "lock" : item.is)
    }
    if (!isLanguage(plain)) return
    const billed = more?.unbilled === true ? 0 : codePoints(plain)
    const id = this.list.length
    const context = more?.context
    this.count(billed)
    const segment: Segment = context === undefined ? { id, text, billed } : { id, text, billed, context }
    this.list.push(segment)
    this.placed.push({ segment, items, codes, writing, also: more?.also ?? none })
  }

  /** Adds to the character count and throws over the limit, so that a document that is too long never
   *  reaches an engine. */
  count(characters: number): void {
    this.characters += characters
    if (this.characters > this.charactersMax) throw new BadDocument("too many characters")
  }
}

const illegal =
  /[\u0000-\u0008\u000B\u000C\u000E-\u001F\uFFFE\uFFFF]|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g

/** Removes the characters that no markup may contain. */
export const legal = (text: string): string => text.replace(illegal, "")

const sameCodes = (a: ReadonlyArray<Piece>, b: ReadonlyArray<Piece>): boolean => {
  const x = a.filter((piece) => typeof piece !== "string")
  const y = b.filter((piece) => typeof piece !== "string")
  return (
    x.length === y.length &&
    x.every((piece, i) => {
      const other = y[i]!
      return (
        typeof piece !== "string" &&
        typeof other !== "string" &&
        piece.code === other.code &&
        piece.edge === other.edge
      )
    })
  )
}

/** Returns the edits that put a translation in a segment's place, and none when nothing changed. */
export const editsOf = (placed: Placed, translation: string | undefined): ReadonlyArray<Edit> => {
  const edits =
    translation === undefined || translation === placed.segment.text ? none : changesOf(placed, translation)
  return edits.length > 0 && placed.also.length > 0 ? [...edits, ...placed.also] : edits
}

const changesOf = (
  { segment, items, codes: list, writing }: Placed,
  translation: string
): ReadonlyArray<Edit> => {
  const codes = new Map(list.map((code) => [code.id, code]))
  const source = piecesOf(segment.text)
  const translated = repaired(source, piecesOf(legal(translation)), codes)
  if (textOf(translated) === textOf(source)) return none
  if (writing.fixed === true) return inLeaves(items, translated, writing) ?? []
  return (
    (sameCodes(source, translated) ? inLeaves(items, translated, writing) : undefined) ?? [
      rewritten(items, translated, codes, writing)
    ]
  )
}

/** Puts the text between two codes into the first text element there and empties the others; returns
 *  undefined where text has no element to hold it. */
const inLeaves = (
  items: ReadonlyArray<Item>,
  translated: ReadonlyArray<Piece>,
  { escape, leaf, collapse, fixed }: Writing
): ReadonlyArray<Edit> | undefined => {
  const write = leaf ?? ((item, text) => [replace(item.from, item.to, escape(text))])
  const texts: Array<string> = [""]
  for (const piece of translated)
    if (typeof piece === "string") texts[texts.length - 1] += piece
    else texts.push("")
  if (fixed === true) settleGaps(texts, items)
  const edits: Array<Edit> = []
  let gap = 0
  let leaves: Array<Extract<Item, { is: "text" }>> = []
  const turn = (): boolean => {
    const text = texts[gap++] ?? ""
    const before = leaves.map((item) => (collapse === true ? collapsed(item.text) : item.text)).join("")
    if (text !== before) {
      if (leaves.length === 0) return false
      edits.push(...write(leaves[0]!, text))
      for (const item of leaves.slice(1)) if (item.text !== "") edits.push(...write(item, ""))
    }
    leaves = []
    return true
  }
  for (const item of items)
    if (item.is === "text") leaves.push(item)
    else if (!turn()) return undefined
  return turn() ? edits : undefined
}

/** Moves text from gaps without a text element to the nearest gap that has one. */
const settleGaps = (texts: Array<string>, items: ReadonlyArray<Item>): void => {
  const leaves = [false]
  for (const item of items)
    if (item.is === "text") leaves[leaves.length - 1] = true
    else leaves.push(false)
  for (let i = 0; i < texts.length; i++) {
    if (leaves[i] === true || texts[i] === "") continue
    const before = leaves.lastIndexOf(true, i)
    const after = leaves.indexOf(true, i)
    const to = before >= 0 ? before : after
    if (to === before) texts[to] += texts[i]!
    else texts[to] = texts[i]! + (texts[to] ?? "")
    texts[i] = ""
  }
}

/** Rewrites the whole region from the first item to the last in the order of the translation. */
const rewritten = (
  items: ReadonlyArray<Item>,
  translated: ReadonlyArray<Piece>,
  codes: ReadonlyMap<number, Code>,
  { escape, wrap, region }: Writing
): Edit => {
  const at = new Map<string, Item>()
  for (const item of items) if (item.is !== "text") at.set(`${item.id} ${item.is}`, item)
  const wraps: Array<Wrap | undefined> = [wrap]
  const parts: Array<string | { from: number; to: number }> = []
  const wrapped = (around: Wrap | undefined, part: string | { from: number; to: number }): void => {
    if (around === undefined) parts.push(part)
    else parts.push(around.open, part, around.close)
  }
  for (const piece of translated) {
    if (typeof piece === "string") {
      wrapped(wraps.at(-1), escape(piece))
      continue
    }
    const item = at.get(`${piece.code} ${piece.edge}`) as Exclude<Item, { is: "text" }> | undefined
    if (item === undefined) continue
    if (piece.edge === "open") wraps.push(codes.get(piece.code)!.wrap ?? wraps.at(-1))
    if (piece.edge === "close") wraps.pop()
    if (item.to > item.from) wrapped(item.wrap, { from: item.from, to: item.to })
  }
  return {
    from: region?.from ?? items[0]!.from,
    to: region?.to ?? items.reduce((end, { to }) => Math.max(end, to), 0),
    parts
  }
}

export const spliced = (
  text: string,
  placed: ReadonlyArray<Placed>,
  translated: (id: number) => string | undefined,
  more: ReadonlyArray<Edit> = []
): string => {
  const edits: Array<Edit> = [...more]
  for (const one of placed) for (const edit of editsOf(one, translated(one.segment.id))) edits.push(edit)
  return splice(text, edits)
}
