/** Open registration, rule by rule of section 10. */
import { describe, expect, it } from "vitest"
import { secretMatches } from "../../../../protocols/authorization/client/client-secrets.ts"
import { Clients } from "../../../../protocols/authorization/records.ts"
import { type Problem, slowDown } from "../../../../protocols/authorization/problems.ts"
import { UnusedClients } from "../../../../protocols/authorization/client/register.ts"
import type { SettingsInput } from "../../../../protocols/authorization/settings.ts"
import { World } from "../admin/world.ts"

const uri = "https://app.example.com/cb"
const exchange = "urn:ietf:params:oauth:grant-type:token-exchange"
const bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"

const refusedFor = async (
  body: unknown,
  error: string,
  naming: string,
  settings: SettingsInput = {}
): Promise<void> => {
  const world = new World(settings)
  const answer = await world.join(body)
  expect([answer.status, answer.body.error], answer.text).toEqual([
    error === "access_denied" ? 403 : 400,
    error
  ])
  expect(answer.body.error_description).toContain(naming)
  expect(Clients.range(world.store, { limit: 1 })).toEqual([])
}

describe("what is answered", () => {
  it("201 with exactly the members of section 10, and the row keeps no secret", async () => {
    const world = new World()
    const answer = await world.join({ redirect_uris: [uri], client_name: "Example" })
    expect(answer.status).toBe(201)
    expect(answer.header("Cache-Control")).toBe("no-store")
    expect(answer.header("Pragma")).toBe("no-cache")
    const { client_id, client_secret, ...rest } = answer.body
    expect(client_id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7/)
    expect(client_secret).toMatch(/^[A-Za-z0-9_-]{43}$/)
    expect(rest).toEqual({
      client_id_issued_at: world.nowMs / 1_000,
      client_secret_expires_at: 0,
      client_name: "Example",
      redirect_uris: [uri],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "client_secret_basic",
      application_type: "web",
      agent: false
    })
    const row = Clients.get(world.store, [client_id])!
    expect(JSON.stringify(row)).not.toContain(client_secret)
    expect([
      secretMatches(world.authority, row, client_secret),
      secretMatches(world.authority, row, client_secret.toLowerCase()),
      secretMatches(world.authority, undefined, client_secret)
    ]).toEqual([true, false, false])
    expect(world.lastAudit).toMatchObject({
      action: "client.registered",
      clientId: client_id,
      ip: "127.0.0.1"
    })
  })
  it("a public client has no secret members; a name that is absent or empty is the id", async () => {
    const world = new World()
    for (const client_name of [undefined, ""]) {
      const { body } = await world.join({
        redirect_uris: ["http://127.0.0.1:3000/cb"],
        token_endpoint_auth_method: "none",
        client_name,
        application_type: "native"
      })
      expect(body).not.toHaveProperty("client_secret")
      expect(body).not.toHaveProperty("client_secret_expires_at")
      expect(body).toMatchObject({ client_name: body.client_id, application_type: "native" })
    }
  })
  it("an agent and its description are kept and shown", async () => {
    const { body } = await new World().join({
      redirect_uris: [uri],
      agent: true,
      agent_description: "Searches the web"
    })
    expect(body).toMatchObject({ agent: true, agent_description: "Searches the web" })
  })
  it("the default ceiling is for user grants only, and shown", async () => {
    const world = new World({ defaultClientScope: "files:read files:write" })
    expect((await world.join({ redirect_uris: [uri] })).body.scope).toBe("files:read files:write")
    expect((await world.join({ grant_types: ["client_credentials"] })).body).not.toHaveProperty("scope")
  })
  it("without authorization_code no redirect URI and no response type is needed", async () => {
    const { status, body } = await new World().join({
      grant_types: ["client_credentials"],
      response_types: []
    })
    expect([status, body.response_types, body.redirect_uris]).toEqual([201, [], []])
  })
})

describe("what is refused", () => {
  it.each([
    "javascript:alert(1)",
    "data:text/html,x",
    "myapp://cb",
    "http://evil.example/cb",
    "https://a.example/cb#f",
    "https:///x",
    "https://*.example.com/cb",
    "https://user@a.example/cb",
    "https://a.example/%2e%2e/cb",
    "https://a.example/cb?code=1",
    "https://a.example/c b"
  ])("AS-121: redirect URI %s", async (bad) => {
    await refusedFor({ redirect_uris: [uri, bad] }, "invalid_client_metadata", bad.slice(0, 100))
  })
  it("AS-122: mode approved_redirects wants every URI byte for byte, and one at least", async () => {
    const settings: SettingsInput = { registration: { mode: "approved_redirects", approvedRedirects: [uri] } }
    for (const bad of [`${uri}?x=1`, `${uri}/`, "https://APP.example.com/cb"])
      await refusedFor({ redirect_uris: [uri, bad] }, "invalid_redirect_uri", bad, settings)
    await refusedFor(
      { grant_types: ["client_credentials"] },
      "invalid_redirect_uri",
      "redirect_uris",
      settings
    )
    await refusedFor(
      { redirect_uris: ["http://evil.example/cb"] },
      "invalid_client_metadata",
      "http://evil.example/cb",
      settings
    )
    expect((await new World(settings).join({ redirect_uris: [uri] })).status).toBe(201)
  })
  it("AS-123: mode admin_only, whatever the body", async () => {
    const settings: SettingsInput = { registration: { mode: "admin_only" } }
    await refusedFor({ redirect_uris: [uri] }, "access_denied", "administrator", settings)
    await refusedFor("{", "access_denied", "administrator", settings)
  })
  it.each([
    [{ agent_description: "é".repeat(256) }, "agent_description"],
    [{ application_type: "mobile" }, "mobile"],
    [{ token_endpoint_auth_method: "private_key_jwt" }, "private_key_jwt"],
    [{ grant_types: ["implicit"] }, "implicit"],
    [{ grant_types: ["password"] }, "password"],
    [{ grant_types: ["authorization_code", "x"] }, "'x'"],
    [{ grant_types: [] }, "grant_types"],
    [{ response_types: ["token"] }, "response_types"],
    [{ response_types: [] }, "response_types"],
    [{ response_types: ["code", "token"] }, "response_types"]
  ])("AS-124: %j", async (bad, naming) => {
    await refusedFor({ redirect_uris: [uri], ...bad }, "invalid_client_metadata", naming)
  })
  it("AS-124: a description of 255 characters outside the basic plane is taken", async () => {
    expect(
      (await new World().join({ redirect_uris: [uri], agent_description: "😀".repeat(255) })).status
    ).toBe(201)
  })
  it("AS-125: what only the server decides has no effect", async () => {
    const world = new World()
    const { status, body } = await world.join(
      `{"redirect_uris":["${uri}"],"client_id":"mine","registration_source":"admin","scope":"admin","status":"revoked","__proto__":{"agent":true},"constructor":1,"jwks":{},"contacts":["a"]}`
    )
    expect([status, body.agent, body.scope]).toEqual([201, false, undefined])
    expect(body.client_id).not.toBe("mine")
    expect(Clients.get(world.store, [body.client_id])).toMatchObject({
      source: "dcr",
      scopes: [],
      status: "active"
    })
    expect(body).not.toHaveProperty("jwks")
  })
  it.each([
    { redirect_uris: uri },
    { redirect_uris: [1] },
    { redirect_uris: null },
    { client_name: 1 },
    { client_name: null },
    { token_endpoint_auth_method: 1 },
    { application_type: [] },
    { grant_types: "authorization_code" },
    { grant_types: [1] },
    { response_types: "code" },
    { agent: "true" },
    { agent: 1 },
    { agent_description: {} }
  ])("a wrong JSON type is named: %j", async (bad) => {
    await refusedFor({ redirect_uris: [uri], ...bad }, "invalid_client_metadata", Object.keys(bad)[0]!)
  })
  it("names that could disguise themselves, and names too long", async () => {
    for (const client_name of ["a\u202eb", "a\u0007b", "a\u0085b", "\u2066a", "   ", "x".repeat(201)])
      await refusedFor({ redirect_uris: [uri], client_name }, "invalid_client_metadata", "client_name")
    expect(
      (await new World().join({ redirect_uris: [uri], client_name: ` ${"x".repeat(200)} ` })).body.client_name
    ).toBe("x".repeat(200))
  })
  it("authorization_code without redirect URIs, more than 20 of them, one too long", async () => {
    await refusedFor({}, "invalid_client_metadata", "redirect_uris")
    await refusedFor({ redirect_uris: [] }, "invalid_client_metadata", "redirect_uris")
    await refusedFor(
      { redirect_uris: Array.from({ length: 21 }, (_, at) => `${uri}/${at}`) },
      "invalid_client_metadata",
      "redirect_uris"
    )
    await refusedFor(
      { redirect_uris: [`${uri}/${"x".repeat(2_048)}`] },
      "invalid_client_metadata",
      "redirect_uris"
    )
  })
  it("a grant that is off names its variable", async () => {
    await refusedFor(
      { redirect_uris: [uri], grant_types: ["client_credentials"] },
      "invalid_client_metadata",
      "SERVICE_CLIENT_CREDENTIALS_ENABLED",
      { clientCredentials: { enabled: false } }
    )
    await refusedFor(
      { redirect_uris: [uri], grant_types: [exchange] },
      "invalid_client_metadata",
      "SERVICE_TOKEN_EXCHANGE_ENABLED",
      { tokenExchange: { enabled: false } }
    )
    await refusedFor(
      { redirect_uris: [uri], grant_types: [bearer] },
      "invalid_client_metadata",
      "SERVICE_XAA_ENABLED",
      { xaa: { enabled: false } }
    )
  })
  it("a client without a secret has no grant that needs one", async () => {
    for (const grant of ["client_credentials", exchange, bearer])
      await refusedFor(
        { token_endpoint_auth_method: "none", grant_types: [grant] },
        "invalid_client_metadata",
        grant
      )
    expect(
      (
        await new World({ xaa: { allowPublicClients: true } }).join({
          token_endpoint_auth_method: "none",
          grant_types: [bearer]
        })
      ).status
    ).toBe(201)
  })
  it("bodies that are no JSON object of the right media type", async () => {
    const world = new World()
    for (const [body, type] of [
      ["{", undefined],
      ["[]", undefined],
      ['{"a":1,"a":2}', undefined],
      ["a=b", "application/x-www-form-urlencoded"],
      [`{"a":${"[".repeat(20)}${"]".repeat(20)}}`, undefined]
    ] as const) {
      const answer = await world.join(body, type === undefined ? {} : { type })
      expect([answer.status, answer.body.error]).toEqual([400, "invalid_request"])
    }
  })
  it("the rate limit is asked after the mode and before the body", async () => {
    const limited = (): Problem => slowDown(1_000)
    expect((await new World({}, { limited }).join("{")).status).toBe(429)
    expect((await new World({ registration: { mode: "admin_only" } }, { limited }).join("{")).status).toBe(
      403
    )
  })
})

it("clients that registered and never had a code are removed after the time allowed, others stay", async () => {
  const world = new World()
  const unused = new UnusedClients(world.authority)
  const idle = (await world.join({ redirect_uris: [uri] })).body.client_id
  const used = (await world.join({ redirect_uris: [uri] })).body.client_id
  await world.books.write([Clients.put([used], { ...Clients.get(world.store, [used])!, used: true })])
  const created = (await world.client()).client_id
  world.nowMs += 30 * 86_400_000
  await unused.sweep()
  expect(world.books.get(Clients, [idle])).toBeDefined()
  world.nowMs += 1
  await unused.sweep()
  expect([idle, used, created].map((id) => world.books.get(Clients, [id]) !== undefined)).toEqual([
    false,
    true,
    true
  ])
  expect(world.lastAudit).toMatchObject({ action: "client.deleted", clientId: idle, detail: "reason=unused" })
})
