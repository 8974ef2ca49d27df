/** The input and output of every grant. A grant runs after the common checks of the token endpoint, and
 *  returns a success body, or a Problem that has spent nothing except what the grant's own section allows.
 *  Source: docs/spec/authorization.md, section 8.1. */
import type { Later } from "../../../../runtime/http.ts"
import { isProblem, type Problem, problemOf } from "../../problems.ts"
import { Consents, type Client, type Resource } from "../../records.ts"
import { catalogHas, inCatalogOrder, readScope, refusedScope, resourceOf, within } from "../resources.ts"
import type { AuthServices } from "../../services.ts"
import type { OwnToken } from "../tokens.ts"
import type { Form } from "../../wire.ts"

export interface GrantCall {
  readonly services: AuthServices
  readonly form: Form
  readonly client: Client
  /** Thumbprint of the key whose possession was proved. */
  readonly jkt: string | undefined
  readonly ip: string
  readonly traceId: string
}

/** A token exchange whose parameters passed steps 1 to 7, for both kinds of target. */
export interface Exchange {
  readonly call: GrantCall
  readonly subject: OwnToken
  readonly actor: OwnToken | undefined
  readonly target: Resource | undefined
  readonly scopes: ReadonlyArray<string>
}

export type Body = Readonly<Record<string, unknown>>
export type Grant = (call: GrantCall) => Later<Body | Problem>

export const accessTokenType = "urn:ietf:params:oauth:token-type:access_token"
export const invalidGrant = (words: string): Problem => problemOf("invalid_grant", words)

/** Returns the one requested resource, or null when the request names none. */
export const requestedResource = ({ services, form }: GrantCall): Resource | null | Problem => {
  const values = form.all("resource")
  if (values.length === 0) return null
  if (values.length > 1) return problemOf("invalid_target", "only one resource can be asked for")
  return resourceOf(services, values[0]!) ?? problemOf("invalid_target", "the resource is not known")
}

/** Returns the scopes for a request under a user's grant: the requested part of `granted`, limited to what
 *  the client and the catalog allow today. */
export const narrowed = (
  call: GrantCall,
  granted: ReadonlyArray<string>,
  resource: Resource | undefined
): ReadonlyArray<string> | Problem => {
  const { services, client } = call
  const asked = readScope(call.form.get("scope"))
  if (isProblem(asked)) return asked
  const outside = asked?.find(
    (scope) => !granted.includes(scope) || (client.scopes.length > 0 && !client.scopes.includes(scope))
  )
  if (outside !== undefined) return refusedScope(outside)
  const left = (asked ?? granted).filter(
    (scope) =>
      (client.scopes.length === 0 || client.scopes.includes(scope)) && catalogHas(services, resource, scope)
  )
  return left.length === 0 && granted.length > 0
    ? problemOf("invalid_scope", "no scope is left")
    : inCatalogOrder(resource, left)
}

export const consentCovers = (
  { books }: AuthServices,
  consentId: string,
  scopes: ReadonlyArray<string>
): boolean => {
  const consent = books.get(Consents, [consentId])
  return consent !== undefined && consent.revokedMs === null && within(scopes, consent.scopes)
}
