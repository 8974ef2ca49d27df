/** Whether a token, code or family is still valid. Each check reads upwards (own row, family, consent, user,
 *  client, resource, parents) and nothing is copied downwards. So revoking writes one row, there is no
 *  cascade that a crash could interrupt, and a token minted during a revocation is invalid from the start.
 *  Source: docs/spec/authorization.md, sections 16.8 and 18.4. */
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

/** Limit on the depth of exchanges of exchanges, which is how far `isLive` climbs. */
export const generationsMax = 64

export const userIs = ({ books }: AuthContext, userId: string, epoch: number): User | undefined => {
  const user = books.get(Users, [userId])
  return user !== undefined && user.status === "active" && user.epoch === epoch ? user : undefined
}

/** Returns the client of the grant, and not a later one with the same id. */
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

/** True while the authorization behind a token, code or family is valid. A suspended client keeps its
 *  authorizations. */
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

/** True when the token is active in the sense of introspection, apart from the caller's right to ask. */
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
