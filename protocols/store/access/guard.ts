/** The checks before every operation of the store: a secure transport, the right host, the caller, a place
 *  in the rate window; then scope and area. They run in this order, each with its own refusal. Guarantee: a
 *  refused check has no effect on data.
 *  Source: docs/spec/store.md, sections 2.1, 2.3, 2.9, 3, 4. */
import type { Request, Header } from "../../../runtime/http.ts"
import { problemOf, type Problem } from "../problems.ts"
import type { Verified } from "./app-tokens.ts"
import { adminTokenPrefix, type App, type AppRegistry } from "./apps.ts"
import { isLoopback } from "./loopback.ts"
import type { RateLimiter } from "./rate-limit.ts"
import type { Need } from "./scopes.ts"
import type { Member, Staff } from "./staff.ts"

const sessionCookie = "__Host-store_admin"
const tokenLengthMax = 8_192
const cachedPrincipalsMax = 10_000

export interface Principal {
  readonly kind: "admin-token" | "user" | "client" | "session"
  readonly app: App | undefined
  /** The user for whom the call acts, with the areas they have now. */
  readonly member: Member | undefined
  readonly scopes: ReadonlySet<string>
  /** The bucket of the rate limit that the call is counted in. */
  readonly bucket: string
}

/** Result of the checks; `headers` are added to whatever answer follows. */
export type Admission =
  | { readonly _tag: "Admitted"; readonly principal: Principal; readonly headers: ReadonlyArray<Header> }
  | { readonly _tag: "Refused"; readonly problem: Problem; readonly headers: ReadonlyArray<Header> }

type OnAdmission = (admission: Admission) => void

export interface GuardOptions {
  readonly headerPrefix: string
  /** The host names that are this store; never empty. */
  readonly hosts: ReadonlyArray<string>
  /** Loopback may speak plain HTTP: there is no certificate, and the server is bound to loopback. */
  readonly plainLoopback: boolean
}

export interface GuardParts {
  readonly rateLimiter: RateLimiter
  readonly apps: AppRegistry
  readonly staff: Staff
}

const cookieOf = (request: Request, name: string): string | undefined => {
  for (const part of request.headers.get("cookie")?.split(/[;,]\s*/) ?? [])
    if (part.startsWith(`${name}=`)) return part.slice(name.length + 1)
  return undefined
}

/** Name of the session cookie. Over plain HTTP, which only loopback may use, a browser would not store a
 *  `__Host-` cookie, so it has a plain name there. */
export const cookieName = (request: Pick<Request, "scheme">): string =>
  request.scheme === "https" ? sessionCookie : "store_admin"

export const sessionOf = (request: Request): string | undefined => cookieOf(request, cookieName(request))

export class Guard {
  readonly rateLimiter: RateLimiter
  readonly apps: AppRegistry
  readonly staff: Staff
  readonly tokenHeader: string
  private readonly options: GuardOptions
  private readonly hosts: ReadonlySet<string>
  private readonly tokenHeaderKey: string
  private readonly challenge: string

  /** Principals of recently presented admin tokens; cleared when anything about apps changes. */
  private readonly cachedPrincipals = new Map<string, Principal>()

  constructor({ rateLimiter, apps, staff }: GuardParts, options: GuardOptions) {
    this.rateLimiter = rateLimiter
    this.apps = apps
    this.staff = staff
    this.options = options
    this.hosts = new Set(options.hosts.map((host) => host.toLowerCase()))
    this.tokenHeader = `${options.headerPrefix}-Auth-Token`
    this.tokenHeaderKey = this.tokenHeader.toLowerCase()
    this.challenge = `${options.headerPrefix.replace(/^X-/, "")}-Token error="invalid_token"`
    apps.onChange = () => this.cachedPrincipals.clear()
  }

  /** Refuses what did not come over HTTPS, or for another host. */
  checkTransport(request: Request): Problem | undefined {
    if (request.scheme !== "https" && !(this.options.plainLoopback && isLoopback(request.client)))
      return { _tag: "Forbidden", details: "HTTPS is required" }
    const host = (request.headers.get("host") ?? "").toLowerCase().replace(/:\d+$/, "")
    return this.hosts.has(host) ? undefined : { _tag: "WrongHost" }
  }

  /** Identifies the caller and takes a place in their rate window. `done` is called in this turn unless the
   *  token check or the window has to wait. */
  admit(request: Request, done: OnAdmission): void {
    if (this.rateLimiter.isExhausted(request.client)) return this.admitUnrecognised(request, done)
    const token = request.headers.get(this.tokenHeaderKey)
    const principal = token === undefined ? this.bySession(request) : this.byToken(token, request)
    if (!(principal instanceof Promise)) return this.admitPrincipal(request, principal, done)
    principal.then(
      (found) => this.admitPrincipal(request, found, done),
      (cause: unknown) =>
        done({
          _tag: "Refused",
          problem: problemOf(cause, request.traceId),
          headers: [this.rateLimiter.headerWithoutPlace(request.client)]
        })
    )
  }

  private admitPrincipal(request: Request, principal: Principal | undefined, done: OnAdmission): void {
    if (principal === undefined) return this.admitUnrecognised(request, done)
    this.rateLimiter.take(principal.bucket, (place) => {
      const headers = [this.rateLimiter.header(place)]
      done(
        place._tag === "Taken"
          ? { _tag: "Admitted", principal, headers }
          : { _tag: "Refused", problem: this.rateLimiter.problemOf(place), headers }
      )
    })
  }

  /** Refuses every invalid token with the same text, so that the answer reveals nothing about it. */
  private admitUnrecognised(request: Request, done: OnAdmission): void {
    this.rateLimiter.takeUnrecognised(request.client, (place) => {
      const problem: Problem =
        place._tag === "Taken"
          ? { _tag: "NotAuthenticated", details: "a valid token is required", challenge: this.challenge }
          : this.rateLimiter.problemOf(place)
      done({ _tag: "Refused", problem, headers: [this.rateLimiter.header(place)] })
    })
  }

  private byToken(token: string, request: Request): Principal | undefined | Promise<Principal | undefined> {
    const cached = this.cachedPrincipals.get(token)
    if (cached !== undefined) return cached
    if (token.length > tokenLengthMax) return undefined
    if (token.startsWith(adminTokenPrefix)) return this.byAdminToken(token)
    let verified: Verified | undefined | Promise<Verified | undefined>
    try {
      verified = this.apps.tokens.verify(token, {
        method: request.method,
        url: `https://${request.headers.get("host") ?? ""}${request.path}`,
        proof: request.headers.get("dpop")
      })
    } catch (cause) {
      return Promise.reject(cause instanceof Error ? cause : new Error(String(cause)))
    }
    return verified instanceof Promise
      ? verified.then((found) => this.principalOf(found))
      : this.principalOf(verified)
  }

  private byAdminToken(token: string): Principal | undefined {
    const adminToken = this.apps.findAdminToken(token)
    const app = adminToken === undefined ? undefined : this.apps.get(adminToken.appId)
    if (adminToken === undefined || app === undefined || app.suspended) return undefined
    const principal: Principal = {
      kind: "admin-token",
      app,
      member: undefined,
      scopes: new Set(adminToken.scopes),
      bucket: app.kind
    }
    if (this.cachedPrincipals.size >= cachedPrincipalsMax) this.cachedPrincipals.clear()
    this.cachedPrincipals.set(token, principal)
    return principal
  }

  private principalOf(verified: Verified | undefined): Principal | undefined {
    const app = verified === undefined ? undefined : this.apps.get(verified.appId)
    if (verified === undefined || app === undefined || app.suspended) return undefined
    const scopes = new Set(verified.scopes)
    if (verified.subject === undefined)
      return { kind: "client", app, member: undefined, scopes, bucket: app.kind }
    const member = this.staff.bySubject(verified.subject)
    return member === undefined ? undefined : { kind: "user", app, member, scopes, bucket: app.kind }
  }

  /** Returns the principal of a console session, which may only read, and only from the store's own pages or
   *  from no page at all. */
  private bySession(request: Request): Principal | undefined {
    const secret = sessionOf(request)
    if (secret === undefined || (request.method !== "GET" && request.method !== "HEAD")) return undefined
    const site = request.headers.get("sec-fetch-site")
    if (site !== undefined && !["same-origin", "same-site", "none"].includes(site)) return undefined
    const member = this.staff.session(secret)
    return member === undefined
      ? undefined
      : { kind: "session", app: undefined, member, scopes: new Set(), bucket: `console:${member.userId}` }
  }
}

/** Checks scope, then area; undefined when the principal may do it. */
export const checkNeed = (principal: Principal, need: Need): Problem | undefined => {
  if (principal.kind !== "session") {
    if (!need.scopes.some((scope) => principal.scopes.has(scope)))
      return { _tag: "Forbidden", details: `the scope ${need.scopes[0]} is needed` }
    if (need.also !== undefined && !principal.scopes.has(need.also))
      return { _tag: "Forbidden", details: `the scope ${need.also} is needed` }
  }
  return principal.member === undefined || principal.member.areas.has(need.area)
    ? undefined
    : { _tag: "Forbidden", details: `the area ${need.area} is needed` }
}
