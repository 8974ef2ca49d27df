/** The effect of a voice session's glossary and spoken terms: terms are protected above the translator, and
 *  hints go to the recognizer. The session stores only their ids and their content is read at each use, so an
 *  edit applies from the next sentence on.
 *  Source: docs/spec/translation.md, section 12.1. */
import { Effect } from "effect"
import type {
  EngineFault,
  TranslateRequest,
  TranslateResult,
  Translator
} from "../../../actors/engines/ports.ts"
import type { Store } from "../../../storage/store.ts"
import { dictionaryOf, Glossaries, TermCache } from "../glossaries/records.ts"
import { Draft, protect, render } from "../text/segments.ts"
import { SpokenTermsTable } from "./spoken-terms.ts"

export interface VoiceCustomizationIds {
  readonly accountId: string
  readonly glossaryId?: string | undefined
  readonly spokenTermsId?: string | undefined
}

export interface VoiceAids {
  readonly translate: (
    ids: VoiceCustomizationIds,
    request: TranslateRequest
  ) => Effect.Effect<TranslateResult, EngineFault>
  /** Returns all terms of the requested language, or of every language. */
  readonly hints: (ids: VoiceCustomizationIds, language: string | undefined) => ReadonlyArray<string>
}

const baseOf = (language: string): string => language.split("-")[0]!

export const voiceAids = (store: Store, translator: Translator, cache = new TermCache(store)): VoiceAids => ({
  translate: ({ accountId, glossaryId }, request) =>
    Effect.suspend(() => {
      const glossary = glossaryId === undefined ? undefined : Glossaries.get(store, [accountId, glossaryId])
      const dictionary =
        glossary === undefined ? undefined : dictionaryOf(glossary, request.source, baseOf(request.target))
      const terms =
        dictionary === undefined ? undefined : cache.of([{ glossaryId: glossary!.glossaryId, dictionary }])
      if (terms === undefined) return translator.translate(request)
      const drafts = request.segments.map((segment) => {
        const draft = new Draft()
        draft.parts.push(0)
        draft.sentences.push({ segment, raws: [], first: "", last: "" })
        return { draft, done: protect(draft, 0, terms.find, false) }
      })
      const left = drafts.filter(({ done }) => !done).map(({ draft }) => draft.segments[0]!)
      const translated =
        left.length === 0
          ? Effect.succeed<TranslateResult>({ segments: [], engine: "" })
          : translator.translate({ ...request, segments: left })
      return Effect.map(translated, ({ segments, engine }) => {
        let at = 0
        return {
          engine,
          segments: drafts.map(({ draft, done }) => ({
            units: [
              {
                _tag: "text" as const,
                text: render(draft, [done ? draft.segments[0]! : segments[at++]!], {
                  repair: false,
                  escape: false,
                  target: request.target
                })
              }
            ]
          }))
        }
      })
    }),
  hints: ({ accountId, spokenTermsId }, language) =>
    spokenTermsId === undefined
      ? []
      : (SpokenTermsTable.get(store, [accountId, spokenTermsId])?.lists.flatMap((list) =>
          language === undefined || list.language === baseOf(language) ? list.terms : []
        ) ?? [])
})
