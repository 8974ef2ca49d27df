/** Texts of one language pair through memory, glossaries and the engine, in that order: for services that
 *  bring texts of their own (documents). What quota, detection and answers are is the caller's. Source:
 *  translation sections 3.3.4–5, 4.1. */
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
import { splitIntoSentences, Draft, withPlaceholders, type Piece, type Split } from "./segments.ts"
import { applyWholeLineTerms, TranslationUnit } from "./translation-unit.ts"

export interface TranslateWithMemoryRequest {
  readonly texts: ReadonlyArray<string>
  readonly source: SupportedLanguage
  readonly target: SupportedLanguage
  /** The engine's code of the target (`pairFor`). */
  readonly pair: Language
  readonly split?: Split
  readonly formality?: Formality
  readonly context?: string
  /** Of texts with codes of their own (documents): their pieces. Default: plain text with placeholders. */
  readonly piecesOf?: (text: string) => { readonly pieces: ReadonlyArray<Piece>; readonly coded: boolean }
  /** What an engine's text must not hold. */
  readonly clean?: (segment: EngineSegment) => EngineSegment
}

export interface TranslatedWithMemory {
  /** One per text, same order. */
  readonly texts: ReadonlyArray<string>
  /** Places of the memory's segments that served: `memories.applied` makes the rows that say so. */
  readonly places: ReadonlyArray<number>
  /** Ids of the engines that answered; empty when none was needed. */
  readonly engine: string
}

export const translateWithMemory = (
  {
    translator,
    memories
  }: { readonly translator: Translator; readonly memories: Pick<MemorySearch, "find"> },
  aid: Customization,
  {
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
    const sheets: Array<TranslationUnit> = []
    for (const text of texts) {
      const draft = new Draft()
      const own = piecesOf?.(text)
      splitIntoSentences(
        own?.coded === true
          ? own.pieces
          : aid.terms === undefined
            ? withPlaceholders(text)
            : applyWholeLineTerms(text, aid.terms),
        split,
        source.base,
        draft
      )
      const sheet = new TranslationUnit(text, draft, own?.coded === true)
      const { memory, terms } = aid
      if (memory !== undefined && memory.memory.source === source.base)
        places.push(...(yield* Effect.promise(() => sheet.applyMemory(memory, memories))))
      if (terms !== undefined) sheet.protect(terms)
      sheets.push(sheet)
    }
    const segments = sheets.flatMap(({ untranslated: left }) => left)
    const made =
      segments.length === 0
        ? { segments, engine: "" }
        : yield* translator.translate({
            source: source.base,
            target: pair,
            segments,
            formality,
            ...(context === undefined ? {} : { context }),
            ...(aid.instructions.length === 0 ? {} : { instructions: aid.instructions })
          })
    const answers = made.segments.map(clean)
    let from = 0
    return {
      places,
      engine: made.engine,
      texts: sheets.map((sheet) => {
        from += sheet.acceptAnswers(answers, from, aid.finish)
        return sheet.text({
          repair: translator.verbatim !== true,
          escape: false,
          target: target.code.toLowerCase()
        })
      })
    }
  })
