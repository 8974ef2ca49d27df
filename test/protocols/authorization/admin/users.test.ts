/** Users, grants, issuances and tokens: sections 16.6 to 16.8 and 18.4. */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import {
  BrokerGrants,
  ConsentKeys,
  Consents,
  Issuances,
  UserEmails,
  Users
} from "../../../../protocols/authorization/records.ts"
import { HashQueueFull } from "../../../../actors/hashing/scrypt-threads.ts"
import { World } from "./world.ts"

const password = "correct horse battery"

const activeOf = async (world: World, filter: string): Promise<number> =>
  (await world.did("GET", `/admin/issuances?active=true&${filter}`)).count

describe("users", () => {
  it("POST: 201, never a hash; the e-mail is unique without case", async () => {
    const world = new World()
    const created = await world.user({ password, role: "admin" })
    expect(created).toEqual({
      id: created.id,
      email: "Ann@Example.com",
      name: "Ann",
      role: "admin",
      status: "active",
      federated: false,
      created_at: "2026-09-01T10:00:00.000Z",
      updated_at: "2026-09-01T10:00:00.000Z",
      last_login_at: null
    })
    expect(Users.get(world.store, [created.id])!.passwordHash).toBe(`hashed:${password.length}`)
    expect(world.lastAudit).toMatchObject({ action: "user.created", detail: `id=${created.id}` })
    await world.refused("POST", "/admin/users", { email: "ann@example.COM" }, 409, "conflict")
  })
  it("POST: what is refused", async () => {
    const world = new World()
    for (const [body, naming] of [
      [{}, "email"],
      [{ email: "ann" }, "email"],
      [{ email: "a b@c" }, "email"],
      [{ email: "a@b@c" }, "email"],
      [{ email: `${"x".repeat(251)}@a.b` }, "email"],
      [{ email: "a@b", password: "short" }, "password"],
      [{ email: "a@b", password: "x".repeat(257) }, "password"],
      [{ email: "a@b", password: 1 }, "password"],
      [{ email: "a@b", role: "root" }, "role"],
      [{ email: "a@b", name: "x\u202e" }, "name"],
      [{ email: "a@b", session_epoch: 1 }, "session_epoch"]
    ] as const)
      await world.refused("POST", "/admin/users", body, 400, "invalid_request", naming)
    expect(
      (
        await new World({}, { hashPassword: () => Effect.fail(new HashQueueFull()) }).ask(
          "POST",
          "/admin/users",
          { body: { email: "a@b", password } }
        )
      ).status
    ).toBe(429)
  })
  it("GET: filters", async () => {
    const world = new World()
    const ann = await world.user()
    await world.user({ email: "bob@example.com" })
    await world.did("PATCH", `/admin/users/${ann.id}/disable`)
    const emails = async (query: string) =>
      (await world.did("GET", `/admin/users?${query}`)).users.map((row: any) => row.email)
    expect([
      await emails("email=ann%40example.com"),
      await emails("status=active"),
      await emails("status=disabled"),
      await emails("email=x")
    ]).toEqual([["Ann@Example.com"], ["bob@example.com"], ["Ann@Example.com"], []])
    await world.refused("GET", "/admin/users/none", undefined, 404, "not_found")
  })
  it("PATCH: an e-mail is given back; a password ends what was given before", async () => {
    const world = new World()
    const ann = await world.user()
    const bob = await world.user({ email: "bob@example.com" })
    expect(
      await world.did("PATCH", `/admin/users/${ann.id}`, { email: "anna@example.com", name: "" })
    ).toMatchObject({ email: "anna@example.com", name: "" })
    expect([
      UserEmails.get(world.store, ["ann@example.com"]),
      UserEmails.get(world.store, ["anna@example.com"])
    ]).toEqual([undefined, { id: ann.id }])
    expect(Users.get(world.store, [ann.id])!.epoch).toBe(0)
    await world.refused("PATCH", `/admin/users/${bob.id}`, { email: "Anna@example.com" }, 409, "conflict")
    await world.did("PATCH", `/admin/users/${ann.id}`, { email: "ANNA@example.com", password })
    expect(Users.get(world.store, [ann.id])).toMatchObject({
      email: "ANNA@example.com",
      epoch: 1,
      passwordHash: `hashed:${password.length}`
    })
    await world.refused(
      "PATCH",
      `/admin/users/${ann.id}`,
      { password: "short" },
      400,
      "invalid_request",
      "password"
    )
    await world.refused("PATCH", "/admin/users/none", {}, 404, "not_found")
  })
  it("what changes while a password is hashed is kept", async () => {
    let release = (): void => {}
    const world = new World(
      {},
      {
        hashPassword: () =>
          Effect.callback((resume) => {
            release = () => resume(Effect.succeed("hashed:late"))
          })
      }
    )
    const ann = await world.user()
    const slow = world.did("PATCH", `/admin/users/${ann.id}`, { password })
    await world.did("PATCH", `/admin/users/${ann.id}/disable`)
    release()
    await slow
    expect(Users.get(world.store, [ann.id])).toMatchObject({
      status: "disabled",
      epoch: 2,
      passwordHash: "hashed:late"
    })
  })
  it("18.5: disable and enable; tokens stay dead", async () => {
    const world = new World()
    const ann = await world.user()
    const client = await world.client()
    const at = `/admin/users/${ann.id}`
    await world.issuance({ clientId: client.client_id, userId: ann.id })
    expect(await activeOf(world, `subject_user_id=${ann.id}`)).toBe(1)
    expect(await world.did("PATCH", `${at}/enable`)).toEqual({ status: "active" })
    expect(await world.did("PATCH", `${at}/disable`)).toEqual({ status: "disabled" })
    const events = world.audits().length
    expect(await world.did("PATCH", `${at}/disable`)).toEqual({ status: "disabled" })
    expect(world.audits()).toHaveLength(events)
    expect(await activeOf(world, `subject_user_id=${ann.id}`)).toBe(0)
    expect(await world.did("PATCH", `${at}/enable`)).toEqual({ status: "active" })
    expect(await activeOf(world, `subject_user_id=${ann.id}`)).toBe(0)
    expect(
      world
        .audits()
        .slice(-2)
        .map(({ action }) => action)
    ).toEqual(["user.disabled", "user.enabled"])
    await world.refused("PATCH", "/admin/users/none/disable", undefined, 404, "not_found")
  })
  it("tokens: the live ones; force-logout counts them and ends them, those issued later live", async () => {
    const world = new World()
    const ann = await world.user()
    const bob = await world.user({ email: "bob@example.com" })
    const { client_id: clientId } = await world.client()
    const at = `/admin/users/${ann.id}/tokens`
    const one = await world.issuance({ clientId, userId: ann.id })
    const child = await world.issuance({ clientId, userId: ann.id, parentJti: one.jti })
    await world.issuance({ clientId, userId: ann.id, expiresMs: world.nowMs })
    await world.issuance({ clientId, userId: ann.id, revokedMs: world.nowMs })
    await world.issuance({ clientId, userId: bob.id })
    expect((await world.did("GET", at)).tokens.map((row: any) => row.jti)).toEqual([child.jti, one.jti])
    expect(await world.did("DELETE", at)).toEqual({ revoked: 2 })
    expect(world.lastAudit).toMatchObject({
      action: "user.force_logout",
      detail: `id=${ann.id} revoked_issuances=2`
    })
    expect([
      (await world.did("GET", at)).tokens,
      await world.did("DELETE", at),
      await activeOf(world, `subject_user_id=${bob.id}`)
    ]).toEqual([[], { revoked: 0 }, 1])
    await world.issuance({ clientId, userId: ann.id })
    expect((await world.did("GET", at)).tokens).toHaveLength(1)
    await world.refused("DELETE", "/admin/users/none/tokens", undefined, 404, "not_found")
  })
  it("grants: live ones, never a credential (AS-149)", async () => {
    const world = new World()
    const ann = await world.user()
    const client = await world.client()
    const resource = await world.resource()
    const provider = await world.provider()
    const consent = await world.consent(ann.id, client.client_id, resource.id)
    const broker = await world.brokerGrant(ann.id, provider.id)
    const times = { created_at: "2026-09-01T10:00:00.000Z", updated_at: "2026-09-01T10:00:00.000Z" }
    expect(await world.did("GET", `/admin/users/${ann.id}/grants`)).toEqual({
      consent_grants: [
        {
          id: consent.id,
          user_id: ann.id,
          client_id: client.client_id,
          resource_id: resource.id,
          scopes: ["files:read"],
          ...times
        }
      ],
      broker_grants: [
        {
          id: broker.id,
          user_id: ann.id,
          broker_provider_id: provider.id,
          scopes_granted: ["repo"],
          version: 1,
          ...times
        }
      ]
    })
    await world.did("DELETE", `/admin/grants/consent/${consent.id}`)
    await world.did("DELETE", `/admin/grants/broker/${broker.id}`)
    expect(await world.did("GET", `/admin/users/${ann.id}/grants`)).toEqual({
      consent_grants: [],
      broker_grants: []
    })
  })
  it("grants: a consent ends with its client and with its resource", async () => {
    const world = new World()
    const ann = await world.user()
    const [one, two] = [await world.client(), await world.client()]
    const [files, other] = [await world.resource(), await world.resource({ slug: "other", uri: "" })]
    const remaining = await world.consent(ann.id, one.client_id, files.id)
    await world.consent(ann.id, two.client_id, files.id)
    await world.consent(ann.id, one.client_id, other.id)
    await world.did("PATCH", `/admin/clients/${two.client_id}/revoke`)
    await world.did("DELETE", "/admin/resources/other")
    expect(
      (await world.did("GET", `/admin/users/${ann.id}/grants`)).consent_grants.map((row: any) => row.id)
    ).toEqual([remaining.id])
    await world.did("PATCH", `/admin/clients/${one.client_id}/suspend`)
    expect((await world.did("GET", `/admin/users/${ann.id}/grants`)).consent_grants).toHaveLength(1)
  })
  it("DELETE: the account, its e-mail, consents and connections; its tokens are dead; the address is free again", async () => {
    const world = new World()
    const ann = await world.user()
    const bob = await world.user({ email: "bob@example.com" })
    const client = await world.client()
    const resource = await world.resource()
    const provider = await world.provider()
    const consent = await world.consent(ann.id, client.client_id, resource.id)
    const remaining = await world.consent(bob.id, client.client_id, resource.id)
    await world.brokerGrant(ann.id, provider.id)
    await world.issuance({ clientId: client.client_id, userId: ann.id, consentId: consent.id })
    expect((await world.ask("DELETE", `/admin/users/${ann.id}`)).status).toBe(204)
    expect(world.lastAudit.action).toBe("user.deleted")
    expect([
      await activeOf(world, `subject_user_id=${ann.id}`),
      BrokerGrants.range(world.store, { limit: 9 }).length,
      ConsentKeys.range(world.store, { limit: 9 }).length,
      Consents.get(world.store, [consent.id])!.revokedMs,
      Consents.get(world.store, [remaining.id])!.revokedMs,
      world.upstream.length
    ]).toEqual([0, 0, 1, world.nowMs, null, 1])
    await world.refused("DELETE", `/admin/users/${ann.id}`, undefined, 404, "not_found")
    await world.user()
  })
})

describe("consent revocation", () => {
  it("everything that rests on it dies at once, at any distance; a sibling's does not; the record counts", async () => {
    const world = new World()
    const ann = await world.user()
    const resource = await world.resource()
    const clients = [await world.client(), await world.client(), await world.client()].map(
      ({ client_id }) => client_id as string
    )
    const consent = await world.consent(ann.id, clients[0]!, resource.id)
    const sibling = await world.consent(ann.id, clients[1]!, resource.id)
    world.families.add("family-1")
    let parent = await world.issuance({
      clientId: clients[0]!,
      userId: ann.id,
      consentClientId: clients[0]!,
      consentId: consent.id,
      resourceId: resource.id,
      familyId: "family-1"
    })
    const chain = [parent]
    for (let i = 0; i < 5; i++)
      chain.push(
        (parent = await world.issuance({ clientId: clients[i % 3]!, userId: ann.id, parentJti: parent.jti }))
      )
    await world.issuance({
      clientId: clients[0]!,
      userId: ann.id,
      consentClientId: clients[0]!,
      consentId: consent.id,
      resourceId: resource.id,
      familyId: "family-ended",
      expiresMs: world.nowMs
    })
    const other = await world.issuance({
      clientId: clients[1]!,
      userId: ann.id,
      consentClientId: clients[1]!,
      consentId: sibling.id,
      resourceId: resource.id,
      familyId: "family-2"
    })
    expect(await activeOf(world, `subject_user_id=${ann.id}`)).toBe(7)
    expect((await world.ask("DELETE", `/admin/grants/consent/${consent.id}`)).status).toBe(204)
    expect(world.lastAudit).toMatchObject({
      action: "consent_grant.revoked_admin",
      clientId: clients[0],
      detail: `id=${consent.id} user_id=${ann.id} revoked_issuances=6 revoked_families=1`
    })
    for (const { jti } of chain) expect(await activeOf(world, `jti=${jti}`)).toBe(0)
    expect([
      await activeOf(world, `jti=${other.jti}`),
      ConsentKeys.get(world.store, [ann.id, clients[0]!, resource.id]),
      Consents.get(world.store, [consent.id])!.revokedMs
    ]).toEqual([1, undefined, world.nowMs])
  })
  it("twice is 204 and one record; a consent given since is another grant and stays", async () => {
    const world = new World()
    const ann = await world.user()
    const { client_id } = await world.client()
    const resource = await world.resource()
    const consent = await world.consent(ann.id, client_id, resource.id)
    await world.did("DELETE", `/admin/grants/consent/${consent.id}`)
    const again = await world.consent(ann.id, client_id, resource.id)
    const events = world.audits().length
    expect((await world.ask("DELETE", `/admin/grants/consent/${consent.id}`)).status).toBe(204)
    expect([world.audits().length, ConsentKeys.get(world.store, [ann.id, client_id, resource.id])]).toEqual([
      events,
      { id: again.id }
    ])
    await world.refused("DELETE", "/admin/grants/consent/none", undefined, 404, "not_found")
  })
  it("two at once: both 204, one record", async () => {
    const world = new World()
    const ann = await world.user()
    const { client_id } = await world.client()
    const resource = await world.resource()
    const consent = await world.consent(ann.id, client_id, resource.id)
    const both = await Promise.all(
      [1, 2].map(() => world.ask("DELETE", `/admin/grants/consent/${consent.id}`))
    )
    expect([
      both.map(({ status }) => status),
      world.audits().filter(({ action }) => action === "consent_grant.revoked_admin").length
    ]).toEqual([[204, 204], 1])
  })
})

it("a broker grant is revoked: the credential is gone from the store, the upstream is told once; twice is 204", async () => {
  const world = new World()
  const ann = await world.user()
  const provider = await world.provider()
  const grant = await world.brokerGrant(ann.id, provider.id)
  for (let i = 0; i < 2; i++)
    expect((await world.ask("DELETE", `/admin/grants/broker/${grant.id}`)).status).toBe(204)
  expect(BrokerGrants.get(world.store, [ann.id, provider.id])).toMatchObject({
    credential: null,
    revokedMs: world.nowMs
  })
  expect([
    world.upstream.map(({ id, credential }) => [id, credential !== null]),
    world.audits().filter(({ action }) => action === "broker_grant.revoked_admin").length
  ]).toEqual([[[grant.id, true]], 1])
  await world.refused("DELETE", "/admin/grants/broker/none", undefined, 404, "not_found")
})

describe("issuances and tokens", () => {
  it("the view omits what is empty", async () => {
    const world = new World()
    const { client_id } = await world.client()
    const row = await world.issuance({ clientId: client_id, grantType: "client_credentials" })
    expect(await world.did("GET", `/admin/issuances/${row.jti}`)).toEqual({
      id: row.jti,
      jti: row.jti,
      grant_type: "client_credentials",
      sub: client_id,
      client_id,
      audience: "https://mcp.example.com/mcp",
      scopes: ["files:read"],
      backend_kind: "mint",
      revocable: true,
      issued_at: "2026-09-01T10:00:00.000Z",
      expires_at: "2026-09-01T10:15:00.000Z"
    })
    const full = await world.issuance({
      clientId: client_id,
      userId: "u",
      parentJti: "p",
      agentId: "a",
      agentChain: ["x", "y"],
      jkt: "j",
      familyId: "f",
      revokedMs: world.nowMs,
      revokedReason: "reuse"
    })
    expect(await world.did("GET", `/admin/issuances/${full.jti}`)).toMatchObject({
      subject_user_id: "u",
      parent_jti: "p",
      agent_id: "a",
      agent_chain: ["x", "y"],
      dpop_jkt: "j",
      family_id: "f",
      revoked_at: "2026-09-01T10:00:00.000Z",
      revoked_reason: "reuse"
    })
    await world.refused("GET", "/admin/issuances/none", undefined, 404, "not_found")
  })
  it("filters, since (a day by default), count and pages", async () => {
    const world = new World()
    const { client_id: clientId } = await world.client()
    const old = await world.issuance({ clientId })
    world.nowMs += 86_400_001
    const one = await world.issuance({ clientId, resourceId: "r", familyId: "f" })
    const two = await world.issuance({ clientId, userId: "u" })
    const page = await world.did("GET", "/admin/issuances")
    expect([page.issuances.map((row: any) => row.jti), page.count, page.since, page.next_cursor]).toEqual([
      [two.jti, one.jti],
      2,
      new Date(world.nowMs - 86_400_000).toISOString(),
      null
    ])
    const found = async (query: string) =>
      (await world.did("GET", `/admin/issuances?${query}`)).issuances.map((row: any) => row.jti)
    expect([
      await found("resource_id=r"),
      await found("family_id=f"),
      await found("subject_user_id=u"),
      await found(`jti=${old.jti}`),
      await found(`jti=${old.jti}&since=48h`),
      await found("client_id=none")
    ]).toEqual([[one.jti], [one.jti], [two.jti], [], [old.jti], []])
    expect(
      await found(`since=${encodeURIComponent(new Date(world.nowMs - 86_400_001).toISOString())}`)
    ).toHaveLength(3)
    for (const query of ["since=yesterday", "since=1.5h", "since=2026-13-01T00:00:00Z", "limit=500"])
      await world.refused("GET", `/admin/issuances?${query}`, undefined, 400, "invalid_request")
  })
  it("18.4: revoking a row ends it and what was exchanged from it; vended ones cannot be; twice is 204", async () => {
    const world = new World()
    const { client_id: clientId } = await world.client()
    const row = await world.issuance({ clientId })
    const child = await world.issuance({ clientId, parentJti: row.jti })
    const vended = await world.issuance({ clientId, backend: "broker", revocable: false })
    for (let i = 0; i < 2; i++)
      expect((await world.ask("DELETE", `/admin/issuances/${row.jti}`)).status).toBe(204)
    expect([
      await activeOf(world, `jti=${row.jti}`),
      await activeOf(world, `jti=${child.jti}`),
      Issuances.get(world.store, [row.jti])!.revokedReason,
      world.lastAudit.action,
      world.lastAudit.detail
    ]).toEqual([0, 0, "admin", "issuance.revoked_admin", `jti=${row.jti}`])
    await world.refused("DELETE", `/admin/issuances/${vended.jti}`, undefined, 409, "conflict")
    await world.refused("DELETE", "/admin/issuances/none", undefined, 404, "not_found")
  })
  it("tokens are those of machines", async () => {
    const world = new World()
    const { client_id: clientId } = await world.client()
    const bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    const one = await world.issuance({ clientId, grantType: "client_credentials" })
    const two = await world.issuance({ clientId, grantType: bearer })
    const user = await world.issuance({ clientId })
    expect((await world.did("GET", "/admin/tokens")).tokens.map((row: any) => row.jti)).toEqual([
      two.jti,
      one.jti
    ])
    expect((await world.ask("DELETE", `/admin/tokens/${one.jti}`)).status).toBe(204)
    expect([
      world.lastAudit.action,
      (await world.did("GET", "/admin/tokens?active=true")).tokens.map((row: any) => row.jti)
    ]).toEqual(["token.revoked", [two.jti]])
    await world.refused("DELETE", `/admin/tokens/${user.jti}`, undefined, 404, "not_found")
  })
})
