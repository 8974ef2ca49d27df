/** Client metadata: validated in one place for open registration and for administrators; then the client's
 *  row, and its response bodies.
 *  Source: docs/spec/authorization.md, sections 2.1, 10 and 16.1; RFC 7591. */
import type { AuthContext } from "../auth-context.ts"
import { secretHashOf } from "./client-secrets.ts"
import { codePointsOf, type Fields } from "../fields.ts"
import { quoted } from "../problems.ts"
import {
  authMethods,
  bearerGrant,
  exchangeGrant,
  grantTypes,
  type Client,
  type GrantType
} from "../records.ts"
import { redirectUriFault, redirectUriLengthMax } from "../redirect-uris.ts"
import { scopeToken, type Settings } from "../settings.ts"

const redirectUrisMax = 20
const nameLengthMax = 200
const descriptionLengthMax = 255
const scopesMax = 200
const scopeLengthMax = 128

export type AuthMethod = Client["authMethod"]

export interface ClientMetadata {
  readonly clientName: string | undefined
  readonly redirectUris: ReadonlyArray<string>
  readonly authMethod: AuthMethod
  readonly grantTypes: ReadonlyArray<GrantType>
  readonly applicationType: Client["applicationType"]
  readonly agent: boolean
  /** Undefined when the metadata has none. */
  readonly agentDescription: string | undefined
}

export const metadataNames = [
  "client_name",
  "redirect_uris",
  "grant_types",
  "response_types",
  "token_endpoint_auth_method",
  "application_type",
  "agent",
  "agent_description"
] as const

/** Returns the variable that would enable a grant, or undefined when the grant is enabled. */
const switchedOffBy = (grant: GrantType, settings: Settings): string | undefined => {
  switch (grant) {
    case "client_credentials":
      return settings.clientCredentials.enabled ? undefined : "SERVICE_CLIENT_CREDENTIALS_ENABLED"
    case exchangeGrant:
      return settings.tokenExchange.enabled ? undefined : "SERVICE_TOKEN_EXCHANGE_ENABLED"
    case bearerGrant:
      return settings.xaa.enabled ? undefined : "SERVICE_XAA_ENABLED"
    default:
      return undefined
  }
}

export const readGrantTypes = (fields: Fields, settings: Settings): ReadonlyArray<GrantType> | undefined => {
  const requested = fields.strings("grant_types", { itemsMax: 20 })
  if (requested === undefined) return undefined
  if (requested.length === 0) return fields.refuse("grant_types", "must name at least one grant")
  for (const name of requested) {
    const grant = grantTypes.find((supported) => supported === name)
    if (grant === undefined)
      return fields.refuse("grant_types", `holds an unsupported grant: ${quoted(name)}`)
    const variable = switchedOffBy(grant, settings)
    if (variable !== undefined)
      return fields.refuse("grant_types", `holds ${quoted(name)}, which is off; ${variable} turns it on`)
  }
  return requested as ReadonlyArray<GrantType>
}

export const readRedirectUris = (fields: Fields): ReadonlyArray<string> | undefined => {
  const requested = fields.strings("redirect_uris", {
    itemsMax: redirectUrisMax,
    lengthMax: redirectUriLengthMax
  })
  for (const uri of requested ?? []) {
    const fault = redirectUriFault(uri)
    if (fault !== undefined) return fields.refuse("redirect_uris", `holds ${quoted(uri)}, which ${fault}`)
  }
  return requested
}

export const readClientName = (fields: Fields): string | undefined =>
  fields.text("client_name", nameLengthMax)

export const readAgentDescription = (fields: Fields): string | undefined =>
  fields.text("agent_description", descriptionLengthMax, 0)

export const readAuthMethod = (fields: Fields): AuthMethod | undefined =>
  fields.choice("token_endpoint_auth_method", authMethods)

/** Reads a list of scope tokens without duplicates; "" is an empty list. */
export const readScope = (fields: Fields, name = "scope"): ReadonlyArray<string> | undefined => {
  const text = fields.string(name, scopesMax * scopeLengthMax)
  if (text === undefined) return undefined
  const scopes = [...new Set(text.split(" ").filter((scope) => scope !== ""))]
  const wrong = scopes.find((scope) => !scopeToken.test(scope) || scope.length > scopeLengthMax)
  if (wrong !== undefined) return fields.refuse(name, `holds ${quoted(wrong)}, which is no scope`)
  return scopes.length > scopesMax ? fields.refuse(name, `holds more than ${scopesMax} scopes`) : scopes
}

/** Refuses combinations of members that contradict each other, whoever sets them; the fault is recorded in
 *  `fields`. */
export const refuseContradictions = (
  fields: Fields,
  client: Pick<Client, "redirectUris" | "authMethod" | "grantTypes">,
  settings: Settings
): void => {
  if (client.grantTypes.includes("authorization_code") && client.redirectUris.length === 0)
    fields.refuse("redirect_uris", "is required for authorization_code")
  if (client.authMethod !== "none") return
  const secret = client.grantTypes.find(
    (grant) =>
      grant === "client_credentials" ||
      grant === exchangeGrant ||
      (grant === bearerGrant && !settings.xaa.allowPublicClients)
  )
  if (secret !== undefined)
    fields.refuse("grant_types", `holds ${quoted(secret)}, which a client without a secret cannot use`)
}

/** Treats an optional text that is empty as absent. */
const withoutEmpty = (fields: Fields, name: string): boolean => fields.members[name] !== ""

/** Reads the redirect URIs last, so that the faults of other members are reported first. Faults are recorded
 *  in `fields`. */
export const readClientMetadata = (fields: Fields, settings: Settings): ClientMetadata => {
  const clientName = withoutEmpty(fields, "client_name") ? readClientName(fields) : undefined
  const authMethod =
    (withoutEmpty(fields, "token_endpoint_auth_method") ? readAuthMethod(fields) : undefined) ??
    "client_secret_basic"
  const applicationType =
    (withoutEmpty(fields, "application_type")
      ? fields.choice("application_type", ["web", "native"])
      : undefined) ?? "web"
  const grants = readGrantTypes(fields, settings) ?? ["authorization_code", "refresh_token"]
  const responseTypes = fields.strings("response_types", { itemsMax: 10 })
  if (
    responseTypes !== undefined &&
    responseTypes.join(" ") !== "code" &&
    (responseTypes.length > 0 || grants.includes("authorization_code"))
  ) {
    fields.refuse("response_types", `must be ["code"], not ${quoted(JSON.stringify(responseTypes))}`)
  }
  const agent = fields.boolean("agent") ?? false
  const agentDescription = readAgentDescription(fields)
  const redirectUris = readRedirectUris(fields) ?? []
  refuseContradictions(fields, { redirectUris, authMethod, grantTypes: grants }, settings)
  return {
    clientName,
    redirectUris,
    authMethod,
    grantTypes: grants,
    applicationType,
    agent,
    agentDescription
  }
}

export const responseTypesOf = (grants: ReadonlyArray<string>): ReadonlyArray<string> =>
  grants.includes("authorization_code") ? ["code"] : []

export const isConfidential = ({ authMethod }: Pick<Client, "authMethod">): boolean => authMethod !== "none"

export interface NewClient {
  readonly clientId: string
  readonly source: "admin" | "dcr"
  readonly scopes: ReadonlyArray<string>
}

/** Creates the client's row and its secret. The response is the only place where the secret appears. */
export const newClient = (
  authority: AuthContext,
  metadata: ClientMetadata,
  { clientId, source, scopes }: NewClient
): { readonly client: Client; readonly secret: string | undefined } => {
  const nowMs = authority.nowMs()
  const secret = isConfidential(metadata) ? authority.newToken() : undefined
  const {
    clientName = clientId,
    redirectUris,
    authMethod,
    grantTypes,
    applicationType,
    agent,
    agentDescription = ""
  } = metadata
  return {
    secret,
    client: {
      clientId,
      secretHash: secret === undefined ? null : secretHashOf(authority, secret),
      previousHash: null,
      previousUntilMs: 0,
      redirectUris,
      clientName,
      authMethod,
      grantTypes,
      responseTypes: responseTypesOf(grantTypes),
      applicationType,
      scopes,
      agent,
      agentDescription,
      status: "active",
      source,
      documentUrl: "",
      issuedMs: nowMs,
      updatedMs: nowMs,
      used: false
    }
  }
}

/** The 201 response body of section 10. */
export const registeredBody = (
  client: Client,
  secret: string | undefined
): Readonly<Record<string, unknown>> => ({
  client_id: client.clientId,
  client_id_issued_at: Math.floor(client.issuedMs / 1_000),
  ...(secret === undefined ? {} : { client_secret: secret, client_secret_expires_at: 0 }),
  client_name: client.clientName,
  redirect_uris: client.redirectUris,
  grant_types: client.grantTypes,
  response_types: client.responseTypes,
  token_endpoint_auth_method: client.authMethod,
  application_type: client.applicationType,
  ...(client.scopes.length === 0 ? {} : { scope: client.scopes.join(" ") }),
  agent: client.agent,
  ...(codePointsOf(client.agentDescription) === 0 ? {} : { agent_description: client.agentDescription })
})

/** The client object of section 16.1; `id` and `name` are copies for older tools. */
export const clientView = (client: Client): Readonly<Record<string, unknown>> => ({
  client_id: client.clientId,
  id: client.clientId,
  client_name: client.clientName,
  name: client.clientName,
  redirect_uris: client.redirectUris,
  grant_types: client.grantTypes,
  response_types: client.responseTypes,
  token_endpoint_auth_method: client.authMethod,
  application_type: client.applicationType,
  scope: client.scopes.join(" "),
  agent: client.agent,
  agent_description: client.agentDescription,
  status: client.status,
  registration_source: client.source,
  cimd_url: client.documentUrl,
  issued_at: new Date(client.issuedMs).toISOString(),
  updated_at: new Date(client.updatedMs).toISOString()
})
