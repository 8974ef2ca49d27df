/** Whether something that was given still holds. Read upwards at each check (own row, family, consent, user,
 *  client, resource, parents), never copied downwards: revoking is one row, there is no cascade to be
 *  interrupted, and a token that is being made under a revocation is born dead.
 *  Source: authorization sections 16.8, 18.4. */
import { FamilyEnds } from "../../../actors/refresh-family.ts"
import type { AuthContext } from "../auth-context.ts"
import {
  Clients,
  Consents,
  Issuances,
  Users,
  type Client,
  type ConsentGrant,
  type Issuance,
  type User
} from "../records.ts"
import { resourceById } from "./resources.ts"

/** Exchanges of exchanges at most: what `isLive` climbs. */
export const generationsMax = 64

export const userIs = ({ books }: AuthContext, userId: string, epoch: number): User | undefined => {
  const user = books.get(Users, [userId])
  return user !== undefined && user.status === "active" && user.epoch === epoch ? user : undefined
}

/** The very client it was given to, not a later one of that id. */
export const clientIs = ({ books }: AuthContext, clientId: string, issuedMs: number): Client | undefined => {
  const client = books.get(Clients, [clientId])
  return client !== undefined && client.status !== "revoked" && client.issuedMs === issuedMs
    ? client
    : undefined
}

export const consentIs = ({ books }: AuthContext, consentId: string): ConsentGrant | undefined => {
  const consent = books.get(Consents, [consentId])
  return consent !== undefined && consent.revokedMs === null ? consent : undefined
}

export interface Authorization {
  readonly userId: string
  readonly userEpoch: number
  readonly clientId: string
  readonly clientIssuedMs: number
  readonly consentId: string
  readonly resourceId: string
}

/** Of codes and families too. A suspended client has not lost what it was given. */
export const stillHolds = (
  authority: AuthContext,
  { userId, userEpoch, clientId, clientIssuedMs, consentId, resourceId }: Authorization
): boolean =>
  clientIs(authority, clientId, clientIssuedMs) !== undefined &&
  (userId === "" || userIs(authority, userId, userEpoch) !== undefined) &&
  (consentId === "" || consentIs(authority, consentId) !== undefined) &&
  (resourceId === "" || resourceById(authority, resourceId) !== undefined)

export const isRevoked = (
  authority: AuthContext,
  families: { hasEnded(familyId: string): boolean },
  issuance: Issuance
): boolean => {
  let at: Issuance | undefined = issuance
  for (let climbed = 0; climbed <= generationsMax; climbed++) {
    if (
      at.revokedMs !== null ||
      (at.familyId !== "" && families.hasEnded(at.familyId)) ||
      !stillHolds(authority, at)
    )
      return true
    if (at.parentJti === "") return false
    at = authority.books.get(Issuances, [at.parentJti])
    if (at === undefined) return true
  }
  return true
}

/** Active in the sense of introspection, entitlement aside. */
export const isLive = (
  authority: AuthContext,
  families: { hasEnded(familyId: string): boolean },
  issuance: Issuance
): boolean =>
  issuance.expiresMs > authority.nowMs() &&
  !isRevoked(authority, families, issuance) &&
  authority.books.get(Clients, [issuance.clientId])?.status === "active"

export const familyHasEnded = ({ books }: AuthContext, familyId: string): boolean =>
  FamilyEnds.get(books.store, [familyId]) !== undefined
