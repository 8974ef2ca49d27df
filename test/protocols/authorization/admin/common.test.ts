/** What holds for every route of the admin API: the key, bodies, lists, Idempotency-Key, audit. Section 16,
 *  rules 1 to 6. */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { StorageFault, type Store } from "../../../../storage/store.ts"
import { openMemory } from "../../../../storage/memory.ts"
import { AuditEvents, Clients, Idempotency } from "../../../../protocols/authorization/records.ts"
import { adminKey, World } from "./world.ts"

describe("the key", () => {
  it("AS-147: without, with a wrong, a truncated, a longer key, in another scheme, in the query", async () => {
    const world = new World()
    for (const [key, target, headers] of [
      ["", "/admin/clients", {}],
      ["wrong", "/admin/clients", {}],
      [adminKey.slice(0, -1), "/admin/clients", {}],
      [`${adminKey}x`, "/admin/clients", {}],
      ["", `/admin/clients?api_key=${adminKey}&access_token=${adminKey}`, {}],
      ["", "/admin/clients", { authorization: `Basic ${adminKey}` }],
      ["", "/admin/clients", { authorization: adminKey }],
      ["", "/admin/clients", { authorization: "Bearer" }]
    ] as const) {
      world.failures.clear()
      const answer = await world.ask("GET", target, { key, headers })
      expect([answer.status, answer.body.error, answer.header("WWW-Authenticate")]).toEqual([
        401,
        "invalid_admin_key",
        'Bearer realm="admin"'
      ])
    }
    expect((await world.ask("GET", "/admin/clients")).status).toBe(200)
  })
  it("A-11: a wrong key is audited, with where it came from, and so is the lock that follows", async () => {
    const world = new World()
    const { audit, books } = world.authority
    for (let i = 0; i < 10; i++) await world.ask("GET", "/admin/clients", { key: "wrong" })
    await audit.settle()
    const actions = [...books.rows(AuditEvents)].map(({ value }) => value)
    expect(actions.filter(({ action }) => action === "admin.auth_failed")).toHaveLength(10)
    expect(actions.filter(({ action }) => action === "auth.locked_out")).toHaveLength(1)
    expect(actions[0]).toMatchObject({ ip: expect.stringMatching(/./), detail: "" })
  })
  it("AS-147: no route is open", async () => {
    const world = new World({}, { adminFailures: { retryAfterMs: () => 0, count: () => false } })
    for (const path of [
      "clients/x",
      "resources/x",
      "users/x",
      "issuances/x",
      "tokens",
      "keys",
      "audit",
      "settings/dcr",
      "stats",
      "system/status",
      "system/config",
      "idps",
      "xaa/policies",
      "broker-providers",
      "users/x/grants"
    ]) {
      expect((await world.ask("GET", `/admin/${path}`, { key: "wrong" })).status, path).toBe(401)
    }
    expect((await world.ask("POST", "/admin/auth/verify", { key: "wrong" })).status).toBe(401)
  })
  it("ten wrong keys of one source, then 429 for that source alone, the right key too", async () => {
    const world = new World()
    for (let i = 0; i < 10; i++)
      expect((await world.ask("GET", "/admin/clients", { key: "wrong" })).status).toBe(401)
    const locked = await world.ask("GET", "/admin/clients")
    expect([locked.status, locked.body.error, locked.header("Retry-After")]).toEqual([429, "slow_down", "60"])
    expect((await world.ask("GET", "/admin/clients", { client: "10.0.0.2" })).status).toBe(200)
  })
  it("no key configured: open on this machine, closed anywhere else", async () => {
    expect((await new World({ adminApiKey: "" }).ask("GET", "/admin/clients", { key: "" })).status).toBe(200)
    expect(
      (
        await new World({ adminApiKey: "", issuer: "https://as.example.com" }).ask("GET", "/admin/clients", {
          key: ""
        })
      ).status
    ).toBe(401)
  })
  it("every answer is not to be stored", async () => {
    const world = new World()
    for (const answer of [
      await world.ask("GET", "/admin/clients"),
      await world.ask("GET", "/admin/clients/none"),
      await world.ask("GET", "/admin/clients", { key: "x" })
    ]) {
      expect([answer.header("Cache-Control"), answer.header("Pragma")]).toEqual(["no-store", "no-cache"])
    }
  })
  it("paths and methods that are not there", async () => {
    const world = new World()
    expect((await world.ask("GET", "/admin/nothing")).body.error).toBe("not_found")
    const wrong = await world.ask("PUT", "/admin/clients")
    expect([wrong.status, wrong.header("Allow")]).toEqual([405, "POST, GET"])
  })
})

describe("bodies", () => {
  it("AS-148: an unknown member is refused and named, wherever it stands", async () => {
    const world = new World()
    const client = await world.client()
    const resource = await world.resource()
    const user = await world.user()
    for (const [method, path, body, naming] of [
      [
        "PATCH",
        `/admin/clients/${client.client_id}`,
        { redirect_uri: "https://a.example/cb" },
        "redirect_uri"
      ],
      ["PATCH", `/admin/clients/${client.client_id}`, { agent: true }, "agent"],
      [
        "PATCH",
        `/admin/resources/${resource.id}`,
        { policy: { exchange: { allowed_clients: [] } } },
        "allowed_clients"
      ],
      ["PATCH", `/admin/resources/${resource.id}`, { policy: { exchnage: {} } }, "exchnage"],
      ["PATCH", `/admin/resources/${resource.id}`, { backend_kind: "broker" }, "backend_kind"],
      ["PATCH", `/admin/users/${user.id}`, { status: "disabled" }, "status"],
      ["PATCH", "/admin/settings/dcr", { modes: "open" }, "modes"],
      ["POST", "/admin/clients", { client_name: "x", secret: "y" }, "secret"],
      ["POST", "/admin/auth/verify", { x: 1 }, "x"],
      ["PATCH", `/admin/clients/${client.client_id}/suspend`, { reason: "x" }, "reason"],
      ["POST", "/admin/resources", { slug: "b", scopes: [{ name: "a", descripton: "x" }] }, "descripton"]
    ] as const)
      await world.refused(method, path, body, 400, "invalid_request", naming)
  })
  it("null is a wrong type, never an erasure", async () => {
    const world = new World()
    const client = await world.client()
    const resource = await world.resource()
    const user = await world.user()
    for (const [path, body] of [
      [`clients/${client.client_id}`, { client_name: null }],
      [`clients/${client.client_id}`, { scope: null }],
      [`clients/${client.client_id}`, { redirect_uris: null }],
      [`resources/${resource.id}`, { policy: null }],
      [`resources/${resource.id}`, { policy: { exchange: null } }],
      [`resources/${resource.id}`, { scopes: null }],
      [`users/${user.id}`, { password: null }]
    ] as const) {
      await world.refused("PATCH", `/admin/${path}`, body, 400, "invalid_request", Object.keys(body)[0])
    }
  })
  it("what is no JSON object of its media type", async () => {
    const world = new World()
    for (const [body, type] of [
      ["{", undefined],
      ["[1]", undefined],
      ['"x"', undefined],
      ['{"client_name":"a","client_name":"b"}', undefined],
      ["client_name=a", "application/x-www-form-urlencoded"],
      [new Uint8Array([0x7b, 0xff, 0x7d]), undefined]
    ] as const) {
      const answer = await world.ask("POST", "/admin/clients", {
        body,
        ...(type === undefined ? {} : { type })
      })
      expect([answer.status, answer.body.error]).toEqual([400, "invalid_request"])
    }
    expect(Clients.range(world.store, { limit: 1 })).toEqual([])
  })
  it("fuzz: arbitrary members at every writing route are answered, never a defect", async () => {
    const world = new World()
    await world.user()
    const values = [
      null,
      true,
      0,
      -1,
      1e300,
      "",
      "x",
      "\u0000",
      "\ud800",
      [],
      [null],
      [[]],
      {},
      { a: 1 },
      "https://a.example",
      ["https://a.example", 1]
    ]
    const members = [
      "client_name",
      "redirect_uris",
      "grant_types",
      "response_types",
      "token_endpoint_auth_method",
      "scope",
      "agent",
      "client_id",
      "slug",
      "uri",
      "backend_kind",
      "scopes",
      "policy",
      "protocol",
      "config_data",
      "name",
      "issuer",
      "jwks_uri",
      "audience",
      "enabled",
      "idp_id",
      "client_ids",
      "resources",
      "idp_subject",
      "local_user_id",
      "email",
      "password",
      "role",
      "alg",
      "mode",
      "approved_redirects",
      "keep_previous_for"
    ]
    let at = 0
    for (const path of [
      "clients",
      "resources",
      "broker-providers",
      "idps",
      "xaa/policies",
      "xaa/subject-mappings",
      "users",
      "keys/rotate"
    ])
      for (let i = 0; i < 60; i++) {
        const body = Object.fromEntries(
          Array.from({ length: 6 }, () => [
            members[(at = (at * 31 + 7) % 100_003) % members.length],
            values[(at = (at * 17 + 3) % 100_003) % values.length]
          ])
        )
        const answer = await world.ask("POST", `/admin/${path}`, { body })
        expect([200, 201, 400, 404, 409], `${path} ${JSON.stringify(body)}`).toContain(answer.status)
      }
    for (const id of ["%00", "%ED%A0%80", "x".repeat(3_000), "%F0%9F%98%80", "..", "%2F"])
      for (const path of [
        "clients",
        "resources",
        "users",
        "idps",
        "broker-providers",
        "issuances",
        "xaa/policies"
      ]) {
        expect([404], `${path}/${id}`).toContain((await world.ask("GET", `/admin/${path}/${id}`)).status)
      }
  })
})

describe("lists", () => {
  it("newest first, in pages, and a row that existed throughout is neither skipped nor repeated while others come and go", async () => {
    const world = new World()
    const ids: Array<string> = []
    for (let i = 0; i < 7; i++) {
      world.nowMs += 1
      ids.push((await world.client({ client_name: `c${i}` })).client_id)
    }
    const first = await world.did("GET", "/admin/clients?limit=3")
    expect(first.clients.map((row: any) => row.client_id)).toEqual(ids.slice(4).toReversed())
    world.nowMs += 1
    await world.client({ client_name: "new" })
    await world.did("DELETE", `/admin/clients/${ids[4]}`)
    const second = await world.did(
      "GET",
      `/admin/clients?limit=3&cursor=${encodeURIComponent(first.next_cursor)}`
    )
    expect(second.clients.map((row: any) => row.client_id)).toEqual(ids.slice(1, 4).toReversed())
    const third = await world.did(
      "GET",
      `/admin/clients?limit=3&cursor=${encodeURIComponent(second.next_cursor)}`
    )
    expect([third.clients.map((row: any) => row.client_id), third.next_cursor]).toEqual([[ids[0]], null])
  })
  it("a page that ends the list has no cursor; filters hold over pages", async () => {
    const world = new World()
    for (let i = 0; i < 6; i++) await world.client({ client_name: i % 2 === 0 ? `even ${i}` : `odd ${i}` })
    const page = await world.did("GET", "/admin/clients?limit=2&name_prefix=even")
    expect(page.clients.map((row: any) => row.client_name)).toEqual(["even 4", "even 2"])
    const last = await world.did("GET", `/admin/clients?limit=2&name_prefix=even&cursor=${page.next_cursor}`)
    expect([last.clients.map((row: any) => row.client_name), last.next_cursor]).toEqual([["even 0"], null])
    expect((await world.did("GET", "/admin/clients?limit=6")).next_cursor).toBeNull()
  })
  it("a bad cursor, one of another list, a bad limit, a repeated or malformed parameter", async () => {
    const world = new World()
    for (let i = 0; i < 3; i++) {
      await world.client()
      await world.user({ email: `u${i}@example.com` })
    }
    const { next_cursor } = await world.did("GET", "/admin/users?limit=1")
    for (const query of [
      "cursor=zzz",
      "cursor=YWJj.0000",
      `cursor=${next_cursor}x`,
      `cursor=${next_cursor}`,
      "limit=0",
      "limit=201",
      "limit=x",
      "limit=-1",
      "limit=1&limit=2",
      "limit=%"
    ]) {
      await world.refused("GET", `/admin/clients?${query}`, undefined, 400, "invalid_request")
    }
  })
  it("reads in slices beyond one read of the store", async () => {
    const world = new World()
    await world.books.write(
      Array.from({ length: 600 }, (_, at) =>
        AuditEvents.put([world.books.id()], {
          id: `${at}`,
          action: at === 0 ? "first" : "x",
          actorId: "",
          clientId: "",
          ip: "",
          detail: "",
          traceId: "",
          createdMs: world.nowMs
        })
      )
    )
    expect((await world.did("GET", "/admin/audit?action=first")).events).toHaveLength(1)
  })
})

describe("Idempotency-Key", () => {
  const body = { client_name: "Once", grant_types: ["client_credentials"] }
  const asked = (body: unknown, key = "key-1") => ({ body: body, headers: { "idempotency-key": key } })
  it("the same key and body: the first answer, without its secret, and one row", async () => {
    const world = new World()
    const first = await world.ask("POST", "/admin/clients", asked(body))
    const again = await world.ask("POST", "/admin/clients", asked(body))
    expect([first.status, again.status]).toEqual([201, 201])
    expect(first.body.client_secret).toMatch(/^.{43}$/)
    expect(again.body).toEqual({ ...first.body, client_secret: null })
    expect(Clients.range(world.store, { limit: 10 })).toHaveLength(1)
    expect(JSON.stringify(Idempotency.range(world.store, { limit: 10 }))).not.toContain(
      first.body.client_secret
    )
  })
  it("another body: 409, nothing made; another key or path: another request", async () => {
    const world = new World()
    await world.ask("POST", "/admin/clients", asked(body))
    const other = await world.ask("POST", "/admin/clients", asked({ ...body, client_name: "Twice" }))
    expect([other.status, other.body.error]).toEqual([409, "conflict"])
    expect((await world.ask("POST", "/admin/clients", asked(body, "key-2"))).status).toBe(201)
    expect((await world.ask("POST", "/admin/users", asked({ email: "a@example.com" }))).status).toBe(201)
    expect(Clients.range(world.store, { limit: 10 })).toHaveLength(2)
  })
  it("two at once: one row, one answer", async () => {
    const world = new World(
      {},
      { hashPassword: (password) => Effect.delay(Effect.succeed(`hashed:${password.length}`), 0) }
    )
    const both = await Promise.all(
      [1, 2].map(() =>
        world.ask("POST", "/admin/users", asked({ email: "a@example.com", password: "long enough to do" }))
      )
    )
    expect(both.map(({ status }) => status)).toEqual([201, 201])
    expect(both[0]!.body.id).toBe(both[1]!.body.id)
    const rotated = await Promise.all([1, 2].map(() => world.ask("POST", "/admin/keys/rotate", asked({}))))
    expect(new Set(rotated.map((answer) => answer.body.kid)).size).toBe(1)
  })
  it("a refusal is not remembered; after 24 h nothing is", async () => {
    const world = new World()
    expect((await world.ask("POST", "/admin/clients", asked({}))).status).toBe(400)
    expect((await world.ask("POST", "/admin/clients", asked(body))).status).toBe(201)
    world.nowMs += 86_400_000
    const later = await world.ask("POST", "/admin/clients", asked({ ...body, client_name: "Later" }))
    expect([later.status, later.body.client_name]).toEqual([201, "Later"])
  })
  it("a key that is too long or not printable", async () => {
    const world = new World()
    for (const key of ["", "x".repeat(129), "é"])
      expect((await world.ask("POST", "/admin/clients", asked(body, key))).status).toBe(400)
    expect((await world.ask("POST", "/admin/clients", asked(body, "x".repeat(128)))).status).toBe(201)
  })
})

describe("durability", () => {
  const failing = (store: Store): Store =>
    Object.assign(Object.create(store) as Store, {
      commit: (_: unknown, settled: (fault: StorageFault) => void) => {
        queueMicrotask(() => settled(new StorageFault({ reason: "full", detail: "scripted" })))
        return undefined
      }
    })
  it("what could not be kept is not answered", async () => {
    const world = new World({}, {}, failing(openMemory()))
    await expect(
      world.ask("POST", "/admin/clients", { body: { client_name: "x", grant_types: ["client_credentials"] } })
    ).rejects.toThrow("storage (full)")
    await expect(world.join({ grant_types: ["client_credentials"] })).rejects.toThrow("storage (full)")
  })
  it("each write has its audit event, with actor, source and trace; a read has none", async () => {
    const world = new World()
    const client = await world.client()
    expect(world.lastAudit).toMatchObject({
      action: "client.created_admin",
      actorId: "admin",
      clientId: client.client_id,
      ip: "127.0.0.1",
      traceId: "0".repeat(32)
    })
    await world.did("GET", "/admin/clients")
    expect(world.audits()).toHaveLength(1)
  })
})
