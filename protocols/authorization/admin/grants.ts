/** /admin/grants: revokes a user's consent, or their connection to an upstream. One row revokes a consent,
 *  because every token, family and code that depends on it, directly or through exchanges, reads that row.
 *  The counts in the answer are informational.
 *  Source: docs/spec/authorization.md, sections 16.7 and 16.8. */
import type { Write } from "../../../storage/store.ts"
import type { AuthContext } from "../auth-context.ts"
import {
  BrokerGrants,
  ConsentKeys,
  Consents,
  Issuances,
  Providers,
  type BrokerGrant,
  type ConsentGrant,
  type Issuance
} from "../records.ts"
import { noContent, idOf, missing, timesOf, type AdminCall, type Decision, type Outcome } from "./call.ts"
import { countedMax } from "./issuances.ts"
import { rowsOf } from "./lists.ts"

export const consentView = (grant: ConsentGrant): Readonly<Record<string, unknown>> => ({
  id: grant.id,
  user_id: grant.userId,
  client_id: grant.clientId,
  resource_id: grant.resourceId,
  scopes: grant.scopes,
  ...timesOf(grant)
})

/** Describes a broker grant without its credential. */
export const brokerGrantView = (grant: BrokerGrant): Readonly<Record<string, unknown>> => ({
  id: grant.id,
  user_id: grant.userId,
  broker_provider_id: grant.providerId,
  scopes_granted: grant.scopesGranted,
  version: grant.version,
  ...timesOf(grant)
})

export const revokedConsent = ({ books, nowMs }: AuthContext, grant: ConsentGrant): ReadonlyArray<Write> => {
  const atMs = nowMs()
  const key = [grant.userId, grant.clientId, grant.resourceId]
  return [
    Consents.put([grant.id], { ...grant, revokedMs: atMs, updatedMs: atMs }),
    ...(ConsentKeys.get(books.store, key)?.id === grant.id ? [ConsentKeys.delete(key)] : [])
  ]
}

/** Counts what a consent authorizes: its own tokens, the tokens exchanged from them at any depth, and their
 *  families. One pass in order of issue is enough, because a parent is issued before its child. */
const carriedBy = async (
  call: AdminCall,
  grant: ConsentGrant
): Promise<{ readonly issuances: number; readonly families: number }> => {
  const rows: Array<
    Pick<Issuance, "jti" | "parentJti" | "familyId"> & { readonly own: boolean; readonly live: boolean }
  > = []
  for await (const { value } of rowsOf(call, Issuances, { reverse: true })) {
    if (rows.length >= countedMax) break
    const { jti, parentJti, familyId, userId, consentClientId, resourceId } = value
    const own =
      value.consentId === grant.id ||
      (userId === grant.userId && consentClientId === grant.clientId && resourceId === grant.resourceId)
    if (own || parentJti !== "") rows.push({ jti, parentJti, familyId, own, live: call.ports.isLive(value) })
  }
  const reached = new Set<string>()
  const families = new Set<string>()
  let issuances = 0
  for (const { jti, parentJti, familyId, own, live } of rows.toReversed()) {
    if (!own && !reached.has(parentJti)) continue
    reached.add(jti)
    if (live) issuances++
    if (own && familyId !== "") families.add(familyId)
  }
  let live = 0
  for (const familyId of families) if (await call.ports.isFamilyLive(familyId)) live++
  return { issuances, families: live }
}

export const deleteConsent = async (call: AdminCall): Promise<Outcome | Decision> => {
  const { authority } = call
  const { books } = authority
  const id = idOf(call)
  const found = books.get(Consents, [id])
  if (found === undefined) return missing("consent grant")
  if (found.revokedMs !== null) return noContent
  const carried = await carriedBy(call, found)
  return () => {
    const grant = books.get(Consents, [id])
    return grant === undefined || grant.revokedMs !== null
      ? noContent
      : {
          ...noContent,
          writes: revokedConsent(authority, grant),
          audit: {
            action: "consent_grant.revoked_admin",
            clientId: grant.clientId,
            detail: {
              id,
              user_id: grant.userId,
              revoked_issuances: carried.issuances,
              revoked_families: carried.families
            }
          }
        }
  }
}

export const deleteBrokerGrant = async (call: AdminCall): Promise<Outcome | Decision> => {
  const id = idOf(call)
  let key: readonly [string, string] | undefined
  for await (const { value } of rowsOf(call, BrokerGrants))
    if (value.id === id) {
      key = [value.userId, value.providerId]
      break
    }
  return key === undefined ? missing("broker grant") : () => withoutCredential(call, id, key)
}

const withoutCredential = (
  { authority, ports }: AdminCall,
  id: string,
  key: readonly [string, string]
): Outcome => {
  const { books } = authority
  const grant = BrokerGrants.get(books.store, key)
  if (grant === undefined || grant.id !== id) return missing("broker grant")
  if (grant.revokedMs !== null) return noContent
  const atMs = authority.nowMs()
  return {
    ...noContent,
    writes: [BrokerGrants.put(key, { ...grant, credential: null, revokedMs: atMs, updatedMs: atMs })],
    audit: {
      action: "broker_grant.revoked_admin",
      detail: { id, user_id: grant.userId, broker_provider_id: grant.providerId }
    },
    after: () => ports.revokeUpstream(grant, books.get(Providers, [grant.providerId]))
  }
}
