/** Hears of every answer of every service: counts it, and logs each 5xx with its trace id and cause (G-13).
 *  It is the one place where that happens: a handler carries the cause in `Response.cause`, or throws.
 *  Guarantee: a service behaves as it does without it. Source: docs/operations.md, "Logs". */
import { Cause, Effect } from "effect"
import {
  BodyFault,
  type Answer,
  type Request,
  type Response,
  type Route,
  type Service,
  type Sink,
  type Streaming,
  type SocketRoute
} from "../../http.ts"
import type { Log } from "../../kind.ts"
import { StorageFault } from "../../../storage/store.ts"
import { Unavailable } from "../../supervisor.ts"

/** Counts answers of one service by status. */
export interface StatusCounts {
  count(status: number): void
}

export interface ExchangesOptions {
  readonly log: Log
  readonly countsOf: (service: string) => StatusCounts
}

const causesMax = 4

/** True of what storage and the kernel have logged already: a full disk is one line, not one per request. */
const isLogged = (cause: unknown): boolean => {
  let at: unknown = cause
  for (let depth = 0; depth < causesMax && typeof at === "object" && at !== null; depth++) {
    if (at instanceof StorageFault && at.reason === "full") return true
    if (at instanceof Unavailable && at.reason === "storage") return true
    at = (at as { readonly cause?: unknown }).cause
  }
  return false
}

type RefusedRequest = Parameters<Service["refused"]>[1]

export class Exchanges {
  private readonly options: ExchangesOptions

  constructor(options: ExchangesOptions) {
    this.options = options
  }

  /** Returns the same service, with its answers heard. */
  instrument(service: Service): Service {
    const heard = new HeardService(service, this.options)
    return {
      ...service,
      routes: service.routes.map((route) => heard.route(route)),
      ...(service.sockets && { sockets: service.sockets.map((route) => heard.socket(route)) }),
      refused: heard.refused
    }
  }
}

class HeardService {
  private readonly service: Service
  private readonly log: Log
  private readonly counts: StatusCounts

  constructor(service: Service, { log, countsOf }: ExchangesOptions) {
    this.service = service
    this.log = log
    this.counts = countsOf(service.name)
  }

  route(route: Route): Route {
    const { admit, handle, path } = route
    return {
      ...route,
      ...(admit && {
        admit: (request: Request) => {
          const refusal = admit(request)
          return refusal === undefined ? undefined : this.answered(request, path, refusal)
        }
      }),
      handle: (request) => {
        let answer: Answer
        try {
          answer = handle(request)
        } catch (cause) {
          return this.threw(request, path, cause)
        }
        if ("status" in answer) return this.answered(request, path, answer)
        return answer instanceof Promise
          ? answer.then(
              (response) => this.answered(request, path, response),
              (cause: unknown) => this.threw(request, path, cause)
            )
          : this.heard(request, path, answer)
      }
    }
  }

  socket(route: SocketRoute<any>): SocketRoute<any> {
    const { path } = route
    // A route may be an object of a class, so it is not spread.
    return Object.create(route, {
      upgrade: {
        value: (request: Request) => {
          try {
            const verdict = route.upgrade(request)
            return "accept" in verdict ? verdict : this.answered(request, path, verdict)
          } catch (cause) {
            return this.threw(request, path, cause)
          }
        }
      }
    }) as SocketRoute<any>
  }

  readonly refused: Service["refused"] = (status, request, allow) =>
    this.answered(request, undefined, this.service.refused(status, request, allow))

  /** An interruption passes: the client went, or the transport words that the node stops. */
  private heard(request: Request, path: string, effect: Effect.Effect<Response>): Effect.Effect<Response> {
    return Effect.matchCauseEffect(effect, {
      onSuccess: (response) => Effect.sync(() => this.answered(request, path, response)),
      onFailure: (cause) =>
        Cause.hasInterruptsOnly(cause)
          ? Effect.failCause(cause)
          : Effect.sync(() => this.threw(request, path, Cause.squash(cause)))
    })
  }

  private answered(request: RefusedRequest, route: string | undefined, response: Response): Response {
    const { status, body } = response
    this.counts.count(status)
    if (status >= 500) this.failed(request, route, response)
    return typeof body === "function" ? this.streamed(request, route, response, body) : response
  }

  /** Words the 500 of a handler that threw. A fault of the body is the transport's to answer. */
  private threw(request: Request, route: string, cause: unknown): Response {
    if (cause instanceof BodyFault) throw cause
    const status = cause instanceof StorageFault && cause.reason === "full" ? 507 : 500
    return this.answered(request, route, { ...this.service.refused(status, request), cause })
  }

  /** Logs why a stream was cut, unless its client went. */
  private streamed(
    request: RefusedRequest,
    route: string | undefined,
    response: Response,
    body: Streaming
  ): Response {
    const cut = (sink: Sink, cause: unknown): void => {
      if (!sink.signal.aborted)
        this.write("error", "an answer was cut", request, route, { ...response, cause })
    }
    const heard = async (sink: Sink, writing: Promise<void> | void): Promise<void> => {
      try {
        await writing
      } catch (cause) {
        cut(sink, cause)
        throw cause
      }
    }
    return {
      ...response,
      body: (sink) => {
        let writing: ReturnType<Streaming>
        try {
          writing = body(sink)
        } catch (cause) {
          cut(sink, cause)
          throw cause
        }
        if (!Effect.isEffect(writing)) return heard(sink, writing as Promise<void> | void)
        return Effect.onError(writing as Effect.Effect<void>, (cause) =>
          Effect.sync(() => {
            if (!Cause.hasInterruptsOnly(cause)) cut(sink, Cause.squash(cause))
          })
        )
      }
    }
  }

  private failed(request: RefusedRequest, route: string | undefined, response: Response): void {
    if (isLogged(response.cause)) return
    // What a service refuses because its client went away is nobody's failure.
    if (response.status !== 500 && "signal" in request && (request as Request).signal.aborted) return
    this.write(response.status === 500 ? "error" : "warn", "a request failed", request, route, response)
  }

  private write(
    level: "warn" | "error",
    message: string,
    { method, traceId }: RefusedRequest,
    route: string | undefined,
    { status, cause }: Response
  ): void {
    this.log(level, message, {
      traceId,
      service: this.service.name,
      method,
      route,
      status,
      ...(cause === undefined ? {} : { cause })
    })
  }
}
