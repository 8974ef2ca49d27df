/** Finds the terms of a dictionary in text: the longest term at each word boundary, ignoring case, with the
 *  case found carried over to the target. In scripts without spaces a term may start anywhere. Each word
 *  costs one look-up, however many entries there are. Pure.
 *  Source: docs/spec/translation.md, section 3.3.4. */
import type { Entry } from "./entries.ts"

export interface Found {
  readonly from: number
  readonly to: number
  readonly target: string
}

export interface Terms {
  /** Finds the terms in the text, in order and without overlaps. */
  find(text: string): ReadonlyArray<Found>
  /** Returns the target when the whole text equals an entry exactly. */
  exactly(text: string): string | undefined
}

const word = /[\p{L}\p{N}\p{M}]/u

/** Scripts that put no space between words, so that a term may start anywhere in them. */
const spaceless =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u

const runs =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]|(?:(?![\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}])[\p{L}\p{N}\p{M}])+|[^\s]/gu

/** Folds to lower case one UTF-16 unit at a time, so that offsets stay valid. */
export const fold = (text: string): string => {
  const lower = text.toLowerCase()
  if (lower.length === text.length) return lower
  let folded = ""
  for (const character of text) {
    const small = character.toLowerCase()
    folded += small.length === character.length ? small : character
  }
  return folded
}

const firstRun = (text: string): string => {
  runs.lastIndex = 0
  return runs.exec(text)?.[0] ?? ""
}

/** Returns whether a word boundary lies between two characters: always, unless both belong to one word of a
 *  spaced script. */
const border = (before: string | undefined, after: string | undefined): boolean =>
  before === undefined ||
  after === undefined ||
  !word.test(before) ||
  !word.test(after) ||
  spaceless.test(before) ||
  spaceless.test(after)

const last = (text: string, to: number): string | undefined => {
  if (to === 0) return undefined
  const code = text.charCodeAt(to - 1)
  return code >= 0xdc00 && code <= 0xdfff && to > 1 ? text.slice(to - 2, to) : text[to - 1]
}

const first = (text: string, from: number): string | undefined =>
  from >= text.length ? undefined : String.fromCodePoint(text.codePointAt(from)!)

const upper = (text: string): boolean => text !== text.toLowerCase() && text === text.toUpperCase()
const letterCount = (text: string): number => text.match(/\p{L}/gu)?.length ?? 0

/** Carries the case found over to the target: for the entry "hello" → "hallo", "Hello" gives "Hallo" and
 *  "HELLO" gives "HALLO". */
const carried = (found: string, source: string, target: string): string => {
  if (found === source) return target
  if (upper(found) && !upper(source) && letterCount(found) > 1) return target.toUpperCase()
  const [a] = found
  const [b] = source
  const [c] = target
  return a !== undefined && c !== undefined && a !== b && a !== a.toLowerCase()
    ? c.toUpperCase() + target.slice(c.length)
    : target
}

interface Folded {
  readonly source: string
  readonly target: string
  /** An entry whose source differs only in case. */
  readonly next: Folded | undefined
}

/** Compiles dictionaries, in order of priority: of two entries with the same source the first wins. */
export const termsOf = (dictionaries: ReadonlyArray<ReadonlyArray<Entry>>): Terms => {
  const exact = new Map<string, string>()
  const folded = new Map<string, Folded>()
  /** Maps the first run of a term to the lengths of all terms that start with it, longest first. */
  const lengths = new Map<string, Array<number>>()
  for (const entries of dictionaries)
    for (const [source, target] of entries) {
      if (exact.has(source)) continue
      exact.set(source, target)
      const key = fold(source)
      const existing = folded.get(key)
      folded.set(
        key,
        existing === undefined
          ? { source, target, next: undefined }
          : { ...existing, next: { source, target, next: existing.next } }
      )
      if (existing !== undefined) continue
      const run = firstRun(key)
      const list = lengths.get(run)
      if (list === undefined) lengths.set(run, [key.length])
      else if (!list.includes(key.length)) {
        list.push(key.length)
        list.sort((a, b) => b - a)
      }
    }
  const targetOf = (found: string, key: string): string => {
    let entry: Folded | undefined = folded.get(key)!
    const whole = exact.get(found)
    if (whole !== undefined) return whole
    for (let better: Folded | undefined = entry; better !== undefined; better = better.next)
      if (better.source === key) entry = better
    return carried(found, entry.source, entry.target)
  }
  return {
    exactly: (text) => exact.get(text),
    find: (text) => {
      const low = fold(text)
      const found: Array<Found> = []
      let from = 0
      runs.lastIndex = 0
      for (let run = runs.exec(low); run !== null; run = runs.exec(low)) {
        const at = run.index
        const next = runs.lastIndex
        if (at < from || !border(last(low, at), first(low, at))) continue
        for (const length of lengths.get(run[0]) ?? []) {
          const key = low.slice(at, at + length)
          if (
            key.length < length ||
            !folded.has(key) ||
            !border(last(low, at + length), first(low, at + length))
          )
            continue
          found.push({ from: at, to: (from = at + length), target: targetOf(text.slice(at, from), key) })
          break
        }
        runs.lastIndex = Math.max(next, from)
      }
      return found
    }
  }
}
