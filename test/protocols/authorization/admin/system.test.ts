/** Keys, audit, settings, stats, status, configuration: sections 16.7 and 21. And what no answer may hold. */
import { describe, expect, it } from "vitest"
import { Clients, SigningKeys, Users } from "../../../../protocols/authorization/records.ts"
import { registrationRule } from "../../../../protocols/authorization/client/register.ts"
import { adminKey, World } from "./world.ts"

it("keys: public facts alone; rotation answers and is recorded", async () => {
  const world = new World()
  expect(await world.did("POST", "/admin/keys/rotate", {})).toEqual({ kid: "kid-0", alg: "ES256" })
  expect(world.lastAudit).toMatchObject({ action: "key.rotated", detail: "kid=kid-0 alg=ES256" })
  world.nowMs += 1
  const { kid } = await world.did("POST", "/admin/keys/rotate", { alg: "RS256" })
  const { keys } = await world.did("GET", "/admin/keys")
  expect(keys).toEqual([
    {
      kid,
      alg: "RS256",
      use: "sig",
      status: "active",
      created_at: "2026-09-01T10:00:00.001Z",
      activated_at: "2026-09-01T10:00:00.001Z"
    },
    expect.objectContaining({ kid: "kid-0", alg: "ES256" })
  ])
  await world.refused("POST", "/admin/keys/rotate", { alg: "HS256" }, 400, "invalid_request", "alg")
})

it("A-11: a signing key is withdrawn, and recorded; an unknown one is 404", async () => {
  const world = new World()
  await world.did("POST", "/admin/keys/rotate", {})
  expect(await world.did("POST", "/admin/keys/kid-0/withdraw", {})).toEqual({
    kid: "kid-0",
    status: "retired",
    successor: "next"
  })
  expect(world.lastAudit).toMatchObject({ action: "key.withdrawn", detail: "kid=kid-0 successor=next" })
  await world.refused("POST", "/admin/keys/kid-1/withdraw", {}, 404, "not_found", "signing key")
  await world.refused("POST", "/admin/keys/kid-0/withdraw", { why: "" }, 400, "invalid_request", "why")
})

it("A-1: the list of keys is whole, however many there are", async () => {
  const world = new World()
  await world.did("POST", "/admin/keys/rotate", {})
  const { books } = world.authority
  const { value } = [...books.rows(SigningKeys)][0]!
  const kids = Array.from({ length: 1_200 }, (_, i) => `retired-${i}`)
  await books.write(kids.map((kid) => SigningKeys.put([kid], { ...value, kid, status: "retired" })))
  expect((await world.did("GET", "/admin/keys"))["keys"]).toHaveLength(1_201)
})

describe("audit", () => {
  it("newest first; filters; since, until, limit and offset", async () => {
    const world = new World()
    const one = await world.client()
    world.nowMs += 3_600_000
    const two = await world.client()
    await world.did("PATCH", `/admin/clients/${one.client_id}/suspend`)
    const actions = async (query: string) =>
      (await world.did("GET", `/admin/audit?${query}`)).events.map(
        (event: any) => `${event.action} ${event.client_id === one.client_id ? 1 : 2}`
      )
    expect(await actions("")).toEqual([
      "client.suspended 1",
      "client.created_admin 2",
      "client.created_admin 1"
    ])
    expect(await actions("action=client.created_admin")).toEqual([
      "client.created_admin 2",
      "client.created_admin 1"
    ])
    expect(await actions(`client_id=${two.client_id}`)).toEqual(["client.created_admin 2"])
    expect([
      await actions("actor_id=admin&limit=1"),
      await actions("limit=1&offset=2"),
      await actions("actor_id=x")
    ]).toEqual([["client.suspended 1"], ["client.created_admin 1"], []])
    expect([
      await actions("since=30m"),
      await actions("until=30m"),
      await actions(`until=${encodeURIComponent(new Date(world.nowMs).toISOString())}`)
    ]).toEqual([
      ["client.suspended 1", "client.created_admin 2"],
      ["client.created_admin 1"],
      ["client.suspended 1", "client.created_admin 2", "client.created_admin 1"]
    ])
    world.nowMs += 86_400_001
    expect([await actions(""), (await actions("since=26h")).length]).toEqual([[], 3])
  })
  it("the view, its detail percent-encoded", async () => {
    const world = new World()
    const { id } = await world.did("POST", "/admin/idps", {
      name: "x",
      issuer: "https://idp.example/a b".replace(" ", "?c=d&e")
    })
    const [event] = (await world.did("GET", "/admin/audit")).events
    expect(event).toEqual({
      id: event.id,
      action: "idp.created",
      actor_id: "admin",
      client_id: "",
      ip: "127.0.0.1",
      detail: `id=${id} issuer=https%3A%2F%2Fidp.example%2Fa%3Fc%3Dd%26eb`,
      trace_id: "0".repeat(32),
      created_at: "2026-09-01T10:00:00.000Z"
    })
  })
  it("bad times, limits and offsets; longer back than 30 days", async () => {
    const world = new World()
    for (const query of [
      "since=721h",
      "since=x",
      "until=x",
      "limit=0",
      "limit=1001",
      "offset=-1",
      "offset=100001",
      `since=${encodeURIComponent("2026-01-01T00:00:00Z")}`
    ])
      await world.refused("GET", `/admin/audit?${query}`, undefined, 400, "invalid_request")
    await world.did("GET", "/admin/audit?since=720h&limit=1000&offset=100000")
  })
})

describe("settings/dcr", () => {
  it("overrides the configuration until it is changed, at once and after a restart", async () => {
    const world = new World()
    const uri = "https://app.example.com/cb"
    expect(await world.did("GET", "/admin/settings/dcr")).toEqual({ mode: "open", approved_redirects: [] })
    expect(await world.did("PATCH", "/admin/settings/dcr", { mode: "admin_only" })).toEqual({
      mode: "admin_only",
      approved_redirects: []
    })
    expect(world.lastAudit).toMatchObject({
      action: "dcr.mode_updated",
      detail: "mode=admin_only before=open"
    })
    expect((await world.join({ redirect_uris: [uri] })).status).toBe(403)
    expect(registrationRule(new World({}, {}, world.store).authority).mode).toBe("admin_only")
    await world.did("PATCH", "/admin/settings/dcr", { mode: "approved_redirects", approved_redirects: [uri] })
    expect([
      (await world.join({ redirect_uris: [uri] })).status,
      (await world.join({ redirect_uris: [`${uri}2`] })).body.error
    ]).toEqual([201, "invalid_redirect_uri"])
    expect(await world.did("PATCH", "/admin/settings/dcr", { mode: "open" })).toEqual({
      mode: "open",
      approved_redirects: [uri]
    })
  })
  it("what is refused", async () => {
    const world = new World()
    for (const [body, naming] of [
      [{ mode: "closed" }, "mode"],
      [{ mode: "approved_redirects" }, "approved_redirects"],
      [{ approved_redirects: ["http://evil.example"] }, "http://evil.example"],
      [{ approved_redirects: "x" }, "approved_redirects"]
    ] as const) {
      await world.refused("PATCH", "/admin/settings/dcr", body, 400, "invalid_request", naming)
    }
  })
})

it("auth/verify, stats, system/status", async () => {
  const world = new World()
  const ann = await world.user()
  const { client_id: clientId } = await world.client()
  const provider = await world.provider()
  await world.brokerGrant(ann.id, provider.id)
  await world.issuance({ clientId })
  await world.issuance({ clientId, revokedMs: world.nowMs })
  await world.issuance({ clientId, expiresMs: world.nowMs })
  expect(await world.did("POST", "/admin/auth/verify")).toEqual({ valid: true, version: "1.2.3" })
  expect(await world.did("GET", "/admin/stats")).toEqual({
    clients: 1,
    users: 1,
    active_tokens_24h: 1,
    revoked_tokens: 1,
    connections: 1
  })
  expect(await world.did("GET", "/admin/system/status")).toMatchObject({
    status: "ok",
    version: "1.2.3",
    uptime_seconds: 5,
    subsystems: { store: "ok", keys: "ok" }
  })
  expect(
    (await new World({}, { subsystems: () => ({ store: "full" }) }).did("GET", "/admin/system/status")).status
  ).toBe("degraded")
})

it("system/config tells whether a secret is set, never what it is", async () => {
  const world = new World({
    session: { secret: "the-session-secret-of-32-characters" },
    federation: { clientSecret: "the-federation-secret" }
  })
  const answer = await world.ask("GET", "/admin/system/config")
  expect(answer.body).toMatchObject({
    issuer: "http://localhost:8080",
    admin_api_key_set: true,
    client_secret_pepper_set: true,
    session: { secret_set: true, max_age_ms: 86_400_000 },
    federation: { client_secret_set: true },
    registration: { mode: "open" }
  })
  await world.did("PATCH", "/admin/settings/dcr", { mode: "admin_only" })
  expect((await world.did("GET", "/admin/system/config")).registration).toMatchObject({
    mode: "admin_only",
    approved_redirects: [],
    unused_ms: 2_592_000_000
  })
  for (const secret of [adminKey, "the-session-secret", "the-federation-secret", "a pepper"])
    expect(answer.text).not.toContain(secret)
})

it("AS-149: no answer and no audit event holds a secret hash, a password, a credential or a key, nor a secret that is not its one showing", async () => {
  const world = new World()
  const password = "correct horse battery"
  const ann = await world.user({ password })
  const client = await world.client()
  const provider = await world.provider()
  const resource = await world.resource()
  const { client_secret } = await world.did("POST", `/admin/clients/${client.client_id}/rotate-secret`, {
    keep_previous_for: "1h"
  })
  await world.brokerGrant(ann.id, provider.id)
  await world.consent(ann.id, client.client_id, resource.id)
  await world.issuance({ clientId: client.client_id, userId: ann.id })
  await world.did("POST", "/admin/keys/rotate", {})
  const logLength = world.said.length
  for (const path of [
    "clients",
    `clients/${client.client_id}`,
    "resources",
    `resources/${resource.id}`,
    "broker-providers",
    `broker-providers/${provider.id}`,
    "idps",
    "xaa/policies",
    "xaa/subject-mappings",
    "users",
    `users/${ann.id}`,
    `users/${ann.id}/tokens`,
    `users/${ann.id}/grants`,
    "issuances",
    "tokens",
    "keys",
    "audit",
    "settings/dcr",
    "stats",
    "system/status",
    "system/config"
  ])
    await world.did("GET", `/admin/${path}`)
  await world.did("PATCH", `/admin/clients/${client.client_id}`, { client_name: "x" })
  await world.did("PATCH", `/admin/users/${ann.id}`, { password: "another long password" })
  await world.did("PATCH", `/admin/broker-providers/${provider.id}`, { display_name: "x" })
  const all = world.said.slice(logLength).join("\n") + JSON.stringify(world.audits())
  const row = Clients.get(world.store, [client.client_id])!
  for (const secret of [
    client.client_secret,
    client_secret,
    row.secretHash!,
    row.previousHash!,
    password,
    "another long password",
    Users.get(world.store, [ann.id])!.passwordHash!,
    "upstream-secret",
    "sealed-credential",
    adminKey
  ]) {
    expect(all.includes(secret), secret).toBe(false)
  }
  expect(
    /secret_hash|password_hash|credential_data|enc_secret|"credential"|"private|sealed/i.exec(all)?.[0]
  ).toBeUndefined()
})
