/** `POST /oauth/token`: the checks that every grant shares, in the order of the specification, then the
 *  grant. Nothing is spent before the last of them has passed.
 *  Source: docs/spec/authorization.md, section 8.1. */
import { chainLater, flatMapLater, type Later, type Request, type Response } from "../../../runtime/http.ts"
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
  /** Environment variable that switches the grant on; absent where it is always on. */
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

/** A token request with the parts that have been read so far. */
interface TokenRequest {
  readonly services: AuthServices
  readonly proofs: DpopVerifier
  readonly request: Request
  readonly form: Form
  readonly grantType: string
  readonly grant: GrantEntry
}

type Check = (request: TokenRequest, caller: Authenticated) => Problem | undefined

const grantIsEnabled = ({ grant, services: { settings } }: TokenRequest): Problem | undefined =>
  grant.enabled(settings)
    ? undefined
    : problemOf("unsupported_grant_type", `the grant type is switched off by ${grant.variable}`)

const confidentialClientWhereWanted: Check = ({ grant, services }, { confidential }) =>
  confidential || grant.publicClients(services.settings)
    ? undefined
    : problemOf("unauthorized_client", "this grant wants a confidential client")

const clientIsRegisteredForGrant: Check = ({ grantType }, { client }) =>
  client.grantTypes.includes(grantType)
    ? undefined
    : problemOf("unauthorized_client", "the client is not registered for this grant")

/** Checked once the client is authenticated, top to bottom; the first refusal is the answer. The DPoP proof
 *  comes after them, because checking it spends it. */
const clientChecks: ReadonlyArray<Check> = [confidentialClientWhereWanted, clientIsRegisteredForGrant]

const grantOf = (grantType: string): GrantEntry | undefined =>
  Object.hasOwn(grants, grantType) ? grants[grantType] : undefined

const readTokenRequest = (
  services: AuthServices,
  proofs: DpopVerifier,
  request: Request
): TokenRequest | Problem => {
  const form = readForm(request.headers.get("content-type"), request.query, request.body)
  if (isWireFault(form)) return problemOf("invalid_request", form.detail)
  const grantType = form.get("grant_type")
  if (grantType === undefined) return problemOf("invalid_request", "grant_type is missing")
  const grant = grantOf(grantType)
  if (grant === undefined)
    return problemOf("unsupported_grant_type", `the grant type ${quoted(grantType)} is not supported`)
  return { services, proofs, request, form, grantType, grant }
}

export const token = (
  services: AuthServices,
  proofs: DpopVerifier,
  request: Request
): Later<Response | Problem> =>
  chainLater(granted(services, proofs, request), (result) => answered(services, proofs, request, result))

const granted = (services: AuthServices, proofs: DpopVerifier, request: Request): Later<Body | Problem> => {
  const tokenRequest = readTokenRequest(services, proofs, request)
  if (isProblem(tokenRequest)) return tokenRequest
  const disabled = grantIsEnabled(tokenRequest)
  if (disabled !== undefined) return disabled
  return flatMapLater(
    authenticate(services, request.headers.get("authorization"), tokenRequest.form, request.client),
    (caller) => (isProblem(caller) ? caller : runGrant(tokenRequest, caller))
  )
}

const runGrant = (tokenRequest: TokenRequest, caller: Authenticated): Later<Body | Problem> => {
  for (const check of clientChecks) {
    const problem = check(tokenRequest, caller)
    if (problem !== undefined) return problem
  }
  const { services, proofs, request, form, grant } = tokenRequest
  const { client } = caller
  const tokenUrl = `${services.settings.issuer}/oauth/token`
  const jkt = proofs.check(request.headers.get("dpop"), request.method, tokenUrl)
  if (isProblem(jkt)) return jkt
  return grant.run({ services, form, client, jkt, ip: request.client, traceId: request.traceId })
}

/** Words the result; a caller that sent a proof gets a fresh nonce where nonces are required. */
const answered = (
  { settings: { dpop }, books }: AuthServices,
  proofs: DpopVerifier,
  request: Request,
  result: Body | Problem
): Response | Problem | Promise<Problem> => {
  const sentProof = request.headers.get("dpop") !== undefined
  const dpopNonce = sentProof && dpop.enabled && dpop.requireNonce ? proofs.nonce() : undefined
  if (!isProblem(result))
    return {
      status: 200,
      headers: dpopNonce === undefined ? secretHeaders : [...secretHeaders, ["DPoP-Nonce", dpopNonce]],
      body: JSON.stringify(result)
    }
  const problem =
    result._tag === "use_dpop_nonce" || dpopNonce === undefined ? result : { ...result, dpopNonce }
  // The proof stays spent even if the process crashes now.
  return sentProof ? books.store.flushed().then(() => problem) : problem
}
