/** The store's service: every path below /api/v1, the order of checks, and the headers of every response.
 *  Exceptions become answers in one place, `failed`.
 *  Source: docs/spec/store.md, sections 2, 4.3, 5, 6; the order of checks is in 2.9. */
import { Cause, Effect } from "effect"
import {
  askLater,
  effectOf,
  type Header,
  type Later,
  type Request,
  type Response,
  type Route,
  type Service
} from "../../runtime/http.ts"
import { noStore } from "../shared/headers.ts"
import { checkNeed, type Admission, type Guard, type Principal } from "./access/guard.ts"
import { responseOf } from "./compression.ts"
import { Handlers, needOf, type HandlerOptions } from "./handlers.ts"
import { withinTime, type TimeLimit } from "./later.ts"
import {
  problemOf,
  problemResponse,
  type Refusal,
  unavailable,
  wordingOf,
  type Problem,
  type UnreadableStatus
} from "./problems.ts"
import { drainBody, uploadBytesMax } from "./request-body.ts"
import { base, Targets, type Answer, type Endpoint, type Method, type Target } from "./target.ts"

export interface StoreServiceOptions extends Omit<HandlerOptions, "tokenHeader"> {
  readonly guard: Guard
  readonly endpoints: ReadonlyArray<Endpoint>
  /** The console's own pages and calls. */
  readonly console: ReadonlyArray<Route>
}

const inFlightMax = 1_000

/** Maximum size in bytes of an unread body that is discarded, so that its sender receives the answer and the
 *  connection can be used again. */
const discardBytesMax = 1_048_576

const noSuchPath: Problem = { _tag: "NotFound", details: "there is nothing at this path" }

const tooManyAtOnce: Problem = { _tag: "Unavailable", details: "too many requests at once", retryAfterS: 1 }

const commonHeaders = (request: Request): Array<Header> => {
  const headers: Array<Header> = [
    ["X-Request-Id", request.traceId],
    ["X-Content-Type-Options", "nosniff"]
  ]
  if (request.scheme === "https") headers.push(["Strict-Transport-Security", "max-age=31536000"])
  return headers
}

/** Answers a request whose body was not read: a small body is discarded, after a large one the connection is
 *  closed. */
const unread = (request: Request, response: Response): Response => {
  const length = Number(request.headers.get("content-length") ?? 0)
  if (length > discardBytesMax || request.headers.get("transfer-encoding") !== undefined)
    return { ...response, close: true }
  if (length > 0) void drainBody(request)
  return response
}

const handlingLimit: TimeLimit = { ms: 30_000, late: () => unavailable("it took too long") }

class StoreRoutes {
  private readonly guard: Guard
  private readonly targets: Targets
  private readonly handlers: Handlers
  private inFlight = 0

  constructor(options: StoreServiceOptions) {
    this.guard = options.guard
    this.targets = new Targets(options.engine.resources, options.endpoints)
    this.handlers = new Handlers({ ...options, tokenHeader: options.guard.tokenHeader })
  }

  readonly handle = (request: Request): Later<Response> => {
    try {
      return this.checked(request)
    } catch (cause) {
      return this.failed(request, cause, commonHeaders(request))
    }
  }

  /** Answers the requests that the transport refuses by itself. */
  readonly refused: Service["refused"] = (status, request) => {
    return problemResponse(
      this.transportProblem(status, request),
      this.guard.rateLimiter.headerWithoutCaller(),
      ["X-Request-Id", request.traceId],
      ["X-Content-Type-Options", "nosniff"]
    )
  }

  private transportProblem(
    status: Parameters<Service["refused"]>[0],
    request: Parameters<Service["refused"]>[1]
  ): Problem {
    switch (status) {
      case 404:
        return noSuchPath
      case 405:
        return {
          _tag: "MethodNotAllowed",
          method: request.method,
          allow: this.targets.find(request.path, request.method)?.methods ?? ["GET"]
        }
      case 500:
        return { _tag: "Defect", traceId: request.traceId }
      case 503:
        return unavailable("the server is stopping").problem
      case 507:
        return unavailable("storage is full").problem
      default:
        return { _tag: "Unreadable", status: status satisfies UnreadableStatus }
    }
  }

  private checked(request: Request): Later<Response> {
    const forbidden = this.guard.checkTransport(request)
    if (forbidden !== undefined) return this.refuse(request, forbidden)
    const target = this.targets.find(request.path, request.method)
    if (target === undefined) return this.refuse(request, noSuchPath)
    const { method, methods } = target
    if (method === undefined)
      return this.refuse(request, { _tag: "MethodNotAllowed", method: request.method, allow: methods })
    if (method === "OPTIONS") return this.preflight(request, methods)
    if (this.inFlight >= inFlightMax) return this.refuse(request, tooManyAtOnce)
    return askLater<Response>((done) =>
      this.guard.admit(request, (admission) => done(() => this.answer(request, target, method, admission)))
    )
  }

  /** Refuses before anybody was asked for a place in a rate window. */
  private refuse(request: Request, problem: Problem): Response {
    const limit = this.guard.rateLimiter.headerWithoutPlace(request.client)
    return unread(request, problemResponse(problem, limit, ...commonHeaders(request)))
  }

  /** Answers a request. Positional parameters: this runs once per request. */
  private answer(
    request: Request,
    target: Target,
    method: Method,
    admission: Admission
  ): Response | Effect.Effect<Response> {
    if (admission._tag === "Refused")
      return unread(
        request,
        problemResponse(admission.problem, ...admission.headers, ...commonHeaders(request))
      )
    const { principal } = admission
    const headers = [...admission.headers, ...commonHeaders(request), ...this.corsHeaders(request, principal)]
    const forbidden = checkNeed(principal, needOf(target, method))
    if (forbidden !== undefined) return unread(request, problemResponse(forbidden, ...headers))
    try {
      const answer = this.handlers.handle(request, target, method, principal)
      return Effect.isEffect(answer)
        ? this.waited(request, answer as Effect.Effect<Answer, Refusal>, headers)
        : responseOf(request, answer as Answer, headers)
    } catch (cause) {
      return this.failed(request, cause, headers)
    }
  }

  /** Waits for an answer, but not too long. An interruption passes: the client went, or the node stops. */
  private waited(
    request: Request,
    answer: Effect.Effect<Answer, Refusal>,
    headers: ReadonlyArray<Header>
  ): Effect.Effect<Response> {
    return Effect.suspend(() => {
      this.inFlight++
      return withinTime(answer, handlingLimit).pipe(
        Effect.flatMap((value) => effectOf(responseOf(request, value, headers))),
        Effect.catchCause((cause) =>
          Cause.hasInterruptsOnly(cause)
            ? Effect.interrupt
            : Effect.sync(() => this.failed(request, Cause.squash(cause), headers))
        ),
        Effect.ensuring(
          Effect.sync(() => {
            this.inFlight--
          })
        )
      )
    })
  }

  private failed(request: Request, cause: unknown, headers: ReadonlyArray<Header>): Response {
    const problem = problemOf(cause, request.traceId)
    const response = problemResponse(problem, ...headers)
    // The rest of a body that is too large, or late, may still be on its way.
    const { status } = wordingOf(problem)
    return status === 413 || status === 408 ? { ...response, close: true } : response
  }

  private corsHeaders(request: Request, principal: Principal): ReadonlyArray<Header> {
    const origin = request.headers.get("origin")
    if (origin === undefined || principal.app?.allowedOrigins.includes(origin) !== true) return []
    return [
      ["Access-Control-Allow-Origin", origin],
      ["Access-Control-Expose-Headers", "*"]
    ]
  }

  private preflight(request: Request, methods: ReadonlyArray<string>): Response {
    const allow = methods.join(", ")
    const headers: Array<Header> = [
      ["Allow", allow],
      ["Vary", "Origin"],
      noStore,
      this.guard.rateLimiter.headerWithoutPlace(request.client),
      ...commonHeaders(request)
    ]
    const origin = request.headers.get("origin")
    const isAllowed =
      origin !== undefined &&
      this.guard.apps.list().some(({ allowedOrigins }) => allowedOrigins.includes(origin))
    if (isAllowed)
      headers.push(
        ["Access-Control-Allow-Origin", origin],
        ["Access-Control-Allow-Methods", allow],
        ["Access-Control-Max-Age", "600"],
        [
          "Access-Control-Allow-Headers",
          `Content-Type, ${this.guard.tokenHeader}, If-Match, If-None-Match, Idempotency-Key, Cache-Control`
        ]
      )
    return { status: 204, headers }
  }
}

const body = { as: "stream", bytesMax: uploadBytesMax } as const

export const storeService = (options: StoreServiceOptions): Service => {
  const { handle, refused } = new StoreRoutes(options)
  const path = `${base}*`
  return {
    name: "store",
    prefixes: ["/api/", "/store/"],
    routes: [
      ...options.console,
      ...["GET", "OPTIONS"].map((method): Route => ({ method, path, handle })),
      ...["POST", "PUT", "PATCH", "DELETE"].map((method): Route => ({ method, path, body, handle }))
    ],
    refused
  }
}
