/** Everything chat refuses, as a tagged value, and the one table that words it: status, code, message, headers.
 *  Guarantees: `wordings` is total over the union, so a new refusal does not compile without its words; no
 *  other file words one; no stack, address or key is ever in a message.
 *
 *  A `Refusal` carries a problem up the stack. What a request throws is caught in routes.ts, what a turn throws
 *  in turn/turn.ts; both ask `problemOf` (upstream-problems.ts). Anything thrown that is neither a `Refusal` nor
 *  an `UpstreamFault` is a defect: it is logged and answered as `internal_error`.
 *  Source: docs/spec/chat.md, sections 5 and 14. */
import type { Header, Response } from "../../runtime/http.ts"
import { errorJson, type ErrorBody } from "./wire.ts"

interface Param {
  /** The path of the member that is wrong, such as `messages[3].content`. */
  readonly param: string
}

interface ResponseId {
  readonly id: string
}

interface Requested {
  readonly method: string
  readonly path: string
}

interface RetryAfter {
  readonly retryAfterMs: number | undefined
}

type Nothing = Record<never, never>

/** Capabilities that a model may lack, as `docs/spec/chat.md`, section 7.4, lists them. */
export type Capability = "logprobs" | "audio-output" | "images" | "audio" | "files" | "json-schema" | "stop"

/** Each refusal by its tag, with what its words need. */
interface Problems {
  // The body.
  BodyEmpty: Nothing
  BodyNotUtf8: Nothing
  BodyTooDeep: { readonly levelsMax: number }
  BodyTooManyValues: { readonly valuesMax: number }
  BodyTooManyMembers: { readonly membersMax: number }
  BodyNotJson: Nothing
  BodyNotObject: Nothing
  // One field.
  MissingParameter: Param
  InvalidType: Param & { readonly expected: string }
  OutOfRange: Param & {
    readonly kind: "integer" | "decimal"
    readonly side: "below_min" | "above_max"
    readonly limit: number
  }
  EmptyArray: Param
  TooLong: Param & { readonly kind: "array" | "string"; readonly max: number }
  TooShort: Param & { readonly min: number }
  EmptyString: Param
  PatternMismatch: Param & { readonly pattern: string }
  NotSupported: Param & { readonly supported: ReadonlyArray<string> }
  NotFunction: Param
  InvalidToolChoice: Param
  InvalidToolChoiceType: Param
  InvalidImage: Param
  InvalidBase64: Param
  UnknownPartType: Param
  PartNotAllowed: Param & { readonly role: string }
  UnsupportedItemType: Param & { readonly type: string }
  UnsupportedToolType: Param & { readonly type: string }
  UnsupportedParameter: Param
  PromptTemplate: Nothing
  // Fields that contradict each other.
  StreamOptionsWithoutStream: Nothing
  TopLogprobsWithoutLogprobs: Nothing
  BackgroundWithoutStore: Nothing
  NothingToAnswer: Nothing
  DuplicateTool: Param & { readonly name: string }
  DuplicateFunction: Param & { readonly name: string }
  ToolChoiceWithoutTools: Param
  ToolNotOffered: Param & { readonly name: string }
  FunctionCallNotFound: Param & { readonly name: string }
  ToolCallsUnanswered: Param & { readonly ids: ReadonlyArray<string> }
  ToolCallNotFound: Param & { readonly id: string }
  ToolCallAnsweredTwice: Param & { readonly id: string }
  OutputWithoutCall: { readonly callId: string }
  CallWithoutOutput: { readonly callId: string }
  // Models, sessions, stored responses.
  ModelNotFound: { readonly model: string }
  ModelLacks: { readonly capability: Capability }
  ContextExceeded: { readonly message?: string }
  PreviousNotFound: ResponseId
  PreviousNotReady: ResponseId
  ResponseNotFound: ResponseId
  ItemNotFound: Param & { readonly id: string }
  ResponseNotStreamed: Nothing
  ResponseNotBackground: Nothing
  // Authentication and rate limits. rate-limit.ts decides the two 429s.
  InvalidKey: Nothing
  ForbiddenHost: Nothing
  ForbiddenOrigin: Nothing
  SessionBusy: Nothing
  UpstreamRateLimited: RetryAfter
  // The transport.
  UnknownUrl: Requested
  MethodNotAllowed: Requested
  UnsupportedMediaType: Nothing
  BodyTooLarge: Nothing
  RequestUnreadable: Nothing
  RequestTimeout: Nothing
  RequestLineTooLong: Nothing
  HeadersTooLarge: { readonly status: number }
  // This server.
  Overloaded: Nothing
  ShuttingDown: Nothing
  InternalError: Nothing
  /** What the request has to store cannot be stored now. */
  StorageUnavailable: Nothing
  ClientDisconnected: Nothing
  // The model server. upstream-problems.ts makes them of its faults.
  UpstreamRejected: { readonly message: string; readonly code: string | null; readonly param: string | null }
  UpstreamUnsupported: { readonly detail: string; readonly param: string | null }
  UpstreamAuth: Nothing
  UpstreamTooLarge: Nothing
  UpstreamOverloaded: RetryAfter
  UpstreamTimeout: { readonly shouldNotRetry: boolean }
  UpstreamUnavailable: Nothing
  UpstreamBadResponse: { readonly detail: string }
  UpstreamBroken: Nothing
  UpstreamFailed: Nothing
}

export type Problem = { [Tag in keyof Problems]: { readonly _tag: Tag } & Problems[Tag] }[keyof Problems]

interface Wording {
  readonly status: number
  readonly code: string | null
  readonly message: string
  readonly param?: string | null
  readonly retryAfterMs?: number | undefined
  /** A client should not try again by itself: a generation may have started, or another try cannot help. */
  readonly shouldNotRetry?: boolean
}

const bad = (code: string, message: string, param: string | null = null): Wording => ({
  status: 400,
  code,
  message,
  param
})

const badValue = (param: string, message: string): Wording => bad("invalid_value", message, param)
const invalidJson = (message: string): Wording => bad("invalid_json", message)

/** Truncates a client's id or name before it is repeated in a message. */
const short = (text: string): string => text.slice(0, 64)

const modelLacks: Record<Capability, Wording> = {
  logprobs: bad("unsupported_parameter", "This model gives no 'logprobs'.", "logprobs"),
  "audio-output": bad("unsupported_value", "This model makes no audio.", "modalities"),
  images: bad("unsupported_value", "This model takes no images.", "messages"),
  audio: bad("unsupported_value", "This model takes no audio.", "messages"),
  files: bad("unsupported_value", "This model takes no files.", "messages"),
  "json-schema": bad("unsupported_parameter", "This model cannot follow a JSON schema.", "response_format"),
  stop: bad("unsupported_parameter", "This model takes no 'stop'.", "stop")
}

const sentence = (words: string): string =>
  `${words.charAt(0).toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}`

const wordings: { readonly [Tag in keyof Problems]: (problem: Problems[Tag]) => Wording } = {
  BodyEmpty: () => invalidJson("The body is empty."),
  BodyNotUtf8: () => invalidJson("The body is not UTF-8."),
  BodyTooDeep: ({ levelsMax }) => invalidJson(`The body is nested deeper than ${levelsMax} levels.`),
  BodyTooManyMembers: ({ membersMax }) => ({
    status: 413,
    code: "request_too_large",
    message: `The body has more than ${membersMax} members.`
  }),
  BodyTooManyValues: ({ valuesMax }) => ({
    status: 413,
    code: "request_too_large",
    message: `The body holds more than ${valuesMax} JSON values.`
  }),
  BodyNotJson: () => invalidJson("The body is not valid JSON."),
  BodyNotObject: () => invalidJson("The body is not a JSON object."),

  MissingParameter: ({ param }) =>
    bad("missing_required_parameter", `Missing required parameter: '${param}'.`, param),
  InvalidType: ({ param, expected }) =>
    bad("invalid_type", `Invalid type for '${param}': expected ${expected}.`, param),
  OutOfRange: ({ param, kind, side, limit }) => {
    const bound = side === "below_min" ? "must be at least" : "must be at most"
    return bad(`${kind}_${side}_value`, `Invalid '${param}': ${bound} ${limit}.`, param)
  },
  EmptyArray: ({ param }) => bad("empty_array", `Invalid '${param}': the array is empty.`, param),
  TooLong: ({ param, kind, max }) => {
    const unit = kind === "array" ? "items" : "characters"
    return bad(`${kind}_above_max_length`, `Invalid '${param}': at most ${max} ${unit}.`, param)
  },
  TooShort: ({ param, min }) => badValue(param, `Invalid '${param}': at least ${min} characters.`),
  EmptyString: ({ param }) => badValue(param, `Invalid '${param}': the string is empty.`),
  PatternMismatch: ({ param, pattern }) => badValue(param, `Invalid '${param}': must match ${pattern}.`),
  NotSupported: ({ param, supported }) => {
    const words = supported.map((word) => `'${word}'`).join(", ")
    return badValue(param, `Invalid value for '${param}': supported are ${words}.`)
  },
  NotFunction: ({ param }) => badValue(param, `Invalid value for '${param}': supported is 'function'.`),
  InvalidToolChoice: ({ param }) =>
    badValue(param, `Invalid value for '${param}': supported are 'none', 'auto', 'required' or an object.`),
  InvalidToolChoiceType: ({ param }) =>
    badValue(param, `Invalid value for '${param}': supported are 'function' and 'allowed_tools'.`),
  InvalidImage: ({ param }) =>
    badValue(param, `Invalid '${param}': an http(s) address or an image as a base64 data URL.`),
  InvalidBase64: ({ param }) => badValue(param, `Invalid '${param}': the base64 is broken.`),
  UnknownPartType: ({ param }) => badValue(param, `Invalid value for '${param}'.`),
  PartNotAllowed: ({ param, role }) =>
    badValue(param, `Invalid value for '${param}': not a part of a ${role} message.`),
  UnsupportedItemType: ({ param, type }) =>
    badValue(param, `Invalid value for '${param}': '${short(type)}' is not supported.`),
  UnsupportedToolType: ({ param, type }) =>
    bad("unsupported_value", `Tools of type '${short(type)}' are not supported.`, param),
  UnsupportedParameter: ({ param }) =>
    bad("unsupported_parameter", `Unsupported parameter: '${param}'.`, param),
  PromptTemplate: () => bad("unsupported_value", "Stored prompt templates are not supported.", "prompt"),

  StreamOptionsWithoutStream: () =>
    badValue("stream_options", "'stream_options' is only allowed with 'stream': true."),
  TopLogprobsWithoutLogprobs: () => badValue("top_logprobs", "'top_logprobs' needs 'logprobs': true."),
  BackgroundWithoutStore: () => badValue("background", "'background' needs 'store'."),
  NothingToAnswer: () => badValue("input", "There is nothing to answer."),
  DuplicateTool: ({ param, name }) => badValue(param, `Two tools are called '${name}'.`),
  DuplicateFunction: ({ param, name }) => badValue(param, `Two functions are called '${name}'.`),
  ToolChoiceWithoutTools: ({ param }) =>
    badValue(param, `'${param}' asks for a tool but there are no 'tools'.`),
  ToolNotOffered: ({ param, name }) =>
    badValue(param, `'${param}' names '${short(name)}', which is not among the tools.`),
  FunctionCallNotFound: ({ param, name }) =>
    badValue(param, `No function call '${short(name)}' comes before this message.`),
  ToolCallsUnanswered: ({ param, ids }) =>
    badValue(param, `These tool calls have no tool message: ${ids.map(short).join(", ")}.`),
  ToolCallNotFound: ({ param, id }) =>
    badValue(param, `No tool call with id '${short(id)}' comes before this tool message.`),
  ToolCallAnsweredTwice: ({ param, id }) =>
    badValue(param, `The tool call '${short(id)}' has two tool messages.`),
  OutputWithoutCall: ({ callId }) =>
    badValue("input", `No tool call found for function call output with call_id ${short(callId)}.`),
  CallWithoutOutput: ({ callId }) =>
    badValue("input", `No tool output found for function call ${short(callId)}.`),

  ModelNotFound: ({ model }) => ({
    status: 404,
    code: "model_not_found",
    message: `The model '${model.slice(0, 256)}' does not exist or is not available.`,
    param: "model"
  }),
  ModelLacks: ({ capability }) => modelLacks[capability],
  ContextExceeded: ({ message = "The conversation is too long." }) => bad("context_length_exceeded", message),
  PreviousNotFound: ({ id }) =>
    bad(
      "previous_response_not_found",
      `Previous response id '${short(id)}' is invalid or expired.`,
      "previous_response_id"
    ),
  PreviousNotReady: ({ id }) =>
    bad(
      "previous_response_not_ready",
      `Previous response '${short(id)}' is still being made.`,
      "previous_response_id"
    ),
  ResponseNotFound: ({ id }) => ({
    status: 404,
    code: "response_not_found",
    message: `Response '${short(id)}' not found.`,
    param: "response_id"
  }),
  ItemNotFound: ({ param, id }) => badValue(param, `Item '${short(id)}' not found.`),
  ResponseNotStreamed: () => badValue("stream", "This response has no stream."),
  ResponseNotBackground: () => badValue("response_id", "Cannot cancel a synchronous response."),

  InvalidKey: () => ({ status: 401, code: "invalid_api_key", message: "The API key is missing or wrong." }),
  ForbiddenHost: () => ({
    status: 403,
    code: "forbidden_host",
    message: "Without API keys this server answers to loopback names only; see chat.hosts."
  }),
  ForbiddenOrigin: () => ({
    status: 403,
    code: "forbidden_origin",
    message: "Without API keys this server answers no page of another origin; see chat.cors_origins."
  }),
  SessionBusy: () => ({
    status: 429,
    code: "session_busy",
    message: "Too many turns of this session at once.",
    retryAfterMs: 1_000
  }),
  UpstreamRateLimited: ({ retryAfterMs }) => ({
    status: 429,
    code: "rate_limit_exceeded",
    message: "The model server's rate limit is reached.",
    retryAfterMs
  }),

  UnknownUrl: ({ method, path }) => ({
    status: 404,
    code: "unknown_url",
    message: `Unknown request URL: ${method} ${path.slice(0, 256)}.`
  }),
  MethodNotAllowed: ({ method, path }) => ({
    status: 405,
    code: "method_not_allowed",
    message: `Not allowed to ${method} on ${path.slice(0, 256)}.`
  }),
  UnsupportedMediaType: () => ({
    status: 415,
    code: "unsupported_media_type",
    message: "The body must be application/json, without a content encoding."
  }),
  BodyTooLarge: () => ({ status: 413, code: "request_too_large", message: "The request body is too large." }),
  RequestUnreadable: () => invalidJson("The request cannot be read."),
  RequestTimeout: () => ({
    status: 408,
    code: "request_timeout",
    message: "The request did not arrive in time."
  }),
  RequestLineTooLong: () => ({
    status: 414,
    code: "request_too_large",
    message: "The request line is too long."
  }),
  HeadersTooLarge: ({ status }) => ({
    status,
    code: "request_too_large",
    message: "The headers are too large."
  }),

  Overloaded: () => ({
    status: 503,
    code: "overloaded",
    message: "The server is busy. Try again.",
    retryAfterMs: 1_000
  }),
  ShuttingDown: () => ({
    status: 503,
    code: "shutting_down",
    message: "The server is shutting down.",
    retryAfterMs: 1_000
  }),
  InternalError: () => ({
    status: 500,
    code: "internal_error",
    message: "The server had an error while processing the request."
  }),
  StorageUnavailable: () => ({
    status: 503,
    code: "storage_unavailable",
    message: "The server cannot store anything now. Try again later.",
    retryAfterMs: 5_000
  }),
  // The client never receives this one. `problemResponse` replaces 499, which is not an HTTP status, by 503.
  ClientDisconnected: () => ({
    status: 499,
    code: "client_disconnect",
    message: "The client closed the connection."
  }),

  UpstreamRejected: ({ message, code, param }) => ({ status: 400, code, message, param }),
  UpstreamUnsupported: ({ detail, param }) => bad("unsupported_value", sentence(detail), param),
  UpstreamAuth: () => ({
    status: 502,
    code: "upstream_auth_error",
    message: "The model server refused this server's credentials.",
    shouldNotRetry: true
  }),
  UpstreamTooLarge: () => ({
    status: 413,
    code: "request_too_large",
    message: "The request is too large for the model server."
  }),
  UpstreamOverloaded: ({ retryAfterMs = 1_000 }) => ({
    status: 503,
    code: "upstream_overloaded",
    message: "The model server is overloaded.",
    retryAfterMs
  }),
  UpstreamTimeout: ({ shouldNotRetry }) => ({
    status: 504,
    code: "upstream_timeout",
    message: "The model server did not answer in time.",
    shouldNotRetry
  }),
  UpstreamUnavailable: () => ({
    status: 502,
    code: "upstream_unavailable",
    message: "The model server cannot be reached."
  }),
  UpstreamBadResponse: ({ detail }) => ({
    status: 502,
    code: "upstream_bad_response",
    message: `The model server's answer is not usable: ${detail}.`,
    shouldNotRetry: true
  }),
  UpstreamBroken: () => ({
    status: 502,
    code: "upstream_error",
    message: "The model server's answer broke off.",
    shouldNotRetry: true
  }),
  UpstreamFailed: () => ({
    status: 502,
    code: "upstream_error",
    message: "The model server failed.",
    shouldNotRetry: true
  })
}

const wordingOf = (problem: Problem): Wording =>
  (wordings[problem._tag] as (problem: Problem) => Wording)(problem)

export const statusOf = (problem: Problem): number => wordingOf(problem).status

/** The only exception that chat throws deliberately. */
export class Refusal extends Error {
  readonly problem: Problem

  constructor(problem: Problem, cause?: unknown) {
    super(wordingOf(problem).message, cause === undefined ? undefined : { cause })
    this.name = "Refusal"
    this.problem = problem
  }
}

export const missing = (param: string): Refusal => new Refusal({ _tag: "MissingParameter", param })

export const wrongType = (param: string, expected: string): Refusal =>
  new Refusal({ _tag: "InvalidType", param, expected })

export const notSupported = (param: string, supported: ReadonlyArray<string>): Refusal =>
  new Refusal({ _tag: "NotSupported", param, supported })

const typeOf = (status: number): string => {
  if (status >= 500) return "server_error"
  return status === 429 ? "rate_limit_error" : "invalid_request_error"
}

/** The error object of an answer, and of an error frame in a stream. */
export const errorBodyOf = (problem: Problem): ErrorBody => {
  const { status, message, param = null, code } = wordingOf(problem)
  return { message, type: typeOf(status), param, code }
}

const retryHeaders = ({ status, retryAfterMs, shouldNotRetry }: Wording): ReadonlyArray<Header> => {
  const headers: Array<Header> = []
  if (retryAfterMs !== undefined) {
    headers.push(["Retry-After", String(Math.ceil(retryAfterMs / 1_000))])
    headers.push(["retry-after-ms", String(Math.ceil(retryAfterMs))])
  }
  if (shouldNotRetry === true && (status === 502 || status === 504)) headers.push(["x-should-retry", "false"])
  return headers
}

/** Returns the answer to a problem; `headers` are added to its own. The cause of a 5xx goes with it to the log:
 *  what was thrown, else the problem itself. A client that disconnected is nobody's fault. */
export const problemResponse = (
  problem: Problem,
  headers: ReadonlyArray<Header> = [],
  thrown: unknown = problem
): Response => {
  const wording = wordingOf(problem)
  const { status } = wording
  const own: Array<Header> = [["Content-Type", "application/json; charset=utf-8"], ...retryHeaders(wording)]
  if (problem._tag === "ShuttingDown") own.push(["Connection", "close"])
  if (problem._tag === "InvalidKey") own.push(["WWW-Authenticate", "Bearer"])
  return {
    status: status === 499 ? 503 : status,
    body: errorJson(errorBodyOf(problem)),
    headers: [...own, ...headers],
    ...(status < 500 ? {} : { cause: thrown })
  }
}

/** The `error` member of a failed response object, whose codes are of another vocabulary. */
export interface ResponseError {
  readonly code: string
  readonly message: string
}

export const responseErrorOf = (problem: Problem): ResponseError => {
  const { code, status, message } = wordingOf(problem)
  if (code === "rate_limit_exceeded") return { code, message }
  return { code: status < 500 ? "invalid_prompt" : "server_error", message }
}
