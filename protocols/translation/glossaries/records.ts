/** Glossaries as durable records, and their compiled dictionaries, of which the most recently used stay in
 *  memory.
 *  Source: docs/spec/translation.md, sections 7.1, 8. */
import { Schema } from "effect"
import { table, type Store, type Write } from "../../../storage/store.ts"
import { fromTsv, toTsv, type Entry } from "./entries.ts"
import { termsOf, type Terms } from "./terms.ts"

/** A dictionary with base codes. `version` identifies its content and changes with every write. */
export const Dictionary = Schema.Struct({
  source: Schema.String,
  target: Schema.String,
  entries: Schema.Int,
  version: Schema.String
})

export type Dictionary = typeof Dictionary.Type

export const Glossary = Schema.Struct({
  glossaryId: Schema.String,
  accountId: Schema.String,
  name: Schema.String,
  createdMs: Schema.Int,
  /** The glossary was edited through v3, so v2 no longer deletes it. */
  edited: Schema.Boolean,
  /** Dictionaries in order of creation; a replaced one moves to the end. */
  dictionaries: Schema.Array(Dictionary)
})

export type Glossary = typeof Glossary.Type

/** Glossaries by [accountId, glossaryId]. */
export const Glossaries = table("translation-glossaries", Glossary)

/** Entries as TSV by [glossaryId, source, target]. */
export const GlossaryEntries = table("translation-glossary-entries", Schema.String)

export const glossariesMax = 1_000
export const dictionaryBytesMax = 10_485_760

export const glossariesOf = (store: Store, accountId: string): ReadonlyArray<Glossary> =>
  Glossaries.range(store, { prefix: [accountId], limit: glossariesMax })
    .map(({ value }) => value)
    .sort((a, b) => a.createdMs - b.createdMs)

export const dictionaryOf = (glossary: Glossary, source: string, target: string): Dictionary | undefined =>
  glossary.dictionaries.find((one) => one.source === source && one.target === target)

export const tsvOf = (
  store: Store,
  glossaryId: string,
  { source, target }: Pick<Dictionary, "source" | "target">
): string => GlossaryEntries.get(store, [glossaryId, source, target]) ?? ""

export interface NewDictionary {
  readonly source: string
  readonly target: string
  readonly entries: ReadonlyArray<Entry>
}

/** Returns the dictionary and the write that stores its entries. */
export const dictionaryRow = (
  glossaryId: string,
  { source, target, entries }: NewDictionary,
  version: string
): { readonly dictionary: Dictionary; readonly write: Write; readonly bytes: number } => {
  const tsv = toTsv(entries)
  return {
    dictionary: { source, target, entries: entries.length, version },
    write: GlossaryEntries.put([glossaryId, source, target], tsv),
    bytes: Buffer.byteLength(tsv)
  }
}

const charsMax = 64_000_000

/** Cache of compiled dictionaries; the least recently used is evicted first. */
export class TermCache {
  private readonly ready = new Map<string, { readonly terms: Terms; readonly chars: number }>()
  private chars = 0
  private readonly store: Store

  constructor(store: Store) {
    this.store = store
  }

  /** Returns the terms of the dictionaries in `used`, which is in order of priority. */
  of(used: ReadonlyArray<{ readonly glossaryId: string; readonly dictionary: Dictionary }>): Terms {
    const name = used.map(({ dictionary }) => dictionary.version).join(" ")
    const cached = this.ready.get(name)
    if (cached !== undefined) {
      this.ready.delete(name)
      this.ready.set(name, cached)
      return cached.terms
    }
    const texts = used.map(({ glossaryId, dictionary }) => tsvOf(this.store, glossaryId, dictionary))
    const index = {
      terms: termsOf(texts.map(fromTsv)),
      chars: texts.reduce((sum, text) => sum + text.length, 0)
    }
    this.ready.set(name, index)
    this.chars += index.chars
    for (const [oldest, { chars }] of this.ready) {
      if (this.chars <= charsMax || this.ready.size === 1) break
      this.ready.delete(oldest)
      this.chars -= chars
    }
    return index.terms
  }
}
