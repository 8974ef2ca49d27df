/** `POST /oauth/token`: the checks that every grant shares, in their order, then the grant. Source:
 *  authorization section 8.1. */
import type { Request, Response } from "../../../runtime/http.ts"
import { mapMaybePromise } from "../../shared/maybe-promise.ts"
import { authenticate, type Authenticated } from "../client/clients.ts"
import type { DpopVerifier } from "./dpop.ts"
import { authorizationCode } from "./grants/authorization-code.ts"
import { clientCredentials } from "./grants/client-credentials.ts"
import type { Body, Grant } from "./grants/grant.ts"
import { jwtBearer } from "./grants/jwt-bearer.ts"
import { refreshToken } from "./grants/refresh-token.ts"
import { tokenExchange } from "./grants/token-exchange.ts"
import { secretHeaders } from "./introspect.ts"
import { isProblem, type Problem, problemOf, quoted } from "../problems.ts"
import { bearerGrant, exchangeGrant } from "../records.ts"
import type { AuthServices } from "../services.ts"
import type { Settings } from "../settings.ts"
import { isWireFault, readForm, type Form } from "../wire.ts"

interface GrantEntry {
  readonly run: Grant
  readonly enabled: (settings: Settings) => boolean
  /** What switches it on. */
  readonly variable?: string
  readonly publicClients: (settings: Settings) => boolean
}

const always = () => true
const never = () => false

export const grants: Readonly<Record<string, GrantEntry>> = {
  authorization_code: { run: authorizationCode, enabled: always, publicClients: always },
  refresh_token: { run: refreshToken, enabled: always, publicClients: always },
  client_credentials: {
    run: clientCredentials,
    enabled: (settings) => settings.clientCredentials.enabled,
    variable: "SERVICE_CLIENT_CREDENTIALS_ENABLED",
    publicClients: never
  },
  [exchangeGrant]: {
    run: tokenExchange,
    enabled: (settings) => settings.tokenExchange.enabled,
    variable: "SERVICE_TOKEN_EXCHANGE_ENABLED",
    publicClients: never
  },
  [bearerGrant]: {
    run: jwtBearer,
    enabled: (settings) => settings.xaa.enabled,
    variable: "SERVICE_XAA_ENABLED",
    publicClients: (settings) => settings.xaa.allowPublicClients
  }
}

export const token = (
  services: AuthServices,
  proofs: DpopVerifier,
  request: Request
): Response | Problem | Promise<Response | Problem> => {
  const proof = request.headers.get("dpop")
  return mapMaybePromise(granted(services, proofs, request, proof), (answer) =>
    answered(services, proofs, proof, answer)
  )
}

const answered = (
  services: AuthServices,
  proofs: DpopVerifier,
  proof: string | undefined,
  answer: Body | Problem
): Response | Problem | Promise<Problem> => {
  const { settings, books } = services
  const nonce =
    proof !== undefined && settings.dpop.enabled && settings.dpop.requireNonce ? proofs.nonce() : undefined
  if (isProblem(answer)) {
    // A proof that was spent on this stays spent.
    const problem =
      answer._tag === "use_dpop_nonce" || nonce === undefined ? answer : { ...answer, dpopNonce: nonce }
    return proof === undefined ? problem : books.store.flushed().then(() => problem)
  }
  return {
    status: 200,
    headers: nonce === undefined ? secretHeaders : [...secretHeaders, ["DPoP-Nonce", nonce]],
    body: JSON.stringify(answer)
  }
}

const granted = (
  services: AuthServices,
  proofs: DpopVerifier,
  request: Request,
  proof: string | undefined
): Body | Problem | Promise<Body | Problem> => {
  const { settings } = services
  const form = readForm(request.headers.get("content-type"), request.query, request.body)
  if (isWireFault(form)) return problemOf("invalid_request", form.detail)
  const grantType = form.get("grant_type")
  if (grantType === undefined) return problemOf("invalid_request", "grant_type is missing")
  const grant = Object.hasOwn(grants, grantType) ? grants[grantType] : undefined
  if (grant === undefined)
    return problemOf("unsupported_grant_type", `the grant type ${quoted(grantType)} is not supported`)
  if (!grant.enabled(settings))
    return problemOf("unsupported_grant_type", `the grant type is switched off by ${grant.variable}`)
  return mapMaybePromise(
    authenticate(services, request.headers.get("authorization"), form, request.client),
    (caller) =>
      isProblem(caller) ? caller : run(services, proofs, request, proof, form, grantType, grant, caller)
  )
}

const run = (
  services: AuthServices,
  proofs: DpopVerifier,
  request: Request,
  proof: string | undefined,
  form: Form,
  grantType: string,
  grant: GrantEntry,
  caller: Authenticated
): Problem | Promise<Body | Problem> => {
  const { settings } = services
  const { client, confidential } = caller
  if (!confidential && !grant.publicClients(settings))
    return problemOf("unauthorized_client", "this grant wants a confidential client")
  if (!client.grantTypes.includes(grantType))
    return problemOf("unauthorized_client", "the client is not registered for this grant")
  const jkt = proofs.check(proof, request.method, `${settings.issuer}/oauth/token`)
  if (isProblem(jkt)) return jkt
  return grant.run({ services, form, client, jkt, ip: request.client, traceId: request.traceId })
}
