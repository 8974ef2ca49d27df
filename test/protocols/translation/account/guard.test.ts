import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { answerOf } from "../../../answer.ts"
import {
  Accounts,
  createAccount,
  createKey,
  Keys,
  KeyHashes,
  periodOf
} from "../../../../protocols/translation/account/records.ts"
import { guardOf } from "../../../../protocols/translation/account/guard.ts"
import type { KeyInUse, KeyRing } from "../../../../protocols/translation/account/keys.ts"
import type { Request } from "../../../../runtime/http.ts"
import { openMemory } from "../../../../storage/memory.ts"
import { StorageFault, type Store } from "../../../../storage/store.ts"
import { TranslationHarness } from "../harness.ts"

const paths = [
  ["POST", "/v2/translate"],
  ["GET", "/v2/usage"],
  ["POST", "/v2/usage"],
  ["GET", "/v2/languages"],
  ["POST", "/v2/languages"],
  ["GET", "/v2/glossary-language-pairs"],
  ["GET", "/v3/languages"],
  ["GET", "/v3/languages/resources"]
] as const

describe("1.3 authentication", () => {
  it.each(paths)(
    '%s %s: missing, malformed, unknown or admin key → 403 {"message":"Forbidden"}',
    async (method, path) => {
      const world = await TranslationHarness.open()
      const admin = await world.key({ role: "admin" })
      expect(admin).toMatch(/:adm$/)
      for (const authorization of [
        "",
        "DeepL-Auth-Key",
        "DeepL-Auth-Key ",
        `Bearer ${world.secret}`,
        world.secret,
        `DeepL-Auth-Key ${world.secret}x`,
        `DeepL-Auth-Key ${world.secret} x`,
        `DeepL-Auth-Key ${admin}`
      ]) {
        const answer = await world.call({
          method,
          path,
          headers: { authorization },
          body: "text=x&target_lang=de"
        })
        expect([answer.status, answer.body]).toEqual([403, { message: "Forbidden" }])
      }
    }
  )
  it("scheme name compared case-insensitively", async () => {
    const world = await TranslationHarness.open()
    for (const scheme of ["DeepL-Auth-Key", "deepl-auth-key", "DEEPL-AUTH-KEY  "])
      expect(
        (
          await world.call({
            method: "GET",
            path: "/v2/usage",
            headers: { authorization: `${scheme} ${world.secret}` }
          })
        ).status
      ).toBe(200)
  })
  it("`auth_key` as query or body parameter is not accepted any more; 403", async () => {
    const world = await TranslationHarness.open()
    expect(
      (
        await world.call({
          key: "",
          query: `auth_key=${world.secret}`,
          body: `auth_key=${world.secret}&text=x&target_lang=de`
        })
      ).status
    ).toBe(403)
  })
  it("deactivation: at once, permanent; again: unchanged record; a neighbour key stays", async () => {
    const world = await TranslationHarness.open()
    expect((await world.translate({ text: "x" })).status).toBe(200)
    const other = await world.key()
    const { accountId, keyId } = world.ring.find(`DeepL-Auth-Key ${world.secret}`)!.key
    const deactivated = world.ring.deactivate(accountId, keyId, 5)
    expect((await world.translate({ text: "x" })).status).toBe(403)
    expect((await deactivated)!.deactivatedMs).toBe(5)
    expect((await world.ring.deactivate(accountId, keyId, 9))!.deactivatedMs).toBe(5)
    expect(Keys.get(world.store, [accountId, keyId])!.deactivatedMs).toBe(5)
    expect((await world.translate({ text: "x" }, { key: other })).status).toBe(200)
    expect(world.ring.list(accountId).length).toBe(2)
  })
  it("a key of another account is not found by this account", async () => {
    const world = await TranslationHarness.open()
    const { keyId } = world.ring.find(`DeepL-Auth-Key ${world.secret}`)!.key
    expect(await world.ring.deactivate("other", keyId, 1)).toBe(undefined)
  })
  it("the secret is kept nowhere, only its keyed hash", async () => {
    const world = await TranslationHarness.open()
    const rows = ["translation-keys", "translation-key-hashes", "translation-accounts"].flatMap((table) =>
      world.store.range(table, { limit: 10 })
    )
    expect(rows.length).toBe(3)
    for (const { key, value } of rows)
      expect(`${key.join(" ")} ${Buffer.from(value).toString("latin1")}`).not.toContain(
        world.secret.slice(4, -4)
      )
    expect(Keys.range(world.store, { limit: 1 })[0]!.value.masked).toBe(
      `${world.secret.slice(0, 4)}****${world.secret.slice(-4)}`
    )
  })
  it("a key for an account that does not exist is refused, and leaves nothing", async () => {
    const store = openMemory()
    const account = { ...(await TranslationHarness.open()).account, accountId: "nobody" }
    await expect(createKey(store, (secret) => secret, account, { nowMs: 1 })).rejects.toMatchObject({
      _tag: "Conflict"
    })
    expect(
      [Accounts, Keys, KeyHashes].flatMap((rows) => rows.range(store, { limit: 5 }) as ReadonlyArray<unknown>)
    ).toEqual([])
  })
})

const scopeOf = (path: string): string => {
  if (path === "/v2/translate") return "translate:text"
  if (path === "/v2/usage") return "usage:read"
  return path.includes("glossary") ? "glossaries:read" : "languages:read"
}

describe("1.3 permission scopes", () => {
  it.each(paths.map(([method, path]) => [method, path, scopeOf(path!)] as const))(
    "%s %s needs %s",
    async (method, path, scope) => {
      const world = await TranslationHarness.open()
      const call = {
        method,
        path,
        query: path === "/v3/languages" ? "resource=voice" : "",
        body: "text=x&target_lang=de"
      }
      expect((await world.call({ ...call, key: await world.key({ scopes: [scope] }) })).status).toBe(200)
      const answer = await world.call({ ...call, key: await world.key({ scopes: ["style_rules:read"] }) })
      expect([answer.status, answer.body]).toEqual([
        403,
        { message: "Forbidden", code: "missing_scope", detail: `Missing required scope(s): ${scope}` }
      ])
    }
  )
})

it("1.3 a restricted key does not reach what has no scope", async () => {
  const world = await TranslationHarness.open()
  const using = (scopes: ReadonlyArray<string> | null) =>
    ({ key: { keyId: "k", role: "developer", scopes }, inFlight: 0 }) as unknown as KeyInUse
  const statusOf = async (scope: string | undefined, scopes: ReadonlyArray<string> | null) => {
    const found = using(scopes)
    const guard = guardOf({ find: () => found } as unknown as KeyRing, world.system)
    const handle = guard(scope, () => ({ status: 200 }))
    return (await answerOf(handle({ headers: { get: () => undefined } } as unknown as Request))).status
  }
  expect(await statusOf(undefined, null)).toBe(200)
  expect(await statusOf(undefined, [])).toBe(403)
  expect(await statusOf(undefined, ["usage:read"])).toBe(403)
  expect(await statusOf("usage:read", ["usage:read"])).toBe(200)
  expect(await statusOf("usage:read", ["translate:text"])).toBe(403)
})

describe("2.5 general request rate", () => {
  it("100 requests/s with bursts of 200 by default → 429 with Retry-After, per key", async () => {
    const world = await TranslationHarness.open({}, { limits: { calls: 200, windowMs: 2_000, inFlight: 64 } })
    for (let i = 0; i < 200; i++)
      expect((await world.call({ method: "GET", path: "/v2/usage" })).status).toBe(200)
    const answer = await world.call({ method: "GET", path: "/v2/usage" })
    expect([answer.status, answer.body.code, answer.header("retry-after")]).toEqual([
      429,
      "rate_limited",
      "2"
    ])
    expect((await world.call({ method: "GET", path: "/v2/usage", key: await world.key() })).status).toBe(200)
    world.nowMs += 2_000
    expect((await world.call({ method: "GET", path: "/v2/usage" })).status).toBe(200)
  })
  it("64 in flight → 429; when one ends another may come", async () => {
    const world = await TranslationHarness.open(
      { instead: () => Effect.never },
      { limits: { calls: 1_000, windowMs: 2_000, inFlight: 64 } }
    )
    const away = new AbortController()
    const running = Array.from({ length: 64 }, (_, i) =>
      world.translate({ text: "Hello" }, i === 0 ? { signal: away.signal } : {})
    )
    expect((await world.translate({ text: "Hello" })).status).toBe(429)
    away.abort()
    await running[0]
    expect((await world.call({ method: "GET", path: "/v2/usage" })).status).toBe(200)
  })
})

describe("2.3 order of checks", () => {
  const bad = { type: "text/plain", body: "{", headers: {} }
  it("auth → scope → rate → content type → syntax → parameters → referenced resources → quota", async () => {
    const world = await TranslationHarness.open(
      {},
      { limits: { calls: 1, windowMs: 2_000, inFlight: 64 }, account: { limits: { characters: 0 } } }
    )
    const scoped = await world.key({ scopes: [] })
    expect((await world.call({ ...bad, key: "unknown" })).status).toBe(403)
    expect((await world.call({ ...bad, key: scoped })).body.code).toBe("missing_scope")
    const id = "0f8fad5b-d9cb-469f-a165-70867728950e"
    const next = async (call: Parameters<TranslationHarness["call"]>[0]) => {
      world.nowMs += 2_000
      const { status, body } = await world.call(call)
      return [status, body.code]
    }
    expect(await next(bad)).toEqual([415, "invalid_content_type"])
    expect((await world.call(bad)).status).toBe(429)
    expect(await next({ ...bad, type: "application/json" })).toEqual([400, "invalid_json"])
    expect(await next({ body: { text: "x", source_lang: "en", glossary_id: id } })).toEqual([
      400,
      "missing_parameter"
    ])
    expect(
      await next({ body: { text: "x", source_lang: "en", target_lang: "de", glossary_id: id } })
    ).toEqual([404, "not_found"])
    expect(await next({ body: { text: "x", source_lang: "en", target_lang: "de" } })).toEqual([
      456,
      "quota_exceeded"
    ])
  })
})

describe("durability", () => {
  const failing = (): Store => {
    const store = openMemory()
    let fail = false
    return new Proxy(store, {
      get: (target, name) => {
        if (name === "fail")
          return (now: boolean) => {
            fail = now
          }
        if (name !== "commit") return (target as any)[name]
        return (writes: any, settled: any) => {
          if (!fail) return target.commit(writes, settled)
          setImmediate(() => settled(new StorageFault({ reason: "full", detail: "no space" })))
          return undefined
        }
      }
    })
  }
  const stored = (world: TranslationHarness): number =>
    world.store.counter("translation-usage", [
      "account",
      world.account.accountId,
      world.account.createdMs,
      "translate"
    ])
  const counting = (world: TranslationHarness): { commits: number } => {
    const counted = { commits: 0 }
    const { commit } = world.store
    ;(world.store as any).commit = (...args: Parameters<typeof commit>) => {
      counted.commits++
      return commit.apply(world.store, args)
    }
    return counted
  }
  const open = async (behindMs: number, store: Store = openMemory()): Promise<TranslationHarness> => {
    const world = new TranslationHarness({}, {}, store, behindMs)
    world.account = await createAccount(store, { tier: "paid", nowMs: world.nowMs })
    world.secret = await world.key()
    return world
  }
  const hello = (world: TranslationHarness, times: number) =>
    Promise.all(Array.from({ length: times }, () => world.translate({ text: "Hello" })))

  it("behindMs 0: usage is on disk before the answer leaves; bookings of a turn go as one commit", async () => {
    const world = await open(0)
    const counted = counting(world)
    await hello(world, 50)
    expect(counted.commits).toBe(1)
    expect(stored(world)).toBe(250)
  })
  it("behindMs 0: what cannot be kept is not answered with 200 and not counted", async () => {
    const store = failing()
    const world = await open(0, store)
    ;(store as any).fail(true)
    expect((await world.translate({ text: "Hello" })).status).toBe(504)
    expect((await world.call({ method: "GET", path: "/v2/usage" })).body.character_count).toBe(0)
  })
  it("written behind: counted at once in memory, on disk together, at the latest when the service settles", async () => {
    const world = await open(250)
    const counted = counting(world)
    await hello(world, 50)
    expect([counted.commits, stored(world)]).toEqual([0, 0])
    expect((await world.call({ method: "GET", path: "/v2/usage" })).body.character_count).toBe(250)
    await world.usage.settled()
    expect([counted.commits, stored(world)]).toEqual([1, 250])
  })
  it("written behind: what the disk refused is counted with the next commit", async () => {
    const store = failing()
    const world = await open(250, store)
    ;(store as any).fail(true)
    await world.translate({ text: "Hello" }, { headers: { "x-deepl-reporting-tag": "a" } })
    await expect(world.usage.settled()).rejects.toMatchObject({ reason: "full" })
    ;(store as any).fail(false)
    await world.translate({ text: "You" }, { headers: { "x-deepl-reporting-tag": "a" } })
    await world.usage.settled()
    const { accountId, createdMs } = world.account
    const day = Math.floor(world.nowMs / 86_400_000)
    const { keyId } = world.ring.find(`DeepL-Auth-Key ${world.secret}`)!.key
    expect(
      [
        ["account", accountId, createdMs],
        ["key", accountId, keyId, createdMs],
        ["day", accountId, day, keyId],
        ["tag", accountId, "a", day]
      ].map((key) => store.counter("translation-usage", [...key, "translate"]))
    ).toEqual([8, 8, 8, 8])
  })
  it("a service that starts anew counts on from the disk", async () => {
    const store = openMemory()
    const first = await open(250, store)
    await first.translate({ text: "Hello" })
    await first.usage.settled()
    const again = new TranslationHarness({}, {}, store)
    expect(
      (await again.call({ method: "GET", path: "/v2/usage", key: first.secret, headers: {} })).status
    ).toBe(200)
    const using = again.ring.find(`DeepL-Auth-Key ${first.secret}`)!
    expect(again.usage.read(using).account.used.translate).toBe(5)
  })
})

describe("1.1, 1.4, 19 the service", () => {
  it("unknown path: 404 with a JSON error body; wrong method: 405 with Allow", async () => {
    const { service } = await TranslationHarness.open()
    const about = { method: "GET", path: "/v2/x", traceId: "" }
    const lost = service.refused(404, about)
    const wrong = service.refused(405, about, "POST")
    expect([lost.status, JSON.parse(lost.body as string)]).toEqual([
      404,
      { message: "Not found", code: "not_found" }
    ])
    expect([wrong.status, wrong.headers!.find(([name]) => name === "Allow")![1]]).toEqual([405, "POST"])
    expect(service.prefixes.some((prefix) => "/v2/anything".startsWith(prefix))).toBe(true)
  })
  it.each([400, 404, 405, 408, 413, 414, 431, 500, 503] as const)(
    "a JSON body and Cache-Control: no-store on %i",
    async (status) => {
      const { service } = await TranslationHarness.open()
      const response = service.refused(status, { method: "GET", path: "/v2/x", traceId: "" }, "GET")
      expect(response.status).toBe(status)
      expect(JSON.parse(response.body as string).message).toEqual(expect.any(String))
      expect(response.headers).toContainEqual(["Cache-Control", "no-store"])
      expect(response.headers!.some(([name]) => name === "Retry-After")).toBe(status === 503)
    }
  )
  it("GET /v2/translate is withdrawn: no such route", async () =>
    expect((await TranslationHarness.open()).route("GET", "/v2/translate")).toBeUndefined())
  it("18.1.10 GET /healthz → 200 ok, without a key", async () =>
    expect(
      await (await TranslationHarness.open()).call({ method: "GET", path: "/healthz", key: "" })
    ).toMatchObject({ status: 200, text: "ok" }))
  it("1.4 CORS: none by default; for listed origins a preflight of 204", async () => {
    expect((await TranslationHarness.open()).route("OPTIONS", "/v2/translate")).toBeUndefined()
    const world = await TranslationHarness.open({}, { corsOrigins: ["https://a.example"] })
    const preflight = (origin: string) =>
      world.call({ method: "OPTIONS", path: "/v2/usage", key: "", headers: { origin } })
    const answer = await preflight("https://a.example")
    expect([
      answer.status,
      answer.header("access-control-allow-origin"),
      answer.header("access-control-allow-methods")
    ]).toEqual([204, "https://a.example", "GET, POST"])
    expect((await preflight("https://b.example")).header("access-control-allow-origin")).toBeUndefined()
    expect(
      (
        await world.call({ method: "GET", path: "/v2/usage", headers: { origin: "https://a.example" } })
      ).header("access-control-allow-origin")
    ).toBe("https://a.example")
  })
})

describe("6.1 billing period", () => {
  it.each([
    [
      "2026-01-31T12:00:00.000Z",
      "2026-02-28T11:59:59.999Z",
      "2026-01-31T12:00:00.000Z",
      "2026-02-28T12:00:00.000Z"
    ],
    [
      "2026-01-31T12:00:00.000Z",
      "2026-03-01T00:00:00.000Z",
      "2026-02-28T12:00:00.000Z",
      "2026-03-31T12:00:00.000Z"
    ],
    [
      "2024-02-29T00:00:00.000Z",
      "2025-03-01T00:00:00.000Z",
      "2025-02-28T00:00:00.000Z",
      "2025-03-29T00:00:00.000Z"
    ],
    [
      "2025-12-15T08:00:00.000Z",
      "2026-01-15T08:00:00.000Z",
      "2026-01-15T08:00:00.000Z",
      "2026-02-15T08:00:00.000Z"
    ]
  ])("created %s, now %s: %s to %s", (created, now, start, end) => {
    const { startMs, endMs } = periodOf(Date.parse(created), Date.parse(now))
    expect([new Date(startMs).toISOString(), new Date(endMs).toISOString()]).toEqual([start, end])
  })
  it("every instant lies in exactly one period", () => {
    for (let day = 0; day < 1_000; day++) {
      const created = Date.UTC(2023, 9, 1 + (day % 31), 5)
      const now = created + day * 86_400_000
      const { startMs, endMs } = periodOf(created, now)
      expect(startMs <= now && now < endMs && periodOf(created, endMs).startMs === endMs).toBe(true)
    }
  })
})
