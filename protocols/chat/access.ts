/** Authenticates callers by bearer keys, compared in constant time over their SHA-256. A key's digest is
 *  also the owner of everything that the key creates. The module also has the headers of every answer.
 *  Source: docs/spec/chat.md, sections 3.2, 3.3, 3.7 and 4. */
import type { Effect } from "effect"
import { createHash, timingSafeEqual } from "node:crypto"
import type { Header, Headers, Response, Request } from "../../runtime/http.ts"
import { newRequestId } from "./wire.ts"

/** The owner while no key is configured. */
const anonymous = "-"

const digestOf = (key: string): Buffer => createHash("sha256").update(key).digest()

export class Access {
  private readonly digests: ReadonlyArray<Buffer>

  constructor(keys: ReadonlyArray<string>) {
    this.digests = keys.map(digestOf)
  }

  /** No key is configured: everybody may call. */
  get open(): boolean {
    return this.digests.length === 0
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
}

const requestIdPattern = /^[A-Za-z0-9._-]{1,128}$/

/** The client's own request id where it is well-formed, or a new one. */
export const requestIdOf = (headers: Headers | undefined): string => {
  const presented = headers?.get("x-request-id")
  return presented !== undefined && requestIdPattern.test(presented) ? presented : newRequestId()
}

const allowHeaders = "Access-Control-Allow-Headers"
const requestHeadersPattern = /^[\w\-, ]{1,2048}$/

const cors: ReadonlyArray<Header> = [
  ["Access-Control-Allow-Origin", "*"],
  [allowHeaders, "*"],
  ["Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"],
  ["Access-Control-Max-Age", "600"],
  ["Access-Control-Expose-Headers", "*"]
]

/** Allows the headers that the browser asks for by name: `*` does not cover `Authorization`. */
export const preflight = (headers: Headers | undefined): Response => {
  const requested = headers?.get("access-control-request-headers")
  const allowed = requested !== undefined && requestHeadersPattern.test(requested) ? requested : "*"
  return {
    status: 204,
    headers: [
      ["x-request-id", requestIdOf(headers)],
      ...cors.map(([name, value]): Header => [name, name === allowHeaders ? allowed : value])
    ]
  }
}

export const withHeaders = (
  { status, headers = [], body, close, cause }: Response,
  requestId: string,
  startedMs: number
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

/** A handler of a request whose owner is established. */
/** What an Effect fails with is worded like what a handler throws. */
export type OwnerHandler = (
  request: Request,
  owner: string
) => Response | Promise<Response> | Effect.Effect<Response, unknown>
