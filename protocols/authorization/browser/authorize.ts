/** `GET /oauth/authorize`: checks a request in the order of the specification, stores it, and sends the
 *  browser to the login page, to the consent page, or back to the client with a code. It redirects only after
 *  the redirect URI is found to be registered for the client.
 *  Source: docs/spec/authorization.md, sections 7.1 to 7.4, 7.6 and 7.7. */
import { chainLater, type Header, type Later, type Request, type Response } from "../../../runtime/http.ts"
import { Conflict, type Write } from "../../../storage/store.ts"
import { sourceOf } from "../../shared/addresses.ts"
import { hashOf } from "../auth-context.ts"
import { findClient } from "../client/clients.ts"
import { liveConsent } from "../consents.ts"
import { errorPage } from "./pages/pages.ts"
import {
  authenticationFailed,
  consentRequired,
  isProblem,
  type Problem,
  problemOf,
  slowDown,
  unavailable,
  wordingOf
} from "../problems.ts"
import {
  Clients,
  Codes,
  Requests,
  type AuthorizationRequest,
  type Client,
  type ConsentGrant,
  type Session,
  type User
} from "../records.ts"
import { isLoopbackUri, isRegistered, redirectUriFault } from "../redirect-uris.ts"
import {
  catalogHas,
  inCatalogOrder,
  namesOf,
  readScope,
  refusedScope,
  resourceById,
  resourceOf,
  within
} from "../token/resources.ts"
import type { AuthServices } from "../services.ts"
import type { BrowserSessions, SignedIn } from "./sessions.ts"
import { isWireFault, readPairs, type Form } from "../wire.ts"

const requestMs = 600_000
const codeMs = 600_000
const pendingRetryMs = 10_000
const stateLengthMax = 4_096
const hintLengthMax = 256
const prompts = ["none", "login", "consent", "select_account"]
const digest43 = /^[A-Za-z0-9_-]{43}$/
const bad = (words: string): Problem => problemOf("invalid_request", words)

/** Redirects to the client with form-encoded parameters, and preserves the query of the redirect URI. */
export const backTo = (
  { settings }: AuthServices,
  redirectUri: string,
  state: string | null,
  members: Readonly<Record<string, string>>,
  status = 302
): Response => {
  const query = new URLSearchParams({
    ...members,
    ...(state === null ? {} : { state }),
    iss: settings.issuer
  }).toString()
  return {
    status,
    headers: [
      ["Location", `${redirectUri}${redirectUri.includes("?") ? "&" : "?"}${query}`],
      ["Cache-Control", "no-store"]
    ]
  }
}

export const refusedTo = (
  services: AuthServices,
  { redirectUri, state }: Pick<AuthorizationRequest, "redirectUri" | "state">,
  problem: Problem,
  status = 302
): Response =>
  backTo(
    services,
    redirectUri,
    state,
    { error: wordingOf(problem).error, error_description: problem.description },
    status
  )

export const goTo = (
  path: string,
  status = 302,
  headers: ReadonlyArray<readonly [string, string]> = []
): Response => ({ status, headers: [["Location", path], ["Cache-Control", "no-store"], ...headers] })

export const authorize = (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request
): Later<Response> => {
  const form = readPairs(request.query)
  if (isWireFault(form)) return errorPage(bad(form.detail), request.traceId)
  const { repeated } = form
  const clientId = form.get("client_id")
  if (repeated.includes("client_id") || repeated.includes("redirect_uri"))
    return errorPage(bad("client_id or redirect_uri appears twice"), request.traceId)
  if (clientId === undefined) return errorPage(bad("client_id is missing"), request.traceId)
  return chainLater(findClient(services, clientId, request.client), (client) =>
    askedBy(services, sessions, request, { form, client })
  )
}

interface Asked {
  readonly form: Form
  readonly client: Client | Problem | undefined
}

const askedBy = async (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request,
  { form, client }: Asked
): Promise<Response> => {
  const { settings } = services
  const { repeated } = form
  const redirectUri = form.get("redirect_uri")
  if (isProblem(client)) return errorPage(client, request.traceId)
  if (client === undefined || client.status !== "active")
    return errorPage(problemOf("invalid_client", authenticationFailed), request.traceId)
  if (redirectUri === undefined) return errorPage(bad("redirect_uri is missing"), request.traceId)
  if (redirectUriFault(redirectUri) !== undefined)
    return errorPage(bad("redirect_uri is not acceptable"), request.traceId)
  if (!isRegistered(redirectUri, client.redirectUris, settings.loopbackAnyPort)) {
    return errorPage(
      bad(
        `redirect_uri is not registered for this client${isLoopbackUri(redirectUri) ? "; its port must match too" : ""}`
      ),
      request.traceId
    )
  }
  const state = repeated.includes("state") ? undefined : form.get("state")
  const sendable =
    state !== undefined && state.length <= stateLengthMax && /^[\x20-\x7e]+$/.test(state) ? state : null
  const checked = checkedRequest(services, client, form, redirectUri, sendable)
  if (isProblem(checked)) return refusedTo(services, { redirectUri, state: sendable }, checked)

  const signedIn = sessions.of(request)
  const mustSignIn = signedIn === undefined || !isRecentEnough(services, checked, signedIn)
  if (mustSignIn && checked.prompt.includes("none"))
    return refusedTo(services, checked, problemOf("login_required", "the user is not signed in"))
  const source = sourceOf(request.client)
  const crowded = tooManyPending(services, source, signedIn !== undefined)
  if (crowded !== undefined)
    return errorPage(crowded, request.traceId, { headers: wordingOf(crowded).headers })
  const req = services.newToken()
  const key = hashOf(services, req, "request")
  const row: AuthorizationRequest = mustSignIn
    ? checked
    : { ...checked, userId: signedIn.user.id, sessionHash: signedIn.sessionHash, phase: "consent" }
  const stored = services.books.write(services.books.expiring(Requests, [key], row, row.expiresMs, "absent"))
  services.books.ceiling(Requests)?.charge(key, source)
  await stored
  return mustSignIn ? goTo(`/login?req=${req}`) : proceed(services, client, req, row, signedIn, 302)
}

/** True when the login of the session is as recent as the request wants it: a login after the request always
 *  is. */
const isRecentEnough = (
  { nowMs }: AuthServices,
  { prompt, maxAgeSeconds, createdMs }: AuthorizationRequest,
  { session: { authMs } }: SignedIn
): boolean =>
  authMs > createdMs ||
  (!prompt.includes("login") &&
    !prompt.includes("select_account") &&
    (maxAgeSeconds === null || nowMs() - authMs <= maxAgeSeconds * 1_000))

/** True when this session may go on with the request: the one that signed in for it, or another of the same user
 *  that is as good, since a browser signs in several times when it has several tabs. */
export const mayGoOn = (services: AuthServices, request: AuthorizationRequest, signedIn: SignedIn): boolean =>
  request.phase === "consent" &&
  request.userId === signedIn.user.id &&
  (request.sessionHash === signedIn.sessionHash || isRecentEnough(services, request, signedIn))

/** Gives a request that waits for a login to a session. */
const boundTo = (
  { key, request }: PendingRequest,
  userId: string,
  sessionHash: string
): ReadonlyArray<Write> => [
  Requests.put(
    [key],
    { ...request, userId, sessionHash, phase: "consent" as const },
    Requests.unchanged(request)
  )
]

export const continueAt = (req: string): string => `/oauth/authorize/continue?req=${req}`

/** Gives a request to the session that a browser has already, if it is good enough; true when it may go on. A
 *  second tab does not ask for the password again. */
export const adopted = async (
  services: AuthServices,
  pending: PendingRequest,
  signedIn: SignedIn
): Promise<boolean> => {
  if (pending.request.phase !== "login") return mayGoOn(services, pending.request, signedIn)
  if (!isRecentEnough(services, pending.request, signedIn)) return false
  await services.books.write(boundTo(pending, signedIn.user.id, signedIn.sessionHash))
  return true
}

export interface Login {
  readonly user: User
  readonly method: Session["method"]
  readonly req: string
  /** The page that follows a login without a request. */
  readonly landing: string
  readonly action: string
  /** Cookies to set beside the session's. */
  readonly cookies?: ReadonlyArray<Header>
}

/** Begins the session of a user who has proved who they are, and gives it the request that waits for it. All
 *  rows are read in the turn of the commit. */
export const completeLogin = async (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request,
  { user, method, req, landing, action, cookies = [] }: Login
): Promise<Response | Problem> => {
  const { books, audit } = services
  const pending = requestOf(services, req)
  const begun = sessions.begin(user, method, request)
  const waits = pending?.request.phase === "login"
  // A second tab, or a form that was sent twice, may have been first.
  const isTheirs = pending?.request.phase === "consent" && pending.request.userId === user.id
  if (req !== "" && !waits && !isTheirs) return sessionExpired()
  const outcome = books.commit([
    ...begun.rows,
    ...(waits ? boundTo(pending, user.id, begun.sessionHash) : []),
    audit.event(action, { actorId: user.id, ip: request.client, traceId: request.traceId })
  ])
  if (outcome instanceof Conflict) return sessionExpired()
  await outcome
  return goTo(pending === undefined ? landing : continueAt(req), 303, [begun.cookie, ...cookies])
}

/** Says no while a source has too many requests that nobody has finished, or all sources together. Somebody who
 *  is signed in is no stranger, and only the former concerns them. */
const tooManyPending = (
  { books }: AuthServices,
  source: string,
  isSignedIn: boolean
): Problem | undefined => {
  const ceiling = books.ceiling(Requests)
  if (ceiling?.isReachedBy(source) === true) return slowDown(pendingRetryMs)
  return ceiling?.isReached === true && !isSignedIn
    ? unavailable("too many sign-ins are under way; try again soon", pendingRetryMs / 1_000)
    : undefined
}

/** Performs steps 6 to 13. */
const checkedRequest = (
  services: AuthServices,
  client: Client,
  form: Form,
  redirectUri: string,
  state: string | null
): AuthorizationRequest | Problem => {
  const { settings, nowMs } = services
  const [twice] = form.repeated
  if (twice !== undefined) return bad("a parameter appears twice")
  const responseType = form.get("response_type")
  if (responseType === undefined) return bad("response_type is missing")
  if (responseType !== "code") return problemOf("unsupported_response_type", "only code is supported")
  if (!client.grantTypes.includes("authorization_code"))
    return problemOf("unauthorized_client", "the client is not registered for this grant")
  if ((form.get("response_mode") ?? "query") !== "query")
    return bad("only the response mode query is supported")
  if (form.has("request")) return problemOf("request_not_supported", "request objects are not supported")
  if (form.has("request_uri"))
    return problemOf("request_uri_not_supported", "request objects are not supported")
  const codeChallenge = form.get("code_challenge")
  if (codeChallenge === undefined) return bad("code_challenge is missing")
  if (form.get("code_challenge_method") !== "S256") return bad("code_challenge_method must be S256")
  if (!digest43.test(codeChallenge)) return bad("code_challenge is malformed")

  const values = form.all("resource")
  const resource = values.length === 1 ? resourceOf(services, values[0]!) : undefined
  if (values.length > 1 || (values.length === 1 && resource === undefined))
    return problemOf("invalid_target", "the resource is not known")
  const asked = readScope(form.get("scope"))
  if (isProblem(asked)) return asked
  if (asked === undefined && settings.requireScope) return problemOf("invalid_scope", "scope is missing")
  const ceiling = client.scopes
  const scopes =
    asked ??
    (resource === undefined
      ? ceiling
      : namesOf(resource).filter((scope) => ceiling.length === 0 || ceiling.includes(scope)))
  if (scopes.length === 0) return problemOf("invalid_scope", "scope is missing")
  const outside = scopes.find(
    (scope) => !catalogHas(services, resource, scope) || (ceiling.length > 0 && !ceiling.includes(scope))
  )
  if (outside !== undefined) return refusedScope(outside)

  const prompt = (form.get("prompt") ?? "").split(" ").filter((word) => word !== "")
  const maxAge = form.get("max_age")
  const jkt = form.get("dpop_jkt")
  if (prompt.some((word) => !prompts.includes(word)) || (prompt.includes("none") && prompt.length > 1))
    return bad("prompt is malformed")
  if (maxAge !== undefined && !/^\d{1,9}$/.test(maxAge)) return bad("max_age is malformed")
  if (jkt !== undefined && !digest43.test(jkt)) return bad("dpop_jkt is malformed")
  if (form.has("state") && state === null) return bad("state is malformed")
  const atMs = nowMs()
  return {
    clientId: client.clientId,
    redirectUri,
    codeChallenge,
    scopes: inCatalogOrder(resource, scopes),
    resourceId: resource?.id ?? "",
    state,
    loginHint: (form.get("login_hint") ?? "").slice(0, hintLengthMax),
    prompt,
    maxAgeSeconds: maxAge === undefined ? null : Number(maxAge),
    jkt: jkt ?? null,
    userId: null,
    sessionHash: null,
    phase: "login",
    createdMs: atMs,
    expiresMs: atMs + requestMs
  }
}

/** Performs steps 15 to 17, for a request whose user is signed in. */
export const proceed = async (
  services: AuthServices,
  client: Client,
  req: string,
  asked: AuthorizationRequest,
  signedIn: SignedIn,
  status: 302 | 303
): Promise<Response> => {
  const scopes =
    services.grantable?.(
      resourceById(services, asked.resourceId)?.slug ?? "",
      signedIn.user.id,
      asked.scopes
    ) ?? asked.scopes
  if (scopes.length === 0)
    return refusedTo(services, asked, problemOf("invalid_scope", "the user cannot give any of these scopes"))
  const request = scopes.length === asked.scopes.length ? asked : { ...asked, scopes }
  if (request !== asked)
    await services.books.write([
      Requests.put([hashOf(services, req, "request")], request, Requests.unchanged(asked))
    ])
  const consent = liveConsent(services, signedIn.user.id, client.clientId, request.resourceId)
  const covered = consent?.clientIssuedMs === client.issuedMs && within(request.scopes, consent.scopes)
  const provable = request.redirectUri.startsWith("https:") || client.authMethod !== "none"
  if (covered && !request.prompt.includes("consent") && provable)
    return giveCode(services, client, req, request, signedIn, consent, [], status)
  return request.prompt.includes("none")
    ? refusedTo(services, request, consentRequired("the user has not consented"))
    : goTo(`/consent?req=${req}`, status)
}

export interface PendingRequest {
  readonly key: string
  readonly request: AuthorizationRequest
}

/** Finds a stored request that has not expired, with its key. */
export const requestOf = (services: AuthServices, req: string | undefined): PendingRequest | undefined => {
  if (req === undefined || !digest43.test(req)) return undefined
  const key = hashOf(services, req, "request")
  const request = Requests.get(services.books.store, [key])
  return request === undefined || services.nowMs() >= request.expiresMs ? undefined : { key, request }
}

export const sessionExpired = (): Problem => problemOf("invalid_grant", "login session expired")

/** Marks a client as used, so that the removal of unused clients spares it. The client of a metadata document
 *  gets its first row here. */
const markUsed = ({ books }: AuthServices, client: Client): ReadonlyArray<Write> => {
  if (client.used && client.source !== "cimd") return []
  const row = { ...client, used: true }
  if (books.get(Clients, [client.clientId]) === undefined)
    return [Clients.put([client.clientId], row, "absent")]
  return client.used ? [] : [Clients.put([client.clientId], row)]
}

/** Commits the code, the consent (`rows`) and the removal of the request in one transaction. The redirect is
 *  built before it, so that nothing can fail after the commit. */
export const giveCode = async (
  services: AuthServices,
  client: Client,
  req: string,
  request: AuthorizationRequest,
  { user, session }: SignedIn,
  consent: ConsentGrant,
  rows: ReadonlyArray<Write>,
  status: 302 | 303
): Promise<Response> => {
  const { books, newToken, nowMs } = services
  const code = newToken()
  const atMs = nowMs()
  const key = hashOf(services, req, "request")
  const { clientId, redirectUri, codeChallenge, scopes, resourceId, jkt } = request
  const answer = backTo(services, redirectUri, request.state, { code }, status)
  const outcome = books.commit([
    ...rows,
    ...books.expiring(
      Codes,
      [hashOf(services, code, "code")],
      {
        clientId,
        clientIssuedMs: client.issuedMs,
        redirectUri,
        codeChallenge,
        scopes,
        resourceId,
        userId: user.id,
        userEpoch: user.epoch,
        consentId: consent.id,
        jkt,
        authMs: session.authMs,
        issuedMs: atMs,
        expiresMs: atMs + codeMs,
        usedMs: null,
        familyId: null,
        jti: null,
        failedAttempts: 0
        // The row outlives everything issued from the code, so that a replay is still detected.
      },
      atMs + codeMs + services.settings.registration.tokenMs + services.settings.refreshAbsoluteMs,
      "absent"
    ),
    ...books.ended(Requests, [key], request),
    ...markUsed(services, client),
    ...(rows.length === 0
      ? []
      : [
          services.audit.event("consent.granted", {
            actorId: user.id,
            clientId,
            detail: { consent_grant_id: consent.id, scope: scopes.join(" ") }
          })
        ])
  ])
  if (outcome instanceof Conflict) return errorPage(sessionExpired(), "")
  await outcome
  return answer
}
