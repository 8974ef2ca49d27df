/** Login with a local account, the continuation of the request after it, and logout.
 *  Source: docs/spec/authorization.md, section 7.5. */
import { Cause, Effect, Exit } from "effect"
import { chainLater, type Later, type Request, type Response } from "../../../runtime/http.ts"
import { errorPage, loginPage, type LoginView } from "./pages/pages.ts"
import {
  adopted,
  completeLogin,
  continueAt,
  goTo,
  mayGoOn,
  proceed,
  refusedTo,
  requestOf,
  sessionExpired
} from "./authorize.ts"
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
import { Clients, UserEmails, Users, type User } from "../records.ts"
import { formTargetOf } from "../redirect-uris.ts"
import type { AuthServices } from "../services.ts"
import type { LoginReservation } from "../rate-limit.ts"
import type { BrowserSessions, LoginForm } from "./sessions.ts"
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

export const showLogin = async (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request
): Promise<Response> => {
  const query = readPairs(request.query)
  if (isWireFault(query))
    return problemPageOrJson(services, request, problemOf("invalid_request", query.detail))
  const req = query.get("req") ?? ""
  const next = query.get("next") ?? ""
  const pending = requestOf(services, req)
  const signedIn = sessions.of(request)
  if (pending !== undefined && signedIn !== undefined && (await adopted(services, pending, signedIn)))
    return goTo(continueAt(req))
  if ((req !== "" && pending?.request.phase !== "login") || (next !== "" && !localPath.test(next)))
    return problemPageOrJson(services, request, sessionExpired())
  const { nonce, cookie } = sessions.before(request, { req, next })
  return loginPage(view(services, sessions, nonce, req, next, pending?.request.loginHint ?? "", undefined), {
    formTargets: formTargets(services, pending?.request.redirectUri, next),
    headers: [cookie]
  })
}

/** What an attempt to sign in has in hand when its password is checked. */
interface LoginAttempt extends LoginForm {
  readonly email: string
  readonly user: User | undefined
  readonly password: string
  readonly reservation: LoginReservation
}

/** An attempt is counted before its password is hashed, and stays counted when its client goes while it waits for
 *  the hash. One whose hash has begun goes on to its end. */
export const login = (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request
): Effect.Effect<Response> =>
  Effect.gen(function* () {
    const attempt = yield* Effect.promise(() => checkedForm(services, sessions, request))
    if ("status" in attempt) return attempt
    const { user, password, reservation } = attempt
    const stored = storedHashOf(user)
    const verdict = yield* Effect.exit(services.passwords.verify(stored, password))
    if (Exit.isSuccess(verdict)) {
      // Whoever changed the password meanwhile has made this one a wrong one.
      const now = user === undefined ? undefined : services.books.get(Users, [user.id])
      const isRight = verdict.value && storedHashOf(now) === stored
      return yield* Effect.promise(() =>
        isRight
          ? signedIn(services, sessions, request, attempt)
          : failed(services, sessions, request, attempt)
      )
    }
    const isGone = Cause.hasInterrupts(verdict.cause)
    yield* Effect.promise(() => reservation.settle(isGone ? "failed" : "unjudged"))
    if (Cause.hasFails(verdict.cause)) return problemPageOrJson(services, request, slowDown(1_000))
    return yield* Effect.failCause(verdict.cause as Cause.Cause<never>)
  }).pipe(Effect.uninterruptible)

const storedHashOf = (user: User | undefined): string | undefined =>
  user?.status === "active" ? (user.passwordHash ?? undefined) : undefined

const checkedForm = async (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request
): Promise<Response | LoginAttempt> => {
  const { settings, books, limits } = services
  if (!settings.federation.showLocalLogin)
    return problemPageOrJson(services, request, problemOf("not_found", "there is no local sign-in"))
  const form = readForm(request.headers.get("content-type"), request.query, request.body)
  if (isWireFault(form))
    return problemPageOrJson(services, request, problemOf("invalid_request", form.detail))
  const req = form.get("req") ?? ""
  const next = form.get("next") ?? ""
  const email = (form.get("email") ?? "").trim().slice(0, emailLengthMax)
  const nonce = sessions.nonceOf(request, { req, next })
  if (nonce === undefined || !sessions.isCsrf(form.get("csrf"), "login", nonce, req, next))
    return problemPageOrJson(
      services,
      request,
      problemOf("access_denied", "the form is not from this browser; open the page again")
    )
  const phase = requestOf(services, req)?.request.phase
  const isOver = req !== "" && phase !== "login" && phase !== "consent"
  const reservation = await limits.reserveLogin(request.client, email)
  if (isProblem(reservation)) return problemPageOrJson(services, request, reservation)
  if (isOver || (next !== "" && !localPath.test(next))) {
    await reservation.settle("unjudged")
    return problemPageOrJson(services, request, sessionExpired())
  }
  const id = UserEmails.get(books.store, [email.toLowerCase()])
  const user = id === undefined ? undefined : books.get(Users, [id.id])
  return { req, next, email, user, password: form.get("password") ?? "", reservation }
}

const failed = async (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request,
  { req, next, email, reservation }: LoginAttempt
): Promise<Response> => {
  const { settings, books, audit } = services
  const ip = request.client
  const isLockedNow = await reservation.settle("failed")
  await books.write([
    ...audit.strangerEvent("user.login_failed", { ip, traceId: request.traceId, detail: { email } }),
    ...(isLockedNow ? audit.strangerEvent("auth.locked_out", { ip, traceId: request.traceId }) : [])
  ])
  if (!/text\/html/i.test(request.headers.get("accept") ?? ""))
    return problemResponse(problemOf("invalid_grant", wrong), request, settings)
  const { nonce, cookie } = sessions.before(request, { req, next })
  return loginPage(view(services, sessions, nonce, req, next, email, wrong), {
    status: 400,
    formTargets: formTargets(services, requestOf(services, req)?.request.redirectUri, next),
    headers: [cookie]
  })
}

const signedIn = async (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request,
  attempt: LoginAttempt
): Promise<Response> => {
  const { req, next } = attempt
  const [page] = await Promise.all([
    completeLogin(services, sessions, request, {
      user: attempt.user!,
      method: "pwd",
      req,
      landing: next === "" ? "/connections" : next,
      action: "user.login",
      cookies: [sessions.after(attempt)]
    }),
    attempt.reservation.settle("succeeded")
  ])
  return isProblem(page) ? problemPageOrJson(services, request, page) : page
}

/** `GET /oauth/authorize/continue`: accepted only from the session that signed in for this request. */
export const continueAuthorization = (
  services: AuthServices,
  sessions: BrowserSessions,
  request: Request
): Later<Response> => {
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
  if (pending === undefined || signedIn === undefined || !mayGoOn(services, pending.request, signedIn))
    return errorPage(sessionExpired(), request.traceId)
  return chainLater(findClient(services, pending.request.clientId, request.client), (client) =>
    client === undefined || isProblem(client) || client.status !== "active"
      ? errorPage(problemOf("invalid_client", authenticationFailed), request.traceId)
      : proceed(services, client, req!, pending.request, signedIn, 302)
  )
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
