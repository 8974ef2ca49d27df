/** The store's service: every path below /api/v1, what each check answers, and the headers that every
 *  response carries.
 *  Source: store sections 2, 4.3, 5, 6; order of checks 2.9. */
import { gzip } from "node:zlib"
import type { Request, Response, Route, Service, Header } from "../../runtime/http.ts"
import { reading, writing, type Need } from "./access/access.ts"
import type { Engine } from "./engine/engine.ts"
import { denied, type Admission, type Guard, type Principal } from "./access/guard.ts"
import { jsonType, noStore, problem, Refused, type Problem } from "./problems.ts"
import { Reading, zipped, type Read } from "./engine/reading.ts"
import { base, Targets, type Answer, type Endpoint, type Target } from "./target.ts"
import {
  etagOf,
  Idempotency,
  Writing,
  type Body,
  type Preconditions,
  type Validation,
  type Written
} from "./engine/writing.ts"

export interface StoreDeps {
  readonly engine: Engine
  readonly guard: Guard
  readonly endpoints: ReadonlyArray<Endpoint>
  readonly validation: Validation
  /** The console's own pages and calls. */
  readonly console?: ReadonlyArray<Route>
  /** `https://{domain}`; undefined: as the request came. */
  readonly origin: string | undefined
  readonly cacheTtlMs: number
  readonly bodyBytesMax: number
}

const uploadBytesMax = 25 * 1_048_576
const inFlightMax = 1_000
const handlingMs = 30_000

/** Up to this an unread body is let pass, so that its sender hears the answer and the connection goes on. */
const discardBytesMax = 1_048_576

const zipInTurnMax = 16_384
const importMax = 500

const needOf = (target: Target, method: string): Need => {
  if (target.kind === "endpoint")
    return target.endpoint.methods[method === "HEAD" ? "GET" : method === "PATCH" ? "PUT" : method]!.need
  const { subject, area } = target.resource
  if (target.kind === "import")
    return { scopes: ["import"], also: writing(subject, area).scopes[0]!, area: "DataImport" }
  return method === "GET" || method === "HEAD" ? reading(subject, area) : writing(subject, area)
}

export const store = ({
  engine,
  guard,
  endpoints,
  validation,
  console = [],
  origin,
  cacheTtlMs,
  bodyBytesMax
}: StoreDeps): Service => {
  const targets = new Targets(engine.resources, endpoints)
  const cached = new Reading(engine, cacheTtlMs, `${guard.options.headerPrefix}-Auth-Token`)
  const writes = new Writing(engine, validation)
  const idempotency = new Idempotency(engine)
  const validate = async (event: string, body: () => unknown): Promise<void> => {
    if (validation.wanted(event)) await validation.ask(event, body())
  }
  let inFlight = 0

  const common = (request: Request): Array<Header> => {
    const headers: Array<Header> = [
      ["X-Request-Id", request.traceId],
      ["X-Content-Type-Options", "nosniff"]
    ]
    if (request.scheme === "https") headers.push(["Strict-Transport-Security", "max-age=31536000"])
    return headers
  }
  const plainRefusal = (request: Request, given: Problem, ...more: ReadonlyArray<Header>): Response =>
    closing(request, problem(given, guard.standing(request), ...more, ...common(request)))
  /** A body of which nothing was read: a small one is let pass, after a big one the connection is not used
   *  again. */
  const closing = (request: Request, response: Response): Response => {
    const length = Number(request.headers.get("content-length") ?? 0)
    if (length > discardBytesMax || request.headers.get("transfer-encoding") !== undefined)
      return { ...response, close: true }
    if (length > 0) void drained(request)
    return response
  }
  const corsOf = (request: Request, principal: Principal): ReadonlyArray<Header> => {
    const from = request.headers.get("origin")
    return from !== undefined && principal.app?.allowedOrigins.includes(from) === true
      ? [
          ["Access-Control-Allow-Origin", from],
          ["Access-Control-Expose-Headers", "*"]
        ]
      : []
  }
  const preflight = (request: Request, methods: ReadonlyArray<string>): Response => {
    const from = request.headers.get("origin")
    const allowed =
      from !== undefined && guard.apps.list().some(({ allowedOrigins }) => allowedOrigins.includes(from))
    return {
      status: 204,
      headers: [
        ["Allow", methods.join(", ")],
        ["Vary", "Origin"],
        noStore,
        guard.standing(request),
        ...common(request),
        ...(allowed
          ? ([
              ["Access-Control-Allow-Origin", from],
              ["Access-Control-Allow-Methods", methods.join(", ")],
              ["Access-Control-Max-Age", "600"],
              [
                "Access-Control-Allow-Headers",
                `Content-Type, ${guard.options.headerPrefix}-Auth-Token, If-Match, If-None-Match, Idempotency-Key, Cache-Control`
              ]
            ] as ReadonlyArray<Header>)
          : [])
      ]
    }
  }

  const deliver = (
    request: Request,
    { status, body, headers = [] }: Answer,
    more: ReadonlyArray<Header>
  ): Response | Promise<Response> => {
    const all = [...headers, ...more]
    if (body === undefined) return { status, headers: all }
    if (body.length <= zipInTurnMax || request.method === "HEAD") {
      const bytes = zipped(request, body)
      return bytes === undefined
        ? { status, headers: all, body }
        : { status, headers: [...all, ["Content-Encoding", "gzip"]], body: bytes }
    }
    if (!/\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:,|$))/.test(request.headers.get("accept-encoding") ?? ""))
      return { status, headers: all, body }
    return new Promise((resolve, reject) => {
      gzip(body, { level: 1 }, (cause, bytes) => {
        if (cause === null) resolve({ status, headers: [...all, ["Content-Encoding", "gzip"]], body: bytes })
        else reject(cause)
      })
    })
  }
  const refusal = (request: Request, cause: unknown, more: ReadonlyArray<Header>): Response => {
    if (!(cause instanceof Refused)) return problem({ status: 500, details: request.traceId }, ...more)
    const response = problem(cause, ...(cause.status === 503 ? [["Retry-After", "5"] as const] : []), ...more)
    return cause.status === 413 ? { ...response, close: true } : response
  }

  const handle = (request: Request): Response | Promise<Response> => {
    const refused = guard.door(request)
    if (refused !== undefined) return plainRefusal(request, refused)
    const target = targets.find(request.path)
    if (target === undefined)
      return plainRefusal(request, { status: 404, details: "there is nothing at this path" })
    const { method } = request
    if (!target.methods.includes(method))
      return plainRefusal(request, { status: 405, details: `this path has no ${method}` }, [
        "Allow",
        target.methods.join(", ")
      ])
    if (method === "OPTIONS") return preflight(request, target.methods)
    if (inFlight >= inFlightMax)
      return plainRefusal(request, { status: 503, details: "too many requests at once" }, [
        "Retry-After",
        "1"
      ])
    let now: Response | Promise<Response> | undefined
    let later: ((response: Response | Promise<Response>) => void) | undefined
    guard.admit(request, (admission) => {
      const response = admitted(request, target, admission)
      if (later === undefined) now = response
      else later(response)
    })
    return (
      now ??
      new Promise((resolve) => {
        later = resolve
      })
    )
  }
  const admitted = (request: Request, target: Target, admission: Admission): Response | Promise<Response> => {
    if ("problem" in admission)
      return closing(request, problem(admission.problem, ...admission.headers, ...common(request)))
    const { principal } = admission
    const need = needOf(target, request.method)
    const more = [...admission.headers, ...common(request), ...corsOf(request, principal)]
    const forbidden = denied(principal, need)
    if (forbidden !== undefined) return closing(request, problem(forbidden, ...more))
    try {
      const answer =
        request.method === "GET" || request.method === "HEAD"
          ? get(request, target, principal)
          : change(request, target, principal)
      if (!(answer instanceof Promise)) return deliver(request, answer, more)
      inFlight++
      let timer: ReturnType<typeof setTimeout>
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Refused(503, "it took too long")), handlingMs)
      })
      return Promise.race([answer, late])
        .then((done) => deliver(request, done, more))
        .catch((cause: unknown) => refusal(request, cause, more))
        .finally(() => {
          inFlight--
          clearTimeout(timer)
        })
    } catch (cause) {
      return refusal(request, cause, more)
    }
  }

  const get = (request: Request, target: Target, principal: Principal): Answer | Promise<Answer> => {
    if (target.kind === "endpoint")
      return target.endpoint.methods["GET"]!.handle({
        engine,
        request,
        principal,
        id: target.id,
        body: {},
        raw: request.body,
        validate
      })
    return cached.answer(target as Read, request, {
      url:
        (origin ?? `${request.scheme}://${request.headers.get("host") ?? ""}`) +
        request.path.replace(/\/$/, ""),
      query: request.query
    })
  }
  const written = (
    target: Target,
    { status, body, row }: Written,
    headers: ReadonlyArray<Header> = []
  ): Answer => ({
    status,
    body,
    headers: [
      jsonType,
      noStore,
      ...headers,
      ...(row === undefined
        ? []
        : [
            ["ETag", etagOf(row)] as const,
            ...(status === 201 && target.kind === "collection"
              ? [["Location", `${origin ?? ""}${base}${target.resource.name}/${row.id}`] as const]
              : [])
          ])
    ]
  })
  const change = async (request: Request, target: Target, principal: Principal): Promise<Answer> => {
    const method = request.method === "PATCH" ? "PUT" : request.method
    const conditions: Preconditions = {
      match: request.headers.get("if-match"),
      unmodifiedSince: request.headers.get("if-unmodified-since")
    }
    if (target.kind === "endpoint") {
      const action = target.endpoint.methods[method]!
      const raw =
        action.body === undefined
          ? await drained(request)
          : await bodyOf(request, action.body === "raw" ? uploadBytesMax : bodyBytesMax)
      const body =
        action.body === "object" || (action.body === "optional" && raw.length > 0)
          ? objectOf(request, raw)
          : {}
      return action.handle({ engine, request, principal, id: target.id, body, raw, validate })
    }
    if (method === "DELETE") {
      await drained(request)
      await writes.remove(target.resource, (target as { id: number }).id, conditions)
      return { status: 204, headers: [noStore] }
    }
    const raw = await bodyOf(request, target.kind === "import" ? uploadBytesMax : bodyBytesMax)
    if (target.kind === "import") {
      const entries = jsonOf(request, raw)
      if (!Array.isArray(entries) || entries.length < 1 || entries.length > importMax)
        throw new Refused(400, `the body must be an array of 1 to ${importMax} entries`)
      return {
        status: 200,
        body: await writes.importMany(target.resource, entries),
        headers: [jsonType, noStore]
      }
    }
    const body = objectOf(request, raw)
    const more = target.resource.alsoNeeds?.(body)
    if (more !== undefined && !more.some((scope) => principal.scopes.has(scope)))
      throw new Refused(403, `the scope ${more[0]} is needed`)
    if (target.kind === "record")
      return written(target, await writes.update(target.resource, target.id, body, conditions))
    const key = request.headers.get("idempotency-key")
    if (key === undefined) return written(target, await writes.create(target.resource, body))
    if (!Idempotency.wellFormed(key))
      throw new Refused(400, "Idempotency-Key must have 1 to 255 visible characters")
    const done = await idempotency.once(principal.app?.appId ?? "", key, raw, target.resource.name, (keep) =>
      writes.create(target.resource, body, keep)
    )
    return written(target, done, done.replayed ? [["Idempotency-Replayed", "true"]] : [])
  }

  const stream = { as: "stream", bytesMax: uploadBytesMax } as const
  const paths = [`${base}*`]
  const routes: Array<Route> = [...console]
  for (const path of paths) for (const method of ["GET", "OPTIONS"]) routes.push({ method, path, handle })
  for (const path of paths)
    for (const method of ["POST", "PUT", "PATCH", "DELETE"])
      routes.push({ method, path, body: stream, handle })
  const refusals: Record<number, string> = {
    400: "the request cannot be read",
    404: "there is nothing at this path",
    408: "the request took too long to arrive",
    413: "the body is too large",
    414: "the address is too long",
    431: "the headers are too large",
    503: "the server is stopping"
  }
  return {
    name: "store",
    prefixes: ["/api/", "/store/"],
    routes,
    refused: (status, request) => {
      const limit: Header = [`${guard.options.headerPrefix}-Call-Limit`, "0/50"]
      if (status === 405) {
        const methods = targets.find(request.path)?.methods ?? ["GET"]
        return problem(
          { status: 405, details: `this path has no ${request.method}` },
          limit,
          ["Allow", methods.join(", ")],
          ["X-Request-Id", request.traceId]
        )
      }
      return problem(
        { status, details: status === 500 ? request.traceId : refusals[status]! },
        limit,
        ["X-Request-Id", request.traceId],
        ["X-Content-Type-Options", "nosniff"],
        ...(status === 503 ? [["Retry-After", "5"] as const] : [])
      )
    }
  }
}

/** Reads what nobody wants; a fault on the way is the transport's. */
const drained = async (request: Request): Promise<Uint8Array> => {
  try {
    for await (const _ of request.stream) {
      /* thrown away */
    }
  } catch {
    /* the connection goes with it */
  }
  return new Uint8Array(0)
}

const bodyOf = async (request: Request, bytesMax: number): Promise<Uint8Array> => {
  if (Number(request.headers.get("content-length") ?? 0) > bytesMax)
    throw new Refused(413, `the body must have at most ${bytesMax} bytes`)
  const parts: Array<Uint8Array> = []
  let bytes = 0
  for await (const part of request.stream) {
    bytes += part.length
    if (bytes > bytesMax) throw new Refused(413, `the body must have at most ${bytesMax} bytes`)
    parts.push(part)
  }
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts)
}

const strict = new TextDecoder("utf-8", { fatal: true })

const jsonOf = (request: Request, raw: Uint8Array): unknown => {
  const type = (request.headers.get("content-type") ?? "").split(";")[0]!.trim().toLowerCase()
  if (raw.length === 0) throw new Refused(400, "the body is empty")
  if (type !== "application/json") throw new Refused(415, "the body must be application/json")
  try {
    return JSON.parse(strict.decode(raw))
  } catch {
    throw new Refused(400, "the body is not valid JSON in UTF-8")
  }
}

const objectOf = (request: Request, raw: Uint8Array): Body => {
  const value = jsonOf(request, raw)
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Refused(400, "the body is not a JSON object")
  return value as Body
}
