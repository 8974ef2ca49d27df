/** The customizations that a translation names and that apply to every engine: glossaries, a style list and
 *  a memory. They are resolved once per request, for text, documents and voice alike; no engine knows of
 *  them.
 *  Source: docs/spec/translation.md, sections 3.1, 3.3.3–5, 7, 9, 10. */
import type { Store } from "../../../storage/store.ts"
import { dictionaryOf, Glossaries, TermCache } from "../glossaries/records.ts"
import type { Terms } from "../glossaries/terms.ts"
import type { SupportedLanguage } from "../languages.ts"
import type { MemoryUse, MemorySearch } from "../memories/search.ts"
import type { Refusal } from "../problems.ts"
import { effectOf } from "../styles/effect.ts"
import type { StyleList } from "../styles/records.ts"

export interface CustomizationRequest {
  readonly source: SupportedLanguage | undefined
  readonly target: SupportedLanguage
  readonly glossaryIds: ReadonlyArray<string>
  readonly styleId: string | undefined
  readonly memoryId: string | undefined
  readonly memoryThreshold: number
}

export interface Customization {
  /** Names the glossaries and the style list with their versions; it is part of the cache key. */
  readonly name: string
  readonly terms: Terms | undefined
  readonly memory: MemoryUse | undefined
  /** Instructions, for engines that accept them. */
  readonly instructions: ReadonlyArray<string>
  /** Applies the typography of the style list to text from an engine or memory. */
  readonly finish: ((text: string) => string) | undefined
}

export const noCustomization: Customization = {
  name: "",
  terms: undefined,
  memory: undefined,
  instructions: [],
  finish: undefined
}

export interface CustomizationsDeps {
  readonly store: Store
  readonly styles: { find(accountId: string, styleId: string): StyleList | undefined }
  readonly memories: Pick<MemorySearch, "use">
}

export class Customizations {
  private readonly deps: CustomizationsDeps
  private readonly cache: TermCache

  constructor(deps: CustomizationsDeps) {
    this.deps = deps
    this.cache = new TermCache(deps.store)
  }

  of(accountId: string, request: CustomizationRequest): Customization | Refusal {
    const { glossaryIds, styleId, memoryId, target } = request
    if (glossaryIds.length === 0 && styleId === undefined && memoryId === undefined) return noCustomization
    const { store, styles, memories } = this.deps
    const used = []
    for (const glossaryId of glossaryIds) {
      const glossary = Glossaries.get(store, [accountId, glossaryId.toLowerCase()])
      if (glossary === undefined) return { _tag: "NotFound", what: "Glossary" }
      const dictionary = dictionaryOf(glossary, request.source?.base ?? "", target.base)
      if (dictionary === undefined)
        return {
          _tag: "Refused",
          message: "No dictionary found for language pair",
          code: "unsupported_language_pair"
        }
      used.push({ glossaryId: glossary.glossaryId, dictionary })
    }
    const style = styleId === undefined ? undefined : styles.find(accountId, styleId)
    if (styleId !== undefined && style === undefined) return { _tag: "NotFound", what: "Style list" }
    if (style !== undefined && style.language !== target.base)
      return {
        _tag: "Invalid",
        name: "style_id",
        detail: "The style list is of another language than target_lang."
      }
    const memory =
      memoryId === undefined
        ? undefined
        : memories.use(accountId, memoryId, request.source, target, request.memoryThreshold)
    if (memoryId !== undefined && memory === undefined)
      return { _tag: "NotFound", what: "Translation memory" }
    const effect = style === undefined ? undefined : effectOf(style)
    return {
      name: `${used.map(({ dictionary }) => dictionary.version).join()} ${style === undefined ? "" : `${style.styleId} ${style.version}`}`,
      terms: used.length === 0 ? undefined : this.cache.of(used),
      memory,
      instructions: effect?.instructions ?? [],
      finish: effect?.finish
    }
  }
}
