/** Glossaries of the v2 API, with one dictionary each, over the same rows as v3. A glossary edited through
 *  v3 is represented by its first dictionary and cannot be deleted here.
 *  Source: docs/spec/translation.md, section 8. */
import type { Answer, Request, Response, Route } from "../../../runtime/http.ts"
import type { Store } from "../../../storage/store.ts"
import type { Guard, Guarded } from "../account/guard.ts"
import { problem } from "../problems.ts"
import { bodyOf, buffered, durable, idIn, isResponse, noContent, ok } from "../endpoint.ts"
import {
  createGlossary,
  dictionaryIn,
  forget,
  glossaryBytesMax,
  glossaryNotFound,
  nameIn,
  type GlossaryDeps
} from "./glossaries.ts"
import { legacyJson } from "./glossaries-wire.ts"
import { Glossaries, glossariesOf, tsvOf, type Dictionary, type Glossary } from "./records.ts"

const tsvType = "text/tab-separated-values"

/** Returns whether an Accept header admits TSV; without the header everything is admitted. */
const admits = (accept: string | undefined): boolean =>
  accept === undefined ||
  accept.trim() === "" ||
  accept.split(",").some((part) => {
    const [type, ...parameters] = part.split(";").map((piece) => piece.trim().toLowerCase())
    return (
      [tsvType, "text/*", "*/*"].includes(type!) &&
      !parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))
    )
  })

export class LegacyGlossaryRoutes {
  private readonly store: Store
  private readonly clock: () => number

  constructor({ store, clock }: GlossaryDeps) {
    this.store = store
    this.clock = clock
  }

  routes(guard: Guard): ReadonlyArray<Route> {
    const base = "/v2/glossaries"
    const one = `${base}/:glossary_id`
    const read = (handle: Guarded) => guard("glossaries:read", handle)
    const write = (handle: Guarded) => guard("glossaries:write", handle)
    return [
      { method: "POST", path: base, body: buffered(glossaryBytesMax), handle: write(this.create) },
      {
        method: "GET",
        path: base,
        handle: read((_, { account }) =>
          ok({
            glossaries: glossariesOf(this.store, account.accountId).flatMap((glossary) => {
              const [first] = glossary.dictionaries
              return first === undefined ? [] : [legacyJson(glossary, first)]
            })
          })
        )
      },
      {
        method: "GET",
        path: one,
        handle: read(this.with((glossary, dictionary) => ok(legacyJson(glossary, dictionary))))
      },
      { method: "GET", path: `${one}/entries`, handle: read(this.with(this.entries)) },
      {
        method: "DELETE",
        path: one,
        handle: write(
          this.with((glossary) =>
            glossary.edited || glossary.dictionaries.length !== 1
              ? problem({
                  _tag: "Forbidden",
                  detail: `This glossary was edited by the newer interface; use DELETE /v3/glossaries/${glossary.glossaryId}`
                })
              : durable(this.store, forget(glossary), () => noContent)
          )
        )
      }
    ]
  }

  private with(handle: (glossary: Glossary, dictionary: Dictionary, request: Request) => Answer): Guarded {
    return (request, { account }) => {
      const id = idIn(request, "glossary_id")
      if (isResponse(id)) return id
      const glossary = Glossaries.get(this.store, [account.accountId, id])
      const dictionary = glossary?.dictionaries[0]
      return glossary === undefined || dictionary === undefined
        ? glossaryNotFound
        : handle(glossary, dictionary, request)
    }
  }

  private readonly create: Guarded = (request, { account: { accountId } }) => {
    const params = bodyOf(request)
    if (isResponse(params)) return params
    const name = nameIn(params)
    if (isResponse(name)) return name
    const dictionary = dictionaryIn(params)
    if (isResponse(dictionary)) return dictionary
    return createGlossary(
      this.store,
      { accountId, name, dictionaries: [dictionary], edited: false, nowMs: this.clock() },
      (glossary) => ok(legacyJson(glossary, glossary.dictionaries[0]!), 201)
    )
  }

  private readonly entries = (glossary: Glossary, dictionary: Dictionary, request: Request): Response =>
    admits(request.headers.get("accept"))
      ? {
          status: 200,
          headers: [
            ["Content-Type", `${tsvType}; charset=UTF-8`],
            ["Cache-Control", "no-store"]
          ],
          body: tsvOf(this.store, glossary.glossaryId, dictionary)
        }
      : problem({
          _tag: "BodyRefusal",
          reason: "content-type",
          detail: `The entries are ${tsvType}; Accept must admit it.`
        })
}
