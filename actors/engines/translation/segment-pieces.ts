/** Cuts what an engine gets, because one long text holds up all others: a run without blanks costs Apertium time by
 *  the square of its length (100 kB: 35 s), a text without end grows by its length. It is guaranteed that a long
 *  run comes back as it was, that pieces end at blanks, and that marks stay where they stand.
 *  Source: docs/spec/engines.md, section 2.4. */
import type { EngineSegment, SegmentUnit } from "../ports.ts"

/** No word of a language that has blanks is longer. */
const runCharsMax = 500

/** A piece costs a tenth of a second at most. */
const pieceCharsMax = 2_000

const longRun = new RegExp(`[^ \\t\\r\\n]{${runCharsMax + 1},}`, "g")

/** True for what engines can get as it is. */
export const isSmall = ({ units }: EngineSegment): boolean => {
  let chars = 0
  for (const unit of units) if (unit._tag === "text") chars += unit.text.length
  return chars <= runCharsMax
}

/** The place behind a blank where a text is cut, or its end. */
const cutOf = (text: string, from: number, roomChars: number): number => {
  if (text.length - from <= roomChars) return text.length
  for (let at = from + roomChars; at > from; at--) if (/[ \t\r\n]/.test(text[at - 1]!)) return at
  // Its first word is longer than the room: it goes whole, for it is shorter than a run.
  const blank = text.slice(from).search(/[ \t\r\n]/)
  return blank < 0 ? text.length : from + blank + 1
}

export interface Pieces {
  readonly pieces: ReadonlyArray<EngineSegment>
  /** Makes one segment of the translated pieces. */
  readonly join: (translated: ReadonlyArray<EngineSegment>) => EngineSegment
}

export const piecesOf = ({ units }: EngineSegment): Pieces => {
  const runs = new Map<number, string>()
  let nextId = units.reduce((id, unit) => (unit._tag === "opaque" ? Math.max(id, unit.id + 1) : id), 0)
  const pieces: Array<EngineSegment> = []
  let piece: Array<SegmentUnit> = []
  let room = pieceCharsMax
  const close = (): void => {
    if (piece.length > 0) pieces.push({ units: piece })
    piece = []
    room = pieceCharsMax
  }
  const addText = (text: string): void => {
    for (let from = 0; from < text.length;) {
      const to = cutOf(text, from, room)
      piece.push({ _tag: "text", text: text.slice(from, to) })
      room -= to - from
      from = to
      if (from < text.length || room <= 0) close()
    }
  }
  const addRun = (run: string): void => {
    runs.set(nextId, run)
    piece.push({ _tag: "opaque", id: nextId++ })
  }
  for (const unit of units) {
    if (unit._tag === "opaque") {
      piece.push(unit)
      continue
    }
    let from = 0
    for (const match of unit.text.matchAll(longRun)) {
      addText(unit.text.slice(from, match.index))
      addRun(match[0])
      from = match.index + match[0].length
    }
    addText(unit.text.slice(from))
  }
  close()
  const textOf = (unit: SegmentUnit): SegmentUnit => {
    const run = unit._tag === "opaque" ? runs.get(unit.id) : undefined
    return run === undefined ? unit : { _tag: "text", text: run }
  }
  return { pieces, join: (translated) => ({ units: translated.flatMap((each) => each.units.map(textOf)) }) }
}
