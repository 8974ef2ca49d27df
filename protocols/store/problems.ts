/** Every refusal of the store, and its wording. A refusal is a value; one total function words it, to a
 *  status, a text and headers, and nothing else in the store does. Rules throw the one class that carries it,
 *  and `problemOf` is the one place that looks at what was thrown: whatever is no refusal is a defect of
 *  ours, answered by 500 without a word about its cause, which goes with the answer to the log.
 *  Source: docs/spec/store.md, section 5. */
import { Effect } from "effect"
import type { Response, Header } from "../../runtime/http.ts"
import { defined } from "../../runtime/defined.ts"
import { noStore } from "../shared/headers.ts"
import type { FieldFault } from "./engine/fields.ts"

export type FieldFaults = ReadonlyArray<FieldFault>

interface Described<Tag extends string> {
  readonly _tag: Tag
  readonly details: string
}

interface DescribedWithFields<Tag extends string> extends Described<Tag> {
  readonly errors?: FieldFaults
}

export type Problem =
  | DescribedWithFields<"Invalid">
  | { readonly _tag: "NotAuthenticated"; readonly details: string; readonly challenge?: string }
  | Described<"Forbidden">
  | Described<"NotFound">
  | { readonly _tag: "MethodNotAllowed"; readonly method: string; readonly allow: ReadonlyArray<string> }
  | DescribedWithFields<"Conflict">
  /** A precondition does not hold: the record is not the one that the client has seen. */
  | { readonly _tag: "Changed" }
  | Described<"TooLarge">
  | { readonly _tag: "UnsupportedMediaType"; readonly expected: string }
  | { readonly _tag: "WrongHost" }
  | { readonly _tag: "RateLimited"; readonly retryAfter: string }
  | { readonly _tag: "TooManySignIns" }
  | {
      readonly _tag: "Unavailable"
      readonly details: string
      readonly retryAfterS: number
      readonly cause?: unknown
    }
  /** The transport could not read the request. */
  | { readonly _tag: "Unreadable"; readonly status: UnreadableStatus }
  | { readonly _tag: "Defect"; readonly traceId: string; readonly cause?: unknown }

export type UnreadableStatus = 400 | 408 | 413 | 414 | 431

const unreadable: Readonly<Record<UnreadableStatus, string>> = {
  400: "the request cannot be read",
  408: "the request took too long to arrive",
  413: "the body is too large",
  414: "the address is too long",
  431: "the headers are too large"
}

/** Wording of a problem for the client. */
export interface Wording {
  readonly status: number
  readonly details: string
  /** Text for a page, where it differs from the details. */
  readonly text?: string
  readonly errors?: FieldFaults | undefined
  readonly headers?: ReadonlyArray<Header>
}

export const wordingOf = (problem: Problem): Wording => {
  switch (problem._tag) {
    case "Invalid":
      return { status: 400, details: problem.details, errors: problem.errors }
    case "NotAuthenticated":
      return {
        status: 401,
        details: problem.details,
        headers: problem.challenge === undefined ? [] : [["WWW-Authenticate", problem.challenge]]
      }
    case "Forbidden":
      return { status: 403, details: problem.details }
    case "NotFound":
      return { status: 404, details: problem.details }
    case "MethodNotAllowed":
      return {
        status: 405,
        details: `this path has no ${problem.method}`,
        headers: [["Allow", problem.allow.join(", ")]]
      }
    case "Conflict":
      return { status: 409, details: problem.details, errors: problem.errors }
    case "Changed":
      return { status: 412, details: "the record has changed since" }
    case "TooLarge":
      return { status: 413, details: problem.details }
    case "UnsupportedMediaType":
      return { status: 415, details: `the body must be ${problem.expected}` }
    case "WrongHost":
      return { status: 421, details: "this is not the host of the store" }
    case "RateLimited":
      return {
        status: 429,
        details: "the calls of this window are used up",
        headers: [["Retry-After", problem.retryAfter]]
      }
    case "TooManySignIns":
      return { status: 429, details: "Too many attempts. Wait a few seconds." }
    case "Unavailable":
      return {
        status: 503,
        details: problem.details,
        headers: [["Retry-After", String(problem.retryAfterS)]]
      }
    case "Unreadable":
      return { status: problem.status, details: unreadable[problem.status] }
    case "Defect":
      return {
        status: 500,
        details: problem.traceId,
        text: `Something failed on our side. The log has it as ${problem.traceId}.`
      }
  }
}

/** Carries a problem out of the rule that found it; nothing of the rule's work is stored. */
export class Refusal extends Error {
  readonly problem: Problem

  constructor(problem: Problem) {
    super(wordingOf(problem).details)
    this.name = "Refusal"
    this.problem = problem
  }
}

export const invalid = (details: string, errors?: FieldFaults): Refusal =>
  new Refusal(defined({ _tag: "Invalid" as const, details, errors }))

export const conflict = (details: string, errors?: FieldFaults): Refusal =>
  new Refusal(defined({ _tag: "Conflict" as const, details, errors }))

export const notFound = (details: string): Refusal => new Refusal({ _tag: "NotFound", details })

export const forbidden = (details: string): Refusal => new Refusal({ _tag: "Forbidden", details })

export const unavailable = (details: string, cause?: unknown): Refusal =>
  new Refusal({ _tag: "Unavailable", details, retryAfterS: 5, cause })

/** The authorization server cannot be asked: the answer is 503, never "allow". */
export const authorizationUnreachable = (cause?: unknown): Refusal =>
  unavailable("the authorization server cannot be reached", cause)

const faultsMax = 50
const faultsInDetailsMax = 5

/** Refuses fields, all at once: `conflict` when the values are right but the records do not allow them. */
export const refuseFields = (because: "invalid" | "conflict", errors: FieldFaults): Refusal => {
  const details = errors
    .map(({ field, message }) => `${field} ${message}`)
    .slice(0, faultsInDetailsMax)
    .join("; ")
  return (because === "invalid" ? invalid : conflict)(details, errors.slice(0, faultsMax))
}

/** The problem in what was thrown while a request was handled. A defect keeps its cause. */
export const problemOf = (cause: unknown, traceId: string): Problem =>
  cause instanceof Refusal ? cause.problem : { _tag: "Defect", traceId, cause }

/** Returns the answer to a problem with what the log should say of it, if it is a fault of ours. */
export const withCause = (problem: Problem, response: Response): Response =>
  response.status < 500
    ? response
    : { ...response, cause: problem._tag === "Defect" ? problem.cause : problem }

/** What was thrown, as an Effect: a refusal is its typed error, anything else a defect. */
export const failureOf = (cause: unknown): Effect.Effect<never, Refusal> =>
  cause instanceof Refusal ? Effect.fail(cause) : Effect.die(cause)

const phrases: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  409: "Conflict",
  412: "Precondition Failed",
  413: "Content Too Large",
  414: "URI Too Long",
  415: "Unsupported Media Type",
  421: "Misdirected Request",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  503: "Service Unavailable"
}

const bodyText = ({ status, details, errors }: Wording): string =>
  JSON.stringify({ status_code: status, message: phrases[status] ?? "Error", details, errors })

/** The body of a problem's answer, as JSON text. */
export const problemBody = (problem: Problem): string => bodyText(wordingOf(problem))

export const jsonType: Header = ["Content-Type", "application/json; charset=utf-8"]

export const problemResponse = (problem: Problem, ...headers: ReadonlyArray<Header>): Response => {
  const wording = wordingOf(problem)
  return withCause(problem, {
    status: wording.status,
    headers: [jsonType, noStore, ...(wording.headers ?? []), ...headers],
    body: bodyText(wording)
  })
}
