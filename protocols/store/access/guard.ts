/** Before anything of the store is done: a secure way in, the right host, who it is, a place in the rate
 *  window; then scope and area. In that order, each with its own refusal; a refused check has no effect on
 *  data. Source: store sections 2.1, 2.3, 2.9, 3, 4. */
import { BlockList, isIP } from "node:net"
import type { Request, Header } from "../../../runtime/http.ts"
import type { Need } from "./access.ts"
import { AuthorizationUnreachable, type Verified } from "./app-tokens.ts"
import { adminTokenPrefix, type App, type AppRegistry } from "./apps.ts"
import type { Problem } from "../problems.ts"
import type { Member, Staff } from "./staff.ts"
import type { Place, Windows } from "./windows.ts"

export const plans = { steel: 5, bronze: 10, silver: 20, gold: 50, platinum: 50, diamond: 50 } as const
export type Plan = keyof typeof plans
const callsMaxDefault = 50
const sessionCookie = "__Host-store_admin"
const tokenLengthMax = 8_192
const knownMax = 10_000

export interface Principal {
  readonly kind: "admin-token" | "user" | "client" | "session"
  readonly app: App | undefined
  /** Who the call acts for, with the areas they have now. */
  readonly member: Member | undefined
  readonly scopes: ReadonlySet<string>
  readonly bucket: string
}

/** What came of it: `headers` go with whatever answer follows. */
export type Admission =
  | { readonly principal: Principal; readonly headers: ReadonlyArray<Header> }
  | { readonly problem: Problem; readonly headers: ReadonlyArray<Header> }

export interface GuardOptions {
  readonly headerPrefix: string
  readonly plan: () => Plan
  /** Host names that are this store; empty never. */
  readonly hosts: ReadonlyArray<string>
  /** No certificate, bound to loopback: then loopback may speak plain HTTP. */
  readonly plainLoopback: boolean
  readonly retryAfter: "date" | "seconds"
  readonly clock: () => number
  /** Calls per window of the best plan; the published 50 but in benches. */
  readonly callsMax?: number
}

const loopback = new BlockList()
loopback.addSubnet("127.0.0.0", 8, "ipv4")
loopback.addAddress("::1", "ipv6")

const isLoopback = (address: string): boolean =>
  isIP(address) !== 0 && loopback.check(address, isIP(address) === 6 ? "ipv6" : "ipv4")

const cookieOf = (request: Request, name: string): string | undefined => {
  for (const part of request.headers.get("cookie")?.split(/[;,]\s*/) ?? [])
    if (part.startsWith(`${name}=`)) return part.slice(name.length + 1)
  return undefined
}

/** Over plain HTTP (loopback only) a browser would not keep the strict cookie: there it goes by its plain
 *  name. */
export const cookieName = (request: Pick<Request, "scheme">): string =>
  request.scheme === "https" ? sessionCookie : "store_admin"

export const sessionOf = (request: Request): string | undefined => cookieOf(request, cookieName(request))

export class Guard {
  readonly windows: Windows
  readonly apps: AppRegistry
  readonly staff: Staff
  readonly options: GuardOptions
  private readonly hosts: ReadonlySet<string>
  private readonly callsMax: number
  private readonly tokenHeader: string
  private readonly limitHeader: string

  /** Admin tokens lately shown; emptied when anything about apps changes. */
  private readonly known = new Map<string, Principal>()

  constructor(windows: Windows, apps: AppRegistry, staff: Staff, options: GuardOptions) {
    this.windows = windows
    this.apps = apps
    this.staff = staff
    this.options = options
    this.hosts = new Set(options.hosts.map((host) => host.toLowerCase()))
    this.callsMax = options.callsMax ?? callsMaxDefault
    this.tokenHeader = `${options.headerPrefix}-Auth-Token`.toLowerCase()
    this.limitHeader = `${options.headerPrefix}-Call-Limit`
    apps.changed = () => this.known.clear()
  }

  /** The secure way and the host; undefined: go on. */
  door(request: Request): Problem | undefined {
    if (request.scheme !== "https" && !(this.options.plainLoopback && isLoopback(request.client)))
      return { status: 403, details: "HTTPS is required" }
    const host = (request.headers.get("host") ?? "").toLowerCase().replace(/:\d+$/, "")
    return this.hosts.has(host) ? undefined : { status: 421, details: "this is not the host of the store" }
  }

  private limit(made: number, allowed: number): Header {
    return [this.limitHeader, `${made}/${allowed}`]
  }

  /** For answers that take no place in a window. */
  standing(request: Pick<Request, "client">): Header {
    return this.limit(this.windows.seen(`source:${request.client}`), this.callsMax)
  }

  admit(request: Request, done: (admission: Admission) => void): void {
    const token = request.headers.get(this.tokenHeader)
    const source = `source:${request.client}`
    if (this.windows.seen(source) >= this.callsMax)
      return this.windows.take(source, this.callsMax, (place) => done(this.refusedBy(place)))
    const found = token === undefined ? this.bySession(request) : this.byToken(token, request)
    const go = (principal: Principal | undefined): void =>
      principal === undefined ? this.unknown(source, done) : this.place(principal, done)
    if (!(found instanceof Promise)) return go(found)
    found
      .then(go, (cause: unknown) => {
        if (!(cause instanceof AuthorizationUnreachable)) throw cause
        done({
          problem: { status: 503, details: "the authorization server cannot be reached" },
          headers: [this.standing(request), ["Retry-After", "5"]]
        })
      })
      .catch(() =>
        done({ problem: { status: 500, details: request.traceId }, headers: [this.standing(request)] })
      )
  }

  /** One text for every bad token, so that nothing is learned from it. */
  private unknown(source: string, done: (admission: Admission) => void): void {
    this.windows.take(source, this.callsMax, (place) =>
      done(
        place === undefined || place.limited !== undefined
          ? this.refusedBy(place)
          : {
              problem: { status: 401, details: "a valid token is required" },
              headers: [
                this.limit(place.made, place.allowed),
                [
                  "WWW-Authenticate",
                  `${this.options.headerPrefix.replace(/^X-/, "")}-Token error="invalid_token"`
                ]
              ]
            }
      )
    )
  }

  private place(principal: Principal, done: (admission: Admission) => void): void {
    const allowed =
      principal.bucket === "custom"
        ? Math.max(plans[this.options.plan()], this.options.callsMax ?? 0)
        : this.callsMax
    this.windows.take(principal.bucket, allowed, (place) =>
      done(
        place === undefined || place.limited !== undefined
          ? this.refusedBy(place)
          : { principal, headers: [this.limit(place.made, place.allowed)] }
      )
    )
  }

  private refusedBy(place: Place): Admission {
    if (place?.limited === undefined)
      return {
        problem: { status: 503, details: "the rate window is restarting" },
        headers: [this.limit(place?.made ?? 0, place?.allowed ?? this.callsMax), ["Retry-After", "1"]]
      }
    const { retryAfterMs } = place.limited
    const when =
      this.options.retryAfter === "seconds"
        ? String(Math.max(1, Math.ceil(retryAfterMs / 1_000)))
        : new Date(this.options.clock() + retryAfterMs).toUTCString()
    return {
      problem: { status: 429, details: "the calls of this window are used up" },
      headers: [this.limit(place.made, place.allowed), ["Retry-After", when]]
    }
  }

  private byToken(token: string, request: Request): Principal | undefined | Promise<Principal | undefined> {
    const known = this.known.get(token)
    if (known !== undefined) return known
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
    const found = this.apps.findAdminToken(token)
    const app = found === undefined ? undefined : this.apps.get(found.appId)
    if (found === undefined || app === undefined || app.suspended) return undefined
    const principal: Principal = {
      kind: "admin-token",
      app,
      member: undefined,
      scopes: new Set(found.scopes),
      bucket: app.kind
    }
    if (this.known.size >= knownMax) this.known.clear()
    this.known.set(token, principal)
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

  /** Only reading, only from the store's own pages or from no page at all. */
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

/** Scope, then area; undefined: allowed. */
export const denied = (principal: Principal, need: Need): Problem | undefined => {
  if (principal.kind !== "session") {
    if (!need.scopes.some((scope) => principal.scopes.has(scope)))
      return { status: 403, details: `the scope ${need.scopes[0]} is needed` }
    if (need.also !== undefined && !principal.scopes.has(need.also))
      return { status: 403, details: `the scope ${need.also} is needed` }
  }
  return principal.member === undefined || principal.member.areas.has(need.area)
    ? undefined
    : { status: 403, details: `the area ${need.area} is needed` }
}
