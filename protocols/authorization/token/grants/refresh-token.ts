/** `refresh_token`: spends a token for its successor; an older one, shown again, ends the family.
 *  Source: authorization sections 8.4, 8.5; RFC 6749 6, RFC 9700 4.14. */
import { stillHolds } from "../liveness.ts"
import { isProblem, type Problem, problemOf, unavailable } from "../../problems.ts"
import { resourceById } from "../resources.ts"
import { issuanceRow, mint } from "../tokens.ts"
import { invalidGrant, narrowed, requestedResource, type Body, type Grant } from "./grant.ts"

const graceUsesMax = 20
const graceMax = 10_000
export const reuseDescription = "the token family was revoked due to reuse detection"

export const refreshToken: Grant = async (call) => {
  const { services, form, client, jkt, ip, traceId } = call
  const { families, settings, audit, nowMs } = services
  const shown = form.get("refresh_token")
  if (shown === undefined) return problemOf("invalid_request", "refresh_token is missing")
  const token = families.read(shown)
  if (token === undefined) return invalidGrant("the refresh token is not known")
  const { familyId, generation } = token
  const looked = families.look(familyId)
  const family = looked instanceof Promise ? await looked : looked
  if (isProblem(family)) return family
  const { living, ended } = family
  const grant = living?.grant ?? ended?.grant
  if (grant === undefined || grant.clientId !== client.clientId)
    return invalidGrant("the refresh token is not known")
  const about = {
    actorId: grant.userId,
    clientId: client.clientId,
    ip,
    traceId,
    detail: { family_id: familyId }
  }
  const reuse = async (): Promise<Problem> => {
    await families.reused(familyId, generation)
    families.grace.delete(familyId)
    await audit
      .now("family.revoked", { ...about, detail: { family_id: familyId, reason: "reuse_detection" } })
      .catch(() => {})
    return invalidGrant(reuseDescription)
  }
  if (living === null || families.isOver(familyId)) {
    if (generation < (living ?? ended!).generation) {
      audit.later("family.revoked", { ...about, detail: { family_id: familyId, reason: "reuse_of_revoked" } })
      return invalidGrant(reuseDescription)
    }
    return invalidGrant("the refresh token was revoked")
  }
  if (generation < living.generation) {
    const kept = families.grace.get(familyId)
    if (
      settings.refreshGraceMs > 0 &&
      generation === living.generation - 1 &&
      nowMs() < living.usedMs + settings.refreshGraceMs
    ) {
      if (kept === undefined) return invalidGrant("the refresh token was used before")
      if (
        kept.generation === generation &&
        nowMs() < kept.untilMs &&
        kept.uses < graceUsesMax &&
        kept.clientId === client.clientId &&
        (kept.jkt === "" || kept.jkt === jkt)
      ) {
        kept.uses++
        audit.later("token.refresh_grace", about)
        return kept.body
      }
    }
    return reuse()
  }
  if (generation > living.generation) return invalidGrant("the refresh token is not known")
  if (nowMs() >= living.expiresMs || nowMs() >= living.absoluteMs)
    return invalidGrant("the refresh token is expired")
  if (!stillHolds(services, grant)) return invalidGrant("the authorization is no longer valid")
  if (client.authMethod === "none" && grant.jkt !== "" && jkt !== grant.jkt)
    return invalidGrant("the refresh token is bound to another key")
  const asked = requestedResource(call)
  if (isProblem(asked)) return asked
  if (asked !== null && asked.id !== grant.resourceId)
    return problemOf("invalid_target", "the resource is not the one that was authorized")
  const resource = resourceById(services, grant.resourceId)
  const scopes = narrowed(call, grant.scopes, resource)
  if (isProblem(scopes)) return scopes

  const minted = mint(services, {
    grantType: "refresh_token",
    sub: grant.userId,
    client,
    resource,
    scopes,
    lifetimeMs: settings.registration.tokenMs,
    user: { id: grant.userId, epoch: grant.userEpoch, authMs: grant.authMs },
    consentClientId: client.clientId,
    consentId: grant.consentId,
    familyId,
    jkt
  })
  if (isProblem(minted)) return minted
  const answer = await families.ask(familyId, "Rotate", {
    generation,
    expiresMs: nowMs() + settings.registration.refreshMs,
    rows: [issuanceRow(minted.issuance)]
  })
  if ("fault" in answer) return unavailable()
  if ("refuse" in answer)
    return answer.refuse._tag === "TokenReused"
      ? reuse()
      : answer.refuse._tag === "Stale"
        ? unavailable()
        : invalidGrant("the refresh token was revoked")
  const body: Body = { ...minted.body, refresh_token: families.tokenOf(familyId, generation + 1) }
  if (settings.refreshGraceMs > 0) {
    if (families.grace.size >= graceMax) families.grace.delete(families.grace.keys().next().value!)
    families.grace.set(familyId, {
      generation,
      clientId: client.clientId,
      jkt: grant.jkt,
      body,
      untilMs: nowMs() + settings.refreshGraceMs,
      uses: 0
    })
  }
  audit.later("token.refreshed", { ...about, detail: { family_id: familyId, jti: minted.issuance.jti } })
  return body
}
