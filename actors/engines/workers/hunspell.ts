/** The worker of Hunspell (WASM): words that are in no dictionary, and the likeliest word for each.
 *  It is guaranteed that a dictionary loads at its first use, not before. Source: docs/spec/engines.md,
 *  section 8.2. */
import { loadModule, type Hunspell } from "hunspell-asm"
import { readFileSync } from "node:fs"
import type { FromCorrector, ToCorrector } from "../correction/worker-corrector.ts"
import type { Edit } from "../ports.ts"
import { onMessage, post, workerOptions } from "../worker-port.ts"

/** Paths without extension, by language. */
const { dictionaries } = workerOptions<{ readonly dictionaries: Readonly<Record<string, string>> }>()

/** Suggestions are asked for so often per text: one costs up to 0.4 s. */
const unknownMax = 20

const cachedMax = 5_000
const module = loadModule()
const loaded = new Map<string, Promise<Hunspell>>()

const spellerOf = (language: string): Promise<Hunspell> => {
  const base = language.split("-")[0]!
  const name = dictionaries[language] === undefined ? base : language
  let speller = loaded.get(name)
  if (speller === undefined)
    loaded.set(
      name,
      (speller = module.then((factory) =>
        factory.create(
          factory.mountBuffer(readFileSync(`${dictionaries[name]!}.aff`), `${name}.aff`),
          factory.mountBuffer(readFileSync(`${dictionaries[name]!}.dic`), `${name}.dic`)
        )
      ))
    )
  return speller
}

const cache = new Map<string, string | null>()

const betterOf = (speller: Hunspell, language: string, word: string): string | null => {
  const key = `${language} ${word}`
  const cached = cache.get(key)
  if (cached !== undefined) return cached
  const better = speller.spell(word) ? null : (speller.suggest(word)[0] ?? null)
  if (cache.size >= cachedMax) cache.delete(cache.keys().next().value!)
  cache.set(key, better)
  return better
}

const answer = async ({ id, text, language }: ToCorrector): Promise<FromCorrector> => {
  const speller = await spellerOf(language)
  const edits: Array<Edit> = []
  let unknown = 0
  let sentenceStart = true
  for (const { segment, index, isWordLike } of new Intl.Segmenter(language, { granularity: "word" }).segment(
    text
  )) {
    if (isWordLike !== true) {
      if (/[.!?\n]/.test(segment)) sentenceStart = true
      continue
    }
    // A capital inside a sentence is a name, which is no mistake, except where nouns have capitals.
    const name = !sentenceStart && segment[0] !== segment[0]!.toLowerCase() && !language.startsWith("de")
    sentenceStart = false
    if (
      name ||
      /[\d@_]/.test(segment) ||
      segment.length < 2 ||
      segment === segment.toUpperCase() ||
      unknown >= unknownMax
    )
      continue
    const better = betterOf(speller, language, segment)
    if (better === null || better === segment) continue
    unknown++
    edits.push({ from: index, to: index + segment.length, text: better, kind: "spelling" })
  }
  return { _tag: "Corrected", id, edits }
}

onMessage((request: ToCorrector) => {
  answer(request)
    .catch((cause: unknown): FromCorrector => ({ _tag: "Failed", id: request.id, detail: String(cause) }))
    .then(post)
})

module.then(
  () => post<FromCorrector>({ _tag: "Ready" }),
  (cause: unknown) => {
    throw cause
  }
)
