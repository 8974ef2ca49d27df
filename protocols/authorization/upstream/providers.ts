/** Broker providers: what their configuration may contain, and where their secrets are stored. `config` never
 *  contains a secret.
 *  Source: docs/spec/authorization.md, sections 12.1 and 16.3. */
import { createPrivateKey } from "node:crypto"
import type { AuthContext } from "../auth-context.ts"
import { Providers, type Provider, type Resource } from "../records.ts"
import type { Outbound } from "./safe-fetch.ts"
import { isAllowedUrl, scopeToken } from "../settings.ts"
import type { Members } from "../wire.ts"

export type Protocol = Provider["protocol"]
const textLengthMax = 2_048
const keyLengthMax = 16_384
const scopesMax = 200
const extraParamsMax = 16
const expiresInMax = 366 * 86_400
export const providersMax = 1_000

/** Parameters that the server itself sends to an authorization endpoint, so a configuration may not set
 *  them. */
const reserved = new Set([
  "response_type",
  "response_mode",
  "client_id",
  "client_secret",
  "redirect_uri",
  "scope",
  "state",
  "nonce",
  "code",
  "code_challenge",
  "code_challenge_method",
  "code_verifier",
  "grant_type",
  "request",
  "request_uri",
  "iss"
])

const algorithms = ["RS256", "PS256", "ES256"]

/** Returns why a value of this member is not acceptable; undefined when it is. */
type Check = (value: unknown, local: boolean) => string | undefined

const text: Check = (value) =>
  typeof value === "string" && value !== "" && value.length <= textLengthMax ? undefined : "wants text"

const secret: Check = (value) =>
  typeof value === "string" && value !== "" && value.length <= keyLengthMax ? undefined : "wants text"

const reference: Check = (value) =>
  typeof value === "string" && /^CONNECTOR_\w{1,200}$/.test(value)
    ? undefined
    : "wants the name of an environment variable that starts with CONNECTOR_"

const url: Check = (value, local) =>
  typeof value === "string" &&
  value.length <= textLengthMax &&
  !/[^\x21-\x7e]|#/.test(value) &&
  isAllowedUrl(value, local)
    ? undefined
    : "wants an https URL"

const oneOf =
  (...values: ReadonlyArray<string>): Check =>
  (value) =>
    typeof value === "string" && values.includes(value) ? undefined : `wants one of ${values.join(", ")}`

const flag: Check = (value) => (typeof value === "boolean" ? undefined : "wants true or false")

const scopes: Check = (value) =>
  Array.isArray(value) &&
  value.length <= scopesMax &&
  value.every((scope) => typeof scope === "string" && scope.length <= textLengthMax && scopeToken.test(scope))
    ? undefined
    : "wants a list of scopes"

const seconds: Check = (value) =>
  Number.isInteger(value) && Number(value) > 0 && Number(value) <= expiresInMax
    ? undefined
    : "wants a whole number of seconds"

const parameters: Check = (value) => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return "wants an object of strings"
  const pairs = Object.entries(value)
  if (pairs.length > extraParamsMax) return `holds more than ${extraParamsMax} parameters`
  if (
    pairs.some(
      ([name, item]) => name === "" || typeof item !== "string" || name.length + item.length > textLengthMax
    )
  )
    return "wants an object of strings"
  const taken = pairs.find(([name]) => reserved.has(name))
  return taken === undefined ? undefined : `must not hold ${taken[0]}`
}

interface Shape {
  readonly wanted: Readonly<Record<string, Check>>
  readonly optional: Readonly<Record<string, Check>>
  /** Name of the secret member. A configuration has either it or its `_ref`, which names an environment
   *  variable. */
  readonly secret: string
}

const shapes: { readonly [P in Protocol]: Shape } = {
  oauth: {
    secret: "client_secret",
    wanted: { client_id: text, authorize_url: url, token_url: url },
    optional: {
      revoke_url: url,
      scopes,
      extra_auth_params: parameters,
      response_format: oneOf("standard", "slack"),
      token_auth: oneOf("post", "basic"),
      pkce: flag
    }
  },
  api_key: { secret: "key", wanted: {}, optional: { expires_in: seconds } },
  service_account: {
    secret: "private_key",
    wanted: { issuer: text, audience: text, token_url: url, alg: oneOf(...algorithms) },
    optional: { subject: text }
  }
}

export const protocols = Object.keys(shapes) as ReadonlyArray<Protocol>

/** Returns why a configuration is refused, with the name of the member. `secretKept` is true for a change
 *  that leaves the provider's secret as it is. */
export const providerConfigFault = (
  protocol: Protocol,
  config: Members,
  local: boolean,
  secretKept = false
): string | undefined => {
  const { wanted, optional, secret: secretName } = shapes[protocol]
  const refName = `${secretName}_ref`
  const checks: Readonly<Record<string, Check>> = {
    ...wanted,
    ...optional,
    [secretName]: secret,
    [refName]: reference
  }
  for (const name of Object.keys(wanted))
    if (!Object.hasOwn(config, name)) return `config_data.${name} is missing`
  for (const [name, value] of Object.entries(config)) {
    if (!Object.hasOwn(checks, name))
      return `config_data.${name.slice(0, 64)} is not known for protocol ${protocol}`
    const fault = checks[name]!(value, local)
    if (fault !== undefined) return `config_data.${name} ${fault}`
  }
  const hasSecret = Object.hasOwn(config, secretName)
  const hasReference = Object.hasOwn(config, refName)
  if (hasSecret && hasReference)
    return `config_data.${secretName} and config_data.${refName} exclude each other`
  if (!hasSecret && !hasReference && !secretKept) return `config_data.${secretName} is missing`
  return protocol === "service_account" &&
    hasSecret &&
    !isKeyFor(config[secretName] as string, config["alg"] as string)
    ? "config_data.private_key is no private key for config_data.alg"
    : undefined
}

const isKeyFor = (pem: string, alg: string): boolean => {
  try {
    const { asymmetricKeyType, asymmetricKeyDetails } = createPrivateKey(pem)
    return alg === "ES256"
      ? asymmetricKeyType === "ec" && asymmetricKeyDetails?.namedCurve === "prime256v1"
      : asymmetricKeyType === "rsa" && (asymmetricKeyDetails?.modulusLength ?? 0) >= 2_048
  } catch {
    return false
  }
}

const secretNames = new Set(Object.values(shapes).map((shape) => shape.secret))

/** Separates the members that may be stored in clear and displayed from the secret. */
export const splitSecrets = (
  config: Members
): { readonly config: Members; readonly secret: string | undefined } => ({
  config: Object.fromEntries(Object.entries(config).filter(([name]) => !secretNames.has(name))),
  secret: Object.entries(config).find(
    ([name, value]) => secretNames.has(name) && typeof value === "string"
  )?.[1] as string | undefined
})

export const sealSecret = (seal: AuthContext["seal"], providerId: string, secret: string): Uint8Array =>
  seal.seal(Buffer.from(secret), "provider-secret", providerId)

/** Returns `config_data` as a response displays it. */
export const maskedConfig = ({ protocol, config, sealedSecret }: Provider): Members =>
  sealedSecret === null ? config : { ...config, [`${shapes[protocol].secret}_set`]: true }

export type Environment = Readonly<Record<string, string | undefined>>

/** Returns undefined when the environment variable is not set, or the sealed value cannot be opened. */
export const secretOf = (
  { id, protocol, config, sealedSecret }: Provider,
  seal: AuthContext["seal"],
  environment: Environment
): string | undefined => {
  const name = config[`${shapes[protocol].secret}_ref`]
  if (typeof name === "string") return environment[name] === "" ? undefined : environment[name]
  if (sealedSecret === null) return undefined
  try {
    return Buffer.from(seal.open(sealedSecret, "provider-secret", id)).toString("utf8")
  } catch {
    return undefined
  }
}

/** An `oauth` configuration with its defaults applied. */
export interface OAuthConfig {
  readonly clientId: string
  readonly authorizeUrl: string
  readonly tokenUrl: string
  readonly revokeUrl: string | undefined
  readonly scopes: ReadonlyArray<string>
  readonly extra: Readonly<Record<string, string>>
  readonly format: "standard" | "slack"
  readonly tokenAuth: "post" | "basic"
  readonly pkce: boolean
}

export const oauthConfig = ({ config }: Pick<Provider, "config">): OAuthConfig => ({
  clientId: config["client_id"] as string,
  authorizeUrl: config["authorize_url"] as string,
  tokenUrl: config["token_url"] as string,
  revokeUrl: config["revoke_url"] as string | undefined,
  scopes: (config["scopes"] ?? []) as ReadonlyArray<string>,
  extra: (config["extra_auth_params"] ?? {}) as Readonly<Record<string, string>>,
  format: (config["response_format"] ?? "standard") as "standard" | "slack",
  tokenAuth: (config["token_auth"] ?? "post") as "post" | "basic",
  pkce: (config["pkce"] ?? true) as boolean
})

const formEncoded = (text: string): string => new URLSearchParams({ "": text }).toString().slice(1)

/** Builds a form request to an upstream endpoint, authenticated as our client there. */
export const asClient = (
  url: string,
  auth: "post" | "basic",
  clientId: string,
  secret: string | undefined,
  form: Readonly<Record<string, string>>
): Pick<Outbound, "url" | "form" | "headers"> =>
  auth === "basic" && secret !== undefined
    ? {
        url,
        form: new URLSearchParams(form),
        headers: {
          Authorization: `Basic ${Buffer.from(`${formEncoded(clientId)}:${formEncoded(secret)}`).toString("base64")}`
        }
      }
    : {
        url,
        form: new URLSearchParams({
          ...form,
          client_id: clientId,
          ...(secret === undefined ? {} : { client_secret: secret })
        })
      }

export const providerBySlug = ({ store }: AuthContext["books"], slug: string): Provider | undefined =>
  Providers.range(store, { limit: providersMax }).find(({ value }) => value.slug === slug)?.value

/** Returns the Broker resources that use this provider. */
export const resourcesOf = (books: AuthContext["books"], { id }: Provider): ReadonlyArray<Resource> =>
  books.resources().filter((resource) => resource.backend === "broker" && resource.providerId === id)

/** Returns the upstream's names for these scopes. */
export const upstreamScopes = (catalog: Resource["scopes"]): ReadonlyArray<string> => [
  ...new Set(catalog.flatMap(({ name, upstream }) => (upstream.length === 0 ? [name] : upstream)))
]
