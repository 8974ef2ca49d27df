/** What chat refuses, and how it says so: the error object, its status, its headers. Parsers throw a Refusal
 *  at the first thing wrong, and routes.ts turns it into an answer in one place. No stack, address or key is
 *  ever in a message. Source: chat sections 5 and 14. */
import { UpstreamFault } from "../../actors/engines/chat/model.ts"
import type { Response } from "../../runtime/http.ts"
import { errorJson, type ErrorBody } from "./wire.ts"

export class Refusal extends Error {
  readonly status: number
  readonly body: ErrorBody
  readonly retryAfterMs: number | undefined

  /** The client should not try again by itself. */
  readonly final: boolean

  constructor(
    status: number,
    code: string | null,
    message: string,
    {
      param = null,
      type,
      retryAfterMs,
      final = false
    }: {
      readonly param?: string | null
      readonly type?: string
      readonly retryAfterMs?: number | undefined
      readonly final?: boolean
    } = {}
  ) {
    super(message)
    this.name = "Refusal"
    this.status = status
    this.body = {
      message,
      type:
        type ??
        (status >= 500 ? "server_error" : status === 429 ? "rate_limit_error" : "invalid_request_error"),
      param,
      code
    }
    this.retryAfterMs = retryAfterMs
    this.final = final
  }
}

const bad = (code: string, message: string, param: string | null): Refusal =>
  new Refusal(400, code, message, { param })

export const missing = (param: string): Refusal =>
  bad("missing_required_parameter", `Missing required parameter: '${param}'.`, param)

export const wrongType = (param: string, wanted: string): Refusal =>
  bad("invalid_type", `Invalid type for '${param}': expected ${wanted}.`, param)

export const badValue = (param: string, message: string): Refusal => bad("invalid_value", message, param)

export const outOfRange = (
  kind: "integer" | "decimal",
  side: "below_min" | "above_max",
  param: string,
  limit: number
): Refusal =>
  bad(
    `${kind}_${side}_value`,
    `Invalid '${param}': ${side === "below_min" ? "must be at least" : "must be at most"} ${limit}.`,
    param
  )

export const emptyArray = (param: string): Refusal =>
  bad("empty_array", `Invalid '${param}': the array is empty.`, param)

export const tooLong = (kind: "array" | "string", param: string, max: number): Refusal =>
  bad(
    `${kind}_above_max_length`,
    `Invalid '${param}': at most ${max} ${kind === "array" ? "items" : "characters"}.`,
    param
  )

export const unsupportedParameter = (
  param: string,
  message = `Unsupported parameter: '${param}'.`
): Refusal => bad("unsupported_parameter", message, param)

export const unsupportedValue = (param: string, message: string): Refusal =>
  bad("unsupported_value", message, param)

export const invalidJson = (message = "The body is not a JSON object."): Refusal =>
  bad("invalid_json", message, null)

export const contextExceeded = (message = "The conversation is too long."): Refusal =>
  bad("context_length_exceeded", message, null)

export const modelNotFound = (model: string): Refusal =>
  new Refusal(
    404,
    "model_not_found",
    `The model '${model.slice(0, 256)}' does not exist or is not available.`,
    { param: "model" }
  )

export const previousNotFound = (id: string): Refusal =>
  bad(
    "previous_response_not_found",
    `Previous response id '${id.slice(0, 64)}' is invalid or expired.`,
    "previous_response_id"
  )

export const previousNotReady = (id: string): Refusal =>
  bad(
    "previous_response_not_ready",
    `Previous response '${id.slice(0, 64)}' is still being made.`,
    "previous_response_id"
  )

export const responseNotFound = (id: string): Refusal =>
  new Refusal(404, "response_not_found", `Response '${id.slice(0, 64)}' not found.`, { param: "response_id" })

export const invalidKey = new Refusal(401, "invalid_api_key", "The API key is missing or wrong.")

export const unknownUrl = (method: string, path: string): Refusal =>
  new Refusal(404, "unknown_url", `Unknown request URL: ${method} ${path.slice(0, 256)}.`)

export const overloaded = (): Refusal =>
  new Refusal(503, "overloaded", "The server is busy. Try again.", { retryAfterMs: 1_000 })

export const shuttingDown = (): Refusal =>
  new Refusal(503, "shutting_down", "The server is shutting down.", { retryAfterMs: 1_000 })

export const sessionBusy = (): Refusal =>
  new Refusal(429, "session_busy", "Too many turns of this session at once.", { retryAfterMs: 1_000 })

export const internal = (): Refusal =>
  new Refusal(500, "internal_error", "The server had an error while processing the request.")

/** The client is gone: nobody reads this. */
export const clientGone = (): Refusal =>
  new Refusal(499, "client_disconnect", "The client closed the connection.")

const sentence = (words: string): string =>
  `${words.charAt(0).toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}`

export const refusalOf = (fault: unknown, model = ""): Refusal => {
  if (fault instanceof Refusal) return fault
  if (!(fault instanceof UpstreamFault)) return internal()
  const { retryAfterMs } = fault
  switch (fault.reason) {
    case "bad-request":
      return new Refusal(400, fault.code ?? null, fault.detail, { param: fault.param ?? null })
    case "context":
      return contextExceeded(fault.detail)
    case "unsupported":
      return new Refusal(400, "unsupported_value", sentence(fault.detail), { param: fault.param ?? null })
    case "not-found":
      return modelNotFound(model)
    case "auth":
      return new Refusal(502, "upstream_auth_error", "The model server refused this server's credentials.", {
        final: true
      })
    case "too-large":
      return new Refusal(413, "request_too_large", "The request is too large for the model server.")
    case "rate-limited":
      return new Refusal(429, "rate_limit_exceeded", "The model server's rate limit is reached.", {
        retryAfterMs
      })
    case "overloaded":
      return new Refusal(503, "upstream_overloaded", "The model server is overloaded.", {
        retryAfterMs: retryAfterMs ?? 1_000
      })
    case "queue-full":
      return overloaded()
    case "timeout":
    case "connect-timeout":
    case "gateway-timeout":
      return new Refusal(504, "upstream_timeout", "The model server did not answer in time.", {
        final: fault.reason === "timeout"
      })
    case "unavailable":
      return new Refusal(502, "upstream_unavailable", "The model server cannot be reached.")
    case "bad-response":
      return new Refusal(
        502,
        "upstream_bad_response",
        `The model server's answer is not usable: ${fault.detail}.`,
        { final: true }
      )
    case "broken":
      return new Refusal(502, "upstream_error", "The model server's answer broke off.", { final: true })
    case "aborted":
      return clientGone()
    case "error":
      return new Refusal(502, "upstream_error", "The model server failed.", { final: true })
  }
}

export const answerOf = ({ status, body, retryAfterMs, final }: Refusal): Response => ({
  status: status === 499 ? 503 : status,
  body: errorJson(body),
  headers: [
    ["Content-Type", "application/json; charset=utf-8"],
    ...(retryAfterMs === undefined
      ? []
      : [
          ["Retry-After", String(Math.ceil(retryAfterMs / 1_000))] as const,
          ["retry-after-ms", String(Math.ceil(retryAfterMs))] as const
        ]),
    ...(final && (status === 502 || status === 504) ? [["x-should-retry", "false"] as const] : []),
    ...(body.code === "shutting_down" ? [["Connection", "close"] as const] : []),
    ...(status === 401 ? [["WWW-Authenticate", "Bearer"] as const] : [])
  ]
})

export const failureOf = (refusal: Refusal): { readonly code: string; readonly message: string } => ({
  code:
    refusal.body.code === "rate_limit_exceeded"
      ? "rate_limit_exceeded"
      : refusal.status < 500
        ? "invalid_prompt"
        : "server_error",
  message: refusal.body.message
})
