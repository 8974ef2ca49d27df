/** Translates texts of one language pair through memory, glossaries and the engine, in that order, for
 *  services with their own texts (documents). Quota, detection and answers are left to the caller.
 *  Source: docs/spec/translation.md, sections 3.3.4–5, 4.1. */
import { Effect } from "effect"
import type {
  EngineFault,
  Formality,
  Language,
  EngineSegment,
  Translator
} from "../../../actors/engines/ports.ts"
import type { Customization } from "./customizations.ts"
import type { SupportedLanguage } from "../languages.ts"
import type { MemorySearch } from "../memories/search.ts"
import { splitIntoSentences, Draft, type Piece, type Split } from "./segments.ts"
import { piecesOfText, TranslationUnit } from "./translation-unit.ts"

export interface TranslateWithMemoryRequest {
  /** Whose texts they are. */
  readonly account: string
  readonly texts: ReadonlyArray<string>
  readonly source: SupportedLanguage
  readonly target: SupportedLanguage
  /** Target code of the engine (`pairFor`). */
  readonly pair: Language
  readonly split?: Split
  readonly formality?: Formality
  readonly context?: string
  /** Splits a text with its own codes (documents) into pieces. By default a text is plain, with
   *  placeholders. */
  readonly piecesOf?: (text: string) => { readonly pieces: ReadonlyArray<Piece>; readonly coded: boolean }
  /** Removes from an engine's answer what it must not contain. */
  readonly clean?: (segment: EngineSegment) => EngineSegment
}

export interface TranslatedWithMemory {
  /** Translations, one per text and in the same order. */
  readonly texts: ReadonlyArray<string>
  /** Places of the memory's segments that were used; `memories.applied` makes the rows that record this. */
  readonly places: ReadonlyArray<number>
  /** Ids of the engines used; empty when none was needed. */
  readonly engine: string
}

export const translateWithMemory = (
  {
    translator,
    memories
  }: { readonly translator: Translator; readonly memories: Pick<MemorySearch, "find"> },
  customization: Customization,
  {
    account,
    texts,
    source,
    target,
    pair,
    split = "1",
    formality = "default",
    context,
    piecesOf,
    clean = (segment) => segment
  }: TranslateWithMemoryRequest
): Effect.Effect<TranslatedWithMemory, EngineFault> =>
  Effect.gen(function* () {
    const places: Array<number> = []
    const units: Array<TranslationUnit> = []
    for (const text of texts) {
      const draft = new Draft()
      const own = piecesOf?.(text)
      const { memory, terms } = customization
      const pieces = own?.coded === true ? own.pieces : piecesOfText(text, terms)
      splitIntoSentences(pieces, split, source.base, draft)
      const unit = new TranslationUnit(text, draft, own?.coded === true)
      if (memory !== undefined && memory.memory.source === source.base)
        places.push(...(yield* Effect.promise((signal) => unit.applyMemory(memory, memories, signal))))
      if (terms !== undefined) unit.protect(terms)
      units.push(unit)
    }
    const segments = units.flatMap(({ untranslated: left }) => left)
    const result =
      segments.length === 0
        ? { segments, engine: "" }
        : yield* translator.translate({
            account,
            source: source.base,
            target: pair,
            segments,
            formality,
            ...(context === undefined ? {} : { context }),
            ...(customization.instructions.length === 0 ? {} : { instructions: customization.instructions })
          })
    const answers = result.segments.map(clean)
    let from = 0
    return {
      places,
      engine: result.engine,
      texts: units.map((unit) => {
        from += unit.acceptAnswers(answers, from, customization.finish)
        return unit.text({
          repair: translator.verbatim !== true,
          escape: false,
          target: target.code.toLowerCase()
        })
      })
    }
  })
