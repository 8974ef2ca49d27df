/** Segments of a document through the translator: cut into sentences like any text, codes as opaque units, and joined again.
 *  Source: documents 2 "To the engine and back", 3.6; translation 3.3. */
import { Effect } from "effect"
import type { Ports, TranslateBatch } from "../../actors/documents/ports.ts"
import { JobFault } from "../../actors/documents/ports.ts"
import { EngineFault, type Engines, type Segment } from "../../actors/engines/ports.ts"
import { mark, plainOf } from "../formats/marks.ts"
import { languageOf, pairFor } from "./languages.ts"
import { cut, Draft, render, withPlaceholders, type Piece } from "./segments.ts"

const batchMsMax = 60_000
/** Marks may not come out of an engine's text by themselves. */
const piecesOf = (text: string): Array<Piece> => {
  const pieces: Array<Piece> = []
  let from = 0
  for (const found of text.matchAll(mark)) {
    withPlaceholders(text.slice(from, found.index), pieces)
    const edge = found[2]!
    pieces.push({ raw: found[0], role: edge === "\uFDD1" ? "open" : edge === "\uFDD2" ? "close" : edge === "\uFDD3" ? "void" : "inside" })
    from = found.index + found[0].length
  }
  return withPlaceholders(text.slice(from), pieces)
}
const marks = /[\uFDD0-\uFDD4]/g
const clean = ({ units }: Segment): Segment => ({ units: units.map((unit) => unit.kind === "text" ? { kind: "text", text: unit.text.replace(marks, "") } : unit) })

export const translateBatch = (engines: Engines, { source, target, options, texts, context }: TranslateBatch): ReturnType<Ports["translate"]> => Effect.suspend(() => {
  const { translator } = engines, known = languageOf(target)!, pair = pairFor(translator, source, known)
  if (pair === undefined) return Effect.fail(new EngineFault({ reason: "unsupported", engine: translator.info.id, detail: `${source} to ${target}` }))
  const drafts = texts.map((text) => { const draft = new Draft(); cut(piecesOf(text), "1", source, draft); return draft })
  const segments = drafts.flatMap((draft) => draft.segments)
  if (segments.length === 0) return Effect.succeed({ texts, engine: translator.info.id })
  return translator.translate({ source, target: pair, segments, formality: options.formality, ...(context === undefined ? {} : { context }) }).pipe(
    Effect.timeoutOrElse({ duration: batchMsMax, orElse: () => Effect.fail(new EngineFault({ reason: "timeout", engine: translator.info.id, detail: `no answer within ${batchMsMax} ms` })) }),
    Effect.map(({ segments: made, engine }) => {
      let from = 0
      return { engine, texts: drafts.map((draft) => render(draft, made.slice(from, from += draft.sentences.length).map(clean), { repair: true, escape: false, target })) }
    }))
})

/** The given source, or the detected one; a document in its target language is refused. */
export const sourceLanguageOf = (engines: Engines, source: string | null, target: string, texts: ReadonlyArray<string>): string | JobFault => {
  const known = languageOf(target)!
  const found = source ?? engines.detector.detect(texts.map(plainOf).join("\n")).language?.split("-")[0]
  const base = (found === undefined ? undefined : languageOf(found))?.base ?? "en"
  if (base === known.base) return new JobFault({ text: "Source and target language are equal." })
  return pairFor(engines.translator, base, known) === undefined ? new JobFault({ text: "Value for 'target_lang' not supported." }) : base
}
