/** Endpoints that describe the service: usage, languages, glossary pairs, resources. The languages listed
 *  are those that the installed engines support now.
 *  Source: docs/spec/translation.md, section 6. */
import type { Engines } from "../../actors/engines/ports.ts"
import { json, type Request, type Response } from "../../runtime/http.ts"
import { readBody, readForm, type BodyRefusal } from "../shared/body.ts"
import { Params } from "../shared/params.ts"
import type { Guarded } from "./account/guard.ts"
import {
  formalityOf,
  glossaryLanguages,
  languages,
  offersOf,
  pairFor,
  coverageOf,
  languageResources
} from "./languages.ts"
import { problem } from "./problems.ts"
import type { Usage } from "./account/usage.ts"
import { listedLanguage, offeredLanguage, offeredResource, usageJson } from "./wire.ts"

export const queryBodyBytesMax = 65_536
const noStore = [["Cache-Control", "no-store"]] as const
const ok = (value: unknown): Response => json(200, value, noStore)

/** Reads parameters from query and body, also of a GET; the body takes precedence. */
const paramsOf = (request: Request): Params | BodyRefusal => {
  const query = readForm(request.query)
  if ("_tag" in query) return query
  const body =
    request.body.length === 0 ? undefined : readBody(request.headers.get("content-type"), request.body)
  if (body !== undefined && "_tag" in body) return body
  return new Params(body === undefined ? query.bag : { ...query.bag, ...body.bag })
}

const isRefused = (params: Params | BodyRefusal): params is BodyRefusal => !(params instanceof Params)

export const usageOf =
  (usage: Usage): Guarded =>
  (_request, using) => {
    const { account, key } = usage.read(using)
    return ok(
      usageJson({
        tier: using.account.tier,
        account: account.used,
        key: key.used,
        accountLimits: using.account.limits,
        keyLimits: using.key.limits,
        documents: usage.documents(using.account.accountId, account.startMs),
        startMs: account.startMs,
        endMs: account.endMs
      })
    )
  }

export const listLanguagesV2 =
  ({ translator }: Engines): Guarded =>
  (request) => {
    const params = paramsOf(request)
    if (isRefused(params)) return problem(params)
    const type = params.choice("type", ["source", "target"]) ?? "source"
    if (params.fault !== undefined) return problem(params.fault)
    const reach = coverageOf(translator)
    return ok(
      languages
        .filter((language) => language.listed && reach[type](language) && language[type])
        .map((language) =>
          listedLanguage(
            language.code,
            language.name,
            type === "source" ? undefined : formalityOf(translator, language)
          )
        )
    )
  }

export const listGlossaryPairs =
  ({ translator }: Engines): Guarded =>
  () => {
    const supported = languages.filter(({ code }) => glossaryLanguages.has(code))
    return ok({
      supported_languages: supported.flatMap((source) =>
        supported
          .filter((target) => target !== source && pairFor(translator, source.code, target) !== undefined)
          .map((target) => ({ source_lang: source.code, target_lang: target.code }))
      )
    })
  }

export const listLanguagesV3 =
  (engines: Engines): Guarded =>
  (request) => {
    const params = paramsOf(request)
    if (isRefused(params)) return problem(params)
    const name = params.string("resource")
    const include = params.names("include")
    if (name === undefined) {
      return problem(
        params.has("product")
          ? { _tag: "Refused", message: "Parameter 'product' was renamed to 'resource'." }
          : { _tag: "Missing", name: "resource" }
      )
    }
    const resource = languageResources.find((candidate) => candidate.name === name)
    if (resource === undefined) params.invalid("resource")
    if (include.some((word) => word !== "beta" && word !== "external")) params.invalid("include")
    if (params.fault !== undefined) return problem(params.fault)
    return ok(
      offersOf(resource!, engines)
        .filter(({ beta }) => !beta || include.includes("beta"))
        .map(({ language, source, target, beta, features }) =>
          offeredLanguage(language.code, language.name, source, target, beta, features)
        )
    )
  }

export const listLanguageResources: Guarded = () =>
  ok(languageResources.map(({ name, features }) => offeredResource(name, features)))
