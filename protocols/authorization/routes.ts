/** The authorization server's paths, the checks before them, and the headers that all answers have.
 *  Source: docs/spec/authorization.md, sections 1.2, 3 and 21. */
import {
  flatMapLater,
  mapLater,
  type Handler,
  type Header,
  type Later,
  type Request,
  type Response,
  type Route,
  type Service
} from "../../runtime/http.ts"
import { authorize } from "./browser/authorize.ts"
import { answerPrompt, consent, showConsent, showPrompt } from "./browser/consent.ts"
import { introspect } from "./token/introspect.ts"
import { continueAuthorization, login, logout, showLogin } from "./browser/login.ts"
import { cacheable, jwks, resourceMetadata, serverMetadata } from "./metadata.ts"
import { isProblem, type Problem, problemResponse, refusedBy, requestIdOf } from "./problems.ts"
import { revoke } from "./token/revoke.ts"
import type { AuthServices } from "./services.ts"
import type { BrowserSessions } from "./browser/sessions.ts"
import { basePathOf } from "./settings.ts"
import { token } from "./token/token.ts"

const bodyBytesMax = 65_536
const whole = { as: "buffer", bytesMax: bodyBytesMax } as const

const prefixes = [
  "/oauth",
  "/.well-known",
  "/authorize",
  "/login",
  "/consent",
  "/logout",
  "/oidc",
  "/connect",
  "/connections",
  "/admin"
]

type Answering = (request: Request) => Later<Response | Problem>

export interface More {
  readonly register: Answering
  /** Routes that are defined elsewhere; the rate limit and the headers are added here. */
  readonly browser: ReadonlyArray<Route>
  readonly admin: ReadonlyArray<Route>
}

export const authorization = (services: AuthServices, sessions: BrowserSessions, more: More): Service => {
  const { settings, limits, proofs } = services
  const always = [
    ["X-Content-Type-Options", "nosniff"],
    ["Referrer-Policy", "no-referrer"],
    ...(settings.issuer.startsWith("https:")
      ? [["Strict-Transport-Security", "max-age=31536000"] as const]
      : [])
  ] as ReadonlyArray<readonly [string, string]>
  const base = basePathOf(settings)
  /** Our own redirects lead to paths below the issuer's. */
  const located = (headers: ReadonlyArray<Header>): ReadonlyArray<Header> =>
    base === ""
      ? headers
      : headers.map((header) =>
          header[0] === "Location" && header[1].startsWith("/") ? ["Location", `${base}${header[1]}`] : header
        )
  const secured = (
    { status, headers = [], body, cause }: Response,
    { traceId }: Pick<Request, "traceId">
  ): Response => ({
    status,
    headers: located(headers).concat(always, [["X-Request-Id", requestIdOf(traceId)]]),
    ...(body === undefined ? {} : { body }),
    ...(cause === undefined ? {} : { cause })
  })

  const answered = (request: Request, answer: Response | Problem): Response =>
    isProblem(answer) ? problemResponse(answer, request, settings) : answer
  /** Wraps a handler: applies the rate limit of the source (unless `limited` is false), words problems and
   *  adds the headers. */
  const open =
    (handle: Answering, limited = true): Handler =>
    (request) => {
      return flatMapLater(limited ? limits.call(request.client) : undefined, (problem) =>
        mapLater(problem ?? handle(request), (answer) => secured(answered(request, answer), request))
      )
    }
  const origins = new Set(settings.allowedOrigins)
  const corsOf = (request: Request): ReadonlyArray<readonly [string, string]> => {
    const origin = request.headers.get("origin")
    if (origin === undefined || /[\s,]/.test(origin) || !(origins.has(origin) || origins.has("*"))) return []
    return [
      ["Access-Control-Allow-Origin", origin],
      ["Vary", "Origin"],
      ["Access-Control-Allow-Methods", "POST"],
      ["Access-Control-Allow-Headers", "Authorization, Content-Type, DPoP, MCP-Protocol-Version"],
      ["Access-Control-Expose-Headers", "WWW-Authenticate, DPoP-Nonce, Retry-After"],
      ["Access-Control-Max-Age", "600"]
    ]
  }
  const shared = (path: string, handle: Answering): ReadonlyArray<Route> => {
    const run = open(handle)
    return [
      {
        method: "POST",
        path,
        body: whole,
        handle: (request) => {
          const add = (response: Response): Response => {
            const cors = corsOf(request)
            return cors.length === 0
              ? response
              : { ...response, headers: [...(response.headers ?? []), ...cors] }
          }
          return mapLater(run(request), add)
        }
      },
      ...(origins.size === 0
        ? []
        : [
            {
              method: "OPTIONS",
              path,
              handle: (request: Request) => secured({ status: 204, headers: corsOf(request) }, request)
            }
          ])
    ]
  }
  const metadata = open((request) => cacheable(request, serverMetadata(services), true))
  const metadataPaths = ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"]
  const metadataAt = (path: string): Route => ({ method: "GET", path, handle: metadata })

  const issuerRoutes: ReadonlyArray<Route> = [
    ...metadataPaths.map(metadataAt),
    {
      method: "GET",
      path: "/.well-known/jwks.json",
      handle: open((request) => cacheable(request, jwks(services), true), false)
    },
    ...shared("/oauth/token", (request) => token(services, proofs, request)),
    ...shared("/oauth/introspect", (request) => introspect(services, request)),
    ...shared("/oauth/revoke", (request) => revoke(services, request)),
    ...shared("/oauth/register", more.register),
    {
      method: "GET",
      path: "/oauth/authorize",
      handle: open((request) => authorize(services, sessions, request))
    },
    {
      method: "GET",
      path: "/oauth/authorize/continue",
      handle: open((request) => continueAuthorization(services, sessions, request))
    },
    { method: "GET", path: "/login", handle: open((request) => showLogin(services, sessions, request)) },
    {
      method: "POST",
      path: "/login",
      body: whole,
      handle: open((request) => login(services, sessions, request))
    },
    {
      method: "POST",
      path: "/logout",
      body: whole,
      handle: open((request) => logout(services, sessions, request))
    },
    { method: "GET", path: "/consent", handle: open((request) => showConsent(services, sessions, request)) },
    {
      method: "POST",
      path: "/consent",
      body: whole,
      handle: open((request) => consent(services, sessions, request))
    },
    { method: "GET", path: "/authorize", handle: open((request) => showPrompt(services, sessions, request)) },
    {
      method: "POST",
      path: "/authorize",
      body: whole,
      handle: open((request) => answerPrompt(services, sessions, request))
    },
    ...more.browser.map((route) => ({ ...route, handle: open(route.handle) }))
  ]
  const routes: ReadonlyArray<Route> = [
    // Also at the root when the issuer has a path, because a proxy may take the path off.
    ...issuerRoutes,
    ...(base === ""
      ? []
      : [
          ...issuerRoutes.map((route) => ({ ...route, path: `${base}${route.path}` })),
          ...metadataPaths.map((path) => metadataAt(`${path}${base}`))
        ]),
    {
      method: "GET",
      path: "/.well-known/oauth-protected-resource",
      handle: open((request) => cacheable(request, resourceMetadata(services, undefined), true))
    },
    {
      method: "GET",
      path: "/.well-known/oauth-protected-resource/*",
      handle: open((request) => cacheable(request, resourceMetadata(services, request.params["*"]), true))
    },
    ...more.admin.map((route) => ({ ...route, handle: open(route.handle, false) }))
  ]
  const refused = refusedBy(settings)
  return {
    name: "authorization",
    prefixes: base === "" ? prefixes : [...prefixes, base],
    routes,
    refused: (status, request, allow) => secured(refused(status, request, allow), request)
  }
}
