/** The handlers of the store, for each kind of target and method, as one table.
 *  Source: docs/spec/store.md, section 6. */
import { Effect } from "effect"
import type { Header, Request } from "../../runtime/http.ts"
import { noStore } from "../shared/headers.ts"
import { readNeed, writeNeed, type Need } from "./access/scopes.ts"
import type { Principal } from "./access/guard.ts"
import type { Engine } from "./engine/engine.ts"
import { Idempotency } from "./engine/idempotency.ts"
import { RecordReads } from "./engine/reads.ts"
import {
  etagOf,
  RecordWrites,
  type Preconditions,
  type Validation,
  type WriteAnswer
} from "./engine/writes.ts"
import { ruled, type Later } from "./later.ts"
import { forbidden, invalid, jsonType, type Refusal } from "./problems.ts"
import { discardBody, jsonOf, objectOf, readBody, uploadBytesMax } from "./request-body.ts"
import {
  base,
  type Action,
  type Answer,
  type CollectionTarget,
  type EndpointTarget,
  type ImportTarget,
  type Method,
  type ReadTarget,
  type RecordTarget,
  type Target
} from "./target.ts"
import type { JsonObject } from "./wire.ts"

const importEntriesMax = 500
/** 250 fields of each entry. */
const importValuesMax = 250_000

type Handler<T extends Target> = (request: Request, target: T, principal: Principal) => Later<Answer>

type HandlersByMethod<T extends Target> = { readonly [M in Method]?: Handler<T> }

type HandlerTable = {
  readonly [Tag in Target["_tag"]]: HandlersByMethod<Extract<Target, { readonly _tag: Tag }>>
}

export interface HandlerOptions {
  readonly engine: Engine
  readonly validation: Validation
  /** `https://{domain}`; undefined: an address is written as the request came. */
  readonly origin: string | undefined
  readonly tokenHeader: string
  readonly cacheTtlMs: number
  readonly bodyBytesMax: number
}

const preconditionsOf = ({ headers }: Request): Preconditions => ({
  match: headers.get("if-match"),
  unmodifiedSince: headers.get("if-unmodified-since")
})

/** Checks scopes that depend on the content of a write. */
const checkScopes = (
  { resource }: CollectionTarget | RecordTarget,
  body: JsonObject,
  principal: Principal
) => {
  const scopes = resource.alsoNeeds?.(body)
  if (scopes !== undefined && !scopes.some((scope) => principal.scopes.has(scope)))
    throw forbidden(`the scope ${scopes[0]} is needed`)
}

const writeAnswer = ({ status, body, row }: WriteAnswer, headers: ReadonlyArray<Header> = []): Answer => ({
  status,
  body,
  headers:
    row === undefined
      ? [jsonType, noStore, ...headers]
      : [jsonType, noStore, ...headers, ["ETag", etagOf(row)]]
})

export class Handlers {
  private readonly options: HandlerOptions
  private readonly reads: RecordReads
  private readonly writes: RecordWrites
  private readonly idempotency: Idempotency
  private readonly table: HandlerTable

  constructor(options: HandlerOptions) {
    const { engine, validation, cacheTtlMs, tokenHeader } = options
    this.options = options
    this.reads = new RecordReads(engine, cacheTtlMs, tokenHeader)
    this.writes = new RecordWrites(engine, validation)
    this.idempotency = new Idempotency(engine)
    const read: Handler<ReadTarget> = (request, target) => this.read(request, target)
    const call: Handler<EndpointTarget> = (request, target, principal) =>
      this.callEndpoint(request, target, principal)
    this.table = {
      Collection: {
        GET: read,
        POST: (request, target, principal) => this.create(request, target, principal)
      },
      Select: { GET: read },
      Import: { POST: (request, target) => this.importMany(request, target) },
      Record: {
        GET: read,
        PUT: (request, target, principal) => this.update(request, target, principal),
        DELETE: (request, target) => this.remove(request, target)
      },
      Filled: { GET: read },
      Nested: { GET: read },
      Endpoint: {
        GET: (request, target, principal) => this.readEndpoint(request, target, principal),
        POST: call,
        PUT: call,
        DELETE: call
      }
    }
  }

  /** Handles a request. Positional parameters: this runs once per request. */
  handle(request: Request, target: Target, method: Method, principal: Principal): Later<Answer> {
    const handlers: HandlersByMethod<any> = this.table[target._tag]
    return handlers[method]!(request, target, principal)
  }

  private read(request: Request, target: ReadTarget): Later<Answer> {
    const origin = this.options.origin ?? `${request.scheme}://${request.headers.get("host") ?? ""}`
    return this.reads.answer(target, request, {
      url: origin + request.path.replace(/\/$/, ""),
      query: request.query
    })
  }

  private create(
    request: Request,
    target: CollectionTarget,
    principal: Principal
  ): Effect.Effect<Answer, Refusal> {
    const { resource } = target
    return Effect.flatMap(readBody(request, this.options.bodyBytesMax), (bytes) =>
      ruled(() => {
        const body = objectOf(request, bytes)
        checkScopes(target, body, principal)
        const key = request.headers.get("idempotency-key")
        if (key === undefined)
          return Effect.map(this.writes.create(resource, body), (written) =>
            this.createdAnswer(target, written)
          )
        if (!Idempotency.isWellFormed(key))
          throw invalid("Idempotency-Key must have 1 to 255 visible characters")
        const once = this.idempotency.once(
          { appId: principal.app?.appId ?? "", key, path: resource.name, bytes },
          (keep) => this.writes.create(resource, body, keep)
        )
        return Effect.map(once, ({ replayed, ...answer }) =>
          this.createdAnswer(target, answer, replayed ? [["Idempotency-Replayed", "true"]] : [])
        )
      })
    )
  }

  private createdAnswer(
    { resource }: CollectionTarget,
    written: WriteAnswer,
    headers: ReadonlyArray<Header> = []
  ): Answer {
    const answer = writeAnswer(written, headers)
    if (written.row === undefined || written.status !== 201) return answer
    const location = `${this.options.origin ?? ""}${base}${resource.name}/${written.row.id}`
    return { ...answer, headers: [...answer.headers!, ["Location", location]] }
  }

  private update(
    request: Request,
    target: RecordTarget,
    principal: Principal
  ): Effect.Effect<Answer, Refusal> {
    return Effect.flatMap(readBody(request, this.options.bodyBytesMax), (bytes) =>
      ruled(() => {
        const body = objectOf(request, bytes)
        checkScopes(target, body, principal)
        const written = this.writes.update(target, body, preconditionsOf(request))
        return Effect.map(written, (answer) => writeAnswer(answer))
      })
    )
  }

  private remove(request: Request, target: RecordTarget): Effect.Effect<Answer, Refusal> {
    return Effect.flatMap(discardBody(request), () =>
      Effect.as(this.writes.remove(target, preconditionsOf(request)), { status: 204, headers: [noStore] })
    )
  }

  private importMany(request: Request, { resource }: ImportTarget): Effect.Effect<Answer, Refusal> {
    return Effect.flatMap(readBody(request, uploadBytesMax), (bytes) =>
      ruled(() => {
        const entries = jsonOf(request, bytes, importValuesMax)
        if (!Array.isArray(entries) || entries.length < 1 || entries.length > importEntriesMax)
          throw invalid(`the body must be an array of 1 to ${importEntriesMax} entries`)
        return Effect.map(this.writes.importMany(resource, entries), (body) => ({
          status: 200,
          body,
          headers: [jsonType, noStore]
        }))
      })
    )
  }

  private readEndpoint(
    request: Request,
    { endpoint, id }: EndpointTarget,
    principal: Principal
  ): Later<Answer> {
    const { engine } = this.options
    return endpoint.methods.GET!.handle({
      engine,
      request,
      principal,
      id,
      body: {},
      bytes: request.body,
      validate: this.validate
    })
  }

  private callEndpoint(
    request: Request,
    { endpoint, id, method }: EndpointTarget,
    principal: Principal
  ): Effect.Effect<Answer, Refusal> {
    const action = endpoint.methods[method as Method]!
    const { engine } = this.options
    return Effect.flatMap(this.bytesFor(action, request), (bytes) =>
      ruled(() => {
        const hasObject = action.body === "object" || (action.body === "optional" && bytes.length > 0)
        const body = hasObject ? objectOf(request, bytes) : {}
        return action.handle({ engine, request, principal, id, body, bytes, validate: this.validate })
      })
    )
  }

  private bytesFor({ body }: Action, request: Request): Effect.Effect<Uint8Array, Refusal> {
    if (body === undefined) return discardBody(request)
    return readBody(request, body === "raw" ? uploadBytesMax : this.options.bodyBytesMax)
  }

  private readonly validate = (event: string, body: () => unknown): Effect.Effect<void, Refusal> => {
    const { validation } = this.options
    return validation.isAsked(event) ? ruled(() => validation.ask(event, body())) : Effect.void
  }
}

/** The scopes and the area that a call needs. */
export const needOf = (target: Target, method: Method): Need => {
  if (target._tag === "Endpoint") return target.endpoint.methods[method]!.need
  const { subject, area } = target.resource
  if (target._tag === "Import")
    return { scopes: ["import"], also: writeNeed(subject, area).scopes[0]!, area: "DataImport" }
  return method === "GET" ? readNeed(subject, area) : writeNeed(subject, area)
}
