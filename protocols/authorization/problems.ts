/** Every refusal of the authorization server as a tagged value, and the one function that words it: an RFC
 *  9457 body that is an OAuth error too.
 *  Source: docs/spec/authorization.md, sections 3.3 and 20. */
import { STATUS_CODES } from "node:http"
import type { Request, Response, Service, Header } from "../../runtime/http.ts"
import type { Settings } from "./settings.ts"

/** Codes whose wording is only a status and a description. The last five appear only in the query of a
 *  redirect. */
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
  access_denied: 403,
  server_error: 500,
  not_found: 404,
  conflict: 409,
  invalid_admin_key: 401,
  unsupported_response_type: 400,
  login_required: 400,
  interaction_required: 400,
  request_not_supported: 400,
  request_uri_not_supported: 400
} as const

/** Codes that `problemOf` accepts. */
export type PlainCode = keyof typeof statuses

/** Values of the `error` member of an answer. */
export type ErrorCode = PlainCode | "consent_required" | "slow_down" | "use_dpop_nonce"

interface Refused<Tag extends string> {
  readonly _tag: Tag
  /** Printable ASCII, as RFC 6749 wants it; the constructors below see to that. */
  readonly description: string
  /** A fresh nonce for a caller that sent a DPoP proof (RFC 9449 section 8.2). */
  readonly dpopNonce?: string
}

interface ConsentRequired extends Refused<"consent_required"> {
  /** The place where the user can consent, and why the consent is missing; absent in a redirect. */
  readonly remedy?: ConsentRemedy
}

interface SlowDown extends Refused<"slow_down"> {
  readonly retryAfterSeconds: number
}

interface UseDpopNonce extends Refused<"use_dpop_nonce"> {
  readonly dpopNonce: string
}

/** The server cannot do it now: the answer is `server_error` with 503. */
interface Unavailable extends Refused<"unavailable"> {
  readonly retryAfterSeconds: number
  /** Is for the log only, like the cause of a bad gateway. */
  readonly cause: unknown
}

/** An upstream server failed: the answer is `server_error` with 502. */
interface BadGateway extends Refused<"bad_gateway"> {
  readonly cause: unknown
}

/** The transport refused the request before a handler saw it: the answer is `invalid_request` with the
 *  transport's status. */
interface RequestRejected extends Refused<"request_rejected"> {
  readonly status: number
  readonly allow: string | undefined
}

/** A refusal of the authorization server. It is returned, never thrown, and worded only by `wordingOf`. */
export type Problem =
  | Refused<PlainCode>
  | ConsentRequired
  | SlowDown
  | UseDpopNonce
  | Unavailable
  | BadGateway
  | RequestRejected

export interface ConsentRemedy {
  readonly consentUrl: string
  readonly cause: string
}

const tags: ReadonlySet<unknown> = new Set<Problem["_tag"]>([
  ...(Object.keys(statuses) as ReadonlyArray<PlainCode>),
  "consent_required",
  "slow_down",
  "use_dpop_nonce",
  "unavailable",
  "bad_gateway",
  "request_rejected"
])

/** Distinguishes a refusal from a result. It must not be used on JSON from outside, which could contain any
 *  `_tag`. */
export const isProblem = (value: unknown): value is Problem =>
  typeof value === "object" && value !== null && "_tag" in value && tags.has(value._tag)

const descriptionMax = 300

/** Cuts a text to the characters that RFC 6749 allows in an error description. */
const ascii = (text: string): string => text.replace(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, "?")
const described = (text: string): string => ascii(text).slice(0, descriptionMax)

/** Quotes a caller's text in a description. */
export const quoted = (text: unknown): string => `'${ascii(String(text)).slice(0, 100)}'`

export const problemOf = (code: PlainCode, description: string): Problem => ({
  _tag: code,
  description: described(description)
})

export const consentRequired = (description: string, remedy?: ConsentRemedy): Problem => ({
  _tag: "consent_required",
  description: described(description),
  ...(remedy === undefined ? {} : { remedy })
})

export const slowDown = (retryAfterMs: number): Problem => ({
  _tag: "slow_down",
  description: "too many requests",
  retryAfterSeconds: Math.max(1, Math.ceil(retryAfterMs / 1_000))
})

export const useDpopNonce = (dpopNonce: string): Problem => ({
  _tag: "use_dpop_nonce",
  description: "a nonce of this server is wanted",
  dpopNonce
})

/** `cause` is an exception, a fault, or an actor's answer that holds one. */
export const unavailable = (
  description = "temporarily unavailable",
  retryAfterSeconds = 1,
  cause?: unknown
): Problem => ({ _tag: "unavailable", description: described(description), retryAfterSeconds, cause })

export const badGateway = (description: string, cause?: unknown): Problem => ({
  _tag: "bad_gateway",
  description: described(description),
  cause
})

/** Returns the answer to a problem with what the log should say of it, if it is a fault of ours. */
export const withCause = (problem: Problem, response: Response): Response =>
  response.status < 500 ? response : { ...response, cause: problem }

export const authenticationFailed = "client authentication failed"

/** Writes the trace id of the logs as a UUID: what X-Request-Id says and a person can quote. */
export const requestIdOf = (traceId: string): string =>
  `${traceId.slice(0, 8)}-${traceId.slice(8, 12)}-${traceId.slice(12, 16)}-${traceId.slice(16, 20)}-${traceId.slice(20)}`

/** Callers that accept `application/json` only get the same bytes under that media type (section 3.3). */
const mediaType = (accept: string | undefined, settings: Settings): string =>
  settings.errorJsonNegotiation &&
  accept !== undefined &&
  /application\/json/i.test(accept) &&
  !/application\/problem\+json|\*\/\*|application\/\*/i.test(accept)
    ? "application/json"
    : "application/problem+json"

/** The wording of a refusal, independent of its form: a JSON body, a page, a redirect or an audit row. */
export interface Wording {
  readonly error: ErrorCode
  readonly status: number
  readonly description: string
  readonly headers: ReadonlyArray<Header>
  readonly members: Readonly<Record<string, string>>
}

const noHeaders: ReadonlyArray<Header> = []
const noMembers: Readonly<Record<string, string>> = {}
const retryAfter = (seconds: number): ReadonlyArray<Header> => [["Retry-After", String(seconds)]]

type Worded = Pick<Wording, "error" | "status"> & Partial<Pick<Wording, "headers" | "members">>

const worded = (problem: Problem): Worded => {
  switch (problem._tag) {
    case "consent_required": {
      const { remedy } = problem
      return {
        error: problem._tag,
        status: 400,
        members: remedy === undefined ? noMembers : { consent_url: remedy.consentUrl, cause: remedy.cause }
      }
    }
    case "slow_down":
      return { error: problem._tag, status: 429, headers: retryAfter(problem.retryAfterSeconds) }
    case "use_dpop_nonce":
      return { error: problem._tag, status: 400 }
    case "unavailable":
      return { error: "server_error", status: 503, headers: retryAfter(problem.retryAfterSeconds) }
    case "bad_gateway":
      return { error: "server_error", status: 502 }
    case "request_rejected":
      return {
        error: "invalid_request",
        status: problem.status,
        headers: problem.allow === undefined ? noHeaders : [["Allow", problem.allow]]
      }
    default:
      return { error: problem._tag, status: statuses[problem._tag] }
  }
}

/** Words a refusal. Total: a tag without a wording does not compile. */
export const wordingOf = (problem: Problem): Wording => {
  const { error, status, headers = noHeaders, members = noMembers } = worded(problem)
  const { description, dpopNonce } = problem
  return {
    error,
    status,
    description,
    headers: dpopNonce === undefined ? headers : [...headers, ["DPoP-Nonce", dpopNonce]],
    members
  }
}

const challengeOf = (error: ErrorCode, { realm }: Settings): ReadonlyArray<Header> => {
  switch (error) {
    case "invalid_client":
      return [["WWW-Authenticate", `Basic realm="${realm}"`]]
    case "invalid_admin_key":
      return [["WWW-Authenticate", 'Bearer realm="admin"']]
    case "invalid_dpop_proof":
      return [["WWW-Authenticate", 'DPoP error="invalid_dpop_proof", algs="ES256 RS256 PS256"']]
    case "use_dpop_nonce":
      return [["WWW-Authenticate", 'DPoP error="use_dpop_nonce"']]
    default:
      return noHeaders
  }
}

export const problemResponse = (
  problem: Problem,
  request: Pick<Request, "traceId"> & Partial<Pick<Request, "headers">>,
  settings: Settings
): Response => {
  const { error, status, description, headers, members } = wordingOf(problem)
  // The cause of a 5xx is for the operator only; the caller gets the id to quote to them.
  const publicDescription = status >= 500 ? `internal error (${requestIdOf(request.traceId)})` : description
  return withCause(problem, {
    status,
    headers: [
      ["Content-Type", mediaType(request.headers?.get("accept"), settings)],
      ["Cache-Control", "no-store"],
      ["Pragma", "no-cache"],
      ...challengeOf(error, settings),
      ...headers
    ],
    body: JSON.stringify({
      error,
      error_description: publicDescription,
      type: `${settings.docsBaseUrl}/errors/${error}`,
      title: STATUS_CODES[status] ?? "Error",
      detail: publicDescription,
      status,
      ...members
    })
  })
}

const rejections = {
  400: "malformed request",
  405: "method not allowed",
  408: "the request took too long to arrive",
  413: "the body is too large",
  414: "the URI is too long",
  431: "the headers are too large"
} as const

type TransportStatus = Parameters<Service["refused"]>[0]

const rejectionOf = (status: TransportStatus, allow: string | undefined): Problem => {
  switch (status) {
    case 404:
      return problemOf("not_found", "there is nothing here")
    case 500:
      return problemOf("server_error", "internal error")
    case 503:
      return unavailable("internal error")
    case 507:
      return unavailable("storage is full", 5)
    default:
      return { _tag: "request_rejected", description: rejections[status], status, allow }
  }
}

/** Words what the transport refuses by itself. */
export const refusedBy =
  (settings: Settings): Service["refused"] =>
  (status, request, allow) =>
    problemResponse(rejectionOf(status, allow), request, settings)
