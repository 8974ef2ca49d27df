/** The metadata documents: authorization server metadata, protected resource metadata and the JWKS.
 *  Source: docs/spec/authorization.md, section 4; RFC 8414, RFC 9728, RFC 7517. */
import { createHash } from "node:crypto"
import type { Request, Response } from "../../runtime/http.ts"
import { type Problem, problemOf } from "./problems.ts"
import { authMethods, Clients, grantTypes, type Resource } from "./records.ts"
import type { AuthServices } from "./services.ts"
import type { Settings } from "./settings.ts"

const refBytesMax = 1_024
const agentsMax = 1_000
const clientsScanned = 100_000

export const grantsOffered = ({ clientCredentials, tokenExchange, xaa }: Settings): ReadonlyArray<string> =>
  grantTypes.filter(
    (_, at) => [true, true, clientCredentials.enabled, tokenExchange.enabled, xaa.enabled][at]
  )

export const serverMetadata = ({ settings, books }: AuthServices) => ({
  issuer: settings.issuer,
  authorization_endpoint: `${settings.issuer}/oauth/authorize`,
  token_endpoint: `${settings.issuer}/oauth/token`,
  registration_endpoint: `${settings.issuer}/oauth/register`,
  revocation_endpoint: `${settings.issuer}/oauth/revoke`,
  ...(settings.introspection ? { introspection_endpoint: `${settings.issuer}/oauth/introspect` } : {}),
  jwks_uri: `${settings.issuer}/.well-known/jwks.json`,
  response_types_supported: ["code"],
  response_modes_supported: ["query"],
  grant_types_supported: grantsOffered(settings),
  token_endpoint_auth_methods_supported: authMethods,
  revocation_endpoint_auth_methods_supported: authMethods,
  ...(settings.introspection ? { introspection_endpoint_auth_methods_supported: authMethods.slice(1) } : {}),
  code_challenge_methods_supported: ["S256"],
  scopes_supported: [
    ...new Set(books.resources().flatMap(({ scopes }) => scopes.map(({ name }) => name)))
  ].sort(),
  resource_indicators_supported: true,
  ...(settings.clientDocuments.enabled ? { client_id_metadata_document_supported: true } : {}),
  authorization_response_iss_parameter_supported: true,
  ...(settings.dpop.enabled ? { dpop_signing_alg_values_supported: ["ES256", "RS256", "PS256"] } : {}),
  ...(settings.xaa.enabled
    ? { authorization_grant_profiles_supported: ["urn:ietf:params:oauth:grant-profile:id-jag"] }
    : {}),
  authplane_agent_identity_supported: true,
  ...(settings.xaa.enabled ? { identity_assertion_supported: true } : {})
})

/** `ref` is the rest of the path, still percent-encoded; undefined when the path ends before it. */
export const resourceMetadata = ({ settings, books }: AuthServices, ref: string | undefined): unknown => {
  const resource =
    ref === undefined ? ofOrigin(settings, books.resources()) : referred(settings, books.resources(), ref)
  return resource === undefined
    ? undefined
    : {
        resource: resource.uri,
        authorization_servers: [settings.issuer],
        scopes_supported: resource.scopes.map(({ name }) => name)
      }
}

const ofOrigin = ({ issuer }: Settings, resources: ReadonlyArray<Resource>): Resource | undefined => {
  const { origin } = new URL(issuer)
  return resources.find(({ uri }) => uri === origin) ?? resources.find(({ uri }) => uri === `${origin}/`)
}

const referred = (
  { issuer }: Settings,
  resources: ReadonlyArray<Resource>,
  encoded: string
): Resource | undefined => {
  if (encoded.length > refBytesMax) return undefined
  let ref: string
  try {
    ref = decodeURIComponent(encoded)
  } catch {
    return undefined
  }
  const byPath = resources.filter(
    ({ uri }) => uri !== "" && /^[^:]+:\/\/[^/?#]+(.*)$/.exec(uri)?.[1] === `/${ref}`
  )
  if (byPath.length === 1) return byPath[0]
  if (byPath.length > 1) {
    const ours = byPath.filter(({ uri }) => new URL(uri).origin === new URL(issuer).origin)
    return ours.length === 1 ? ours[0] : undefined
  }
  return resources.find(({ slug, uri }) => slug === ref && uri !== "")
}

export const jwks = ({ keys, settings, books }: AuthServices) => ({
  keys: keys.jwks,
  ...(settings.agentsInJwks
    ? {
        agents: Clients.range(books.store, { limit: clientsScanned })
          .map(({ value }) => value)
          .filter(({ agent, status }) => agent && status === "active")
          .slice(0, agentsMax)
          .map(({ clientId, clientName, agentDescription }) => ({
            client_id: clientId,
            client_name: clientName,
            ...(agentDescription === "" ? {} : { description: agentDescription })
          }))
      }
    : {})
})

/** Answers 200 with an ETag, or 304 when the caller already has this version. */
export const cacheable = (request: Request, value: unknown, crossOrigin: boolean): Response | Problem => {
  if (value === undefined) return problemOf("not_found", "there is no such resource")
  const body = JSON.stringify(value)
  const tag = `"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`
  const headers = [
    ["Cache-Control", "public, max-age=300"],
    ["ETag", tag],
    ...(crossOrigin ? [["Access-Control-Allow-Origin", "*"] as const] : [])
  ] as const
  return request.headers.get("if-none-match") === tag
    ? { status: 304, headers }
    : { status: 200, headers: [["Content-Type", "application/json"], ...headers], body }
}
