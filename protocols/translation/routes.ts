/** The translation service: its paths, the checks before them, and their handlers.
 *  Source: docs/spec/translation.md, sections 1.1, 1.4, 2.3. */
import { defined } from "../../runtime/defined.ts"
import type { Engines } from "../../actors/engines/ports.ts"
import {
  mapLater,
  type Handler,
  type Response,
  type Route,
  type Service,
  type SocketRoute
} from "../../runtime/http.ts"
import type { ActorSystem } from "../../runtime/registry.ts"
import type { Store } from "../../storage/store.ts"
import type { TranslationCache } from "./text/cache.ts"
import { AdminRoutes } from "./account/admin.ts"
import { detectBytesMax, detectLanguage } from "./text/detect.ts"
import { guardOf, type Guard } from "./account/guard.ts"
import type { Limits } from "./account/rate-limit.ts"
import { KeyRing } from "./account/keys.ts"
import {
  listGlossaryPairs,
  listLanguageResources,
  listLanguagesV2,
  listLanguagesV3,
  queryBodyBytesMax,
  usageOf
} from "./language-routes.ts"
import { refused } from "./problems.ts"
import type { HashKey } from "./account/records.ts"
import { createResources, type ResourceDeps, type Resources } from "./resources.ts"
import { TextTranslation, translateBytesMax } from "./text/text.ts"
import { Usage } from "./account/usage.ts"

export interface TranslationDeps {
  readonly store: Store
  readonly actors: ActorSystem
  readonly engines: Engines
  readonly hashKey: HashKey
  readonly clock: () => number
  readonly limits?: Limits
  readonly cache?: TranslationCache
  /** Key ring shared with the other services that count or change keys (voice, administration); created here
   *  when absent. */
  readonly ring?: KeyRing
  readonly usage?: Usage
  /** Live speech (voice.ts), with the same key ring and usage. */
  readonly voice?: { routes(guard: Guard): ReadonlyArray<Route>; readonly socket: SocketRoute<any> }
  /** Documents (documents/routes.ts), with the same key ring and usage. */
  readonly documents?: { routes(guard: Guard): ReadonlyArray<Route> }
  readonly fixtures?: ResourceDeps["fixtures"]
  /** Created here when absent; documents and text then share it. */
  readonly resources?: Resources
  /** Public base address `https://host[:port]`; by default taken from each request. */
  readonly publicBase?: string | undefined
  /** Origins of web pages that may call the API; none by default. */
  readonly corsOrigins?: ReadonlyArray<string>
}

export const translation = (deps: TranslationDeps): Service => {
  const {
    engines,
    ring = new KeyRing(deps.store, deps.hashKey),
    usage = new Usage(deps.store, deps.clock)
  } = deps
  const guard = guardOf(ring, deps.actors, deps.limits)
  const resources = deps.resources ?? createResources({ ...deps, ring, usage })
  const text = new TextTranslation(
    defined({
      engines,
      usage,
      customizations: resources.customizations,
      memories: resources.memories,
      store: deps.store,
      clock: deps.clock,
      cache: deps.cache
    })
  )
  const meta = { as: "buffer", bytesMax: queryBodyBytesMax } as const
  const use = guard("usage:read", usageOf(usage))
  const list = guard("languages:read", listLanguagesV2(engines))

  const routes: ReadonlyArray<Route> = [
    {
      method: "POST",
      path: "/v2/translate",
      body: { as: "buffer", bytesMax: translateBytesMax },
      handle: guard("translate:text", (request, using) => text.handle(request, using))
    },
    { method: "GET", path: "/v2/usage", body: meta, handle: use },
    { method: "POST", path: "/v2/usage", body: meta, handle: use },
    { method: "GET", path: "/v2/languages", body: meta, handle: list },
    { method: "POST", path: "/v2/languages", body: meta, handle: list },
    {
      method: "GET",
      path: "/v2/glossary-language-pairs",
      handle: guard("glossaries:read", listGlossaryPairs(engines))
    },
    { method: "GET", path: "/v3/languages", handle: guard("languages:read", listLanguagesV3(engines)) },
    {
      method: "GET",
      path: "/v3/languages/resources",
      handle: guard("languages:read", listLanguageResources)
    },
    {
      method: "POST",
      path: "/v3/detect/language",
      body: { as: "buffer", bytesMax: detectBytesMax },
      handle: guard(undefined, detectLanguage(engines))
    },
    {
      method: "GET",
      path: "/healthz",
      handle: () => ({
        status: 200,
        headers: [
          ["Content-Type", "text/plain; charset=utf-8"],
          ["Cache-Control", "no-store"]
        ],
        body: "ok"
      })
    },
    ...(deps.documents?.routes(guard) ?? []),
    ...resources.routes(guard),
    ...new AdminRoutes({ ...deps, ring, usage }).routes(),
    ...(deps.voice?.routes(guard) ?? [])
  ]
  return {
    name: "translation",
    prefixes: ["/v2/", "/v3/", "/v1/jobs/", "/v1/assets/", "/v1/quality-evaluation", "/healthz"],
    routes:
      deps.corsOrigins === undefined || deps.corsOrigins.length === 0
        ? routes
        : withOrigins(routes, new Set(deps.corsOrigins)),
    ...(deps.voice === undefined ? {} : { sockets: [deps.voice.socket] }),
    refused
  }
}

/** Adds CORS for the listed origins to the routes, and a preflight for each path. */
const withOrigins = (routes: ReadonlyArray<Route>, origins: ReadonlySet<string>): ReadonlyArray<Route> => {
  const withOriginHeaders = (response: Response, origin: string | undefined): Response => ({
    ...response,
    headers: [
      ...(response.headers ?? []),
      ["Vary", "Origin"],
      ...(origin !== undefined && origins.has(origin)
        ? [["Access-Control-Allow-Origin", origin] as const]
        : [])
    ]
  })
  const readableByOrigins =
    (handle: Handler): Handler =>
    (request) => {
      const origin = request.headers.get("origin")
      return mapLater(handle(request), (response) => withOriginHeaders(response, origin))
    }
  const methods = new Map<string, Array<string>>()
  for (const { path, method } of routes) methods.set(path, [...(methods.get(path) ?? []), method])
  return [
    ...routes.map((route) => ({ ...route, handle: readableByOrigins(route.handle) })),
    ...[...methods].map(([path, allowed]): Route => ({
      method: "OPTIONS",
      path,
      handle: readableByOrigins(() => ({
        status: 204,
        headers: [
          ["Cache-Control", "no-store"],
          ["Access-Control-Allow-Methods", allowed.join(", ")],
          ["Access-Control-Allow-Headers", "Authorization, Content-Type, X-DeepL-Reporting-Tag"],
          ["Access-Control-Max-Age", "600"]
        ]
      }))
    }))
  ]
}
