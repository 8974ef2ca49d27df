/** `POST /oauth/introspect`: whether a token is active, told only to those whom it concerns. Source: authorization section 9.1; RFC 7662. */
import type { Request, Response } from "../../runtime/http.ts"
import { authenticate } from "./clients.ts"
import { authenticationFailed, Problem } from "./problems.ts"
import { resourceById } from "./resources.ts"
import type { Services } from "./services.ts"
import { ownToken } from "./tokens.ts"
import { isWireFault, readForm } from "./wire.ts"

const members = ["iss", "sub", "aud", "client_id", "scope", "token_type", "exp", "iat", "jti", "cnf", "act", "agent_id", "agent_chain"]
export const secretHeaders = [["Content-Type", "application/json"], ["Cache-Control", "no-store"], ["Pragma", "no-cache"]] as const
const inactive = "{\"active\":false}"

export const introspect = async (services: Services, request: Request): Promise<Response | Problem> => {
  const { settings, audit } = services
  if (!settings.introspection) return new Problem("not_found", "introspection is switched off")
  const form = readForm(request.headers.get("content-type"), request.query, request.body)
  if (isWireFault(form)) return new Problem("invalid_request", form.detail)
  const caller = await authenticate(services, request.headers.get("authorization"), form, request.client)
  if (caller instanceof Problem) return caller
  if (!caller.confidential) return new Problem("invalid_client", authenticationFailed)
  const token = form.get("token")
  if (token === undefined) return new Problem("invalid_request", "token is missing")
  const own = ownToken(services, token), { clientId } = caller.client
  // Last, and for every token: a stranger must not learn more than that of an invalid one.
  const concerned = own !== undefined && (own.issuance.clientId === clientId || resourceById(services, own.issuance.resourceId)?.runtimeClients.includes(clientId) === true)
  if (!concerned) return { status: 200, headers: secretHeaders, body: inactive }
  audit.counts.set("token.introspected", (audit.counts.get("token.introspected") ?? 0) + 1)
  const claims: Readonly<Record<string, unknown>> = { ...own.claims, token_type: own.issuance.jkt === "" ? "Bearer" : "DPoP" }
  return { status: 200, headers: secretHeaders, body: JSON.stringify(Object.fromEntries([["active", true], ...members.filter((name) => claims[name] !== undefined).map((name) => [name, claims[name]])])) }
}
