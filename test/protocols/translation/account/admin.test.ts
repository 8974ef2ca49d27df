import { isRefusal } from "../../../../protocols/translation/problems.ts"
import { beforeEach, describe, expect, it } from "vitest"
import { TranslationHarness, type Answer } from "../harness.ts"

let world: TranslationHarness
let admin: string
const keysPath = "/v2/admin/developer-keys"

beforeEach(async () => {
  world = await TranslationHarness.open({ writes: ["en"] })
  admin = await world.key({ role: "admin", label: "root" })
})

const call = (
  method: string,
  path: string,
  more: { body?: unknown; query?: string; key?: string } = {}
): Promise<Answer> => world.call({ method, path, key: admin, ...more })

const create = async (body?: object): Promise<any> =>
  (await call("POST", keysPath, body === undefined ? {} : { body })).body

const nobody = "0f8fad5b-d9cb-469f-a165-70867728950e"

describe("developer keys (translation 15.1–15.5)", () => {
  it("a developer key: 403; no key: 403", async () => {
    for (const [method, path] of [
      ["POST", keysPath],
      ["GET", keysPath],
      ["PUT", `${keysPath}/deactivate`],
      ["PUT", `${keysPath}/label`],
      ["PUT", `${keysPath}/limits`],
      ["GET", "/v2/admin/analytics"],
      ["GET", "/v2/admin/analytics/custom-tags"]
    ] as const) {
      for (const key of [world.secret, ""]) expect((await call(method, path, { key })).status).toBe(403)
    }
  })
  it("15.2 the record, and the secret in the create answer alone; it works; only its hash is kept", async () => {
    world.nowMs += 1_000
    const created = await create({ label: "ci" })
    expect(created).toEqual({
      key_id: expect.stringMatching(new RegExp(`^${world.account.accountId}:[0-9a-f-]{36}$`)),
      key: expect.any(String),
      label: "ci",
      creation_time: "2026-01-31T12:00:01.000Z",
      deactivated_time: null,
      is_deactivated: false,
      usage_limits: {
        characters: null,
        speech_to_text_milliseconds: null,
        speech_to_speech_milliseconds: null
      }
    })
    expect((await world.translate({ text: "a" }, { key: created.key })).status).toBe(200)
    const listed = (await call("GET", keysPath)).body
    expect(listed.map((one: any) => one.label)).toEqual(["DeepL API Key", "ci"])
    expect(JSON.stringify(listed)).not.toContain(created.key)
    expect(
      world.store
        .range("translation-keys", { limit: 100 })
        .some(({ value }) => Buffer.from(value).includes(created.key))
    ).toBe(false)
  })
  it("15.2 empty body and empty label mean the default; 201 characters: 400", async () => {
    expect([(await create()).label, (await create({ label: "" })).label]).toEqual([
      "DeepL API Key",
      "DeepL API Key"
    ])
    expect((await call("POST", keysPath, { body: { label: "x".repeat(201) } })).status).toBe(400)
    expect((await create({ label: "ä".repeat(200) })).label).toHaveLength(200)
  })
  it("15.2 more than 25 active keys (free: 2): 400; a deactivated one makes room", async () => {
    for (let i = 1; i < 25; i++) await create()
    expect((await call("POST", keysPath)).status).toBe(400)
    const {
      body: [first]
    } = await call("GET", keysPath)
    await call("PUT", `${keysPath}/deactivate`, { body: { key_id: first.key_id } })
    expect((await call("POST", keysPath)).status).toBe(200)
    const free = await TranslationHarness.open({}, { account: { tier: "free" } })
    const root = await free.key({ role: "admin" })
    expect((await free.call({ path: keysPath, key: root })).status).toBe(200)
    expect((await free.call({ path: keysPath, key: root })).status).toBe(400)
  })
  it("15.4 deactivate: at once, permanent; again 200 with the unchanged record", async () => {
    const created = await create()
    world.nowMs += 1_000
    const off = await call("PUT", `${keysPath}/deactivate`, { body: { key_id: created.key_id } })
    expect([off.status, off.body.is_deactivated, off.body.deactivated_time]).toEqual([
      200,
      true,
      "2026-01-31T12:00:01.000Z"
    ])
    expect((await world.translate({ text: "a" }, { key: created.key })).status).toBe(403)
    world.nowMs += 1_000
    expect((await call("PUT", `${keysPath}/deactivate`, { body: { key_id: created.key_id } })).body).toEqual(
      off.body
    )
    expect(
      (await call("PUT", `${keysPath}/label`, { body: { key_id: created.key_id, label: "old" } })).body.label
    ).toBe("old")
  })
  it("15.5 limits replace all: an omitted or null one is unlimited, 0 blocks", async () => {
    const created = await create()
    const limit = (body: object) =>
      call("PUT", `${keysPath}/limits`, { body: { key_id: created.key_id, ...body } })
    expect(
      (await limit({ characters: 5, speech_to_text_milliseconds: 1, speech_to_speech_milliseconds: 2 })).body
        .usage_limits
    ).toEqual({ characters: 5, speech_to_text_milliseconds: 1, speech_to_speech_milliseconds: 2 })
    expect((await world.translate({ text: "123456" }, { key: created.key })).status).toBe(456)
    expect((await limit({ characters: 0 })).body.usage_limits).toEqual({
      characters: 0,
      speech_to_text_milliseconds: null,
      speech_to_speech_milliseconds: null
    })
    expect((await world.translate({ text: "1" }, { key: created.key })).status).toBe(456)
    expect((await limit({ characters: null })).body.usage_limits.characters).toBeNull()
    expect((await world.translate({ text: "1" }, { key: created.key })).status).toBe(200)
    for (const characters of [-1, 1.5, "x"]) expect((await limit({ characters })).status).toBe(400)
  })
  it.each(["deactivate", "label", "limits"])(
    "15.5 %s: key_id missing or not two UUIDs 400; unknown, of another account, or an admin key 404",
    async (what) => {
      const status = async (key_id: unknown) =>
        (await call("PUT", `${keysPath}/${what}`, { body: { key_id, label: "x" } })).status
      for (const id of [undefined, "", "x", nobody, `${nobody}:x`, `${nobody}:${nobody}:${nobody}`])
        expect(await status(id)).toBe(400)
      const root = world.ring.find(`DeepL-Auth-Key ${admin}`)!.key
      for (const id of [
        `${world.account.accountId}:${nobody}`,
        `${nobody}:${nobody}`,
        `${world.account.accountId}:${root.keyId}`
      ])
        expect(await status(id)).toBe(404)
    }
  )
  it("15.5 label: missing 400", async () =>
    expect(
      (await call("PUT", `${keysPath}/label`, { body: { key_id: (await create()).key_id } })).status
    ).toBe(400))
})

describe("analytics (translation 15.6)", () => {
  const report = (query: string) => call("GET", "/v2/admin/analytics", { query })
  const days = "start_date=2026-01-31&end_date=2026-02-01"
  it("totals, by key, by key and day: both days inclusive, rows without usage left out, sorted by day, then label", async () => {
    const b = await create({ label: "b" })
    const a = await create({ label: "a" })
    await world.translate({ text: "12345" }, { key: b.key })
    await world.translate({ text: "12" }, { key: a.key })
    await world.call({ path: "/v2/write/correct", key: a.key, body: { text: ["123"] } })
    world.nowMs += 86_400_000
    await world.translate({ text: "1" }, { key: a.key })
    world.nowMs += 86_400_000
    await world.translate({ text: "1".repeat(50) }, { key: a.key })
    const total = {
      total_characters: 11,
      text_translation_characters: 8,
      document_translation_characters: 0,
      text_improvement_characters: 3,
      speech_to_text_minutes: 0,
      speech_to_speech_minutes: 0
    }
    expect((await report(days)).body).toEqual({
      usage_report: { total_usage: total, start_date: "2026-01-31T00:00:00", end_date: "2026-02-01T00:00:00" }
    })
    const masked = (created: any) => `${created.key.slice(0, 4)}****${created.key.slice(-4)}`
    const by = (await report(`${days}&group_by=key`)).body.usage_report
    expect([
      by.group_by,
      by.key_usages.map((row: any) => [row.api_key, row.api_key_label, row.usage.total_characters])
    ]).toEqual([
      "key",
      [
        [masked(a), "a", 6],
        [masked(b), "b", 5]
      ]
    ])
    const daily = (await report(`${days}&group_by=key_and_day`)).body.usage_report
    expect(
      daily.key_and_day_usages.map((row: any) => [
        row.usage_date,
        row.api_key_label,
        row.usage.total_characters
      ])
    ).toEqual([
      ["2026-01-31T00:00:00Z", "a", 5],
      ["2026-01-31T00:00:00Z", "b", 5],
      ["2026-02-01T00:00:00Z", "a", 1]
    ])
    expect(
      (await report("start_date=2026-02-02&end_date=2026-02-02")).body.usage_report.total_usage
        .total_characters
    ).toBe(50)
  })
  it("speech in minutes with two decimals", async () => {
    const using = world.ring.find(`DeepL-Auth-Key ${world.secret}`)!
    const reserved = world.usage.reserve(using, "speechToTextMs", 90_600)
    if (isRefusal(reserved)) throw new Error(reserved.owner)
    await reserved.book()
    expect((await report(days)).body.usage_report.total_usage.speech_to_text_minutes).toBe(1.51)
  })
  it.each([
    ["no start", "end_date=2026-01-01"],
    ["no end", "start_date=2026-01-01"],
    ["bad date", "start_date=2026-02-30&end_date=2026-03-01"],
    ["another format", "start_date=1.2.2026&end_date=2026-03-01"],
    ["end before start", "start_date=2026-02-02&end_date=2026-02-01"]
  ])("%s: 400", async (_, query) => expect((await report(query)).status).toBe(400))
  it("366 days are allowed, more: 400 with its reason; bad group_by: 400 with its text", async () => {
    expect((await report("start_date=2024-01-01&end_date=2024-12-31")).status).toBe(200)
    const long = await report("start_date=2025-01-01&end_date=2026-01-02")
    expect([long.status, long.body.message]).toEqual([
      400,
      "Bad request. Reason: Date range cannot exceed 366 days"
    ])
    const bad = await report(`${days}&group_by=day`)
    expect([bad.status, bad.body.message]).toEqual([
      400,
      "Value for 'group_by' not supported. Allowed: '', 'key', 'key_and_day'."
    ])
  })
})

describe("custom tags (translation 15.7)", () => {
  const report = (query: string) =>
    call("GET", "/v2/admin/analytics/custom-tags", {
      query: `start_date=2026-01-31&end_date=2026-02-01${query}`
    })
  const use = (tag: string, text: string) =>
    world.translate({ text }, { headers: { "x-deepl-reporting-tag": tag } })
  it("only tagged requests, by period or day, sorted by tag, then day", async () => {
    await use("Team-B", "123")
    await use("team-a", "12")
    await world.translate({ text: "untagged" })
    world.nowMs += 86_400_000
    await use("team-b", "1")
    const { custom_tag_usage_report: period } = (await report("")).body
    expect(period).toEqual({
      aggregate_by: "period",
      start_date: "2026-01-31T00:00:00",
      end_date: "2026-02-01T00:00:00",
      next_page: null,
      usage: [
        {
          custom_tag: "team-a",
          breakdown: {
            total_characters: 2,
            text_translation_characters: 2,
            text_improvement_characters: 0,
            speech_to_text_minutes: 0,
            speech_to_speech_minutes: 0
          }
        },
        { custom_tag: "team-b", breakdown: expect.objectContaining({ total_characters: 4 }) }
      ]
    })
    const { custom_tag_usage_report: day } = (await report("&aggregate_by=day")).body
    expect(
      day.usage.map((row: any) => [row.custom_tag, row.usage_date, row.breakdown.total_characters])
    ).toEqual([
      ["team-a", "2026-01-31T00:00:00Z", 2],
      ["team-b", "2026-01-31T00:00:00Z", 3],
      ["team-b", "2026-02-01T00:00:00Z", 1]
    ])
  })
  it("100 rows a page, the first is 1, next_page null at the end", async () => {
    for (let i = 0; i < 205; i++) await use(`t${String(i).padStart(3, "0")}`, "1")
    const page = async (query: string) => {
      const { usage, next_page } = (await report(query)).body.custom_tag_usage_report
      return [usage.length, usage[0]?.custom_tag, next_page]
    }
    expect([await page(""), await page("&page=2"), await page("&page=3"), await page("&page=4")]).toEqual([
      [100, "t000", 2],
      [100, "t100", 3],
      [5, "t200", null],
      [0, undefined, null]
    ])
  })
  it("bad aggregate_by, page 0 or no number: 400", async () => {
    const bad = await report("&aggregate_by=key")
    expect([bad.status, bad.body.message]).toEqual([
      400,
      "Value for 'aggregate_by' not supported. Allowed: '', 'period', 'day'."
    ])
    for (const page of ["0", "x", "1.5"]) expect((await report(`&page=${page}`)).status).toBe(400)
  })
})
