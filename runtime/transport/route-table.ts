/** The static route table of all services, built once. It tells which route handles a request, which service
 *  words a refusal, and which methods a path has. */
import type { Route, Service, SocketRoute } from "../http.ts"

export interface Match {
  readonly service: Service
  readonly route: Route | undefined
  readonly params: Readonly<Record<string, string>>
  readonly allow: string | undefined
}

interface Pattern {
  readonly parts: ReadonlyArray<string>
  readonly service: Service
  readonly methods: Map<string, Route>
}

const noParams = {}

export class RouteTable {
  readonly sockets: ReadonlyArray<SocketRoute<any>>
  private readonly literal = new Map<string, Pattern>()
  private readonly patterns: Array<Pattern> = []
  private readonly services: ReadonlyArray<Service>

  constructor(services: ReadonlyArray<Service>) {
    this.services = services
    this.sockets = services.flatMap(({ sockets }) => sockets ?? [])
    for (const service of services)
      for (const route of service.routes) {
        const wild = route.path.includes("/:") || route.path.endsWith("*")
        let pattern = wild
          ? this.patterns.find(({ parts }) => parts.join("/") === route.path)
          : this.literal.get(route.path)
        if (pattern === undefined) {
          pattern = { parts: route.path.split("/"), service, methods: new Map() }
          if (wild) this.patterns.push(pattern)
          else this.literal.set(route.path, pattern)
        }
        if (pattern.methods.has(route.method)) throw new Error(`two routes for ${route.method} ${route.path}`)
        pattern.methods.set(route.method, route)
      }
  }

  /** Finds the route of a request. HEAD uses the route of GET; an unmatched path belongs to the service with
   *  the longest matching prefix, otherwise to the first service. */
  match(method: string, path: string): Match {
    const literal = this.literal.get(path)
    if (literal !== undefined) return this.found(literal, method, noParams)
    const parts = path.split("/")
    for (const pattern of this.patterns) {
      const params = bind(pattern.parts, parts)
      if (params !== undefined) return this.found(pattern, method, params)
    }
    return { service: this.serviceOf(path), route: undefined, params: noParams, allow: undefined }
  }

  private found(
    { methods, service }: Pattern,
    method: string,
    params: Readonly<Record<string, string>>
  ): Match {
    const route = methods.get(method) ?? (method === "HEAD" ? methods.get("GET") : undefined)
    return { service, route, params, allow: route === undefined ? [...methods.keys()].join(", ") : undefined }
  }

  serviceOf(path: string): Service {
    let best = this.services[0]!
    let length = -1
    for (const service of this.services)
      for (const prefix of service.prefixes) {
        if (path.startsWith(prefix) && prefix.length > length) {
          best = service
          length = prefix.length
        }
      }
    return best
  }
}

const bind = (
  pattern: ReadonlyArray<string>,
  parts: ReadonlyArray<string>
): Record<string, string> | undefined => {
  const rest = pattern.at(-1) === "*"
  if (rest ? parts.length < pattern.length : parts.length !== pattern.length) return undefined
  const params: Record<string, string> = {}
  for (let i = 0; i < pattern.length - (rest ? 1 : 0); i++) {
    const want = pattern[i]!
    const have = parts[i]!
    if (want.startsWith(":")) {
      if (have === "") return undefined
      try {
        params[want.slice(1)] = decodeURIComponent(have)
      } catch {
        return undefined
      }
    } else if (want !== have) return undefined
  }
  if (rest) params["*"] = parts.slice(pattern.length - 1).join("/")
  return params
}
