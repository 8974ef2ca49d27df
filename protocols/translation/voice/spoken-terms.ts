/** Spoken terms: lists of words per language that the recognizer should expect. They are small, so a
 *  collection is one row.
 *  Source: docs/spec/translation.md, section 11. */
import { Schema } from "effect"
import { randomUUID } from "node:crypto"
import type { Answer, Request, Response, Route } from "../../../runtime/http.ts"
import { table, type Store } from "../../../storage/store.ts"
import type { Params } from "../../shared/params.ts"
import type { Guard, Guarded } from "../account/guard.ts"
import { languageOf, voiceSources } from "../languages.ts"
import { problem } from "../problems.ts"
import {
  bodyOf,
  buffered,
  bytesOf,
  durable,
  faultOf,
  idIn,
  invalid,
  isResponse,
  noContent,
  notFound,
  objectsIn,
  ok,
  queryOf,
  smallBytesMax
} from "../endpoint.ts"
import { codePoints } from "../../shared/code-points.ts"

const TermList = Schema.Struct({ language: Schema.String, terms: Schema.Array(Schema.String) })
type TermList = typeof TermList.Type

export const SpokenTerms = Schema.Struct({
  termsId: Schema.String,
  accountId: Schema.String,
  name: Schema.String,
  createdMs: Schema.Int,
  lists: Schema.Array(TermList)
})

export type SpokenTerms = typeof SpokenTerms.Type

/** Collections by [accountId, termsId]. */
export const SpokenTermsTable = table("translation-spoken-terms", SpokenTerms)

const nameBytesMax = 1_024
const listCharsMax = 300
const perAccountMax = 100

const json = ({ termsId, name, lists, createdMs }: SpokenTerms) => ({
  spoken_terms_id: termsId,
  name,
  term_lists: lists.map(({ language, terms }) => ({ lang: language, entry_count: terms.length })),
  creation_time: new Date(createdMs).toISOString()
})

const termsNotFound = notFound("Spoken terms")

const refused = (detail: string): Response =>
  problem({ _tag: "Refused", message: "Invalid spoken terms provided", detail })

/** Parses terms separated by newlines, with an optional final one. Returns undefined when there are none. */
export const parseTerms = (text: string): ReadonlyArray<string> | { readonly wrong: string } => {
  const lines = text.replace(/\r\n|\r/g, "\n").replace(/\n$/, "")
  if (lines === "") return []
  const terms = lines.split("\n")
  const seen = new Set<string>()
  for (const [i, term] of terms.entries()) {
    if (term === "") return { wrong: `Term ${i} is empty` }
    if (term !== term.trim()) return { wrong: `Term ${i} has white space at its ends` }
    if (/[\p{Cc}\u2028\u2029]/u.test(term)) return { wrong: `Term ${i} contains control characters` }
    if (seen.has(term)) return { wrong: `Term ${i} is a duplicate` }
    seen.add(term)
  }
  return tooLong(terms) ?? terms
}

const tooLong = (terms: ReadonlyArray<string>): { readonly wrong: string } | undefined =>
  codePoints(terms.join("\n")) > listCharsMax
    ? { wrong: `A list has at most ${listCharsMax} characters` }
    : undefined

const nameIn = (params: Params): string | Response => {
  const name = params.string("name")
  if (name === undefined || name === "") return problem({ _tag: "Missing", name: "name" })
  return bytesOf(name) > nameBytesMax ? invalid("name", `At most ${nameBytesMax} bytes.`) : name
}

const languageIn = (params: Params): string | Response => {
  const requested = params.string("lang")
  if (requested === undefined || requested === "") return problem({ _tag: "Missing", name: "lang" })
  const base = languageOf(requested)?.base
  return base !== undefined && voiceSources.has(base) ? base : invalid("lang")
}

const listIn = (params: Params): TermList | Response => {
  const language = languageIn(params)
  if (isResponse(language)) return language
  const text = params.string("entries")
  if (text === undefined) return problem({ _tag: "Missing", name: "entries" })
  const terms = parseTerms(text)
  return "wrong" in terms ? refused(terms.wrong) : { language, terms }
}

export class SpokenTermsRoutes {
  private readonly store: Store
  private readonly clock: () => number

  constructor({ store, clock }: { readonly store: Store; readonly clock: () => number }) {
    this.store = store
    this.clock = clock
  }

  routes(guard: Guard): ReadonlyArray<Route> {
    const base = "/v3/spoken-terms"
    const one = `${base}/:spoken_terms_id`
    const body = buffered(smallBytesMax)
    const voiced = (handle: Guarded) =>
      guard(undefined, (request, using) =>
        using.account.tier === "free"
          ? problem({
              _tag: "Forbidden",
              message: "Forbidden. Authorization failed or feature not available for your plan."
            })
          : handle(request, using)
      )
    return [
      { method: "POST", path: base, body, handle: voiced(this.create) },
      {
        method: "GET",
        path: base,
        handle: voiced((_, { account }) => ok({ spoken_terms: this.all(account.accountId).map(json) }))
      },
      { method: "GET", path: one, handle: voiced(this.with((terms) => ok(json(terms)))) },
      { method: "PATCH", path: one, body, handle: voiced(this.with(this.patch)) },
      {
        method: "DELETE",
        path: one,
        handle: voiced(
          this.with(({ accountId, termsId }) =>
            durable(
              this.store,
              [SpokenTermsTable.delete([accountId, termsId], "present")],
              () => noContent,
              () => termsNotFound
            )
          )
        )
      },
      {
        method: "GET",
        path: `${one}/entries`,
        handle: voiced(
          this.with((terms, request) =>
            this.requestedList(terms, request, ({ language, terms: list }) =>
              ok({ lang: language, entries: list.join("\n") })
            )
          )
        )
      },
      { method: "PUT", path: `${one}/term-lists`, body, handle: voiced(this.with(this.replace)) },
      {
        method: "DELETE",
        path: `${one}/term-lists`,
        handle: voiced(
          this.with((terms, request) =>
            this.requestedList(terms, request, (list) =>
              this.keep({ ...terms, lists: terms.lists.filter((other) => other !== list) }, () => noContent)
            )
          )
        )
      }
    ]
  }

  private all(accountId: string): ReadonlyArray<SpokenTerms> {
    return SpokenTermsTable.range(this.store, { prefix: [accountId], limit: perAccountMax })
      .map(({ value }) => value)
      .sort((a, b) => a.createdMs - b.createdMs)
  }

  private with(handle: (terms: SpokenTerms, request: Request) => Answer): Guarded {
    return (request, { account }) => {
      const id = idIn(request, "spoken_terms_id")
      if (isResponse(id)) return id
      const terms = SpokenTermsTable.get(this.store, [account.accountId, id])
      return terms === undefined ? termsNotFound : handle(terms, request)
    }
  }

  private requestedList(terms: SpokenTerms, request: Request, handle: (list: TermList) => Answer): Answer {
    const query = queryOf(request)
    if (isResponse(query)) return query
    const language = languageIn(query)
    if (isResponse(language)) return language
    const list = terms.lists.find((one) => one.language === language)
    return list === undefined ? notFound("Term list") : handle(list)
  }

  private keep(terms: SpokenTerms, answer: (stored: SpokenTerms) => Response): Answer {
    return durable(
      this.store,
      [SpokenTermsTable.put([terms.accountId, terms.termsId], terms, "present")],
      () => answer(terms),
      () => termsNotFound
    )
  }

  private listsIn(params: Params): ReadonlyArray<TermList> | Response {
    const listInputs = objectsIn(params, "term_lists") ?? []
    const fault = faultOf(params)
    const lists: Array<TermList> = []
    if (fault !== undefined) return fault
    for (const one of listInputs) {
      const list = listIn(one)
      if (isResponse(list)) return list
      if (lists.some(({ language }) => language === list.language))
        return refused(`More than one list for ${list.language}`)
      lists.push(list)
    }
    return lists
  }

  private readonly create: Guarded = (request, { account: { accountId } }) => {
    const params = bodyOf(request)
    if (isResponse(params)) return params
    const name = nameIn(params)
    if (isResponse(name)) return name
    const lists = this.listsIn(params)
    if (isResponse(lists)) return lists
    if (this.all(accountId).length >= perAccountMax)
      return problem({ _tag: "QuotaExceeded", owner: "account", message: "Spoken Terms quota exhausted" })
    const terms: SpokenTerms = { termsId: randomUUID(), accountId, name, createdMs: this.clock(), lists }
    return durable(this.store, [SpokenTermsTable.put([accountId, terms.termsId], terms, "absent")], () =>
      ok(json(terms), 201)
    )
  }

  private readonly patch = (terms: SpokenTerms, request: Request): Answer => {
    const params = bodyOf(request)
    if (isResponse(params)) return params
    const name = params.has("name") ? nameIn(params) : terms.name
    if (isResponse(name)) return name
    const changes = this.listsIn(params)
    if (isResponse(changes)) return changes
    const lists = new Map(terms.lists.map(({ language, terms: list }) => [language, list]))
    for (const { language, terms: added } of changes) {
      const merged = [...new Set([...(lists.get(language) ?? []), ...added])]
      const long = tooLong(merged)
      if (long !== undefined) return refused(long.wrong)
      lists.set(language, merged)
    }
    return this.keep(
      { ...terms, name, lists: [...lists].map(([language, list]) => ({ language, terms: list })) },
      (stored) => ok(json(stored))
    )
  }

  private readonly replace = (terms: SpokenTerms, request: Request): Answer => {
    const params = bodyOf(request)
    if (isResponse(params)) return params
    const list = listIn(params)
    if (isResponse(list)) return list
    return this.keep(
      { ...terms, lists: [...terms.lists.filter(({ language }) => language !== list.language), list] },
      () => ok({ lang: list.language, entry_count: list.terms.length })
    )
  }
}
