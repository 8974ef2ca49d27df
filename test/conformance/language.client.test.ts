/** Every feature of the published client besides documents, over a real socket: with scripted engines, and in
 *  test mode. */
import { Context } from "effect"
import * as deepl from "deepl-node"
import { PassThrough } from "node:stream"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { RateWindow } from "../../actors/rate-window.ts"
import { testMode } from "../../protocols/translation/test-mode/test-mode.ts"
import { ActorSystem } from "../../runtime/registry.ts"
import { startTestProxy } from "../../runtime/program/test-proxy.ts"
import { listenWith } from "../../runtime/transport/listen.ts"
import type { Server } from "../../runtime/transport/server.ts"
import { openMemory } from "../../storage/memory.ts"
import { sealer } from "../../storage/seal.ts"
import { tmxOf, until } from "../protocols/translation/memories/tmx-files.ts"
import { TranslationHarness } from "../protocols/translation/harness.ts"

const script = {
  change: (text: string) => text.toUpperCase(),
  writes: ["de", "en", "fr", "ja"],
  detects: { Hello: "en" }
}

const nobody = "0f8fad5b-d9cb-469f-a165-70867728950e"

const clientOf = (url: string, key: string, options: deepl.TranslatorOptions = {}) =>
  new deepl.DeepLClient(key, { serverUrl: url, maxRetries: 0, minTimeout: 5_000, ...options })

const inTestMode = async () => {
  const store = openMemory()
  const system = new ActorSystem({ store, nowMs: Date.now })
  system.host(RateWindow, Context.empty())
  return testMode({
    store,
    actors: system,
    hashKey: (secret) => sealer(new Uint8Array(32)).hash(secret, "test"),
    clock: Date.now
  })
}

describe.each([
  ["scripted engines", "uws"],
  ["scripted engines", "node"],
  ["test mode", "uws"]
] as const)("deepl-node, %s over %s", (mode, adapter) => {
  let server: Server
  let client: deepl.DeepLClient
  const fixture = mode === "test mode"
  beforeAll(async () => {
    const world = fixture ? undefined : await TranslationHarness.open(script)
    const service = world?.service ?? (await inTestMode()).service
    server = await listenWith(adapter, () => {}, [service], { host: "127.0.0.1", port: 0 })
    client = clientOf(`http://127.0.0.1:${server.port}`, world?.secret ?? "any-key")
  })
  afterAll(() => server.drain(500))

  it("glossaries v2: create, get, list, entries, use, CSV, delete, errors", async () => {
    const entries = new deepl.GlossaryEntries({ entries: { hello: "hallo", "a b": "c" } })
    const created = await client.createGlossary("mine", "en", "de", entries)
    expect(created).toMatchObject({
      name: "mine",
      ready: true,
      sourceLang: "en",
      targetLang: "de",
      entryCount: 2
    })
    expect(await client.getGlossary(created.glossaryId)).toEqual(created)
    expect(
      (await client.listGlossaries()).find(({ glossaryId }) => glossaryId === created.glossaryId)
    ).toEqual(created)
    expect((await client.getGlossaryEntries(created)).entries()).toEqual(entries.entries())
    expect((await client.translateText("hello", "en", "de", { glossary: created })).text).toBe("hallo")
    const csv = await client.createGlossaryWithCsv(
      "csv",
      "en",
      "de",
      Buffer.from('sourceEntry1,targetEntry1,en,de\n"source""Entry","target,Entry",en,de')
    )
    expect((await client.getGlossaryEntries(csv)).entries()).toEqual({
      sourceEntry1: "targetEntry1",
      'source"Entry': "target,Entry"
    })
    await client.deleteGlossary(created)
    await expect(client.getGlossary(created.glossaryId)).rejects.toThrow(deepl.GlossaryNotFoundError)
    await expect(client.deleteGlossary(nobody)).rejects.toThrow(deepl.GlossaryNotFoundError)
    await expect(client.getGlossaryEntries("invalid")).rejects.toThrow(deepl.DeepLError)
    await expect(client.createGlossary("x", "en", "xx" as any, entries)).rejects.toThrow(deepl.DeepLError)
  })
  it("glossaries v3: create, get, list, entries, rename, merge, replace, CSV, use, delete", async () => {
    const of = (sourceLangCode: any, targetLangCode: any, entries: Record<string, string>) => ({
      sourceLangCode,
      targetLangCode,
      entries: new deepl.GlossaryEntries({ entries })
    })
    const created = await client.createMultilingualGlossary("multi", [
      of("en", "de", { hello: "hallo" }),
      of("de", "en", { hallo: "hello" })
    ])
    expect(
      created.dictionaries.map(({ sourceLangCode, targetLangCode, entryCount }) => [
        sourceLangCode,
        targetLangCode,
        entryCount
      ])
    ).toEqual([
      ["en", "de", 1],
      ["de", "en", 1]
    ])
    expect(await client.getMultilingualGlossary(created.glossaryId)).toEqual(created)
    expect(
      (await client.listMultilingualGlossaries()).some(({ glossaryId }) => glossaryId === created.glossaryId)
    ).toBe(true)
    expect(
      (await client.getMultilingualGlossaryDictionaryEntries(created, "en", "de")).entries.entries()
    ).toEqual({ hello: "hallo" })
    expect((await client.updateMultilingualGlossaryName(created, "renamed")).name).toBe("renamed")
    await client.updateMultilingualGlossaryDictionary(created, of("en", "de", { bye: "tschüs" }))
    expect(
      (await client.getMultilingualGlossaryDictionaryEntries(created, "en", "de")).entries.entries()
    ).toEqual({ hello: "hallo", bye: "tschüs" })
    expect(
      await client.replaceMultilingualGlossaryDictionary(created, of("en", "de", { one: "eins" }))
    ).toMatchObject({ entryCount: 1 })
    expect(
      await client.replaceMultilingualGlossaryDictionaryWithCsv(created, "en", "fr", "one,un")
    ).toMatchObject({ targetLangCode: "fr", entryCount: 1 })
    await client.updateMultilingualGlossaryDictionaryWithCsv(created, "en", "fr", "two,deux")
    expect((await client.translateText("two", "en", "fr", { glossary: created })).text).toBe("deux")
    expect(
      (await client.createMultilingualGlossaryWithCsv("csv", "en", "de", "a,b")).dictionaries
    ).toHaveLength(1)
    await client.deleteMultilingualGlossaryDictionary(created, "en", "fr")
    await expect(client.getMultilingualGlossaryDictionaryEntries(created, "en", "fr")).rejects.toThrow(
      deepl.GlossaryNotFoundError
    )
    await client.deleteMultilingualGlossary(created)
    await expect(client.getMultilingualGlossary(created.glossaryId)).rejects.toThrow(
      deepl.GlossaryNotFoundError
    )
    await expect(client.getMultilingualGlossary("invalid")).rejects.toThrow(deepl.DeepLError)
  })
  it("style rules: create, list, get, rename, rules, instructions, use, delete", async () => {
    const created = await client.createStyleRule({
      name: "mine",
      language: "de",
      configured_rules: { punctuation: { ellipsis: "use_ellipsis_character" } },
      custom_instructions: [{ label: "l", prompt: "p" }]
    } as any)
    const id = created.styleId
    expect(created).toMatchObject({ name: "mine", version: 1 })
    expect((await client.getAllStyleRules())[0]!.styleId).toBe(id)
    expect(await client.getAllStyleRules(0, 1, true)).toHaveLength(1)
    expect((await client.updateStyleRuleName(id, "new")).name).toBe("new")
    await client.updateStyleRuleConfiguredRules(id, {} as any)
    const instruction = await client.createStyleRuleCustomInstruction(id, { label: "a", prompt: "b" } as any)
    expect(await client.getStyleRuleCustomInstruction(id, instruction.id!)).toEqual(instruction)
    expect(
      (await client.updateStyleRuleCustomInstruction(id, instruction.id!, { label: "x", prompt: "y" } as any))
        .label
    ).toBe("x")
    await client.deleteStyleRuleCustomInstruction(id, instruction.id!)
    expect((await client.getStyleRule(id)).version).toBe(6)
    expect((await client.translateText("Hello", "en", "de", { styleRule: id })).text).toBe(
      fixture ? "Protonenstrahl" : "HELLO"
    )
    await client.deleteStyleRule(id)
    await expect(client.getStyleRule(id)).rejects.toThrow(deepl.DeepLError)
  })
  it("translation memories: import, list, segments, use, export, download, delete", async () => {
    const file = Buffer.from(
      tmxOf([
        { de: "Hallo Welt", en: "Hello everyone" },
        { de: "zwei", en: "two" }
      ])
    )
    const begun = await client.createTranslationMemoryImport("a.tmx", file.length, { displayName: "mine" })
    await client.uploadTranslationMemoryFile(begun, file)
    await until(async () =>
      ["awaiting_input", "processing"].includes(
        (await client.getTranslationMemoryJob(begun.jobId)).results[0]!.status
      )
        ? undefined
        : true
    )
    const done = await client.isTranslationMemoryJobComplete(begun.jobId)
    const id = done.results[0]!.translationMemoryId!
    expect(await client.getTranslationMemory(id)).toMatchObject({
      name: "mine",
      sourceLanguage: "de",
      targetLanguages: ["en"],
      segmentCount: 2
    })
    expect(
      (await client.listTranslationMemories(0, 25)).some(
        ({ translationMemoryId }) => translationMemoryId === id
      )
    ).toBe(true)
    const page = await client.listTranslationMemorySegments(id, { pageSize: 1 })
    expect(
      (await client.listTranslationMemorySegments(id, { pageSize: 1, pageCursor: page.nextPageCursor! }))
        .segments[0]!.sourceText
    ).toBe("zwei")
    expect(
      (await client.listTranslationMemorySegments(id, { filterText: "WELT", filterCaseSensitive: false }))
        .segments
    ).toHaveLength(1)
    expect(
      (
        await client.translateText("Hallo Welt", "de", "en-US", {
          translationMemory: id,
          translationMemoryThreshold: 90
        })
      ).text
    ).toBe("Hello everyone")
    const exporting = await client.createTranslationMemoryExport(id)
    await until(async () =>
      (await client.getTranslationMemoryJob(exporting.jobId)).results[0]!.status === "completed"
        ? true
        : undefined
    )
    const exported = await client.isTranslationMemoryJobComplete(exporting.jobId)
    const out = new PassThrough()
    const chunks: Array<Buffer> = []
    out.on("data", (chunk: Buffer) => chunks.push(chunk))
    await client.downloadTranslationMemoryExport(exported, out as any)
    expect(Buffer.concat(chunks).toString()).toContain("<seg>Hello everyone</seg>")
    expect([
      exporting.reusedExisting,
      (await client.createTranslationMemoryExport(id)).reusedExisting
    ]).toEqual([false, true])
    await client.deleteTranslationMemory(id)
    await expect(client.getTranslationMemory(id)).rejects.toThrow(deepl.DeepLError)
  })
  it("rephrase: one and several texts, style, tone, and what is refused", async () => {
    expect((await client.rephraseText("Hello", "en-US")).targetLang).toMatch(/^en-us$/i)
    expect(await client.rephraseText(["a", "b"], "de", deepl.WritingStyle.BUSINESS)).toHaveLength(2)
    await expect(
      client.rephraseText("Hello", "en-US", deepl.WritingStyle.BUSINESS, deepl.WritingTone.FRIENDLY)
    ).rejects.toThrow(/Both writing_style and tone defined/)
    await expect(client.rephraseText("やあ", "ja" as any, null, deepl.WritingTone.FRIENDLY)).rejects.toThrow(
      /Language ja does not support setting a tone/
    )
    await expect(client.rephraseText("Hello", "pl" as any)).rejects.toThrow(
      /Value for 'target_lang' not supported/
    )
  })
  it("languages, glossary pairs, usage", async () => {
    expect((await client.getSourceLanguages()).some(({ code }) => code === "de")).toBe(true)
    expect((await client.getTargetLanguages()).find(({ code }) => code === "de")!.supportsFormality).toBe(
      true
    )
    expect((await client.getGlossaryLanguagePairs()).length).toBeGreaterThan(10)
    expect((await client.getUsage()).character!.count).toBeGreaterThan(0)
  })
})

describe("test mode (translation 18)", () => {
  let server: Server
  let url: string
  let mode: Awaited<ReturnType<typeof inTestMode>>
  beforeAll(async () => {
    mode = await inTestMode()
    server = await listenWith("node", () => {}, [mode.service], { host: "127.0.0.1", port: 0 })
    url = `http://127.0.0.1:${server.port}`
  })
  afterAll(() => server.drain(100))
  let names = 0
  const session = (headers: Record<string, string | number> = {}): Record<string, string> =>
    Object.fromEntries([
      ["mock-server-session", `s${++names}`],
      ...Object.entries(headers).map(([name, value]) => [`mock-server-session-${name}`, String(value)])
    ])
  const call = (path: string, init: RequestInit & { headers?: Record<string, string> } = {}) =>
    fetch(`${url}${path}`, {
      ...init,
      headers: {
        authorization: "DeepL-Auth-Key k",
        "content-type": "application/json",
        "user-agent": "test",
        ...init.headers
      }
    })
  const translate = (headers: Record<string, string>, text = "proton beam", key = "k") =>
    call("/v2/translate", {
      method: "POST",
      body: JSON.stringify({ text: [text], target_lang: "DE" }),
      headers: { authorization: `DeepL-Auth-Key ${key}`, ...headers }
    })

  it("18.1.1 every key but `invalid` makes its own paid account; :fx a free one", async () => {
    expect(await clientOf(url, "x").translateText("proton beam", null, "de")).toMatchObject({
      text: "Protonenstrahl",
      detectedSourceLang: "en"
    })
    await expect(clientOf(url, "invalid").getUsage()).rejects.toThrow(deepl.AuthorizationError)
    expect((await clientOf(url, "y").getUsage()).character).toMatchObject({ count: 0, limit: 20_000_000 })
    expect(
      ((await (await call("/v2/usage", { headers: { authorization: "DeepL-Auth-Key z:fx" } })).json()) as any)
        .products
    ).toBeUndefined()
  })
  it("18.1.2 the forward proxy adds Forwarded; expect-proxy refuses requests without it", async () => {
    const proxy = await startTestProxy("127.0.0.1", 0)
    const headers = session({ "expect-proxy": 1 })
    expect((await call("/v2/usage", { headers })).status).toBe(400)
    const client = clientOf(url, "p", {
      headers,
      proxy: { host: "127.0.0.1", port: proxy.port }
    } as deepl.TranslatorOptions)
    expect((await client.translateText("proton beam", null, "fr")).text).toBe("faisceau de protons")
    await proxy.close()
  })
  it("18.1.3 /v2/translate_secondary behaves as /v2/translate; 18.1.10 /healthz", async () => {
    expect(
      (
        (await (
          await call("/v2/translate_secondary", {
            method: "POST",
            body: JSON.stringify({ text: ["proton beam"], target_lang: "ES" })
          })
        ).json()) as any
      ).translations[0].text
    ).toBe("haz de protones")
    expect(await (await fetch(`${url}/healthz`)).text()).toBe("ok")
  })
  it("18.1.4 a missing User-Agent: 400, unless the session allows it", async () => {
    expect((await call("/v2/usage", { headers: { "user-agent": "" } })).status).toBe(400)
    expect(
      (
        await call("/v2/usage", {
          headers: { "user-agent": "", ...session({ "allow-missing-user-agent": 1 }) }
        })
      ).status
    ).toBe(200)
  })
  it("18.1.5 a fresh account: 20000000 characters, 10000 documents", async () => {
    expect(
      await (await call("/v2/usage", { headers: { authorization: "DeepL-Auth-Key fresh" } })).json()
    ).toMatchObject({ character_limit: 20_000_000, document_count: 0, document_limit: 10_000 })
  })
  it("18.1.6 the style list after own ones, the memory with its segments; deleting it hides it for that account only", async () => {
    const [one, two] = [clientOf(url, "f1"), clientOf(url, "f2")]
    const id = "a74d88fb-ed2a-4943-a664-a4512398b994"
    expect((await one.getAllStyleRules())[0]).toMatchObject({
      styleId: "dca2e053-8ae5-45e6-a0d2-881156e7f4e4",
      version: 1,
      language: "en"
    })
    await one.createStyleRule({ name: "own", language: "en" } as any)
    expect((await one.getAllStyleRules()).map(({ name }) => name)).toEqual(["own", "Default Style Rule"])
    const { segments } = await one.listTranslationMemorySegments(id)
    expect([
      segments.map(({ sourceText }) => sourceText),
      segments.filter(({ lastUsedTime }) => lastUsedTime !== undefined).length
    ]).toEqual([Array.from({ length: 12 }, (_, i) => `Quelltext Nummer ${i}`), 4])
    expect(
      (await one.translateText("Quelltext Nummer 5", "de", "en-US", { translationMemory: id })).text
    ).toBe("Target text number 5")
    await one.deleteTranslationMemory(id)
    expect([
      (await one.listTranslationMemories()).length,
      (await two.listTranslationMemories()).length
    ]).toEqual([0, 1])
    expect((await two.listTranslationMemorySegments(id)).segments).toHaveLength(12)
  })
  it("18.1.7 the phrases map to each other, unknown lines become the target's phrase, detection by known phrase", async () => {
    const client = clientOf(url, "e")
    expect(await client.translateText("Protonenstrahl", null, "en-GB")).toMatchObject({
      text: "proton beam",
      detectedSourceLang: "de"
    })
    expect((await client.translateText("something else\nand more", null, "ja")).text).toBe(
      "陽子ビーム\n陽子ビーム"
    )
    expect((await client.translateText("陽子線", null, "zh-Hant" as any)).text).toBe("質子束")
    expect((await client.rephraseText("x", "de")).text).toBe("Protonenstrahl")
  })
  it("18.1.9 the last request of a session; 400 without the header, 404 if none", async () => {
    const headers = session()
    expect((await fetch(`${url}/__session__/last-request`)).status).toBe(400)
    expect((await fetch(`${url}/__session__/last-request`, { headers })).status).toBe(404)
    await translate(headers)
    expect(await (await fetch(`${url}/__session__/last-request`, { headers })).json()).toMatchObject({
      method: "POST",
      path: "/v2/translate",
      query: {},
      body: expect.stringContaining("proton beam"),
      headers: { "user-agent": "test" }
    })
  })
  it("18.2, 18.3 429 twice, then success within the client's retries", async () => {
    const headers = session({ "429-count": 2 })
    const startedMs = Date.now()
    expect(
      (await clientOf(url, "r", { headers, maxRetries: 5 }).translateText("proton beam", null, "de")).text
    ).toBe("Protonenstrahl")
    expect(Date.now() - startedMs).toBeGreaterThan(1_000)
  })
  it("18.2 5xx-count and 5xx-status on any path; a session's settings are those of its first request", async () => {
    const headers = session({ "5xx-count": 2, "5xx-status": 509 })
    expect([
      (await call("/v2/usage", { headers })).status,
      (await call("/v3/glossaries", { headers: { ...headers, "mock-server-session-5xx-count": "9" } }))
        .status,
      (await call("/v2/usage", { headers })).status
    ]).toEqual([509, 509, 200])
  })
  it("18.2 no-response-count: no answer at all", async () => {
    const headers = session({ "no-response-count": 1 })
    await expect(call("/v2/usage", { headers, signal: AbortSignal.timeout(150) })).rejects.toThrow()
    expect((await call("/v2/usage", { headers })).status).toBe(200)
  })
  it("18.2, 18.3 init-character-limit: 20 characters, then 456; 0: no character fields in usage", async () => {
    const headers = session({
      "init-character-limit": 20,
      "init-document-limit": 1,
      "init-team-document-limit": 3
    })
    const key = "limited"
    expect((await translate(headers, "x".repeat(20), key)).status).toBe(200)
    expect((await translate(headers, "x", key)).status).toBe(456)
    const usage = await clientOf(url, key, { headers }).getUsage()
    expect([usage.character!.limitReached(), usage.document!.limit, usage.teamDocument!.limit]).toEqual([
      true,
      1,
      3
    ])
    const none = session({ "init-character-limit": 0, "init-document-limit": 0 })
    expect((await clientOf(url, "none", { headers: none }).getUsage()).character).toBeUndefined()
  })
  it("18.2 tm-job-processing-polls: jobs stay unfinished for that many polls", async () => {
    const client = clientOf(url, "polls", { headers: session({ "tm-job-processing-polls": 2 }) })
    const file = Buffer.from(tmxOf([{ de: "a", en: "b" }]))
    const { jobId, ...begun } = await client.createTranslationMemoryImport("a.tmx", file.length)
    await client.uploadTranslationMemoryFile(begun as any, file)
    const status = async () => (await client.getTranslationMemoryJob(jobId)).results[0]!.status
    expect([await status(), await status()]).toEqual(["awaiting_input", "awaiting_input"])
    await until(async () => ((await status()) === "completed" ? true : undefined))
  })
  it("18.3 keep-alive: several requests over one connection; without test mode the headers are ignored", async () => {
    for (let i = 0; i < 3; i++) expect((await translate({})).status).toBe(200)
    const world = await TranslationHarness.open(script)
    expect((await world.translate({ text: "a" }, { headers: session({ "5xx-count": 5 }) })).status).toBe(200)
  })
  it("documents read their delays and failures from the session", async () => {
    const headers = session({ "doc-failure": 1, "doc-queue-time": 20, "doc-translate-time": 30 })
    await translate(headers)
    expect(mode.sessions.find(headers["mock-server-session"]!)).toMatchObject({
      documentFailures: 1,
      documentQueueMs: 20,
      documentTranslateMs: 30
    })
  })
})
