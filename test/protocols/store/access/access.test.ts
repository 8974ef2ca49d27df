/** Ways in, scopes and areas, rate windows, doors. Source: store sections 2 to 4, 11. */
import { describe, expect, it } from "vitest"
import { areas, scopes, type Scope } from "../../../../protocols/store/access/scopes.ts"
import { OwnAppTokens, type AppTokens } from "../../../../protocols/store/access/app-tokens.ts"
import { authorizationUnreachable } from "../../../../protocols/store/problems.ts"
import { openMemory } from "../../../../storage/memory.ts"
import { minimal, World } from "../harness.ts"

const list = "/products.json"

describe("tokens", () => {
  it("STORE-1 GET products without token: 401, standard body, X-STORE-Call-Limit", async () => {
    const world = await World.open()
    const answer = await world.get(list, { token: "" })
    expect([answer.status, answer.body.status_code, answer.body.message]).toEqual([401, 401, "Unauthorized"])
    expect(answer.header("x-store-call-limit")).toBe("1/50")
    expect(answer.header("www-authenticate")).toBe('STORE-Token error="invalid_token"')
    expect([
      answer.header("cache-control"),
      answer.header("x-content-type-options"),
      answer.header("x-request-id")
    ]).toEqual(["no-store", "nosniff", "0".repeat(32)])
  })
  it("STORE-2 unknown, cut, revoked token: 401, same details for each", async () => {
    const world = await World.open()
    const { token, app, tokenId } = await world.admin(["catalog"])
    expect((await world.get(list, { token })).status).toBe(200)
    await world.open.apps.revokeToken(app.appId, tokenId)
    const answers = [
      await world.get(list, { token }),
      await world.get(list, { token: world.token.slice(0, -1) }),
      await world.get(list, { token: `sat_${"A".repeat(43)}` }),
      await world.get(list, { token: "nonsense" }),
      await world.get(list, { token: "x".repeat(9_000) })
    ]
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401, 401, 401])
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
  })
  it("STORE-3 expired OAuth token: 401", async () => {
    const world = await World.open()
    const { token } = await world.user(["catalog"], ["Products"], { lifeMs: 5_000 })
    expect((await world.get(list, { token })).status).toBe(200)
    world.nowMs += 5_000
    expect((await world.get(list, { token })).status).toBe(401)
  })
  it("STORE-4 OAuth token for another resource: 401", async () => {
    const world = await World.open()
    const { token } = await world.user(["catalog"], ["Products"], {
      resource: "https://other.example/api/v1/"
    })
    expect((await world.get(list, { token })).status).toBe(401)
  })
  it("STORE-5 valid token in Authorization only, or in the query: 401", async () => {
    const world = await World.open()
    expect(
      (await world.get(list, { token: "", headers: { authorization: `Bearer ${world.token}` } })).status
    ).toBe(401)
    expect(
      (await world.get(`${list}?token=${world.token}&X-STORE-Auth-Token=${world.token}`, { token: "" }))
        .status
    ).toBe(401)
  })
  it("STORE-6 plain HTTP from a non-loopback address: 403, token not used", async () => {
    const world = await World.open({ plainLoopback: true })
    const answer = await world.get(list, { scheme: "http", client: "10.1.2.3" })
    expect([
      answer.status,
      answer.body.details,
      answer.header("x-store-call-limit"),
      answer.header("location")
    ]).toEqual([403, "HTTPS is required", "0/50", undefined])
    expect(
      (await world.get(list, { scheme: "http", client: "127.0.0.1" })).header("x-store-call-limit")
    ).toBe("1/50")
    expect((await world.get(list)).header("strict-transport-security")).toBe("max-age=31536000")
    const strict = await World.open({ plainLoopback: false })
    expect((await strict.get(list, { scheme: "http", client: "127.0.0.1" })).status).toBe(403)
  })
  it("STORE-66 the authorization server is unreachable, token not cached: 503 with Retry-After", async () => {
    const refuse = (): Promise<never> => Promise.reject(authorizationUnreachable())
    const down: AppTokens = {
      verify: refuse,
      register: refuse,
      change: refuse,
      rotate: refuse,
      remove: refuse
    }
    const world = new World({ tokens: down })
    await world.open.begin()
    const answer = await world.get(list, { token: "eyJ" })
    expect([answer.status, answer.header("retry-after")]).toEqual([503, "5"])
    expect(answer.header("x-store-call-limit")).toMatch(/\/50$/)
  })
  it("STORE-13 an app deleted in the console: its tokens 401 at the next call", async () => {
    const world = await World.open()
    const { token, app } = await world.admin(["catalog"])
    const oauth = await world.user(["catalog"], ["Products"])
    expect([
      (await world.get(list, { token })).status,
      (await world.get(list, { token: oauth.token })).status
    ]).toEqual([200, 200])
    await world.open.apps.remove(app.appId)
    await world.open.apps.remove(oauth.app.appId)
    expect([
      (await world.get(list, { token })).status,
      (await world.get(list, { token: oauth.token })).status
    ]).toEqual([401, 401])
  })
  it("a suspended app, a disabled user: 401; a rotated secret is new", async () => {
    const world = await World.open()
    const { token, app } = await world.admin(["catalog"])
    const oauth = await world.user(["catalog"], ["Products"])
    await world.open.apps.change(app.appId, { suspended: true })
    await world.open.staff.change(oauth.userId, { enabled: false })
    expect([
      (await world.get(list, { token })).status,
      (await world.get(list, { token: oauth.token })).status
    ]).toEqual([401, 401])
    expect(await world.open.apps.rotate(app.appId)).not.toBe(await world.open.apps.rotate(app.appId))
  })
  it("no token or secret lies in the store in the clear", async () => {
    const world = await World.open()
    const { token } = await world.user(["catalog"], ["Products"])
    const { secret } = await world.open.apps.create({ name: "x" })
    const kept = [
      "store-apps",
      "store-admin-tokens",
      "store-admin-token-hashes",
      "store-app-tokens",
      "store-app-clients"
    ]
      .flatMap((name) => world.store.range(name, { limit: 100 }))
      .map(({ key, value }) => `${key.join()} ${Buffer.from(value).toString("latin1")}`)
      .join()
    for (const clear of [token, world.token, secret]) expect(kept).not.toContain(clear)
  })
})

describe("session", () => {
  const signedIn = async (held: ReadonlyArray<(typeof areas)[number]>) => {
    const world = await World.open()
    const userId = await world.open.staff.add({ username: "anna", password: "correct horse", areas: held })
    const session = (await world.open.staff.signIn("Anna", "correct horse"))!
    return { world, userId, session, cookie: { cookie: `a=b; __Host-store_admin=${session}` } }
  }
  it("STORE-7 session cookie, GET: 200 for an allowed area, 403 for another", async () => {
    const { world, cookie } = await signedIn(["Products"])
    expect((await world.get(list, { token: "", headers: cookie })).status).toBe(200)
    const other = await world.get("/orders", { token: "", headers: cookie })
    expect([other.status, other.body.details]).toEqual([403, "the area Orders is needed"])
    expect(
      (await world.get(list, { token: "", headers: { ...cookie, accept: "text/html" } })).header(
        "content-type"
      )
    ).toBe("application/json; charset=utf-8")
  })
  it("STORE-8 session cookie, POST: 401", async () => {
    const { world, cookie } = await signedIn(["Products"])
    expect((await world.post(list, minimal, { token: "", headers: cookie })).status).toBe(401)
  })
  it("STORE-9 session cookie, GET with Sec-Fetch-Site: cross-site: 401", async () => {
    const { world, cookie } = await signedIn(["Products"])
    for (const [site, status] of [
      ["cross-site", 401],
      ["same-origin", 200],
      ["same-site", 200],
      ["none", 200],
      ["weird", 401]
    ] as const) {
      expect(
        (await world.get(list, { token: "", headers: { ...cookie, "sec-fetch-site": site } })).status
      ).toBe(status)
    }
  })
  it("STORE-10 a bad token together with a good cookie: 401", async () => {
    const { world, cookie } = await signedIn(["Products"])
    expect((await world.get(list, { token: "sat_bad", headers: cookie })).status).toBe(401)
  })
  it("it ends: idle, at its age, on sign-out; wrong passwords open none", async () => {
    const { world, session, cookie } = await signedIn(["Products"])
    const seen = async () => (await world.get(list, { token: "", headers: cookie })).status
    for (let minutes = 0; minutes < 11 * 60; minutes += 20) {
      world.nowMs += 20 * 60_000
      expect(await seen()).toBe(200)
    }
    world.nowMs += 31 * 60_000
    expect(await seen()).toBe(401)
    expect(await world.open.staff.signIn("anna", "wrong horse")).toBeUndefined()
    expect(await world.open.staff.signIn("nobody", "correct horse")).toBeUndefined()
    const next = (await world.open.staff.signIn("anna", "correct horse"))!
    expect(next).not.toBe(session)
    await world.open.staff.signOut(next)
    expect(
      (await world.get(list, { token: "", headers: { cookie: `__Host-store_admin=${next}` } })).status
    ).toBe(401)
  })
})

describe("scopes and areas", () => {
  it("STORE-11 a read_catalog token, POST product: 403 naming catalog", async () => {
    const world = await World.open()
    const { token } = await world.admin(["read_catalog"])
    expect((await world.get(list, { token })).status).toBe(200)
    const answer = await world.post(list, minimal, { token })
    expect([answer.status, answer.body.details]).toEqual([403, "the scope catalog is needed"])
  })
  it("STORE-12 an area taken from the user after the token was issued: 403", async () => {
    const world = await World.open()
    const { token, userId } = await world.user(["catalog"], ["Products"])
    expect((await world.get(list, { token })).status).toBe(200)
    await world.open.staff.change(userId, { areas: ["Orders"] })
    const answer = await world.get(list, { token })
    expect([answer.status, answer.body.details]).toEqual([403, "the area Products is needed"])
  })
  it("STORE-16 creating an admin token with decrypt: 400", async () => {
    const world = await World.open()
    for (const scopes of [["decrypt"], ["everything"], []])
      await expect(world.open.apps.createToken(world.app.appId, { scopes })).rejects.toMatchObject({
        problem: { _tag: "Invalid" }
      })
  })
  it("each scope opens its resources and no others; importMany wants import and the write scope", async () => {
    const world = await World.open()
    const opens: Array<[Scope, string]> = [
      ["read_catalog", "/products"],
      ["read_people", "/customers"],
      ["read_orders", "/orders"],
      ["custom_fields", "/custom_fields"],
      ["settings", "/warehouses"],
      ["system", "/webhooks"]
    ]
    for (const [scope] of opens) {
      const { token } = await world.admin([scope])
      for (const [other, path] of opens) {
        world.fresh()
        expect([scope, path, (await world.get(path, { token })).status]).toEqual([
          scope,
          path,
          other === scope ? 200 : 403
        ])
      }
    }
    for (const [held, status] of [
      [["import"], 403],
      [["catalog"], 403],
      [["import", "catalog"], 200]
    ] as const) {
      const { token } = await world.admin(held)
      expect((await world.post("/products/importMany", [{ product: minimal }], { token })).status).toBe(
        status
      )
    }
    expect(Object.keys(scopes)).toHaveLength(11)
  })
  it("a webhook wants read access to the data of its event", async () => {
    const world = await World.open()
    const { token } = await world.admin(["system", "read_people"])
    const subscribe = (event: string) =>
      world.post("/webhooks", { event_type: event, url: "https://hooks.example/" }, { token })
    expect([
      (await subscribe("CustomerCreated")).status,
      (await subscribe("ProductCreated")).status,
      (await subscribe("NewOrder")).status
    ]).toEqual([201, 403, 403])
  })
})

describe("rate windows", () => {
  it("STORE-17 50 calls in a window, then one more", async () => {
    const world = await World.open()
    world.nowMs = Date.UTC(2028, 0, 1) + 3_000
    for (let made = 1; made <= 50; made++) {
      const { status, header } = await world.get(list)
      expect([status, header("x-store-call-limit")]).toEqual([200, `${made}/50`])
    }
    const over = await world.get(list)
    expect([
      over.status,
      over.body.message,
      over.header("x-store-call-limit"),
      over.header("retry-after")
    ]).toEqual([429, "Too Many Requests", "50/50", "Sat, 01 Jan 2028 00:00:10 GMT"])
  })
  it("STORE-18 60 calls at once: exactly 50 pass", async () => {
    const world = await World.open()
    const answers = await Promise.all(Array.from({ length: 60 }, () => world.get(list)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(50)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(10)
    expect(
      new Set(
        answers.filter(({ status }) => status === 200).map(({ header }) => header("x-store-call-limit"))
      ).size
    ).toBe(50)
  })
  it("STORE-19 the first call after the window's end passes, 1/50", async () => {
    const world = await World.open()
    for (let made = 0; made < 51; made++) await world.get(list)
    world.nowMs += 10_000
    const answer = await world.get(list)
    expect([answer.status, answer.header("x-store-call-limit")]).toEqual([200, "1/50"])
  })
  it("STORE-20 two installed apps, 25 calls each, then one: 429 for both; a custom app still passes", async () => {
    const world = await World.open()
    const one = await world.admin(["catalog"], "installed")
    const two = await world.admin(["catalog"], "installed")
    for (let made = 0; made < 25; made++)
      for (const { token } of [one, two]) expect((await world.get(list, { token })).status).toBe(200)
    expect([
      (await world.get(list, { token: one.token })).status,
      (await world.get(list, { token: two.token })).status,
      (await world.get(list)).status
    ]).toEqual([429, 429, 200])
    expect((await world.get(list)).header("x-store-call-limit")).toBe("2/50")
  })
  it("STORE-21 plan steel, 6th custom call: 429 with 5/5; a better plan counts at once", async () => {
    let plan: "steel" | "silver" = "steel"
    const world = await World.open({ plan: () => plan })
    for (let made = 1; made <= 5; made++)
      expect((await world.get(list)).header("x-store-call-limit")).toBe(`${made}/5`)
    const over = await world.get(list)
    expect([over.status, over.header("x-store-call-limit")]).toEqual([429, "5/5"])
    plan = "silver"
    expect((await world.get(list)).header("x-store-call-limit")).toBe("6/20")
    const { token } = await world.admin(["catalog"], "installed")
    expect((await world.get(list, { token })).header("x-store-call-limit")).toBe("1/50")
  })
  it("STORE-22 the window's actor is killed after 50 calls: still 429", async () => {
    const world = await World.open()
    for (let made = 0; made < 50; made++) await world.get(list)
    expect(world.system.restart("rate-window", "store/custom")).toBe(true)
    expect((await world.get(list)).status).toBe(429)
  })
  it("STORE-23 the process is restarted after 50 calls in the window: still 429", async () => {
    const store = openMemory()
    const before = await World.open({}, store)
    for (let made = 0; made < 50; made++) await before.get(list)
    await before.open.settled()
    const after = new World({}, store)
    expect((await after.get(list, { token: before.token })).status).toBe(429)
    after.nowMs += 10_000
    expect((await after.get(list, { token: before.token })).header("x-store-call-limit")).toBe("1/50")
  })
  it("STORE-24 51 bad tokens from one address: 429 for the 51st; another address is not touched", async () => {
    const world = await World.open()
    const statuses = []
    for (let made = 0; made < 51; made++) statuses.push((await world.get(list, { token: "sat_bad" })).status)
    expect(statuses).toEqual([...Array.from({ length: 50 }, () => 401), 429])
    expect((await world.get(list)).status).toBe(429)
    expect((await world.get(list, { client: "192.0.2.8" })).status).toBe(200)
  })
  it("a clock that steps back keeps the window; refused calls and OPTIONS cost nothing; seconds when asked so", async () => {
    const world = await World.open({ retryAfter: "seconds" })
    world.nowMs = Date.UTC(2028, 0, 1) + 12_500
    for (let made = 0; made < 50; made++) await world.get(list)
    expect((await world.get(list)).header("retry-after")).toBe("8")
    world.nowMs -= 4_000
    expect((await world.get(list)).status).toBe(429)
    world.nowMs += 12_000
    expect((await world.call({ method: "OPTIONS", path: list, token: "" })).status).toBe(204)
    expect((await world.get(list)).header("x-store-call-limit")).toBe("1/50")
  })
  it("console users have a window of their own", async () => {
    const world = await World.open()
    await world.open.staff.add({ username: "anna", password: "correct horse" })
    const headers = { cookie: `__Host-store_admin=${await world.open.staff.signIn("anna", "correct horse")}` }
    for (let made = 1; made <= 50; made++)
      expect((await world.get(list, { token: "", headers })).header("x-store-call-limit")).toBe(`${made}/50`)
    expect([(await world.get(list, { token: "", headers })).status, (await world.get(list)).status]).toEqual([
      429, 200
    ])
  })
})

describe("doors and paths", () => {
  it("STORE-69 PATCH of the collection: 405 with Allow", async () => {
    const world = await World.open()
    const answer = await world.call({ method: "PATCH", path: list, body: {} })
    expect([answer.status, answer.header("allow")]).toEqual([405, "GET, HEAD, POST, OPTIONS"])
    expect((await world.call({ method: "POST", path: "/products/1", body: {} })).header("allow")).toBe(
      "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"
    )
    expect((await world.call({ method: "TRACE", path: list })).header("allow")).toBe(
      "GET, HEAD, POST, OPTIONS"
    )
  })
  it("STORE-70 GET nothing.json: 404", async () => {
    const world = await World.open()
    for (const path of [
      "/nothing.json",
      "/Products",
      "/products/1/nothing",
      "/products/1/pictures/2",
      "/orders/status"
    ])
      expect([path, (await world.get(path)).status]).toEqual([path, 404])
  })
  it("STORE-71 GET /api/v2/products: 404", async () => {
    const answer = await (await World.open()).get("/api/v2/products")
    expect([answer.status, answer.body.status_code]).toEqual([404, 404])
  })
  it("STORE-72 wrong Host: 421", async () => {
    const world = await World.open()
    expect((await world.get(list, { host: "evil.example" })).status).toBe(421)
    expect((await world.get(list, { host: "SHOP.example:8443" })).status).toBe(200)
  })
  it("CORS only for an app's origins, never with credentials; the prefix of headers can be changed", async () => {
    const world = await World.open({ headerPrefix: "X-ACME" })
    await world.open.apps.change(world.app.appId, { allowed_origins: ["https://page.example"] })
    const ask = (origin: string) =>
      world.get(list, { token: "", headers: { origin, "x-acme-auth-token": world.token } })
    expect((await ask("https://page.example")).header("access-control-allow-origin")).toBe(
      "https://page.example"
    )
    expect((await ask("https://other.example")).header("access-control-allow-origin")).toBeUndefined()
    const preflight = await world.call({
      method: "OPTIONS",
      path: list,
      token: "",
      headers: { origin: "https://page.example" }
    })
    expect([
      preflight.status,
      preflight.header("access-control-allow-origin"),
      preflight.header("access-control-allow-credentials"),
      preflight.header("x-acme-call-limit")
    ]).toEqual([204, "https://page.example", undefined, "0/50"])
  })
  it("paths with and without .json, and with a slash at the end, are the same", async () => {
    const world = await World.open()
    for (const path of [
      "/product_statuses",
      "/product_statuses.json",
      "/product_statuses/",
      "/product_statuses.json/"
    ])
      expect((await world.get(path)).body.total_count).toBe(4)
    expect((await world.get("/product_statuses/1.json")).body.name).toBe("In Stock")
  })
  it("own tokens: revoked is revoked", async () => {
    const world = await World.open()
    const { token } = await world.user(["catalog"], ["Products"])
    await (world.open.tokens as OwnAppTokens).revoke(token)
    expect((await world.get(list, { token })).status).toBe(401)
  })
})
