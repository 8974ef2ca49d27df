/** Maps every refusal of the translation service to its status and body, in one total function.
 *  Source: docs/spec/translation.md, section 2, which fixes order and texts. */
import { json, type Request, type Response, type Service, type Header } from "../../runtime/http.ts"
import type { BodyRefusal } from "../shared/body.ts"
import type { ParamFault } from "../shared/params.ts"

export type Refusal =
  | ParamFault
  | BodyRefusal
  /** A 400 with its own text. */
  | { readonly _tag: "Refused"; readonly message: string; readonly code?: string; readonly detail?: string }
  | {
      readonly _tag: "UnsupportedLanguage"
      readonly name: "source_lang" | "target_lang"
      readonly pair: boolean
    }
  | { readonly _tag: "Forbidden"; readonly message?: string; readonly detail?: string }
  /** The credential of an asset is wrong or expired, or the asset itself has expired. */
  | { readonly _tag: "Gone" }
  | { readonly _tag: "Conflict"; readonly detail?: string }
  | { readonly _tag: "TooLarge" }
  | { readonly _tag: "MissingScopes"; readonly scopes: ReadonlyArray<string> }
  | { readonly _tag: "NotFound"; readonly what?: string }
  /** Too many requests. `message` is used by endpoints with their own wording, whose errors have a message
   *  only. */
  | { readonly _tag: "Limited"; readonly retryAfterMs: number; readonly message?: string }
  /** An error of an endpoint whose errors have a message only. */
  | { readonly _tag: "MessageOnly"; readonly status: 400 | 403 | 404 | 413 | 415; readonly message: string }
  /** The requested translation is not finished. */
  | { readonly _tag: "DocumentNotReady" }
  | { readonly _tag: "QuotaExceeded"; readonly owner: "account" | "key"; readonly message?: string }
  /** A dependency of this path is down or too slow. */
  | { readonly _tag: "Down"; readonly status: 503 | 504; readonly cause?: unknown }
  /** The whole server is overloaded; the caller itself is not too fast. */
  | { readonly _tag: "Overloaded"; readonly cause?: unknown }

const tags: Readonly<Record<Refusal["_tag"], true>> = {
  Missing: true,
  Invalid: true,
  BodyRefusal: true,
  Refused: true,
  UnsupportedLanguage: true,
  Forbidden: true,
  Gone: true,
  Conflict: true,
  TooLarge: true,
  MissingScopes: true,
  NotFound: true,
  Limited: true,
  MessageOnly: true,
  DocumentNotReady: true,
  QuotaExceeded: true,
  Down: true,
  Overloaded: true
}

/** Distinguishes a refusal from other return values. It checks for our own tags, because other values have
 *  tags too. */
export const isRefusal = (value: unknown): value is Refusal =>
  typeof value === "object" && value !== null && "_tag" in value && Object.hasOwn(tags, String(value._tag))

const noStore: Header = ["Cache-Control", "no-store"]

export interface ErrorBody {
  readonly message: string
  readonly code?: string
  readonly detail?: string
}

const answer = (status: number, body: ErrorBody, ...headers: ReadonlyArray<Header>): Response =>
  json(status, body, [noStore, ...headers])

const retryAfter = (ms: number): Header => ["Retry-After", String(Math.max(1, Math.ceil(ms / 1_000)))]
const retrySeconds = 2

const bodyAnswer = ({ reason, detail: message }: BodyRefusal): Response => {
  switch (reason) {
    case "content-type":
      return answer(415, { message, code: "invalid_content_type" })
    case "syntax":
      return answer(400, { message, code: "invalid_json" })
    case "values":
      return answer(413, { message, code: "payload_too_large" })
  }
}

export const problem = (refusal: Refusal): Response => {
  switch (refusal._tag) {
    case "Missing":
      return answer(400, { message: `Parameter '${refusal.name}' not specified.`, code: "missing_parameter" })
    case "Invalid":
      return answer(400, {
        message: `Value for '${refusal.name}' not supported.`,
        code: "invalid_parameter",
        ...(refusal.detail === undefined ? {} : { detail: refusal.detail })
      })
    case "Refused":
      return answer(400, {
        message: refusal.message,
        code: refusal.code ?? "invalid_parameter",
        ...(refusal.detail === undefined ? {} : { detail: refusal.detail })
      })
    case "UnsupportedLanguage":
      return answer(400, {
        message: `Value for '${refusal.name}' not supported.`,
        code: refusal.pair ? "unsupported_language_pair" : "unsupported_language"
      })
    case "BodyRefusal":
      return bodyAnswer(refusal)
    case "Forbidden":
      return answer(403, {
        message: refusal.message ?? "Forbidden",
        ...(refusal.detail === undefined ? {} : { code: "forbidden", detail: refusal.detail })
      })
    case "Gone":
      return answer(410, { message: "Gone", code: "not_found" })
    case "Conflict":
      return answer(409, {
        message: "Conflict",
        code: "conflict",
        ...(refusal.detail === undefined ? {} : { detail: refusal.detail })
      })
    case "TooLarge":
      return answer(413, { message: "Payload too large", code: "payload_too_large" })
    case "MissingScopes":
      return answer(403, {
        message: "Forbidden",
        code: "missing_scope",
        detail: `Missing required scope(s): ${refusal.scopes.join(", ")}`
      })
    case "NotFound":
      return answer(404, {
        message: refusal.what === undefined ? "Not found" : `${refusal.what} not found`,
        code: "not_found"
      })
    case "Limited":
      return answer(
        429,
        refusal.message === undefined
          ? { message: "Too many requests, please wait and send the request again.", code: "rate_limited" }
          : { message: refusal.message },
        retryAfter(refusal.retryAfterMs)
      )
    case "MessageOnly":
      return answer(refusal.status, { message: refusal.message })
    case "DocumentNotReady":
      return answer(
        503,
        { message: "Document translation is not done", code: "document_not_ready" },
        retryAfter(retrySeconds * 1_000)
      )
    case "QuotaExceeded":
      return answer(456, {
        message: refusal.message ?? "Quota Exceeded",
        code: "quota_exceeded",
        detail: `The ${refusal.owner}'s limit for this billing period is reached.`
      })
    case "Down":
      return {
        ...answer(
          refusal.status,
          { message: "Service unavailable, please try again later.", code: "overloaded" },
          ...(refusal.status === 503 ? [retryAfter(retrySeconds * 1_000)] : [])
        ),
        cause: refusal.cause
      }
    case "Overloaded":
      return {
        ...answer(
          529,
          { message: "The server is overloaded, please try again later.", code: "overloaded" },
          retryAfter(retrySeconds * 1_000)
        ),
        cause: refusal.cause
      }
  }
}

/** Answers the requests that the transport refuses by itself. */
export const refused: Service["refused"] = (
  status,
  _request: Pick<Request, "method" | "path" | "traceId">,
  allow
) => {
  switch (status) {
    case 400:
      return answer(400, { message: "Bad request" })
    case 404:
      return problem({ _tag: "NotFound" })
    case 405:
      return answer(405, { message: "Method not allowed" }, ["Allow", allow ?? ""])
    case 408:
      return answer(408, { message: "The request took too long to arrive." })
    case 413:
      return problem({ _tag: "TooLarge" })
    case 414:
      return answer(414, { message: "Request URI too long", code: "uri_too_long" })
    case 431:
      return answer(431, { message: "Request headers too large" })
    case 500:
      return answer(500, { message: "Internal error", code: "internal" })
    case 503:
      return problem({ _tag: "Down", status: 503 })
    case 507:
      return answer(
        503,
        { message: "The server's storage is full, please try again later.", code: "storage_full" },
        retryAfter(5_000)
      )
  }
}
