/** Connects a user's account at an upstream: `/connect/:provider`, its callback, and the list of connections.
 *  Guarantee: a state is accepted once, in the session it was created for, and the browser is redirected to
 *  listed URLs only.
 *  Source: docs/spec/authorization.md, sections 12.2 to 12.4. */
import { Effect } from "effect"
import { json, type Later, type Request, type Response, type Route } from "../../../runtime/http.ts"
import { equalSecrets } from "../../../storage/seal.ts"
import type { AuthContext } from "../auth-context.ts"
import { badGateway, type Problem, problemOf, problemResponse, quoted, unavailable } from "../problems.ts"
import {
  asClient,
  oauthConfig,
  providerBySlug,
  providersMax,
  resourcesOf,
  secretOf,
  upstreamScopes,
  type Environment
} from "./providers.ts"
import { BrokerGrants, Providers, type BrokerGrant, type Provider, type Resource } from "../records.ts"
import { FetchFault, type SafeFetch } from "./safe-fetch.ts"
import { basePathOf } from "../settings.ts"
import { challengeOf, newVerifier, SealedStates } from "./sealed-state.ts"
import { isRefusal, readTokenAnswer, sealCredential } from "./upstream-tokens.ts"
import { upstreamBodyBytesMax, upstreamTimeoutMs, type UpstreamTokenBroker } from "./token-broker.ts"
import { isWireFault, readPairs, type Form } from "../wire.ts"

export interface SessionNow {
  readonly userId: string
  readonly sessionHash: string
}

export interface Sessions {
  of(request: Request): SessionNow | undefined
  csrf(sessionHash: string, purpose: string): string
  /** Redirects to the login page, which leads back to `returnTo`, a local path with its query. */
  login(returnTo: string, request: Request): Response
}

export interface Connection {
  readonly provider: string
  readonly displayName: string
  readonly scopes: ReadonlyArray<string>
  readonly connectedMs: number
}

export interface ConnectPages {
  error(problem: Problem, request: Request): Response
  connections(
    view: { readonly connections: ReadonlyArray<Connection>; readonly csrfToken: string },
    request: Request
  ): Response
}

export interface ConnectDependencies {
  readonly vault: UpstreamTokenBroker
  readonly fetcher: SafeFetch
  readonly sessions: Sessions
  readonly pages: ConnectPages
  /** Finds a resource by URI or slug, as every endpoint reads `resource` (section 2.3). */
  readonly resource: (value: string) => Resource | undefined
  readonly environment?: Environment
}

interface Connecting {
  readonly atMs: number
  readonly providerId: string
  readonly userId: string
  readonly sessionHash: string
  readonly scopes: ReadonlyArray<string>
  readonly returnUrl: string | undefined
  readonly verifier: string
}

/** A callback whose state was accepted. */
interface Attempt {
  readonly answered: Form
  readonly session: SessionNow
  readonly provider: Provider
  readonly state: Connecting
}

const unknownAttempt = "the connection attempt is unknown, expired or already used"
const stateMs = 600_000
export const csrfPurpose = "connections"

export const wantsPage = (request: Request): boolean =>
  /text\/html/i.test(request.headers.get("accept") ?? "")

/** Serialises the URL again, so that no byte of a caller reaches a header unchanged. */
export const redirect = (status: 302 | 303, url: string): Response => ({
  status,
  headers: [
    ["Location", new URL(url).href],
    ["Cache-Control", "no-store"]
  ]
})

export const connectRoutes = (
  authority: AuthContext,
  { vault, fetcher, sessions, pages, resource: resourceNamed, environment = process.env }: ConnectDependencies
): ReadonlyArray<Route> => {
  const { settings, books, seal, audit, nowMs, local } = authority
  const states = new SealedStates<Connecting>(authority, "connect", stateMs)
  const refuse = (request: Request, problem: Problem): Response =>
    wantsPage(request) ? pages.error(problem, request) : problemResponse(problem, request, settings)
  const callbackOf = (slug: string): string =>
    `${settings.connect.redirectBaseUrl === "" ? settings.issuer : settings.connect.redirectBaseUrl.replace(/\/$/, "")}/connect/${encodeURIComponent(slug)}/callback`
  const base = basePathOf(settings)
  /** The address of the request below the issuer. */
  const here = ({ path, query }: Request): string => {
    const local = base !== "" && path.startsWith(`${base}/`) ? path.slice(base.length) : path
    return query === "" ? local : `${local}?${query}`
  }
  const query = (request: Request): Form | string => {
    const form = readPairs(request.query)
    if (isWireFault(form)) return form.detail
    const twice = form.repeated.length > 0 || form.all("resource").length > 1
    return twice ? "a parameter appears twice" : form
  }
  const connectable = (
    slug: string
  ): { readonly provider: Provider; readonly resources: ReadonlyArray<Resource> } | undefined => {
    const provider = providerBySlug(books, slug)
    if (provider?.protocol !== "oauth") return undefined
    const resources = resourcesOf(books, provider)
    return resources.length === 0 ? undefined : { provider, resources }
  }

  const start = (request: Request): Response => {
    const asked = query(request)
    const target = connectable(request.params["provider"] ?? "")
    if (target === undefined)
      return refuse(request, problemOf("invalid_target", "there is no such provider to connect"))
    if (typeof asked === "string") return refuse(request, problemOf("invalid_request", asked))
    const { provider } = target
    const resource = asked.get("resource")
    const requested = resource === undefined ? undefined : resourceNamed(resource)
    const resources =
      resource === undefined ? target.resources : target.resources.filter(({ id }) => id === requested?.id)
    if (resources.length === 0)
      return refuse(request, problemOf("invalid_target", "the resource is not one of this provider"))
    const returnUrl = asked.get("return_url")
    if (
      returnUrl !== undefined &&
      !settings.connect.allowedReturnUrls.includes(returnUrl) &&
      !resources.some(({ returnUrls }) => returnUrls.includes(returnUrl))
    )
      return refuse(request, problemOf("invalid_request", "return_url is not allowed"))
    const session = sessions.of(request)
    if (session === undefined) return sessions.login(here(request), request)
    const catalog = resources.flatMap(({ scopes }) => scopes)
    const names = asked
      .get("scope")
      ?.split(" ")
      .filter((name) => name !== "")
    const unknown = names?.find((name) => !catalog.some((scope) => scope.name === name))
    if (unknown !== undefined)
      return refuse(request, problemOf("invalid_scope", `scope ${quoted(unknown)} is not in the catalog`))
    const { clientId, authorizeUrl, scopes: always, extra, pkce } = oauthConfig(provider)
    const scopes = [
      ...new Set([
        ...always,
        ...upstreamScopes(names === undefined ? catalog : catalog.filter(({ name }) => names.includes(name))),
        // Connecting again never removes scopes.
        ...(vault.grant(session.userId, provider.id)?.row.scopesGranted ?? [])
      ])
    ]
    const verifier = newVerifier()
    const state = states.seal({
      atMs: nowMs(),
      providerId: provider.id,
      ...session,
      scopes,
      returnUrl,
      verifier
    })
    const url = new URL(authorizeUrl)
    for (const [name, value] of Object.entries({
      ...extra,
      response_type: "code",
      client_id: clientId,
      redirect_uri: callbackOf(provider.slug),
      ...(scopes.length === 0 ? {} : { scope: scopes.join(" ") }),
      state,
      ...(pkce ? { code_challenge: challengeOf(verifier), code_challenge_method: "S256" } : {})
    }))
      url.searchParams.set(name, value)
    return redirect(302, url.href)
  }

  const callback = (request: Request): Later<Response> => {
    const invalid = (why: string): Response => refuse(request, problemOf("invalid_request", why))
    const answered = query(request)
    if (typeof answered === "string") return invalid(answered)
    const session = sessions.of(request)
    const provider = providerBySlug(books, request.params["provider"] ?? "")
    const sent = answered.get("state")
    const state = states.open(sent)
    if (
      state === undefined ||
      session === undefined ||
      state.providerId !== provider?.id ||
      state.sessionHash !== session.sessionHash ||
      state.userId !== session.userId
    )
      return invalid(unknownAttempt)
    return Effect.flatMap(
      Effect.promise(() => states.spend(sent!, state)),
      (isFirst) =>
        isFirst
          ? exchanged(request, { answered, session, provider, state })
          : Effect.succeed(invalid(unknownAttempt))
    )
  }

  /** Exchanges the code of an attempt for a credential, and stores it. */
  const exchanged = Effect.fnUntraced(function* (
    request: Request,
    { answered, session, provider, state }: Attempt
  ) {
    const invalid = (why: string): Response => refuse(request, problemOf("invalid_request", why))
    const back = (): URL => new URL(state.returnUrl ?? `${settings.issuer}/connections`)
    if (answered.has("error")) {
      if (state.returnUrl === undefined)
        return refuse(request, problemOf("access_denied", "the provider refused the connection"))
      const url = back()
      url.searchParams.set("error", "access_denied")
      return redirect(303, url.href)
    }
    const code = answered.get("code")
    if (code === undefined) return invalid("code is missing")
    const failed = (reason: string): Response =>
      refuse(
        request,
        badGateway("the provider did not complete the connection", {
          _tag: "CodeNotExchanged",
          provider: provider.slug,
          reason
        })
      )
    const { tokenUrl, tokenAuth, clientId, format, pkce } = oauthConfig(provider)
    const secret = secretOf(provider, seal, environment)
    if (secret === undefined) return failed("its secret is not set")
    const form = {
      grant_type: "authorization_code",
      code,
      redirect_uri: callbackOf(provider.slug),
      ...(pkce ? { code_verifier: state.verifier } : {})
    }
    const fetched = yield* Effect.catchTag(
      fetcher.fetch({
        ...asClient(tokenUrl, tokenAuth, clientId, secret, form),
        bodyBytesMax: upstreamBodyBytesMax,
        timeoutMs: upstreamTimeoutMs,
        allowPrivateAddresses: local,
        allowHttp: local
      }),
      "FetchFault",
      (fault) => Effect.succeed(fault)
    )
    const answer = readTokenAnswer(fetched, format, nowMs(), state.scopes)
    if (answer instanceof FetchFault) return failed(answer.reason)
    if (isRefusal(answer)) return failed("refused")
    // The provider may have been deleted, or the user logged out, while the upstream answered.
    if (
      books.get(Providers, [provider.id]) === undefined ||
      sessions.of(request)?.sessionHash !== session.sessionHash
    )
      return invalid("the connection attempt has ended")
    const key = [session.userId, provider.id]
    const entry = { userId: session.userId, providerId: provider.id }
    const before = BrokerGrants.get(books.store, key)
    const live = before?.revokedMs === null ? before : undefined
    const row: BrokerGrant = {
      id: live?.id ?? books.id(),
      ...entry,
      scopesGranted: answer.scopes ?? state.scopes,
      credential: sealCredential(seal, entry, answer.credential),
      version: (before?.version ?? 0) + 1,
      revokedMs: null,
      createdMs: live?.createdMs ?? nowMs(),
      updatedMs: nowMs()
    }
    yield* Effect.promise(() =>
      books.write([
        BrokerGrants.put(key, row),
        audit.event("broker_grant.created", {
          actorId: session.userId,
          ip: request.client,
          detail: { provider: provider.slug }
        })
      ])
    )
    return redirect(303, back().href)
  })

  const list = (request: Request): Response => {
    const session = sessions.of(request)
    if (session === undefined)
      return wantsPage(request)
        ? sessions.login(here(request), request)
        : refuse(request, problemOf("access_denied", "there is no session"))
    const connections = BrokerGrants.range(books.store, {
      prefix: [session.userId],
      limit: providersMax
    }).flatMap(({ value }): ReadonlyArray<Connection> => {
      const provider = value.revokedMs === null ? books.get(Providers, [value.providerId]) : undefined
      return provider === undefined
        ? []
        : [
            {
              provider: provider.slug,
              displayName: provider.displayName,
              scopes: value.scopesGranted,
              connectedMs: value.createdMs
            }
          ]
    })
    const csrfToken = sessions.csrf(session.sessionHash, csrfPurpose)
    return wantsPage(request)
      ? pages.connections({ connections, csrfToken }, request)
      : json(
          200,
          {
            connections: connections.map(({ provider, displayName, scopes, connectedMs }) => ({
              provider,
              display_name: displayName,
              scopes,
              connected_at: new Date(connectedMs).toISOString()
            })),
            csrf_token: csrfToken
          },
          [["Cache-Control", "no-store"]]
        )
  }

  const disconnect = async (request: Request): Promise<Response> => {
    const session = sessions.of(request)
    if (session === undefined) return refuse(request, problemOf("access_denied", "there is no session"))
    if (
      !equalSecrets(
        request.headers.get("x-csrf-token") ?? "",
        sessions.csrf(session.sessionHash, csrfPurpose)
      )
    )
      return refuse(request, problemOf("access_denied", "X-CSRF-Token is missing or wrong"))
    const provider = providerBySlug(books, request.params["provider"] ?? "")
    const granted = provider === undefined ? undefined : vault.grant(session.userId, provider.id)
    if (provider === undefined || granted === undefined)
      return refuse(request, problemOf("not_found", "there is no such connection"))
    if (!(await vault.revoked(granted.row, "user", "broker_grant.revoked", request.client)))
      return refuse(request, unavailable("the connection has just changed"))
    vault.revokeUpstream(granted.row, provider)
    return { status: 204 }
  }

  return [
    { method: "GET", path: "/connect/:provider", handle: start },
    { method: "GET", path: "/connect/:provider/callback", handle: callback },
    { method: "GET", path: "/connections", handle: list },
    { method: "DELETE", path: "/connections/:provider", handle: disconnect }
  ]
}
