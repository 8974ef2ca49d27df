import { beforeEach, describe, expect, it } from "vitest"
import { unheard } from "../../../answer.ts"
import { TranslationHarness, type Answer } from "../harness.ts"

const languages = ["de", "en", "es", "fr", "it", "ja", "ko", "pt", "zh"]

const detects = {
  "Hello world": "en",
  "Hallo Welt": "de",
  Olá: "pt",
  "teh cat": "en",
  fail: "en",
  Bonjour: "fr",
  やあ: "ja"
}

let world: TranslationHarness

beforeEach(async () => {
  world = await TranslationHarness.open({ writes: languages, detects })
})

const rephrase = (body: object, more: object = {}): Promise<Answer> =>
  world.call({ path: "/v2/write/rephrase", body, ...more })

const correct = (body: object): Promise<Answer> => world.call({ path: "/v2/write/correct", body })

describe("rephrase (translation 5.1)", () => {
  it("one improvement per text, order kept, codes cased; absent target is each text's language, English en-US, Portuguese pt-PT", async () => {
    const answer = await rephrase({ text: ["Hello world", "Hallo Welt", "Olá"] })
    expect([answer.status, answer.body]).toEqual([
      200,
      {
        improvements: [
          { text: "en-us  : Hello world", detected_source_language: "en", target_language: "en-US" },
          { text: "de  : Hallo Welt", detected_source_language: "de", target_language: "de" },
          { text: "pt-pt  : Olá", detected_source_language: "pt", target_language: "pt-PT" }
        ]
      }
    ])
  })
  it.each([
    ["en", "en-US"],
    ["EN-gb", "en-GB"],
    ["pt", "pt-PT"],
    ["zh-HANS", "zh-Hans"]
  ])("target %s is %s", async (target_lang, wanted) => {
    expect((await rephrase({ text: ["?"], target_lang })).body.improvements[0].target_language).toBe(wanted)
  })
  it.each(["xx", "pl", "zh-Hant", "es-419", "de-CH"])(
    "target %s: 400 Value for 'target_lang' not supported",
    async (target_lang) => {
      const answer = await rephrase({ text: ["Hello world"], target_lang })
      expect([answer.status, answer.body.message]).toEqual([400, "Value for 'target_lang' not supported."])
    }
  )
  it("style or tone in any case, plain and prefer_; default counts as not given", async () => {
    const text = async (more: object) =>
      (await rephrase({ text: ["Hello world"], target_lang: "en-GB", ...more })).body.improvements[0].text
    expect(await text({ writing_style: "BUSINESS" })).toBe("en-gb business : Hello world")
    expect(await text({ tone: "prefer_Friendly" })).toBe("en-gb  friendly: Hello world")
    expect(await text({ writing_style: "default", tone: "diplomatic" })).toBe(
      "en-gb  diplomatic: Hello world"
    )
    expect(await text({ writing_style: "prefer_default", tone: "default" })).toBe("en-gb  : Hello world")
  })
  it.each([
    ["academic", "friendly"],
    ["prefer_casual", "prefer_confident"],
    ["simple", "prefer_enthusiastic"]
  ])("style %s with tone %s: 400 Both writing_style and tone defined", async (writing_style, tone) => {
    const answer = await rephrase({ text: ["Hello world"], writing_style, tone })
    expect([answer.status, answer.body.message]).toEqual([
      400,
      expect.stringContaining("Both writing_style and tone defined")
    ])
  })
  it.each([
    ["tone", "friendly", "a tone"],
    ["writing_style", "simple", "a writing style"]
  ])("ja has no %s: 400; prefer_ falls back", async (name, value, words) => {
    const refused = await rephrase({ text: ["やあ"], target_lang: "ja", [name]: value })
    expect([refused.status, refused.body.message]).toEqual([
      400,
      expect.stringContaining(`Language ja does not support setting ${words}`)
    ])
    expect((await rephrase({ text: ["やあ"], target_lang: "ja", [name]: `prefer_${value}` })).status).toBe(
      200
    )
  })
  it("a language in which no engine knows styles refuses them the same way", async () => {
    expect(
      (await rephrase({ text: ["Bonjour"], target_lang: "fr", tone: "friendly" })).body.message
    ).toContain("Language fr does not support setting a tone")
  })
  it.each<[string, object]>([
    ["no text", {}],
    ["no texts", { text: [] }],
    ["51 texts", { text: Array.from({ length: 51 }, () => "a") }],
    ["unknown style", { text: ["a"], writing_style: "tea" }],
    ["unknown tone", { text: ["a"], tone: "tea" }],
    ["a text clearly in another language", { text: ["Hallo Welt"], target_lang: "en-US" }]
  ])("%s: 400, nothing billed", async (_, body) => {
    expect((await rephrase(body)).status).toBe(400)
    expect((await world.call({ method: "GET", path: "/v2/usage" })).body.character_count).toBe(0)
  })
  it("form-encoded as the Node client sends it", async () => {
    expect(
      (await rephrase({}, { body: "text=Hello+world&text=Hallo+Welt&target_lang=" })).body.improvements
    ).toHaveLength(2)
  })
  it("characters count in the account's total and in text improvement; over the limit 456", async () => {
    await rephrase({ text: ["Hello world", "💜"] }, { headers: { "x-deepl-reporting-tag": "team" } })
    const { body } = await world.call({ method: "GET", path: "/v2/usage" })
    expect([
      body.character_count,
      body.products.find((one: any) => one.product_type === "write").account_unit_count
    ]).toEqual([12, 12])
    const small = await world.key({ limits: { characters: 5 } })
    expect((await rephrase({ text: ["Hello world"] }, { key: small })).status).toBe(456)
  })
  it("free accounts 403; a key without write:improve 403; 415; the body may have 10240 bytes; an engine that fails 504, nothing billed", async () => {
    const free = await TranslationHarness.open({ writes: languages }, { account: { tier: "free" } })
    expect((await free.call({ path: "/v2/write/rephrase", body: { text: ["a"] } })).status).toBe(403)
    expect(
      (await rephrase({ text: ["a"] }, { key: await world.key({ scopes: ["translate:text"] }) })).status
    ).toBe(403)
    expect((await rephrase({}, { body: "a", type: "text/plain" })).status).toBe(415)
    expect(world.route("POST", "/v2/write/rephrase")!.body).toEqual({ as: "buffer", bytesMax: 10_240 })
    expect((await rephrase({ text: ["fail"] })).status).toBe(504)
    expect((await world.call({ method: "GET", path: "/v2/usage" })).body.character_count).toBe(0)
  })
  it("a client that goes away stops the engine; nothing is billed or stays reserved", async () => {
    let interrupted = 0
    const waiting = await TranslationHarness.open(
      { writes: languages, detects, interrupted: () => interrupted++ },
      { account: { tier: "paid", limits: { characters: 11 } } }
    )
    const path = "/v2/write/rephrase"
    const away = new AbortController()
    const body = { text: ["wait", "wait"], target_lang: "en-GB" }
    const answer = waiting.call({ path, body, signal: away.signal })
    expect((await waiting.call({ path, body: { text: ["Hello world"] } })).status).toBe(456)
    away.abort()
    expect((await answer).status).toBe(unheard)
    expect(interrupted).toBe(2)
    expect((await waiting.call({ path, body: { text: ["Hello world"] } })).status).toBe(200)
  })
  it("without an engine for the language: 400, and absent from /v3/languages", async () => {
    world = await TranslationHarness.open({ writes: ["en"], detects })
    expect((await rephrase({ text: ["Hallo Welt"] })).status).toBe(400)
    const listed = (await world.call({ method: "GET", path: "/v3/languages", query: "resource=write" })).body
    expect(
      listed.map((one: any) => [
        one.lang,
        one.usable_as_source,
        one.usable_as_target,
        Object.keys(one.features)
      ])
    ).toEqual([
      ["en", true, true, ["auto_detection"]],
      ["en-GB", false, true, ["writing_style", "tone"]],
      ["en-US", false, true, ["writing_style", "tone"]]
    ])
  })
})

describe("correct (translation 5.2)", () => {
  it("minimal edits; style and tone sent anyway are ignored", async () => {
    const answer = await correct({ text: ["teh cat"], writing_style: "nonsense", tone: "x" })
    expect([answer.status, answer.body]).toEqual([
      200,
      { improvements: [{ text: "the cat", detected_source_language: "en", target_language: "en-US" }] }
    ])
  })
  it("an empty text stays empty", async () =>
    expect((await correct({ text: [""], target_lang: "de" })).body.improvements[0].text).toBe(""))
})
