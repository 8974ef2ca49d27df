import { beforeEach, describe, expect, it } from "vitest"
import { ruleValues } from "../../../../protocols/translation/styles/rule-values.ts"
import { effectOf, finished } from "../../../../protocols/translation/styles/effect.ts"
import { rulesIn } from "../../../../protocols/translation/styles/style-rules.ts"
import { TranslationHarness, type Answer } from "../harness.ts"

let world: TranslationHarness

beforeEach(async () => {
  world = await TranslationHarness.open({ change: (text) => text.toUpperCase() })
})

const call = (
  method: string,
  path = "",
  more: { body?: unknown; query?: string; type?: string; key?: string } = {}
): Promise<Answer> => world.call({ method, path: `/v3/style_rules${path}`, ...more })

const createList = async (more: object = {}): Promise<any> => {
  const answer = await call("POST", "", { body: { name: "mine", language: "de", ...more } })
  expect(answer.status).toBe(201)
  return answer.body
}

const nobody = "0f8fad5b-d9cb-469f-a165-70867728950e"
const instruction = { label: "tone", prompt: "Be brief." }

describe("style rules (translation 10)", () => {
  it("10.1 POST 201 full record; version 1; an instruction's source_language defaults to the list's language", async () => {
    expect(
      await createList({
        configured_rules: { punctuation: { ellipsis: "use_ellipsis_character" } },
        custom_instructions: [instruction]
      })
    ).toEqual({
      style_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: "mine",
      language: "de",
      version: 1,
      creation_time: "2026-01-31T12:00:00.000Z",
      updated_time: "2026-01-31T12:00:00.000Z",
      configured_rules: { punctuation: { ellipsis: "use_ellipsis_character" } },
      custom_instructions: [{ id: expect.any(String), ...instruction, source_language: "de" }]
    })
  })
  it("10.2 GET: pages of 10 by default, 25 at most; without `detailed` rules and instructions are absent", async () => {
    for (let i = 0; i < 12; i++) {
      await createList({ name: `n${i}` })
      world.nowMs++
    }
    const names = async (query: string) =>
      (await call("GET", "", { query })).body.style_rules.map(({ name }: any) => name)
    expect(await names("")).toEqual(Array.from({ length: 10 }, (_, i) => `n${i}`))
    expect(await names("page=1")).toEqual(["n10", "n11"])
    expect(await names("page=2&page_size=5")).toEqual(["n10", "n11"])
    const [plain] = (await call("GET", "", { query: "page_size=1" })).body.style_rules
    const [full] = (await call("GET", "", { query: "page_size=1&detailed=true" })).body.style_rules
    expect([
      Object.keys(plain).includes("configured_rules"),
      Object.keys(plain).includes("custom_instructions")
    ]).toEqual([false, false])
    expect(full).toMatchObject({ configured_rules: {}, custom_instructions: [] })
    for (const query of ["page_size=0", "page_size=26", "page=-1", "page=x", "detailed=perhaps"])
      expect((await call("GET", "", { query })).status).toBe(400)
  })
  it("10.1 version rises by 1 with every change of name, rules or instructions; updated_time follows", async () => {
    const { style_id: id } = await createList()
    const at = (path: string) => `/${id}${path}`
    let version = 1
    const rises = async (answer: Answer): Promise<any> => {
      expect(answer.status).toBeLessThan(300)
      const now = (await call("GET", at(""))).body
      expect([now.version, now.updated_time]).toEqual([++version, new Date(world.nowMs).toISOString()])
      return now
    }
    world.nowMs++
    expect((await rises(await call("PATCH", at(""), { body: { name: "new" } }))).name).toBe("new")
    world.nowMs++
    expect(
      (
        await rises(
          await call("PUT", at("/configured_rules"), {
            body: { numbers: { decimal_separator: "use_comma_as_decimal_separator" } }
          })
        )
      ).configured_rules
    ).toEqual({ numbers: { decimal_separator: "use_comma_as_decimal_separator" } })
    expect((await rises(await call("PUT", at("/configured_rules"), { body: {} }))).configured_rules).toEqual(
      {}
    )
    const added = await call("POST", at("/custom_instructions"), {
      body: { ...instruction, source_language: "en" }
    })
    expect([added.status, added.body]).toEqual([
      201,
      { id: expect.any(String), ...instruction, source_language: "en" }
    ])
    await rises(added)
    expect((await call("GET", at(`/custom_instructions/${added.body.id}`))).body).toEqual(added.body)
    const changed = await call("PUT", at(`/custom_instructions/${added.body.id}`), {
      body: { label: "l", prompt: "p" }
    })
    expect([changed.status, changed.body]).toEqual([
      200,
      { id: added.body.id, label: "l", prompt: "p", source_language: "de" }
    ])
    await rises(changed)
    const deleted = await call("DELETE", at(`/custom_instructions/${added.body.id}`))
    expect([deleted.status, deleted.text]).toEqual([204, ""])
    expect((await rises(deleted)).custom_instructions).toEqual([])
  })
  it("10.2 DELETE 204, then 404; unknown list or instruction 404; malformed id 400", async () => {
    const { style_id: id } = await createList()
    expect((await call("GET", `/${id}/custom_instructions/${nobody}`)).status).toBe(404)
    expect((await call("PUT", `/${id}/custom_instructions/${nobody}`, { body: instruction })).status).toBe(
      404
    )
    expect((await call("GET", `/${id}/custom_instructions/x`)).status).toBe(400)
    expect((await call("DELETE", `/${id}`)).status).toBe(204)
    expect([
      (await call("GET", `/${id}`)).status,
      (await call("DELETE", `/${id}`)).status,
      (await call("GET", "/x")).status
    ]).toEqual([404, 404, 400])
  })
  it.each<[string, object]>([
    ["no name", { language: "de" }],
    ["empty name", { name: " ", language: "de" }],
    ["a name of 1025 characters", { name: "x".repeat(1_025), language: "de" }],
    ["no language", { name: "a" }],
    ["a language without style rules", { name: "a", language: "pl" }],
    ["a variant as language", { name: "a", language: "en-GB" }],
    ["unknown category", { name: "a", language: "de", configured_rules: { colours: {} } }],
    ["unknown rule", { name: "a", language: "de", configured_rules: { punctuation: { blob: "x" } } }],
    ["unknown value", { name: "a", language: "de", configured_rules: { punctuation: { ellipsis: "x" } } }],
    [
      "a rule that every object has",
      { name: "a", language: "de", configured_rules: { punctuation: { toString: "x" } } }
    ],
    ["a category that is no object", { name: "a", language: "de", configured_rules: { punctuation: "x" } }],
    ["rules that are no object", { name: "a", language: "de", configured_rules: [1] }],
    [
      "label of 101",
      { name: "a", language: "de", custom_instructions: [{ label: "x".repeat(101), prompt: "p" }] }
    ],
    [
      "prompt of 301",
      { name: "a", language: "de", custom_instructions: [{ label: "l", prompt: "x".repeat(301) }] }
    ],
    ["no prompt", { name: "a", language: "de", custom_instructions: [{ label: "l" }] }],
    [
      "unknown source_language",
      { name: "a", language: "de", custom_instructions: [{ ...instruction, source_language: "xx" }] }
    ],
    [
      "201 instructions",
      { name: "a", language: "de", custom_instructions: Array.from({ length: 201 }, () => instruction) }
    ]
  ])("10.2 POST with %s: 400, nothing kept", async (_, body) => {
    expect((await call("POST", "", { body })).status).toBe(400)
    expect((await call("GET")).body.style_rules).toEqual([])
  })
  it("2.5 name of 1024, label of 100, prompt of 300 and 200 instructions are allowed; the 201st: 400; the 101st list: 456", async () => {
    const full = { label: "x".repeat(100), prompt: "💜".repeat(300) }
    const { style_id: id } = await createList({
      name: "ä".repeat(1_024),
      custom_instructions: Array.from({ length: 200 }, () => full)
    })
    expect((await call("POST", `/${id}/custom_instructions`, { body: instruction })).status).toBe(400)
    for (let i = 1; i < 100; i++) await createList()
    expect((await call("POST", "", { body: { name: "a", language: "de" } })).status).toBe(456)
  })
  it("free accounts: 403; another account's list: 404; scopes", async () => {
    const { style_id: id } = await createList()
    const free = await TranslationHarness.open({}, { account: { tier: "free" } })
    const other = await TranslationHarness.open()
    expect((await free.call({ method: "GET", path: "/v3/style_rules" })).status).toBe(403)
    expect((await other.call({ method: "GET", path: `/v3/style_rules/${id}` })).status).toBe(404)
    const reader = await world.key({ scopes: ["style_rules:read"] })
    expect([
      (await call("GET", "", { key: reader })).status,
      (await call("DELETE", `/${id}`, { key: reader })).status
    ]).toEqual([200, 403])
  })
  it("appendix B: every published value is taken, byte for byte", () => {
    for (const [category, rules] of Object.entries(ruleValues))
      for (const [rule, values] of Object.entries(rules))
        for (const value of values.split("|")) {
          expect(rulesIn({ [category]: { [rule]: value } })).toEqual({ [category]: { [rule]: value } })
        }
    for (const name of finished) {
      const [category, rule, value] = name.split(".") as [string, string, string]
      expect(ruleValues[category]![rule]!.split("|")).toContain(value)
    }
  })
})

describe("style_id in a translation (translation 3.1)", () => {
  it("of another language than the target's base: 400; unknown: 404; deleted: 404", async () => {
    const { style_id } = await createList()
    expect((await world.translate({ text: ["a"], target_lang: "FR", style_id })).status).toBe(400)
    expect((await world.translate({ text: ["a"], style_id: nobody })).status).toBe(404)
    await call("DELETE", `/${style_id}`)
    expect((await world.translate({ text: ["a"], style_id })).status).toBe(404)
  })
  it("rules and instructions reach the engine as instructions; rules of characters are applied; a change is seen at once", async () => {
    const { style_id } = await createList({
      configured_rules: {
        punctuation: { ellipsis: "use_ellipsis_character" },
        style_and_tone: { tone: ruleValues["style_and_tone"]!["tone"]!.split("|")[0] }
      },
      custom_instructions: [instruction]
    })
    expect(await world.text({ text: ["well..."], style_id, custom_instructions: ["Own."] })).toBe("WELL…")
    expect(world.asked.at(-1)!.instructions).toEqual([
      "Own.",
      "ellipsis: use ellipsis character.",
      expect.stringMatching(/^tone: /),
      "Be brief."
    ])
    await call("PUT", `/${style_id}/configured_rules`, { body: {} })
    expect(await world.text({ text: ["well..."], style_id })).toBe("WELL...")
  })
  it.each([
    ["punctuation", "quotation_mark", "use_guillemets", 'er sagte "ja", “nein”', "er sagte «ja», «nein»"],
    ["punctuation", "apostrophe", "use_curly_apostrophes", "don't", "don’t"],
    ["punctuation", "dash", "use_em_dash", "a – b", "a—b"],
    ["spelling_and_grammar", "eszett", "replace_eszett_with_ss", "Straße", "Strasse"],
    ["spelling_and_grammar", "umlauts", "replace_umlauts_with_ae_oe_ue", "Über öl", "Ueber oel"],
    ["numbers", "thousands_separator", "use_space", "1,234,567 and 12", "1 234 567 and 12"],
    ["punctuation", "range_indicator", "use_en_dash_without_spaces", "3 - 4", "3–4"],
    ["punctuation", "quotation_mark", "use_straight_quotation_marks", "« oui »", '"oui"']
  ])("%s.%s = %s", (category, rule, value, from, to) => {
    expect(
      effectOf({ rules: { [category]: { [rule]: value } }, instructions: [] } as any).finish!(from)
    ).toBe(to)
  })
})
