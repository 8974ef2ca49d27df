/** SubRip captions: the words of each cue are translated; numbers, times, coordinates and the number of
 *  lines per cue are preserved.
 *  Source: docs/spec/documents.md, section 5.8. */
import { BadDocument, type Format } from "./document.ts"
import { decodePlain, encodePlain } from "./encoding.ts"
import { Builder, Segments, spliced, type Writing } from "./splice.ts"

const time =
  /^\s*-?\d{1,3}:\d{1,2}:\d{1,2}(?:[,.]\d{1,4})?\s*-->\s*-?\d{1,3}:\d{1,2}:\d{1,2}(?:[,.]\d{1,4})?(?:\s.*)?$/

const tag = /<(\/?)([A-Za-z][\w]*)(?:\s[^<>]*)?>|\{\\[^{}]*\}/g
const columnsMax = 42

interface Line {
  readonly text: string
  readonly from: number
  readonly to: number
  readonly end: string
}

/** Returns the line end that starts at `at`, or "" at the end of the text. */
const lineEndAt = (text: string, at: number): "" | "\n" | "\r\n" | "\r" => {
  if (at === text.length) return ""
  if (text[at] === "\n") return "\n"
  return text[at + 1] === "\n" ? "\r\n" : "\r"
}

/** Splits text into lines at CR LF, CR or LF. The text after the last line end is a line only when it is not
 *  empty. */
const linesOf = (text: string): ReadonlyArray<Line> => {
  const lines: Array<Line> = []
  let feed = -1
  let back = -1
  for (let from = 0; from < text.length;) {
    // Each separator is searched again only after it has been passed: searching for one that is absent would
    // read to the end of the text every time.
    if (feed < from) {
      feed = text.indexOf("\n", from)
      if (feed < 0) feed = text.length
    }
    if (back < from) {
      back = text.indexOf("\r", from)
      if (back < 0) back = text.length
    }
    const to = Math.min(feed, back)
    const end = lineEndAt(text, to)
    lines.push({ text: text.slice(from, to), from, to, end })
    from = to + end.length
  }
  return lines
}

const number = /^\s*\d+\s*$/

export const srt: Format = {
  id: "srt",
  extensions: ["srt"],
  mime: "application/x-subrip",
  inspect: (bytes) => {
    if (bytes.length === 0) throw new BadDocument("empty")
  },
  extract: (bytes, options) => {
    const file = decodePlain(bytes)
    const segments = new Segments(options)
    let cue: Array<Line> = []
    let inCue = false
    let times = 0
    let said = ""
    const turn = (): void => {
      for (const part of spokenParts(cue)) {
        add(segments, part, said)
        said = (part.length === 1 ? part[0]!.text : part.map(({ text }) => text).join(" ")).slice(0, 200)
      }
      cue = []
    }
    for (const each of linesOf(file.text)) {
      if (each.text.includes("-->") && time.test(each.text)) {
        // This is the number of a cue that has no blank line before it.
        if (inCue && cue.length > 0 && number.test(cue.at(-1)!.text)) cue.pop()
        turn()
        inCue = true
        times++
      } else if (each.text.trim() === "") {
        turn()
        inCue = false
      } else if (inCue) cue.push(each)
    }
    turn()
    if (times === 0) throw new BadDocument("not an SRT file")
    return {
      segments: segments.list,
      characters: segments.characters,
      warnings: [],
      rebuild: (translated) => {
        const text = spliced(file.text, segments.placed, translated)
        return text === file.text ? bytes : encodePlain(text, file)
      }
    }
  }
}

/** Splits a cue by speaker: lines that start with a dash belong to different speakers and are translated one
 *  by one. */
const spokenParts = (cue: ReadonlyArray<Line>): ReadonlyArray<ReadonlyArray<Line>> => {
  if (cue.length === 0) return []
  const dialogue = cue.length > 1 && cue.every(({ text }) => speaker.test(text))
  return dialogue ? cue.map((line) => [line]) : [cue]
}

const speaker = /^\s*(?:<[^<>]*>)*[-\u2013\u2014]/
const maybeTag = /[<{]/

const add = (segments: Segments, lines: ReadonlyArray<Line>, context: string): void => {
  const builder = new Builder()
  const more = { context: context === "" ? undefined : context }
  if (!lines.some(({ text }) => maybeTag.test(text))) {
    for (const [i, { text, from, to }] of lines.entries()) {
      if (i > 0) builder.text(" ", lines[i - 1]!.to, from)
      builder.text(text, from, to)
    }
    segments.add(builder, writingOf(lines), more)
    return
  }
  const names: Array<string> = []
  const tagged = lines.some(({ text }) => text.search(tag) >= 0)
  for (const [i, { text, from }] of lines.entries()) {
    let at = 0
    const words = (to: number): void => {
      if (to > at) builder.text(text.slice(at, to), from + at, from + to)
    }
    for (const found of text.matchAll(tag)) {
      words(found.index)
      at = found.index + found[0].length
      const span = [from + found.index, from + at] as const
      const name = found[2]?.toLowerCase()
      if (name === undefined) builder.point(...span)
      else if (found[1] === "") {
        names.push(name)
        builder.start(...span)
      } else if (names.at(-1) === name) {
        names.pop()
        builder.end(...span)
      } else builder.point(...span)
    }
    words(text.length)
    if (i + 1 === lines.length) break
    // In a cue with tags, the line breaks between them are preserved.
    if (tagged) builder.point(lines[i]!.to, lines[i + 1]!.from)
    else builder.text(" ", lines[i]!.to, lines[i + 1]!.from)
  }
  segments.add(builder, tagged ? oneLine : writingOf(lines), more)
}

const escape = (text: string): string => text.replace(/[\r\n]+/g, " ").replaceAll("-->", "\u2192")
const oneLine: Writing = { escape }

/** Line breaks of a cue are blanks in its segment's text. A changed text is broken again into the same
 *  number of lines. */
const writingOf = (lines: ReadonlyArray<Line>): Writing => {
  if (lines.length === 1) return oneLine
  const widths = lines.map(({ text }) => Math.max(1, text.length))
  const all = widths.reduce((sum, width) => sum + width, 0)
  const end = lines[0]!.end
  const columns = widths.every((width) => width <= columnsMax) ? columnsMax : Infinity
  return {
    escape,
    leaf: (item, text) => [
      {
        from: item.from,
        to: item.to,
        parts: [text === "" ? "" : broken(escape(text), lines.length, widths, all, columns, end)]
      }
    ]
  }
}

const broken = (
  text: string,
  count: number,
  widths: ReadonlyArray<number>,
  all: number,
  columns: number,
  end: string
): string => {
  if (count === 1) return text
  const words = text.split(" ")
  const lines: Array<string> = []
  for (let i = 0; i < count - 1; i++) {
    const want = Math.min(columns, Math.round((text.length * widths[i]!) / all))
    const taken: Array<string> = []
    let length = 0
    while (words.length > count - 1 - i && (taken.length === 0 || length + words[0]!.length / 2 < want)) {
      length += words[0]!.length + 1
      taken.push(words.shift()!)
    }
    lines.push(taken.join(" "))
  }
  lines.push(words.join(" "))
  return lines.join(end)
}
