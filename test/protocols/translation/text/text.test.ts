import { Effect } from "effect"
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest"
import { unheard } from "../../../answer.ts"
import { fault, TranslationHarness, type Call } from "../harness.ts"

const id = "0f8fad5b-d9cb-469f-a165-70867728950e"
const upper = { change: (text: string) => text.toUpperCase() }

const characters = async (world: TranslationHarness): Promise<number> =>
  (await world.call({ method: "GET", path: "/v2/usage" })).body.character_count

describe("translate 3.2 success", () => {
  it("one element per text, same order; detected_source_language is the upper-case base", async () => {
    const world = await TranslationHarness.open({ ...upper, detects: { One: "en", Zwei: "de", "": "en" } })
    const answer = await world.translate({ text: ["One", "Zwei", ""], target_lang: "fr" })
    expect(answer.status).toBe(200)
    expect(answer.body).toEqual({
      translations: [
        { detected_source_language: "EN", text: "ONE" },
        { detected_source_language: "DE", text: "ZWEI" },
        { detected_source_language: "EN", text: "" }
      ]
    })
  })
  it("headers: JSON, Cache-Control no-store, the engine named", async () => {
    const answer = await (await TranslationHarness.open()).translate({ text: "One" })
    expect([
      answer.header("content-type"),
      answer.header("cache-control"),
      answer.header("x-troupe-engine")
    ]).toEqual(["application/json", "no-store", "fake"])
  })
  it("billed_characters only if asked: code points of the source", async () => {
    const world = await TranslationHarness.open()
    expect(
      (
        await world.translate({ text: ["Hello, world!", "a😀", ""], show_billed_characters: true })
      ).body.translations.map((one: any) => one.billed_characters)
    ).toEqual([13, 2, 0])
    expect(
      (await world.translate({ text: "x", show_billed_characters: false })).body.translations[0]
    ).not.toHaveProperty("billed_characters")
  })
  it.each([
    ["quality_optimized", "quality_optimized"],
    ["prefer_quality_optimized", "quality_optimized"],
    ["latency_optimized", "latency_optimized"],
    [undefined, undefined]
  ])("model_type %s → model_type_used %s", async (model_type, used) => {
    expect(
      (await (await TranslationHarness.open()).translate({ text: "x", model_type })).body.translations[0]
        .model_type_used
    ).toBe(used)
  })
  it.each([
    ["xml", undefined, "v2"],
    ["html", "v1", "v1"],
    [undefined, "v1", undefined]
  ])(
    "tag_handling %s version %s → tag_handling_version %s",
    async (tag_handling, tag_handling_version, version) => {
      expect(
        (await (await TranslationHarness.open()).translate({ text: "x", tag_handling, tag_handling_version }))
          .body.translations[0].tag_handling_version
      ).toBe(version)
    }
  )
  it("when source_lang was given, that value is reported", async () => {
    expect(
      (await (await TranslationHarness.open()).translate({ text: "Hallo", source_lang: "fR" })).body
        .translations[0].detected_source_language
    ).toBe("FR")
  })
  it("if nothing can be detected report EN", async () => {
    expect(
      (await (await TranslationHarness.open({ detects: {} })).translate({ text: "123 😀" })).body
        .translations[0]
    ).toEqual({ detected_source_language: "EN", text: "123 😀" })
  })
  it("an unreliable text is detected together with the others", async () => {
    const world = await TranslationHarness.open({ detects: { "Guten Tag": "de" } })
    expect(
      (await world.translate({ text: ["ok", "Guten Tag"], target_lang: "fr" })).body.translations.map(
        (one: any) => one.detected_source_language
      )
    ).toEqual(["DE", "DE"])
  })
})

describe("translate 3.1 parameters", () => {
  const long = "x".repeat(301)
  it.each<[string, Record<string, unknown>, number, string?]>([
    ["text required", {}, 400, "Parameter 'text' not specified"],
    ["text: empty array → 400", { text: [] }, 400, "text"],
    ["text: 50 entries", { text: Array.from({ length: 50 }, () => "x") }, 200],
    [
      "text: 51 entries → 400",
      { text: Array.from({ length: 51 }, () => "x") },
      400,
      "Value for 'text' not supported."
    ],
    ["text: a JSON string counts as one text", { text: "x" }, 200],
    ["text: no string → 400", { text: [1] }, 400, "text"],
    ["text: object → 400", { text: { a: 1 } }, 400, "text"],
    ["target_lang required", { text: "x", target_lang: null }, 400, "Parameter 'target_lang' not specified"],
    [
      "target_lang unknown → 400",
      { text: "x", target_lang: "xx" },
      400,
      "Value for 'target_lang' not supported."
    ],
    ["target_lang in any case", { text: "x", target_lang: "zH-hANS" }, 200],
    ["target_lang EN, PT, ZH resolve to variants", { text: "x", source_lang: "de", target_lang: "PT" }, 200],
    [
      "source_lang: target-only variants → 400",
      { text: "x", source_lang: "EN-US" },
      400,
      "Value for 'source_lang' not supported."
    ],
    ["source_lang unknown → 400", { text: "x", source_lang: "xx" }, 400, "source_lang"],
    ['source_lang "" equals absent', { text: "x", source_lang: "" }, 200],
    ["source_lang null equals absent", { text: "x", source_lang: null }, 200],
    ["context accepted", { text: "x", context: "about cats" }, 200],
    [
      "show_billed_characters: no bool → 400",
      { text: "x", show_billed_characters: "yes" },
      400,
      "show_billed_characters"
    ],
    ["split_sentences: number accepted", { text: "x", split_sentences: 0 }, 200],
    [
      "split_sentences: other → 400",
      { text: "x", split_sentences: "2" },
      400,
      "Value for 'split_sentences' not supported."
    ],
    ["preserve_formatting: no bool → 400", { text: "x", preserve_formatting: 7 }, 400, "preserve_formatting"],
    ["formality any case", { text: "x", formality: "MORE" }, 200],
    [
      "formality more on a target without formality → 400",
      { text: "x", target_lang: "en-GB", source_lang: "de", formality: "more" },
      400,
      "formality"
    ],
    [
      "formality the engine cannot do → 400",
      { text: "x", target_lang: "ru", formality: "less" },
      400,
      "formality"
    ],
    [
      "formality prefer_* falls back silently",
      { text: "x", target_lang: "en-GB", source_lang: "de", formality: "prefer_less" },
      200
    ],
    [
      "formality other → 400",
      { text: "x", formality: "polite" },
      400,
      "Value for 'formality' not supported."
    ],
    ["model_type other → 400", { text: "x", model_type: "best" }, 400, "model_type"],
    ["glossary_id needs source_lang → 400", { text: "x", glossary_id: id }, 400, "source_lang"],
    [
      "glossary_id no UUID → 400",
      { text: "x", source_lang: "en", glossary_id: "g" },
      400,
      "Value for 'glossary_id' not supported."
    ],
    ["glossary_id unknown → 404", { text: "x", source_lang: "en", glossary_id: id }, 404],
    [
      "glossary_id not with glossary_ids → 400",
      { text: "x", source_lang: "en", glossary_id: id, glossary_ids: [id] },
      400,
      "glossary_ids"
    ],
    ["glossary_ids empty list = absent", { text: "x", glossary_ids: [] }, 200],
    [
      "glossary_ids more than 5 → 400",
      { text: "x", source_lang: "en", glossary_ids: Array.from({ length: 6 }, () => id) },
      400,
      "glossary_ids"
    ],
    [
      "glossary_ids one no UUID → 400",
      { text: "x", source_lang: "en", glossary_ids: `${id},x` },
      400,
      "glossary_ids"
    ],
    ["glossary_ids unknown → 404", { text: "x", source_lang: "en", glossary_ids: [id] }, 404],
    ["glossary_ids need source_lang → 400", { text: "x", glossary_ids: [id] }, 400, "source_lang"],
    ["style_id no UUID → 400", { text: "x", style_id: "s" }, 400, "Value for 'style_id' not supported."],
    ["style_id unknown → 404", { text: "x", style_id: id }, 404],
    [
      "translation_memory_id no UUID → 400",
      { text: "x", translation_memory_id: "m" },
      400,
      "translation_memory_id"
    ],
    ["translation_memory_id unknown → 404", { text: "x", translation_memory_id: id }, 404],
    ["translation_memory_threshold 0–100", { text: "x", translation_memory_threshold: 100 }, 200],
    [
      "translation_memory_threshold without a memory: validated, then ignored",
      { text: "x", translation_memory_threshold: 101 },
      400,
      "translation_memory_threshold"
    ],
    [
      "translation_memory_threshold no integer → 400",
      { text: "x", translation_memory_threshold: 7.5 },
      400,
      "translation_memory_threshold"
    ],
    [
      "custom_instructions ≤ 10",
      { text: "x", custom_instructions: Array.from({ length: 10 }, () => "be nice") },
      200
    ],
    [
      "custom_instructions: 11 → 400",
      { text: "x", custom_instructions: Array.from({ length: 11 }, () => "be nice") },
      400,
      "custom_instructions"
    ],
    [
      "custom_instructions each ≤ 300 code points",
      { text: "x", custom_instructions: ["😀".repeat(300)] },
      200
    ],
    [
      "custom_instructions: 301 characters → 400",
      { text: "x", custom_instructions: [long] },
      400,
      "custom_instructions"
    ],
    [
      "custom_instructions: target base must be one of de en es fr it ja ko zh",
      { text: "x", target_lang: "ru", custom_instructions: ["a"] },
      400,
      "custom_instructions"
    ],
    [
      "custom_instructions: an empty array is always fine",
      { text: "x", target_lang: "ru", custom_instructions: [] },
      200
    ],
    ["tag_handling other → 400", { text: "x", tag_handling: "md" }, 400, "tag_handling"],
    [
      "tag_handling_version other → 400",
      { text: "x", tag_handling: "xml", tag_handling_version: "v3" },
      400,
      "tag_handling_version"
    ],
    ["tag_handling_version without tag_handling ignored", { text: "x", tag_handling_version: "v3" }, 200],
    [
      "outline_detection no bool → 400",
      { text: "x", tag_handling: "xml", outline_detection: "maybe" },
      400,
      "outline_detection"
    ],
    ["tag lists: no strings → 400", { text: "x", tag_handling: "xml", ignore_tags: [1] }, 400, "ignore_tags"],
    ["enable_beta_languages accepted, no effect", { text: "x", enable_beta_languages: true }, 200],
    ["unknown parameters are ignored", { text: "x", colour: { deep: ["blue"] } }, 200]
  ])("%s", async (_, body, status, message) => {
    const answer = await (await TranslationHarness.open()).translate(body)
    expect(answer.status).toBe(status)
    if (status !== 200) expect(answer.body.message).toEqual(expect.any(String))
    if (message !== undefined) expect(`${answer.body.message}`).toContain(message)
  })
  it.each([
    ["en", "en-us"],
    ["PT", "pt-pt"],
    ["zh", "zh-hans"]
  ])("1.5.4 target %s → the engine is asked for %s when it knows it", async (target_lang, asked) => {
    const world = await TranslationHarness.open({ pairs: [["de", asked]] })
    expect((await world.translate({ text: "Hallo", source_lang: "de", target_lang })).status).toBe(200)
    expect(world.asked[0]).toMatchObject({ source: "de", target: asked })
  })
  it("a variant which the engine does not know goes by its base; another script does not", async () => {
    const world = await TranslationHarness.open({
      pairs: [
        ["de", "es"],
        ["de", "zh"]
      ]
    })
    expect((await world.translate({ text: "Hallo", source_lang: "de", target_lang: "ES-419" })).status).toBe(
      200
    )
    expect(world.asked[0]).toMatchObject({ target: "es" })
    expect((await world.translate({ text: "Hallo", source_lang: "de", target_lang: "ZH-HANT" })).status).toBe(
      400
    )
  })
  it("context, formality and instructions reach the engine", async () => {
    const world = await TranslationHarness.open()
    await world.translate({
      text: "Hello",
      source_lang: "en",
      context: "c",
      formality: "prefer_more",
      custom_instructions: ["i"]
    })
    expect(world.asked[0]).toMatchObject({
      source: "en",
      target: "de",
      context: "c",
      formality: "more",
      instructions: ["i"]
    })
  })
  it.each(["application/x-www-form-urlencoded", ""])(
    "the Node client's form (content type %j)",
    async (type) => {
      const world = await TranslationHarness.open(upper)
      const answer = await world.call({
        type,
        body: "text=One.&text=b%26c&target_lang=de&show_billed_characters=1&tag_handling=xml&tag_handling_version=v1&ignore_tags=x,y&custom_instructions=a&custom_instructions=b"
      })
      expect(answer.body.translations.map((one: any) => [one.text, one.billed_characters])).toEqual([
        ["ONE.", 4],
        ["B&C", 3]
      ])
    }
  )
  it("tag lists: JSON array, repeated, comma-separated, mixed", async () => {
    const world = await TranslationHarness.open(upper)
    for (const ignore_tags of [["x", "y"], "x,y", ["x , y"], ["", "y,x"]])
      expect(await world.text({ text: "a <x>b</x> <y>c</y>", tag_handling: "xml", ignore_tags })).toBe(
        "A <x>b</x> <y>c</y>"
      )
  })
})

describe("translate 3.1 header X-DeepL-Reporting-Tag", () => {
  it.each([
    ["team-billing", 200],
    ["  Team-Billing ", 200],
    ["", 200],
    ["   ", 200],
    ["x".repeat(100), 200],
    ["x".repeat(101), 400],
    ["a b", 400],
    ["a, b", 400],
    ["ä", 400],
    ["a\u0001", 400]
  ])("%j → %i", async (tag, status) => {
    expect(
      (
        await (
          await TranslationHarness.open()
        ).translate({ text: "x" }, { headers: { "x-deepl-reporting-tag": tag } })
      ).status
    ).toBe(status)
  })
  it("counts for the tag and the day, lower-case", async () => {
    const world = await TranslationHarness.open()
    await world.translate({ text: "four" }, { headers: { "x-deepl-reporting-tag": "Team" } })
    const day = Math.floor(world.nowMs / 86_400_000)
    expect(
      world.store.counter("translation-usage", ["tag", world.account.accountId, "team", day, "translate"])
    ).toBe(4)
    expect(
      world.store
        .range("translation-tags", { prefix: [world.account.accountId], limit: 10 })
        .map(({ key }) => key)
    ).toEqual([[world.account.accountId, "team"]])
  })
})

describe("translate 3.3 behaviour", () => {
  it("3.3.1 same source and target language: allowed, billed, unchanged, also between variants", async () => {
    const world = await TranslationHarness.open(upper)
    expect(await world.text({ text: "hello {x}.", source_lang: "en", target_lang: "EN-GB" })).toBe(
      "hello {x}."
    )
    expect(await world.text({ text: "hello", target_lang: "en-US" })).toBe("hello")
    expect(world.asked).toEqual([])
    expect(await characters(world)).toBe(15)
  })
  it("3.3.2 quota: code points of all texts, tags included, context excluded", async () => {
    const world = await TranslationHarness.open({}, { account: { limits: { characters: 20 } } })
    expect(
      (
        await world.translate({
          text: ["<b>1234</b>", "😀😀"],
          tag_handling: "html",
          context: "not counted at all"
        })
      ).status
    ).toBe(200)
    expect(await characters(world)).toBe(13)
    expect((await world.translate({ text: "12345678" })).status).toBe(456)
    expect((await world.translate({ text: "1234567" })).status).toBe(200)
  })
  it("3.3.2 exceeding account or key quota: 456 and nothing translated", async () => {
    for (const limits of [
      { account: { limits: { characters: 5 } } },
      { key: { limits: { characters: 5 } } }
    ]) {
      const world = await TranslationHarness.open({}, limits)
      const answer = await world.translate({ text: "123456" })
      expect([answer.status, answer.body.code]).toEqual([456, "quota_exceeded"])
      expect(world.asked).toEqual([])
      expect(await characters(world)).toBe(0)
    }
  })
  it("0 blocks a key; empty texts are free", async () => {
    const world = await TranslationHarness.open({}, { key: { limits: { characters: 0 } } })
    expect((await world.translate({ text: "x" })).status).toBe(456)
    expect((await world.translate({ text: "" })).status).toBe(200)
  })
  it("what runs at once never passes the limit", async () => {
    const world = await TranslationHarness.open(
      { instead: () => Effect.never },
      { account: { limits: { characters: 10 } } }
    )
    const away = new AbortController()
    const first = world.translate({ text: "abcdefgh" }, { signal: away.signal })
    expect((await world.translate({ text: "123" })).status).toBe(456)
    away.abort()
    expect((await first).status).toBe(unheard)
    expect(await characters(world)).toBe(0)
    expect((await world.translate({ text: "123" }, { signal: AbortSignal.abort() })).status).toBe(unheard)
  })
  it("3.3.6 xml v2: not well-formed → 400 `Tag handling parsing failed, please check input.`, nothing billed", async () => {
    const world = await TranslationHarness.open()
    const answer = await world.translate({ text: ["ok", "<a>x"], tag_handling: "xml" })
    expect([answer.status, answer.body.message]).toEqual([
      400,
      "Tag handling parsing failed, please check input."
    ])
    expect(
      (await world.translate({ text: "<a>x", tag_handling: "xml", tag_handling_version: "v1" })).status
    ).toBe(200)
    expect(await characters(world)).toBe(4)
  })
  it("3.3.7 html: split_sentences is `nonewlines` by default", async () => {
    const world = await TranslationHarness.open()
    await world.translate({ text: "one\ntwo", tag_handling: "html" })
    await world.translate({ text: "one\ntwo" })
    expect(world.asked.map(({ segments }) => segments.length)).toEqual([1, 2])
  })
  it("3.3.8 without tag_handling, `<` and `&` are plain text", async () =>
    expect(await (await TranslationHarness.open(upper)).text({ text: "a <b>c</b> & d" })).toBe(
      "A <B>C</B> & D"
    ))
  it("preserve_formatting: true leaves the engine's edges alone", async () => {
    const world = await TranslationHarness.open({ change: () => "hallo" })
    expect(await world.text({ text: "Hello.", preserve_formatting: true })).toBe("hallo")
    expect(await world.text({ text: "Hello.", preserve_formatting: false })).toBe("Hallo.")
  })
  it("one engine call per source language, texts of one language together", async () => {
    const world = await TranslationHarness.open({ detects: { "One. Two": "en", Drei: "de", Four: "en" } })
    await world.translate({ text: ["One. Two", "Drei", "Four"], target_lang: "fr" })
    expect(world.asked.map(({ source, segments }) => [source, segments.length])).toEqual([
      ["en", 3],
      ["de", 1]
    ])
  })
  it("C general rule: what the engines cannot do → 400 naming target_lang, or source_lang", async () => {
    const world = await TranslationHarness.open({
      pairs: [
        ["en", "de"],
        ["de", "en"]
      ]
    })
    const refused = async (body: Record<string, unknown>) => {
      const {
        status,
        body: { message, code }
      } = await world.translate(body)
      return [status, message, code]
    }
    expect(await refused({ text: "x", source_lang: "en", target_lang: "fr" })).toEqual([
      400,
      "Value for 'target_lang' not supported.",
      "unsupported_language_pair"
    ])
    expect(await refused({ text: "x", target_lang: "fr" })).toEqual([
      400,
      "Value for 'target_lang' not supported.",
      "unsupported_language_pair"
    ])
    expect(await refused({ text: "x", source_lang: "fr", target_lang: "de" })).toEqual([
      400,
      "Value for 'source_lang' not supported.",
      "unsupported_language"
    ])
    expect(await characters(world)).toBe(0)
  })
})

describe("2.3 faults of the engine", () => {
  it.each<[Parameters<typeof fault>[0], number, string | undefined]>([
    ["crashed", 504, undefined],
    ["upstream", 504, undefined],
    ["unavailable", 504, undefined],
    ["timeout", 504, undefined],
    ["overloaded", 529, "2"],
    ["unsupported", 400, undefined],
    ["bad-input", 400, undefined]
  ])("%s → %i, nothing billed, nothing stays reserved", async (reason, status, retryAfter) => {
    const world = await TranslationHarness.open(
      { instead: () => Effect.fail(fault(reason)) },
      { account: { limits: { characters: 5 } } }
    )
    await world.translate({ text: "Hello" })
    const answer = await world.translate({ text: "Hello" })
    expect([answer.status, answer.header("retry-after")]).toEqual([status, retryAfter])
    expect(await characters(world)).toBe(0)
  })
  it("a defect is thrown to the transport (500), nothing stays reserved", async () => {
    const world = await TranslationHarness.open(
      { instead: () => Effect.die(new Error("bug")) },
      { account: { limits: { characters: 5 } } }
    )
    await expect(world.translate({ text: "Hello" })).rejects.toThrow("bug")
    await expect(world.translate({ text: "Hello" })).rejects.toThrow("bug")
  })
  describe("time", () => {
    beforeEach(() => {
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
    })
    afterEach(() => {
      vi.useRealTimers()
    })
    it("2.4 answer within 5 s: an engine that is silent → 504, and it is interrupted", async () => {
      let interrupted = false
      const world = await TranslationHarness.open({
        instead: () =>
          Effect.onInterrupt(Effect.never, () =>
            Effect.sync(() => {
              interrupted = true
            })
          )
      })
      const answer = world.translate({ text: "Hello" })
      await vi.advanceTimersByTimeAsync(5_000)
      expect((await answer).status).toBe(504)
      expect(interrupted).toBe(true)
    })
  })
})

describe("answers given before", () => {
  const twice = async (
    script: Parameters<typeof TranslationHarness.open>[0],
    first: Record<string, unknown>,
    second: Record<string, unknown>
  ) => {
    const world = await TranslationHarness.open(script)
    const answers = [await world.translate(first), await world.translate(second)]
    return { world, answers, calls: world.asked.length }
  }
  it("are given again without the engine, billed again, with the engine named", async () => {
    const { world, answers, calls } = await twice(upper, { text: "Hello." }, { text: "Hello." })
    expect(calls).toBe(1)
    expect(answers[1]).toMatchObject({ body: answers[0]!.body })
    expect(answers[1]!.header("x-troupe-engine")).toBe("fake")
    expect(await characters(world)).toBe(12)
  })
  it.each<[string, Record<string, unknown>]>([
    ["target", { target_lang: "fr" }],
    ["formality", { formality: "more" }],
    ["context", { context: "c" }],
    ["instructions", { custom_instructions: ["i"] }],
    ["tags", { tag_handling: "html" }],
    ["split", { split_sentences: "0" }],
    ["formatting", { preserve_formatting: true }],
    ["source", { source_lang: "es" }]
  ])("not with another %s", async (_, more) =>
    expect((await twice({}, { text: "Hello." }, { text: "Hello.", ...more })).calls).toBe(2)
  )
  it("not of remote engines, nor when detection needed the neighbours", async () => {
    expect((await twice({ tier: "remote" }, { text: "Hello." }, { text: "Hello." })).calls).toBe(2)
    expect((await twice({ detects: {} }, { text: "Hello." }, { text: "Hello." })).calls).toBe(2)
  })
})

describe("1.2 bodies and 2.2 texts", () => {
  it.each<[string, Call, number, string]>([
    [
      "1.2.2 any other content type: 415",
      { type: "text/plain", body: "text=x" },
      415,
      "invalid_content_type"
    ],
    ["broken JSON: 400", { type: "application/json", body: "{" }, 400, "invalid_json"],
    ["an empty body: 400", { body: "" }, 400, "missing_parameter"]
  ])("%s", async (_, call, status, code) => {
    const answer = await (await TranslationHarness.open()).call(call)
    expect([answer.status, answer.body.code, answer.header("cache-control")]).toEqual([
      status,
      code,
      "no-store"
    ])
  })
  it("2.5 /v2/translate body: 131072 bytes → 413", async () => {
    const world = await TranslationHarness.open()
    expect(world.route("POST", "/v2/translate")!.body).toEqual({ as: "buffer", bytesMax: 131_072 })
    const refused = world.service.refused(413, { method: "POST", path: "/v2/translate", traceId: "" })
    expect([refused.status, JSON.parse(refused.body as string).message]).toEqual([413, "Payload too large"])
  })
  it("a full body of one text passes", async () => {
    const text = "Lorem ipsum. ".repeat(9_000)
    expect(await (await TranslationHarness.open()).text({ text })).toBe(text)
  })
})
