/** /admin/clients, row by row of sections 16.1 and 18.3. */
import { expect, it } from "vitest"
import { secretMatches } from "../../../../protocols/authorization/client/client-secrets.ts"
import { Clients } from "../../../../protocols/authorization/records.ts"
import { World } from "./world.ts"

const uri = "https://app.example.com/cb"
const rowOf = (world: World, id: string) => world.books.get(Clients, [id])!

it("POST: 201 with the whole client and its secret, once; copies of id and name", async () => {
  const world = new World()
  const created = await world.client({
    client_name: "enterprise-backend",
    token_endpoint_auth_method: "client_secret_post",
    scope: "files:read files:write files:read"
  })
  const { client_secret, ...view } = created
  expect(view).toEqual({
    client_id: created.client_id,
    id: created.client_id,
    client_name: "enterprise-backend",
    name: "enterprise-backend",
    redirect_uris: [],
    grant_types: ["client_credentials"],
    response_types: [],
    token_endpoint_auth_method: "client_secret_post",
    application_type: "web",
    scope: "files:read files:write",
    agent: false,
    agent_description: "",
    status: "active",
    registration_source: "admin",
    cimd_url: "",
    issued_at: "2026-09-01T10:00:00.000Z",
    updated_at: "2026-09-01T10:00:00.000Z"
  })
  expect(secretMatches(world.authority, rowOf(world, created.client_id), client_secret)).toBe(true)
  expect(await world.did("GET", `/admin/clients/${created.client_id}`)).toEqual(view)
})

it("POST: defaults, a public client, an agent, a fixed id that can be taken once", async () => {
  const world = new World()
  expect(
    await world.did("POST", "/admin/clients", { client_name: "App", redirect_uris: [uri] })
  ).toMatchObject({
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "client_secret_basic"
  })
  expect(
    await world.did("POST", "/admin/clients", {
      client_name: "Cli",
      client_id: "my.cli_1",
      redirect_uris: [uri],
      token_endpoint_auth_method: "none",
      agent: true,
      agent_description: "runs"
    })
  ).not.toHaveProperty("client_secret")
  expect(rowOf(world, "my.cli_1")).toMatchObject({ agent: true, agentDescription: "runs", secretHash: null })
  await world.refused(
    "POST",
    "/admin/clients",
    { client_name: "Cli", client_id: "my.cli_1", redirect_uris: [uri] },
    409,
    "conflict"
  )
})

it("POST: what is refused, in the admin API's words", async () => {
  const world = new World()
  for (const [body, naming] of [
    [{}, "client_name"],
    [{ client_name: "" }, "client_name"],
    [{ client_name: "x" }, "redirect_uris"],
    [{ client_name: "x", redirect_uris: ["http://evil.example"] }, "http://evil.example"],
    [{ client_name: "x", redirect_uris: [uri], grant_types: ["implicit"] }, "implicit"],
    [{ client_name: "x", redirect_uris: [uri], scope: 'a "b' }, "scope"],
    [{ client_name: "x", redirect_uris: [uri], client_id: "ab" }, "client_id"],
    [{ client_name: "x", redirect_uris: [uri], client_id: "a/b/c" }, "client_id"],
    [{ client_name: "x", redirect_uris: [uri], client_id: "x".repeat(65) }, "client_id"],
    [{ client_name: "a\u202eb", redirect_uris: [uri] }, "client_name"],
    [
      { client_name: "x", grant_types: ["client_credentials"], token_endpoint_auth_method: "none" },
      "client_credentials"
    ]
  ] as const)
    await world.refused("POST", "/admin/clients", body, 400, "invalid_request", naming)
})

it("GET: filters, and an id that is a URL", async () => {
  const world = new World()
  const url = "https://app.example.com/client.json"
  const one = await world.client({ client_name: "Alpha", agent: true })
  const two = await world.client({ client_name: "Beta" })
  await world.books.write([
    Clients.put([url], {
      ...rowOf(world, two.client_id),
      clientId: url,
      documentUrl: url,
      source: "cimd",
      clientName: "Gamma"
    })
  ])
  await world.did("PATCH", `/admin/clients/${one.client_id}/suspend`)
  const names = async (query: string) =>
    (await world.did("GET", `/admin/clients?${query}`)).clients.map((row: any) => row.client_name)
  expect(await names("source=cimd")).toEqual(["Gamma"])
  expect(await names("status=suspended")).toEqual(["Alpha"])
  expect(await names("agent=true")).toEqual(["Alpha"])
  expect(await names("agent=false&source=admin")).toEqual(["Beta"])
  expect(await names("name_prefix=Be")).toEqual(["Beta"])
  expect(await names("name_prefix=be")).toEqual([])
  expect(await world.did("GET", `/admin/clients/${encodeURIComponent(url)}`)).toMatchObject({
    client_id: url,
    cimd_url: url
  })
  expect(await world.did("PATCH", `/admin/clients/${encodeURIComponent(url)}/suspend`)).toEqual({
    status: "suspended"
  })
  await world.refused("GET", "/admin/clients/none", undefined, 404, "not_found")
})

it("PATCH: absent members stay, arrays are replaced whole, times move", async () => {
  const world = new World()
  const { client_id } = await world.did("POST", "/admin/clients", {
    client_name: "App",
    redirect_uris: [uri, `${uri}/2`],
    scope: "a b",
    agent_description: "d"
  })
  world.nowMs += 1_000
  expect(
    await world.did("PATCH", `/admin/clients/${client_id}`, { redirect_uris: [`${uri}/3`], scope: "" })
  ).toMatchObject({
    client_name: "App",
    redirect_uris: [`${uri}/3`],
    scope: "",
    agent_description: "d",
    issued_at: "2026-09-01T10:00:00.000Z",
    updated_at: "2026-09-01T10:00:01.000Z"
  })
  expect(world.lastAudit).toMatchObject({ action: "client.updated", detail: "members=redirect_uris%2Cscope" })
  expect(
    await world.did("PATCH", `/admin/clients/${client_id}`, {
      grant_types: ["client_credentials"],
      client_name: " New ",
      agent_description: ""
    })
  ).toMatchObject({
    client_name: "New",
    response_types: [],
    agent_description: "",
    redirect_uris: [`${uri}/3`]
  })
  expect(
    await world.did("PATCH", `/admin/clients/${client_id}`, {
      token_endpoint_auth_method: "client_secret_post"
    })
  ).toMatchObject({ token_endpoint_auth_method: "client_secret_post" })
})

it("PATCH: what is refused", async () => {
  const world = new World()
  const { client_id } = await world.did("POST", "/admin/clients", {
    client_name: "App",
    redirect_uris: [uri]
  })
  for (const [body, naming] of [
    [{ token_endpoint_auth_method: "none" }, "public and confidential"],
    [{ redirect_uris: [] }, "redirect_uris"],
    [{ grant_types: ["password"] }, "password"],
    [{ client_name: "" }, "client_name"],
    [{ application_type: "native" }, "application_type"],
    [{ status: "active" }, "status"],
    [{ client_id: "x" }, "client_id"],
    [{ agent_description: "x".repeat(256) }, "agent_description"]
  ] as const) {
    await world.refused("PATCH", `/admin/clients/${client_id}`, body, 400, "invalid_request", naming)
  }
  const open = await world.did("POST", "/admin/clients", {
    client_name: "Cli",
    redirect_uris: [uri],
    token_endpoint_auth_method: "none"
  })
  await world.refused(
    "PATCH",
    `/admin/clients/${open.client_id}`,
    { token_endpoint_auth_method: "client_secret_basic" },
    400,
    "invalid_request",
    "public and confidential"
  )
  await world.refused(
    "PATCH",
    `/admin/clients/${open.client_id}`,
    { grant_types: ["client_credentials"] },
    400,
    "invalid_request",
    "client_credentials"
  )
  await world.refused("PATCH", "/admin/clients/none", { client_name: "x" }, 404, "not_found")
})

it("18.3: active, suspended, revoked; each event in each state; a repetition changes nothing", async () => {
  const world = new World()
  const { client_id } = await world.client()
  const at = `/admin/clients/${client_id}`
  const step = async (what: string) => {
    const { status, body } = await world.ask("PATCH", `${at}/${what}`)
    return [status, body.status === status ? body.error : body.status]
  }
  expect(await step("reactivate")).toEqual([200, "active"])
  expect(world.lastAudit.action).toBe("client.created_admin")
  expect(await step("suspend")).toEqual([200, "suspended"])
  expect(world.lastAudit.action).toBe("client.suspended")
  const events = world.audits().length
  expect(await step("suspend")).toEqual([200, "suspended"])
  expect(world.audits()).toHaveLength(events)
  expect(await step("reactivate")).toEqual([200, "active"])
  expect(await step("suspend")).toEqual([200, "suspended"])
  expect(await step("revoke")).toEqual([200, "revoked"])
  expect(world.lastAudit.action).toBe("client.revoked")
  expect(await step("revoke")).toEqual([200, "revoked"])
  expect(await step("suspend")).toEqual([409, "conflict"])
  expect(await step("reactivate")).toEqual([409, "conflict"])
  for (const what of ["suspend", "reactivate", "revoke"])
    await world.refused("PATCH", `/admin/clients/none/${what}`, undefined, 404, "not_found")
})

it("a suspension stops the client's tokens while it lasts; revocation for good", async () => {
  const world = new World()
  const { client_id } = await world.client()
  await world.issuance({ clientId: client_id })
  const live = async () =>
    (await world.did("GET", `/admin/issuances?active=true&client_id=${client_id}`)).count
  expect(await live()).toBe(1)
  await world.did("PATCH", `/admin/clients/${client_id}/suspend`)
  expect(await live()).toBe(0)
  await world.did("PATCH", `/admin/clients/${client_id}/reactivate`)
  expect(await live()).toBe(1)
  await world.did("PATCH", `/admin/clients/${client_id}/revoke`)
  expect(await live()).toBe(0)
})

it("rotate-secret: a new one at once, the old one for as long as asked, at most a day", async () => {
  const world = new World()
  const created = await world.client()
  const at = `/admin/clients/${created.client_id}/rotate-secret`
  const works = (secret: string): boolean =>
    secretMatches(world.authority, rowOf(world, created.client_id), secret)
  const rotated = await world.did("POST", at, { keep_previous_for: "1h" })
  expect(Object.keys(rotated)).toEqual(["client_id", "client_secret"])
  expect([works(created.client_secret), works(rotated.client_secret)]).toEqual([true, true])
  world.nowMs += 3_600_000
  expect([works(created.client_secret), works(rotated.client_secret)]).toEqual([false, true])
  const bare = await world.did("POST", at)
  expect([works(rotated.client_secret), works(bare.client_secret)]).toEqual([false, true])
  expect(world.lastAudit.action).toBe("client.secret_rotated")
  for (const keep_previous_for of ["25h", "1d", "", "-1h", "1h ", 3_600])
    await world.refused("POST", at, { keep_previous_for }, 400, "invalid_request", "keep_previous_for")
  const open = await world.did("POST", "/admin/clients", {
    client_name: "Cli",
    redirect_uris: [uri],
    token_endpoint_auth_method: "none"
  })
  await world.refused(
    "POST",
    `/admin/clients/${open.client_id}/rotate-secret`,
    undefined,
    400,
    "invalid_request",
    "public"
  )
})

it("DELETE: 409 while a token lives, unless forced; then the tokens are dead, also for a new client of the same id", async () => {
  const world = new World()
  const { client_id } = await world.client({ client_id: "fixed-id" })
  const token = await world.issuance({ clientId: client_id })
  await world.refused("DELETE", `/admin/clients/${client_id}`, undefined, 409, "conflict", "force=true")
  await world.refused("DELETE", `/admin/clients/${client_id}?force=false`, undefined, 409, "conflict")
  expect((await world.ask("DELETE", `/admin/clients/${client_id}?force=true`)).status).toBe(204)
  expect(world.lastAudit).toMatchObject({ action: "client.deleted", clientId: client_id })
  await world.refused("GET", `/admin/clients/${client_id}`, undefined, 404, "not_found")
  await world.refused("DELETE", `/admin/clients/${client_id}`, undefined, 404, "not_found")
  world.nowMs += 1
  await world.client({ client_id: "fixed-id" })
  expect((await world.did("GET", `/admin/issuances?active=true&jti=${token.jti}`)).count).toBe(0)
})

it("two changes at once: neither is lost", async () => {
  const world = new World()
  const { client_id } = await world.client()
  await Promise.all(
    [{ client_name: "New" }, { scope: "a" }, { agent_description: "d" }].map((body) =>
      world.did("PATCH", `/admin/clients/${client_id}`, body)
    )
  )
  expect(await world.did("GET", `/admin/clients/${client_id}`)).toMatchObject({
    client_name: "New",
    scope: "a",
    agent_description: "d"
  })
})
