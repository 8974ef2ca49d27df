/** Declares the configuration of the authorization server. Secrets at rest, the data folder and the listener
 *  belong to the process (config/server.ts), not to this service. Source: docs/spec/authorization.md, section
 *  17. */
import type { Item } from "./item.ts"

const text = <const I extends string | undefined = undefined>(env: string, doc: string, initial?: I) =>
  ({ env, kind: "string", initial: initial as I, doc }) as const

const secret = (env: string, doc: string) =>
  ({ env, kind: "string", initial: undefined, secret: true, doc }) as const

const flag = (env: string, initial: boolean, doc: string) => ({ env, kind: "boolean", initial, doc }) as const

const time = (env: string, initial: number, doc: string) =>
  ({ env, kind: "duration", initial, min: 0, doc }) as const

const count = (env: string, initial: number, doc: string) =>
  ({ env, kind: "integer", initial, min: 0, max: 1_000_000_000, doc }) as const

const list = (env: string, doc: string, initial: ReadonlyArray<string> = []) =>
  ({ env, kind: "list", initial, doc }) as const

const rows = (env: string, doc: string) => ({ env, kind: "json", initial: undefined, doc }) as const
const secondMs = 1_000
const minuteMs = 60_000
const hourMs = 3_600_000
const dayMs = 86_400_000

export const authorizationItems = {
  "authorization.enabled": {
    env: "SERVICE_AUTHORIZATION_ENABLED",
    kind: ["auto", "on", "off"],
    initial: "auto",
    doc: "Authorization server; auto: on where server.issuer is set or the server serves this machine only."
  },
  "server.issuer": text(
    "SERVICE_SERVER_ISSUER",
    "Issuer, as clients know it; unset: http.public_base, or http://localhost:<port>."
  ),
  "server.allowed_origins": list(
    "SERVICE_SERVER_ALLOWED_ORIGINS",
    "Origins of browsers that may call the token endpoints, or *."
  ),
  "server.realm": text("SERVICE_SERVER_REALM", "Realm of the Basic challenge.", "authserver"),
  "server.error_json_negotiation": flag(
    "SERVICE_SERVER_ERROR_JSON_NEGOTIATION",
    true,
    "Errors as application/json for callers which accept nothing else."
  ),
  "docs.base_url": text("SERVICE_DOCS_BASE_URL", "Where error types are described; unset: {issuer}/docs."),
  "admin.api_key": secret(
    "SERVICE_ADMIN_API_KEY",
    "Key of /admin; unset on this machine: made at the first start (troupe keys shows it)."
  ),
  "admin.address": text(
    "SERVICE_ADMIN_LISTEN",
    "Address (host:port) of a listener of its own for /admin, /console and /metrics, which the public one then lacks."
  ),
  "admin.audit_default_lookback": time(
    "SERVICE_ADMIN_AUDIT_DEFAULT_LOOKBACK",
    dayMs,
    "How far back the audit list looks."
  ),
  "admin.audit_max_lookback": time(
    "SERVICE_ADMIN_AUDIT_MAX_LOOKBACK",
    30 * dayMs,
    "How far back it can be asked to."
  ),
  "admin.audit_failures_per_hour": count(
    "SERVICE_ADMIN_AUDIT_FAILURES_PER_HOUR",
    1_000,
    "Audit rows an hour of each action that strangers can cause; the next row tells how many were left out."
  ),
  "signing.algorithm": {
    env: "SERVICE_SIGNING_ALGORITHM",
    kind: ["ES256", "RS256"],
    initial: "ES256",
    doc: "Of new signing keys."
  },
  "signing.publish_lead": time(
    "SERVICE_SIGNING_PUBLISH_LEAD",
    0,
    "A new key is published for this long before it signs."
  ),
  "signing.rotate_every": time(
    "SERVICE_SIGNING_ROTATE_EVERY",
    0,
    "Keys rotate by themselves after this; 0: never."
  ),
  "session.secret": secret(
    "SERVICE_SESSION_SECRET",
    "Goes into what binds forms to browsers; 32 characters for a public issuer."
  ),
  "session.secure": flag(
    "SERVICE_SESSION_SECURE",
    false,
    "Cookies over https only; must be on for a public issuer."
  ),
  "session.same_site": {
    env: "SERVICE_SESSION_SAME_SITE",
    kind: ["lax", "strict", "none"],
    initial: "lax",
    doc: "SameSite of the session cookie."
  },
  "session.cookie_name": text(
    "SERVICE_SESSION_COOKIE_NAME",
    "Name of the session cookie.",
    "authserver_session"
  ),
  "session.max_age": time("SERVICE_SESSION_MAX_AGE", dayMs, "Life of a session."),
  "login.hash_concurrency": count("SERVICE_LOGIN_HASH_CONCURRENCY", 4, "Password hashes at once."),
  "oauth.require_scope": flag(
    "SERVICE_OAUTH_REQUIRE_SCOPE",
    true,
    "An authorization request must name its scope."
  ),
  "oauth.default_client_scope": text(
    "SERVICE_OAUTH_DEFAULT_CLIENT_SCOPE",
    "Ceiling of clients that register themselves.",
    ""
  ),
  "oauth.loopback_any_port": flag(
    "SERVICE_OAUTH_LOOPBACK_ANY_PORT",
    false,
    "Loopback redirect URIs may differ in their port (RFC 8252 7.3)."
  ),
  "oauth.accept_root_slash": flag(
    "SERVICE_OAUTH_ACCEPT_ROOT_SLASH",
    false,
    "https://host and https://host/ are one resource."
  ),
  "oauth.refresh_grace": time(
    "SERVICE_OAUTH_REFRESH_GRACE",
    0,
    "The token before the current one is answered again for this long; 0: it is reuse."
  ),
  "oauth.refresh_absolute_expiry": time(
    "SERVICE_OAUTH_REFRESH_ABSOLUTE_EXPIRY",
    90 * dayMs,
    "Life of a refresh-token family."
  ),
  "oauth.state_max_age": time(
    "SERVICE_OAUTH_STATE_MAX_AGE",
    10 * minuteMs,
    "Life of a round trip to an upstream login."
  ),
  "oauth.max_pending_requests": count(
    "SERVICE_OAUTH_MAX_PENDING_REQUESTS",
    10_000,
    "Authorization requests that nobody has finished, of all strangers; beyond it 503."
  ),
  "oauth.max_pending_requests_per_source": count(
    "SERVICE_OAUTH_MAX_PENDING_REQUESTS_PER_SOURCE",
    500,
    "The same of one source; beyond it 429."
  ),
  "oauth.max_used_states": count(
    "SERVICE_OAUTH_MAX_USED_STATES",
    50_000,
    "Round trips to other sites that are remembered as used; beyond it none is accepted."
  ),
  "introspection.enabled": flag("SERVICE_INTROSPECTION_ENABLED", true, "Token introspection."),
  "client_credentials.enabled": flag(
    "SERVICE_CLIENT_CREDENTIALS_ENABLED",
    true,
    "The client_credentials grant."
  ),
  "client_credentials.token_expiry": time(
    "SERVICE_CLIENT_CREDENTIALS_TOKEN_EXPIRY",
    hourMs,
    "Life of its tokens."
  ),
  "token_exchange.enabled": flag("SERVICE_TOKEN_EXCHANGE_ENABLED", true, "Token exchange."),
  "token_exchange.max_chain_depth": count(
    "SERVICE_TOKEN_EXCHANGE_MAX_CHAIN_DEPTH",
    5,
    "Actors in a chain at most."
  ),
  "token_exchange.token_expiry": time(
    "SERVICE_TOKEN_EXCHANGE_TOKEN_EXPIRY",
    hourMs,
    "Life of exchanged tokens."
  ),
  "token_exchange.allow_self_exchange": flag(
    "SERVICE_TOKEN_EXCHANGE_ALLOW_SELF_EXCHANGE",
    true,
    "A client may exchange its own token without naming a resource."
  ),
  "token_exchange.cap_to_subject_expiry": flag(
    "SERVICE_TOKEN_EXCHANGE_CAP_TO_SUBJECT_EXPIRY",
    true,
    "An exchanged token does not outlive its subject."
  ),
  "xaa.enabled": flag("SERVICE_XAA_ENABLED", true, "The jwt-bearer grant with ID-JAG assertions."),
  "xaa.max_assertion_age": time(
    "SERVICE_XAA_MAX_ASSERTION_AGE",
    5 * minuteMs,
    "Age of an assertion at most."
  ),
  "xaa.require_resource": flag(
    "SERVICE_XAA_REQUIRE_RESOURCE",
    false,
    "An assertion or its request must name a resource."
  ),
  "xaa.subject_mode": {
    env: "SERVICE_XAA_SUBJECT_MODE",
    kind: ["auto_map", "strict"],
    initial: "auto_map",
    doc: "strict: only mapped subjects."
  },
  "xaa.token_expiry": time("SERVICE_XAA_TOKEN_EXPIRY", hourMs, "Life of its tokens."),
  "xaa.jwks_cache_ttl": time("SERVICE_XAA_JWKS_CACHE_TTL", hourMs, "Age of an identity provider's keys."),
  "xaa.allow_public_clients": flag("SERVICE_XAA_ALLOW_PUBLIC_CLIENTS", false, "Public clients may use it."),
  "xaa.allow_private_addresses": flag(
    "SERVICE_XAA_ALLOW_PRIVATE_ADDRESSES",
    false,
    "Identity providers on private addresses; for a localhost issuer."
  ),
  "dpop.enabled": flag("SERVICE_DPOP_ENABLED", true, "Proofs of possession are honoured."),
  "dpop.require_nonce": flag("SERVICE_DPOP_REQUIRE_NONCE", false, "Proofs must bear a nonce of ours."),
  "dpop.nonce_ttl": time("SERVICE_DPOP_NONCE_TTL", minuteMs, "Life of a nonce."),
  "dpop.proof_lifetime": time("SERVICE_DPOP_PROOF_LIFETIME", minuteMs, "Age of a proof at most."),
  "dpop.replay_durable": flag("SERVICE_DPOP_REPLAY_DURABLE", true, "Used proofs are remembered on disk."),
  "dpop.max_replay_entries": count(
    "SERVICE_DPOP_MAX_REPLAY_ENTRIES",
    250_000,
    "Used proofs that are remembered; beyond it 503."
  ),
  "dcr.mode": {
    env: "SERVICE_DCR_MODE",
    kind: ["open", "approved_redirects", "admin_only"],
    initial: "open",
    doc: "Who may register clients."
  },
  "dcr.approved_redirects": list(
    "SERVICE_DCR_APPROVED_REDIRECTS",
    "Redirect URIs that may be registered in that mode."
  ),
  "dcr.default_token_expiry": time(
    "SERVICE_DCR_DEFAULT_TOKEN_EXPIRY",
    15 * minuteMs,
    "Life of access tokens from codes and refreshes."
  ),
  "dcr.default_refresh_expiry": time(
    "SERVICE_DCR_DEFAULT_REFRESH_EXPIRY",
    7 * dayMs,
    "Life of a refresh token."
  ),
  "dcr.rate_limit": count("SERVICE_DCR_RATE_LIMIT", 10, "Registrations a second from one source."),
  "dcr.rate_limit_burst": count("SERVICE_DCR_RATE_LIMIT_BURST", 20, "Registrations in a burst."),
  "dcr.unused_ttl": time(
    "SERVICE_DCR_UNUSED_TTL",
    30 * dayMs,
    "A client that never had a code is removed after this; 0: never."
  ),
  "dcr.max_unused_clients": count(
    "SERVICE_DCR_MAX_UNUSED_CLIENTS",
    10_000,
    "Clients that registered themselves and never had a code; near it they leave after an hour, beyond it 503."
  ),
  "dcr.hourly_limit": count("SERVICE_DCR_HOURLY_LIMIT", 500, "Registrations an hour from one source."),
  "cimd.enabled": flag("SERVICE_CIMD_ENABLED", true, "Client ids may be addresses of metadata documents."),
  "cimd.cache_ttl": time("SERVICE_CIMD_CACHE_TTL", hourMs, "Age of a document at most."),
  "cimd.fetch_timeout": time("SERVICE_CIMD_FETCH_TIMEOUT", 10 * secondMs, "Time to fetch one."),
  "cimd.require_https": flag(
    "SERVICE_CIMD_REQUIRE_HTTPS",
    true,
    "Documents over https only; off for a localhost issuer only."
  ),
  "cimd.allow_private_addresses": flag(
    "SERVICE_CIMD_ALLOW_PRIVATE_ADDRESSES",
    false,
    "Documents on private addresses; for a localhost issuer."
  ),
  "agents.enable_jwks_listing": flag(
    "SERVICE_AGENTS_ENABLE_JWKS_LISTING",
    false,
    "Agents are listed beside the keys."
  ),
  "oidc.enabled": flag("SERVICE_OIDC_ENABLED", false, "Sign-in through an upstream OpenID provider."),
  "oidc.issuer": text("SERVICE_OIDC_ISSUER", "Its issuer.", ""),
  "oidc.client_id": text("SERVICE_OIDC_CLIENT_ID", "Our client id there.", ""),
  "oidc.client_secret": secret("SERVICE_OIDC_CLIENT_SECRET", "Our secret there."),
  "oidc.redirect_uri": text("SERVICE_OIDC_REDIRECT_URI", "{issuer}/oidc/callback as registered there.", ""),
  "oidc.scopes": list("SERVICE_OIDC_SCOPES", "What is asked for there.", ["openid", "email", "profile"]),
  "oidc.display_name": text("SERVICE_OIDC_DISPLAY_NAME", "Its name on the button.", ""),
  "oidc.show_local_login": flag("SERVICE_OIDC_SHOW_LOCAL_LOGIN", true, "The password form stays beside it."),
  "oidc.connector_id": text("SERVICE_OIDC_CONNECTOR_ID", "connector_id parameter for it.", ""),
  "connect.allowed_return_urls": list(
    "SERVICE_CONNECT_ALLOWED_RETURN_URLS",
    "Where a connect flow may lead back to."
  ),
  "connect.redirect_base_url": text(
    "SERVICE_CONNECT_REDIRECT_BASE_URL",
    "Base of our callbacks at providers; unset: the issuer.",
    ""
  ),
  client_secret_pepper: secret(
    "SERVICE_CLIENT_SECRET_PEPPER",
    "Key of the hashes under which client secrets are kept."
  ),
  "rate_limit.enabled": flag("SERVICE_RATE_LIMIT_ENABLED", true, "Limits per source."),
  "rate_limit.requests_per_second": count(
    "SERVICE_RATE_LIMIT_REQUESTS_PER_SECOND",
    100,
    "Public requests a second from one source."
  ),
  "rate_limit.burst": count("SERVICE_RATE_LIMIT_BURST", 200, "Public requests in a burst."),
  "rate_limit.auth_fail_max": count(
    "SERVICE_RATE_LIMIT_AUTH_FAIL_MAX",
    10,
    "Failed sign-ins per source and identity before a lock; 0: no lock."
  ),
  "rate_limit.auth_fail_window": time(
    "SERVICE_RATE_LIMIT_AUTH_FAIL_WINDOW",
    10 * minuteMs,
    "Time in which they count."
  ),
  "rate_limit.auth_lockout": time("SERVICE_RATE_LIMIT_AUTH_LOCKOUT", 15 * minuteMs, "Length of the lock."),
  "rate_limit.auth_fail_source_max": count(
    "SERVICE_RATE_LIMIT_AUTH_FAIL_SOURCE_MAX",
    50,
    "Failed sign-ins of one source."
  ),
  "rate_limit.max_tracked_identities": count(
    "SERVICE_RATE_LIMIT_MAX_TRACKED_IDENTITIES",
    250_000,
    "Sources, and identities that failed, counted at once in each table; 10000 at least."
  ),
  "seed.resources": rows("SERVICE_SEED_RESOURCES", "Bodies of the admin API, made at start where absent."),
  "seed.clients": rows("SERVICE_SEED_CLIENTS", "The same for clients."),
  "seed.users": rows("SERVICE_SEED_USERS", "The same for users."),
  "seed.broker_providers": rows("SERVICE_SEED_BROKER_PROVIDERS", "The same for broker providers."),
  "seed.idps": rows("SERVICE_SEED_IDPS", "The same for identity providers.")
} as const satisfies Record<string, Item>
