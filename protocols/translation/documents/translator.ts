/** Translates the segments of a document: each is split into sentences like any text, with its codes as
 *  opaque units, and joined again.
 *  Source: docs/spec/documents.md, sections 2 "To the engine and back", 3.6; docs/spec/translation.md,
 *  section 3.3. */
import { Effect } from "effect"
import type { DocumentPort, TranslateBatch } from "../../../actors/documents/ports.ts"
import { customizationsEngine, JobFault } from "../../../actors/documents/ports.ts"
import { EngineFault, type Engines, type EngineSegment } from "../../../actors/engines/ports.ts"
import { mark, plainOf } from "../../formats/marks.ts"
import { noCustomization, type Customization } from "../text/customizations.ts"
import { translateWithMemory } from "../text/translate-with-memory.ts"
import { languageOf, pairFor } from "../languages.ts"
import type { MemorySearch } from "../memories/search.ts"
import { isRefusal, type Refusal } from "../problems.ts"
import { withPlaceholders, type Piece } from "../text/segments.ts"

const batchMsMax = 60_000

/** Role of the markup by the last character of its mark; any other mark stands for words. */
const roleOfMark: Readonly<Record<string, "open" | "close" | "void">> = {
  "\uFDD1": "open",
  "\uFDD2": "close",
  "\uFDD3": "void"
}

/** Splits a text at its marks. An engine's own text must not contain any. */
const piecesOf = (text: string): Array<Piece> => {
  const pieces: Array<Piece> = []
  let from = 0
  for (const found of text.matchAll(mark)) {
    withPlaceholders(text.slice(from, found.index), pieces)
    pieces.push({ raw: found[0], role: roleOfMark[found[2]!] ?? "inside" })
    from = found.index + found[0].length
  }
  return withPlaceholders(text.slice(from), pieces)
}

const marks = /[\uFDD0-\uFDD4]/g
const hasMarks = (text: string): boolean => text.search(marks) >= 0

const withoutMarks = ({ units }: EngineSegment): EngineSegment => ({
  units: units.map((unit) =>
    unit._tag === "text" ? { _tag: "text", text: unit.text.replace(marks, "") } : unit
  )
})

/** Resolves the customizations of the account that owns the job, anew for each batch. A glossary, style list
 *  or memory deleted meanwhile fails the job; it is never silently ignored. */
export type ResolveCustomization = (
  batch: Pick<TranslateBatch, "source" | "target" | "accountId" | "options">
) => Customization | Refusal

export const translateBatch = (
  engines: Engines,
  aids: { readonly of: ResolveCustomization; readonly memories: MemorySearch } | undefined,
  batch: TranslateBatch
): ReturnType<DocumentPort["translate"]> =>
  Effect.suspend(() => {
    const { translator } = engines
    const { source, target, options, texts, context } = batch
    const targetLanguage = languageOf(target)!
    const pair = pairFor(translator, source, targetLanguage)
    const unsupported = (detail: string) =>
      Effect.fail(new EngineFault({ reason: "unsupported", engine: translator.info.id, detail }))
    if (pair === undefined) return unsupported(`${source} to ${target}`)
    const customization = aids?.of(batch) ?? noCustomization
    if (isRefusal(customization))
      return Effect.fail(
        new EngineFault({
          reason: "bad-input",
          engine: customizationsEngine,
          detail:
            customization._tag === "NotFound" && customization.what !== undefined
              ? `${customization.what} not found`
              : "What the document names does not fit any more."
        })
      )
    return translateWithMemory({ translator, memories: aids?.memories ?? noMemories }, customization, {
      // A customer's document does not hold up the same customer's texts.
      account: `${batch.accountId} documents`,
      texts,
      source: languageOf(source)!,
      target: targetLanguage,
      pair,
      formality: options.formality,
      piecesOf: (text) => ({ pieces: piecesOf(text), coded: hasMarks(text) }),
      clean: withoutMarks,
      ...(context === undefined ? {} : { context })
    }).pipe(
      Effect.timeoutOrElse({
        duration: batchMsMax,
        orElse: () =>
          Effect.fail(
            new EngineFault({
              reason: "timeout",
              engine: translator.info.id,
              detail: `no answer within ${batchMsMax} ms`
            })
          )
      }),
      Effect.map((result) => ({
        texts: result.texts,
        engine: result.engine === "" ? translator.info.id : result.engine
      }))
    )
  })

const noMemories: Pick<MemorySearch, "find"> = { find: async () => undefined }

/** Returns the requested source language, or the detected one; a document that is already in the target
 *  language is refused. */
export const sourceLanguageOf = (
  engines: Engines,
  source: string | null,
  target: string,
  texts: ReadonlyArray<string>
): string | JobFault => {
  const targetLanguage = languageOf(target)!
  const found = source ?? engines.detector.detect(texts.map(plainOf).join("\n")).language?.split("-")[0]
  const base = (found === undefined ? undefined : languageOf(found))?.base ?? "en"
  if (base === targetLanguage.base) return new JobFault({ text: "Source and target language are equal." })
  return pairFor(engines.translator, base, targetLanguage) === undefined
    ? new JobFault({ text: "Value for 'target_lang' not supported." })
    : base
}
