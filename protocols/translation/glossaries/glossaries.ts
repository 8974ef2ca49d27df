/** Glossaries of the v3 API. Each has several dictionaries, which are merged, replaced, read and deleted;
 *  every answer is sent after its commit.
 *  Source: docs/spec/translation.md, section 7. */
import { randomUUID } from "node:crypto"
import type { Answer, Request, Response, Route } from "../../../runtime/http.ts"
import type { Store, Write } from "../../../storage/store.ts"
import type { Params } from "../../shared/params.ts"
import type { Guard, Guarded } from "../account/guard.ts"
import { glossaryLanguages, languageOf } from "../languages.ts"
import { problem } from "../problems.ts"
import {
  bodyOf,
  buffered,
  bytesOf,
  durable,
  faultOf,
  idIn,
  isResponse,
  noContent,
  notFound,
  objectsIn,
  ok,
  queryOf
} from "../endpoint.ts"
import { fromTsv, parseEntries, type EntriesFormat } from "./entries.ts"
import { dictionaryJson, glossaryJson } from "./glossaries-wire.ts"
import {
  dictionaryBytesMax,
  dictionaryOf,
  Glossaries,
  glossariesMax,
  glossariesOf,
  GlossaryEntries,
  dictionaryRow,
  tsvOf,
  type Dictionary,
  type Glossary,
  type NewDictionary
} from "./records.ts"

export const glossaryBytesMax = 64 * 1_048_576
const nameBytesMax = 1_024

export interface GlossaryDeps {
  readonly store: Store
  readonly clock: () => number
}

const badArgument = (name: string): Response =>
  problem({ _tag: "Refused", message: "Bad request", detail: `Missing or invalid argument: ${name}` })

const unsupportedPair: Response = problem({
  _tag: "Refused",
  message: "Unsupported glossary source and target language pair",
  code: "unsupported_language_pair"
})

export const tooLarge: Response = problem({ _tag: "TooLarge" })
export const glossaryNotFound: Response = notFound("Glossary")
const withoutDictionary: Response = notFound("Dictionary")

export const nameIn = (params: Params): string | Response => {
  const name = params.string("name")
  return name === undefined || name.trim() === "" || bytesOf(name) > nameBytesMax ? badArgument("name") : name
}

/** Reads both languages as base codes: they must differ and support glossaries. */
export const pairIn = (params: Params): { readonly source: string; readonly target: string } | Response => {
  const codes: Array<string> = []
  for (const name of ["source_lang", "target_lang"]) {
    const language = params.string(name)
    if (language === undefined || language === "") return badArgument(name)
    codes.push(languageOf(language)?.base ?? "")
  }
  const [source, target] = codes as [string, string]
  return source === target || !glossaryLanguages.has(source) || !glossaryLanguages.has(target)
    ? unsupportedPair
    : { source, target }
}

export const dictionaryIn = (params: Params): NewDictionary | Response => {
  const pair = pairIn(params)
  if (isResponse(pair)) return pair
  const text = params.string("entries")
  const format: EntriesFormat = params.choice("entries_format", ["tsv", "csv"]) ?? "tsv"
  if (text === undefined || text === "") return badArgument("entries")
  const fault = faultOf(params)
  if (fault !== undefined) return fault
  // Parsed entries have no more bytes than the input, except for white space around phrases.
  const entries = parseEntries(text, format, pair)
  return "detail" in entries
    ? problem({ _tag: "Refused", message: "Invalid glossary entries provided", detail: entries.detail })
    : { ...pair, entries }
}

export class GlossaryRoutes {
  private readonly store: Store
  private readonly clock: () => number

  constructor({ store, clock }: GlossaryDeps) {
    this.store = store
    this.clock = clock
  }

  routes(guard: Guard): ReadonlyArray<Route> {
    const base = "/v3/glossaries"
    const one = `${base}/:glossary_id`
    const body = buffered(glossaryBytesMax)
    const read = (handle: Guarded) => guard("glossaries:read", handle)
    const write = (handle: Guarded) => guard("glossaries:write", handle)
    return [
      { method: "POST", path: base, body, handle: write(this.create) },
      {
        method: "GET",
        path: base,
        handle: read((_, { account }) =>
          ok({ glossaries: glossariesOf(this.store, account.accountId).map(glossaryJson) })
        )
      },
      { method: "GET", path: one, handle: read(this.with((glossary) => ok(glossaryJson(glossary)))) },
      { method: "PATCH", path: one, body, handle: write(this.with(this.patch)) },
      {
        method: "DELETE",
        path: one,
        handle: write(this.with((glossary) => durable(this.store, forget(glossary), () => noContent)))
      },
      { method: "GET", path: `${one}/entries`, handle: read(this.with(this.entries)) },
      { method: "PUT", path: `${one}/dictionaries`, body, handle: write(this.with(this.replace)) },
      { method: "DELETE", path: `${one}/dictionaries`, handle: write(this.with(this.drop)) }
    ]
  }

  /** Handles a request with the account's glossary named in the path. */
  private with(handle: (glossary: Glossary, request: Request) => Answer): Guarded {
    return (request, { account }) => {
      const id = idIn(request, "glossary_id")
      if (isResponse(id)) return id
      const glossary = Glossaries.get(this.store, [account.accountId, id])
      return glossary === undefined ? glossaryNotFound : handle(glossary, request)
    }
  }

  private readonly create: Guarded = (request, { account: { accountId } }) => {
    const params = bodyOf(request)
    if (isResponse(params)) return params
    const name = nameIn(params)
    if (isResponse(name)) return name
    const dictionaryInputs = objectsIn(params, "dictionaries") ?? []
    const fault = faultOf(params)
    if (fault !== undefined) return fault
    const dictionaries: Array<NewDictionary> = []
    for (const one of dictionaryInputs) {
      const dictionary = dictionaryIn(one)
      if (isResponse(dictionary)) return dictionary
      if (
        dictionaries.some(
          ({ source, target }) => source === dictionary.source && target === dictionary.target
        )
      ) {
        return problem({
          _tag: "Refused",
          message: "Bad request",
          detail: `More than one dictionary for ${dictionary.source} to ${dictionary.target}`
        })
      }
      dictionaries.push(dictionary)
    }
    return createGlossary(
      this.store,
      { accountId, name, dictionaries, edited: true, nowMs: this.clock() },
      (glossary) => ok(glossaryJson(glossary), 201)
    )
  }

  private readonly patch = (glossary: Glossary, request: Request): Answer => {
    const params = bodyOf(request)
    if (isResponse(params)) return params
    const name = params.has("name") ? nameIn(params) : glossary.name
    if (isResponse(name)) return name
    const dictionaryInputs = objectsIn(params, "dictionaries") ?? []
    const fault = faultOf(params)
    if (fault !== undefined) return fault
    if (dictionaryInputs.length > 1)
      return problem({
        _tag: "Refused",
        message: "Bad request",
        detail: "At most one dictionary can be changed in one request"
      })
    if (dictionaryInputs.length === 0 && !params.has("name")) return ok(glossaryJson(glossary))
    if (dictionaryInputs.length === 0) return this.keep({ ...glossary, name, edited: true }, [], ok)
    const added = dictionaryIn(dictionaryInputs[0]!)
    if (isResponse(added)) return added
    const { glossaryId } = glossary
    const before = dictionaryOf(glossary, added.source, added.target)
    const merged = new Map(before === undefined ? [] : fromTsv(tsvOf(this.store, glossaryId, before)))
    for (const [source, target] of added.entries) merged.set(source, target)
    const { dictionary, write, bytes } = dictionaryRow(
      glossaryId,
      { ...added, entries: [...merged] },
      randomUUID()
    )
    if (bytes > dictionaryBytesMax) return tooLarge
    const dictionaries =
      before === undefined
        ? [...glossary.dictionaries, dictionary]
        : glossary.dictionaries.map((one) => (one === before ? dictionary : one))
    return this.keep({ ...glossary, name, edited: true, dictionaries }, [write], ok)
  }

  private keep(
    glossary: Glossary,
    writes: ReadonlyArray<Write>,
    answer: (record: unknown) => Response
  ): Answer {
    return durable(
      this.store,
      [Glossaries.put([glossary.accountId, glossary.glossaryId], glossary, "present"), ...writes],
      () => answer(glossaryJson(glossary)),
      () => glossaryNotFound
    )
  }

  private readonly replace = (glossary: Glossary, request: Request): Answer => {
    const params = bodyOf(request)
    if (isResponse(params)) return params
    const input = dictionaryIn(params)
    if (isResponse(input)) return input
    const { dictionary, write, bytes } = dictionaryRow(glossary.glossaryId, input, randomUUID())
    if (bytes > dictionaryBytesMax) return tooLarge
    return this.keep(
      { ...glossary, edited: true, dictionaries: [...without(glossary, dictionary), dictionary] },
      [write],
      () => ok(dictionaryJson(dictionary))
    )
  }

  /** Finds the dictionary that a query names. */
  private requestedDictionary(glossary: Glossary, request: Request): Dictionary | Response {
    const query = queryOf(request)
    if (isResponse(query)) return query
    const pair = pairIn(query)
    return isResponse(pair) ? pair : (dictionaryOf(glossary, pair.source, pair.target) ?? withoutDictionary)
  }

  private readonly entries = (glossary: Glossary, request: Request): Response => {
    const dictionary = this.requestedDictionary(glossary, request)
    if (isResponse(dictionary)) return dictionary
    const { source, target } = dictionary
    return ok({
      dictionaries: [
        {
          source_lang: source,
          target_lang: target,
          entries: tsvOf(this.store, glossary.glossaryId, dictionary),
          entries_format: "tsv"
        }
      ]
    })
  }

  private readonly drop = (glossary: Glossary, request: Request): Answer => {
    const dictionary = this.requestedDictionary(glossary, request)
    if (isResponse(dictionary)) return dictionary
    return this.keep(
      { ...glossary, edited: true, dictionaries: without(glossary, dictionary) },
      [GlossaryEntries.delete([glossary.glossaryId, dictionary.source, dictionary.target])],
      () => noContent
    )
  }
}

const without = (glossary: Glossary, { source, target }: Dictionary): ReadonlyArray<Dictionary> =>
  glossary.dictionaries.filter((one) => one.source !== source || one.target !== target)

/** Writes that delete a glossary and all its entries. */
export const forget = ({ accountId, glossaryId, dictionaries }: Glossary): ReadonlyArray<Write> => [
  Glossaries.delete([accountId, glossaryId], "present"),
  ...dictionaries.map(({ source, target }) => GlossaryEntries.delete([glossaryId, source, target]))
]

export interface NewGlossary {
  readonly accountId: string
  readonly name: string
  readonly dictionaries: ReadonlyArray<NewDictionary>
  readonly edited: boolean
  readonly nowMs: number
}

/** Creates a glossary; refuses with 456 when the account has reached its maximum. */
export const createGlossary = (
  store: Store,
  { accountId, name, dictionaries, edited, nowMs }: NewGlossary,
  answer: (glossary: Glossary) => Response
): Answer => {
  const glossaryId = randomUUID()
  const stored = dictionaries.map((one) => dictionaryRow(glossaryId, one, randomUUID()))
  if (stored.some(({ bytes }) => bytes > dictionaryBytesMax)) return tooLarge
  if (glossariesOf(store, accountId).length >= glossariesMax)
    return problem({ _tag: "QuotaExceeded", owner: "account" })
  const glossary: Glossary = {
    glossaryId,
    accountId,
    name,
    createdMs: nowMs,
    edited,
    dictionaries: stored.map(({ dictionary }) => dictionary)
  }
  return durable(
    store,
    [Glossaries.put([accountId, glossaryId], glossary, "absent"), ...stored.map(({ write }) => write)],
    () => answer(glossary)
  )
}
