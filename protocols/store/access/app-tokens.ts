/** The store's port to an authorization server, and a small durable one of its own behind it: opaque tokens,
 *  kept as hashes.
 *  Source: store sections 3.2, 3.3. */
import { Schema } from "effect"
import { committed, table, type Store } from "../../../storage/store.ts"
import type { Scope } from "./access.ts"

/** What a token stands for. `subject`: the user it acts for, as the authorization server names them;
 *  undefined: the app itself. */
export interface Verified {
  readonly appId: string
  readonly subject: string | undefined
  readonly scopes: ReadonlyArray<string>
}

/** How the token came: a proof of possession is bound to method and address. */
export interface TokenUse {
  readonly method: string
  readonly url: string
  readonly proof: string | undefined
}

export interface AppRegistration {
  readonly appId: string
  readonly name: string
  readonly redirectUris: ReadonlyArray<string>
  readonly scopes: ReadonlyArray<Scope>
  readonly runWithoutUser: boolean
}

/** The authorization server cannot be asked: the answer is 503, never "allow". */
export class AuthorizationUnreachable extends Error {
  constructor() {
    super("the authorization server cannot be reached")
    this.name = "AuthorizationUnreachable"
  }
}

export interface AppTokens {
  /** undefined: unknown, cut, expired, revoked, of another resource or without its proof. Synchronous where
   *  it can be. Throws or rejects AuthorizationUnreachable. Called at each request: what it may cache (at
   *  most 5 s for revocation) is its own matter. */
  verify(token: string, use: TokenUse): Verified | undefined | Promise<Verified | undefined>
  /** Makes the client (client_id = App ID) and its secret, which is in this answer and nowhere else. */
  register(app: AppRegistration): Promise<{ readonly secret: string }>
  change(app: AppRegistration): Promise<void>
  /** A new secret; the old one is dead when this resolves. */
  rotate(appId: string): Promise<{ readonly secret: string }>
  /** Removes the client; all its tokens are revoked when this resolves. */
  remove(appId: string): Promise<void>
}

const Client = Schema.Struct({ secretHash: Schema.String })

/** [app id] */
const Clients = table("store-app-clients", Client)

/** [hash] */
const Tokens = table(
  "store-app-tokens",
  Schema.Struct({
    appId: Schema.String,
    subject: Schema.NullOr(Schema.String),
    scopes: Schema.Array(Schema.String),
    resource: Schema.String,
    expiresMs: Schema.Finite
  })
)

export interface Secrets {
  readonly hash: (secret: string, purpose: string) => string
  readonly random: () => string
}

export interface NewToken {
  readonly appId: string
  readonly subject?: string
  readonly scopes: ReadonlyArray<string>
  readonly resource?: string
  readonly lifeMs?: number
}

const sweptPerToken = 8
const lifeMsDefault = 3_600_000
const prefix = "sot_"

export class OwnAppTokens implements AppTokens {
  private readonly store: Store
  private readonly secrets: Secrets
  private readonly clock: () => number
  readonly resource: string

  /** `resource`: the identifier tokens must be for. */
  constructor(store: Store, secrets: Secrets, clock: () => number, resource: string) {
    this.store = store
    this.secrets = secrets
    this.clock = clock
    this.resource = resource
  }

  private hash(token: string): string {
    return this.secrets.hash(token, "store app token")
  }

  verify(token: string): Verified | undefined {
    if (!token.startsWith(prefix)) return undefined
    const kept = Tokens.get(this.store, [this.hash(token)])
    if (
      kept === undefined ||
      kept.expiresMs <= this.clock() ||
      kept.resource !== this.resource ||
      Clients.get(this.store, [kept.appId]) === undefined
    )
      return undefined
    return { appId: kept.appId, subject: kept.subject ?? undefined, scopes: kept.scopes }
  }

  /** What a token endpoint would give out after consent. */
  async issue({
    appId,
    subject,
    scopes,
    resource = this.resource,
    lifeMs = lifeMsDefault
  }: NewToken): Promise<string> {
    const token = prefix + this.secrets.random()
    const hash = this.hash(token)
    const nowMs = this.clock()
    // Hashes are random, so those after a new one are a fair sample: dead tokens leave as new ones come.
    const dead = Tokens.range(this.store, { after: [hash], limit: sweptPerToken })
      .filter(({ value }) => value.expiresMs <= nowMs)
      .map(({ key }) => Tokens.delete(key))
    await committed(this.store, [
      Clients.check([appId], "present"),
      ...dead,
      Tokens.put([hash], { appId, subject: subject ?? null, scopes, resource, expiresMs: nowMs + lifeMs })
    ])
    return token
  }

  async revoke(token: string): Promise<void> {
    await committed(this.store, [Tokens.delete([this.hash(token)])])
  }

  private async keepSecret(appId: string): Promise<{ readonly secret: string }> {
    const secret = this.secrets.random()
    await committed(this.store, [
      Clients.put([appId], { secretHash: this.secrets.hash(secret, "store app secret") })
    ])
    return { secret }
  }

  register({ appId }: AppRegistration): Promise<{ readonly secret: string }> {
    return this.keepSecret(appId)
  }

  async change(): Promise<void> {}

  rotate(appId: string): Promise<{ readonly secret: string }> {
    return this.keepSecret(appId)
  }

  /** Its tokens are dead with it: verifying one looks for its client. */
  async remove(appId: string): Promise<void> {
    await committed(this.store, [Clients.delete([appId])])
  }
}
