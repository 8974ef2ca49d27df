/** Glossary entries as TSV and CSV: parsed with every rule checked, and written. Linear in the input; a
 *  fault has the index and position that the API reports. Pure.
 *  Source: docs/spec/translation.md, section 7.3. */

export type Entry = readonly [source: string, target: string]
export type EntriesFormat = "tsv" | "csv"

export interface EntriesFault {
  readonly detail: string
}

export const phraseBytesMax = 1_024

/** Characters that no phrase may contain: C0 and C1 controls, and line and paragraph separators. */
const control = /[\p{Cc}\u2028\u2029]/u

/** A row of the input: its cells, and the position at which each starts (UTF-16 units). */
interface Row {
  readonly cells: ReadonlyArray<string>
  readonly at: number
}

function* tsvRows(text: string): Generator<Row> {
  for (let at = 0; at <= text.length;) {
    let end = at
    for (; end < text.length; end++) {
      const code = text.charCodeAt(end)
      if (code === 10 || code === 13) break
    }
    const line = text.slice(at, end)
    if (line.trim() !== "") yield { cells: line.split("\t"), at }
    at = end + 1
  }
}

/** Parses CSV by RFC 4180 with doubled quotes; an unterminated quote yields a row without cells. */
function* csvRows(text: string): Generator<Row> {
  for (let at = 0; at < text.length;) {
    const begin = at
    const cells: Array<string> = []
    for (let more = true; more;) {
      let cell = ""
      let next = at
      while (text[next] === " ") next++
      if (text[next] === '"') {
        at = next + 1
        for (;;) {
          const quote = text.indexOf('"', at)
          if (quote < 0) return void (yield { cells: [], at: begin })
          cell += text.slice(at, quote)
          at = quote + 1
          if (text[at] !== '"') break
          cell += '"'
          at++
        }
      }
      let end = at
      for (; end < text.length; end++) {
        const code = text.charCodeAt(end)
        if (code === 44 || code === 10 || code === 13) break
      }
      cells.push(cell + text.slice(at, end))
      more = text[end] === ","
      at = end + 1
    }
    if (cells.length > 1 || cells[0]!.trim() !== "") yield { cells, at: begin }
  }
}

const points = (text: string, to: number): number => {
  let count = 0
  for (const _ of text.slice(0, to)) count++
  return count
}

/** Parses and checks entries. `pair` has base codes; a CSV row of four columns for another pair is
 *  skipped. */
export const parseEntries = (
  text: string,
  format: EntriesFormat,
  pair: { readonly source: string; readonly target: string }
): ReadonlyArray<Entry> | EntriesFault => {
  const entries: Array<Entry> = []
  const seen = new Map<string, { readonly index: number; readonly at: number }>()
  let index = -1
  for (const { cells, at } of format === "tsv" ? tsvRows(text) : csvRows(text)) {
    index++
    const place = (word: "Key" | "Value") =>
      `${word} with the index ${index} (starting at position ${points(text, at)})`
    if (format === "tsv" && cells.length < 2) return { detail: `${place("Key")} misses tab separator` }
    if (format === "tsv" ? cells.length > 2 : cells.length !== 2 && cells.length !== 4)
      return { detail: `${place("Key")} has a wrong number of columns` }
    if (cells.length === 4 && (baseOf(cells[2]!) !== pair.source || baseOf(cells[3]!) !== pair.target))
      continue
    const source = cells[0]!.trim()
    const target = cells[1]!.trim()
    for (const [word, phrase] of [
      ["Key", source],
      ["Value", target]
    ] as const) {
      if (phrase === "") return { detail: `${place(word)} is empty` }
      if (phrase.length > phraseBytesMax / 3 && Buffer.byteLength(phrase) > phraseBytesMax)
        return { detail: `${place(word)} is too long` }
      if (control.test(phrase)) return { detail: `${place(word)} contains control characters` }
    }
    const before = seen.get(source)
    if (before !== undefined)
      return {
        detail: `${place("Key")} duplicates key with the index ${before.index} (starting at position ${points(text, before.at)})`
      }
    seen.set(source, { index, at })
    entries.push([source, target])
  }
  return entries.length === 0 ? { detail: "No entries were given" } : entries
}

const baseOf = (code: string): string => code.trim().toLowerCase().split("-")[0]!

/** Writes TSV without a final newline. Phrases contain neither tabs nor newlines. */
export const toTsv = (entries: ReadonlyArray<Entry>): string =>
  entries.map(([source, target]) => `${source}\t${target}`).join("\n")

/** Parses the output of `toTsv` without checks. */
export const fromTsv = (tsv: string): ReadonlyArray<Entry> =>
  tsv === ""
    ? []
    : tsv.split("\n").map((line) => {
        const tab = line.indexOf("\t")
        return [line.slice(0, tab), line.slice(tab + 1)] as const
      })
