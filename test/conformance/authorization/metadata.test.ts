/** Authorization sections 4, 9, 17 and their rows of section 22: metadata, introspection, revocation, boot
 *  refusals, what leaks. */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { Client, User } from "../../../protocols/authorization/records.ts"
import { settingsFaults, settingsOf, type SettingsInput } from "../../../protocols/authorization/settings.ts"
import { World, type Answer } from "../../protocols/authorization/world.ts"

type Known = Client & { readonly secret: string }
const uri = "https://mcp.example.com/files"
const exchange = "urn:ietf:params:oauth:grant-type:token-exchange"
const accessType = "urn:ietf:params:oauth:token-type:access_token"
let world: World
let client: Known
let runtime: Known
let stranger: Known
let open: Known
let user: User

beforeAll(async () => {
  world = await World.make()
  client = await world.client()
  runtime = await world.client()
  stranger = await world.client()
  open = await world.client({ authMethod: "none" })
  user = await world.user()
  await world.resource({ slug: "files", uri, runtimeClients: [runtime.clientId] })
})

afterAll(() => world.close())

const refused = (answer: Answer, error: string, status = 400): void => {
  expect([answer.body?.error, answer.status]).toEqual([error, status])
}

const introspect = (of: Known, token: string) => world.post("/oauth/introspect", { token }, world.basic(of))

describe("metadata", () => {
  it("the document, the same bytes at both addresses, exactly the members of section 4.1", async () => {
    const [one, two] = [
      await world.call("/.well-known/oauth-authorization-server"),
      await world.call("/.well-known/openid-configuration")
    ]
    expect(one.text).toBe(two.text)
    const base = world.issuer
    expect(one.body).toEqual({
      issuer: base,
      authorization_endpoint: `${base}/oauth/authorize`,
      token_endpoint: `${base}/oauth/token`,
      registration_endpoint: `${base}/oauth/register`,
      revocation_endpoint: `${base}/oauth/revoke`,
      introspection_endpoint: `${base}/oauth/introspect`,
      jwks_uri: `${base}/.well-known/jwks.json`,
      response_types_supported: ["code"],
      response_modes_supported: ["query"],
      grant_types_supported: [
        "authorization_code",
        "refresh_token",
        "client_credentials",
        exchange,
        "urn:ietf:params:oauth:grant-type:jwt-bearer"
      ],
      token_endpoint_auth_methods_supported: ["none", "client_secret_basic", "client_secret_post"],
      revocation_endpoint_auth_methods_supported: ["none", "client_secret_basic", "client_secret_post"],
      introspection_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post"],
      code_challenge_methods_supported: ["S256"],
      scopes_supported: ["files:read", "files:write"],
      resource_indicators_supported: true,
      client_id_metadata_document_supported: true,
      authorization_response_iss_parameter_supported: true,
      dpop_signing_alg_values_supported: ["ES256", "RS256", "PS256"],
      authorization_grant_profiles_supported: ["urn:ietf:params:oauth:grant-profile:id-jag"],
      authplane_agent_identity_supported: true,
      identity_assertion_supported: true
    })
    expect([one.headers.get("cache-control"), one.headers.get("access-control-allow-origin")]).toEqual([
      "public, max-age=300",
      "*"
    ])
    expect(
      (
        await world.call("/.well-known/oauth-authorization-server", {
          headers: { "If-None-Match": one.headers.get("etag")! }
        })
      ).status
    ).toBe(304)
  })
  it("what is switched off is not in it; an issuer with a path has its own addresses", async () => {
    const bare = await World.make({
      settings: {
        issuer: "http://localhost:1/tenant",
        introspection: false,
        clientCredentials: { enabled: false },
        tokenExchange: { enabled: false },
        xaa: { enabled: false },
        dpop: { enabled: false },
        clientDocuments: { enabled: false }
      }
    })
    const answers = await Promise.all(
      [
        "/.well-known/oauth-authorization-server/tenant",
        "/.well-known/openid-configuration/tenant",
        "/tenant/.well-known/openid-configuration"
      ].map((path) => bare.call(path))
    )
    for (const { body, status } of answers) {
      expect(status).toBe(200)
      expect(body.grant_types_supported).toEqual(["authorization_code", "refresh_token"])
      for (const name of [
        "introspection_endpoint",
        "dpop_signing_alg_values_supported",
        "client_id_metadata_document_supported",
        "identity_assertion_supported",
        "authorization_grant_profiles_supported"
      ])
        expect(body).not.toHaveProperty(name)
    }
    expect((await bare.post("/oauth/introspect", { token: "x" })).status).toBe(404)
    await bare.close()
  })
  it("AS-135 no private member in the JWKS", async () => {
    const answer = await world.call("/.well-known/jwks.json")
    expect(answer.body.keys.length).toBeGreaterThan(0)
    for (const key of answer.body.keys)
      for (const name of ["d", "p", "q", "dp", "dq", "qi", "k"]) expect(key).not.toHaveProperty(name)
    expect(Object.keys(answer.body)).toEqual(["keys"])
  })
  it("agents are listed beside the keys only where that is switched on", async () => {
    const listing = await World.make({ settings: { agentsInJwks: true } })
    const agent = await listing.client({ agent: true, clientName: "research", agentDescription: "Searches" })
    await listing.client({ agent: true, status: "suspended" })
    expect((await listing.call("/.well-known/jwks.json")).body.agents).toEqual([
      { client_id: agent.clientId, client_name: "research", description: "Searches" }
    ])
    await listing.close()
  })
  it("AS-136 a forwarded host changes nothing", async () => {
    const answer = await world.call("/.well-known/oauth-authorization-server", {
      headers: { "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https" }
    })
    expect(answer.body.issuer).toBe(world.issuer)
  })
  it("AS-137 protected resource metadata for a ref that is no UTF-8, has dots, is 10 KiB, has no URI", async () => {
    await world.resource({ slug: "bare", uri: "" })
    for (const ref of ["%ff%fe", "..%2f..%2fetc", "a".repeat(7_000), "bare", "nothing"])
      expect((await world.call(`/.well-known/oauth-protected-resource/${ref}`)).status).toBe(404)
    for (const ref of ["files"])
      expect((await world.call(`/.well-known/oauth-protected-resource/${ref}`)).body).toEqual({
        resource: uri,
        authorization_servers: [world.issuer],
        scopes_supported: ["files:read", "files:write"]
      })
    expect((await world.call("/.well-known/oauth-protected-resource")).status).toBe(404)
    await world.resource({ slug: "root", uri: `${world.issuer}/` })
    expect((await world.call("/.well-known/oauth-protected-resource")).body.resource).toBe(`${world.issuer}/`)
  })
  it("an unknown path, a known one by another method, and the headers that all answers carry", async () => {
    const answer = await world.call("/oauth/nothing")
    refused(answer, "not_found", 404)
    expect([answer.headers.get("x-content-type-options"), answer.headers.get("referrer-policy")]).toEqual([
      "nosniff",
      "no-referrer"
    ])
    expect(answer.headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/)
    expect((await world.call("/.well-known/jwks.json", { method: "HEAD" })).status).toBe(200)
  })
  it("CORS only for listed origins, and never at the pages", async () => {
    const shared = await World.make({ settings: { allowedOrigins: ["https://spa.example.com"] } })
    const preflight = await shared.call("/oauth/token", {
      method: "OPTIONS",
      headers: { Origin: "https://spa.example.com", "Access-Control-Request-Method": "POST" }
    })
    expect([
      preflight.status,
      preflight.headers.get("access-control-allow-origin"),
      preflight.headers.get("access-control-allow-headers")
    ]).toEqual([204, "https://spa.example.com", "Authorization, Content-Type, DPoP, MCP-Protocol-Version"])
    const answer = await shared.post("/oauth/token", {}, { Origin: "https://spa.example.com" })
    expect([
      answer.headers.get("access-control-allow-origin"),
      answer.headers.get("access-control-allow-credentials")
    ]).toEqual(["https://spa.example.com", null])
    expect(
      (await shared.post("/oauth/token", {}, { Origin: "https://evil.example" })).headers.get(
        "access-control-allow-origin"
      )
    ).toBeNull()
    expect(
      (await shared.call("/login", { headers: { Origin: "https://spa.example.com" } })).headers.get(
        "access-control-allow-origin"
      )
    ).toBeNull()
    await shared.close()
  })
  it("a source which calls too often", async () => {
    const limited = await World.make({ settings: { rate: { enabled: true, callsPerSecond: 5, burst: 10 } } })
    const statuses: Array<number> = []
    for (let call = 0; call < 12; call++) statuses.push((await limited.post("/oauth/token", {})).status)
    expect(statuses).toEqual([...Array<number>(10).fill(400), 429, 429])
    const refusedCall = await limited.post("/oauth/token", {})
    refused(refusedCall, "slow_down", 429)
    expect(Number(refusedCall.headers.get("retry-after"))).toBeGreaterThanOrEqual(1)
    expect((await limited.call("/.well-known/jwks.json")).status).toBe(200)
    limited.nowMs += 2_000
    expect((await limited.post("/oauth/token", {})).status).toBe(400)
    await limited.close()
  })
  it("twenty wrong secrets in a minute lock that client from that source for a minute", async () => {
    const limited = await World.make({
      settings: { rate: { enabled: true, callsPerSecond: 1_000, burst: 1_000 } }
    })
    const one = await limited.client()
    for (let tries = 0; tries < 20; tries++)
      expect(
        (await limited.post("/oauth/introspect", { token: "x" }, limited.basic({ ...one, secret: "wrong" })))
          .status
      ).toBe(401)
    expect((await limited.post("/oauth/introspect", { token: "x" }, limited.basic(one))).status).toBe(429)
    limited.nowMs += 60_000
    expect((await limited.post("/oauth/introspect", { token: "x" }, limited.basic(one))).status).toBe(200)
    await limited.close()
  })
})

describe("introspection and revocation", () => {
  it("AS-138 introspection by a public client; without credentials", async () => {
    refused(
      await world.post("/oauth/introspect", { token: "x", client_id: open.clientId }),
      "invalid_client",
      401
    )
    refused(await world.post("/oauth/introspect", { token: "x" }), "invalid_client", 401)
    refused(await world.post("/oauth/introspect", {}, world.basic(client)), "invalid_request")
  })
  it("AS-139 by a client with no relation to the token: the bytes of an invalid one", async () => {
    const { access_token } = await world.tokens(client, user, { resource: uri })
    const seen = await introspect(stranger, access_token)
    const invalid = await introspect(stranger, "nonsense")
    expect([seen.status, seen.text]).toEqual([200, '{"active":false}'])
    const headers = ({ headers }: Answer) =>
      [...headers].filter(([name]) => !["date", "x-request-id", "x-trace-id"].includes(name))
    expect([headers(seen), seen.text]).toEqual([headers(invalid), invalid.text])
  })
  it("AS-140 by a runtime client of the resource: all its members", async () => {
    const { access_token } = await world.tokens(client, user, { resource: uri })
    const answer = await introspect(runtime, access_token)
    const claims = world.claimsOf(access_token)
    expect(answer.body).toEqual({
      active: true,
      iss: claims.iss,
      sub: user.id,
      aud: uri,
      client_id: client.clientId,
      scope: "files:read",
      token_type: "Bearer",
      exp: claims.exp,
      iat: claims.iat,
      jti: claims.jti
    })
  })
  it("AS-141 a refresh token at introspection", async () => {
    const { refresh_token } = await world.tokens(client, user)
    expect((await introspect(client, refresh_token)).text).toBe('{"active":false}')
  })
  it("inactive: expired, client suspended (and active again after), user disabled, resource gone", async () => {
    const one = await world.client()
    const other = await world.user()
    const { access_token } = await world.tokens(one, other)
    await world.change(one, { status: "suspended" })
    expect(world.open.services.keys.verify(access_token)).toBeDefined()
    await world.change(one, { status: "active" })
    expect(await world.active(one, access_token)).toBe(true)
    await world.changeUser(other, { status: "disabled" })
    expect(await world.active(one, access_token)).toBe(false)
    const { access_token: late } = await world.tokens(client, user)
    world.nowMs += 900_000
    expect(await world.active(client, late)).toBe(false)
  })
  it("a suspended client's token is inactive to the resource while that lasts", async () => {
    const one = await world.client()
    const { access_token } = await world.tokens(one, user, { resource: uri })
    await world.change(one, { status: "suspended" })
    expect(await world.active(runtime, access_token)).toBe(false)
    await world.change(one, { status: "active" })
    expect(await world.active(runtime, access_token)).toBe(true)
    await world.change(one, { status: "revoked" })
    expect(await world.active(runtime, access_token)).toBe(false)
  })
  it("AS-142 revoking someone else's token: 200, and it lives", async () => {
    const tokens = await world.tokens(client, user)
    for (const token of [tokens.access_token, tokens.refresh_token])
      expect((await world.revoke(stranger, token)).status).toBe(200)
    expect(await world.active(client, tokens.access_token)).toBe(true)
    expect((await world.refresh(client, tokens.refresh_token)).status).toBe(200)
  })
  it("AS-143 revoking garbage; nothing; with a wrong secret", async () => {
    const garbage = await world.revoke(client, "garbage")
    expect([garbage.status, garbage.text]).toEqual([200, ""])
    refused(await world.post("/oauth/revoke", {}, world.basic(client)), "invalid_request")
    refused(
      await world.post("/oauth/revoke", { token: "x" }, world.basic({ ...client, secret: "wrong" })),
      "invalid_client",
      401
    )
  })
  it("A-8: an answer without a body claims no media type, which a client would read", async () => {
    const { access_token: token } = await world.tokens(client, user)
    for (const answer of [await world.revoke(client, token), await world.revoke(client, "unknown")])
      expect([answer.status, answer.headers.get("content-type"), answer.text]).toEqual([200, null, ""])
  })
  it("AS-144 revoking a refresh token, also a consumed one: the family's access tokens are inactive", async () => {
    const tokens = await world.tokens(client, user)
    const next = await world.refresh(client, tokens.refresh_token)
    expect(
      (
        await world.post(
          "/oauth/revoke",
          { token: tokens.refresh_token, token_type_hint: "access_token" },
          world.basic(client)
        )
      ).status
    ).toBe(200)
    for (const token of [tokens.access_token, next.body.access_token])
      expect(await world.active(client, token)).toBe(false)
    refused(await world.refresh(client, next.body.refresh_token), "invalid_grant")
    const publicTokens = await world.tokens(open, user)
    expect((await world.revoke(open, publicTokens.refresh_token)).status).toBe(200)
    refused(await world.refresh(open, publicTokens.refresh_token), "invalid_grant")
  })
  it("AS-145 consent revoked under a chain of five exchanged tokens over three clients: all inactive, a sibling's are not, no new refresh", async () => {
    const grantTypes = ["authorization_code", "refresh_token", exchange]
    const [a, b, c] = [
      await world.client({ grantTypes }),
      await world.client({ grantTypes }),
      await world.client({ grantTypes })
    ]
    const lent = await world.resource({
      slug: "lent",
      uri: "https://mcp.example.com/lent",
      exchangeClients: [a, b, c].map(({ clientId }) => clientId),
      runtimeClients: [runtime.clientId]
    })
    const tokens = await world.tokens(a, user, { resource: lent.uri })
    const sibling = await world.tokens(stranger, user, { resource: lent.uri })
    const chain = [tokens.access_token]
    for (const by of [b, c, a, b, c]) {
      const answer = await world.token(by, {
        grant_type: exchange,
        subject_token: chain.at(-1)!,
        subject_token_type: accessType,
        resource: lent.uri
      })
      expect(answer.status).toBe(200)
      chain.push(answer.body.access_token)
    }
    for (const token of [...chain, sibling.access_token])
      expect(await world.active(runtime, token)).toBe(true)
    await world.revokeConsent(world.issuanceOf(tokens.access_token).consentId)
    for (const token of chain) expect(await world.active(runtime, token)).toBe(false)
    expect(await world.active(runtime, sibling.access_token)).toBe(true)
    refused(await world.refresh(a, tokens.refresh_token), "invalid_grant")
  })
  it("AS-156 what a caller sends never becomes a header of ours", async () => {
    const client = await world.client({ clientName: "x\r\nX-Injected: 1" })
    const answers = [
      await world.call(world.authorizeUrl(client, { scope: "files:read\r\nX-Injected: 1" })),
      await world.call(world.authorizeUrl(client, { state: "a\r\nX-Injected: 1" })),
      await world.call(`/login?next=${encodeURIComponent("/connect/a?return_url=x\r\nX-Injected: 1")}`),
      await world.post("/oauth/token", { grant_type: "x\r\nX-Injected: 1" })
    ]
    for (const answer of answers) expect(answer.headers.get("x-injected")).toBeNull()
  })
})

describe("boot refusals", () => {
  const publicly = {
    issuer: "https://as.example.com",
    adminApiKey: "k".repeat(10) + "9".repeat(20),
    session: { secret: "s3".repeat(20), secure: true }
  }
  it("a public issuer with good secrets, and a localhost one with none", () => {
    expect([settingsFaults(settingsOf(publicly)), settingsFaults(settingsOf())]).toEqual([[], []])
  })
  it("AS-134 plain http for documents, or private addresses, with a public issuer", () => {
    expect(
      settingsFaults(settingsOf({ ...publicly, clientDocuments: { requireHttps: false } })).join()
    ).toContain("cimd.require_https")
    expect(
      settingsFaults(settingsOf({ ...publicly, clientDocuments: { allowPrivateAddresses: true } })).join()
    ).toContain("cimd.allow_private_addresses")
    expect(
      settingsFaults(settingsOf({ clientDocuments: { requireHttps: false, allowPrivateAddresses: true } }))
    ).toEqual([])
  })
  it.each<[string, SettingsInput]>([
    ["server.issuer", { issuer: "as.example.com" }],
    ["server.issuer", { issuer: "http://as.example.com" }],
    ["server.issuer", { issuer: "https://as.example.com/" }],
    ["server.issuer", { issuer: "https://as.example.com/?a" }],
    ["server.allowed_origins", { allowedOrigins: ["https://a.example/x"] }],
    ["server.realm", { realm: 'a"b' }],
    ["admin.api_key", { ...publicly, adminApiKey: "" }],
    ["admin.api_key", { ...publicly, adminApiKey: "changeme".repeat(4) }],
    ["admin.api_key", { ...publicly, adminApiKey: "a".repeat(40) }],
    ["session.secret", { ...publicly, session: { secret: "short", secure: true } }],
    ["session.secure", { ...publicly, session: { secret: publicly.session.secret } }],
    ["session.same_site", { session: { sameSite: "none" } }],
    ["session.cookie_name", { session: { cookieName: "a b" } }],
    ["session.max_age", { session: { maxAgeMs: 0 } }],
    ["oauth.refresh_grace", { refreshGraceMs: 121_000 }],
    ["oauth.refresh_absolute_expiry", { refreshAbsoluteMs: 1_000 }],
    ["token_exchange.max_chain_depth", { tokenExchange: { maxChainDepth: 11 } }],
    ["client_credentials.token_expiry", { clientCredentials: { tokenMs: 90_000_000 } }],
    ["xaa.allow_private_addresses", { ...publicly, xaa: { allowPrivateAddresses: true } }],
    ["xaa.max_assertion_age", { xaa: { maxAssertionAgeMs: 3_600_001 } }],
    ["dpop.require_nonce", { dpop: { enabled: false, requireNonce: true } }],
    ["dpop.proof_lifetime", { dpop: { proofMs: 5_000 } }],
    ["dcr.approved_redirects", { registration: { mode: "approved_redirects" } }],
    ["dcr.approved_redirects", { registration: { approvedRedirects: ["http://evil.example/"] } }],
    ["dcr.unused_ttl", { registration: { unusedMs: 1_000 } }],
    ["dcr.rate_limit", { registration: { burst: 0 } }],
    ["cimd.cache_ttl", { clientDocuments: { cacheMs: 1_000 } }],
    ["cimd.fetch_timeout", { clientDocuments: { fetchTimeoutMs: 61_000 } }],
    ["oidc.issuer", { federation: { enabled: true } }],
    ["connect.allowed_return_urls", { ...publicly, connect: { allowedReturnUrls: ["http://a.example/"] } }],
    ["client_secret_pepper", { ...publicly, clientSecretPepper: "short" }],
    ["rate_limit.auth_fail_source_max", { rate: { sourceFailuresMax: 5 } }],
    ["signing.publish_lead", { signing: { publishLeadMs: 10, rotateEveryMs: 5 } }],
    ["login.hash_concurrency", { hashConcurrency: 0 }],
    ["docs.base_url", { docsBaseUrl: "docs" }]
  ])("%s is refused", (name, settings) =>
    expect(settingsFaults(settingsOf(settings)).some((fault) => fault.startsWith(name))).toBe(true)
  )
})
