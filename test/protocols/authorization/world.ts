/** The authorization server on a real socket, over a store and a clock in hand; rows made directly, the
 *  browser played by fetch. */
import { Context, Effect } from "effect"
import {
  createHash,
  createPrivateKey,
  generateKeyPairSync,
  randomBytes,
  sign,
  type KeyObject
} from "node:crypto"
import { Lockout } from "../../../actors/lockout.ts"
import { RateWindow } from "../../../actors/rate-window.ts"
import { RefreshFamily } from "../../../actors/refresh-family.ts"
import { secretHashOf } from "../../../protocols/authorization/client/client-secrets.ts"
import {
  revocationIntentsInMemory,
  type RevocationIntents
} from "../../../protocols/authorization/token/pending-revocations.ts"
import {
  openAuthorization,
  type AuthorizationDeps,
  type OpenAuthorization
} from "../../../protocols/authorization/open.ts"
import {
  Clients,
  Consents,
  Issuances,
  Resources,
  UserEmails,
  Users,
  type Client,
  type Resource,
  type User
} from "../../../protocols/authorization/records.ts"
import { settingsOf, type SettingsInput } from "../../../protocols/authorization/settings.ts"
import { thumbprint } from "../../../protocols/authorization/token/signing-keys.ts"
import { ActorSystem } from "../../../runtime/registry.ts"
import { listenWith } from "../../../runtime/transport/listen.ts"
import type { Server } from "../../../runtime/transport/server.ts"
import { openMemory } from "../../../storage/memory.ts"
import { sealer } from "../../../storage/seal.ts"
import type { Store } from "../../../storage/store.ts"

export const password = "correct horse battery"
export const callback = "https://app.example.com/cb"

export const pkce = (verifier = randomBytes(32).toString("base64url")) => ({
  verifier,
  challenge: createHash("sha256").update(verifier).digest("base64url")
})

export const sha256 = (text: string): string => createHash("sha256").update(text).digest("base64url")

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly body: any
}

export interface Tokens {
  readonly access_token: string
  readonly refresh_token: string
  readonly token_type: string
  readonly scope: string
  readonly expires_in: number
}

export interface WorldOptions {
  readonly settings?: SettingsInput
  readonly issuerPath?: string
  /** What must know where the server is. */
  readonly settingsAt?: (issuer: string) => SettingsInput
  readonly store?: Store
  readonly revocationIntents?: RevocationIntents
  readonly parts?: object
  readonly lookup?: (
    host: string
  ) => Promise<ReadonlyArray<{ readonly address: string; readonly family: number }>>
  readonly adapter?: "uws" | "node"
  readonly nowMs?: number
  readonly bodyTimeoutMs?: number
  /** By the machine's clock, for clients that read it themselves. */
  readonly live?: boolean
  readonly log?: AuthorizationDeps["log"]
}

/** The hash of `password` with small parameters: what is tested is not how slow it is. */
let passwordHash = ""

export class World {
  nowMs: number
  readonly open: OpenAuthorization
  readonly server: Server
  readonly issuer: string
  readonly store: Store

  private constructor(
    open: OpenAuthorization,
    server: Server,
    issuer: string,
    store: Store,
    clock: { nowMs: number }
  ) {
    this.open = open
    this.server = server
    this.issuer = issuer
    this.store = store
    this.nowMs = 0
    Object.defineProperty(this, "nowMs", {
      get: () => clock.nowMs,
      set: (ms: number) => {
        clock.nowMs = ms
      }
    })
  }

  static async make(options: WorldOptions = {}): Promise<World> {
    const store = options.store ?? openMemory()
    const clock =
      options.live === true
        ? ({
            get nowMs() {
              return Date.now()
            }
          } as { nowMs: number })
        : { nowMs: options.nowMs ?? Date.UTC(2026, 10, 21, 12) }
    const port = await freePort()
    const issuer = options.settings?.issuer ?? `http://localhost:${port}${options.issuerPath ?? ""}`
    const settings = settingsOf({
      rate: { enabled: false },
      ...options.settings,
      ...options.settingsAt?.(issuer),
      issuer
    })
    const actors = new ActorSystem({ store, nowMs: () => clock.nowMs })
    actors.host(RefreshFamily, Context.empty())
    actors.host(Lockout, Context.empty())
    actors.host(RateWindow, Context.empty())
    const open = await openAuthorization({
      store,
      actors,
      seal: sealer(new Uint8Array(32)),
      settings,
      revocationIntents: options.revocationIntents ?? revocationIntentsInMemory(),
      clock: () => clock.nowMs,
      ...(options.log === undefined ? {} : { log: options.log }),
      ...(options.parts === undefined ? {} : { instead: options.parts as never }),
      ...(options.lookup === undefined ? {} : { lookup: options.lookup })
    })
    const server = await listenWith(options.adapter ?? "auto", () => {}, [open.service], {
      host: "127.0.0.1",
      port,
      ...(options.bodyTimeoutMs === undefined ? {} : { bodyTimeoutMs: options.bodyTimeoutMs })
    })
    passwordHash ||= await Effect.runPromise(open.services.passwords.hash(password))
    return new World(open, server, issuer, store, clock)
  }

  get base(): string {
    return `http://127.0.0.1:${this.server.port}`
  }

  async close(): Promise<void> {
    await this.open.close()
    await this.server.drain(100)
  }

  async resource(fields: Partial<Resource> & { readonly slug: string }): Promise<Resource> {
    const { books } = this.open.services
    const row: Resource = {
      id: books.id(),
      uri: `https://mcp.example.com/${fields.slug}`,
      backend: "mint",
      providerId: "",
      displayName: fields.slug,
      exchangeClients: [],
      runtimeClients: [],
      returnUrls: [],
      scopes: ["files:read", "files:write"].map((name) => ({ name, description: "", upstream: [] })),
      createdMs: this.nowMs,
      updatedMs: this.nowMs,
      ...fields
    }
    await books.write([Resources.put([row.id], row)])
    return row
  }

  async client(
    fields: Partial<Client> & { readonly secret?: string } = {}
  ): Promise<Client & { readonly secret: string }> {
    const { services } = this.open
    const { secret = randomBytes(32).toString("base64url"), ...rest } = fields
    const row: Client = {
      clientId: services.books.id(),
      secretHash: rest.authMethod === "none" ? null : secretHashOf(services, secret),
      previousHash: null,
      previousUntilMs: 0,
      redirectUris: [callback],
      clientName: "Example",
      authMethod: "client_secret_basic",
      grantTypes: ["authorization_code", "refresh_token"],
      responseTypes: ["code"],
      applicationType: "web",
      scopes: [],
      agent: false,
      agentDescription: "",
      status: "active",
      source: "admin",
      documentUrl: "",
      issuedMs: this.nowMs,
      updatedMs: this.nowMs,
      used: false,
      ...rest
    }
    await services.books.write([Clients.put([row.clientId], row)])
    return { ...row, secret }
  }

  async change(client: Pick<Client, "clientId">, changes: Partial<Client>): Promise<void> {
    const { books } = this.open.services
    await books.write([
      Clients.put([client.clientId], { ...books.get(Clients, [client.clientId])!, ...changes })
    ])
  }

  async user(fields: Partial<User> = {}): Promise<User> {
    const { books } = this.open.services
    const row: User = {
      id: books.id(),
      email: `u${books.id()}@example.com`,
      name: "User",
      role: "user",
      passwordHash,
      federated: null,
      status: "active",
      epoch: 0,
      lastLoginMs: null,
      createdMs: this.nowMs,
      updatedMs: this.nowMs,
      ...fields
    }
    await books.write([Users.put([row.id], row), UserEmails.put([row.email.toLowerCase()], { id: row.id })])
    return row
  }

  async changeUser(user: User, changes: Partial<User>): Promise<void> {
    const { books } = this.open.services
    await books.write([Users.put([user.id], { ...books.get(Users, [user.id])!, ...changes })])
  }

  async revokeConsent(id: string): Promise<void> {
    const { books } = this.open.services
    await books.write([Consents.put([id], { ...books.get(Consents, [id])!, revokedMs: this.nowMs })])
  }

  issuanceOf(accessToken: string) {
    return Issuances.get(this.store, [this.claimsOf(accessToken)["jti"]])!
  }

  claimsOf(token: string): any {
    return JSON.parse(Buffer.from(token.split(".")[1]!, "base64url").toString())
  }

  async call(path: string, init: RequestInit = {}): Promise<Answer> {
    const response = await fetch(`${this.base}${path}`, { redirect: "manual", ...init })
    const text = await response.text()
    let body: any
    try {
      body = JSON.parse(text)
    } catch {
      body = undefined
    }
    return { status: response.status, headers: response.headers, text, body }
  }

  post(
    path: string,
    form: Record<string, string> | URLSearchParams | ReadonlyArray<[string, string]>,
    headers: Record<string, string> = {}
  ): Promise<Answer> {
    return this.call(path, {
      method: "POST",
      headers: { "Content-Type": "application/x-www-form-urlencoded", ...headers },
      body: new URLSearchParams(form as never).toString()
    })
  }

  basic({
    clientId,
    secret
  }: {
    readonly clientId: string
    readonly secret: string
  }): Record<string, string> {
    return {
      Authorization: `Basic ${Buffer.from(`${encodeURIComponent(clientId)}:${encodeURIComponent(secret)}`).toString("base64")}`
    }
  }

  token(
    client: Client & { readonly secret: string },
    form: Record<string, string>,
    headers: Record<string, string> = {}
  ): Promise<Answer> {
    return client.authMethod === "none"
      ? this.post("/oauth/token", { client_id: client.clientId, ...form }, headers)
      : this.post("/oauth/token", form, { ...this.basic(client), ...headers })
  }

  async active(client: Client & { readonly secret: string }, token: string): Promise<boolean> {
    return (await this.post("/oauth/introspect", { token }, this.basic(client))).body.active
  }

  revoke(client: Client & { readonly secret: string }, token: string): Promise<Answer> {
    return client.authMethod === "none"
      ? this.post("/oauth/revoke", { client_id: client.clientId, token })
      : this.post("/oauth/revoke", { token }, this.basic(client))
  }

  authorizeUrl(
    client: Pick<Client, "clientId">,
    parameters: Record<string, string | undefined> = {}
  ): string {
    const query = {
      client_id: client.clientId,
      redirect_uri: callback,
      response_type: "code",
      code_challenge: pkce("v".repeat(43)).challenge,
      code_challenge_method: "S256",
      scope: "files:read",
      state: "xyz",
      ...parameters
    }
    return `/oauth/authorize?${new URLSearchParams(Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined)).toString()}`
  }

  browser(): Browser {
    return new Browser(this)
  }

  /** Through the real pages to a code. */
  async code(
    client: Client,
    user: User,
    parameters: Record<string, string | undefined> = {},
    browser = this.browser()
  ): Promise<string> {
    const answer = await browser.authorize(this.authorizeUrl(client, parameters), user)
    const code = new URL(answer.headers.get("location")!).searchParams.get("code")
    if (code === null) throw new Error(`no code: ${answer.headers.get("location")}`)
    return code
  }

  async tokens(
    client: Client & { readonly secret: string },
    user: User,
    parameters: Record<string, string | undefined> = {},
    headers: Record<string, string> = {}
  ): Promise<Tokens> {
    const code = await this.code(client, user, parameters)
    const answer = await this.token(
      client,
      {
        grant_type: "authorization_code",
        code,
        redirect_uri: parameters["redirect_uri"] ?? callback,
        code_verifier: "v".repeat(43)
      },
      headers
    )
    if (answer.status !== 200) throw new Error(answer.text)
    return answer.body
  }

  refresh(
    client: Client & { readonly secret: string },
    refreshToken: string,
    form: Record<string, string> = {},
    headers: Record<string, string> = {}
  ): Promise<Answer> {
    return this.token(client, { grant_type: "refresh_token", refresh_token: refreshToken, ...form }, headers)
  }
}

/** Cookies, forms, redirects of our own. */
export class Browser {
  readonly cookies = new Map<string, string>()
  private readonly world: World

  constructor(world: World) {
    this.world = world
  }

  async call(path: string, init: RequestInit = {}): Promise<Answer> {
    const answer = await this.world.call(path, {
      ...init,
      headers: {
        Accept: "text/html",
        ...init.headers,
        Cookie: [...this.cookies].map(([name, value]) => `${name}=${value}`).join("; ")
      }
    })
    for (const cookie of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie)!
      this.cookies.set(name!, value!)
    }
    return answer
  }

  post(path: string, form: Record<string, string>, headers: Record<string, string> = {}): Promise<Answer> {
    return this.call(path, {
      method: "POST",
      headers: { "Content-Type": "application/x-www-form-urlencoded", ...headers },
      body: new URLSearchParams(form).toString()
    })
  }

  /** Hidden fields of the page's form. */
  hidden(text: string): Record<string, string> {
    return Object.fromEntries(
      [...text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)">/g)].map(([, name, value]) => [
        name!,
        value!.replaceAll("&amp;", "&")
      ])
    )
  }

  async login(user: Pick<User, "email">, path = "/login", secret = password): Promise<Answer> {
    const page = await this.call(path)
    if (page.status !== 200) return page
    return this.post("/login", { ...this.hidden(page.text), email: user.email, password: secret })
  }

  /** A client's URL, followed to where the browser ends up. */
  async visit(url: URL, user: User, decision?: string): Promise<URL> {
    if (url.origin !== this.world.issuer) throw new Error(`not ours: ${url.origin}`)
    return new URL(
      (await this.authorize(`${url.pathname}${url.search}`, user, decision)).headers.get("location")!
    )
  }

  /** Follows our own pages: signs in and allows where asked. The last answer. */
  async authorize(path: string, user: User, decision = "allow"): Promise<Answer> {
    let answer = await this.call(path)
    for (let step = 0; step < 8; step++) {
      const location = answer.headers.get("location")
      if (location === null || !location.startsWith("/")) return answer
      if (location.startsWith("/login")) {
        answer = await this.login(user, location)
        continue
      }
      answer = await this.call(location)
      if (answer.status === 200 && location.startsWith("/consent"))
        answer = await this.post("/consent", { ...this.hidden(answer.text), decision })
    }
    return answer
  }
}

/** A DPoP key in a client's hand. */
export class ProofKey {
  readonly privateKey: KeyObject
  readonly jwk: Record<string, unknown>

  constructor() {
    const pair = generateKeyPairSync("ec", { namedCurve: "P-256" })
    this.privateKey = pair.privateKey
    this.jwk = pair.publicKey.export({ format: "jwk" }) as Record<string, unknown>
  }

  get jkt(): string {
    return thumbprint(this.jwk)
  }

  proof(world: World, claims: Record<string, unknown> = {}, header: Record<string, unknown> = {}): string {
    return jws(
      { typ: "dpop+jwt", alg: "ES256", jwk: this.jwk, ...header },
      {
        jti: randomBytes(8).toString("hex"),
        htm: "POST",
        htu: `${world.issuer}/oauth/token`,
        iat: Math.floor(world.nowMs / 1_000),
        ...claims
      },
      this.privateKey
    )
  }
}

export const jws = (header: object, claims: object, key: KeyObject | string): string => {
  const signed = [header, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .join(".")
  return `${signed}.${sign("sha256", Buffer.from(signed), { key: typeof key === "string" ? createPrivateKey(key) : key, dsaEncoding: "ieee-p1363" }).toString("base64url")}`
}

const freePort = async (): Promise<number> => {
  const { createServer } = await import("node:net")
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as { port: number }
      probe.close(() => resolve(port))
    })
  })
}
