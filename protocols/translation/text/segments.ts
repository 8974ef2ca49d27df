/** Converts text to engine segments and back: sentences are split by punctuation and line, placeholders and
 *  markup are opaque units, and white space around sentences stays outside. Guarantee: with an engine that
 *  changes nothing the output equals the input byte for byte, and every opaque unit occurs in the output
 *  exactly once. Pure.
 *  Source: docs/spec/translation.md, sections 3.1 split_sentences, 3.3. */
import type { Language, EngineSegment, SegmentUnit } from "../../../actors/engines/ports.ts"

/** A piece of text or an opaque unit. `open`, `close` and `void` are markup without width between letters;
 *  `inside` stands for words (placeholder, entity, ignored element). */
export type Piece =
  | { readonly text: string }
  | { readonly raw: string; readonly role: "open" | "close" | "void" | "inside" }

export type Split = "0" | "1" | "nonewlines"

interface Sentence {
  readonly segment: EngineSegment
  readonly raws: ReadonlyArray<string>
  readonly first: string
  readonly last: string
}

/** The output under construction: strings between the sentences, and the index of a sentence where it
 *  belongs. */
export class Draft {
  readonly parts: Array<string | number> = []
  readonly sentences: Array<Sentence> = []

  addVerbatim(text: string): void {
    if (text !== "") this.parts.push(text)
  }

  get segments(): ReadonlyArray<EngineSegment> {
    return this.sentences.map(({ segment }) => segment)
  }
}

const urlSource = String.raw`\b(?:https?|ftp):\/\/[^\s<>"'{}|]{0,2000}[^\s<>"'{}|.,;:!?)\]]`
const mailSource = String.raw`(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}`
const bracesSource = String.raw`\$?\{\{[^{}\n]{1,100}\}\}|[$#%]?\{[^{}\n]{0,100}\}`
const percentSource = String.raw`%(?:\(\w{1,64}\)|\d{1,2}\$)?[-+0#]{0,3}\d{0,3}(?:\.\d{1,2})?(?:hh?|ll?|[zjt])?[sdifuxXobeEgGc@](?![A-Za-z])|%%`
const placeholder = new RegExp(`${urlSource}|${mailSource}|${bracesSource}|${percentSource}`, "g")
const mayHoldPlaceholder = /[{%@]|:\/\//

/** Splits off placeholders that programs fill in or follow and that are not translated: URLs, mail
 *  addresses, {name}, ${x}, {{ y }}, %s, %(n)d. */
export const withPlaceholders = (text: string, into: Array<Piece> = []): Array<Piece> => {
  if (!mayHoldPlaceholder.test(text)) {
    if (text !== "") into.push({ text })
    return into
  }
  let from = 0
  for (const found of text.matchAll(placeholder)) {
    if (found.index > from) into.push({ text: text.slice(from, found.index) })
    into.push({ raw: found[0], role: "inside" })
    from = found.index + found[0].length
  }
  if (from < text.length) into.push({ text: text.slice(from) })
  return into
}

/** Replaces an opaque unit while sentences are searched; it is upper case, so that a sentence may start with
 *  it. */
const opaqueMark = "\u046A"

const hasWidth = (piece: Piece): boolean => "text" in piece || piece.role === "inside"
const ends = /[.!?\u2026\u3002\uFF01\uFF1F\u061F\u06D4\u0964\uFF0E\uFF61\n\r\u2028\u2029\u0085]/
const lineBreaks = /[\n\r\u2028\u2029\u0085\v\f]/
const allLineBreaks = /[\n\r\u2028\u2029\u0085\v\f]/g

/** Words after which a full stop seldom ends a sentence, and single initials; lower case, without the full
 *  stop. */
const abbreviations = new Set(
  (
    "mr mrs ms dr prof st sr jr vs etc eg e.g i.e ie cf no vol fig approx dept gen col sgt capt rev hon " +
    "z.b d.h u.a bzw ca usw nr str hr fr vgl evtl ggf inkl zzgl m mme mlle p.ex cad ex av sra srta dra ud uds ej pág núm sig dott ing avv ecc pag"
  ).split(" ")
)

const ordinalLanguages = new Set(["de", "da", "nb", "cs", "sk", "fi", "et", "hu", "lv", "sl", "hr"])

const segmenters = new Map<Language, Intl.Segmenter>()

const segmenterOf = (language: Language): Intl.Segmenter => {
  let segmenter = segmenters.get(language)
  if (segmenter === undefined)
    segmenters.set(language, (segmenter = new Intl.Segmenter(language, { granularity: "sentence" })))
  return segmenter
}

/** Returns true when the text cannot end a sentence: "Dr. ", "J. ", and "3. " in languages that write
 *  ordinals so. */
const endsInAbbreviation = (sentence: string, language: Language): boolean => {
  const tail = sentence.slice(-40).trimEnd()
  if (!tail.endsWith(".") || lineBreaks.test(sentence.slice(sentence.trimEnd().length))) return false
  const word = /([^\s("'[]*)\.$/.exec(tail)?.[1] ?? ""
  return (
    /^[A-Z]$/.test(word) ||
    abbreviations.has(word.toLowerCase()) ||
    (ordinalLanguages.has(language) && /^\d{1,2}$/.test(word))
  )
}

const plainAscii = /^[\x20-\x3A\x3C-\x7E]*$/
const isTerm = (code: number): boolean => code === 46 || code === 33 || code === 63
const isUpper = (code: number): boolean => code >= 65 && code <= 90
const isLower = (code: number): boolean => code >= 97 && code <= 122

/** Returns true for the characters of class Close in UAX 29: " ' ( ) [ ] { } */
const isClose = (code: number): boolean =>
  code === 34 || (code >= 39 && code <= 41) || code === 91 || code === 93 || code === 123 || code === 125

/** Applies rules SB6–SB11 of UAX 29 to one line of printable ASCII: the result of Intl.Segmenter at a tenth
 *  of its cost. */
export const asciiBreaks = (text: string): Array<number> => {
  const breaks: Array<number> = []
  const length = text.length
  for (let i = 0; i < length; i++) {
    const term = text.charCodeAt(i)
    if (!isTerm(term)) continue
    let at = i + 1
    while (at < length && isClose(text.charCodeAt(at))) at++
    while (at < length && text.charCodeAt(at) === 32) at++
    if (at === length) break
    const next = text.charCodeAt(at)
    if (isTerm(next) || next === 44 || next === 45 || next === 58) continue
    if (term === 46) {
      const before = i === 0 ? 0 : text.charCodeAt(i - 1)
      if (
        at === i + 1 &&
        ((next >= 48 && next <= 57) || (isUpper(next) && (isUpper(before) || isLower(before))))
      )
        continue
      let ahead = at
      while (
        ahead < length &&
        !isUpper(text.charCodeAt(ahead)) &&
        !isLower(text.charCodeAt(ahead)) &&
        !isTerm(text.charCodeAt(ahead))
      )
        ahead++
      if (ahead < length && isLower(text.charCodeAt(ahead))) {
        i = ahead
        continue
      }
    }
    breaks.push(at)
  }
  breaks.push(length)
  return breaks
}

/** Size of the windows in which long texts are segmented, in UTF-16 units: Intl.Segmenter pays for the
 *  length of the whole text at every sentence. */
const windowChars = 2_000

/** Removes the breaks that do not end a sentence. */
const withoutAbbreviationBreaks = (
  ends: ReadonlyArray<number>,
  text: string,
  language: Language
): ReadonlyArray<number> => {
  let from = 0
  return ends.filter((end) => {
    if (end < text.length && endsInAbbreviation(text.slice(from, end), language)) return false
    from = end
    return true
  })
}

/** Returns the offsets at which a new sentence starts, and the length of the text last. */
const breaksOf = (flat: string, split: Split, language: Language): ReadonlyArray<number> => {
  if (split === "0" || !ends.test(flat)) return [flat.length]
  const breaks: Array<number> = []
  const searched = split === "nonewlines" ? flat.replace(allLineBreaks, " ") : flat
  if (language !== "el" && plainAscii.test(searched))
    return withoutAbbreviationBreaks(asciiBreaks(searched), searched, language)
  const segmenter = segmenterOf(language)
  let from = 0
  for (let start = 0, size = windowChars; start < searched.length;) {
    const window = searched.slice(start, start + size)
    const whole = start + size >= searched.length
    let end = start
    for (const { index, segment } of segmenter.segment(window)) {
      if (!whole && index + segment.length === window.length) break // may go on in the next window
      end = start + index + segment.length
      if (end < searched.length && endsInAbbreviation(searched.slice(from, end), language)) continue
      breaks.push(end)
      from = end
    }
    size = end === start ? size * 4 : windowChars
    start = end
  }
  if (breaks.at(-1) !== flat.length) breaks.push(flat.length)
  return breaks
}

/** Appends the sentences of one unit of text. */
export const splitIntoSentences = (
  pieces: ReadonlyArray<Piece>,
  split: Split,
  language: Language,
  draft: Draft
): void => {
  let flat = ""
  for (const piece of pieces) {
    if ("text" in piece) flat += piece.text
    else if (hasWidth(piece)) flat += opaqueMark
  }
  const breaks = breaksOf(flat, split, language)
  if (breaks.length === 1) return emit(pieces, draft)
  let sentence: Array<Piece> = []
  let at = 0
  let next = 0
  const endSentence = (): void => {
    emit(sentence, draft)
    sentence = []
    next++
  }
  for (const piece of pieces) {
    if (at === breaks[next] && ("text" in piece || piece.role !== "close")) endSentence()
    if (!("text" in piece)) {
      sentence.push(piece)
      if (hasWidth(piece)) at++
      continue
    }
    for (let rest = piece.text; rest !== "";) {
      if (at === breaks[next]) endSentence()
      const taken = rest.slice(0, breaks[next]! - at)
      sentence.push({ text: taken })
      at += taken.length
      rest = rest.slice(taken.length)
    }
  }
  emit(sentence, draft)
}

const letters = /\p{L}/u

/** Returns the index of each tag's partner, or -1. */
const partners = (pieces: ReadonlyArray<Piece>): ReadonlyArray<number> => {
  const partner = new Array<number>(pieces.length).fill(-1)
  const open: Array<number> = []
  for (const [i, piece] of pieces.entries()) {
    if ("text" in piece) continue
    if (piece.role === "open") open.push(i)
    else if (piece.role === "close") {
      const at = open.pop()
      if (at !== undefined) {
        partner[at] = i
        partner[i] = at
      }
    }
  }
  return partner
}

/** Adds one sentence to the draft: surrounding white space and tags stay outside it, and a sentence without
 *  letters is not translated. */
const emit = (all: ReadonlyArray<Piece>, draft: Draft): void => {
  if (!all.some((piece) => "text" in piece && letters.test(piece.text))) {
    for (const piece of all) draft.addVerbatim("text" in piece ? piece.text : piece.raw)
    return
  }
  const pieces = [...all]
  const partner = partners(all)
  let from = 0
  let to = pieces.length
  const tail: Array<string> = []
  for (;;) {
    const first = pieces[from]!
    const last = pieces[to - 1]!
    if ("text" in first) {
      const trimmed = first.text.trimStart()
      if (trimmed.length < first.text.length) {
        draft.addVerbatim(first.text.slice(0, first.text.length - trimmed.length))
        if (trimmed === "") from++
        else pieces[from] = { text: trimmed }
        continue
      }
    } else if (first.role === "void" || first.role === "close") {
      draft.addVerbatim(first.raw)
      from++
      continue
    } else if (first.role === "open") {
      const close = partner[from]!
      if (close < 0 || close === to - 1) {
        draft.addVerbatim(first.raw)
        from++
        if (close >= 0) {
          tail.push((last as { readonly raw: string }).raw)
          to--
        }
        continue
      }
    }
    if ("text" in last) {
      const trimmed = last.text.trimEnd()
      if (trimmed.length === last.text.length) break
      tail.push(last.text.slice(trimmed.length))
      if (trimmed === "") to--
      else pieces[to - 1] = { text: trimmed }
    } else if (
      last.role === "void" ||
      last.role === "open" ||
      (last.role === "close" && partner[to - 1]! < 0)
    ) {
      tail.push(last.raw)
      to--
    } else break
  }
  const units: Array<SegmentUnit> = []
  const raws: Array<string> = []
  for (let i = from; i < to; i++) {
    const piece = pieces[i]!
    if (!("text" in piece)) {
      units.push({ _tag: "opaque", id: raws.length })
      raws.push(piece.raw)
      continue
    }
    const before = units.at(-1)
    if (before?._tag === "text") units[units.length - 1] = { _tag: "text", text: before.text + piece.text }
    else units.push({ _tag: "text", text: piece.text })
  }
  const first = pieces[from]!
  const last = pieces[to - 1]!
  draft.parts.push(draft.sentences.length)
  draft.sentences.push({
    segment: { units },
    raws,
    first: "text" in first ? first.text : "",
    last: "text" in last ? last.text : ""
  })
  for (let i = tail.length - 1; i >= 0; i--) draft.addVerbatim(tail[i]!)
}

/** Returns the text that a memory compares: the sentence with its placeholders and without markup. */
export const textOf = ({ segment, raws }: Draft["sentences"][number], markup: boolean): string =>
  segment.units
    .map((unit) => {
      if (unit._tag === "text") return unit.text
      const raw = raws[unit.id]!
      return markup && raw.startsWith("<") ? "" : raw
    })
    .join("")

/** Converts a text to the segment that translates the sentence; its placeholders become those of the
 *  sentence. */
export const answerWith = ({ raws }: Draft["sentences"][number], text: string): EngineSegment => {
  const units: Array<SegmentUnit> = []
  let from = 0
  const places = raws
    .map((raw, id) => ({ id, at: raw === "" ? -1 : text.indexOf(raw), raw }))
    .filter(({ at }) => at >= 0)
    .sort((a, b) => a.at - b.at)
  for (const { id, at, raw } of places) {
    if (at < from) continue
    if (at > from) units.push({ _tag: "text", text: text.slice(from, at) })
    units.push({ _tag: "opaque", id })
    from = at + raw.length
  }
  if (from < text.length) units.push({ _tag: "text", text: text.slice(from) })
  return { units }
}

/** Replaces parts of a sentence's text by opaque units with the output `target`. Returns true when nothing
 *  is left to translate. */
export const protect = (
  draft: Draft,
  at: number,
  find: (
    text: string
  ) => ReadonlyArray<{ readonly from: number; readonly to: number; readonly target: string }>,
  escape: boolean
): boolean => {
  const { segment, raws: existing, first, last } = draft.sentences[at]!
  const units: Array<SegmentUnit> = []
  const raws = [...existing]
  for (const unit of segment.units) {
    if (unit._tag === "opaque") {
      units.push(unit)
      continue
    }
    let rest = 0
    for (const { from, to, target } of find(unit.text)) {
      if (from > rest) units.push({ _tag: "text", text: unit.text.slice(rest, from) })
      units.push({ _tag: "opaque", id: raws.length })
      raws.push(escape ? escapeMarkup(target) : target)
      rest = to
    }
    if (rest < unit.text.length) units.push({ _tag: "text", text: unit.text.slice(rest) })
  }
  if (raws.length > existing.length) draft.sentences[at] = { segment: { units }, raws, first, last }
  return !units.some((unit) => unit._tag === "text" && letters.test(unit.text))
}

export interface Rendering {
  /** Restore a first capital and an end mark that the source has and the engine lost. */
  readonly repair: boolean
  /** Escape text from the engine, because it goes into markup. */
  readonly escape: boolean
  readonly target: Language
  /** Sentences whose answer is not repaired, because a customer wrote its wording. */
  readonly verbatim?: ReadonlySet<number>
}

const escapeMarkup = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;")
const endMark = /[.!?\u2026\u3002\uFF01\uFF1F]$/
const anyEnd = /[\p{P}\p{S}]["'\u00BB\u201D\u2019)\]]*$/u
const wideMarks: Readonly<Record<string, string>> = { ".": "。", "!": "！", "?": "？" }

const repairEdges = (texts: Array<string>, { first, last }: Sentence, target: Language): void => {
  const begin = texts[0]!
  const end = texts.at(-1)!
  const [letter] = first
  const [now] = begin
  if (
    letter !== undefined &&
    now !== undefined &&
    letter !== letter.toLowerCase() &&
    now !== now.toUpperCase()
  )
    texts[0] = now.toUpperCase() + begin.slice(now.length)
  const mark = endMark.exec(last)?.[0]
  if (mark !== undefined && end !== "" && !anyEnd.test(end.trimEnd())) {
    const base = target.split("-")[0]
    texts[texts.length - 1] =
      (texts.at(-1) ?? "") + (base === "ja" || base === "zh" ? (wideMarks[mark] ?? mark) : mark)
  }
}

const renderSentence = (
  sentence: Sentence,
  answer: EngineSegment,
  { repair, escape, target }: Rendering
): string => {
  const parts: Array<string> = answer.units.map((unit) => (unit._tag === "text" ? unit.text : ""))
  const edgesAreText = answer.units[0]?._tag === "text" && answer.units.at(-1)?._tag === "text"
  if (repair && edgesAreText) repairEdges(parts, sentence, target)
  if (escape) for (let i = 0; i < parts.length; i++) parts[i] = escapeMarkup(parts[i]!)
  const left = new Set(sentence.raws.keys())
  for (const [i, unit] of answer.units.entries())
    if (unit._tag === "opaque" && left.delete(unit.id)) parts[i] = sentence.raws[unit.id]!
  let text = parts.join("")
  // A unit that the engine has lost is appended: it loses its position, but is never missing.
  for (const id of left) text += sentence.raws[id]!
  return text
}

/** Renders the output; `answers` has one segment per sentence of the draft, in order. */
export const render = (draft: Draft, answers: ReadonlyArray<EngineSegment>, rendering: Rendering): string => {
  let text = ""
  for (const part of draft.parts)
    text +=
      typeof part === "string"
        ? part
        : renderSentence(
            draft.sentences[part]!,
            answers[part]!,
            rendering.verbatim?.has(part) === true ? { ...rendering, repair: false } : rendering
          )
  return text
}
