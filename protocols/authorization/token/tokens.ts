/** Mints access tokens: claims and issuance row come from one description, so that no token is issued without
 *  its row.
 *  Source: docs/spec/authorization.md, sections 8.1, 8.2 and 14; RFC 9068. */
import type { AuthContext } from "../auth-context.ts"
import { isLive } from "./liveness.ts"
import { isProblem, type Problem } from "../problems.ts"
import { Issuances, type Client, type GrantType, type Issuance, type Resource } from "../records.ts"
import { audienceOf, inCatalogOrder } from "./resources.ts"
import type { AuthServices } from "../services.ts"
import type { Jwt, SigningKeyRing } from "./signing-keys.ts"

export interface Actor {
  readonly sub: string
  readonly actor_type?: string
  readonly act?: Actor
}

export interface TokenContents {
  readonly grantType: GrantType
  readonly sub: string
  readonly client: Client
  readonly resource: Resource | undefined
  /** Audience of the token, when it differs from the resource's. */
  readonly audience?: string
  readonly scopes: ReadonlyArray<string>
  readonly lifetimeMs: number
  readonly user?: {
    readonly id: string
    readonly epoch: number
    /** Time of the login in epoch ms; 0 when unknown. */
    readonly authMs: number
  }
  readonly consentClientId?: string
  readonly consentId?: string
  readonly parent?: Issuance
  readonly familyId?: string
  readonly idpId?: string
  readonly jkt?: string | undefined
  readonly act?: Actor | undefined
}

export interface Minted {
  readonly issuance: Issuance
  readonly accessToken: string
  readonly body: Readonly<Record<string, unknown>>
}

const chainMax = 8

/** Lists the actors from the originator to the current one. The chain has at most eight; the oldest are
 *  dropped. */
export const chainOf = (act: Actor | undefined): ReadonlyArray<string> => {
  const chain: Array<string> = []
  for (let at = act; at !== undefined; at = at.act) chain.unshift(at.sub)
  return chain.slice(-chainMax)
}

export const depthOf = (act: Actor | undefined): number => {
  let depth = 0
  for (let at = act; at !== undefined; at = at.act) depth++
  return depth
}

export const mint = (
  authority: AuthContext & { readonly keys: SigningKeyRing },
  minting: TokenContents
): Minted | Problem => {
  const { books, settings, keys, nowMs } = authority
  const issuedMs = nowMs()
  const { client, resource, user, parent, act, jkt } = minting
  const iat = Math.floor(issuedMs / 1_000)
  const exp = Math.max(iat + 1, iat + Math.floor(minting.lifetimeMs / 1_000))
  const jti = books.id()
  const audience = minting.audience ?? audienceOf(authority, resource)
  const scopes = inCatalogOrder(resource, minting.scopes)
  const agentChain = chainOf(act)
  const claims = {
    iss: settings.issuer,
    sub: minting.sub,
    aud: audience,
    exp,
    iat,
    jti,
    client_id: client.clientId,
    ...(scopes.length === 0 ? {} : { scope: scopes.join(" ") }),
    ...(user === undefined || user.authMs === 0 ? {} : { auth_time: Math.floor(user.authMs / 1_000) }),
    ...(jkt === undefined ? {} : { cnf: { jkt } }),
    ...(act === undefined ? {} : { act }),
    ...(client.agent ? { agent_id: client.clientId } : {}),
    ...(agentChain.length === 0 ? {} : { agent_chain: agentChain })
  }
  const accessToken = keys.sign(claims)
  if (isProblem(accessToken)) return accessToken
  const issuance: Issuance = {
    jti,
    grantType: minting.grantType,
    sub: minting.sub,
    userId: user?.id ?? "",
    userEpoch: user?.epoch ?? 0,
    clientId: client.clientId,
    clientIssuedMs: client.issuedMs,
    consentClientId: minting.consentClientId ?? "",
    consentId: minting.consentId ?? "",
    resourceId: resource?.id ?? "",
    audience,
    scopes,
    backend: "mint",
    parentJti: parent?.jti ?? "",
    generation: parent === undefined ? 0 : parent.generation + 1,
    familyId: minting.familyId ?? "",
    idpId: minting.idpId ?? "",
    jkt: jkt ?? "",
    agentId: client.agent ? client.clientId : "",
    agentChain,
    revocable: true,
    issuedMs,
    expiresMs: exp * 1_000,
    revokedMs: null,
    revokedReason: ""
  }
  return {
    issuance,
    accessToken,
    body: {
      access_token: accessToken,
      token_type: jkt === undefined ? "Bearer" : "DPoP",
      expires_in: exp - iat,
      scope: scopes.join(" ")
    }
  }
}

export const issuanceRow = (issuance: Issuance) => Issuances.put([issuance.jti], issuance, "absent")

export interface OwnToken extends Jwt {
  readonly issuance: Issuance
}

/** Returns the claims and the row of a live access token of ours; undefined for anything else. */
export const ownToken = (services: AuthServices, token: string): OwnToken | undefined => {
  const jwt = services.keys.verify(token)
  const { settings, books, nowMs } = services
  if (jwt === undefined) return undefined
  const { iss, exp, iat, jti } = jwt.claims
  if (
    iss !== settings.issuer ||
    typeof exp !== "number" ||
    exp * 1_000 <= nowMs() ||
    typeof iat !== "number" ||
    typeof jti !== "string"
  )
    return undefined
  const issuance = books.get(Issuances, [jti])
  return issuance !== undefined && isLive(services, services.families, issuance)
    ? { header: jwt.header, claims: jwt.claims, issuance }
    : undefined
}
