/** Who calls: bearer keys compared in constant time over their SHA-256; the digest is also the owner of what
 *  the key makes. And the headers every answer carries. Source: chat sections 3.2, 3.3, 3.7, 4. */
import { createHash, timingSafeEqual } from "node:crypto"
import type { Header, Headers, Response, Request } from "../../runtime/http.ts"
import { newRequestId } from "./wire.ts"

/** The owner while no key is configured. */
const nobody = "-"

export class Access {
  private readonly digests: ReadonlyArray<Buffer>

  constructor(keys: ReadonlyArray<string>) {
    this.digests = keys.map((key) => createHash("sha256").update(key).digest())
  }

  get open(): boolean {
    return this.digests.length === 0
  }

  /** undefined: missing, malformed or wrong, which of them is not told apart. */
  ownerOf(headers: Headers): string | undefined {
    if (this.open) return nobody
    const key = /^bearer +(\S+)$/i.exec((headers.get("authorization") ?? "").trim())?.[1]
    if (key === undefined) return undefined
    const digest = createHash("sha256").update(key).digest()
    let found: Buffer | undefined
    for (const known of this.digests) if (timingSafeEqual(known, digest)) found = known
    return found?.toString("hex")
  }
}

const requestId = /^[A-Za-z0-9._-]{1,128}$/

export const requestIdOf = (headers: Headers | undefined): string => {
  const given = headers?.get("x-request-id")
  return given !== undefined && requestId.test(given) ? given : newRequestId()
}

const cors: ReadonlyArray<Header> = [
  ["Access-Control-Allow-Origin", "*"],
  ["Access-Control-Allow-Headers", "*"],
  ["Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"],
  ["Access-Control-Max-Age", "600"],
  ["Access-Control-Expose-Headers", "*"]
]

export const preflight = (headers: Headers | undefined): Response => {
  const asked = headers?.get("access-control-request-headers")
  return {
    status: 204,
    headers: [
      ["x-request-id", requestIdOf(headers)],
      ...cors.map(
        ([name, value]) =>
          [
            name,
            name === "Access-Control-Allow-Headers" && asked !== undefined && /^[\w\-, ]{1,2048}$/.test(asked)
              ? asked
              : value
          ] as const
      )
    ]
  }
}

export const withHeaders = (
  { status, headers = [], body, close }: Response,
  id: string,
  startedMs: number
): Response => ({
  status,
  body,
  close,
  always: cors,
  headers: [
    ...headers,
    ["x-request-id", id],
    ["openai-processing-ms", String(Math.round(performance.now() - startedMs))]
  ]
})

export type OwnerHandler = (request: Request, owner: string) => Response | Promise<Response>
