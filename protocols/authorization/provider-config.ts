/** What a broker provider's `config_data` may hold, by protocol, and its one secret, which is parted from the rest, sealed, and never shown.
 *  Source: authorization section 12.1. */
import { createPrivateKey } from "node:crypto"
import type { Authority } from "./authority.ts"
import type { Fields } from "./fields.ts"
import { quoted } from "./problems.ts"
import type { Provider } from "./records.ts"
import { isAllowedUrl } from "./settings.ts"

export type ProviderProtocol = Provider["protocol"]
export const providerProtocols = ["oauth", "api_key", "service_account"] as const
/** The member that is never shown; with `_ref` appended it names an environment variable instead. */
export const secretMember = { oauth: "client_secret", api_key: "key", service_account: "private_key" } as const satisfies Record<ProviderProtocol, string>
const known: Readonly<Record<ProviderProtocol, ReadonlyArray<string>>> = {
  oauth: ["client_id", "authorize_url", "token_url", "revoke_url", "scopes", "extra_auth_params", "response_format", "token_auth", "pkce"],
  api_key: ["expires_in"],
  service_account: ["issuer", "subject", "audience", "token_url", "alg"]
}
const required: Readonly<Record<ProviderProtocol, ReadonlyArray<string>>> = { oauth: ["client_id", "authorize_url", "token_url"], api_key: [], service_account: ["issuer", "audience", "token_url", "alg"] }
/** What the connect flow sets itself. */
const reserved = new Set(["response_type", "response_mode", "client_id", "client_secret", "redirect_uri", "scope", "state", "nonce", "code", "code_challenge", "code_challenge_method",
  "code_verifier", "grant_type", "request", "request_uri"])
const secretLengthMax = 16_384, paramsMax = 16, scopesMax = 100, expirySecondsMax = 31_536_000

/** Opened only by what sends it upstream. */
export const providerSecretPurpose = "provider-secret"
export type ProviderSecret = Readonly<Record<string, string>>
export const sealProviderSecret = ({ seal }: Pick<Authority, "seal">, providerId: string, secret: ProviderSecret): Uint8Array =>
  seal.seal(Buffer.from(JSON.stringify(secret)), providerSecretPurpose, providerId)
export const openProviderSecret = ({ seal }: Pick<Authority, "seal">, { id, sealedSecret }: Provider): ProviderSecret =>
  sealedSecret === null ? {} : JSON.parse(Buffer.from(seal.open(sealedSecret, providerSecretPurpose, id)).toString()) as ProviderSecret

const readParams = (fields: Fields): void => {
  const params = fields.object("extra_auth_params")
  if (params === undefined) return
  if (Object.keys(params.members).length > paramsMax) params.refuse("", `holds more than ${paramsMax} members`)
  for (const name of Object.keys(params.members)) {
    if (reserved.has(name) || !/^[\w.-]{1,64}$/.test(name)) params.refuse(quoted(name), "cannot be set here")
    params.text(name, 512, 0)
  }
}
const curves: Readonly<Record<string, string>> = { ES256: "ec", RS256: "rsa", PS256: "rsa" }
const refuseKey = (fields: Fields, pem: string, alg: string | undefined): void => {
  let type: string | undefined, fits = true
  try {
    const key = createPrivateKey(pem)
    type = key.asymmetricKeyType
    fits = type === "ec" ? key.asymmetricKeyDetails?.namedCurve === "prime256v1" : (key.asymmetricKeyDetails?.modulusLength ?? 0) >= 2_048
  } catch { /* Refused below: no key. */ }
  if (alg !== undefined && (type !== curves[alg] || !fits)) fields.refuse("private_key", `must be a PEM private key for ${alg}`)
}

export interface ReadConfig {
  /** Without its secret. */ readonly config: Readonly<Record<string, unknown>>
  /** undefined: none in the body, and none is referred to: what was kept stays. */ readonly secret: ProviderSecret | "by reference" | undefined
}
/** Faults are in `fields`, the object `config_data`. */
export const readConfig = (fields: Fields, protocol: ProviderProtocol, { local }: Pick<Authority, "local">): ReadConfig => {
  const member = secretMember[protocol], ref = `${member}_ref`
  fields.required(...required[protocol])
  for (const name of Object.keys(fields.members)) if (![...known[protocol], member, ref].includes(name)) fields.refuse(quoted(name), `is not a member of ${protocol} providers`)
  for (const name of ["authorize_url", "token_url", "revoke_url"]) {
    const url = fields.token(name)
    if (url !== undefined && (!isAllowedUrl(url, local) || url.includes("#"))) fields.refuse(name, `must be an https URL, not ${quoted(url)}`)
  }
  for (const name of ["client_id", "issuer", "subject", "audience"]) fields.text(name, 2_048)
  fields.strings("scopes", { itemsMax: scopesMax, lengthMax: 256 })
  fields.choice("response_format", ["standard", "slack"])
  fields.choice("token_auth", ["post", "basic"])
  fields.boolean("pkce")
  fields.integer("expires_in", 1, expirySecondsMax)
  readParams(fields)
  const alg = fields.choice("alg", ["ES256", "RS256", "PS256"])
  const inline = fields.string(member, secretLengthMax), variable = fields.string(ref, 128)
  if (inline === "") fields.refuse(member, "must not be empty")
  if (inline !== undefined && variable !== undefined) fields.refuse(ref, `and ${member} exclude each other`)
  if (variable !== undefined && !/^CONNECTOR_[A-Z0-9_]+$/.test(variable)) fields.refuse(ref, "must name an environment variable that begins with CONNECTOR_")
  if (protocol === "service_account" && inline !== undefined && inline !== "") refuseKey(fields, inline, alg)
  const { [member]: _, ...config } = fields.members
  return { config, secret: inline !== undefined ? { [member]: inline } : variable !== undefined ? "by reference" : undefined }
}
