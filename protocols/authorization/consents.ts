/** Consents: which scopes a user has allowed a client at a resource, how a consent is widened, and how a
 *  missing one is requested.
 *  Source: docs/spec/authorization.md, sections 2.4, 7.6, 8.7 (step 9) and 12.6. */
import type { Write } from "../../storage/store.ts"
import type { AuthContext } from "./auth-context.ts"
import { consentRequired, type Problem } from "./problems.ts"
import { ConsentKeys, Consents, Prompts, type Client, type ConsentGrant, type Resource } from "./records.ts"

const promptMs = 3_600_000

export const liveConsent = (
  { books }: AuthContext,
  userId: string,
  clientId: string,
  resourceId: string
): ConsentGrant | undefined => {
  const key = ConsentKeys.get(books.store, [userId, clientId, resourceId])
  const consent = key === undefined ? undefined : books.get(Consents, [key.id])
  return consent?.revokedMs === null ? consent : undefined
}

/** Unites the scopes of the existing consent with those allowed now. A consent for an earlier client of the
 *  same id does not count. */
export const allowing = (
  authority: AuthContext,
  userId: string,
  client: Client,
  resourceId: string,
  scopes: ReadonlyArray<string>
): { readonly consent: ConsentGrant; readonly rows: ReadonlyArray<Write> } => {
  const { books, nowMs } = authority
  const before = liveConsent(authority, userId, client.clientId, resourceId)
  const atMs = nowMs()
  const existing = before?.clientIssuedMs === client.issuedMs ? before : undefined
  const consent: ConsentGrant =
    existing === undefined
      ? {
          id: books.id(),
          userId,
          clientId: client.clientId,
          clientIssuedMs: client.issuedMs,
          resourceId,
          scopes,
          revokedMs: null,
          createdMs: atMs,
          updatedMs: atMs
        }
      : { ...existing, scopes: [...new Set([...existing.scopes, ...scopes])], updatedMs: atMs }
  return {
    consent,
    rows: [
      Consents.put([consent.id], consent, existing === undefined ? "absent" : Consents.unchanged(existing)),
      ConsentKeys.put([userId, client.clientId, resourceId], { id: consent.id })
    ]
  }
}

/** Answers that the user's consent is required, with the URL where they can give it, and stores the prompt
 *  that the page will show. The prompt is durable before the answer is sent. */
export const consentWanted = async (
  authority: AuthContext,
  consent: ConsentGrant | undefined,
  userId: string,
  clientId: string,
  resource: Resource,
  scopes: ReadonlyArray<string>
): Promise<Problem> => {
  const { settings, books, nowMs } = authority
  const missing = scopes.filter((scope) => consent === undefined || !consent.scopes.includes(scope))
  const expiresMs = nowMs() + promptMs
  await books.write(
    books.expiring(
      Prompts,
      [userId, clientId, resource.id],
      { userId, clientId, resourceId: resource.id, scopes, createdMs: nowMs(), expiresMs },
      expiresMs
    )
  )
  return consentRequired(
    consent === undefined
      ? "the user has not consented"
      : "the consent of the user does not cover the scopes",
    {
      consentUrl: `${settings.issuer}/authorize?resource=${encodeURIComponent(resource.slug)}&scope=${missing.map(encodeURIComponent).join("%20")}`,
      cause: consent === undefined ? "consent_missing" : "scope_insufficient"
    }
  )
}
