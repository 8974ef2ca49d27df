import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { TranslationHarness, type Answer } from "../harness.ts"
import { until, VoiceWorld } from "./voice-world.ts"

let world: TranslationHarness

beforeEach(async () => {
  world = await TranslationHarness.open()
})

const call = (
  method: string,
  path = "",
  more: { body?: unknown; query?: string; key?: string; type?: string } = {}
): Promise<Answer> => world.call({ method, path: `/v3/spoken-terms${path}`, ...more })

const createTerms = async (entries = "DeepL\nAPI"): Promise<string> =>
  (await call("POST", "", { body: { name: "mine", term_lists: [{ lang: "en", entries }] } })).body
    .spoken_terms_id

const entries = async (id: string, lang = "en"): Promise<Answer> =>
  call("GET", `/${id}/entries`, { query: `lang=${lang}` })

const nobody = "0f8fad5b-d9cb-469f-a165-70867728950e"

describe("spoken terms (translation 11)", () => {
  it("POST 201 record, GET, list, entries", async () => {
    const answer = await call("POST", "", {
      body: {
        name: "mine",
        term_lists: [
          { lang: "en-US", entries: "DeepL\nAPI\n" },
          { lang: "de", entries: "" }
        ]
      }
    })
    expect([answer.status, answer.body]).toEqual([
      201,
      {
        spoken_terms_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        name: "mine",
        term_lists: [
          { lang: "en", entry_count: 2 },
          { lang: "de", entry_count: 0 }
        ],
        creation_time: "2026-01-31T12:00:00.000Z"
      }
    ])
    expect((await call("GET")).body).toEqual({ spoken_terms: [answer.body] })
    expect((await call("GET", `/${answer.body.spoken_terms_id}`)).body).toEqual(answer.body)
    expect((await entries(answer.body.spoken_terms_id)).body).toEqual({ lang: "en", entries: "DeepL\nAPI" })
    expect((await call("POST", "", { body: { name: "a", term_lists: [] } })).body.term_lists).toEqual([])
  })
  it("form-encoded term_lists[0].lang", async () => {
    expect(
      (await call("POST", "", { body: "name=a&term_lists[0].lang=en&term_lists[0].entries=x" })).body
        .term_lists
    ).toEqual([{ lang: "en", entry_count: 1 }])
  })
  it("PATCH merges, terms already there are kept once; PUT creates or replaces; DELETE of a list and of all 204", async () => {
    const id = await createTerms()
    const patched = await call("PATCH", `/${id}`, {
      body: {
        name: "new",
        term_lists: [
          { lang: "en", entries: "API\napi" },
          { lang: "de", entries: "Wort" }
        ]
      }
    })
    expect([patched.body.name, patched.body.term_lists]).toEqual([
      "new",
      [
        { lang: "en", entry_count: 3 },
        { lang: "de", entry_count: 1 }
      ]
    ])
    expect((await entries(id)).body.entries).toBe("DeepL\nAPI\napi")
    expect((await call("PUT", `/${id}/term-lists`, { body: { lang: "en", entries: "one" } })).body).toEqual({
      lang: "en",
      entry_count: 1
    })
    expect((await entries(id)).body.entries).toBe("one")
    expect((await call("DELETE", `/${id}/term-lists`, { query: "lang=en" })).status).toBe(204)
    expect([
      (await entries(id)).status,
      (await call("DELETE", `/${id}/term-lists`, { query: "lang=en" })).status
    ]).toEqual([404, 404])
    expect((await call("DELETE", `/${id}`)).status).toBe(204)
    expect([(await call("GET", `/${id}`)).status, (await call("DELETE", `/${id}`)).status]).toEqual([
      404, 404
    ])
  })
  it.each<[string, object]>([
    ["no name", { term_lists: [] }],
    ["a name of 1025 bytes", { name: "x".repeat(1_025) }],
    ["no lang", { name: "a", term_lists: [{ entries: "x" }] }],
    ["an unknown lang", { name: "a", term_lists: [{ lang: "xx", entries: "x" }] }],
    ["no entries", { name: "a", term_lists: [{ lang: "en" }] }],
    ["an empty term in the middle", { name: "a", term_lists: [{ lang: "en", entries: "a\n\nb" }] }],
    ["duplicates", { name: "a", term_lists: [{ lang: "en", entries: "a\na" }] }],
    ["control characters", { name: "a", term_lists: [{ lang: "en", entries: "a\tb" }] }],
    ["white space at the ends", { name: "a", term_lists: [{ lang: "en", entries: "a \nb" }] }],
    [
      "301 characters, newlines counted",
      { name: "a", term_lists: [{ lang: "en", entries: `${"a".repeat(150)}\n${"b".repeat(150)}` }] }
    ],
    [
      "one language twice",
      {
        name: "a",
        term_lists: [
          { lang: "en", entries: "a" },
          { lang: "en-US", entries: "b" }
        ]
      }
    ],
    ["term_lists that are no objects", { name: "a", term_lists: ["x"] }]
  ])("POST with %s: 400, nothing kept", async (_, body) => {
    expect((await call("POST", "", { body })).status).toBe(400)
    expect((await call("GET")).body.spoken_terms).toEqual([])
  })
  it("300 characters are allowed; a merge above it: 400 and nothing changed", async () => {
    const id = await createTerms("💜".repeat(299))
    expect(
      (await call("PATCH", `/${id}`, { body: { term_lists: [{ lang: "en", entries: "x" }] } })).status
    ).toBe(400)
    expect((await entries(id)).body.entries).toBe("💜".repeat(299))
    expect(
      (await call("PUT", `/${id}/term-lists`, { body: { lang: "en", entries: "x".repeat(300) } })).status
    ).toBe(200)
  })
  it("the 101st collection: 456 Spoken Terms quota exhausted", async () => {
    for (let i = 0; i < 100; i++) await createTerms()
    const answer = await call("POST", "", { body: { name: "a" } })
    expect([answer.status, answer.body.message]).toEqual([456, "Spoken Terms quota exhausted"])
  })
  it("free accounts 403 with its text; scoped keys 403; malformed id 400, unknown or foreign 404; 415", async () => {
    const free = await TranslationHarness.open({}, { account: { tier: "free" } })
    const id = await createTerms()
    const refused = await free.call({ method: "GET", path: "/v3/spoken-terms" })
    expect([refused.status, refused.body.message]).toEqual([
      403,
      "Forbidden. Authorization failed or feature not available for your plan."
    ])
    expect((await call("GET", "", { key: await world.key({ scopes: ["glossaries:read"] }) })).status).toBe(
      403
    )
    expect([
      (await call("GET", "/x")).status,
      (await call("GET", `/${nobody}`)).status,
      (await entries(id, "")).status
    ]).toEqual([400, 404, 400])
    expect(
      (await (await TranslationHarness.open()).call({ method: "GET", path: `/v3/spoken-terms/${id}` })).status
    ).toBe(404)
    expect((await call("POST", "", { body: "x", type: "text/plain" })).status).toBe(415)
  })
})

describe("in a voice session (translation 12.1)", () => {
  let voice: VoiceWorld
  afterEach(() => voice.close())
  const post = async (path: string, body: object): Promise<any> =>
    (
      await fetch(`http://127.0.0.1:${voice.server.port}${path}`, {
        method: "POST",
        headers: { Authorization: `DeepL-Auth-Key ${voice.secret}`, "Content-Type": "application/json" },
        body: JSON.stringify(body)
      })
    ).json()
  it("spoken terms reach the recognizer as hints; a glossary's terms stand in the targets that have a dictionary", async () => {
    voice = await VoiceWorld.open({})
    const { spoken_terms_id } = await post("/v3/spoken-terms", {
      name: "a",
      term_lists: [
        { lang: "en", entries: "DeepL\nTroupe" },
        { lang: "de", entries: "Wort" }
      ]
    })
    const { glossary_id } = await post("/v3/glossaries", {
      name: "a",
      dictionaries: [{ source_lang: "en", target_lang: "de", entries: "w2\tzwei\nw3 w4\tdrei-vier" }]
    })
    const { listener } = await voice.connect({
      source_language: "en",
      target_languages: ["de", "fr"],
      spoken_terms_id,
      glossary_id
    })
    listener.words(1, 5)
    listener.end()
    await until(() => listener.code === 1000)
    expect(voice.engines.recognizer.hints).toEqual([["DeepL", "Troupe"]])
    expect([listener.concluded("de"), listener.concluded("fr")]).toEqual([
      "W1 zwei drei-vier W5",
      "W1 W2 W3 W4 W5"
    ])
  })
})
