/** Checks of a translation that need no model: numbers, placeholders, length, marks, language, encoding,
 *  repeated words. Each finding gives its position in code points. The checks find errors of form well and
 *  errors of meaning poorly. Pure.
 *  Source: docs/spec/translation.md, section 14.2; docs/spec/engines.md, section 10. */
import { codePoints } from "../../shared/code-points.ts"

export interface Span {
  readonly start: number
  readonly end: number
}

export type Severity = "Critical" | "Major" | "Minor"

export interface Issue {
  readonly type: "Accuracy" | "Fluency" | "Style" | "Miscellaneous"
  readonly sub_type: string
  readonly severity: Severity
  readonly explanation: string
  readonly source_spans: ReadonlyArray<Span>
  readonly target_spans: ReadonlyArray<Span>
}

export interface Pair {
  readonly source: string
  readonly target: string
}

interface Match {
  readonly text: string
  readonly from: number
  readonly to: number
}

/** Converts UTF-16 offsets to code points. */
export const spanOf = (text: string, from: number, to: number): Span => {
  const start = codePoints(text.slice(0, from))
  return { start, end: start + codePoints(text.slice(from, to)) }
}

const all = (
  text: string,
  pattern: RegExp,
  key: (found: string) => string = (found) => found
): Array<Match> =>
  [...text.matchAll(pattern)].map((found) => ({
    text: key(found[0]),
    from: found.index,
    to: found.index + found[0].length
  }))

/** Returns the matches that occur more often in `a` than in `b`. */
const missing = (a: ReadonlyArray<Match>, b: ReadonlyArray<Match>): ReadonlyArray<Match> => {
  const left = new Map<string, number>()
  for (const { text } of b) left.set(text, (left.get(text) ?? 0) + 1)
  return a.filter(({ text }) => {
    const count = left.get(text) ?? 0
    left.set(text, count - 1)
    return count <= 0
  })
}

const number = /\d+(?:[.,'\u00A0\u202F ]\d{3})*(?:[.,]\d+)?/g

/** Normalizes a number, so that 1.249,50 and 1,249.50 both become 1249.5. */
const normalNumber = (text: string): string => {
  const plain = text.replace(/['\u00A0\u202F ]/g, "")
  const last = Math.max(plain.lastIndexOf("."), plain.lastIndexOf(","))
  const tail = last < 0 ? "" : plain.slice(last + 1)
  const grouped =
    last >= 0 &&
    tail.length === 3 &&
    !/[.,].*[.,]/.test(plain.replaceAll(plain[last]!, "")) &&
    plain[0] !== "0"
  return grouped || last < 0
    ? plain.replace(/[.,]/g, "")
    : `${plain.slice(0, last).replace(/[.,]/g, "")}.${tail.replace(/0+$/, "")}`.replace(/\.$/, "")
}

const untranslatable =
  /https?:\/\/[^\s<>"']+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|<\/?[A-Za-z][^<>]*>|\$?\{\{?[^{}\s]+\}?\}|%\(?\w*\)?[sd]\b/g

const letters = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[^\p{L}]+/gu, " ")
    .trim()

const endOf = (text: string): string =>
  /([.!?\u2026\u3002\uFF01\uFF1F])["'»”’)\]]*\s*$/u.exec(text)?.[1] ?? ""

const sameEnd: Readonly<Record<string, string>> = { "。": ".", "！": "!", "？": "?" }
const mojibake = /\uFFFD|Ã[\u0080-\u00BF€¤©«¼]|â€[™œ\u009D“”¦]/u
const unspaced = new Set(["ja", "zh", "zh-hans", "zh-hant"])

/** Factor between the lengths of target and source: text in languages without spaces is about two and a half
 *  times shorter. */
const lengthScale = ({ source, target }: Pair): number => {
  if (unspaced.has(source) === unspaced.has(target)) return 1
  return unspaced.has(target) ? 2.5 : 0.4
}

/** Checks one segment; `detected` is the language of the target text where detection is certain. */
export const checkPair = (
  { source, target }: Pair,
  languages: Pair,
  detected: string | undefined
): ReadonlyArray<Issue> => {
  const issues: Array<Issue> = []
  const report = (
    type: Issue["type"],
    sub_type: string,
    severity: Severity,
    explanation: string,
    sources: ReadonlyArray<Match> = [],
    targets: ReadonlyArray<Match> = []
  ): void => {
    issues.push({
      type,
      sub_type,
      severity,
      explanation,
      source_spans: sources.map(({ from, to }) => spanOf(source, from, to)),
      target_spans: targets.map(({ from, to }) => spanOf(target, from, to))
    })
  }
  const whole = (text: string): ReadonlyArray<Match> => [{ text, from: 0, to: text.length }]
  const base = (language: string): string => language.split("-")[0]!
  if (
    letters(source) !== "" &&
    letters(source) === letters(target) &&
    letters(source).split(" ").length > 2
  ) {
    report(
      "Accuracy",
      "Untranslated text",
      "Critical",
      "The target repeats the source.",
      whole(source),
      whole(target)
    )
    return issues
  }
  if (detected !== undefined && detected !== base(languages.target) && codePoints(target) >= 20) {
    report(
      "Accuracy",
      detected === base(languages.source) ? "Untranslated text" : "Mistranslation",
      "Critical",
      `The target seems to be ${detected}, not ${languages.target}.`,
      [],
      whole(target)
    )
  }
  for (const [pattern, key, what] of [
    [number, normalNumber, "Number"],
    [untranslatable, (text: string) => text, "Placeholder, tag or address"]
  ] as const) {
    const plain = (text: string): string =>
      pattern === number ? text.replace(untranslatable, (found) => " ".repeat(found.length)) : text
    const inSource = all(plain(source), pattern, key)
    const inTarget = all(plain(target), pattern, key)
    for (const found of missing(inSource, inTarget))
      report("Accuracy", "Omission", "Major", `${what} of the source is missing in the target.`, [found])
    for (const found of missing(inTarget, inSource))
      report("Accuracy", "Addition", "Major", `${what} of the target is not in the source.`, [], [found])
  }
  const ratio = codePoints(target) / codePoints(source)
  const scale = lengthScale(languages)
  if (codePoints(source) >= 20 && ratio * scale > 3)
    report(
      "Accuracy",
      "Over-translation",
      "Minor",
      "The target is much longer than the source.",
      [],
      whole(target)
    )
  if (codePoints(source) >= 20 && ratio * scale < 1 / 3)
    report(
      "Accuracy",
      "Under-translation",
      "Major",
      "The target is much shorter than the source.",
      whole(source)
    )
  const [sourceEnd, targetEnd] = [endOf(source), endOf(target)].map((mark) => sameEnd[mark] ?? mark)
  if (sourceEnd !== targetEnd)
    report(
      "Fluency",
      "Punctuation",
      "Minor",
      "The final punctuation mark differs from the source's.",
      [],
      [{ text: "", from: Math.max(0, target.length - 1), to: target.length }]
    )
  for (const [open, close] of ["()", "[]", "«»", "“”"]) {
    const count = (text: string, mark: string): number => text.split(mark).length - 1
    if (count(target, open!) !== count(target, close!) && count(source, open!) === count(source, close!))
      report("Fluency", "Punctuation", "Minor", `Unpaired ${open}${close}.`)
  }
  const broken = mojibake.exec(target)
  if (broken !== null && !mojibake.test(source))
    report(
      "Fluency",
      "Character encoding",
      "Major",
      "Characters of a wrong encoding.",
      [],
      [{ text: "", from: broken.index, to: broken.index + broken[0].length }]
    )
  for (const found of target.matchAll(/(?<![\p{L}\p{N}])(\p{L}{2,})\s+\1(?![\p{L}\p{N}])/giu)) {
    if (!/(?<![\p{L}\p{N}])(\p{L}{2,})\s+\1(?![\p{L}\p{N}])/iu.test(source))
      report(
        "Fluency",
        "Grammar",
        "Minor",
        "A word stands twice.",
        [],
        [{ text: "", from: found.index, to: found.index + found[0].length }]
      )
  }
  if (base(languages.target) === "de") {
    const informal = /(?<!\p{L})(?:du|dich|dir|dein\w*)(?!\p{L})/u.exec(target)
    const formal = /(?<=\p{L}[ ,])(?:Sie|Ihnen|Ihr\w*)(?!\p{L})/u.exec(target)
    if (informal !== null && formal !== null)
      report(
        "Fluency",
        "Grammatical register",
        "Minor",
        "Formal and informal address are mixed.",
        [],
        [informal, formal]
          .sort((a, b) => a.index - b.index)
          .map((found) => ({ text: "", from: found.index, to: found.index + found[0].length }))
      )
  }
  return issues
}

/** Finds segments with the same source and different targets. */
export const inconsistentTargets = (segments: ReadonlyArray<Pair>): ReadonlyMap<number, Issue> => {
  const first = new Map<string, string>()
  const issues = new Map<number, Issue>()
  for (const [i, { source, target }] of segments.entries()) {
    const before = first.get(source)
    if (before === undefined) first.set(source, target)
    else if (before !== target)
      issues.set(i, {
        type: "Fluency",
        sub_type: "Inconsistency",
        severity: "Minor",
        explanation: "The same source was translated differently before.",
        source_spans: [],
        target_spans: [spanOf(target, 0, target.length)]
      })
  }
  return issues
}

const weight: Readonly<Record<Severity, number>> = { Critical: 25, Major: 5, Minor: 1 }

export const summaryOf = (
  segments: ReadonlyArray<Pair>,
  found: ReadonlyArray<ReadonlyArray<Issue>>
): { readonly overall_score: number; readonly granular_counts: object } => {
  const words = segments.reduce((sum, { source }) => sum + (source.match(/\S+/g)?.length ?? 0), 0)
  const counts: Record<string, Record<string, Record<string, number>>> = {}
  let penalty = 0
  for (const { type, sub_type, severity } of found.flat()) {
    penalty += weight[severity]
    const bySeverity = ((counts[type] ??= {})[sub_type] ??= {})
    bySeverity[severity] = (bySeverity[severity] ?? 0) + 1
  }
  return {
    overall_score: Math.max(0, Math.round(100 - (100 * penalty) / Math.max(100, words))),
    granular_counts: counts
  }
}
