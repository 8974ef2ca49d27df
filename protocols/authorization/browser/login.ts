/** Login with a local account, the continuation of the request after it, and logout.
 *  Source: docs/spec/authorization.md, section 7.5. */
import { Effect } from "effect"
import type { Request, Response } from "../../../runtime/http.ts"
import { errorPage, loginPage, type LoginView } from "./pages/pages.ts"
import { goTo, proceed, refusedTo, requestOf, sessionExpired } from "./authorize.ts"
import { findClient } from "../client/clients.ts"
import {
  authenticationFailed,
  isProblem,
  type Problem,
  problemOf,
  problemResponse,
  slowDown,
  wordingOf
} from "../problems.ts"
import { oauthConfig, providerBySlug, resourcesOf } from "../upstream/providers.ts"
import { Clients, Requests, UserEmails, Users, type User } from "../records.ts"
import { formTargetOf } from "../redirect-uris.ts"
import type { AuthServices } from "../services.ts"
import type { BrowserSessions } from "./sessions.ts"
import { isWireFault, readForm, readPairs } from "../wire.ts"

/** Paths to which a login without an authorization request may lead: pages of this server only. */
const localPath =
  /^\/(?:connections|connect\/[A-Za-z0-9_-]+|authorize)(?:\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?$/

const emailLengthMax = 254
const wrong = "the e-mail or password is wrong"

/** Answers a page to callers that accept HTML, and the JSON problem to all others. */
export const problemPageOrJson = (services: AuthServices, request: Request, problem: Problem): Response =>
  /text\/html/i.test(request.headers.get("accept") ?? "")
    ? errorPage(problem, request.traceId, { headers: wordingOf(problem).headers })
    : problemResponse(problem, request, services.settings)

const view = (
  services: AuthServices,
  sessions: BrowserSessions,
  nonce: string,
  req: string,
  next: string,
  email: string,
  fault: string | undefined
): LoginView => {
  const { federation } = services.settings
  const pending = requestOf(services, req)
  const client = pending === undefined ? undefined : services.books.get(Clients, [pending.request.clientId])
  return {
    csrf: sessions.csrf("login", nonce, req, next),
    req,
    next,
    email,
    fault,
    clientName: client?.clientName ?? pending?.request.clientId,
    localLogin: federation.showLocalLogin,
    federation: federation.enabled ? federation.displayName || new URL(federation.issuer).host : undefined
  }
}

/** Origins to which a login may redirect at once: the application that already has consent, or the provider
 *  being connected and the return URL after it. */
const formTargets = (
  services: AuthServices,
  redirectUri: string | undefined,
  next: string
): ReadonlyArray<string> => {
  const {
    settings: { federation, connect },
    books
  } = services
  const { pathname, searchParams } = new URL(next, "http://localhost")
  const provider = /^\/connect\/(.+)$/.exec(pathname)?.[1]
  const connecting = provider === undefined ? undefined : providerBySlug(books, provider)
  const returnUrl = searchParams.get("return_url") ?? ""
  const returns =
    connecting !== undefined &&
    (connect.allowedReturnUrls.includes(returnUrl) ||
      resourcesOf(books, connecting).some(({ returnUrls }) => returnUrls.includes(returnUrl)))
  return [
    ...(federation.enabled ? [federation.issuer] : []),
    ...(redirectUri === undefined ? [] : [redirectUri]),
    ...(connecting?.protocol === "oauth" ? [oauthConfig(connecting).authorizeUrl] : []),
    ...(returns ? [returnUrl] : [])
  ].map(formTargetOf)
}

export const showLogin = (services: AuthServices, sessions: BrowserSessions, request: Request): Response => {
  const query = readPairs(request.query)
  if (isWireFault(query))
    return problemPageOrJson(services, request, problemOf("invalid_request", query.detail))
  const req = query.get("req") ?? ""
  const next = query.get("next") ?? ""
  const pending = requestOf(services, req)
  if ((req !== "" && pending?.request.phase !== "login") || (next !== "" && !localPath.test(next)))
    return problemPageOrJson(services, request, sessionExpired())
  const { nonce, cookie } = sessions.before(request)
  return loginPage(view(services, sessions, nonce, req, next, pending?.request.loginHint ?? "", undefined), {
    formTargets: formTargets(services, pending?.request.redirectUri, next),
    ...(cookie === undefined ? {} : { headers: [cookie] })
  })
}

/** What an attempt to sign in has in hand when its password is checked. */
interface LoginAttempt {
  readonly nonce: string
  readonly req: string
  readonly next: string
  readonly email: string
  readonly pending: ReturnType<typeof requestOf>
  readonly user: User | undefined
  readonly password: string
}

/** An attempt whose client goes leaves the queue of the password hash. One whose hash has begun goes on to its
 *  end, so that it is counted. */
export const login = (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request
): Effect.Effect<Response> => {
  const checked = Effect.gen(function* () {
    const attempt = yield* Effect.promise(() => checkedForm(services, sessions, request))
    if ("status" in attempt) return attempt
    const { user } = attempt
    const stored = user?.status === "active" ? (user.passwordHash ?? undefined) : undefined
    const right = yield* services.passwords.verify(stored, attempt.password)
    return yield* Effect.promise(() => answered(services, sessions, request, attempt, right))
  })
  return Effect.uninterruptible(
    Effect.catchTag(checked, "PasswordsBusy", () =>
      Effect.sync(() => problemPageOrJson(services, request, slowDown(1_000)))
    )
  )
}

const checkedForm = async (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request
): Promise<Response | LoginAttempt> => {
  const { settings, books, limits } = services
  const ip = request.client
  if (!settings.federation.showLocalLogin)
    return problemPageOrJson(services, request, problemOf("not_found", "there is no local sign-in"))
  const form = readForm(request.headers.get("content-type"), request.query, request.body)
  if (isWireFault(form))
    return problemPageOrJson(services, request, problemOf("invalid_request", form.detail))
  const req = form.get("req") ?? ""
  const next = form.get("next") ?? ""
  const email = (form.get("email") ?? "").trim().slice(0, emailLengthMax)
  const nonce = sessions.nonceOf(request)
  if (nonce === undefined || !sessions.isCsrf(form.get("csrf"), "login", nonce, req, next))
    return problemPageOrJson(
      services,
      request,
      problemOf("access_denied", "the form is not from this browser; open the page again")
    )
  const locked = await limits.loginAllowed(ip, email)
  if (locked !== undefined) return problemPageOrJson(services, request, locked)
  const pending = requestOf(services, req)
  if ((req !== "" && pending?.request.phase !== "login") || (next !== "" && !localPath.test(next)))
    return problemPageOrJson(services, request, sessionExpired())

  const id = UserEmails.get(books.store, [email.toLowerCase()])
  const user = id === undefined ? undefined : books.get(Users, [id.id])
  return { nonce, req, next, email, pending, user, password: form.get("password") ?? "" }
}

const answered = async (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request,
  { nonce, req, next, email, pending, user }: LoginAttempt,
  right: boolean
): Promise<Response> => {
  const { settings, books, limits, audit } = services
  const ip = request.client
  if (!right || user === undefined) {
    const lockedNow = await limits.loginFailed(ip, email)
    await books.write([
      audit.event("user.login_failed", { ip, traceId: request.traceId, detail: { email } }),
      ...(lockedNow ? [audit.event("auth.locked_out", { ip, traceId: request.traceId })] : [])
    ])
    const problem = problemOf("invalid_grant", wrong)
    return /text\/html/i.test(request.headers.get("accept") ?? "")
      ? loginPage(view(services, sessions, nonce, req, next, email, wrong), {
          status: 400,
          formTargets: formTargets(services, pending?.request.redirectUri, next)
        })
      : problemResponse(problem, request, settings)
  }
  limits.loginSucceeded(ip, email)
  const begun = sessions.begin(user, "pwd", ip)
  const rows =
    pending === undefined
      ? []
      : [
          Requests.put(
            [pending.key],
            {
              ...pending.request,
              userId: user.id,
              sessionHash: begun.sessionHash,
              phase: "consent" as const
            },
            Requests.unchanged(pending.request)
          )
        ]
  const outcome = books.commit([
    ...begun.rows,
    ...rows,
    audit.event("user.login", { actorId: user.id, ip, traceId: request.traceId })
  ])
  if (!(outcome instanceof Promise)) return problemPageOrJson(services, request, sessionExpired())
  await outcome
  const landing = next === "" ? "/connections" : next
  return goTo(pending === undefined ? landing : `/oauth/authorize/continue?req=${req}`, 303, [begun.cookie])
}

/** `GET /oauth/authorize/continue`: accepted only from the session that signed in for this request. */
export const continueAuthorization = async (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request
): Promise<Response> => {
  const query = readPairs(request.query)
  const req = isWireFault(query) ? undefined : query.get("req")
  const pending = requestOf(services, req)
  const signedIn = sessions.of(request)
  if (
    pending !== undefined &&
    signedIn === undefined &&
    pending.request.userId !== null &&
    services.books.get(Users, [pending.request.userId])?.status !== "active"
  ) {
    return refusedTo(services, pending.request, problemOf("access_denied", "the user is disabled"))
  }
  if (
    pending === undefined ||
    signedIn === undefined ||
    pending.request.phase !== "consent" ||
    pending.request.sessionHash !== signedIn.sessionHash
  )
    return errorPage(sessionExpired(), request.traceId)
  const client = await findClient(services, pending.request.clientId, request.client)
  if (client === undefined || isProblem(client) || client.status !== "active")
    return errorPage(problemOf("invalid_client", authenticationFailed), request.traceId)
  return proceed(services, client, req!, pending.request, signedIn, 302)
}

export const logout = async (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request
): Promise<Response> => {
  const form = readForm(request.headers.get("content-type"), request.query, request.body)
  if (isWireFault(form))
    return problemPageOrJson(services, request, problemOf("invalid_request", form.detail))
  const signedIn = sessions.of(request)
  if (signedIn === undefined) return goTo("/login", 303)
  if (!sessions.isCsrf(form.get("csrf"), "logout", signedIn.sessionHash))
    return problemPageOrJson(
      services,
      request,
      problemOf("access_denied", "the form is not from this browser; open the page again")
    )
  const { cookie, rows } = sessions.end(signedIn.sessionHash)
  await services.books.write(rows)
  return goTo("/login", 303, [cookie])
}
