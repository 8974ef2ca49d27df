/** `jwt-bearer` with an ID-JAG: an enterprise's identity provider asserts a user's identity to one of our
 *  clients.
 *  Source: docs/spec/authorization.md, sections 8.8 and 13; RFC 7523,
 *  draft-ietf-oauth-identity-assertion-authz-grant. */
import type { KeyObject } from "node:crypto"
import { chainLater, type Later } from "../../../../runtime/http.ts"
import { Conflict } from "../../../../storage/store.ts"
import { canBeKey } from "../../fields.ts"
import { isProblem, type Problem, problemOf, wordingOf } from "../../problems.ts"
import {
  AssertionIds,
  bearerGrant,
  Idps,
  MappingKeys,
  Mappings,
  Policies,
  Users,
  type Idp,
  type Resource
} from "../../records.ts"
import { namesOf, readScope, resourceById, resourceOf } from "../resources.ts"
import type { AuthServices } from "../../services.ts"
import { jwtBytesMax, parseJwt, verifies } from "../signing-keys.ts"
import { issuanceRow, mint } from "../tokens.ts"
import { invalidGrant, type Body, type Grant, type GrantCall } from "./grant.ts"

const algorithms = ["ES256", "RS256", "PS256"] as const
const fetchFailed = "the issuer's keys cannot be had"
const rowsMax = 10_000
const skewSeconds = 5
const lifeSecondsMax = 3_600
const spentAfterMs = 60_000

export const jwtBearer: Grant = (call) =>
  chainLater(granted(call), async (answer) => {
    if (isProblem(answer)) {
      const { client, ip, traceId, services } = call
      await services.audit.now("jwt_bearer.denied", {
        clientId: client.clientId,
        ip,
        traceId,
        detail: {
          error: wordingOf(answer).error,
          reason: answer.description === fetchFailed ? "jwks_fetch_failed" : answer.description
        }
      })
    }
    return answer
  })

/** An assertion whose issuer is known and whose header is acceptable. */
interface Assertion {
  readonly call: GrantCall
  readonly jwt: NonNullable<ReturnType<typeof parseJwt>>
  readonly algorithm: (typeof algorithms)[number]
  readonly idp: Idp
}

const granted = (call: GrantCall): Later<Body | Problem> => {
  const { services, form } = call
  const { books } = services
  const assertion = form.get("assertion")
  if (assertion === undefined) return problemOf("invalid_request", "assertion is missing")
  const jwt = assertion.length > jwtBytesMax ? undefined : parseJwt(assertion)
  if (jwt === undefined) return invalidGrant("the assertion is not a JWT")
  const algorithm = algorithms.find((supported) => supported === jwt.header["alg"])
  if (jwt.header["typ"] !== "oauth-id-jag+jwt" || algorithm === undefined || "crit" in jwt.header)
    return invalidGrant("the assertion's header is not acceptable")
  const idp = Idps.range(books.store, { limit: rowsMax })
    .map(({ value }) => value)
    .find(({ issuer }) => issuer === jwt.claims["iss"])
  if (idp === undefined || !idp.enabled) return invalidGrant("the assertion's issuer is not trusted")
  const header = {
    alg: algorithm,
    ...(typeof jwt.header["kid"] === "string" ? { kid: jwt.header["kid"] } : {})
  }
  const key = services.idps.keyFor(idp, header)
  return chainLater(key, (there) => grantedBy({ call, jwt, algorithm, idp }, there))
}

const grantedBy = async (
  { call, jwt, algorithm, idp }: Assertion,
  key: KeyObject | undefined
): Promise<Body | Problem> => {
  const { services, form, client, jkt, ip, traceId } = call
  const { books, settings, audit } = services
  if (key === undefined)
    return invalidGrant(
      services.idps.hasKeys?.(idp.id) === false ? fetchFailed : "the issuer's key is not known"
    )
  if (!verifies(algorithm, key, jwt.signed, jwt.signature))
    return invalidGrant("the assertion's signature does not verify")
  const claims = checkedClaims(services, jwt.claims, idp, client.clientId)
  if (isProblem(claims)) return claims

  const resource = targetOf(call, jwt.claims["resource"])
  if (isProblem(resource)) return resource
  const policies = Policies.range(books.store, { limit: rowsMax })
    .map(({ value }) => value)
    .filter(
      (policy) =>
        policy.enabled &&
        policy.idpId === idp.id &&
        (policy.clientIds.length === 0 || policy.clientIds.includes(client.clientId)) &&
        (policy.resources.length === 0 ||
          (resource !== undefined &&
            policy.resources.some((value) => resourceOf(services, value)?.id === resource.id)))
    )
  if (policies.length === 0) return problemOf("access_denied", "no policy allows this")
  const subject = subjectOf(services, idp, claims.sub)
  if (isProblem(subject)) return subject

  const asked = readScope(form.get("scope"))
  const asserted = assertedScope(jwt.claims)
  if (isProblem(asked) || isProblem(asserted)) return problemOf("invalid_scope", "scope not permitted")
  const allowed = policies.some(({ scopes }) => scopes.length === 0)
    ? undefined
    : policies.flatMap(({ scopes }) => scopes)
  const bounds = [asserted, asked, allowed, resource === undefined ? undefined : namesOf(resource)]
  const scopes = client.scopes.filter((scope) =>
    bounds.every((bound) => bound === undefined || bound.includes(scope))
  )
  if (scopes.length === 0) return problemOf("invalid_scope", "scope not permitted")

  const minted = mint(services, {
    grantType: bearerGrant,
    sub: subject.sub,
    client,
    resource,
    scopes,
    lifetimeMs: settings.xaa.tokenMs,
    idpId: idp.id,
    jkt,
    ...(subject.userId === undefined ? {} : { user: { id: subject.userId, epoch: subject.epoch, authMs: 0 } })
  })
  if (isProblem(minted)) return minted
  const untilMs = claims.exp * 1_000 + spentAfterMs
  const outcome = books.commit([
    ...books.expiring(AssertionIds, [idp.id, claims.jti], { expiresMs: untilMs }, untilMs, "absent"),
    issuanceRow(minted.issuance)
  ])
  if (outcome instanceof Conflict) return invalidGrant("the assertion was used before")
  await outcome
  audit.later("jwt_bearer.issued", {
    actorId: subject.sub,
    clientId: client.clientId,
    ip,
    traceId,
    detail: { jti: minted.issuance.jti, idp: idp.id }
  })
  return minted.body
}

/** A scope that is there but names nothing, or is no text, bounds the token to nothing: only an absent one bounds
 *  nothing. */
const assertedScope = (claims: Readonly<Record<string, unknown>>): ReturnType<typeof readScope> => {
  if (!Object.hasOwn(claims, "scope")) return undefined
  const { scope } = claims
  return typeof scope === "string" ? readScope(scope) : problemOf("invalid_scope", "scope not permitted")
}

/** Returns a claim's value, or the only element when it is a list; `otherwise` for a list of any other
 *  length. */
const onlyOf = (claim: unknown, otherwise: null | undefined): unknown => {
  if (!Array.isArray(claim)) return claim
  return claim.length === 1 ? claim[0] : otherwise
}

const checkedClaims = (
  { settings, nowMs }: AuthServices,
  claims: Readonly<Record<string, unknown>>,
  idp: Idp,
  clientId: string
): { readonly sub: string; readonly jti: string; readonly exp: number } | Problem => {
  const { aud, exp, iat, nbf, sub, jti } = claims
  const now = nowMs() / 1_000
  const audience = onlyOf(aud, undefined)
  if (
    audience !== settings.issuer &&
    (audience === undefined || idp.audience === "" || audience !== idp.audience)
  )
    return invalidGrant("the assertion is for another server")
  if (typeof exp !== "number" || exp <= now) return invalidGrant("the assertion is expired")
  if (
    typeof iat !== "number" ||
    iat > now + skewSeconds ||
    iat < now - settings.xaa.maxAssertionAgeMs / 1_000
  )
    return invalidGrant("the assertion is too old, or not yet valid")
  if (nbf !== undefined && (typeof nbf !== "number" || nbf > now + skewSeconds))
    return invalidGrant("the assertion is not yet valid")
  if (exp - iat > lifeSecondsMax) return invalidGrant("the assertion lives too long")
  if (typeof sub !== "string" || sub.length > 255 || !canBeKey(sub))
    return invalidGrant("the assertion has no subject")
  if (typeof jti !== "string" || jti.length > 256 || !canBeKey(jti))
    return invalidGrant("the assertion has no jti")
  return claims["client_id"] === clientId
    ? { sub, jti, exp }
    : invalidGrant("the assertion is for another client")
}

const targetOf = ({ services, form }: GrantCall, claim: unknown): Resource | undefined | Problem => {
  const target = problemOf("invalid_target", "the resource is not acceptable")
  const requested = form.all("resource")
  const claimed = onlyOf(claim, null)
  if (requested.length > 1 || (claimed !== undefined && typeof claimed !== "string")) return target
  const ids = [requested[0], claimed]
    .filter((value): value is string => value !== undefined)
    .map((value) => resourceOf(services, value)?.id)
  if (ids.some((id) => id === undefined || id !== ids[0])) return target
  if (ids.length === 0) return services.settings.xaa.requireResource ? target : undefined
  const resource = resourceById(services, ids[0]!)
  return resource?.backend === "mint" ? resource : target
}

const subjectOf = (
  { books, settings }: AuthServices,
  idp: Idp,
  sub: string
): { readonly sub: string; readonly userId?: string; readonly epoch: number } | Problem => {
  const key = MappingKeys.get(books.store, [idp.id, sub])
  const mapping = key === undefined ? undefined : Mappings.get(books.store, [key.id])
  if (mapping === undefined)
    return settings.xaa.subjectMode === "strict"
      ? problemOf("access_denied", "the subject is not mapped")
      : { sub: `${idp.issuer}:${sub}`, epoch: 0 }
  const user = books.get(Users, [mapping.userId])
  return user?.status === "active"
    ? { sub: user.id, userId: user.id, epoch: user.epoch }
    : problemOf("access_denied", "the user is disabled")
}
