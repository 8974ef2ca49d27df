/** /admin/resources, row by row of sections 2.2, 2.3 and 16.2. */
import { describe, expect, it } from "vitest"
import { World } from "./world.ts"

describe("resources", () => {
  it("POST: 201 with the whole resource; connect is for Broker resources", async () => {
    const world = new World()
    const created = await world.resource({
      scopes: [{ name: "files:read", description: "Read files" }, { name: "files:write" }]
    })
    expect(created).toEqual({
      id: created.id,
      slug: "files",
      uri: "https://mcp.example.com/mcp",
      backend_kind: "mint",
      broker_provider_id: "",
      display_name: "files",
      scopes: [{ name: "files:read", description: "Read files" }, { name: "files:write" }],
      policy: { exchange: { allowed_client_ids: [] }, runtime: { client_ids: [] } },
      created_at: "2026-09-01T10:00:00.000Z",
      updated_at: "2026-09-01T10:00:00.000Z"
    })
    expect(world.lastAudit).toMatchObject({
      action: "resource.created",
      detail: `id=${created.id} slug=files`
    })
    const provider = await world.provider()
    const broker = await world.did("POST", "/admin/resources", {
      slug: "gh",
      backend_kind: "broker",
      broker_provider_slug: "github",
      display_name: "GitHub",
      scopes: [
        { name: "repo", upstream: "repo:all" },
        { name: "two", upstream: ["a", "b"] }
      ],
      policy: {
        runtime: { client_ids: ["c"] },
        connect: { allowed_return_urls: ["https://app.example/done"] }
      }
    })
    expect(broker).toMatchObject({
      uri: "",
      broker_provider_id: provider.id,
      scopes: [
        { name: "repo", upstream: ["repo:all"] },
        { name: "two", upstream: ["a", "b"] }
      ],
      policy: {
        exchange: { allowed_client_ids: [] },
        runtime: { client_ids: ["c"] },
        connect: { allowed_return_urls: ["https://app.example/done"] }
      }
    })
  })
  it("POST: what is refused", async () => {
    const world = new World({ issuer: "https://as.example.com" })
    const provider = await world.provider()
    for (const [body, naming] of [
      [{}, "slug"],
      [{ slug: "Files" }, "slug"],
      [{ slug: "-a" }, "slug"],
      [{ slug: "a".repeat(64) }, "slug"],
      [{ slug: "a_b" }, "slug"],
      [{ slug: "a", uri: "mcp.example.com" }, "uri"],
      [{ slug: "a", uri: "https://a.example/#f" }, "uri"],
      [{ slug: "a", uri: "https:///x" }, "uri"],
      [{ slug: "a", uri: "https://a.example/ b" }, "uri"],
      [{ slug: "a", uri: "urn:a:b" }, "uri"],
      [{ slug: "a", backend_kind: "proxy" }, "backend_kind"],
      [{ slug: "a", backend_kind: "broker" }, "broker_provider_id"],
      [{ slug: "a", backend_kind: "broker", broker_provider_id: "none" }, "broker_provider_id"],
      [{ slug: "a", backend_kind: "broker", broker_provider_slug: "none" }, "broker_provider_slug"],
      [{ slug: "a", broker_provider_id: provider.id }, "broker_provider_id"],
      [{ slug: "a", broker_provider_slug: "github" }, "broker_provider_id"],
      [{ slug: "a", scopes: [{ name: "a b" }] }, "scopes[0].name"],
      [{ slug: "a", scopes: [{}] }, "scopes[0].name"],
      [{ slug: "a", scopes: [{ name: "a" }, { name: "a" }] }, "twice"],
      [{ slug: "a", scopes: [{ name: "a", upstream: "b" }] }, "upstream"],
      [{ slug: "a", scopes: [{ name: "a".repeat(129) }] }, "name"],
      [{ slug: "a", scopes: Array.from({ length: 201 }, (_, at) => ({ name: `s${at}` })) }, "scopes"],
      [{ slug: "a", scopes: ["a"] }, "scopes[0]"],
      [{ slug: "a", display_name: "x".repeat(201) }, "display_name"],
      [{ slug: "a", policy: { connect: { allowed_return_urls: [] } } }, "connect"],
      [{ slug: "a", policy: { exchange: { allowed_client_ids: [1] } } }, "allowed_client_ids"],
      [
        {
          slug: "a",
          backend_kind: "broker",
          broker_provider_id: provider.id,
          policy: { connect: { allowed_return_urls: ["http://app.example"] } }
        },
        "allowed_return_urls"
      ]
    ] as const)
      await world.refused("POST", "/admin/resources", body, 400, "invalid_request", naming)
  })
  it("slug and URI are unique: the URI without case in scheme and host, byte for byte elsewhere, and no audience is borne twice", async () => {
    const world = new World({ issuer: "https://as.example.com" })
    await world.resource()
    await world.refused("POST", "/admin/resources", { slug: "files" }, 409, "conflict", "slug")
    await world.refused(
      "POST",
      "/admin/resources",
      { slug: "b", uri: "HTTPS://MCP.example.COM/mcp" },
      409,
      "conflict",
      "URI"
    )
    for (const [slug, uri] of [
      ["c", "https://mcp.example.com/MCP"],
      ["d", "https://mcp.example.com/mcp/"],
      ["e", "https://mcp.example.com:443/mcp"]
    ])
      await world.did("POST", "/admin/resources", { slug, uri })
    await world.did("POST", "/admin/resources", { slug: "bare" })
    await world.refused(
      "POST",
      "/admin/resources",
      { slug: "f", uri: "https://as.example.com/resources/bare" },
      409,
      "conflict"
    )
    const other = await world.did("POST", "/admin/resources", { slug: "g", uri: "https://g.example" })
    await world.refused(
      "PATCH",
      `/admin/resources/${other.id}`,
      { uri: "https://mcp.example.com/mcp" },
      409,
      "conflict"
    )
    await world.refused("PATCH", `/admin/resources/${other.id}`, { slug: "files" }, 409, "conflict")
  })
  it("names are given back: after a change, after a deletion", async () => {
    const world = new World()
    const one = await world.resource()
    await world.did("PATCH", `/admin/resources/${one.id}`, { slug: "documents", uri: "https://docs.example" })
    const two = await world.resource()
    expect((await world.did("GET", "/admin/resources/documents")).id).toBe(one.id)
    expect((await world.ask("DELETE", "/admin/resources/files")).status).toBe(204)
    await world.refused("GET", `/admin/resources/${two.id}`, undefined, 404, "not_found")
    await world.resource()
  })
  it("GET: by id or slug; filters", async () => {
    const world = new World()
    const one = await world.resource()
    await world.provider()
    await world.did("POST", "/admin/resources", {
      slug: "gh",
      backend_kind: "broker",
      broker_provider_slug: "github"
    })
    expect(await world.did("GET", `/admin/resources/${one.id}`)).toEqual(
      await world.did("GET", "/admin/resources/files")
    )
    const slugs = async (query: string) =>
      (await world.did("GET", `/admin/resources?${query}`)).resources.map((row: any) => row.slug)
    expect([
      await slugs(""),
      await slugs("backend_kind=broker"),
      await slugs("slug=files"),
      await slugs(`uri=${encodeURIComponent("https://mcp.example.com/mcp")}`),
      await slugs("slug=none")
    ]).toEqual([["gh", "files"], ["gh"], ["files"], ["files"], []])
  })
  it("PATCH: arrays are replaced whole, policy part by part", async () => {
    const world = new World()
    const one = await world.resource({
      policy: { exchange: { allowed_client_ids: ["a", "b"] }, runtime: { client_ids: ["r"] } }
    })
    world.nowMs += 1_000
    expect(
      await world.did("PATCH", "/admin/resources/files", {
        policy: { exchange: { allowed_client_ids: ["c"] } },
        scopes: [{ name: "x" }]
      })
    ).toMatchObject({
      id: one.id,
      scopes: [{ name: "x" }],
      policy: { exchange: { allowed_client_ids: ["c"] }, runtime: { client_ids: ["r"] } },
      updated_at: "2026-09-01T10:00:01.000Z"
    })
    expect(world.lastAudit.action).toBe("resource.patched")
    await world.refused(
      "PATCH",
      "/admin/resources/files",
      { broker_provider_id: "x" },
      400,
      "invalid_request",
      "broker_provider_id"
    )
    await world.refused(
      "PATCH",
      "/admin/resources/files",
      { policy: { connect: { allowed_return_urls: [] } } },
      400,
      "invalid_request",
      "connect"
    )
    await world.refused("PATCH", "/admin/resources/none", {}, 404, "not_found")
  })
  it("DELETE: its tokens are dead", async () => {
    const world = new World()
    const one = await world.resource()
    const client = await world.client()
    await world.issuance({ clientId: client.client_id, resourceId: one.id })
    expect((await world.did("GET", `/admin/issuances?active=true&resource_id=${one.id}`)).count).toBe(1)
    expect((await world.ask("DELETE", `/admin/resources/${one.id}`)).status).toBe(204)
    expect(world.lastAudit.action).toBe("resource.deleted")
    expect((await world.did("GET", `/admin/issuances?active=true&resource_id=${one.id}`)).count).toBe(0)
    await world.refused("DELETE", `/admin/resources/${one.id}`, undefined, 404, "not_found")
  })
})

describe("policy lists", () => {
  it.each([
    ["exchange/allowed-clients", "resource.policy.exchange"],
    ["runtime/client-ids", "resource.policy.runtime"]
  ])("%s: read, add, remove, by slug; ids need not exist", async (list, action) => {
    const world = new World()
    const at = `/admin/resources/files/policy/${list}`
    const id = "https://app.example/client.json"
    await world.resource()
    expect(await world.did("GET", at)).toEqual({ client_ids: [] })
    const added = await world.ask("POST", at, { body: { client_id: id } })
    expect([added.status, added.body]).toEqual([201, { client_ids: [id] }])
    expect(world.lastAudit).toMatchObject({ action: `${action}.added`, clientId: id })
    await world.refused("POST", at, { client_id: id }, 409, "conflict")
    await world.refused("POST", at, {}, 400, "invalid_request", "client_id")
    await world.refused("POST", at, { client_id: "" }, 400, "invalid_request", "client_id")
    expect((await world.ask("DELETE", `${at}/${encodeURIComponent(id)}`)).status).toBe(204)
    expect(world.lastAudit.action).toBe(`${action}.removed`)
    await world.refused("DELETE", `${at}/${encodeURIComponent(id)}`, undefined, 404, "not_found")
    await world.refused("GET", `/admin/resources/none/policy/${list}`, undefined, 404, "not_found")
  })
  it("connect/allowed-return-urls: of Broker resources; DELETE takes ?url=", async () => {
    const world = new World({ issuer: "https://as.example.com" })
    const at = "/admin/resources/gh/policy/connect/allowed-return-urls"
    const url = "https://app.example/done?x=1"
    await world.resource()
    await world.provider()
    await world.did("POST", "/admin/resources", {
      slug: "gh",
      backend_kind: "broker",
      broker_provider_slug: "github"
    })
    expect(await world.did("POST", at, { url })).toEqual({ allowed_return_urls: [url] })
    for (const bad of ["http://app.example", "/done", "javascript:x", "https://a.example\\@b"])
      await world.refused("POST", at, { url: bad }, 400, "invalid_request")
    expect(await world.did("GET", at)).toEqual({ allowed_return_urls: [url] })
    await world.refused("DELETE", at, undefined, 404, "not_found")
    expect((await world.ask("DELETE", `${at}?url=${encodeURIComponent(url)}`)).status).toBe(204)
    expect(await world.did("GET", at)).toEqual({ allowed_return_urls: [] })
    await world.refused(
      "GET",
      "/admin/resources/files/policy/connect/allowed-return-urls",
      undefined,
      400,
      "invalid_request",
      "Broker"
    )
  })
})
