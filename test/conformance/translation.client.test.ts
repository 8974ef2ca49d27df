/** The published client of the interface over a real socket, with scripted engines behind it. */
import * as deepl from "deepl-node"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { listenWith } from "../../runtime/transport/listen.ts"
import type { Server } from "../../runtime/transport/server.ts"
import { TranslationHarness } from "../protocols/translation/harness.ts"
import { answerOf } from "../answer.ts"

/** Upper case is the translation. */
const script = {
  change: (text: string) => text.toUpperCase(),
  detects: { "Hello, world!": "en", "Guten Tag": "de", Hello: "en" }
}

describe.each(["uws", "node"] as const)("deepl-node over %s", (adapter) => {
  let world: TranslationHarness
  let server: Server
  let url: string
  let client: deepl.Translator
  const clientOf = (key: string, options: deepl.TranslatorOptions = {}) =>
    new deepl.Translator(key, { serverUrl: url, maxRetries: 0, minTimeout: 5_000, ...options })
  beforeAll(async () => {
    world = await TranslationHarness.open(script, { account: { limits: { characters: 1_000 } } })
    server = await listenWith(adapter, () => {}, [world.service], { host: "127.0.0.1", port: 0 })
    url = `http://127.0.0.1:${server.port}`
    client = clientOf(world.secret)
  })
  afterAll(() => server.drain(1_000))

  it("translateText: one text, detection, billed characters", async () => {
    expect(await client.translateText("Hello, world!", null, "de")).toMatchObject({
      text: "HELLO, WORLD!",
      detectedSourceLang: "en",
      billedCharacters: 13
    })
  })
  it("translateText: several texts in order, each language detected", async () => {
    const found = await client.translateText(["Hello", "Guten Tag"], null, "fr")
    expect(found.map(({ text, detectedSourceLang }) => [text, detectedSourceLang])).toEqual([
      ["HELLO", "en"],
      ["GUTEN TAG", "de"]
    ])
  })
  it("translateText: many options at once", async () => {
    const found = await client.translateText("<d>One.\n<x>two</x> {name}</d>", "en", "de", {
      splitSentences: "nonewlines",
      preserveFormatting: true,
      formality: "prefer_more",
      tagHandling: "xml",
      tagHandlingVersion: "v2",
      outlineDetection: false,
      splittingTags: ["p", "q"],
      nonSplittingTags: "a,b",
      ignoreTags: ["x"],
      context: "nothing",
      modelType: "prefer_quality_optimized",
      customInstructions: ["be brief", "be kind"],
      extraRequestParameters: { colour: "blue" }
    })
    expect(found).toMatchObject({
      text: "<d>ONE.\n<x>two</x> {name}</d>",
      detectedSourceLang: "en",
      modelTypeUsed: "quality_optimized"
    })
    expect(world.asked.at(-1)).toMatchObject({
      formality: "more",
      context: "nothing",
      instructions: ["be brief", "be kind"]
    })
  })
  it.each<[string, Promise<unknown> | (() => Promise<unknown>), RegExp]>([
    ["target_lang", () => client.translateText("Hello", null, "xx" as any), /target_lang/],
    ["source_lang", () => client.translateText("Hello", "xx" as any, "de"), /source_lang/],
    ["formality", () => client.translateText("Hello", "de", "en-GB", { formality: "more" }), /formality/],
    [
      "split_sentences",
      () => client.translateText("Hello", null, "de", { splitSentences: "tea" as any }),
      /split_sentences/
    ],
    [
      "malformed markup",
      () => client.translateText("<a>Hello", null, "de", { tagHandling: "xml" }),
      /Tag handling parsing failed/
    ]
  ])("bad request: %s", async (_, ask, message) => expect(ask).rejects.toThrow(message))
  it("unknown glossary → GlossaryNotFoundError", async () => {
    await expect(
      client.translateText("Hello", "en", "de", { glossary: "0f8fad5b-d9cb-469f-a165-70867728950e" })
    ).rejects.toThrow(/not found/i)
  })
  it("getSourceLanguages, getTargetLanguages, getGlossaryLanguagePairs", async () => {
    expect((await client.getSourceLanguages()).find(({ code }) => code === "de")).toEqual({
      code: "de",
      name: "German"
    })
    const targets = await client.getTargetLanguages()
    expect(targets.find(({ code }) => code === "de")).toEqual({
      code: "de",
      name: "German",
      supportsFormality: true
    })
    expect(targets.map(({ code }) => code)).toEqual(expect.arrayContaining(["en-US", "en-GB", "pt-BR"]))
    expect(
      (await client.getGlossaryLanguagePairs()).some(
        ({ sourceLang, targetLang }) => sourceLang === "en" && targetLang === "de"
      )
    ).toBe(true)
  })
  it("getUsage counts what was translated", async () => {
    const before = (await client.getUsage()).character!.count
    await client.translateText("Hello", null, "de")
    const usage = await client.getUsage()
    expect(usage.character).toMatchObject({ count: before + 5, limit: 1_000 })
    expect(usage.anyLimitReached()).toBe(false)
  })
  it("a wrong key → AuthorizationError", async () => {
    await expect(clientOf("invalid").translateText("Hello", null, "de")).rejects.toThrow(
      deepl.AuthorizationError
    )
    await expect(clientOf("invalid").getUsage()).rejects.toThrow(deepl.AuthorizationError)
  })
  it("an exhausted quota → QuotaExceededError", async () => {
    const key = await world.key({ limits: { characters: 8 } })
    await clientOf(key).translateText("Hello", null, "de")
    await expect(clientOf(key).translateText("Hello", null, "de")).rejects.toThrow(deepl.QuotaExceededError)
  })
  it("too many requests → TooManyRequestsError, or tried again until there is room", async () => {
    const crowded = await TranslationHarness.open(script, {
      limits: { calls: 1, windowMs: 2_000, inFlight: 64 }
    })
    const statuses: Array<number> = []
    const watched = {
      ...crowded.service,
      routes: crowded.service.routes.map((route) => ({
        ...route,
        handle: async (request: Parameters<typeof route.handle>[0]) => {
          const response = await answerOf(route.handle(request), request.signal)
          statuses.push(response.status)
          if (statuses.length > 2) crowded.nowMs += 2_000
          return response
        }
      }))
    }
    const own = await listenWith(adapter, () => {}, [watched], { host: "127.0.0.1", port: 0 })
    const at = { serverUrl: `http://127.0.0.1:${own.port}` }
    await clientOf(crowded.secret, at).getUsage()
    await expect(clientOf(crowded.secret, at).getUsage()).rejects.toThrow(deepl.TooManyRequestsError)
    expect(
      await clientOf(crowded.secret, { ...at, maxRetries: 3 }).translateText("Hello", null, "de")
    ).toMatchObject({ text: "HELLO" })
    expect(statuses).toEqual([200, 429, 429, 200])
    await own.drain(1_000)
  })
  it("every answer carries a trace id, and is not to be stored", async () => {
    const response = await fetch(`${url}/v2/usage`)
    expect(response.status).toBe(403)
    expect(response.headers.get("x-trace-id")).toMatch(/^[0-9a-f]{32}$/)
    expect(response.headers.get("cache-control")).toBe("no-store")
    await response.text()
  })
  it("unknown path 404, wrong method 405 with Allow, body above 131072 bytes 413, a doubled slash is one", async () => {
    const answer = async (path: string, init: RequestInit) => {
      const response = await fetch(`${url}${path}`, {
        ...init,
        headers: { authorization: `DeepL-Auth-Key ${world.secret}`, "content-type": "application/json" }
      })
      return [
        response.status,
        response.headers.get("allow"),
        typeof ((await response.json()) as any).message
      ] as const
    }
    expect(await answer("/v2/nothing", {})).toEqual([404, null, "string"])
    expect(await answer("/v2/translate", {})).toEqual([405, "POST", "string"])
    const body = (bytes: number) =>
      JSON.stringify({
        text: "x".repeat(bytes - JSON.stringify({ text: "", target_lang: "de" }).length),
        target_lang: "de"
      })
    expect(await answer("/v2/translate", { method: "POST", body: body(131_073) })).toEqual([
      413,
      null,
      "string"
    ])
    expect((await answer("//v2/translate", { method: "POST", body: body(131_072) }))[0]).toBe(456)
  })
})
