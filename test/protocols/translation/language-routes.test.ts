import type { Reservation } from "../../../protocols/translation/account/usage.ts"
import { describe, expect, it } from "vitest"
import { languages } from "../../../protocols/translation/languages.ts"
import { TranslationHarness, type Call } from "./harness.ts"

const get = (world: TranslationHarness, path: string, more: Call = {}) =>
  world.call({ method: "GET", path, ...more })

/** Engines that do everything the tables know. */
const every = languages.filter(({ code, base }) => code === base).map(({ code }) => code)

const all = {
  pairs: [
    ...every.flatMap((code) =>
      code === "en"
        ? []
        : ([
            ["en", code],
            [code, "en"]
          ] as const)
    ),
    ["en", "zh-hant"] as const
  ],
  formality: every
}

describe("6.1 /v2/usage", () => {
  it("free accounts: only character_count, character_limit", async () => {
    const world = await TranslationHarness.open(
      {},
      { account: { tier: "free", limits: { characters: 500_000 } } }
    )
    expect(world.secret).toMatch(/^[0-9a-f-]{36}:fx$/)
    await world.translate({ text: "Hello" })
    expect((await get(world, "/v2/usage")).body).toEqual({ character_count: 5, character_limit: 500_000 })
  })
  it("paid accounts: all; no limit is 1000000000000; counters are visible at once; this key apart from the account", async () => {
    const world = await TranslationHarness.open()
    expect(world.secret).toMatch(/^[0-9a-f-]{36}$/)
    await world.translate({ text: "Hello" })
    await world.translate({ text: "You" }, { key: await world.key({ limits: { characters: 100 } }) })
    const none = 1_000_000_000_000
    const minutes = {
      billing_unit: "minutes",
      api_key_unit_count: 0,
      account_unit_count: 0,
      api_key_character_count: 0,
      character_count: 0
    }
    expect((await get(world, "/v2/usage")).body).toEqual({
      character_count: 8,
      character_limit: none,
      api_key_character_count: 5,
      api_key_character_limit: none,
      products: [
        {
          product_type: "translate",
          billing_unit: "characters",
          api_key_unit_count: 5,
          account_unit_count: 8,
          api_key_character_count: 5,
          character_count: 8
        },
        {
          product_type: "write",
          billing_unit: "characters",
          api_key_unit_count: 0,
          account_unit_count: 0,
          api_key_character_count: 0,
          character_count: 0
        },
        { product_type: "speechToText", ...minutes },
        { product_type: "speechToSpeech", ...minutes }
      ],
      speech_to_text_milliseconds_count: 0,
      speech_to_text_milliseconds_limit: 0,
      speech_to_text_minutes_count: 0,
      speech_to_text_minutes_limit: none,
      speech_to_speech_minutes_count: 0,
      speech_to_speech_minutes_limit: none,
      start_time: "2026-01-31T12:00:00.000Z",
      end_time: "2026-02-28T12:00:00.000Z"
    })
  })
  it("minutes, rounded up", async () => {
    const world = await TranslationHarness.open({}, { account: { limits: { speechToTextMs: 600_000 } } })
    const reservation = world.usage.reserve(
      world.ring.find(`DeepL-Auth-Key ${world.secret}`)!,
      "speechToTextMs",
      60_001
    )
    await (reservation as Reservation).book()
    expect((await get(world, "/v2/usage")).body).toMatchObject({
      speech_to_text_minutes_count: 2,
      speech_to_text_minutes_limit: 10,
      character_count: 0
    })
  })
  it("document pairs only for accounts with such limits", async () => {
    const world = await TranslationHarness.open({}, { account: { tier: "free", limits: { documents: 5 } } })
    expect((await get(world, "/v2/usage")).body).toMatchObject({ document_count: 0, document_limit: 5 })
  })
  it("POST accepted too", async () =>
    expect((await (await TranslationHarness.open()).call({ path: "/v2/usage" })).status).toBe(200))
  it("billing period: calendar-month steps, the day clipped; a new one counts from 0", async () => {
    const world = await TranslationHarness.open({}, { account: { limits: { characters: 5 } } })
    await world.translate({ text: "Hello" })
    expect((await world.translate({ text: "x" })).status).toBe(456)
    world.nowMs = Date.UTC(2026, 1, 28, 12)
    expect((await world.translate({ text: "Hello" })).status).toBe(200)
    expect((await get(world, "/v2/usage")).body).toMatchObject({
      character_count: 5,
      start_time: "2026-02-28T12:00:00.000Z",
      end_time: "2026-03-31T12:00:00.000Z"
    })
  })
})

describe("6.2 /v2/languages", () => {
  it("type source (default): code upper case and English name, never supports_formality", async () => {
    const { body } = await get(
      await TranslationHarness.open({
        pairs: [
          ["en", "de"],
          ["de", "en"]
        ]
      }),
      "/v2/languages"
    )
    expect(body).toEqual([
      { language: "DE", name: "German" },
      { language: "EN", name: "English" }
    ])
  })
  it("targets: without EN and PT, with all variants of what the engines can do, supports_formality", async () => {
    const { body } = await get(
      await TranslationHarness.open({
        pairs: [
          ["en", "de"],
          ["de", "en"],
          ["en", "pt"]
        ],
        formality: ["de"]
      }),
      "/v2/languages",
      { query: "type=target" }
    )
    expect(body).toEqual([
      { language: "DE", name: "German", supports_formality: true },
      { language: "DE-CH", name: "German (Swiss)", supports_formality: true },
      { language: "EN-GB", name: "English (British)", supports_formality: false },
      { language: "EN-US", name: "English (American)", supports_formality: false },
      { language: "PT-BR", name: "Portuguese (Brazilian)", supports_formality: false },
      { language: "PT-PT", name: "Portuguese (European)", supports_formality: false }
    ])
  })
  it("A: with engines that can do everything, 101 sources and 108 targets, ZH as target is Chinese (simplified)", async () => {
    const world = await TranslationHarness.open(all)
    expect((await get(world, "/v2/languages")).body.length).toBe(101)
    const targets = (await get(world, "/v2/languages", { query: "type=target" })).body
    expect(targets.length).toBe(108)
    expect(
      targets.filter(({ language }: any) => language.startsWith("ZH")).map(({ name }: any) => name)
    ).toEqual(["Chinese (simplified)", "Chinese (simplified)", "Chinese (traditional)"])
  })
  it("other type: 400", async () =>
    expect(await get(await TranslationHarness.open(), "/v2/languages", { query: "type=both" })).toMatchObject(
      { status: 400, body: { message: "Value for 'type' not supported." } }
    ))
  it.each<[string, Call]>([
    ["1.2.10 a form-encoded body of a GET", { method: "GET", body: "type=target" }],
    ["1.2.10 body value wins over query value", { method: "GET", query: "type=source", body: "type=target" }],
    ["POST accepted too", { method: "POST", body: "type=target" }],
    ["POST of JSON", { method: "POST", body: { type: "target" } }]
  ])("%s", async (_, call) =>
    expect(
      (await (await TranslationHarness.open()).call({ path: "/v2/languages", ...call })).body[0]
    ).toHaveProperty("supports_formality")
  )
  it("no engine ready: empty, not faked", async () =>
    expect((await get(await TranslationHarness.open({ pairs: [] }), "/v2/languages")).body).toEqual([]))
})

describe("6.3 /v2/glossary-language-pairs", () => {
  it("all ordered pairs of two different glossary languages, lower case, that the engines can do", async () => {
    const { body } = await get(
      await TranslationHarness.open({
        pairs: [
          ["en", "de"],
          ["de", "en"],
          ["en", "af"]
        ]
      }),
      "/v2/glossary-language-pairs"
    )
    expect(body).toEqual({
      supported_languages: [
        { source_lang: "de", target_lang: "en" },
        { source_lang: "en", target_lang: "de" }
      ]
    })
  })
})

describe("6.4 /v3/languages", () => {
  const list = async (query: string, script = {}) =>
    get(await TranslationHarness.open(script), "/v3/languages", { query })
  it("BCP 47 casing; en is no target for translate_text; variants are never source; features as objects", async () => {
    const { body } = await list("resource=translate_text", {
      pairs: [
        ["en", "de"],
        ["de", "en"],
        ["en", "zh"]
      ],
      formality: ["de"]
    })
    const of = (lang: string) => body.find((row: any) => row.lang === lang)
    expect(of("de")).toEqual({
      lang: "de",
      name: "German",
      usable_as_source: true,
      usable_as_target: true,
      status: "stable",
      features: {
        auto_detection: { status: "stable" },
        tag_handling: { status: "stable" },
        formality: { status: "stable" },
        glossary: { status: "stable" },
        style_rules: { status: "stable" },
        translation_memory: { status: "stable" }
      }
    })
    expect(of("en")).toMatchObject({ usable_as_source: true, usable_as_target: false })
    expect(of("en-US")).toMatchObject({ usable_as_source: false, usable_as_target: true })
    expect(of("zh-Hans")).toMatchObject({ usable_as_source: false, usable_as_target: true })
    expect(of("zh-Hant")).toBeUndefined()
    expect(of("fr")).toBeUndefined()
  })
  it("A: 123 languages for translate_text, one less for translate_document", async () => {
    expect((await list("resource=translate_text", all)).body.length).toBe(123)
    expect((await list("resource=translate_document", all)).body.length).toBe(122)
  })
  it.each([
    ["glossary", 32],
    ["style_rules", 8],
    ["translation_memory", 12],
    ["write", 0]
  ])("C: %s with engines that can do everything: %i languages", async (resource, count) => {
    expect((await list(`resource=${resource}`, all)).body.length).toBe(count)
  })
  it("C voice: exactly what its own engines can do, non-external", async () => {
    const { body } = await list("resource=voice", {
      pairs: [
        ["en", "de"],
        ["de", "en"]
      ]
    })
    expect(
      body.map(({ lang, usable_as_source, usable_as_target, features }: any) => [
        lang,
        usable_as_source,
        usable_as_target,
        Object.keys(features)
      ])
    ).toEqual([
      ["de", true, true, ["glossary", "transcription", "formality", "spoken_terms"]],
      ["en", true, true, ["glossary", "transcription", "translated_speech", "spoken_terms"]],
      ["en-GB", false, true, ["glossary", "translated_speech"]],
      ["en-US", false, true, ["glossary", "translated_speech"]]
    ])
  })
  it("C voice: hi ms ta have status beta, shown only with include=beta", async () => {
    const script = {
      pairs: [
        ["en", "hi"],
        ["en", "ta"]
      ] as const
    }
    expect((await list("resource=voice", script)).body.map(({ lang }: any) => lang)).toEqual(["de", "en"])
    expect(
      (await list("resource=voice&include=beta,external", script)).body.map(({ lang, status }: any) => [
        lang,
        status
      ])
    ).toEqual([
      ["de", "stable"],
      ["en", "stable"],
      ["hi", "beta"],
      ["ta", "beta"]
    ])
  })
  it.each([
    ["", "Parameter 'resource' not specified"],
    ["resource=", "resource"],
    ["resource=tea", "Value for 'resource' not supported."],
    ["product=voice", "renamed"],
    ["resource=voice&include=x", "include"]
  ])("?%s → 400", async (query, message) => {
    const { status, body } = await list(query)
    expect(status).toBe(400)
    expect(body.message).toContain(message)
  })
})

describe("6.5 /v3/languages/resources", () => {
  it("needs_source_support/needs_target_support are left out when false", async () => {
    const { body } = await get(await TranslationHarness.open(), "/v3/languages/resources")
    expect(body.map(({ name }: any) => name)).toEqual([
      "translate_text",
      "translate_document",
      "glossary",
      "voice",
      "write",
      "style_rules",
      "translation_memory"
    ])
    expect(body[0].features).toEqual([
      { name: "auto_detection", needs_source_support: true },
      { name: "tag_handling", needs_source_support: true, needs_target_support: true },
      { name: "formality", needs_target_support: true },
      { name: "glossary", needs_source_support: true, needs_target_support: true },
      { name: "style_rules", needs_target_support: true },
      { name: "translation_memory", needs_source_support: true, needs_target_support: true }
    ])
    expect(body[4].features.map(({ name }: any) => name)).toEqual(["auto_detection", "writing_style", "tone"])
  })
})
