/** The chat service: its paths, the checks before them, and their handlers. This is the only place that
 *  converts exceptions of a request to answers.
 *  Source: docs/spec/chat.md, sections 3, 4, 6 and 18. */
import { Cause, Effect } from "effect"
import type { Handler, Headers, Request, Response, Route, Service } from "../../runtime/http.ts"
import { type Access, type OwnerHandler, requestIdOf, waitFor, withHeaders } from "./access.ts"
import { completions } from "./answer/completions.ts"
import type { ResponsesApi } from "./answer/responses.ts"
import { problemResponse, Refusal, type Problem } from "./problems.ts"
import type { Turns } from "./turn/turn.ts"
import { problemOf } from "./upstream-problems.ts"

export interface ChatDeps {
  readonly turns: Turns
  readonly access: Access
  readonly responses: ResponsesApi
}

const smallBodyBytesMax = 65_536

const ok = (value: unknown): Response => ({
  status: 200,
  headers: [["Content-Type", "application/json; charset=utf-8"]],
  body: JSON.stringify(value)
})

const isJson = (type: string | undefined): boolean =>
  type === undefined ||
  type === "" ||
  /^(?:application\/json|[\w.*+-]+\/(?:[\w.*+-]+\+)?json)\s*(?:;|$)/i.test(type.trim())

const isEncoded = (encoding: string | undefined): boolean => {
  const word = encoding?.trim().toLowerCase() ?? ""
  return word !== "" && word !== "identity"
}

const checkMediaType = ({ headers }: Request): void => {
  if (!isJson(headers.get("content-type")) || isEncoded(headers.get("content-encoding")))
    throw new Refusal({ _tag: "UnsupportedMediaType" })
}

const modelIdOf = (path: string): string => {
  const encoded = path.slice("/v1/models/".length).replace(/\/$/, "")
  try {
    return decodeURIComponent(encoded)
  } catch {
    throw new Refusal({ _tag: "ModelNotFound", model: encoded })
  }
}

/** Returns the problem for a refusal by the transport. */
const transportProblem = (status: number, method: string, path: string): Problem => {
  switch (status) {
    case 400:
      return { _tag: "RequestUnreadable" }
    case 404:
      return { _tag: "UnknownUrl", method, path }
    case 405:
      return { _tag: "MethodNotAllowed", method, path }
    case 408:
      return { _tag: "RequestTimeout" }
    case 413:
      return { _tag: "BodyTooLarge" }
    case 414:
      return { _tag: "RequestLineTooLong" }
    case 500:
      return { _tag: "InternalError" }
    case 503:
      return { _tag: "ShuttingDown" }
    case 507:
      return { _tag: "StorageUnavailable" }
    default:
      return { _tag: "HeadersTooLarge", status }
  }
}

class ChatRoutes {
  private readonly deps: ChatDeps

  /** Owners of requests whose key was checked before their body was read. */
  private readonly admitted = new WeakMap<Request, string>()

  constructor(deps: ChatDeps) {
    this.deps = deps
  }

  /** Checks the key before the body is read. */
  readonly admit = (request: Request): Response | undefined => {
    const { access } = this.deps
    const { headers } = request
    const owner = access.ownerOf(headers)
    const denial = access.denial(headers)
    if (owner === undefined || denial !== undefined)
      return withHeaders(problemResponse(denial ?? { _tag: "InvalidKey" }), {
        requestId: requestIdOf(headers),
        startedMs: performance.now(),
        cors: access.cors(headers)
      })
    if (!access.open) this.admitted.set(request, owner)
    return undefined
  }

  /** Checks the key, then calls the handler; an exception becomes the error object. */
  guarded(endpoint: string, handle: OwnerHandler): Handler {
    const { access, turns } = this.deps
    const { metrics } = turns.deps
    return (request) => {
      const startedMs = performance.now()
      const requestId = requestIdOf(request.headers)
      const answered = (response: Response): Response => {
        metrics.request(endpoint, response.status)
        return withHeaders(response, { requestId, startedMs, cors: access.cors(request.headers) })
      }
      const failed = (thrown: unknown): Response => answered(problemResponse(problemOf(thrown), [], thrown))
      const owner = this.admitted.get(request) ?? access.ownerOf(request.headers)
      const denial = access.denial(request.headers)
      if (denial !== undefined) return answered(problemResponse(denial))
      if (owner === undefined) return answered(problemResponse({ _tag: "InvalidKey" }))
      try {
        if (request.method === "POST") checkMediaType(request)
        const response = handle(request, owner)
        if ("status" in response) return answered(response)
        return Effect.matchCauseEffect(response, {
          onSuccess: (later) => Effect.sync(() => answered(later)),
          onFailure: (cause) => {
            if (!Cause.hasInterruptsOnly(cause)) return Effect.sync(() => failed(Cause.squash(cause)))
            answered(problemResponse({ _tag: "ClientDisconnected" }))
            return Effect.interrupt
          }
        })
      } catch (thrown) {
        return failed(thrown)
      }
    }
  }

  readonly model: OwnerHandler = ({ path }) => {
    const id = modelIdOf(path)
    return Effect.flatMap(
      waitFor(() => this.deps.turns.deps.upstreams.entry(id)),
      (model) =>
        model === undefined
          ? Effect.fail(new Refusal({ _tag: "ModelNotFound", model: id }))
          : Effect.succeed(ok(model))
    )
  }

  readonly models: OwnerHandler = () =>
    Effect.map(
      waitFor(() => this.deps.turns.deps.upstreams.list()),
      (data) => ok({ object: "list", data })
    )

  private get(path: string, endpoint: string, handle: OwnerHandler): Route {
    return { method: "GET", path, handle: this.guarded(endpoint, handle) }
  }

  private post(path: string, endpoint: string, handle: OwnerHandler): Route {
    const { bodyBytesMax: bytesMax } = this.deps.turns.deps.settings
    const body = { as: "buffer", bytesMax } as const
    return { method: "POST", path, body, admit: this.admit, handle: this.guarded(endpoint, handle) }
  }

  /** The paths; each is served with a slash at its end too. */
  table(): ReadonlyArray<Route> {
    const { turns, responses } = this.deps
    const cancelBody = { as: "buffer", bytesMax: smallBodyBytesMax } as const
    const routes: ReadonlyArray<Route> = [
      this.get("/v1/models", "models", this.models),
      this.post("/v1/chat/completions", "chat_completions", completions(turns)),
      this.post("/v1/responses", "responses", responses.create),
      this.get("/v1/responses/:id", "responses_get", responses.retrieve),
      {
        method: "DELETE",
        path: "/v1/responses/:id",
        handle: this.guarded("responses_delete", responses.remove)
      },
      {
        method: "POST",
        path: "/v1/responses/:id/cancel",
        body: cancelBody,
        handle: this.guarded("responses_cancel", responses.cancel)
      },
      this.get("/v1/responses/:id/input_items", "responses_input_items", responses.inputItems)
    ]
    return [
      ...routes,
      ...routes.map((route) => ({ ...route, path: `${route.path}/` })),
      this.get("/v1/models/*", "model", this.model)
    ]
  }

  /** Answers a request that the transport refuses. A caller without a key does not learn which paths
   *  exist. */
  readonly refused: NonNullable<Service["refused"]> = (status, { method, path, headers }, allow) => {
    const { access } = this.deps
    if (method === "OPTIONS" && (status === 404 || status === 405)) return access.preflight(headers)
    const problem: Problem = this.hidesPaths(status, headers)
      ? { _tag: "InvalidKey" }
      : transportProblem(status, method, path)
    const allowHeader =
      allow === undefined || problem._tag === "InvalidKey" ? [] : [["Allow", allow] as const]
    const answer = withHeaders(problemResponse(problem), {
      requestId: requestIdOf(headers),
      startedMs: performance.now(),
      cors: access.cors(headers)
    })
    this.deps.turns.deps.metrics.request("refused", answer.status)
    return { ...answer, headers: [...answer.headers!, ...allowHeader] }
  }

  private hidesPaths(status: number, headers: Headers | undefined): boolean {
    const revealsPath = status === 404 || status === 405
    return revealsPath && headers !== undefined && this.deps.access.ownerOf(headers) === undefined
  }
}

export const chat = (deps: ChatDeps): Service => {
  const routes = new ChatRoutes(deps)
  return { name: "chat", prefixes: ["/v1/"], routes: routes.table(), refused: routes.refused }
}
