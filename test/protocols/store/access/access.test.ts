/** Ways in, scopes and areas, rate windows, doors. Source: docs/spec/store.md, sections 2 to 4, 11. */
import { describe, expect, it } from "vitest"
import { areas, scopes, type Scope } from "../../../../protocols/store/access/scopes.ts"
import { OwnAppTokens, type AppTokens } from "../../../../protocols/store/access/app-tokens.ts"
import { authorizationUnreachable } from "../../../../protocols/store/problems.ts"
import { openMemory } from "../../../../storage/memory.ts"
import { minimal, StoreHarness } from "../harness.ts"

const list = "/products.json"

describe("tokens", () => {
  it("STORE-1 GET products without token: 401, standard body, X-STORE-Call-Limit", async () => {
    const harness = await StoreHarness.open()
    const answer = await harness.get(list, { token: "" })
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
    const harness = await StoreHarness.open()
    const { token, app, tokenId } = await harness.admin(["catalog"])
    expect((await harness.get(list, { token })).status).toBe(200)
    await harness.shop.apps.revokeToken(app.appId, tokenId)
    const answers = [
      await harness.get(list, { token }),
      await harness.get(list, { token: harness.token.slice(0, -1) }),
      await harness.get(list, { token: `sat_${"A".repeat(43)}` }),
      await harness.get(list, { token: "nonsense" }),
      await harness.get(list, { token: "x".repeat(9_000) })
    ]
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401, 401, 401])
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
  })
  it("STORE-3 expired OAuth token: 401", async () => {
    const harness = await StoreHarness.open()
    const { token } = await harness.user(["catalog"], ["Products"], { lifeMs: 5_000 })
    expect((await harness.get(list, { token })).status).toBe(200)
    harness.nowMs += 5_000
    expect((await harness.get(list, { token })).status).toBe(401)
  })
  it("STORE-4 OAuth token for another resource: 401", async () => {
    const harness = await StoreHarness.open()
    const { token } = await harness.user(["catalog"], ["Products"], {
      resource: "https://other.example/api/v1/"
    })
    expect((await harness.get(list, { token })).status).toBe(401)
  })
  it("STORE-5 valid token in Authorization only, or in the query: 401", async () => {
    const harness = await StoreHarness.open()
    expect(
      (await harness.get(list, { token: "", headers: { authorization: `Bearer ${harness.token}` } })).status
    ).toBe(401)
    expect(
      (await harness.get(`${list}?token=${harness.token}&X-STORE-Auth-Token=${harness.token}`, { token: "" }))
        .status
    ).toBe(401)
  })
  it("STORE-6 plain HTTP from a non-loopback address: 403, token not used", async () => {
    const harness = await StoreHarness.open({ plainLoopback: true })
    const answer = await harness.get(list, { scheme: "http", client: "10.1.2.3" })
    expect([
      answer.status,
      answer.body.details,
      answer.header("x-store-call-limit"),
      answer.header("location")
    ]).toEqual([403, "HTTPS is required", "0/50", undefined])
    expect(
      (await harness.get(list, { scheme: "http", client: "127.0.0.1" })).header("x-store-call-limit")
    ).toBe("1/50")
    expect((await harness.get(list)).header("strict-transport-security")).toBe("max-age=31536000")
    const strict = await StoreHarness.open({ plainLoopback: false })
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
    const harness = new StoreHarness({ tokens: down })
    await harness.shop.begin()
    const answer = await harness.get(list, { token: "eyJ" })
    expect([answer.status, answer.header("retry-after")]).toEqual([503, "5"])
    expect(answer.header("x-store-call-limit")).toMatch(/\/50$/)
  })
  it("STORE-13 an app deleted in the console: its tokens 401 at the next call", async () => {
    const harness = await StoreHarness.open()
    const { token, app } = await harness.admin(["catalog"])
    const oauth = await harness.user(["catalog"], ["Products"])
    expect([
      (await harness.get(list, { token })).status,
      (await harness.get(list, { token: oauth.token })).status
    ]).toEqual([200, 200])
    await harness.shop.apps.remove(app.appId)
    await harness.shop.apps.remove(oauth.app.appId)
    expect([
      (await harness.get(list, { token })).status,
      (await harness.get(list, { token: oauth.token })).status
    ]).toEqual([401, 401])
  })
  it("a suspended app, a disabled user: 401; a rotated secret is new", async () => {
    const harness = await StoreHarness.open()
    const { token, app } = await harness.admin(["catalog"])
    const oauth = await harness.user(["catalog"], ["Products"])
    await harness.shop.apps.change(app.appId, { suspended: true })
    await harness.shop.staff.change(oauth.userId, { enabled: false })
    expect([
      (await harness.get(list, { token })).status,
      (await harness.get(list, { token: oauth.token })).status
    ]).toEqual([401, 401])
    expect(await harness.shop.apps.rotate(app.appId)).not.toBe(await harness.shop.apps.rotate(app.appId))
  })
  it("no token or secret lies in the store in the clear", async () => {
    const harness = await StoreHarness.open()
    const { token } = await harness.user(["catalog"], ["Products"])
    const { secret } = await harness.shop.apps.create({ name: "x" })
    const rows = [
      "store-apps",
      "store-admin-tokens",
      "store-admin-token-hashes",
      "store-app-tokens",
      "store-app-clients"
    ]
      .flatMap((name) => harness.store.range(name, { limit: 100 }))
      .map(({ key, value }) => `${key.join()} ${Buffer.from(value).toString("latin1")}`)
      .join()
    for (const clear of [token, harness.token, secret]) expect(rows).not.toContain(clear)
  })
})

describe("session", () => {
  const signedIn = async (held: ReadonlyArray<(typeof areas)[number]>) => {
    const harness = await StoreHarness.open()
    const userId = await harness.shop.staff.add({ username: "anna", password: "correct horse", areas: held })
    const session = (await harness.shop.staff.signIn("Anna", "correct horse"))!
    return { harness, userId, session, cookie: { cookie: `a=b; __Host-store_admin=${session}` } }
  }
  it("STORE-7 session cookie, GET: 200 for an allowed area, 403 for another", async () => {
    const { harness, cookie } = await signedIn(["Products"])
    expect((await harness.get(list, { token: "", headers: cookie })).status).toBe(200)
    const other = await harness.get("/orders", { token: "", headers: cookie })
    expect([other.status, other.body.details]).toEqual([403, "the area Orders is needed"])
    expect(
      (await harness.get(list, { token: "", headers: { ...cookie, accept: "text/html" } })).header(
        "content-type"
      )
    ).toBe("application/json; charset=utf-8")
  })
  it("STORE-8 session cookie, POST: 401", async () => {
    const { harness, cookie } = await signedIn(["Products"])
    expect((await harness.post(list, minimal, { token: "", headers: cookie })).status).toBe(401)
  })
  it("STORE-9 session cookie, GET with Sec-Fetch-Site: cross-site: 401", async () => {
    const { harness, cookie } = await signedIn(["Products"])
    for (const [site, status] of [
      ["cross-site", 401],
      ["same-origin", 200],
      ["same-site", 200],
      ["none", 200],
      ["weird", 401]
    ] as const) {
      expect(
        (await harness.get(list, { token: "", headers: { ...cookie, "sec-fetch-site": site } })).status
      ).toBe(status)
    }
  })
  it("STORE-10 a bad token together with a good cookie: 401", async () => {
    const { harness, cookie } = await signedIn(["Products"])
    expect((await harness.get(list, { token: "sat_bad", headers: cookie })).status).toBe(401)
  })
  it("it ends: idle, at its age, on sign-out; wrong passwords open none", async () => {
    const { harness, session, cookie } = await signedIn(["Products"])
    const seen = async () => (await harness.get(list, { token: "", headers: cookie })).status
    for (let minutes = 0; minutes < 11 * 60; minutes += 20) {
      harness.nowMs += 20 * 60_000
      expect(await seen()).toBe(200)
    }
    harness.nowMs += 31 * 60_000
    expect(await seen()).toBe(401)
    expect(await harness.shop.staff.signIn("anna", "wrong horse")).toBeUndefined()
    expect(await harness.shop.staff.signIn("nobody", "correct horse")).toBeUndefined()
    const next = (await harness.shop.staff.signIn("anna", "correct horse"))!
    expect(next).not.toBe(session)
    await harness.shop.staff.signOut(next)
    expect(
      (await harness.get(list, { token: "", headers: { cookie: `__Host-store_admin=${next}` } })).status
    ).toBe(401)
  })
})

describe("scopes and areas", () => {
  it("STORE-11 a read_catalog token, POST product: 403 naming catalog", async () => {
    const harness = await StoreHarness.open()
    const { token } = await harness.admin(["read_catalog"])
    expect((await harness.get(list, { token })).status).toBe(200)
    const answer = await harness.post(list, minimal, { token })
    expect([answer.status, answer.body.details]).toEqual([403, "the scope catalog is needed"])
  })
  it("STORE-12 an area taken from the user after the token was issued: 403", async () => {
    const harness = await StoreHarness.open()
    const { token, userId } = await harness.user(["catalog"], ["Products"])
    expect((await harness.get(list, { token })).status).toBe(200)
    await harness.shop.staff.change(userId, { areas: ["Orders"] })
    const answer = await harness.get(list, { token })
    expect([answer.status, answer.body.details]).toEqual([403, "the area Products is needed"])
  })
  it("STORE-16 creating an admin token with decrypt: 400", async () => {
    const harness = await StoreHarness.open()
    for (const scopes of [["decrypt"], ["everything"], []])
      await expect(harness.shop.apps.createToken(harness.app.appId, { scopes })).rejects.toMatchObject({
        problem: { _tag: "Invalid" }
      })
  })
  it("each scope opens its resources and no others; importMany wants import and the write scope", async () => {
    const harness = await StoreHarness.open()
    const opens: Array<[Scope, string]> = [
      ["read_catalog", "/products"],
      ["read_people", "/customers"],
      ["read_orders", "/orders"],
      ["custom_fields", "/custom_fields"],
      ["settings", "/warehouses"],
      ["system", "/webhooks"]
    ]
    for (const [scope] of opens) {
      const { token } = await harness.admin([scope])
      for (const [other, path] of opens) {
        harness.fresh()
        expect([scope, path, (await harness.get(path, { token })).status]).toEqual([
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
      const { token } = await harness.admin(held)
      expect((await harness.post("/products/importMany", [{ product: minimal }], { token })).status).toBe(
        status
      )
    }
    expect(Object.keys(scopes)).toHaveLength(11)
  })
  it("a webhook wants read access to the data of its event", async () => {
    const harness = await StoreHarness.open()
    const { token } = await harness.admin(["system", "read_people"])
    const subscribe = (event: string) =>
      harness.post("/webhooks", { event_type: event, url: "https://hooks.example/" }, { token })
    expect([
      (await subscribe("CustomerCreated")).status,
      (await subscribe("ProductCreated")).status,
      (await subscribe("NewOrder")).status
    ]).toEqual([201, 403, 403])
  })
})

describe("rate windows", () => {
  it("STORE-17 50 calls in a window, then one more", async () => {
    const harness = await StoreHarness.open()
    harness.nowMs = Date.UTC(2028, 0, 1) + 3_000
    for (let calls = 1; calls <= 50; calls++) {
      const { status, header } = await harness.get(list)
      expect([status, header("x-store-call-limit")]).toEqual([200, `${calls}/50`])
    }
    const refused = await harness.get(list)
    expect([
      refused.status,
      refused.body.message,
      refused.header("x-store-call-limit"),
      refused.header("retry-after")
    ]).toEqual([429, "Too Many Requests", "50/50", "Sat, 01 Jan 2028 00:00:10 GMT"])
  })
  it("STORE-18 60 calls at once: exactly 50 pass", async () => {
    const harness = await StoreHarness.open()
    const answers = await Promise.all(Array.from({ length: 60 }, () => harness.get(list)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(50)
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(10)
    expect(
      new Set(
        answers.filter(({ status }) => status === 200).map(({ header }) => header("x-store-call-limit"))
      ).size
    ).toBe(50)
  })
  it("STORE-19 the first call after the window's end passes, 1/50", async () => {
    const harness = await StoreHarness.open()
    for (let calls = 0; calls < 51; calls++) await harness.get(list)
    harness.nowMs += 10_000
    const answer = await harness.get(list)
    expect([answer.status, answer.header("x-store-call-limit")]).toEqual([200, "1/50"])
  })
  it("STORE-20 two installed apps, 25 calls each, then one: 429 for both; a custom app still passes", async () => {
    const harness = await StoreHarness.open()
    const one = await harness.admin(["catalog"], "installed")
    const two = await harness.admin(["catalog"], "installed")
    for (let calls = 0; calls < 25; calls++)
      for (const { token } of [one, two]) expect((await harness.get(list, { token })).status).toBe(200)
    expect([
      (await harness.get(list, { token: one.token })).status,
      (await harness.get(list, { token: two.token })).status,
      (await harness.get(list)).status
    ]).toEqual([429, 429, 200])
    expect((await harness.get(list)).header("x-store-call-limit")).toBe("2/50")
  })
  it("STORE-21 plan steel, 6th custom call: 429 with 5/5; a better plan counts at once", async () => {
    let plan: "steel" | "silver" = "steel"
    const harness = await StoreHarness.open({ plan: () => plan })
    for (let calls = 1; calls <= 5; calls++)
      expect((await harness.get(list)).header("x-store-call-limit")).toBe(`${calls}/5`)
    const refused = await harness.get(list)
    expect([refused.status, refused.header("x-store-call-limit")]).toEqual([429, "5/5"])
    plan = "silver"
    expect((await harness.get(list)).header("x-store-call-limit")).toBe("6/20")
    const { token } = await harness.admin(["catalog"], "installed")
    expect((await harness.get(list, { token })).header("x-store-call-limit")).toBe("1/50")
  })
  it("STORE-22 the window's actor is killed after 50 calls: still 429", async () => {
    const harness = await StoreHarness.open()
    for (let calls = 0; calls < 50; calls++) await harness.get(list)
    expect(harness.system.restart("rate-window", "store/custom")).toBe(true)
    expect((await harness.get(list)).status).toBe(429)
  })
  it("STORE-23 the process is restarted after 50 calls in the window: still 429", async () => {
    const store = openMemory()
    const before = await StoreHarness.open({}, store)
    for (let calls = 0; calls < 50; calls++) await before.get(list)
    await before.shop.settled()
    const after = new StoreHarness({}, store)
    expect((await after.get(list, { token: before.token })).status).toBe(429)
    after.nowMs += 10_000
    expect((await after.get(list, { token: before.token })).header("x-store-call-limit")).toBe("1/50")
  })
  it("STORE-24 51 bad tokens from one address: 429 for the 51st; another address is not touched", async () => {
    const harness = await StoreHarness.open()
    const statuses = []
    for (let calls = 0; calls < 51; calls++)
      statuses.push((await harness.get(list, { token: "sat_bad" })).status)
    expect(statuses).toEqual([...Array.from({ length: 50 }, () => 401), 429])
    expect((await harness.get(list)).status).toBe(429)
    expect((await harness.get(list, { client: "192.0.2.8" })).status).toBe(200)
  })
  it("a clock that steps back keeps the window; refused calls and OPTIONS cost nothing; seconds when asked so", async () => {
    const harness = await StoreHarness.open({ retryAfter: "seconds" })
    harness.nowMs = Date.UTC(2028, 0, 1) + 12_500
    for (let calls = 0; calls < 50; calls++) await harness.get(list)
    expect((await harness.get(list)).header("retry-after")).toBe("8")
    harness.nowMs -= 4_000
    expect((await harness.get(list)).status).toBe(429)
    harness.nowMs += 12_000
    expect((await harness.call({ method: "OPTIONS", path: list, token: "" })).status).toBe(204)
    expect((await harness.get(list)).header("x-store-call-limit")).toBe("1/50")
  })
  it("console users have a window of their own", async () => {
    const harness = await StoreHarness.open()
    await harness.shop.staff.add({ username: "anna", password: "correct horse" })
    const headers = {
      cookie: `__Host-store_admin=${await harness.shop.staff.signIn("anna", "correct horse")}`
    }
    for (let calls = 1; calls <= 50; calls++)
      expect((await harness.get(list, { token: "", headers })).header("x-store-call-limit")).toBe(
        `${calls}/50`
      )
    expect([
      (await harness.get(list, { token: "", headers })).status,
      (await harness.get(list)).status
    ]).toEqual([429, 200])
  })
})

describe("doors and paths", () => {
  it("STORE-69 PATCH of the collection: 405 with Allow", async () => {
    const harness = await StoreHarness.open()
    const answer = await harness.call({ method: "PATCH", path: list, body: {} })
    expect([answer.status, answer.header("allow")]).toEqual([405, "GET, HEAD, POST, OPTIONS"])
    expect((await harness.call({ method: "POST", path: "/products/1", body: {} })).header("allow")).toBe(
      "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"
    )
    expect((await harness.call({ method: "TRACE", path: list })).header("allow")).toBe(
      "GET, HEAD, POST, OPTIONS"
    )
  })
  it("STORE-70 GET nothing.json: 404", async () => {
    const harness = await StoreHarness.open()
    for (const path of [
      "/nothing.json",
      "/Products",
      "/products/1/nothing",
      "/products/1/pictures/2",
      "/orders/status"
    ])
      expect([path, (await harness.get(path)).status]).toEqual([path, 404])
  })
  it("STORE-71 GET /api/v2/products: 404", async () => {
    const answer = await (await StoreHarness.open()).get("/api/v2/products")
    expect([answer.status, answer.body.status_code]).toEqual([404, 404])
  })
  it("STORE-72 wrong Host: 421", async () => {
    const harness = await StoreHarness.open()
    expect((await harness.get(list, { host: "evil.example" })).status).toBe(421)
    expect((await harness.get(list, { host: "SHOP.example:8443" })).status).toBe(200)
  })
  it("CORS only for an app's origins, never with credentials; the prefix of headers can be changed", async () => {
    const harness = await StoreHarness.open({ headerPrefix: "X-ACME" })
    await harness.shop.apps.change(harness.app.appId, { allowed_origins: ["https://page.example"] })
    const ask = (origin: string) =>
      harness.get(list, { token: "", headers: { origin, "x-acme-auth-token": harness.token } })
    expect((await ask("https://page.example")).header("access-control-allow-origin")).toBe(
      "https://page.example"
    )
    expect((await ask("https://other.example")).header("access-control-allow-origin")).toBeUndefined()
    const preflight = await harness.call({
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
    const harness = await StoreHarness.open()
    for (const path of [
      "/product_statuses",
      "/product_statuses.json",
      "/product_statuses/",
      "/product_statuses.json/"
    ])
      expect((await harness.get(path)).body.total_count).toBe(4)
    expect((await harness.get("/product_statuses/1.json")).body.name).toBe("In Stock")
  })
  it("own tokens: revoked is revoked", async () => {
    const harness = await StoreHarness.open()
    const { token } = await harness.user(["catalog"], ["Products"])
    await (harness.shop.tokens as OwnAppTokens).revoke(token)
    expect((await harness.get(list, { token })).status).toBe(401)
  })
})
