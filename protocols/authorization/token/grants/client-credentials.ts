/** `client_credentials`: a client acts for itself.
 *  Source: docs/spec/authorization.md, section 8.6; RFC 6749 section 4.4. */
import { isProblem, type Problem, problemOf, wordingOf } from "../../problems.ts"
import { namesOf, readScope, refusedScope, resourceByUri } from "../resources.ts"
import { issuanceRow, mint } from "../tokens.ts"
import type { Grant } from "./grant.ts"

export const clientCredentials: Grant = async ({ services, form, client, jkt, ip, traceId }) => {
  const { books, settings, audit } = services
  const denied = async (problem: Problem): Promise<Problem> => {
    await audit.now("client_credentials.denied", {
      clientId: client.clientId,
      ip,
      traceId,
      detail: { error: wordingOf(problem).error }
    })
    return problem
  }
  if (client.source !== "admin")
    return denied(problemOf("invalid_scope", "machine clients are created by an administrator"))
  if (client.scopes.length === 0) return denied(problemOf("invalid_scope", "the client holds no scopes"))
  const values = form.all("resource")
  const resource = values.length === 1 ? resourceByUri(services, values[0]!) : undefined
  if (values.length > 0 && (resource === undefined || resource.backend === "broker"))
    return denied(problemOf("invalid_target", "the resource is not known"))
  const asked = readScope(form.get("scope"))
  if (isProblem(asked)) return asked
  const catalog = resource === undefined ? undefined : namesOf(resource)
  const outside = asked?.find((scope) => !client.scopes.includes(scope) || catalog?.includes(scope) === false)
  if (outside !== undefined) return denied(refusedScope(outside))
  const scopes = asked ?? client.scopes.filter((scope) => catalog?.includes(scope) ?? true)
  if (scopes.length === 0) return denied(problemOf("invalid_scope", "no scope is left"))

  const minted = mint(services, {
    grantType: "client_credentials",
    sub: client.clientId,
    client,
    resource,
    scopes,
    lifetimeMs: settings.clientCredentials.tokenMs,
    jkt
  })
  if (isProblem(minted)) return minted
  await books.write([issuanceRow(minted.issuance)])
  audit.later("client_credentials.issued", {
    clientId: client.clientId,
    ip,
    traceId,
    detail: { jti: minted.issuance.jti }
  })
  return minted.body
}
