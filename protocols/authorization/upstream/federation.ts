/** Login through one upstream OpenID provider. Guarantee: a user is identified by (`iss`, `sub`) of a
 *  verified ID token, never by an e-mail address, and an answer is accepted only from the browser that was
 *  redirected.
 *  Source: docs/spec/authorization.md, section 7.9; OpenID Connect Core sections 3.1.3.3 and 3.1.3.7, RFC
 *  9207. */
import type { KeyObject } from "node:crypto"
import { Effect } from "effect"
import { decodeProtectedHeader, jwtVerify } from "jose"
import { effectOf, type Later, type Request, type Response, type Route } from "../../../runtime/http.ts"
import type { AuthContext } from "../auth-context.ts"
import { redirect } from "./connect.ts"
import { badGateway, type PlainCode, type Problem, problemOf } from "../problems.ts"
import { asClient } from "./providers.ts"
import { canBeKey } from "../fields.ts"
import { UserEmails, UserFederations, Users, type User } from "../records.ts"
import { RemoteKeys, type KeyHeader, type Party } from "./remote-keys.ts"
import { FetchFault, isJson, type SafeFetch } from "./safe-fetch.ts"
import { challengeOf, newVerifier, SealedStates } from "./sealed-state.ts"
import { isAllowedUrl } from "../settings.ts"
import { isWireFault, parseObject, readPairs, type Members } from "../wire.ts"

export interface FederationDependencies {
  readonly fetcher: SafeFetch
  readonly pages: { error(problem: Problem, request: Request): Response }
  /** True when this authorization request is waiting for a login. */
  readonly waits: (req: string) => boolean
  /** Opens a session of method "fed" for the user, with its audit event, and continues the request; `req` is
   *  "" when there is none. */
  readonly logIn: (user: User, req: string, request: Request) => Response | Promise<Response>
  /** Redirects an error to the client of the request; returns undefined when there is none. */
  readonly redirectError: (
    req: string,
    error: PlainCode,
    description: string
  ) => Response | undefined | Promise<Response | undefined>
}

interface LoggingIn {
  readonly atMs: number
  readonly req: string
  readonly nonce: string
  readonly verifier: string
}

const algorithms = ["RS256", "ES256", "PS256"]
const bodyBytesMax = 262_144
const timeoutMs = 10_000
const keysKeptMs = 3_600_000
const skewSeconds = 5
const idTokenLengthMax = 65_536
const subjectLengthMax = 255
const emailLengthMax = 254
const nameLengthMax = 200

export const federationRoutes = (
  authority: AuthContext,
  { fetcher, pages, waits, logIn, redirectError }: FederationDependencies
): ReadonlyArray<Route> => {
  const { settings, books, audit, nowMs, local } = authority
  const { federation, session } = settings
  const party: Party = { id: "federation", issuer: federation.issuer, jwksUri: "" }
  const keys = new RemoteKeys(fetcher, { keptMs: keysKeptMs, timeoutMs, allowPrivateAddresses: local }, nowMs)
  const states = new SealedStates<LoggingIn>(authority, "federation", settings.stateMaxAgeMs)
  const cookieName = `${session.secure ? "__Host-" : ""}authserver_oidc`
  const cookie = (value: string, seconds: number): readonly [string, string] => [
    "Set-Cookie",
    `${cookieName}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${session.secure ? "; Secure" : ""}`
  ]
  const within = (response: Response, ...headers: ReadonlyArray<readonly [string, string]>): Response => ({
    ...response,
    headers: [...(response.headers ?? []), ...headers]
  })
  const page = (request: Request, problem: Problem): Response => pages.error(problem, request)
  const endpoint = (
    name: string
  ): Effect.Effect<{ readonly url: URL; readonly document: Members }, FetchFault> =>
    Effect.flatMap(keys.configuration(party), (document) => {
      const value = document[name]
      return typeof value === "string" && isAllowedUrl(value, local)
        ? Effect.succeed({ url: new URL(value), document })
        : Effect.fail(new FetchFault({ reason: "url" }))
    })

  const start = (request: Request): Later<Response> => {
    if (!federation.enabled) return page(request, problemOf("not_found", "there is nothing here"))
    const asked = readPairs(request.query)
    const req = isWireFault(asked) || asked.repeated.length > 0 ? undefined : (asked.get("req") ?? "")
    if (req === undefined || (req !== "" && !waits(req)))
      return page(request, problemOf("invalid_grant", "login session expired"))
    return Effect.match(endpoint("authorization_endpoint"), {
      onFailure: (fault) => unavailable(request, fault),
      onSuccess: ({ url }) => sentTo(url, req)
    })
  }
  const sentTo = (url: URL, req: string): Response => {
    const verifier = newVerifier()
    const nonce = newVerifier()
    const state = states.seal({ atMs: nowMs(), req, nonce, verifier })
    for (const [name, value] of Object.entries({
      response_type: "code",
      client_id: federation.clientId,
      redirect_uri: federation.redirectUri,
      scope: federation.scopes.join(" "),
      state,
      nonce,
      code_challenge: challengeOf(verifier),
      code_challenge_method: "S256",
      ...(federation.connectorId === "" ? {} : { connector_id: federation.connectorId })
    }))
      url.searchParams.set(name, value)
    return within(redirect(302, url.href), cookie(state, Math.floor(settings.stateMaxAgeMs / 1_000)))
  }
  const unavailable = (request: Request, fault: FetchFault): Response =>
    page(request, badGateway("the login provider is not available", fault))

  const callback = (request: Request): Later<Response> => {
    if (!federation.enabled) return page(request, problemOf("not_found", "there is nothing here"))
    const answered = readPairs(request.query)
    const sent = isWireFault(answered) || answered.repeated.length > 0 ? undefined : answered.get("state")
    const state = states.open(sent)
    const unknown = (): Response =>
      page(request, problemOf("invalid_request", "the login attempt is unknown, expired or already used"))
    if (
      isWireFault(answered) ||
      sent === undefined ||
      state === undefined ||
      cookieOf(request, cookieName) !== sent
    )
      return unknown()
    return Effect.gen(function* () {
      if (!(yield* Effect.promise(() => states.spend(sent, state)))) return unknown()
      return within(yield* answer(request, state, (name) => answered.get(name)), cookie("", 0))
    })
  }
  const answer = Effect.fnUntraced(function* (
    request: Request,
    state: LoggingIn,
    parameter: (name: string) => string | undefined
  ) {
    const failed = (reason: string) =>
      Effect.promise(() =>
        books.write(audit.strangerEvent("user.oidc_login_failed", { ip: request.client, detail: { reason } }))
      )
    const iss = parameter("iss")
    if (iss !== undefined && iss !== federation.issuer) {
      yield* failed("iss")
      return page(request, problemOf("invalid_request", "the answer is another issuer's"))
    }
    /** Redirects the error to the client when there is one, and answers a page otherwise. */
    const denied = (
      reason: string,
      error: "access_denied" | "server_error",
      description: string
    ): Effect.Effect<Response> =>
      Effect.gen(function* () {
        yield* failed(reason)
        const redirected = yield* effectOf(redirectError(state.req, error, description))
        if (redirected !== undefined) return redirected
        return page(
          request,
          error === "server_error"
            ? badGateway(description, { _tag: "LoginNotCompleted", reason })
            : problemOf(error, description)
        )
      })
    if (parameter("error") !== undefined)
      return yield* denied("upstream", "access_denied", "the login provider refused the login")
    const code = parameter("code")
    if (code === undefined) return page(request, problemOf("invalid_request", "code is missing"))
    const claims = yield* exchanged(code, state)
    if (typeof claims === "string")
      return yield* denied(claims, "server_error", "the login provider did not complete the login")
    const user = yield* Effect.promise(() => userOf(claims))
    if (user === undefined) {
      yield* failed("email_in_use")
      return page(request, problemOf("conflict", "the e-mail address belongs to another account"))
    }
    if (user.status !== "active") return yield* denied("disabled", "access_denied", "the account is disabled")
    return yield* effectOf(logIn(user, state.req, request))
  })

  /** Returns the claims of a verified ID token, or the reason why there are none. */
  const exchanged = (code: string, { nonce, verifier }: LoggingIn): Effect.Effect<Members | string> =>
    Effect.gen(function* () {
      const token = yield* endpoint("token_endpoint")
      const methods = token.document["token_endpoint_auth_methods_supported"]
      // The default is client_secret_basic (OpenID Connect Discovery section 3).
      const auth =
        Array.isArray(methods) &&
        !methods.includes("client_secret_basic") &&
        methods.includes("client_secret_post")
          ? "post"
          : "basic"
      const form = {
        grant_type: "authorization_code",
        code,
        redirect_uri: federation.redirectUri,
        code_verifier: verifier
      }
      const fetched = yield* fetcher.fetch({
        ...asClient(token.url.href, auth, federation.clientId, federation.clientSecret, form),
        bodyBytesMax,
        timeoutMs,
        allowPrivateAddresses: local,
        allowHttp: local
      })
      const body = fetched.status === 200 && isJson(fetched) ? parseObject(fetched.body) : undefined
      const idToken = body === undefined || isWireFault(body) ? undefined : body["id_token"]
      if (typeof idToken !== "string" || idToken.length > idTokenLengthMax) return "token_response"
      const header = headerOf(idToken)
      const key = header === undefined ? undefined : yield* effectOf(keys.keyFor(party, header))
      return key === undefined ? "id_token" : yield* Effect.promise(() => verified(idToken, key, nonce))
    }).pipe(Effect.catchTag("FetchFault", (fault) => Effect.succeed<Members | string>(fault.reason)))

  const verified = async (idToken: string, key: KeyObject, nonce: string): Promise<Members | string> => {
    try {
      const { payload } = await jwtVerify(idToken, key, {
        algorithms,
        issuer: federation.issuer,
        audience: federation.clientId,
        currentDate: new Date(nowMs()),
        requiredClaims: ["exp", "iat", "sub", "nonce"]
      })
      const { aud, sub, iat, nonce: theirs, azp } = payload
      const several = Array.isArray(aud) && aud.length > 1
      const good =
        theirs === nonce &&
        iat! <= nowMs() / 1_000 + skewSeconds &&
        typeof sub === "string" &&
        canBeKey(sub) &&
        sub.length <= subjectLengthMax &&
        (azp === undefined ? !several : azp === federation.clientId)
      return good ? payload : "id_token"
    } catch {
      return "id_token"
    }
  }

  /** Returns the user of these claims, created at the first login; undefined when the e-mail address belongs
   *  to another user. */
  const userOf = async (claims: Members): Promise<User | undefined> => {
    const subject = claims["sub"] as string
    const key = [federation.issuer, subject]
    const existing = UserFederations.get(books.store, key)
    if (existing !== undefined) return books.get(Users, [existing.id])
    const text = (name: string, max: number): string => {
      const value = claims[name]
      return typeof value === "string" && value.length <= max && !/\p{Cc}/u.test(value) ? value.trim() : ""
    }
    const email = text("email", emailLengthMax)
    const at = nowMs()
    const user: User = {
      id: books.id(),
      email,
      name: text("name", nameLengthMax),
      role: "user",
      passwordHash: null,
      federated: { issuer: federation.issuer, subject },
      status: "active",
      epoch: 0,
      lastLoginMs: null,
      createdMs: at,
      updatedMs: at
    }
    const committed = books.commit([
      UserFederations.put(key, { id: user.id }, "absent"),
      Users.put([user.id], user, "absent"),
      ...(email === "" ? [] : [UserEmails.put([email.toLowerCase()], { id: user.id }, "absent")]),
      audit.event("user.created", { actorId: user.id, detail: { source: "federation" } })
    ])
    // Read and commit run in one turn, so the only possible conflict is the e-mail address.
    if (!(committed instanceof Promise)) return undefined
    await committed
    return user
  }

  return [
    { method: "GET", path: "/oidc/start", handle: start },
    { method: "GET", path: "/oidc/callback", handle: callback }
  ]
}

/** Returns which key an ID token names; undefined when it is no token of a supported algorithm. */
const headerOf = (idToken: string): KeyHeader | undefined => {
  try {
    const { alg, kid } = decodeProtectedHeader(idToken)
    return alg !== undefined && algorithms.includes(alg) ? { alg, kid } : undefined
  } catch {
    return undefined
  }
}

const cookieOf = (request: Request, name: string): string | undefined => {
  for (const pair of (request.headers.get("cookie") ?? "").split(";")) {
    const equals = pair.indexOf("=")
    if (equals > 0 && pair.slice(0, equals).trim() === name) return pair.slice(equals + 1).trim()
  }
  return undefined
}
