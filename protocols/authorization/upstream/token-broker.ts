/** The upstream credentials of users, and the tokens vended from them. Guarantee: for each user and provider
 *  one refresh is in flight, and a rotated refresh token is durable before the access token that came with it
 *  is answered.
 *  Source: docs/spec/authorization.md, section 12.5, steps 7 to 9. */
import { Effect } from "effect"
import { createPrivateKey } from "node:crypto"
import { SignJWT } from "jose"
import type { Later } from "../../../runtime/http.ts"
import { Flights } from "../../shared/flights.ts"
import type { AuthContext } from "../auth-context.ts"
import { consentRequired, isProblem, type Problem, unavailable } from "../problems.ts"
import { asClient, oauthConfig, secretOf, type Environment } from "./providers.ts"
import { BrokerGrants, type BrokerGrant, type Provider } from "../records.ts"
import { FetchFault, type Outbound, type SafeFetch } from "./safe-fetch.ts"
import {
  isRefusal,
  isSpent,
  openCredential,
  readTokenAnswer,
  sealCredential,
  type Credential,
  type TokenAnswer,
  type TokenRefusal
} from "./upstream-tokens.ts"

export interface UpstreamToken {
  readonly accessToken: string
  /** Remaining lifetime in whole seconds; undefined when unknown. */
  readonly expiresIn: number | undefined
}

export const upstreamBodyBytesMax = 262_144
export const upstreamTimeoutMs = 10_000
const lifeLeftMsMin = 60_000
const attemptsMax = 3
const assertionSeconds = 300
const serviceTokensMax = 1_000

export class UpstreamTokenBroker {
  private readonly authority: AuthContext
  private readonly fetcher: SafeFetch
  private readonly environment: Environment
  /** A refresh goes on without those who wait for it, because it spends a refresh token whose successor must be
   *  stored. */
  private readonly refreshing = new Flights<UpstreamToken | Problem>({ withLastWaiter: false })
  private readonly minting = new Flights<UpstreamToken | Problem>({ withLastWaiter: true })
  private readonly serviceTokens = new Map<string, Credential>()

  constructor(authority: AuthContext, fetcher: SafeFetch, environment: Environment = process.env) {
    this.authority = authority
    this.fetcher = fetcher
    this.environment = environment
  }

  /** Returns the live grant of a user at a provider, with its opened credential. */
  grant(
    userId: string,
    providerId: string
  ): { readonly row: BrokerGrant; readonly credential: Credential } | undefined {
    const row = BrokerGrants.get(this.authority.books.store, [userId, providerId])
    const credential =
      row === undefined ? undefined : openCredential(this.authority.seal, { userId, providerId }, row)
    return row === undefined || credential === undefined ? undefined : { row, credential }
  }

  /** Checks bounds D and E, which only `oauth` providers have; it is repeated after minting. */
  bound(userId: string, provider: Provider, upstreamScopes: ReadonlyArray<string>): Problem | undefined {
    if (provider.protocol !== "oauth") return undefined
    const granted = this.grant(userId, provider.id)?.row.scopesGranted
    if (granted === undefined) return this.missing(provider)
    return upstreamScopes.every((scope) => granted.includes(scope))
      ? undefined
      : this.consentRequired(
          provider,
          "scope_insufficient",
          `the user's connection to ${provider.slug} does not cover the scope`
        )
  }

  /** Returns an upstream token that is valid for at least one more minute, if the upstream lets tokens be
   *  refreshed. `scopes` is for service accounts, which request a token for exactly these scopes. */
  upstreamToken(
    user: { readonly id: string },
    provider: Provider,
    nowMs: number,
    scopes: ReadonlyArray<string> = []
  ): Later<UpstreamToken | Problem> {
    switch (provider.protocol) {
      case "api_key":
        return this.apiKey(provider)
      case "service_account":
        return this.serviceToken(provider, scopes, nowMs)
      case "oauth": {
        const granted = this.grant(user.id, provider.id)
        if (granted === undefined) return this.missing(provider)
        return isFresh(granted.credential, nowMs)
          ? vended(granted.credential, nowMs)
          : this.refreshing.join(`${user.id}/${provider.id}`, () => this.refreshed(user.id, provider))
      }
    }
  }

  private refreshed(userId: string, provider: Provider): Effect.Effect<UpstreamToken | Problem> {
    return Effect.gen({ self: this }, function* () {
      const { books, seal, audit, nowMs } = this.authority
      const { tokenUrl, tokenAuth, clientId, format } = oauthConfig(provider)
      // A second attempt is needed only when the user reconnected or disconnected while the upstream answered.
      for (let attempt = 0; attempt < attemptsMax; attempt++) {
        const granted = this.grant(userId, provider.id)
        if (granted === undefined) return this.missing(provider)
        const { row, credential } = granted
        if (isFresh(credential, nowMs())) return vended(credential, nowMs())
        if (credential.refreshToken === undefined) {
          if (credential.expiresMs! > nowMs()) return vended(credential, nowMs())
          if (yield* Effect.promise(() => this.revoked(row, "expired"))) return this.missing(provider)
          continue
        }
        const secret = secretOf(provider, seal, this.environment)
        if (secret === undefined) return this.unset(provider)
        const answer = yield* this.ask(
          asClient(tokenUrl, tokenAuth, clientId, secret, {
            grant_type: "refresh_token",
            refresh_token: credential.refreshToken
          }),
          format,
          row.scopesGranted
        )
        if (answer instanceof FetchFault) return this.unreachable(provider, answer.reason)
        if (isRefusal(answer)) {
          if (!isSpent(answer)) return this.unreachable(provider, "refused")
          if (yield* Effect.promise(() => this.revoked(row, "upstream"))) return this.missing(provider)
          continue
        }
        const renewed = {
          ...answer.credential,
          refreshToken: answer.credential.refreshToken ?? credential.refreshToken
        }
        const next: BrokerGrant = {
          ...row,
          credential: sealCredential(seal, { userId, providerId: provider.id }, renewed),
          scopesGranted: answer.scopes ?? row.scopesGranted,
          version: row.version + 1,
          updatedMs: nowMs()
        }
        const stored = books.commit([
          BrokerGrants.put([userId, provider.id], next, BrokerGrants.unchanged(row))
        ])
        if (!(stored instanceof Promise)) continue
        yield* Effect.promise(() => stored)
        audit.later("upstream.token.refreshed", { actorId: userId, detail: { provider: provider.slug } })
        return vended(renewed, nowMs())
      }
      return this.unreachable(provider, "contention")
    })
  }

  /** Revokes a grant and erases its credential; resolves to false when the row has changed since it was
   *  read. */
  async revoked(
    row: BrokerGrant,
    reason: string,
    action = "broker_grant.revoked",
    ip?: string
  ): Promise<boolean> {
    const { books, audit, nowMs } = this.authority
    const ended: BrokerGrant = {
      ...row,
      credential: null,
      scopesGranted: [],
      version: row.version + 1,
      revokedMs: nowMs(),
      updatedMs: nowMs()
    }
    const outcome = books.commit([
      BrokerGrants.put([row.userId, row.providerId], ended, BrokerGrants.unchanged(row)),
      audit.event(action, { actorId: row.userId, ip, detail: { provider: row.providerId, reason } })
    ])
    if (!(outcome instanceof Promise)) return false
    await outcome
    return true
  }

  /** Asks the upstream to revoke the credential without waiting for the result, because the grant is already
   *  revoked here. `row` still holds its credential. */
  revokeUpstream(row: BrokerGrant, provider: Provider): void {
    const { revokeUrl, tokenAuth, clientId } = oauthConfig(provider)
    const { local, seal } = this.authority
    const credential = openCredential(seal, row, row)
    if (provider.protocol !== "oauth" || revokeUrl === undefined || credential === undefined) return
    const { accessToken, refreshToken } = credential
    const form =
      refreshToken === undefined
        ? { token: accessToken, token_type_hint: "access_token" }
        : { token: refreshToken, token_type_hint: "refresh_token" }
    Effect.runFork(
      Effect.ignore(
        this.fetcher.fetch({
          ...asClient(revokeUrl, tokenAuth, clientId, secretOf(provider, seal, this.environment), form),
          bodyBytesMax: upstreamBodyBytesMax,
          timeoutMs: upstreamTimeoutMs,
          allowPrivateAddresses: local,
          allowHttp: local
        })
      )
    )
  }

  private ask(
    outbound: Pick<Outbound, "url" | "form" | "headers">,
    format: "standard" | "slack",
    asked: ReadonlyArray<string>
  ): Effect.Effect<TokenAnswer | TokenRefusal | FetchFault> {
    const { local, nowMs } = this.authority
    const fetching = this.fetcher.fetch({
      ...outbound,
      bodyBytesMax: upstreamBodyBytesMax,
      timeoutMs: upstreamTimeoutMs,
      allowPrivateAddresses: local,
      allowHttp: local
    })
    return Effect.match(fetching, {
      onFailure: (fault) => fault,
      onSuccess: (fetched) => readTokenAnswer(fetched, format, nowMs(), asked)
    })
  }

  private apiKey(provider: Provider): UpstreamToken | Problem {
    const accessToken = secretOf(provider, this.authority.seal, this.environment)
    return accessToken === undefined
      ? this.unset(provider)
      : { accessToken, expiresIn: provider.config["expires_in"] as number | undefined }
  }

  /** One token per provider and scope serves all users, because it belongs to the provider and not to a
   *  user. */
  private serviceToken(
    provider: Provider,
    scopes: ReadonlyArray<string>,
    nowMs: number
  ): Later<UpstreamToken | Problem> {
    // The time of the last change is part of the address, so that a changed provider does not use tokens of
    // its former configuration.
    const scope = [...scopes].sort().join(" ")
    const address = `${provider.id} ${provider.updatedMs} ${scope}`
    const cached = this.serviceTokens.get(address)
    if (cached !== undefined && isFresh(cached, nowMs)) return vended(cached, nowMs)
    return this.minting.join(address, () => this.serviceTokenOf(provider, scopes, address))
  }

  private serviceTokenOf(
    provider: Provider,
    scopes: ReadonlyArray<string>,
    address: string
  ): Effect.Effect<UpstreamToken | Problem> {
    return Effect.gen({ self: this }, function* () {
      const form = yield* Effect.promise(() => this.assertion(provider, [...scopes].sort().join(" ")))
      if (isProblem(form)) return form
      const outbound = { url: provider.config["token_url"] as string, form }
      const answer = yield* this.ask(outbound, "standard", scopes)
      if (answer instanceof FetchFault || isRefusal(answer))
        return this.unreachable(provider, answer instanceof FetchFault ? answer.reason : "refused")
      if (this.serviceTokens.size >= serviceTokensMax)
        this.serviceTokens.delete(this.serviceTokens.keys().next().value!)
      // A token without an expiry time cannot be cached.
      if (answer.credential.expiresMs !== undefined) this.serviceTokens.set(address, answer.credential)
      return vended(answer.credential, this.authority.nowMs())
    })
  }

  private async assertion(provider: Provider, scope: string): Promise<URLSearchParams | Problem> {
    const secret = secretOf(provider, this.authority.seal, this.environment)
    if (secret === undefined) return this.unset(provider)
    const { issuer, subject, audience, alg } = provider.config as Readonly<Record<string, string>>
    const now = Math.floor(this.authority.nowMs() / 1_000)
    const asked = scope === "" ? {} : { scope }
    try {
      const assertion = await new SignJWT({ ...asked })
        .setProtectedHeader({ alg: alg!, typ: "JWT" })
        .setIssuer(issuer!)
        .setSubject(subject ?? issuer!)
        .setAudience(audience!)
        .setIssuedAt(now)
        .setExpirationTime(now + assertionSeconds)
        .setJti(this.authority.books.id())
        .sign(createPrivateKey(secret))
      return new URLSearchParams({
        grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
        assertion,
        ...asked
      })
    } catch (cause) {
      return this.unreachable(provider, "private_key", cause)
    }
  }

  private missing(provider: Provider): Problem {
    return this.consentRequired(provider, "consent_missing", `the user has not connected ${provider.slug}`)
  }

  private consentRequired(
    provider: Provider,
    cause: "consent_missing" | "scope_insufficient",
    description: string
  ): Problem {
    return consentRequired(description, {
      consentUrl: `${this.authority.settings.issuer}/connect/${encodeURIComponent(provider.slug)}`,
      cause
    })
  }

  private unset(provider: Provider): Problem {
    return this.unreachable(provider, "its secret is not set")
  }

  private unreachable({ slug }: Provider, reason: string, cause?: unknown): Problem {
    const noToken = { _tag: "NoToken", provider: slug, reason, cause }
    return unavailable("the upstream is not available", 5, noToken)
  }
}

const isFresh = ({ expiresMs }: Credential, nowMs: number): boolean =>
  expiresMs === undefined || expiresMs - nowMs >= lifeLeftMsMin

const vended = ({ accessToken, expiresMs }: Credential, nowMs: number): UpstreamToken => ({
  accessToken,
  expiresIn: expiresMs === undefined ? undefined : Math.max(0, Math.floor((expiresMs - nowMs) / 1_000))
})
