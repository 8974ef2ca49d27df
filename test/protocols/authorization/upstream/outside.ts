/** The authorization server's outward side over a memory store, a clock in hand, a scripted resolver, and
 *  local servers that count. */
import { Context, Effect } from "effect"
import { createServer, type IncomingHttpHeaders, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { RateWindow } from "../../../../actors/rate-window.ts"
import { Audit } from "../../../../protocols/authorization/audit.ts"
import type { AuthContext } from "../../../../protocols/authorization/auth-context.ts"
import { CachedTables } from "../../../../protocols/authorization/cached-tables.ts"
import { AuditEvents } from "../../../../protocols/authorization/records.ts"
import { settingsOf, type SettingsInput } from "../../../../protocols/authorization/settings.ts"
import type { Fetched, FetchFault } from "../../../../protocols/authorization/upstream/safe-fetch.ts"
import { effectOf, type Later, type Request, type Response, type Route } from "../../../../runtime/http.ts"
import { ActorSystem } from "../../../../runtime/registry.ts"
import { openMemory } from "../../../../storage/memory.ts"
import { randomToken, sealer } from "../../../../storage/seal.ts"
import type { Store } from "../../../../storage/store.ts"
import { answerOf } from "../../../answer.ts"

export { heldStore, turned } from "../../../storage/held-commits.ts"

export interface Heard {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export interface Said {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array | object
  /** Never ends. */
  readonly hangs?: boolean
}

/** A server elsewhere, which answers what the test says and counts what reaches it. */
export class Upstream {
  connections = 0
  readonly heard: Array<Heard> = []
  private readonly server: Server

  private constructor(server: Server) {
    this.server = server
  }

  static async open(answer: (heard: Heard) => Said | Promise<Said>): Promise<Upstream> {
    const server = createServer()
    const upstream = new Upstream(server)
    server.on("connection", () => {
      upstream.connections++
    })
    server.on("request", async (request, response) => {
      const chunks: Array<Buffer> = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const heard = {
        method: request.method!,
        path: request.url!,
        headers: request.headers,
        body: Buffer.concat(chunks).toString()
      }
      upstream.heard.push(heard)
      const { status = 200, headers = {}, body = "", hangs = false } = await answer(heard)
      const bytes = typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body)
      response.writeHead(status, { "Content-Type": "application/json", ...headers })
      response.flushHeaders()
      if (hangs) response.write(bytes)
      else response.end(bytes)
    })
    // The unspecified address, so that every loopback form would reach it.
    await new Promise<void>((resolve) =>
      server.once("error", () => server.listen(0, "0.0.0.0", resolve)).listen(0, "::", resolve)
    )
    return upstream
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port
  }

  at(path: string, host = "127.0.0.1"): string {
    return `http://${host}:${this.port}${path}`
  }

  form(index: number): URLSearchParams {
    return new URLSearchParams(this.heard[index]!.body)
  }

  close(): Promise<void> {
    this.server.closeAllConnections()
    return new Promise((resolve) => this.server.close(() => resolve()))
  }
}

export class World {
  nowMs = Date.UTC(2026, 0, 31, 12)
  readonly store: Store
  readonly authority: AuthContext
  readonly lookups: Array<string> = []
  readonly logged: Array<string> = []

  constructor(
    settings: SettingsInput = {},
    addresses: (host: string, call: number) => ReadonlyArray<string> = () => ["127.0.0.1"],
    store: Store = openMemory()
  ) {
    this.store = store
    const nowMs = (): number => this.nowMs
    const books = new CachedTables(store, nowMs)
    const actors = new ActorSystem({ store, nowMs })
    actors.host(RateWindow, Context.empty())
    this.authority = {
      settings: settingsOf(settings),
      books,
      actors,
      seal: sealer(new Uint8Array(32)),
      audit: new Audit(books),
      nowMs,
      newToken: randomToken,
      local: (settings.issuer ?? "http://localhost").startsWith("http://localhost"),
      lookup: async (host) => {
        this.lookups.push(host)
        return addresses(host, this.lookups.length).map((address) => ({
          address,
          family: address.includes(":") ? 6 : 4
        }))
      },
      log: (_level, message, fields) => {
        this.logged.push(`${message} ${JSON.stringify(fields)}`)
      }
    }
  }

  async audited(): Promise<ReadonlyArray<string>> {
    await this.authority.audit.settle()
    return AuditEvents.range(this.store, { limit: 1_000 }).map(({ value }) => value.action)
  }
}

export const requestOf = ({
  method = "GET",
  path = "/",
  query = "",
  params = {},
  headers = {}
}: Partial<Pick<Request, "method" | "path" | "query" | "params">> & {
  readonly headers?: Readonly<Record<string, string>>
}): Request => ({
  method,
  path,
  query,
  params,
  headers: { get: (name) => headers[name], entries: () => Object.entries(headers) },
  client: "192.0.2.7",
  scheme: "http",
  traceId: "0".repeat(32),
  body: new Uint8Array(0),
  stream: (async function* () {})(),
  signal: new AbortController().signal,
  onAborted: () => {}
})

export const routed = async (
  routes: ReadonlyArray<Route>,
  method: string,
  path: string,
  headers: Readonly<Record<string, string>> = {}
): Promise<Response> => {
  const [bare = "", query = ""] = path.split("?", 2) as [string, string?]
  const parts = bare.split("/")
  for (const route of routes) {
    const pattern = route.path.split("/")
    if (
      route.method !== method ||
      pattern.length !== parts.length ||
      !pattern.every((part, index) => part.startsWith(":") || part === parts[index])
    )
      continue
    const params = Object.fromEntries(
      pattern.flatMap((part, index) =>
        part.startsWith(":") ? [[part.slice(1), decodeURIComponent(parts[index]!)]] : []
      )
    )
    return answerOf(route.handle(requestOf({ method, path: bare, query, params, headers })))
  }
  throw new Error(`no route ${method} ${path}`)
}

export const header = (response: Response, name: string): string | undefined =>
  response.headers?.find(([header]) => header.toLowerCase() === name.toLowerCase())?.[1]

export const problemOf = (response: Response): any => JSON.parse(response.body as string)

/** Waits for what a service answers now or later. */
export const resolved = <A>(later: Later<A>): Promise<A> => Effect.runPromise(effectOf<A>(later))

/** The outcome of a fetch, its fault included. */
export const outcomeOf = (fetching: Effect.Effect<Fetched, FetchFault>): Promise<Fetched | FetchFault> =>
  Effect.runPromise(
    Effect.match(fetching, {
      onFailure: (fault): Fetched | FetchFault => fault,
      onSuccess: (fetched): Fetched | FetchFault => fetched
    })
  )
