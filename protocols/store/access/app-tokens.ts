/** The store's port to an authorization server, and a small durable one of its own behind it, whose opaque
 *  tokens are stored as hashes.
 *  Source: docs/spec/store.md, sections 3.2, 3.3. */
import { Schema } from "effect"
import { committed, table, type Store } from "../../../storage/store.ts"
import type { Scope } from "./scopes.ts"

/** Meaning of a valid token. `subject` is the user for whom it acts, as the authorization server names them;
 *  undefined when it acts for the app itself. */
export interface Verified {
  readonly appId: string
  readonly subject: string | undefined
  readonly scopes: ReadonlyArray<string>
}

/** The request that a token came with: a proof of possession is bound to its method and address. */
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

/** The secret of an app, which is in this answer and nowhere else. */
export interface AppSecret {
  readonly secret: string
}

/** Each call throws or rejects with `authorizationUnreachable` of problems.ts when the server cannot be
 *  asked. */
export interface AppTokens {
  /** Returns undefined for a token that is unknown, cut, expired, revoked, of another resource or without its
   *  proof. Synchronous where it can be. It is called at each request: what it may cache (at most 5 s for
   *  revocation) is its own matter. */
  verify(token: string, use: TokenUse): Verified | undefined | Promise<Verified | undefined>
  /** Creates the client, whose client_id is the App ID, and its secret. */
  register(app: AppRegistration): Promise<AppSecret>
  change(app: AppRegistration): Promise<void>
  /** Creates a new secret; the old one is dead when this resolves. */
  rotate(appId: string): Promise<AppSecret>
  /** Removes the client; all its tokens are revoked when this resolves. */
  remove(appId: string): Promise<void>
}

const Client = Schema.Struct({ secretHash: Schema.String })

/** Clients by [app id]. */
const Clients = table("store-app-clients", Client)

/** Tokens by [hash]. */
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

export interface OwnAppTokensParts {
  readonly store: Store
  readonly secrets: Secrets
  readonly clock: () => number
  /** The identifier of the resource that tokens must be for. */
  readonly resource: string
}

export class OwnAppTokens implements AppTokens {
  private readonly store: Store
  private readonly secrets: Secrets
  private readonly clock: () => number
  readonly resource: string

  constructor({ store, secrets, clock, resource }: OwnAppTokensParts) {
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
    const stored = Tokens.get(this.store, [this.hash(token)])
    if (
      stored === undefined ||
      stored.expiresMs <= this.clock() ||
      stored.resource !== this.resource ||
      Clients.get(this.store, [stored.appId]) === undefined
    )
      return undefined
    return { appId: stored.appId, subject: stored.subject ?? undefined, scopes: stored.scopes }
  }

  /** Issues the token that a token endpoint would return after consent. */
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
    // Hashes are random, so those after a new one are a fair sample: dead tokens are deleted as new ones
    // come.
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

  private async storeNewSecret(appId: string): Promise<AppSecret> {
    const secret = this.secrets.random()
    await committed(this.store, [
      Clients.put([appId], { secretHash: this.secrets.hash(secret, "store app secret") })
    ])
    return { secret }
  }

  register({ appId }: AppRegistration): Promise<AppSecret> {
    return this.storeNewSecret(appId)
  }

  async change(): Promise<void> {}

  rotate(appId: string): Promise<AppSecret> {
    return this.storeNewSecret(appId)
  }

  /** Removes a client. Its tokens become invalid with it, because verifying a token looks up its client. */
  async remove(appId: string): Promise<void> {
    await committed(this.store, [Clients.delete([appId])])
  }
}
