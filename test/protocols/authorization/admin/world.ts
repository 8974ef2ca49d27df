/** Registration and the admin API over a memory store and a clock in hand; requests as values. The ports are
 *  scripted: liveness is the plain reading upwards that the rows promise (section 18.4), without the refresh
 *  families, which `families` stands for. */
import { Effect } from "effect"
import { expect } from "vitest"
import type { Request, Response } from "../../../../runtime/http.ts"
import { ActorSystem } from "../../../../runtime/registry.ts"
import { RouteTable } from "../../../../runtime/transport/route-table.ts"
import { openMemory } from "../../../../storage/memory.ts"
import { randomToken, sealer } from "../../../../storage/seal.ts"
import { committed, type Store } from "../../../../storage/store.ts"
import type { AdminPorts } from "../../../../protocols/authorization/admin/call.ts"
import { adminRoutes } from "../../../../protocols/authorization/admin/routes.ts"
import { Audit } from "../../../../protocols/authorization/audit.ts"
import type { AuthContext } from "../../../../protocols/authorization/auth-context.ts"
import { CachedTables } from "../../../../protocols/authorization/cached-tables.ts"
import { isProblem, problemResponse, refusedBy } from "../../../../protocols/authorization/problems.ts"
import {
  AuditEvents,
  BrokerGrants,
  Clients,
  ConsentKeys,
  Consents,
  Issuances,
  Resources,
  SigningKeys,
  Users,
  type AuditEvent,
  type BrokerGrant,
  type ConsentGrant,
  type Issuance
} from "../../../../protocols/authorization/records.ts"
import { register, type RegisterPorts } from "../../../../protocols/authorization/client/register.ts"
import {
  isLocalIssuer,
  settingsOf,
  type SettingsInput
} from "../../../../protocols/authorization/settings.ts"
import { answerOf } from "../../../answer.ts"

export const adminKey = "an-admin-key-of-enough-length"

export interface Asked {
  readonly body?: unknown
  readonly key?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
  readonly type?: string
  readonly client?: string
}

export interface Answered {
  readonly status: number
  readonly body: any
  readonly text: string
  readonly header: (name: string) => string | undefined
}

const bytesOf = (body: unknown): Uint8Array => {
  if (body === undefined) return new Uint8Array(0)
  if (body instanceof Uint8Array) return body
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body))
}

export class World {
  nowMs = Date.UTC(2026, 8, 1, 10)
  readonly store: Store
  readonly books: CachedTables
  readonly authority: AuthContext
  readonly families = new Set<string>()
  readonly upstream: Array<BrokerGrant> = []
  readonly forgotten: Array<string> = []
  readonly failures = new Map<string, number>()
  readonly said: Array<string> = []
  private readonly table: RouteTable
  private readonly register: ReturnType<typeof register>

  constructor(
    overrides: SettingsInput = {},
    ports: Partial<AdminPorts> & RegisterPorts = {},
    store: Store = openMemory()
  ) {
    this.store = store
    this.books = new CachedTables(store, () => this.nowMs)
    const settings = settingsOf({
      adminApiKey: adminKey,
      clientSecretPepper: "a pepper of some length",
      ...overrides
    })
    this.authority = {
      settings,
      books: this.books,
      actors: new ActorSystem({ store, nowMs: () => this.nowMs }),
      seal: sealer(new Uint8Array(32)),
      audit: new Audit(this.books),
      nowMs: () => this.nowMs,
      newToken: randomToken,
      local: isLocalIssuer(settings.issuer),
      lookup: async () => [],
      log: () => {}
    }
    const full: AdminPorts = {
      version: "1.2.3",
      startedMs: this.nowMs - 5_000,
      subsystems: () => ({ store: "ok", keys: "ok" }),
      isLive: (row) => this.isLive(row),
      isFamilyLive: (id) => this.families.has(id),
      live: {
        ofClient: (id) =>
          Issuances.range(store, { limit: 1_000 }).some(
            ({ value }) => value.clientId === id && this.isLive(value)
          )
      },
      hashPassword: (password) => Effect.succeed(`hashed:${password.length}`),
      rotateKey: async (algorithm = "ES256", also) => {
        const key = { kid: `kid-${this.said.length}`, alg: algorithm }
        this.said.push(key.kid)
        await committed(store, [
          SigningKeys.put([key.kid], {
            kid: key.kid,
            algorithm,
            privateKey: new Uint8Array(8),
            publicJwk: { kty: "EC" },
            status: "active",
            createdMs: this.nowMs,
            activatedMs: this.nowMs,
            retiredMs: null
          }),
          ...also(key)
        ])
        return key
      },
      withdrawKey: async (kid, also) => {
        if (!this.said.includes(kid)) return undefined
        const withdrawn = { kid, successor: "next" }
        await committed(store, also(withdrawn))
        return withdrawn
      },
      idpKeys: {
        refresh: () => Effect.succeed(2),
        fetchedMs: () => undefined,
        forget: (id) => {
          this.forgotten.push(id)
        }
      },
      revokeUpstream: (grant) => {
        this.upstream.push(grant)
      },
      adminFailures: {
        retryAfterMs: (ip) => ((this.failures.get(ip) ?? 0) >= 10 ? 60_000 : 0),
        count: (ip) => {
          const failures = (this.failures.get(ip) ?? 0) + 1
          this.failures.set(ip, failures)
          return failures >= 10
        }
      },
      ...ports
    }
    this.table = new RouteTable([
      {
        name: "authorization",
        prefixes: ["/"],
        routes: adminRoutes(this.authority, full),
        refused: refusedBy(settings)
      }
    ])
    this.register = register(this.authority, ports)
  }

  private isLive(row: Issuance): boolean {
    const { books } = this
    const user = row.userId === "" ? undefined : books.get(Users, [row.userId])
    const client = books.get(Clients, [row.clientId])
    if (
      row.revokedMs !== null ||
      row.expiresMs <= this.nowMs ||
      client?.status !== "active" ||
      client.issuedMs !== row.clientIssuedMs
    )
      return false
    if (row.userId !== "" && (user?.status !== "active" || user.epoch !== row.userEpoch)) return false
    if (row.consentId !== "" && books.get(Consents, [row.consentId])?.revokedMs !== null) return false
    if (row.resourceId !== "" && books.get(Resources, [row.resourceId]) === undefined) return false
    const parent = row.parentJti === "" ? undefined : Issuances.get(this.store, [row.parentJti])
    return row.parentJti === "" || (parent !== undefined && this.isLive({ ...parent, expiresMs: Infinity }))
  }

  private requestOf(
    method: string,
    target: string,
    { body, key = adminKey, headers = {}, type, client = "127.0.0.1" }: Asked
  ): Request {
    const headerMap = new Map(Object.entries(headers))
    const [path = "", query = ""] = target.split("?")
    if (key !== "") headerMap.set("authorization", `Bearer ${key}`)
    if (body !== undefined) headerMap.set("content-type", type ?? "application/json")
    const bytes = bytesOf(body)
    return {
      method,
      path,
      query,
      params: {},
      headers: { get: (name) => headerMap.get(name), entries: () => headerMap.entries() },
      client,
      scheme: "http",
      traceId: "0".repeat(32),
      body: bytes,
      stream: (async function* () {})(),
      signal: new AbortController().signal,
      onAborted: () => {}
    }
  }

  private answered(response: Response): Answered {
    const text = typeof response.body === "string" ? response.body : ""
    this.said.push(text)
    return {
      status: response.status,
      text,
      body: text === "" ? undefined : JSON.parse(text),
      header: (name) => response.headers?.find(([header]) => header.toLowerCase() === name.toLowerCase())?.[1]
    }
  }

  async ask(method: string, target: string, asked: Asked = {}): Promise<Answered> {
    const request = this.requestOf(method, target, asked)
    const { route, params, allow } = this.table.match(method, request.path)
    return this.answered(
      route === undefined
        ? refusedBy(this.authority.settings)(allow === undefined ? 404 : 405, request, allow)
        : await answerOf(route.handle({ ...request, params }))
    )
  }

  async join(body: unknown, asked: Asked = {}): Promise<Answered> {
    const request = this.requestOf("POST", "/oauth/register", { key: "", ...asked, body })
    const outcome = await this.register(request)
    return this.answered(
      isProblem(outcome) ? problemResponse(outcome, request, this.authority.settings) : outcome
    )
  }

  /** A 2xx body, or the test fails. */
  async did(method: string, target: string, body?: unknown, asked: Asked = {}): Promise<any> {
    const answer = await this.ask(method, target, { ...asked, ...(body === undefined ? {} : { body }) })
    expect(answer.status, `${method} ${target}: ${answer.text}`).toBeLessThan(300)
    return answer.body
  }

  /** A refusal in full: every member of section 20, and its code and status. */
  async refused(
    method: string,
    target: string,
    body: unknown,
    status: number,
    error: string,
    naming = ""
  ): Promise<Answered> {
    const before = this.rows()
    const answer = await this.ask(method, target, body === undefined ? {} : { body })
    expect([answer.status, answer.body.error], answer.text).toEqual([status, error])
    expect(answer.body.error_description).toContain(naming)
    expect(answer.header("Content-Type")).toBe("application/problem+json")
    expect(this.rows(), "nothing changed").toEqual(before)
    return answer
  }

  private rows(): ReadonlyArray<string> {
    const tables = [
      "clients",
      "resources",
      "users",
      "user-emails",
      "providers",
      "idps",
      "policies",
      "mappings",
      "mapping-keys",
      "consents",
      "consent-keys",
      "issuances",
      "settings",
      "unique-names",
      "audit",
      "idempotency"
    ]
    return tables.flatMap((name) =>
      this.store
        .range(`authorization-${name}`, { limit: 1_000 })
        .map(({ key, value }) => `${name} ${key.join("/")} ${Buffer.from(value).toString("hex")}`)
    )
  }

  audits(): ReadonlyArray<AuditEvent> {
    return AuditEvents.range(this.store, { limit: 1_000 }).map(({ value }) => value)
  }

  get lastAudit(): AuditEvent {
    return this.audits().at(-1)!
  }

  async client(overrides: Readonly<Record<string, unknown>> = {}): Promise<any> {
    return this.did("POST", "/admin/clients", {
      client_name: "Backend",
      grant_types: ["client_credentials"],
      ...overrides
    })
  }

  async resource(overrides: Readonly<Record<string, unknown>> = {}): Promise<any> {
    return this.did("POST", "/admin/resources", {
      slug: "files",
      uri: "https://mcp.example.com/mcp",
      scopes: [{ name: "files:read" }],
      ...overrides
    })
  }

  async provider(overrides: Readonly<Record<string, unknown>> = {}): Promise<any> {
    return this.did("POST", "/admin/broker-providers", {
      slug: "github",
      protocol: "oauth",
      config_data: {
        client_id: "us",
        client_secret: "upstream-secret",
        authorize_url: "https://up.example/a",
        token_url: "https://up.example/t"
      },
      ...overrides
    })
  }

  async user(overrides: Readonly<Record<string, unknown>> = {}): Promise<any> {
    return this.did("POST", "/admin/users", { email: "Ann@Example.com", name: "Ann", ...overrides })
  }

  async issuance(overrides: Partial<Issuance> & { readonly clientId: string }): Promise<Issuance> {
    const jti = this.books.id()
    const user = overrides.userId === undefined ? undefined : this.books.get(Users, [overrides.userId])
    const row: Issuance = {
      jti,
      grantType: "authorization_code",
      sub: overrides.userId ?? overrides.clientId,
      userId: "",
      userEpoch: user?.epoch ?? 0,
      clientIssuedMs: this.books.get(Clients, [overrides.clientId])?.issuedMs ?? 0,
      consentClientId: "",
      consentId: "",
      resourceId: "",
      audience: "https://mcp.example.com/mcp",
      scopes: ["files:read"],
      backend: "mint",
      parentJti: "",
      generation: 0,
      familyId: "",
      idpId: "",
      jkt: "",
      agentId: "",
      agentChain: [],
      revocable: true,
      issuedMs: this.nowMs,
      expiresMs: this.nowMs + 900_000,
      revokedMs: null,
      revokedReason: "",
      ...overrides
    }
    await this.books.write([Issuances.put([jti], row)])
    return row
  }

  async consent(userId: string, clientId: string, resourceId: string): Promise<ConsentGrant> {
    const id = this.books.id()
    const grant: ConsentGrant = {
      id,
      userId,
      clientId,
      clientIssuedMs: this.nowMs,
      resourceId,
      scopes: ["files:read"],
      revokedMs: null,
      createdMs: this.nowMs,
      updatedMs: this.nowMs
    }
    await this.books.write([
      Consents.put([id], grant),
      ConsentKeys.put([userId, clientId, resourceId], { id })
    ])
    return grant
  }

  async brokerGrant(userId: string, providerId: string): Promise<BrokerGrant> {
    const grant: BrokerGrant = {
      id: this.books.id(),
      userId,
      providerId,
      scopesGranted: ["repo"],
      credential: Buffer.from("sealed-credential"),
      version: 1,
      revokedMs: null,
      createdMs: this.nowMs,
      updatedMs: this.nowMs
    }
    await this.books.write([BrokerGrants.put([userId, providerId], grant)])
    return grant
  }
}
