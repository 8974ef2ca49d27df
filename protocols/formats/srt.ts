/** SubRip captions: the words of each cue; numbers, times, coordinates and the cue's line count stay as they are. Source: documents 5.8. */
import { BadDocument, type Format } from "./document.ts"
import { decodePlain, encodePlain } from "./encoding.ts"
import { Builder, Segments, spliced, type Writing } from "./splice.ts"

const line = /([^\r\n]*)(\r\n|\r|\n|$)/g
const time = /^\s*-?\d{1,3}:\d{1,2}:\d{1,2}(?:[,.]\d{1,4})?\s*-->\s*-?\d{1,3}:\d{1,2}:\d{1,2}(?:[,.]\d{1,4})?(?:\s.*)?$/
const tag = /<(\/?)([A-Za-z][\w]*)(?:\s[^<>]*)?>|\{\\[^{}]*\}/g
const columnsMax = 42

interface Line { readonly text: string; readonly from: number; readonly to: number; readonly end: string }

export const srt: Format = {
  id: "srt", extensions: ["srt"], mime: "application/x-subrip",
  inspect: (bytes) => { if (bytes.length === 0) throw new BadDocument("empty") },
  extract: (bytes, options) => {
    const file = decodePlain(bytes), lines: Array<Line> = []
    for (const found of file.text.matchAll(line)) {
      if (found[0] === "") break
      lines.push({ text: found[1]!, from: found.index, to: found.index + found[1]!.length, end: found[2]! })
    }
    const segments = new Segments(options)
    let cue: Array<Line> = [], inCue = false, times = 0, said = ""
    const turn = (): void => {
      for (const part of spokenParts(cue)) {
        add(segments, part, said)
        said = part.map(({ text }) => text).join(" ").slice(0, 200)
      }
      cue = []
    }
    for (const each of lines) {
      if (time.test(each.text)) {
        if (inCue && cue.length > 0 && /^\s*\d+\s*$/.test(cue.at(-1)!.text)) cue.pop()      // the number of a cue without a blank line before it
        turn()
        inCue = true
        times++
      } else if (each.text.trim() === "") { turn(); inCue = false }
      else if (inCue) cue.push(each)
    }
    turn()
    if (times === 0) throw new BadDocument("not an SRT file")
    return {
      segments: segments.list, characters: segments.characters, warnings: [],
      rebuild: (translated) => {
        const text = spliced(file.text, segments.placed, translated)
        return text === file.text ? bytes : encodePlain(text, file)
      }
    }
  }
}
/** Lines that begin with a dash are different speakers, and translated one by one. */
const spokenParts = (cue: ReadonlyArray<Line>): ReadonlyArray<ReadonlyArray<Line>> =>
  cue.length > 1 && cue.every(({ text }) => /^\s*(?:<[^<>]*>)*[-\u2013\u2014]/.test(text)) ? cue.map((each) => [each]) : cue.length === 0 ? [] : [cue]

const add = (segments: Segments, lines: ReadonlyArray<Line>, context: string): void => {
  const builder = new Builder(), names: Array<string> = [], tagged = lines.some(({ text }) => text.search(tag) >= 0)
  for (const [i, { text, from }] of lines.entries()) {
    let at = 0
    const words = (to: number): void => { if (to > at) builder.text(text.slice(at, to), from + at, from + to) }
    for (const found of text.matchAll(tag)) {
      words(found.index)
      at = found.index + found[0].length
      const span = [from + found.index, from + at] as const, name = found[2]?.toLowerCase()
      if (name === undefined) builder.point(...span)
      else if (found[1] === "") { names.push(name); builder.start(...span) }
      else if (names.at(-1) === name) { names.pop(); builder.end(...span) }
      else builder.point(...span)
    }
    words(text.length)
    if (i + 1 === lines.length) break
    // Where a cue holds tags, its breaks stay where they are between them.
    if (tagged) builder.point(lines[i]!.to, lines[i + 1]!.from)
    else builder.text(" ", lines[i]!.to, lines[i + 1]!.from)
  }
  segments.add(builder, tagged ? { escape } : writingOf(lines), context === "" ? {} : { context })
}
const escape = (text: string): string => text.replace(/[\r\n]+/g, " ").replaceAll("-->", "\u2192")
/** The breaks of a cue stand as blanks in its text; where that text changes it is broken anew, into as many lines. */
const writingOf = (lines: ReadonlyArray<Line>): Writing => {
  if (lines.length === 1) return { escape }
  const widths = lines.map(({ text }) => Math.max(1, text.length)), all = widths.reduce((sum, width) => sum + width, 0), end = lines[0]!.end
  const columns = widths.every((width) => width <= columnsMax) ? columnsMax : Infinity
  return { escape, leaf: (item, text) => [{ from: item.from, to: item.to, parts: [text === "" ? "" : broken(escape(text), lines.length, widths, all, columns, end)] }] }
}
const broken = (text: string, count: number, widths: ReadonlyArray<number>, all: number, columns: number, end: string): string => {
  if (count === 1) return text
  const words = text.split(" "), lines: Array<string> = []
  for (let i = 0; i < count - 1; i++) {
    const want = Math.min(columns, Math.round(text.length * widths[i]! / all))
    const taken: Array<string> = []
    let length = 0
    while (words.length > count - 1 - i && (taken.length === 0 || length + words[0]!.length / 2 < want)) { length += words[0]!.length + 1; taken.push(words.shift()!) }
    lines.push(taken.join(" "))
  }
  lines.push(words.join(" "))
  return lines.join(end)
}
