/** Authenticates callers by bearer keys, compared in constant time over their SHA-256. A key's digest is
 *  also the owner of everything that the key creates. Without keys the caller's machine takes their place: only
 *  loopback names are answered, and no page of another origin is, unless the configuration lists them. The module
 *  also has the headers of every answer. Source: docs/spec/chat.md, sections 3.2, 3.3, 3.7 and 4. */
import { Effect } from "effect"
import { createHash, timingSafeEqual } from "node:crypto"
import type { Header, Headers, Response, Request } from "../../runtime/http.ts"
import { isLoopbackHost } from "../shared/addresses.ts"
import type { Problem } from "./problems.ts"
import { newRequestId } from "./wire.ts"

/** The owner while no key is configured. */
const anonymous = "-"

const digestOf = (key: string): Buffer => createHash("sha256").update(key).digest()

/** Stands for every name or origin. */
const any = "*"

export interface AccessOptions {
  readonly keys: ReadonlyArray<string>
  /** Names besides the loopback ones under which chat answers without keys. */
  readonly hosts?: ReadonlyArray<string>
  /** Origins whose pages may call chat. Default: every one with keys, none without. */
  readonly corsOrigins?: ReadonlyArray<string>
}

/** Returns the name in a Host header, in lower case and without the port. */
const nameOf = (host: string): string => host.toLowerCase().replace(/:\d*$/, "")

const schemePattern = /^https?:\/\//

export class Access {
  private readonly digests: ReadonlyArray<Buffer>
  private readonly hosts: ReadonlySet<string>
  private readonly origins: ReadonlySet<string>
  private readonly corsOf = new Map<string, ReadonlyArray<Header>>()

  constructor({ keys, hosts = [], corsOrigins = [] }: AccessOptions) {
    this.digests = keys.map(digestOf)
    this.hosts = new Set(hosts.map((host) => host.toLowerCase()))
    this.origins = new Set(corsOrigins.length === 0 && keys.length > 0 ? [any] : corsOrigins)
    for (const origin of this.origins) this.corsOf.set(origin, allowing(origin))
  }

  /** No key is configured: everybody may call. */
  get open(): boolean {
    return this.digests.length === 0
  }

  /** Says why a request is not even asked for its owner. Without keys any page in a browser on this machine could
   *  call, of another origin, or of its own with a name that it makes point here (DNS rebinding). */
  denial(headers: Headers): Problem | undefined {
    if (!this.open) return undefined
    const host = headers.get("host") ?? ""
    const name = nameOf(host)
    if (!isLoopbackHost(name) && !this.hosts.has(name) && !this.hosts.has(any))
      return { _tag: "ForbiddenHost" }
    const origin = headers.get("origin")
    if (origin === undefined || this.origins.has(any) || this.origins.has(origin)) return undefined
    return origin.replace(schemePattern, "") === host ? undefined : { _tag: "ForbiddenOrigin" }
  }

  /** Returns the owner of the presented key, or undefined when it is missing, malformed or wrong, which
   *  callers cannot distinguish. Every digest is compared, so that timing does not reveal which one
   *  matched. */
  ownerOf(headers: Headers): string | undefined {
    if (this.open) return anonymous
    const key = /^bearer +(\S+)$/i.exec((headers.get("authorization") ?? "").trim())?.[1]
    if (key === undefined) return undefined
    const presented = digestOf(key)
    let owner: Buffer | undefined
    for (const digest of this.digests) if (timingSafeEqual(digest, presented)) owner = digest
    return owner?.toString("hex")
  }

  /** The headers that let a page of the request's origin read the answer. */
  cors(headers: Headers | undefined): ReadonlyArray<Header> {
    return this.corsOf.get(any) ?? this.corsOf.get(headers?.get("origin") ?? "") ?? sameOrigin
  }

  /** Allows the headers that the browser asks for by name: `*` does not cover `Authorization`. */
  preflight(headers: Headers | undefined): Response {
    const requested = headers?.get("access-control-request-headers")
    const allowed = requested !== undefined && requestHeadersPattern.test(requested) ? requested : any
    return {
      status: 204,
      headers: [
        ["x-request-id", requestIdOf(headers)],
        ...this.cors(headers).map(([name, value]): Header => [name, name === allowHeaders ? allowed : value])
      ]
    }
  }
}

const requestIdPattern = /^[A-Za-z0-9._-]{1,128}$/

/** The client's own request id where it is well-formed, or a new one. */
export const requestIdOf = (headers: Headers | undefined): string => {
  const presented = headers?.get("x-request-id")
  return presented !== undefined && requestIdPattern.test(presented) ? presented : newRequestId()
}

const allowHeaders = "Access-Control-Allow-Headers"
const requestHeadersPattern = /^[\w\-, ]{1,2048}$/

const sameOrigin: ReadonlyArray<Header> = [["Vary", "Origin"]]

const allowing = (origin: string): ReadonlyArray<Header> => [
  ["Access-Control-Allow-Origin", origin],
  ...(origin === any ? [] : sameOrigin),
  [allowHeaders, any],
  ["Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"],
  ["Access-Control-Max-Age", "600"],
  ["Access-Control-Expose-Headers", any]
]

/** What every answer says besides its own. */
export interface Dress {
  readonly requestId: string
  readonly startedMs: number
  readonly cors: ReadonlyArray<Header>
}

export const withHeaders = (
  { status, headers = [], body, close, cause }: Response,
  { requestId, startedMs, cors }: Dress
): Response => ({
  status,
  body,
  close,
  cause,
  always: cors,
  headers: [
    ...headers,
    ["x-request-id", requestId],
    ["openai-processing-ms", String(Math.round(performance.now() - startedMs))]
  ]
})

/** A handler of a request whose owner is established. What an Effect fails with is worded like what a handler
 *  throws. */
export type OwnerHandler = (request: Request, owner: string) => Response | Effect.Effect<Response, unknown>

/** Waits for a promise that belongs to several requests, or has to be kept whoever goes: who is interrupted
 *  stops waiting. */
export const waitFor = <A>(work: () => Promise<A>): Effect.Effect<A, unknown> =>
  Effect.tryPromise({ try: work, catch: (thrown) => thrown })
