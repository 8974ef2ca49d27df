/** `POST /oauth/introspect`: says whether a token is active, to authorized callers only.
 *  Source: docs/spec/authorization.md, section 9.1; RFC 7662. */
import { mapLater, type Later, type Request, type Response } from "../../../runtime/http.ts"
import { authenticate, type Authenticated } from "../client/clients.ts"
import { authenticationFailed, isProblem, type Problem, problemOf } from "../problems.ts"
import { resourceById } from "./resources.ts"
import type { AuthServices } from "../services.ts"
import { ownToken, type OwnToken } from "./tokens.ts"
import { isWireFault, readForm, type Form } from "../wire.ts"

const members = [
  "iss",
  "sub",
  "aud",
  "client_id",
  "scope",
  "token_type",
  "exp",
  "iat",
  "jti",
  "cnf",
  "act",
  "agent_id",
  "agent_chain"
]

export const secretHeaders = [
  ["Content-Type", "application/json"],
  ["Cache-Control", "no-store"],
  ["Pragma", "no-cache"]
] as const

const inactive = '{"active":false}'

/** Response bodies by claims. The answer for a live token depends on its claims only, so it is serialised
 *  once. */
const answers = new WeakMap<OwnToken["claims"], string>()

const answerOf = ({ claims, issuance }: OwnToken): string => {
  const cached = answers.get(claims)
  if (cached !== undefined) return cached
  const said: Readonly<Record<string, unknown>> = {
    ...claims,
    token_type: issuance.jkt === "" ? "Bearer" : "DPoP"
  }
  const answer = JSON.stringify(
    Object.fromEntries([
      ["active", true],
      ...members.filter((name) => said[name] !== undefined).map((name) => [name, said[name]])
    ])
  )
  answers.set(claims, answer)
  return answer
}

export const introspect = (services: AuthServices, request: Request): Later<Response | Problem> => {
  const { settings } = services
  if (!settings.introspection) return problemOf("not_found", "introspection is switched off")
  const form = readForm(request.headers.get("content-type"), request.query, request.body)
  if (isWireFault(form)) return problemOf("invalid_request", form.detail)
  return mapLater(
    authenticate(services, request.headers.get("authorization"), form, request.client),
    (caller) => introspected(services, caller, form)
  )
}

const introspected = (
  services: AuthServices,
  caller: Authenticated | Problem,
  form: Form
): Response | Problem => {
  if (isProblem(caller)) return caller
  if (!caller.confidential) return problemOf("invalid_client", authenticationFailed)
  const token = form.get("token")
  if (token === undefined) return problemOf("invalid_request", "token is missing")
  const own = ownToken(services, token)
  const { clientId } = caller.client
  // This check is last and runs for every token, so that an unauthorized caller gets the same answer as for
  // an invalid one.
  const concerned =
    own !== undefined &&
    (own.issuance.clientId === clientId ||
      resourceById(services, own.issuance.resourceId)?.runtimeClients.includes(clientId) === true)
  if (!concerned) return { status: 200, headers: secretHeaders, body: inactive }
  const { counts } = services.audit
  counts.set("token.introspected", (counts.get("token.introspected") ?? 0) + 1)
  return { status: 200, headers: secretHeaders, body: answerOf(own) }
}
