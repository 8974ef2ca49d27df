/** What a path below /api/v1 names, and which methods it has. Source: store sections 2.2, 2.6, 6. */
import type { Need } from "./access/access.ts"
import type { Engine } from "./engine/engine.ts"
import type { Principal } from "./access/guard.ts"
import { idOf } from "./engine/query.ts"
import type { Resource } from "./engine/resource.ts"
import type { Request } from "../../runtime/http.ts"

/** What an endpoint of its own (beside the engine's calls) is given, after every check up to the body. */
export interface EndpointCall {
  readonly engine: Engine
  readonly request: Request
  readonly principal: Principal
  /** The `:id` of its path, else 0. */
  readonly id: number
  readonly body: Readonly<Record<string, unknown>>
  readonly raw: Uint8Array
  /** Asks the reply webhooks, when there are any; throws Refused. */
  readonly validate: (event: string, body: () => unknown) => Promise<void>
}

export interface Answer {
  readonly status: number
  readonly body?: string
  readonly headers?: ReadonlyArray<readonly [string, string]>
}

export interface Action {
  readonly need: Need
  /** `optional`: an object or nothing; `raw`: any type, up to the upload limit. Absent: no body. */
  readonly body?: "object" | "optional" | "raw"
  readonly handle: (call: EndpointCall) => Answer | Promise<Answer>
}

export interface Endpoint {
  /** `orders/:id/status`. */
  readonly path: string
  readonly methods: { readonly [method: string]: Action }
}

export type Target =
  | { readonly kind: "import"; readonly resource: Resource; readonly methods: ReadonlyArray<string> }
  | { readonly kind: "collection"; readonly resource: Resource; readonly methods: ReadonlyArray<string> }
  | { readonly kind: "select"; readonly resource: Resource; readonly methods: ReadonlyArray<string> }
  | {
      readonly kind: "record" | "filled"
      readonly resource: Resource
      readonly id: number
      readonly methods: ReadonlyArray<string>
    }
  | {
      readonly kind: "nested"
      readonly resource: Resource
      readonly id: number
      readonly nested: string
      readonly methods: ReadonlyArray<string>
    }
  | {
      readonly kind: "endpoint"
      readonly endpoint: Endpoint
      readonly id: number
      readonly methods: ReadonlyArray<string>
    }

const read = ["GET", "HEAD", "OPTIONS"]
const all = ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]
export const base = "/api/v1/"

export class Targets {
  private readonly resources: ReadonlyMap<string, Resource>
  private readonly endpoints: ReadonlyMap<string, Endpoint>

  constructor(resources: ReadonlyMap<string, Resource>, endpoints: ReadonlyArray<Endpoint>) {
    this.resources = resources
    this.endpoints = new Map(endpoints.map((endpoint) => [endpoint.path, endpoint]))
  }

  find(path: string): Target | undefined {
    if (!path.startsWith(base)) return undefined
    const plain = path
      .slice(base.length)
      .replace(/\/$/, "")
      .replace(/\.json$/, "")
    const [first, second, third, ...more] = plain.split("/") as [string, string?, string?, ...Array<string>]
    if (more.length > 0) return undefined
    const id = second === undefined ? undefined : idOf(second)
    const endpoint = this.endpoints.get(
      id === undefined ? plain : [first, ":id", ...(third === undefined ? [] : [third])].join("/")
    )
    if (endpoint !== undefined) {
      const methods = Object.keys(endpoint.methods)
      return {
        kind: "endpoint",
        endpoint,
        id: id ?? 0,
        methods: [
          ...methods.flatMap((method) =>
            method === "GET" ? ["GET", "HEAD"] : method === "PUT" ? ["PUT", "PATCH"] : [method]
          ),
          "OPTIONS"
        ]
      }
    }
    const resource = this.resources.get(first)
    if (resource === undefined) return undefined
    const { readOnly = false } = resource
    if (second === undefined)
      return { kind: "collection", resource, methods: readOnly ? read : ["GET", "HEAD", "POST", "OPTIONS"] }
    if (second === "select_many" && third === undefined) return { kind: "select", resource, methods: read }
    if (second === "importMany" && third === undefined && !readOnly)
      return { kind: "import", resource, methods: ["POST", "OPTIONS"] }
    if (id === undefined) return undefined
    if (third === undefined) return { kind: "record", resource, id, methods: readOnly ? read : all }
    if (third === "filled") return { kind: "filled", resource, id, methods: read }
    return Object.hasOwn(resource.nested, third)
      ? { kind: "nested", resource, id, nested: third, methods: read }
      : undefined
  }
}
