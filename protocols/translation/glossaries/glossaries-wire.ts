/** Encoders of glossary records for v3 and v2. Source: docs/spec/translation.md, sections 7.1, 8. */
interface Dictionary {
  readonly source: string
  readonly target: string
  readonly entries: number
}

interface Glossary {
  readonly glossaryId: string
  readonly name: string
  readonly createdMs: number
  readonly dictionaries: ReadonlyArray<Dictionary>
}

const time = (atMs: number): string => new Date(atMs).toISOString()

export const dictionaryJson = ({ source, target, entries }: Dictionary) => ({
  source_lang: source,
  target_lang: target,
  entry_count: entries
})

export const glossaryJson = ({ glossaryId, name, createdMs, dictionaries }: Glossary) => ({
  glossary_id: glossaryId,
  name,
  ready: true,
  dictionaries: dictionaries.map(dictionaryJson),
  creation_time: time(createdMs)
})

export const legacyJson = ({ glossaryId, name, createdMs }: Glossary, dictionary: Dictionary) => ({
  glossary_id: glossaryId,
  name,
  ready: true,
  ...dictionaryJson(dictionary),
  creation_time: time(createdMs)
})
