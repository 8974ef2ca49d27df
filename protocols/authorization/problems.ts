/** Every refusal of the authorization server as a value, and its response: an RFC 9457 body that is an OAuth
 *  error too.
 *  Source: authorization sections 3.3 and 20. */
import { STATUS_CODES } from "node:http"
import type { Request, Response, Service, Header } from "../../runtime/http.ts"
import type { Settings } from "./settings.ts"

const statuses = {
  invalid_request: 400,
  invalid_client: 401,
  invalid_client_metadata: 400,
  invalid_redirect_uri: 400,
  invalid_grant: 400,
  invalid_scope: 400,
  unauthorized_client: 400,
  unsupported_grant_type: 400,
  invalid_target: 400,
  invalid_dpop_proof: 400,
  use_dpop_nonce: 400,
  access_denied: 403,
  consent_required: 400,
  slow_down: 429,
  server_error: 500,
  not_found: 404,
  conflict: 409,
  invalid_admin_key: 401,
  // Only ever in the query of a redirect.
  unsupported_response_type: 400,
  login_required: 400,
  interaction_required: 400,
  request_not_supported: 400,
  request_uri_not_supported: 400,
  temporarily_unavailable: 503
} as const

export type ErrorCode = keyof typeof statuses

export interface ProblemExtra {
  readonly status?: number
  readonly headers?: ReadonlyArray<Header>
  readonly members?: Readonly<Record<string, string>>
}

const descriptionMax = 300

/** A refusal. Returned, never thrown. */
export class Problem {
  readonly error: ErrorCode
  readonly description: string
  readonly status: number
  readonly headers: ReadonlyArray<Header>
  readonly members: Readonly<Record<string, string>>

  constructor(error: ErrorCode, description: string, extra: ProblemExtra = {}) {
    this.error = error
    this.description = ascii(description).slice(0, descriptionMax)
    this.status = extra.status ?? statuses[error]
    this.headers = extra.headers ?? []
    this.members = extra.members ?? {}
  }

  with(...headers: ReadonlyArray<Header>): Problem {
    return new Problem(this.error, this.description, {
      status: this.status,
      headers: [...this.headers, ...headers],
      members: this.members
    })
  }
}

/** What RFC 6749 lets an error description hold. */
const ascii = (text: string): string => text.replace(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, "?")

/** Text of a caller, in a description. */
export const quoted = (text: unknown): string => `'${ascii(String(text)).slice(0, 100)}'`

export const slowDown = (retryAfterMs: number): Problem =>
  new Problem("slow_down", "too many requests", {
    headers: [["Retry-After", String(Math.max(1, Math.ceil(retryAfterMs / 1_000)))]]
  })

export const authenticationFailed = "client authentication failed"

/** What X-Request-Id says and a person can name; the trace id of the logs in the form of a UUID. */
export const requestIdOf = (traceId: string): string =>
  `${traceId.slice(0, 8)}-${traceId.slice(8, 12)}-${traceId.slice(12, 16)}-${traceId.slice(16, 20)}-${traceId.slice(20)}`

/** The same bytes under another media type for callers which accept nothing else (3.3). */
const mediaType = (accept: string | undefined, settings: Settings): string =>
  settings.errorJsonNegotiation &&
  accept !== undefined &&
  /application\/json/i.test(accept) &&
  !/application\/problem\+json|\*\/\*|application\/\*/i.test(accept)
    ? "application/json"
    : "application/problem+json"

export const problemResponse = (
  problem: Problem,
  request: Pick<Request, "traceId"> & Partial<Pick<Request, "headers">>,
  settings: Settings
): Response => {
  const { error, status, members } = problem
  const description = status >= 500 ? `internal error (${requestIdOf(request.traceId)})` : problem.description
  const challenge: ReadonlyArray<Header> =
    error === "invalid_client"
      ? [["WWW-Authenticate", `Basic realm="${settings.realm}"`]]
      : error === "invalid_admin_key"
        ? [["WWW-Authenticate", 'Bearer realm="admin"']]
        : error === "invalid_dpop_proof"
          ? [["WWW-Authenticate", 'DPoP error="invalid_dpop_proof", algs="ES256 RS256 PS256"']]
          : error === "use_dpop_nonce"
            ? [["WWW-Authenticate", 'DPoP error="use_dpop_nonce"']]
            : []
  return {
    status,
    headers: [
      ["Content-Type", mediaType(request.headers?.get("accept"), settings)],
      ["Cache-Control", "no-store"],
      ["Pragma", "no-cache"],
      ...challenge,
      ...problem.headers
    ],
    body: JSON.stringify({
      error,
      error_description: description,
      type: `${settings.docsBaseUrl}/errors/${error}`,
      title: STATUS_CODES[status] ?? "Error",
      detail: description,
      status,
      ...members
    })
  }
}

/** What the transport must refuse by itself. */
export const refusedBy =
  (settings: Settings): Service["refused"] =>
  (status, request, allow) => {
    const problem =
      status === 404
        ? new Problem("not_found", "there is nothing here")
        : status === 500 || status === 503
          ? new Problem("server_error", "internal error", {
              status,
              headers: status === 503 ? [["Retry-After", "1"]] : []
            })
          : new Problem(
              "invalid_request",
              {
                400: "malformed request",
                405: "method not allowed",
                408: "the request took too long to arrive",
                413: "the body is too large",
                414: "the URI is too long",
                431: "the headers are too large"
              }[status],
              { status, headers: allow === undefined ? [] : [["Allow", allow]] }
            )
    return problemResponse(problem, request, settings)
  }
