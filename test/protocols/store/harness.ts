/** The store over storage in memory, with a clock that the test sets; requests are values, without a socket.
 *  */
import { Context } from "effect"
import { RateWindow } from "../../../actors/rate-window.ts"
import { Deliveries } from "../../../actors/webhook-delivery.ts"
import type { Area, Scope } from "../../../protocols/store/access/scopes.ts"
import type { OwnAppTokens } from "../../../protocols/store/access/app-tokens.ts"
import type { App } from "../../../protocols/store/access/apps.ts"
import { openStore, type OpenStore, type StoreOptions } from "../../../protocols/store/service.ts"
import type { Answer as HandlerAnswer, Request, Response, Service } from "../../../runtime/http.ts"
import { Exchanges } from "../../../runtime/program/telemetry/exchanges.ts"
import { ActorSystem } from "../../../runtime/registry.ts"
import { RouteTable } from "../../../runtime/transport/route-table.ts"
import { openMemory } from "../../../storage/memory.ts"
import { randomToken, sealer } from "../../../storage/seal.ts"
import type { Store } from "../../../storage/store.ts"
import { answerOf } from "../../answer.ts"

export interface Call {
  readonly method?: string
  readonly path?: string
  readonly token?: string
  readonly headers?: Readonly<Record<string, string>>
  /** An object goes as JSON, a string or bytes as they are. */
  readonly body?: unknown
  readonly type?: string
  readonly client?: string
  readonly scheme?: "http" | "https"
  readonly host?: string
}

export interface Answer {
  readonly status: number
  readonly body: any
  readonly text: string
  readonly header: (name: string) => string | undefined
}

const everyScope: ReadonlyArray<Scope> = [
  "catalog",
  "people",
  "orders",
  "custom_fields",
  "settings",
  "system",
  "import"
]

export const domain = "shop.example"

export interface LogLine {
  readonly message: string
  readonly fields: Record<string, unknown>
}

/** A body as it is sent: an object as JSON, a text or bytes as they are. */
const bytesOf = (body: unknown): Uint8Array => {
  if (body === undefined) return new Uint8Array(0)
  if (body instanceof Uint8Array) return body
  return new TextEncoder().encode(typeof body === "string" ? body : JSON.stringify(body))
}

export class StoreHarness {
  readonly store: Store
  readonly system: ActorSystem
  readonly shop: OpenStore
  nowMs = Date.UTC(2026, 10, 21, 9, 0, 0)
  token = ""
  app!: App

  /** What the store has logged. */
  readonly logged: Array<LogLine> = []

  /** The store's service as the program serves it: what fails is logged. */
  readonly service: Service

  private readonly table: RouteTable

  constructor(options: Partial<StoreOptions> = {}, store: Store = openMemory()) {
    this.store = store
    this.system = new ActorSystem({ store, nowMs: () => this.nowMs })
    this.system.host(RateWindow, Context.empty())
    const seal = sealer(new Uint8Array(32))
    this.shop = openStore({
      store,
      actors: this.system,
      clock: () => this.nowMs,
      secrets: { hash: (text, purpose) => seal.hash(text, purpose), random: randomToken },
      cipher: {
        seal: (plain, address) => seal.seal(new TextEncoder().encode(plain), "store field", address),
        open: (sealed, address) => new TextDecoder().decode(seal.open(sealed, "store field", address))
      },
      domain,
      plainLoopback: false,
      ...options
    })
    this.system.host(this.shop.delivery, Context.make(Deliveries, this.shop.webhooks))
    const exchanges = new Exchanges({
      log: (_, message, fields = {}) => this.logged.push({ message, fields }),
      countsOf: () => ({ count: () => {} })
    })
    this.service = exchanges.instrument(this.shop.service)
    this.table = new RouteTable([this.service])
  }

  static async open(options: Partial<StoreOptions> = {}, store?: Store): Promise<StoreHarness> {
    const harness = new StoreHarness(options, store)
    await harness.shop.begin()
    ;({ token: harness.token, app: harness.app } = await harness.admin(everyScope))
    return harness
  }

  /** An app with one admin token. */
  async admin(
    scopes: ReadonlyArray<Scope>,
    kind: App["kind"] = "custom"
  ): Promise<{ readonly token: string; readonly app: App; readonly tokenId: number }> {
    const { app } = await this.shop.apps.create({ name: "test", kind, scopes })
    const { token, adminToken } = await this.shop.apps.createToken(app.appId, { scopes })
    return { token, app, tokenId: adminToken.id }
  }

  /** A user with a token of the (own) authorization server. */
  async user(
    scopes: ReadonlyArray<Scope>,
    areas: ReadonlyArray<Area>,
    more: { readonly lifeMs?: number; readonly resource?: string } = {}
  ): Promise<{
    readonly userId: number
    readonly token: string
    readonly app: App
    readonly username: string
  }> {
    const { app } = await this.shop.apps.create({ name: "oauth", scopes })
    const username = `user-${Math.round(this.shop.engine.all("users").length)}`
    const userId = await this.shop.staff.add({ username, areas })
    return {
      userId,
      username,
      app,
      token: await (this.shop.tokens as OwnAppTokens).issue({
        appId: app.appId,
        subject: username,
        scopes,
        ...more
      })
    }
  }

  request({
    method = "GET",
    path = "/products",
    token = this.token,
    headers = {},
    body,
    type,
    client = "192.0.2.7",
    scheme = "https",
    host = domain
  }: Call): Request {
    const sent = new Map<string, string>([["host", host], ...Object.entries(headers)])
    if (token !== "") sent.set("x-store-auth-token", token)
    const bytes = bytesOf(body)
    if (body !== undefined && type !== "") sent.set("content-type", type ?? "application/json")
    if (bytes.length > 0) sent.set("content-length", String(bytes.length))
    const [at, query = ""] = (
      path.startsWith("/api") || path.startsWith("/store/") ? path : `/api/v1${path}`
    ).split("?") as [string, string?]
    return {
      method,
      path: at,
      query,
      params: {},
      headers: { get: (name) => sent.get(name), entries: () => sent.entries() },
      client,
      scheme,
      traceId: "0".repeat(32),
      body: bytes,
      stream: (async function* () {
        if (bytes.length > 0) yield bytes
      })(),
      signal: new AbortController().signal,
      onAborted: () => {}
    }
  }

  /** What the service returns, before anybody waits for it. */
  asked(call: Call): HandlerAnswer {
    const request = this.request(call)
    const match = this.table.match(request.method, request.path)
    const asked: Request = { ...request, params: match.params }
    return match.route === undefined
      ? this.service.refused(match.allow === undefined ? 404 : 405, asked, match.allow)
      : match.route.handle(asked)
  }

  /** Asks and waits; `signal` aborts when the client goes. */
  async call(call: Call | string, signal?: AbortSignal): Promise<Answer> {
    const response: Response = await answerOf(
      this.asked(typeof call === "string" ? { path: call } : call),
      signal
    )
    const text = typeof response.body === "string" ? response.body : ""
    return {
      status: response.status,
      text,
      body: text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : undefined,
      header: (name) =>
        response.headers?.find(([present]) => present.toLowerCase() === name.toLowerCase())?.[1]
    }
  }

  get(path: string, more: Call = {}): Promise<Answer> {
    return this.call({ ...more, path })
  }

  async post(path: string, body: unknown, more: Call = {}): Promise<Answer> {
    this.fresh()
    return this.call({ method: "POST", path, body, ...more })
  }

  async put(path: string, body: unknown, more: Call = {}): Promise<Answer> {
    this.fresh()
    return this.call({ method: "PUT", path, body, ...more })
  }

  async delete(path: string, more: Call = {}): Promise<Answer> {
    this.fresh()
    return this.call({ method: "DELETE", path, ...more })
  }

  /** A new window, so that a test is not about the rate. */
  fresh(): void {
    this.nowMs += 10_000
  }

  /** A product; its id. */
  async product(fields: Readonly<Record<string, unknown>> = {}): Promise<number> {
    const created = await this.post("/products.json", { ...minimal, ...fields })
    if (created.status !== 201) throw new Error(`${created.status} ${created.text}`)
    return created.body.id
  }
}

export const minimal = {
  item_name: "My test product",
  item_number: "",
  product_status_id: 1,
  primary_category_id: 1
}

export const codes = (answer: Answer): ReadonlyArray<string> =>
  (answer.body.errors ?? []).map(({ field, code }: { field: string; code: string }) => `${field} ${code}`)
