/** The settings of the authorization server, with their defaults and the checks that refuse to start. Times
 *  are in milliseconds. The encryption key is a setting of the whole program (SERVICE_MASTER_KEY).
 *  Source: docs/spec/authorization.md, section 17. */
import { isLoopbackHost } from "../shared/addresses.ts"
import { redirectUriFault } from "./redirect-uris.ts"

const secondMs = 1_000
const minuteMs = 60_000
const hourMs = 3_600_000
const dayMs = 86_400_000

export const settingsDefault = {
  issuer: "http://localhost:8080",
  allowedOrigins: [] as ReadonlyArray<string>,
  realm: "authserver",
  errorJsonNegotiation: true,
  docsBaseUrl: "",
  adminApiKey: "",
  auditLookbackMs: dayMs,
  auditLookbackMsMax: 30 * dayMs,
  auditFailuresPerHour: 1_000,
  signing: { algorithm: "ES256" as "ES256" | "RS256", publishLeadMs: 0, rotateEveryMs: 0 },
  session: {
    secret: "",
    secure: false,
    sameSite: "lax" as "lax" | "strict" | "none",
    cookieName: "authserver_session",
    maxAgeMs: dayMs
  },
  hashConcurrency: 4,
  requireScope: true,
  defaultClientScope: "",
  loopbackAnyPort: false,
  acceptRootSlash: false,
  refreshGraceMs: 0,
  refreshAbsoluteMs: 90 * dayMs,
  stateMaxAgeMs: 10 * minuteMs,
  introspection: true,
  clientCredentials: { enabled: true, tokenMs: hourMs },
  tokenExchange: {
    enabled: true,
    maxChainDepth: 5,
    tokenMs: hourMs,
    allowSelfExchange: true,
    capToSubjectExpiry: true
  },
  xaa: {
    enabled: true,
    maxAssertionAgeMs: 5 * minuteMs,
    requireResource: false,
    subjectMode: "auto_map" as "auto_map" | "strict",
    tokenMs: hourMs,
    jwksCacheMs: hourMs,
    allowPublicClients: false,
    allowPrivateAddresses: false
  },
  pending: { requestsMax: 10_000, requestsPerSourceMax: 500, statesMax: 50_000 },
  dpop: {
    enabled: true,
    requireNonce: false,
    nonceMs: minuteMs,
    proofMs: minuteMs,
    replayDurable: true,
    proofsMax: 250_000
  },
  registration: {
    mode: "open" as "open" | "approved_redirects" | "admin_only",
    approvedRedirects: [] as ReadonlyArray<string>,
    tokenMs: 15 * minuteMs,
    refreshMs: 7 * dayMs,
    callsPerSecond: 10,
    burst: 20,
    unusedMs: 30 * dayMs,
    unusedMax: 10_000,
    perHourMax: 500
  },
  clientDocuments: {
    enabled: true,
    cacheMs: hourMs,
    fetchTimeoutMs: 10 * secondMs,
    requireHttps: true,
    allowPrivateAddresses: false
  },
  agentsInJwks: false,
  federation: {
    enabled: false,
    issuer: "",
    clientId: "",
    clientSecret: "",
    redirectUri: "",
    scopes: ["openid", "email", "profile"] as ReadonlyArray<string>,
    displayName: "",
    showLocalLogin: true,
    connectorId: ""
  },
  connect: { allowedReturnUrls: [] as ReadonlyArray<string>, redirectBaseUrl: "" },
  clientSecretPepper: "",
  rate: {
    enabled: true,
    callsPerSecond: 100,
    burst: 200,
    failuresMax: 10,
    failureWindowMs: 10 * minuteMs,
    lockMs: 15 * minuteMs,
    sourceFailuresMax: 50,
    identitiesMax: 250_000
  }
}

type Widened<T> = T extends string ? T : T extends number ? number : T extends boolean ? boolean : T

export type Settings = {
  readonly [N in keyof typeof settingsDefault]: (typeof settingsDefault)[N] extends
    | ReadonlyArray<string>
    | string
    | number
    | boolean
    ? Widened<(typeof settingsDefault)[N]>
    : { readonly [M in keyof (typeof settingsDefault)[N]]: Widened<(typeof settingsDefault)[N][M]> }
}

export type SettingsInput = {
  readonly [N in keyof Settings]?: Settings[N] extends ReadonlyArray<string> | string | number | boolean
    ? Settings[N]
    : Partial<Settings[N]>
}

export const settingsOf = (options: SettingsInput = {}): Settings => {
  const merged: Record<string, unknown> = { ...settingsDefault }
  for (const [name, value] of Object.entries(options)) {
    const initial = merged[name]
    merged[name] =
      typeof value === "object" && !Array.isArray(value) ? { ...(initial as object), ...value } : value
  }
  const settings = merged as unknown as Settings
  return settings.docsBaseUrl === "" ? { ...settings, docsBaseUrl: `${settings.issuer}/docs` } : settings
}

const urlOf = (text: string): URL | undefined => {
  try {
    return new URL(text)
  } catch {
    return undefined
  }
}

/** The path of the issuer, without a slash at its end; "" when it has none. */
export const basePathOf = ({ issuer }: Pick<Settings, "issuer">): string =>
  new URL(issuer).pathname.replace(/\/$/, "")

export const isLocalIssuer = (issuer: string): boolean => isLoopbackHost(urlOf(issuer)?.hostname ?? "")
export const scopeToken = /^[\x21\x23-\x5b\x5d-\x7e]+$/

const weak = ["secret", "changeme", "change-me", "password", "default", "admin", "test", "dev", "example"]

const isWeak = (secret: string): boolean => {
  const lower = secret.toLowerCase()
  return (
    /^(.)\1*$/s.test(lower) ||
    weak.some((word) => lower.length % word.length === 0 && lower === word.repeat(lower.length / word.length))
  )
}

const durationNames = (settings: Settings): ReadonlyArray<readonly [string, number, number]> => [
  ["session.max_age", settings.session.maxAgeMs, Infinity],
  ["oauth.state_max_age", settings.stateMaxAgeMs, Infinity],
  ["client_credentials.token_expiry", settings.clientCredentials.tokenMs, dayMs],
  ["token_exchange.token_expiry", settings.tokenExchange.tokenMs, dayMs],
  ["xaa.token_expiry", settings.xaa.tokenMs, dayMs],
  ["xaa.jwks_cache_ttl", settings.xaa.jwksCacheMs, Infinity],
  ["xaa.max_assertion_age", settings.xaa.maxAssertionAgeMs, hourMs],
  ["dpop.nonce_ttl", settings.dpop.nonceMs, Infinity],
  ["dcr.default_token_expiry", settings.registration.tokenMs, dayMs],
  ["dcr.default_refresh_expiry", settings.registration.refreshMs, Infinity],
  ["cimd.fetch_timeout", settings.clientDocuments.fetchTimeoutMs, minuteMs],
  ["rate_limit.auth_fail_window", settings.rate.failureWindowMs, Infinity],
  ["rate_limit.auth_lockout", settings.rate.lockMs, dayMs],
  ["admin.audit_default_lookback", settings.auditLookbackMs, settings.auditLookbackMsMax],
  ["admin.audit_max_lookback", settings.auditLookbackMsMax, Infinity]
]

/** Returns every reason not to start, so that an operator sees them all at once. */
export const settingsFaults = (settings: Settings): ReadonlyArray<string> => {
  const faults: Array<string> = []
  const refuse = (when: boolean, words: string): void => {
    if (when) faults.push(words)
  }
  const issuer = urlOf(settings.issuer)
  const local = isLocalIssuer(settings.issuer)
  refuse(
    issuer === undefined || !["http:", "https:"].includes(issuer.protocol) || issuer.hostname === "",
    "server.issuer: wants an absolute URL"
  )
  refuse(
    issuer !== undefined &&
      (issuer.search !== "" ||
        issuer.hash !== "" ||
        issuer.username !== "" ||
        issuer.password !== "" ||
        /[?#]/.test(settings.issuer) ||
        settings.issuer.endsWith("/")),
    "server.issuer: no query, fragment, userinfo or trailing slash"
  )
  refuse(issuer?.protocol === "http:" && !local, "server.issuer: http is for localhost only")
  for (const origin of settings.allowedOrigins)
    refuse(
      origin !== "*" && urlOf(origin)?.origin !== origin,
      `server.allowed_origins: ${origin} is no origin`
    )
  refuse(/["\p{Cc}]/u.test(settings.realm), "server.realm: no quotes or control characters")
  refuse(urlOf(settings.docsBaseUrl) === undefined, "docs.base_url: wants a URL")
  refuse(
    !local && (settings.adminApiKey.length < 24 || isWeak(settings.adminApiKey)),
    "admin.api_key: wants 24 characters that are no known weak value"
  )
  refuse(settings.auditFailuresPerHour < 1, "admin.audit_failures_per_hour: 1 at least")
  for (const [name, ms, msMax] of durationNames(settings))
    refuse(!(ms > 0) || ms > msMax, `${name}: out of range`)
  const { publishLeadMs, rotateEveryMs } = settings.signing
  refuse(
    publishLeadMs < 0 ||
      rotateEveryMs < 0 ||
      (publishLeadMs > 0 && rotateEveryMs > 0 && publishLeadMs >= rotateEveryMs),
    "signing.publish_lead: wants to be below signing.rotate_every"
  )
  refuse(
    !local && (settings.session.secret.length < 32 || isWeak(settings.session.secret)),
    "session.secret: wants 32 characters that are no known weak value"
  )
  refuse(!local && !settings.session.secure, "session.secure: must be on for a public issuer")
  refuse(
    settings.session.sameSite === "none" && !settings.session.secure,
    "session.same_site: none wants session.secure"
  )
  refuse(
    !/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(settings.session.cookieName),
    "session.cookie_name: is no cookie name"
  )
  refuse(settings.hashConcurrency < 1, "login.hash_concurrency: at least 1")
  refuse(
    settings.defaultClientScope.split(" ").some((scope) => scope !== "" && !scopeToken.test(scope)),
    "oauth.default_client_scope: wants scope tokens"
  )
  refuse(
    settings.refreshGraceMs < 0 || settings.refreshGraceMs > 120 * secondMs,
    "oauth.refresh_grace: 0 to 120 s"
  )
  refuse(
    settings.refreshAbsoluteMs < settings.registration.refreshMs,
    "oauth.refresh_absolute_expiry: below dcr.default_refresh_expiry"
  )
  const { maxChainDepth } = settings.tokenExchange
  refuse(
    !Number.isInteger(maxChainDepth) || maxChainDepth < 1 || maxChainDepth > 10,
    "token_exchange.max_chain_depth: 1 to 10"
  )
  refuse(
    settings.xaa.allowPrivateAddresses && !local,
    "xaa.allow_private_addresses: for a localhost issuer only"
  )
  refuse(settings.dpop.requireNonce && !settings.dpop.enabled, "dpop.require_nonce: wants dpop.enabled")
  refuse(
    settings.dpop.proofMs < 10 * secondMs || settings.dpop.proofMs > 300 * secondMs,
    "dpop.proof_lifetime: 10 s to 300 s"
  )
  const { requestsMax, requestsPerSourceMax, statesMax } = settings.pending
  refuse(
    requestsMax < 1 || requestsPerSourceMax < 1 || requestsPerSourceMax > requestsMax,
    "oauth.max_pending_requests: at least oauth.max_pending_requests_per_source, which is 1 at least"
  )
  refuse(statesMax < 1, "oauth.max_used_states: 1 at least")
  refuse(settings.dpop.proofsMax < 1, "dpop.max_replay_entries: 1 at least")
  const { mode, approvedRedirects, callsPerSecond, burst, unusedMs, unusedMax, perHourMax } =
    settings.registration
  refuse(unusedMax < 1 || perHourMax < 1, "dcr.max_unused_clients, dcr.hourly_limit: 1 at least")
  refuse(
    mode === "approved_redirects" && approvedRedirects.length === 0,
    "dcr.approved_redirects: wants an entry in mode approved_redirects"
  )
  for (const uri of approvedRedirects)
    refuse(redirectUriFault(uri) !== undefined, `dcr.approved_redirects: ${uri} is not acceptable`)
  refuse(callsPerSecond <= 0 || burst <= 0, "dcr.rate_limit: above 0")
  refuse(unusedMs !== 0 && unusedMs < hourMs, "dcr.unused_ttl: 0, or 1 h at least")
  refuse(settings.clientDocuments.cacheMs < 30 * secondMs, "cimd.cache_ttl: 30 s at least")
  refuse(
    !settings.clientDocuments.requireHttps && !local,
    "cimd.require_https: off for a localhost issuer only"
  )
  refuse(
    settings.clientDocuments.allowPrivateAddresses && !local,
    "cimd.allow_private_addresses: for a localhost issuer only"
  )
  const { federation } = settings
  if (federation.enabled) {
    for (const name of ["issuer", "clientId", "clientSecret", "redirectUri"] as const)
      refuse(
        federation[name] === "",
        `oidc.${name.replace(/[A-Z]/g, (upper) => `_${upper.toLowerCase()}`)}: missing`
      )
    for (const url of [federation.issuer, federation.redirectUri])
      refuse(url !== "" && urlOf(url)?.protocol !== "https:" && !local, "oidc: https only")
    refuse(!/^[A-Za-z0-9-]*$/.test(federation.connectorId), "oidc.connector_id: letters, digits and hyphens")
  }
  for (const url of settings.connect.allowedReturnUrls)
    refuse(!isAllowedUrl(url, local), `connect.allowed_return_urls: ${url} is not an https URL`)
  refuse(
    settings.connect.redirectBaseUrl !== "" && !isAllowedUrl(settings.connect.redirectBaseUrl, local),
    "connect.redirect_base_url: wants an https URL"
  )
  refuse(
    !local && settings.clientSecretPepper !== "" && settings.clientSecretPepper.length < 16,
    "client_secret_pepper: 16 characters at least"
  )
  const { rate } = settings
  refuse(rate.enabled && (rate.callsPerSecond <= 0 || rate.burst <= 0), "rate_limit: above 0")
  refuse(
    rate.failuresMax < 0 || (rate.sourceFailuresMax !== 0 && rate.sourceFailuresMax < rate.failuresMax),
    "rate_limit.auth_fail_source_max: below rate_limit.auth_fail_max"
  )
  refuse(rate.identitiesMax < 10_000, "rate_limit.max_tracked_identities: 10000 at least")
  return faults
}

/** True for an https URL, and for an http URL when `local` is true. */
export const isAllowedUrl = (text: string, local: boolean): boolean => {
  const url = urlOf(text)
  return (
    url !== undefined &&
    url.hostname !== "" &&
    (url.protocol === "https:" || (local && url.protocol === "http:"))
  )
}
