/** Converts segments to the text that goes through Apertium's programs, and back. It is guaranteed that a
 *  text which comes back unchanged yields the same segment: opaque units travel as superblanks, and special
 *  characters are escaped. Source: docs/spec/engines.md, section 2.4. */
import type { EngineSegment, SegmentUnit } from "../ports.ts"

const specialCharacters = /[\\^$/[\]{}<>@]/g

/** Escapes special characters. A tilde triggers the post-generator even when it is escaped, so it travels as
 *  a superblank. */
export const escape = (text: string): string =>
  text.replaceAll("\0", " ").replace(specialCharacters, "\\$&").replaceAll("~", "[~]")

const unescape = (text: string): string => text.replaceAll("[~]", "~").replace(/\\(.)/gs, "$1")

/** A segment on its way through a pipeline. */
export interface StreamText {
  readonly text: string
  /** The blanks around the text, which do not go through. */
  readonly lead: string
  readonly trail: string
  /** True when a full stop was added, which has to be removed again. */
  readonly stopAdded: boolean
  /** True when the text itself contains double blanks. */
  readonly hasDoubleBlanks: boolean
}

export const streamOf = ({ units }: EngineSegment): StreamText => {
  const raw = units.map((unit) => (unit._tag === "text" ? escape(unit.text) : `[<x${unit.id}>]`)).join("")
  const core = raw.trim()
  const lead = raw.slice(0, raw.length - raw.trimStart().length)
  const trail = core === "" ? "" : raw.slice(raw.trimEnd().length)
  const stopAdded = !/[.!?…:;。！？](?:\[<x\d+>\])*$/.test(core)
  return {
    // The full stop is separated from the last word, because "No." would be read as an abbreviation of
    // number.
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
