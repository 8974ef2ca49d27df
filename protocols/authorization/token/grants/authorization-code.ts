/** `authorization_code`: redeems a code once; a second presentation revokes everything issued from the first.
 *  Source: docs/spec/authorization.md, sections 7.7, 8.3 and 18.1; RFC 6749 section 4.1.3, RFC 7636 section
 *  4.6. */
import { createHash } from "node:crypto"
import { equalSecrets } from "../../../../storage/seal.ts"
import type { Write } from "../../../../storage/store.ts"
import { hashOf } from "../../auth-context.ts"
import { stillHolds } from "../liveness.ts"
import { isProblem, type Problem, problemOf, unavailable } from "../../problems.ts"
import { Codes, Issuances, type Code } from "../../records.ts"
import { resourceById } from "../resources.ts"
import type { AuthServices } from "../../services.ts"
import { issuanceRow, mint } from "../tokens.ts"
import { consentCovers, invalidGrant, narrowed, requestedResource, type Grant } from "./grant.ts"

export const failedAttemptsMax = 5

/** Number of attempts when a concurrent request changes the row. Each attempt reads it again, and what the
 *  row then says usually ends the loop. */
const looksMax = 8

const revokeIssued = async (services: AuthServices, code: Code): Promise<void> => {
  const { books, audit, families, nowMs } = services
  const rows: Array<Write> = [
    audit.event("code.replayed", {
      actorId: code.userId,
      clientId: code.clientId,
      detail: { jti: code.jti ?? undefined, family_id: code.familyId ?? undefined }
    })
  ]
  const issuance = code.jti === null ? undefined : Issuances.get(books.store, [code.jti])
  if (issuance !== undefined && issuance.revokedMs === null)
    rows.push(
      Issuances.put([issuance.jti], { ...issuance, revokedMs: nowMs(), revokedReason: "code_replay" })
    )
  if (code.familyId !== null) await families.revoke(code.familyId, "code_replay", rows)
  else await books.write(rows)
}

const missing = (parameter: string): Problem => problemOf("invalid_request", `${parameter} is missing`)

export const authorizationCode: Grant = async (call) => {
  const { services, form, client, jkt } = call
  const { books, settings, families, refreshTokens, nowMs } = services
  const presentedCode = form.get("code")
  const redirectUri = form.get("redirect_uri")
  const verifier = form.get("code_verifier")
  if (presentedCode === undefined) return missing("code")
  if (redirectUri === undefined) return missing("redirect_uri")
  if (verifier === undefined) return missing("code_verifier")
  if (!/^[A-Za-z0-9._~-]{43,128}$/.test(verifier))
    return problemOf("invalid_request", "code_verifier is malformed")
  const key = hashOf(services, presentedCode, "code")
  const challenge = createHash("sha256").update(verifier).digest("base64url")

  for (let look = 0; look < looksMax; look++) {
    const code = Codes.get(books.store, [key])
    if (code === undefined || code.clientId !== client.clientId)
      return invalidGrant("the authorization code is not known")
    if (code.usedMs !== null) {
      await revokeIssued(services, code)
      return invalidGrant("the authorization code was used before")
    }
    if (nowMs() >= code.expiresMs || code.failedAttempts >= failedAttemptsMax)
      return invalidGrant("authorization code is expired")
    if (code.redirectUri !== redirectUri || !equalSecrets(challenge, code.codeChallenge)) {
      const counted = books.commit([
        Codes.put([key], { ...code, failedAttempts: code.failedAttempts + 1 }, Codes.unchanged(code))
      ])
      if (!(counted instanceof Promise)) continue
      await counted
      return invalidGrant(
        code.redirectUri !== redirectUri
          ? "redirect_uri differs from the request"
          : "code_verifier does not match"
      )
    }
    const asked = requestedResource(call)
    if (isProblem(asked)) return asked
    if (asked !== null && asked.id !== code.resourceId)
      return problemOf("invalid_target", "the resource is not the one that was authorized")
    if (code.jkt !== null && jkt !== code.jkt)
      return problemOf("invalid_dpop_proof", "the proof is not by the key that was announced")
    if (!stillHolds(services, code) || !consentCovers(services, code.consentId, code.scopes))
      return invalidGrant("the authorization is no longer valid")
    const resource = resourceById(services, code.resourceId)
    const scopes = narrowed(call, code.scopes, resource)
    if (isProblem(scopes)) return scopes

    const refreshes = client.grantTypes.includes("refresh_token")
    const familyId = refreshes ? books.id() : ""
    const minted = mint(services, {
      grantType: "authorization_code",
      sub: code.userId,
      client,
      resource,
      scopes,
      lifetimeMs: settings.registration.tokenMs,
      user: { id: code.userId, epoch: code.userEpoch, authMs: code.authMs },
      consentClientId: client.clientId,
      consentId: code.consentId,
      familyId,
      jkt
    })
    if (isProblem(minted)) return minted
    const rows = [
      Codes.put(
        [key],
        { ...code, usedMs: nowMs(), familyId: refreshes ? familyId : null, jti: minted.issuance.jti },
        Codes.unchanged(code)
      ),
      issuanceRow(minted.issuance)
    ]
    if (refreshes) {
      const { clientId, clientIssuedMs, userId, userEpoch, resourceId, consentId, authMs } = code
      const grant = {
        clientId,
        clientIssuedMs,
        userId,
        userEpoch,
        resourceId,
        scopes,
        consentId,
        authMs,
        jkt: client.authMethod === "none" ? (jkt ?? "") : ""
      }
      const answer = await families.ask(familyId, "Open", {
        grant,
        expiresMs: nowMs() + settings.registration.refreshMs,
        absoluteMs: nowMs() + settings.refreshAbsoluteMs,
        rows
      })
      if ("refuse" in answer) continue
      if ("fault" in answer) return unavailable(undefined, 1, answer)
    } else {
      const outcome = books.commit(rows)
      if (!(outcome instanceof Promise)) continue
      await outcome
    }
    services.audit.later("token.issued", {
      actorId: code.userId,
      clientId: client.clientId,
      ip: call.ip,
      traceId: call.traceId,
      detail: { jti: minted.issuance.jti }
    })
    return refreshes ? { ...minted.body, refresh_token: refreshTokens.encode(familyId, 1) } : minted.body
  }
  return unavailable("the code could not be spent: its rows keep changing")
}
