/** Derives the settings of the authorization server from the configuration. Part of the composition root. */
import { defined } from "../../defined.ts"
import type { SettingsInput } from "../../../protocols/authorization/settings.ts"
import type { Config } from "../config/config.ts"

export const authorizationSettings = (config: Config, issuer: string, adminApiKey: string): SettingsInput =>
  defined({
    issuer,
    adminApiKey,
    allowedOrigins: config["server.allowed_origins"],
    realm: config["server.realm"],
    errorJsonNegotiation: config["server.error_json_negotiation"],
    docsBaseUrl: config["docs.base_url"],
    auditLookbackMs: config["admin.audit_default_lookback"],
    auditLookbackMsMax: config["admin.audit_max_lookback"],
    auditFailuresPerHour: config["admin.audit_failures_per_hour"],
    signing: {
      algorithm: config["signing.algorithm"],
      publishLeadMs: config["signing.publish_lead"],
      rotateEveryMs: config["signing.rotate_every"]
    },
    session: {
      secret: config["session.secret"] ?? "",
      secure: config["session.secure"],
      sameSite: config["session.same_site"],
      cookieName: config["session.cookie_name"],
      maxAgeMs: config["session.max_age"]
    },
    hashConcurrency: config["login.hash_concurrency"],
    requireScope: config["oauth.require_scope"],
    defaultClientScope: config["oauth.default_client_scope"],
    loopbackAnyPort: config["oauth.loopback_any_port"],
    acceptRootSlash: config["oauth.accept_root_slash"],
    refreshGraceMs: config["oauth.refresh_grace"],
    refreshAbsoluteMs: config["oauth.refresh_absolute_expiry"],
    stateMaxAgeMs: config["oauth.state_max_age"],
    pending: {
      requestsMax: config["oauth.max_pending_requests"],
      requestsPerSourceMax: config["oauth.max_pending_requests_per_source"],
      statesMax: config["oauth.max_used_states"]
    },
    introspection: config["introspection.enabled"],
    clientCredentials: {
      enabled: config["client_credentials.enabled"],
      tokenMs: config["client_credentials.token_expiry"]
    },
    tokenExchange: {
      enabled: config["token_exchange.enabled"],
      maxChainDepth: config["token_exchange.max_chain_depth"],
      tokenMs: config["token_exchange.token_expiry"],
      allowSelfExchange: config["token_exchange.allow_self_exchange"],
      capToSubjectExpiry: config["token_exchange.cap_to_subject_expiry"]
    },
    xaa: {
      enabled: config["xaa.enabled"],
      maxAssertionAgeMs: config["xaa.max_assertion_age"],
      requireResource: config["xaa.require_resource"],
      subjectMode: config["xaa.subject_mode"],
      tokenMs: config["xaa.token_expiry"],
      jwksCacheMs: config["xaa.jwks_cache_ttl"],
      allowPublicClients: config["xaa.allow_public_clients"],
      allowPrivateAddresses: config["xaa.allow_private_addresses"]
    },
    dpop: {
      enabled: config["dpop.enabled"],
      requireNonce: config["dpop.require_nonce"],
      nonceMs: config["dpop.nonce_ttl"],
      proofMs: config["dpop.proof_lifetime"],
      replayDurable: config["dpop.replay_durable"],
      proofsMax: config["dpop.max_replay_entries"]
    },
    registration: {
      mode: config["dcr.mode"],
      approvedRedirects: config["dcr.approved_redirects"],
      tokenMs: config["dcr.default_token_expiry"],
      refreshMs: config["dcr.default_refresh_expiry"],
      callsPerSecond: config["dcr.rate_limit"],
      burst: config["dcr.rate_limit_burst"],
      unusedMs: config["dcr.unused_ttl"],
      unusedMax: config["dcr.max_unused_clients"],
      perHourMax: config["dcr.hourly_limit"]
    },
    clientDocuments: {
      enabled: config["cimd.enabled"],
      cacheMs: config["cimd.cache_ttl"],
      fetchTimeoutMs: config["cimd.fetch_timeout"],
      requireHttps: config["cimd.require_https"],
      allowPrivateAddresses: config["cimd.allow_private_addresses"]
    },
    agentsInJwks: config["agents.enable_jwks_listing"],
    federation: {
      enabled: config["oidc.enabled"],
      issuer: config["oidc.issuer"],
      clientId: config["oidc.client_id"],
      clientSecret: config["oidc.client_secret"] ?? "",
      redirectUri: config["oidc.redirect_uri"],
      scopes: config["oidc.scopes"],
      displayName: config["oidc.display_name"],
      showLocalLogin: config["oidc.show_local_login"],
      connectorId: config["oidc.connector_id"]
    },
    connect: {
      allowedReturnUrls: config["connect.allowed_return_urls"],
      redirectBaseUrl: config["connect.redirect_base_url"]
    },
    clientSecretPepper: config["client_secret_pepper"] ?? "",
    rate: {
      enabled: config["rate_limit.enabled"],
      callsPerSecond: config["rate_limit.requests_per_second"],
      burst: config["rate_limit.burst"],
      failuresMax: config["rate_limit.auth_fail_max"],
      failureWindowMs: config["rate_limit.auth_fail_window"],
      lockMs: config["rate_limit.auth_lockout"],
      sourceFailuresMax: config["rate_limit.auth_fail_source_max"],
      identitiesMax: config["rate_limit.max_tracked_identities"]
    }
  })
