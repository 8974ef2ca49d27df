/** The chat service: its paths, what guards them, what they answer. Source: chat sections 3, 4, 6, 18. */
import type { Handler, Request, Response, Route, Service } from "../../runtime/http.ts"
import { type Access, type OwnerHandler, preflight, requestIdOf, withHeaders } from "./access.ts"
import { completions } from "./answer/completions.ts"
import {
  answerOf,
  internal,
  invalidJson,
  invalidKey,
  modelNotFound,
  Refusal,
  refusalOf,
  shuttingDown,
  unknownUrl
} from "./problems.ts"
import type { ResponsesApi } from "./answer/responses.ts"
import type { Turns } from "./turn/turn.ts"

export interface ChatDeps {
  readonly turns: Turns
  readonly access: Access
  readonly responses: ResponsesApi
}

const jsonHeaders = [["Content-Type", "application/json; charset=utf-8"]] as const

const isJson = (type: string | undefined): boolean =>
  type === undefined ||
  type === "" ||
  /^(?:application\/json|[\w.*+-]+\/(?:[\w.*+-]+\+)?json)\s*(?:;|$)/i.test(type.trim())

const checkBody = ({ headers }: Request): void => {
  const encoding = headers.get("content-encoding")
  if (
    !isJson(headers.get("content-type")) ||
    (encoding !== undefined && encoding.trim().toLowerCase() !== "identity" && encoding.trim() !== "")
  ) {
    throw new Refusal(
      415,
      "unsupported_media_type",
      "The body must be application/json, without a content encoding."
    )
  }
}

export const chat = ({ turns, access, responses }: ChatDeps): Service => {
  const { metrics, upstreams, settings } = turns.deps
  /** Whose key was looked at before the body was read. */
  const admitted = new WeakMap<Request, string>()
  /** Key first, then the handler; whatever is thrown becomes the error object. */
  const guarded =
    (endpoint: string, handle: OwnerHandler): Handler =>
    (request) => {
      const startedMs = performance.now()
      const id = requestIdOf(request.headers)
      const done = (response: Response): Response => {
        metrics.request(endpoint, response.status)
        return withHeaders(response, id, startedMs)
      }
      const failed = (fault: unknown): Response => {
        if (!(fault instanceof Refusal))
          turns.deps.log("error", "a chat request failed", {
            endpoint,
            fault: fault instanceof Error ? fault.name : "unknown"
          })
        return done(answerOf(fault instanceof Refusal ? fault : refusalOf(fault)))
      }
      const owner = admitted.get(request) ?? access.ownerOf(request.headers)
      if (owner === undefined) return done(answerOf(invalidKey))
      try {
        if (request.method === "POST") checkBody(request)
        const answer = handle(request, owner)
        return answer instanceof Promise ? answer.then(done, failed) : done(answer)
      } catch (fault) {
        return failed(fault)
      }
    }
  const entry: OwnerHandler = async ({ path }) => {
    const raw = path.slice("/v1/models/".length).replace(/\/$/, "")
    let id: string
    try {
      id = decodeURIComponent(raw)
    } catch {
      throw modelNotFound(raw)
    }
    const found = await upstreams.entry(id)
    if (found === undefined) throw modelNotFound(id)
    return { status: 200, headers: jsonHeaders, body: JSON.stringify(found) }
  }
  const list: OwnerHandler = async () => ({
    status: 200,
    headers: jsonHeaders,
    body: JSON.stringify({ object: "list", data: await upstreams.list() })
  })
  const whole = { as: "buffer", bytesMax: settings.bodyBytesMax } as const
  const small = { as: "buffer", bytesMax: 65_536 } as const
  const admit = (request: Request): Response | undefined => {
    const owner = access.ownerOf(request.headers)
    if (owner === undefined)
      return withHeaders(answerOf(invalidKey), requestIdOf(request.headers), performance.now())
    if (!access.open) admitted.set(request, owner)
    return undefined
  }

  const table: ReadonlyArray<Route> = [
    { method: "GET", path: "/v1/models", handle: guarded("models", list) },
    {
      method: "POST",
      path: "/v1/chat/completions",
      body: whole,
      admit,
      handle: guarded("chat_completions", completions(turns))
    },
    {
      method: "POST",
      path: "/v1/responses",
      body: whole,
      admit,
      handle: guarded("responses", responses.create)
    },
    { method: "GET", path: "/v1/responses/:id", handle: guarded("responses_get", responses.retrieve) },
    { method: "DELETE", path: "/v1/responses/:id", handle: guarded("responses_delete", responses.remove) },
    {
      method: "POST",
      path: "/v1/responses/:id/cancel",
      body: small,
      handle: guarded("responses_cancel", responses.cancel)
    },
    {
      method: "GET",
      path: "/v1/responses/:id/input_items",
      handle: guarded("responses_input_items", responses.inputItems)
    }
  ]
  return {
    name: "chat",
    prefixes: ["/v1/"],
    routes: [
      ...table,
      ...table.map((route) => ({ ...route, path: `${route.path}/` })),
      { method: "GET", path: "/v1/models/*", handle: guarded("model", entry) }
    ],
    refused: (status, { method, path, headers }, allow) => {
      if (method === "OPTIONS" && (status === 404 || status === 405)) return preflight(headers)
      const keyed = status === 404 || status === 405
      const refusal =
        keyed && headers !== undefined && access.ownerOf(headers) === undefined
          ? invalidKey
          : refusalFor(status, method, path)
      const answer = withHeaders(answerOf(refusal), requestIdOf(headers), performance.now())
      metrics.request("refused", answer.status)
      return allow === undefined || refusal === invalidKey
        ? answer
        : { ...answer, headers: [...answer.headers!, ["Allow", allow]] }
    }
  }
}

const refusalFor = (status: number, method: string, path: string): Refusal => {
  switch (status) {
    case 404:
      return unknownUrl(method, path)
    case 405:
      return new Refusal(405, "method_not_allowed", `Not allowed to ${method} on ${path.slice(0, 256)}.`)
    case 413:
      return new Refusal(413, "request_too_large", "The request body is too large.")
    case 503:
      return shuttingDown()
    case 500:
      return internal()
    case 400:
      return invalidJson("The request cannot be read.")
    case 408:
      return new Refusal(408, "request_timeout", "The request did not arrive in time.")
    default:
      return new Refusal(
        status,
        "request_too_large",
        status === 414 ? "The request line is too long." : "The headers are too large."
      )
  }
}
