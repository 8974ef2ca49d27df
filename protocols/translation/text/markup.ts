/** XML and HTML as tokens preserved byte for byte. It decides which elements separate sentences, which stand
 *  inside them, and which are copied whole. `strict` (xml v2) refuses markup that is not well-formed;
 *  otherwise everything is accepted, and what is no tag is text. Linear in the input. Pure.
 *  Source: docs/spec/translation.md, sections 3.3.6–7. */
import type { Language } from "../../../actors/engines/ports.ts"
import { splitIntoSentences, withPlaceholders, type Draft, type Piece, type Split } from "./segments.ts"

export interface Markup {
  readonly kind: "xml" | "html"
  readonly strict: boolean
  readonly outline: boolean
  readonly splitting: ReadonlySet<string>
  readonly nonSplitting: ReadonlySet<string>
  readonly ignored: ReadonlySet<string>
}

type Token =
  | { readonly kind: "text"; readonly raw: string }
  | { readonly kind: "open"; readonly raw: string; readonly name: string; readonly alone: boolean }
  | { readonly kind: "close"; readonly raw: string; readonly name: string }
  /** Copied unchanged: comments, declarations, processing instructions, CDATA, and the content of script and
   *  style. */
  | { readonly kind: "copied"; readonly raw: string }

export class MarkupFault extends Error {
  constructor() {
    super("not well-formed")
    this.name = "MarkupFault"
  }
}

const tagBytesMax = 16_384
const oddTagsMax = 32
const words = (names: string): ReadonlySet<string> => new Set(names.split(" "))
const htmlVoid = words("area base br col embed hr img input link meta param source track wbr")
const htmlRaw = words("script style")

const htmlBlocks = words(
  "address article aside blockquote body br button caption center dd details dialog dir div dl dt fieldset figcaption figure footer form " +
    "h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li main menu meta nav ol optgroup option p pre script section select style summary table tbody td tfoot th thead title tr ul"
)

const copiedForms = [
  ["<!--", "-->"],
  ["<![CDATA[", "]]>"],
  ["<?", "?>"]
] as const

const name = String.raw`[\p{L}_:][\p{L}\p{N}\p{M}_:.\u00B7-]*`

const strictTag = new RegExp(
  String.raw`^<(${name})((?:\s+${name}\s*=\s*(?:"[^"<]*"|'[^'<]*'))*)\s*(\/?)>$`,
  "u"
)

const strictClose = new RegExp(String.raw`^<\/(${name})\s*>$`, "u")
const attributeName = new RegExp(String.raw`(${name})\s*=\s*(?:"[^"]*"|'[^']*')`, "gu")
const looseTag = /^<\/?([^\s/>]+)/
const reference = /&(?:[A-Za-z][A-Za-z0-9]{0,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});/g
const bareAmpersand = /&(?!(?:[A-Za-z][A-Za-z0-9]{0,31}|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});)/

/** Returns the end of the tag that starts at `at` (after its ">"), respecting quotes; -1 when there is none
 *  within the limit. */
const tagEnd = (text: string, at: number): number => {
  const limit = Math.min(text.length, at + tagBytesMax)
  let quote = 0
  for (let i = at + 1; i < limit; i++) {
    const code = text.charCodeAt(i)
    if (quote !== 0) {
      if (code === quote) quote = 0
    } else if (code === 62) return i + 1
    else if (code === 34 || code === 39) quote = code
  }
  return -1
}

const tokensOf = (text: string, { kind, strict }: Markup): ReadonlyArray<Token> => {
  const html = kind === "html"
  const tokens: Array<Token> = []
  let from = 0
  let odd = 0
  let closed = text.lastIndexOf(">")
  const unended = new Set<string>()
  const flush = (to: number): void => {
    if (to > from) tokens.push({ kind: "text", raw: text.slice(from, to) })
  }
  for (let at = text.indexOf("<"); at >= 0 && at < closed; at = text.indexOf("<", Math.max(at + 1, from))) {
    const form = copiedForms.find(([begin]) => text.startsWith(begin, at))
    if (form !== undefined || text.startsWith("<!", at)) {
      const hopeless = form === undefined ? odd > oddTagsMax : unended.has(form[1])
      let end = -1
      if (!hopeless)
        end = form === undefined ? declarationEnd(text, at) : endAfter(text, form[1], at + form[0].length)
      if (end < 0) {
        if (strict) throw new MarkupFault()
        if (form === undefined) odd++
        else unended.add(form[1])
        continue
      }
      if (strict && form?.[0] === "<!--" && text.slice(at + 4, end - 3).includes("--"))
        throw new MarkupFault()
      flush(at)
      tokens.push({ kind: "copied", raw: text.slice(at, end) })
      from = end
      continue
    }
    let end = odd > oddTagsMax ? -1 : tagEnd(text, at)
    if (end < 0) {
      if (strict) throw new MarkupFault()
      odd++
      end = text.indexOf(">", at) + 1
      if (end - at > tagBytesMax) continue
    }
    const raw = text.slice(at, end)
    const closes = raw.startsWith("</")
    const shape = strict ? (closes ? strictClose : strictTag).exec(raw) : looseTag.exec(raw)
    if (shape === null || !(strict || /^[\p{L}_:]/u.test(shape[1]!))) {
      if (strict) throw new MarkupFault()
      continue
    }
    if (strict && !closes) wellFormedAttributes(shape[2]!)
    flush(at)
    from = end
    const tag = html ? shape[1]!.toLowerCase() : shape[1]!
    if (closes) {
      tokens.push({ kind: "close", raw, name: tag })
      continue
    }
    const alone = raw.endsWith("/>") || (html && htmlVoid.has(tag))
    tokens.push({ kind: "open", raw, name: tag, alone })
    if (html && !alone && htmlRaw.has(tag)) {
      const stop = text.slice(from).search(tag === "script" ? /<\/script/i : /<\/style/i)
      const contentEnd = stop < 0 ? text.length : from + stop
      if (contentEnd > from) tokens.push({ kind: "copied", raw: text.slice(from, contentEnd) })
      from = contentEnd
      if (stop < 0) closed = -1
    }
  }
  flush(text.length)
  return tokens
}

const endAfter = (text: string, mark: string, from: number): number => {
  const at = text.indexOf(mark, from)
  return at < 0 ? -1 : at + mark.length
}

/** Returns the end of a declaration such as `<!DOCTYPE … [ … ]>`. */
const declarationEnd = (text: string, at: number): number => {
  if (!/^<![A-Za-z]/.test(text.slice(at, at + 3))) return -1
  const end = tagEnd(text, at)
  if (end < 0 || !text.slice(at, end).includes("[")) return end
  return endAfter(text.slice(0, at + tagBytesMax), "]>", at)
}

const wellFormedAttributes = (attributes: string): void => {
  if (bareAmpersand.test(attributes)) throw new MarkupFault()
  const seen = new Set<string>()
  for (const [, found] of attributes.matchAll(attributeName)) {
    if (seen.has(found!)) throw new MarkupFault()
    seen.add(found!)
  }
}

/** Maps each open tag to its close tag and back; tags without a partner have no entry, and `strict` refuses
 *  them. */
const matches = (tokens: ReadonlyArray<Token>, strict: boolean): ReadonlyMap<number, number> => {
  const partner = new Map<number, number>()
  const open: Array<number> = []
  const waiting = new Map<string, number>()
  for (const [i, token] of tokens.entries()) {
    if (token.kind === "open" && !token.alone) {
      open.push(i)
      waiting.set(token.name, (waiting.get(token.name) ?? 0) + 1)
      continue
    }
    if (token.kind !== "close") continue
    if (strict && (open.length === 0 || (tokens[open.at(-1)!] as { name: string }).name !== token.name))
      throw new MarkupFault()
    if ((waiting.get(token.name) ?? 0) === 0) continue
    for (let done = false; !done;) {
      const at = open.pop()!
      const { name } = tokens[at] as { name: string }
      waiting.set(name, waiting.get(name)! - 1)
      done = name === token.name
      if (done) {
        partner.set(at, i)
        partner.set(i, at)
      }
    }
  }
  if (strict && open.length > 0) throw new MarkupFault()
  return partner
}

/** Open tags that separate sentences because all their siblings are elements. */
const outlined = (
  tokens: ReadonlyArray<Token>,
  partner: ReadonlyMap<number, number>
): ReadonlySet<number> => {
  const parentOf = new Map<number, number>()
  const withText = new Set<number>()
  const open: Array<number> = [-1]
  for (const [i, token] of tokens.entries()) {
    if (token.kind === "text") {
      if (token.raw.trim() !== "") withText.add(open.at(-1)!)
    } else if (token.kind === "copied") {
      if (token.raw.startsWith("<![CDATA[")) withText.add(open.at(-1)!)
    } else if (token.kind === "open") {
      parentOf.set(i, open.at(-1)!)
      if (partner.has(i)) open.push(i)
    } else if (partner.get(i) === open.at(-1)) open.pop()
  }
  const parts = new Set<number>()
  for (const [i, parent] of parentOf) if (!withText.has(parent)) parts.add(i)
  return parts
}

const unwanted = /\stranslate\s*=\s*(?:"no"|'no'|no(?=[\s/>]))/i
const classes = /\sclass\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))/i

const untranslated = (raw: string): boolean => {
  if (unwanted.test(raw)) return true
  const found = classes.exec(raw)
  return found !== null && (found[1] ?? found[2] ?? found[3])!.split(/\s+/).includes("notranslate")
}

const textPieces = (raw: string, { strict }: Markup, into: Array<Piece>): void => {
  if (strict && (raw.includes("<") || raw.includes("]]>") || bareAmpersand.test(raw))) throw new MarkupFault()
  if (!/[&<]/.test(raw)) {
    withPlaceholders(raw, into)
    return
  }
  let from = 0
  const plain = (text: string): void => {
    for (const part of text.split(/([&<])/))
      if (part === "&" || part === "<") into.push({ raw: part, role: "inside" })
      else withPlaceholders(part, into)
  }
  for (const found of raw.matchAll(reference)) {
    plain(raw.slice(from, found.index))
    into.push({ raw: found[0], role: "inside" })
    from = found.index + found[0].length
  }
  plain(raw.slice(from))
}

/** Appends the text's sentences and markup to the draft. Throws MarkupFault when `strict` and not
 *  well-formed. */
export const splitMarkup = (
  text: string,
  markup: Markup,
  split: Split,
  language: Language,
  draft: Draft
): void => {
  const tokens = tokensOf(text, markup)
  const partner = matches(tokens, markup.strict)
  const html = markup.kind === "html"
  const outline = markup.kind === "xml" && markup.outline ? outlined(tokens, partner) : undefined
  const parts = (at: number, name: string): boolean =>
    !markup.nonSplitting.has(name) &&
    (markup.splitting.has(name) || (html ? htmlBlocks.has(name) : outline?.has(at) === true))
  let run: Array<Piece> = []
  const part = (raw: string): void => {
    splitIntoSentences(run, split, language, draft)
    run = []
    draft.addVerbatim(raw)
  }
  for (let i = 0; i < tokens.length; i++) {
    const token = tokens[i]!
    if (token.kind === "text") {
      textPieces(token.raw, markup, run)
      continue
    }
    if (token.kind === "copied") {
      run.push({ raw: token.raw, role: "void" })
      continue
    }
    const splits = token.kind === "open" ? parts(i, token.name) : parts(partner.get(i) ?? -1, token.name)
    if (token.kind === "open" && (markup.ignored.has(token.name) || (html && untranslated(token.raw)))) {
      const last = token.alone ? i : (partner.get(i) ?? i)
      let raw = ""
      for (let j = i; j <= last; j++) raw += tokens[j]!.raw
      if (splits) part(raw)
      else run.push({ raw, role: "inside" })
      i = last
    } else if (splits) part(token.raw)
    else run.push({ raw: token.raw, role: partner.has(i) ? token.kind : "void" })
  }
  part("")
}
