/** Resolves a path below /api/v1: what it names, its methods, and which of them a request uses.
 *  Source: docs/spec/store.md, sections 2.2, 2.6, 6. */
import type { Effect } from "effect"
import type { Need } from "./access/scopes.ts"
import type { Engine } from "./engine/engine.ts"
import type { Principal } from "./access/guard.ts"
import { idOf } from "./engine/query.ts"
import type { Resource } from "./engine/resource.ts"
import type { Header, Request } from "../../runtime/http.ts"
import type { Later } from "./later.ts"
import type { Refusal } from "./problems.ts"
import type { JsonObject } from "./wire.ts"

/** The methods that have a handler of their own. */
export type Method = "GET" | "POST" | "PUT" | "DELETE"

/** One call of an endpoint that is no resource's, after every check up to the body. */
export interface EndpointCall {
  readonly engine: Engine
  readonly request: Request
  readonly principal: Principal
  /** The `:id` of the path; 0 when it has none. */
  readonly id: number
  readonly body: JsonObject
  readonly bytes: Uint8Array
  /** Asks the reply webhooks of an event, when there are any. */
  readonly validate: (event: string, body: () => unknown) => Effect.Effect<void, Refusal>
}

export interface Answer {
  readonly status: number
  readonly body?: string
  readonly headers?: ReadonlyArray<Header>
}

export interface Action {
  readonly need: Need
  /** `optional` is an object or nothing; `raw` is of any type, up to the upload limit. Absent: no body. */
  readonly body?: "object" | "optional" | "raw"
  readonly handle: (call: EndpointCall) => Later<Answer>
}

export interface Endpoint {
  /** Path below /api/v1, such as `orders/:id/status`. */
  readonly path: string
  readonly methods: { readonly [M in Method]?: Action }
}

interface Addressed {
  /** Every method that the path has, for `Allow`. */
  readonly methods: ReadonlyArray<string>
  /** The method whose handler answers the request; undefined when the path has no such method. */
  readonly method: Method | "OPTIONS" | undefined
}

export interface ImportTarget extends Addressed {
  readonly _tag: "Import"
  readonly resource: Resource
}

export interface CollectionTarget extends Addressed {
  readonly _tag: "Collection"
  readonly resource: Resource
}

export interface SelectTarget extends Addressed {
  readonly _tag: "Select"
  readonly resource: Resource
}

export interface RecordTarget extends Addressed {
  readonly _tag: "Record"
  readonly resource: Resource
  readonly id: number
}

/** A record with all its nested lists. */
export interface FilledTarget extends Addressed {
  readonly _tag: "Filled"
  readonly resource: Resource
  readonly id: number
}

export interface NestedTarget extends Addressed {
  readonly _tag: "Nested"
  readonly resource: Resource
  readonly id: number
  readonly nested: string
}

export interface EndpointTarget extends Addressed {
  readonly _tag: "Endpoint"
  readonly endpoint: Endpoint
  readonly id: number
}

/** Targets of a GET that the engine answers. */
export type ReadTarget = CollectionTarget | SelectTarget | RecordTarget | FilledTarget | NestedTarget

export type Target = ReadTarget | ImportTarget | EndpointTarget

const readMethods = ["GET", "HEAD", "OPTIONS"]
const collectionMethods = ["GET", "HEAD", "POST", "OPTIONS"]
const recordMethods = ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]
const importMethods = ["POST", "OPTIONS"]

/** A HEAD is answered as a GET, whose body the transport leaves out; a PATCH means what a PUT does. */
const handledAs: Readonly<Record<string, Addressed["method"]>> = {
  GET: "GET",
  HEAD: "GET",
  POST: "POST",
  PUT: "PUT",
  PATCH: "PUT",
  DELETE: "DELETE",
  OPTIONS: "OPTIONS"
}

const alsoAnswers: Readonly<Record<string, ReadonlyArray<string>>> = {
  GET: ["GET", "HEAD"],
  PUT: ["PUT", "PATCH"]
}

const methodsOf = (endpoint: Endpoint): ReadonlyArray<string> => [
  ...Object.keys(endpoint.methods).flatMap((method) => alsoAnswers[method] ?? [method]),
  "OPTIONS"
]

export const base = "/api/v1/"

interface ListedEndpoint {
  readonly endpoint: Endpoint
  readonly methods: ReadonlyArray<string>
}

export class Targets {
  private readonly resources: ReadonlyMap<string, Resource>
  private readonly endpoints: ReadonlyMap<string, ListedEndpoint>

  constructor(resources: ReadonlyMap<string, Resource>, endpoints: ReadonlyArray<Endpoint>) {
    this.resources = resources
    this.endpoints = new Map(
      endpoints.map((endpoint) => [endpoint.path, { endpoint, methods: methodsOf(endpoint) }])
    )
  }

  find(path: string, asked: string): Target | undefined {
    if (!path.startsWith(base)) return undefined
    const plain = path
      .slice(base.length)
      .replace(/\/$/, "")
      .replace(/\.json$/, "")
    const [first, second, third, ...more] = plain.split("/") as [string, string?, string?, ...Array<string>]
    if (more.length > 0) return undefined
    const id = second === undefined ? undefined : idOf(second)
    const listed = this.endpoints.get(
      id === undefined ? plain : [first, ":id", ...(third === undefined ? [] : [third])].join("/")
    )
    if (listed !== undefined) {
      const { endpoint, methods } = listed
      return { _tag: "Endpoint", endpoint, id: id ?? 0, methods, method: methodIn(methods, asked) }
    }
    const resource = this.resources.get(first)
    if (resource === undefined) return undefined
    return id === undefined
      ? targetOfAll(resource, { second, third }, asked)
      : targetOfOne(resource, { id, third }, asked)
  }
}

const methodIn = (methods: ReadonlyArray<string>, asked: string): Addressed["method"] =>
  methods.includes(asked) ? handledAs[asked] : undefined

const targetOfAll = (
  resource: Resource,
  { second, third }: { readonly second: string | undefined; readonly third: string | undefined },
  asked: string
): Target | undefined => {
  const { readOnly = false } = resource
  if (second === undefined) {
    const methods = readOnly ? readMethods : collectionMethods
    return { _tag: "Collection", resource, methods, method: methodIn(methods, asked) }
  }
  if (third !== undefined) return undefined
  if (second === "select_many")
    return { _tag: "Select", resource, methods: readMethods, method: methodIn(readMethods, asked) }
  if (second === "importMany" && !readOnly)
    return { _tag: "Import", resource, methods: importMethods, method: methodIn(importMethods, asked) }
  return undefined
}

const targetOfOne = (
  resource: Resource,
  { id, third }: { readonly id: number; readonly third: string | undefined },
  asked: string
): Target | undefined => {
  if (third === undefined) {
    const methods = resource.readOnly === true ? readMethods : recordMethods
    return { _tag: "Record", resource, id, methods, method: methodIn(methods, asked) }
  }
  const method = methodIn(readMethods, asked)
  if (third === "filled") return { _tag: "Filled", resource, id, methods: readMethods, method }
  return Object.hasOwn(resource.nested, third)
    ? { _tag: "Nested", resource, id, nested: third, methods: readMethods, method }
    : undefined
}
