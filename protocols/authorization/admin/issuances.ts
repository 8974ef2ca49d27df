/** /admin/issuances and /admin/tokens: lists what was issued, and revokes it row by row. The ids are UUIDv7,
 *  so the table is in order of time.
 *  Source: docs/spec/authorization.md, sections 2.4 and 16.7. */
import { isProblem, type Problem } from "../problems.ts"
import { bearerGrant, Issuances, type Issuance } from "../records.ts"
import {
  conflict,
  noContent,
  idOf,
  missing,
  ok,
  readTime,
  timeText,
  type AdminCall,
  type Outcome
} from "./call.ts"
import { list, matching, rowsOf } from "./lists.ts"

const lookbackMs = 86_400_000

/** Number of newest rows that a count examines; with more rows the count is a lower bound. Revocation is not
 *  limited by it. */
export const countedMax = 200_000

/** Describes an issuance; empty optional fields are omitted. */
export const issuanceView = (row: Issuance): Readonly<Record<string, unknown>> => {
  const optional = {
    subject_user_id: row.userId,
    consent_client_id: row.consentClientId,
    consent_grant_id: row.consentId,
    resource_id: row.resourceId,
    parent_jti: row.parentJti,
    family_id: row.familyId,
    idp_id: row.idpId,
    dpop_jkt: row.jkt,
    agent_id: row.agentId,
    agent_chain: row.agentChain,
    revoked_reason: row.revokedReason
  }
  return {
    id: row.jti,
    jti: row.jti,
    grant_type: row.grantType,
    sub: row.sub,
    client_id: row.clientId,
    audience: row.audience,
    scopes: row.scopes,
    backend_kind: row.backend,
    ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value.length > 0)),
    revocable: row.revocable,
    issued_at: timeText(row.issuedMs),
    expires_at: timeText(row.expiresMs),
    ...(row.revokedMs === null ? {} : { revoked_at: timeText(row.revokedMs) })
  }
}

/** Lists live issuances, newest first. */
export const liveIssuances = async (
  call: AdminCall,
  matches: (row: Issuance) => boolean
): Promise<ReadonlyArray<Issuance>> => {
  const live: Array<Issuance> = []
  let seen = 0
  for await (const { value } of rowsOf(call, Issuances, { reverse: true })) {
    if (++seen > countedMax) break
    if (matches(value) && call.ports.isLive(value)) live.push(value)
  }
  return live
}

export const listIssuances = async (call: AdminCall): Promise<Outcome> => {
  const requestedSince = readTime(call, "since")
  if (isProblem(requestedSince)) return requestedSince
  const sinceMs = requestedSince ?? call.authority.nowMs() - lookbackMs
  const active = call.query.get("active") === "true"
  const matches = matching<Issuance>(call, {
    jti: (row) => row.jti,
    client_id: (row) => row.clientId,
    subject_user_id: (row) => row.userId,
    resource_id: (row) => row.resourceId,
    family_id: (row) => row.familyId
  })
  return list(call, "issuances", {
    table: Issuances,
    view: issuanceView,
    until: (row) => row.issuedMs < sinceMs,
    keep: (row) => matches(row) && (!active || call.ports.isLive(row)),
    more: (items) => ({ since: timeText(sinceMs), count: items.length })
  })
}

const issuanceOf = (call: AdminCall, param = "id"): Issuance | Problem =>
  call.authority.books.get(Issuances, [idOf(call, param)]) ?? missing(param === "id" ? "issuance" : "token")

export const getIssuance = (call: AdminCall): Outcome => {
  const row = issuanceOf(call)
  return isProblem(row) ? row : ok(issuanceView(row))
}

const revoked = ({ authority }: AdminCall, row: Issuance, action: string): Outcome =>
  row.revokedMs !== null
    ? noContent
    : {
        ...noContent,
        writes: [
          Issuances.put(
            [row.jti],
            { ...row, revokedMs: authority.nowMs(), revokedReason: "admin" },
            "present"
          )
        ],
        audit: { action, clientId: row.clientId, detail: { jti: row.jti } }
      }

/** Revokes a token, and with it every token exchanged from it, since those read their parents' rows. */
export const deleteIssuance = (call: AdminCall): Outcome => {
  const row = issuanceOf(call)
  if (isProblem(row)) return row
  if (!row.revocable) return conflict("a vended upstream token cannot be revoked here")
  return revoked(call, row, "issuance.revoked_admin")
}

const isMachine = ({ grantType }: Issuance): boolean =>
  grantType === "client_credentials" || grantType === bearerGrant

export const listTokens = (call: AdminCall): Promise<Outcome> => {
  const active = call.query.get("active") === "true"
  const matches = matching<Issuance>(call, { client_id: (row) => row.clientId })
  return list(call, "tokens", {
    table: Issuances,
    view: issuanceView,
    keep: (row) => isMachine(row) && matches(row) && (!active || call.ports.isLive(row))
  })
}

export const deleteToken = (call: AdminCall): Outcome => {
  const row = issuanceOf(call, "jti")
  if (isProblem(row)) return row
  return isMachine(row) ? revoked(call, row, "token.revoked") : missing("token")
}
