/** `refresh_token`: spends a token for its successor; an older one, presented again, ends the family. The
 *  family is asked twice. `Inspect` returns whom the token is for, because the checks of client, user, key,
 *  resource and scope, and the issuance row made from them, must be complete before anything is spent.
 *  `Rotate` judges the generation once more inside the family's mailbox, in the step that commits the row, so
 *  that of two uses of one token only one succeeds.
 *  Source: docs/spec/authorization.md, sections 8.4 and 8.5; RFC 6749 section 6, RFC 9700 section 4.14. */
import { refreshVerdict, type Family, type RefreshVerdict } from "../../../../actors/refresh-family.ts"
import type { AuditDetails } from "../../audit.ts"
import { stillHolds } from "../liveness.ts"
import { isProblem, type Problem, problemOf, unavailable } from "../../problems.ts"
import type { Resource } from "../../records.ts"
import { resourceById } from "../resources.ts"
import { issuanceRow, mint, type Minted } from "../tokens.ts"
import { invalidGrant, narrowed, requestedResource, type Body, type Grant, type GrantCall } from "./grant.ts"

export const reuseDescription = "the token family was revoked due to reuse detection"

/** A presented token whose MAC is valid, with its family. */
interface PresentedToken {
  readonly call: GrantCall
  readonly familyId: string
  readonly presentedGeneration: number
  readonly family: Exclude<Family, { readonly _tag: "Absent" }>
}

const unknownToken = (): Problem => invalidGrant("the refresh token is not known")

export const refreshToken: Grant = async (call) => {
  const { services, form, client } = call
  const { families, refreshTokens, settings, nowMs } = services
  const text = form.get("refresh_token")
  if (text === undefined) return problemOf("invalid_request", "refresh_token is missing")
  const token = refreshTokens.decode(text)
  if (token === undefined) return unknownToken()

  const { familyId, generation: presentedGeneration } = token
  const inspected = families.inspect(familyId)
  const family = inspected instanceof Promise ? await inspected : inspected
  if (isProblem(family)) return family
  if (family._tag === "Absent" || family.grant.clientId !== client.clientId) return unknownToken()

  const presented: PresentedToken = { call, familyId, presentedGeneration, family }
  const { refreshGraceMs: graceMs } = settings
  const verdict = refreshVerdict(family, { presentedGeneration, graceMs, nowMs: nowMs() })
  return verdict === "current" ? rotated(presented) : declined(presented, verdict)
}

const auditOf = (
  { call: { client, ip, traceId }, familyId, family }: PresentedToken,
  detail: AuditDetails["detail"] = {}
): AuditDetails => ({
  actorId: family.grant.userId,
  clientId: client.clientId,
  ip,
  traceId,
  detail: { family_id: familyId, ...detail }
})

/** Answers a token that is not the current one of its family. */
const declined = async (
  presented: PresentedToken,
  verdict: Exclude<RefreshVerdict, "current">
): Promise<Body | Problem> => {
  switch (verdict) {
    case "repeated":
      return repeated(presented)
    case "superseded":
      return superseded(presented)
    case "expired":
      return invalidGrant("the refresh token is expired")
    case "revoked":
      return invalidGrant("the refresh token was revoked")
    case "unknown":
      return unknownToken()
  }
}

const repeated = async (presented: PresentedToken): Promise<Body | Problem> => {
  const { call, familyId, presentedGeneration } = presented
  const { refreshGrace, audit } = call.services
  const asked = requestedAccess(presented)
  const answer = refreshGrace.repeat(familyId, {
    generation: presentedGeneration,
    clientId: call.client.clientId,
    jkt: call.jkt,
    scope: isProblem(asked) ? undefined : asked.scopes.join(" ")
  })
  switch (answer._tag) {
    case "Repeated":
      audit.later("token.refresh_grace", auditOf(presented))
      return answer.body
    case "Forgotten":
      return invalidGrant("the refresh token was used before")
    case "OtherScope":
      return isProblem(asked) ? asked : invalidGrant("the refresh token was used before, for another scope")
    case "Refused":
      return superseded(presented)
  }
}

const superseded = async (presented: PresentedToken): Promise<Problem> => {
  const { call, familyId, presentedGeneration, family } = presented
  const { families, audit } = call.services
  if (family._tag === "Ended") {
    audit.later("family.revoked", auditOf(presented, { reason: "reuse_of_revoked" }))
    return invalidGrant(reuseDescription)
  }
  await families.revokeReused(familyId, presentedGeneration)
  return reuseEnded(presented)
}

/** Answers a reuse that has ended the family. */
const reuseEnded = async (presented: PresentedToken): Promise<Problem> => {
  const { audit, refreshGrace } = presented.call.services
  refreshGrace.forget(presented.familyId)
  // The family has ended whether or not the audit can be written.
  await audit.now("family.revoked", auditOf(presented, { reason: "reuse_detection" })).catch(() => {})
  return invalidGrant(reuseDescription)
}

interface RequestedAccess {
  readonly resource: Resource | undefined
  readonly scopes: ReadonlyArray<string>
}

/** Returns the part of the family's access that the request asks for and may have. */
const requestedAccess = ({ call, family: { grant } }: PresentedToken): RequestedAccess | Problem => {
  const { services, client, jkt } = call
  if (!stillHolds(services, grant)) return invalidGrant("the authorization is no longer valid")
  if (client.authMethod === "none" && grant.jkt !== "" && jkt !== grant.jkt)
    return invalidGrant("the refresh token is bound to another key")
  const requested = requestedResource(call)
  if (isProblem(requested)) return requested
  if (requested !== null && requested.id !== grant.resourceId)
    return problemOf("invalid_target", "the resource is not the one that was authorized")
  const resource = resourceById(services, grant.resourceId)
  const scopes = narrowed(call, grant.scopes, resource)
  return isProblem(scopes) ? scopes : { resource, scopes }
}

/** Mints the access token that the current refresh token is good for; nothing is spent yet. */
const minted = (presented: PresentedToken): Minted | Problem => {
  const asked = requestedAccess(presented)
  if (isProblem(asked)) return asked
  const {
    call: { services, client, jkt },
    familyId,
    family: { grant }
  } = presented
  const { resource, scopes } = asked
  return mint(services, {
    grantType: "refresh_token",
    sub: grant.userId,
    client,
    resource,
    scopes,
    lifetimeMs: services.settings.registration.tokenMs,
    user: { id: grant.userId, epoch: grant.userEpoch, authMs: grant.authMs },
    consentClientId: client.clientId,
    consentId: grant.consentId,
    familyId,
    jkt
  })
}

const rotated = async (presented: PresentedToken): Promise<Body | Problem> => {
  const { call, familyId, presentedGeneration, family } = presented
  const { families, refreshGrace, refreshTokens, settings, audit, nowMs } = call.services
  const token = minted(presented)
  if (isProblem(token)) return token
  const answer = await families.ask(familyId, "Rotate", {
    presentedGeneration,
    graceMs: settings.refreshGraceMs,
    expiresMs: nowMs() + settings.registration.refreshMs,
    rows: [issuanceRow(token.issuance)]
  })
  if ("fault" in answer) return unavailable(undefined, 1, answer)
  if ("refuse" in answer) {
    if (answer.refuse._tag === "Stale") return unavailable(undefined, 1, answer)
    // A concurrent use of the same token came first; if the token is superseded, this step has ended the
    // family.
    const { verdict } = answer.refuse
    return verdict === "superseded" ? reuseEnded(presented) : declined(presented, verdict)
  }
  const body: Body = { ...token.body, refresh_token: refreshTokens.encode(familyId, presentedGeneration + 1) }
  refreshGrace.remember(familyId, {
    generation: presentedGeneration,
    clientId: call.client.clientId,
    jkt: family.grant.jkt,
    body
  })
  audit.later("token.refreshed", auditOf(presented, { jti: token.issuance.jti }))
  return body
}
