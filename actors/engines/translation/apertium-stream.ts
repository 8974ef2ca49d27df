/** Segments as the text that goes through Apertium's programs, and back. It is guaranteed that
 *  opaque units, which go as superblanks, and special characters, which go escaped, come back as they were.
 *  Source: docs/spec/engines.md, section 2.4. */
import type { EngineSegment, SegmentUnit } from "../ports.ts"

const specialCharacters = /[\\^$/[\]{}<>@]/g

/** Escapes special characters. A tilde wakes the post-generator even then, so it goes as a superblank. */
export const escape = (text: string): string =>
  text.replaceAll("\0", " ").replace(specialCharacters, "\\$&").replaceAll("~", "[~]")

const unescape = (text: string): string => text.replaceAll("[~]", "~").replace(/\\(.)/gs, "$1")

/** A segment on its way through a pipeline. */
export interface StreamText {
  readonly text: string
  /** The blanks around the text, which do not go through. */
  readonly lead: string
  readonly trail: string
  /** A full stop was added, and has to be taken away again. */
  readonly stopAdded: boolean
  /** The text has double blanks of its own. */
  readonly hasDoubleBlanks: boolean
}

export const streamOf = ({ units }: EngineSegment): StreamText => {
  const raw = units.map((unit) => (unit._tag === "text" ? escape(unit.text) : `[<x${unit.id}>]`)).join("")
  const core = raw.trim()
  const lead = raw.slice(0, raw.length - raw.trimStart().length)
  const trail = core === "" ? "" : raw.slice(raw.trimEnd().length)
  const stopAdded = !/[.!?…:;。！？](?:\[<x\d+>\])*$/.test(core)
  return {
    // The full stop stands apart from the last word: "No." is short for number.
    text: stopAdded ? `${core} .[]` : `${core}[]`,
    lead,
    trail,
    stopAdded,
    hasDoubleBlanks: core.includes("  ")
  }
}

export const segmentOf = (
  answer: string,
  { lead, trail, stopAdded, hasDoubleBlanks }: StreamText
): EngineSegment => {
  let text = answer.replace(/\[\]/g, "").trim()
  if (stopAdded) {
    const marks = /(?:\[<x\d+>\])*$/.exec(text)![0]
    const words = text.slice(0, text.length - marks.length)
    if (words.endsWith(".")) text = words.slice(0, -1).trimEnd() + marks
  }
  text = lead + (hasDoubleBlanks ? text : text.replace(/ {2,}/g, " ")) + trail
  const units: Array<SegmentUnit> = []
  for (const [i, part] of text.split(/\[<x(\d+)>\]/).entries()) {
    if (i % 2 === 1) units.push({ _tag: "opaque", id: Number(part) })
    else if (part !== "") units.push({ _tag: "text", text: unescape(part) })
  }
  return { units }
}
