import { beforeEach, describe, expect, it } from "vitest"
import { TranslationHarness, type Answer } from "../harness.ts"

let world: TranslationHarness

beforeEach(async () => {
  world = await TranslationHarness.open({ change: (text) => text.toUpperCase() })
})

const v3 = (
  method: string,
  path = "",
  more: { body?: unknown; query?: string; type?: string; headers?: Record<string, string>; key?: string } = {}
): Promise<Answer> => world.call({ method, path: `/v3/glossaries${path}`, ...more })

const v2 = (
  method: string,
  path = "",
  more: { body?: unknown; headers?: Record<string, string> } = {}
): Promise<Answer> => world.call({ method, path: `/v2/glossaries${path}`, ...more })

const createGlossary = async (entries = "hello\thallo", more: object = {}): Promise<string> => {
  const answer = await v3("POST", "", {
    body: {
      name: "mine",
      dictionaries: [{ source_lang: "en", target_lang: "de", entries, entries_format: "tsv", ...more }]
    }
  })
  expect(answer.status).toBe(201)
  return answer.body.glossary_id
}

const nobody = "0f8fad5b-d9cb-469f-a165-70867728950e"

describe("glossaries v3 (translation 7)", () => {
  it("7.1 a record: id, name, dictionaries without entries, ready, time in ms with Z", async () => {
    const answer = await v3("POST", "", {
      body: {
        name: "mine",
        dictionaries: [
          { source_lang: "en-US", target_lang: "DE", entries: "a\tb\nc\td", entries_format: "tsv" },
          { source_lang: "de", target_lang: "en", entries: "b,a", entries_format: "csv" }
        ]
      }
    })
    expect(answer.status).toBe(201)
    expect(answer.body).toEqual({
      glossary_id: expect.stringMatching(
        /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
      ),
      name: "mine",
      ready: true,
      dictionaries: [
        { source_lang: "en", target_lang: "de", entry_count: 2 },
        { source_lang: "de", target_lang: "en", entry_count: 1 }
      ],
      creation_time: "2026-01-31T12:00:00.000Z"
    })
    expect((await v3("GET", `/${answer.body.glossary_id}`)).body).toEqual(answer.body)
  })
  it("7.2 POST with absent or empty dictionaries makes an empty glossary", async () => {
    expect((await v3("POST", "", { body: { name: "a" } })).body.dictionaries).toEqual([])
    expect((await v3("POST", "", { body: { name: "a", dictionaries: [] } })).body.dictionaries).toEqual([])
  })
  it("7.2 POST form-encoded as the Node client sends it", async () => {
    const answer = await v3("POST", "", {
      body: "name=f&dictionaries[0].source_lang=en&dictionaries[0].target_lang=fr&dictionaries[0].entries=a%09b&dictionaries[0].entries_format=tsv"
    })
    expect(answer.body.dictionaries).toEqual([{ source_lang: "en", target_lang: "fr", entry_count: 1 }])
  })
  it("7.2 GET lists all, newest last", async () => {
    const first = await createGlossary()
    world.nowMs += 1
    const second = await createGlossary()
    expect((await v3("GET")).body.glossaries.map((one: any) => one.glossary_id)).toEqual([first, second])
  })
  it("7.2 PATCH merges the one dictionary: new sources added, existing get the new target, others stay; a missing pair is created", async () => {
    const id = await createGlossary("a\t1\nb\t2")
    const answer = await v3("PATCH", `/${id}`, {
      body: { name: "other", dictionaries: [{ source_lang: "en", target_lang: "de", entries: "b\t3\nc\t4" }] }
    })
    expect([answer.status, answer.body.name, answer.body.dictionaries]).toEqual([
      200,
      "other",
      [{ source_lang: "en", target_lang: "de", entry_count: 3 }]
    ])
    expect((await v3("GET", `/${id}/entries`, { query: "source_lang=en&target_lang=de" })).body).toEqual({
      dictionaries: [
        { source_lang: "en", target_lang: "de", entries: "a\t1\nb\t3\nc\t4", entries_format: "tsv" }
      ]
    })
    expect(
      (
        await v3("PATCH", `/${id}`, {
          body: { dictionaries: [{ source_lang: "fr", target_lang: "de", entries: "x\ty" }] }
        })
      ).body.dictionaries
    ).toHaveLength(2)
  })
  it("7.2 PATCH with neither member changes nothing; with two dictionaries 400", async () => {
    const id = await createGlossary()
    const before = (await v3("GET", `/${id}`)).body
    expect((await v3("PATCH", `/${id}`, { body: {} })).body).toEqual(before)
    const one = { source_lang: "en", target_lang: "de", entries: "x\ty" }
    expect(
      (await v3("PATCH", `/${id}`, { body: { dictionaries: [one, { ...one, target_lang: "fr" }] } })).status
    ).toBe(400)
    expect((await v3("GET", `/${id}`)).body).toEqual(before)
  })
  it("7.2 PUT replaces or creates; the replaced dictionary moves to the end", async () => {
    const id = await createGlossary()
    await v3("PUT", `/${id}/dictionaries`, {
      body: { source_lang: "en", target_lang: "fr", entries: "a\tb" }
    })
    const answer = await v3("PUT", `/${id}/dictionaries`, {
      body: "source_lang=en&target_lang=de&entries=x%09y&entries_format=tsv"
    })
    expect([answer.status, answer.body]).toEqual([
      200,
      { source_lang: "en", target_lang: "de", entry_count: 1 }
    ])
    expect((await v3("GET", `/${id}`)).body.dictionaries.map((one: any) => one.target_lang)).toEqual([
      "fr",
      "de"
    ])
    expect(
      (await v3("GET", `/${id}/entries`, { query: "source_lang=en&target_lang=de" })).body.dictionaries[0]
        .entries
    ).toBe("x\ty")
  })
  it("7.2 DELETE of a dictionary and of a glossary: 204, then 404", async () => {
    const id = await createGlossary()
    const pair = { query: "source_lang=en&target_lang=de" }
    expect((await v3("DELETE", `/${id}/dictionaries`, pair)).status).toBe(204)
    expect([
      (await v3("GET", `/${id}/entries`, pair)).status,
      (await v3("GET", `/${id}/entries`, pair)).body.message
    ]).toEqual([404, "Dictionary not found"])
    expect((await v3("DELETE", `/${id}`)).status).toBe(204)
    expect([(await v3("GET", `/${id}`)).status, (await v3("DELETE", `/${id}`)).status]).toEqual([404, 404])
  })
  it.each(["", "/entries", "/dictionaries"])("7.3 malformed id 400, unknown id 404 (%s)", async (path) => {
    const method = path === "/dictionaries" ? "DELETE" : "GET"
    const query = "source_lang=en&target_lang=de"
    expect((await v3(method, `/no-id${path}`, { query })).status).toBe(400)
    expect((await v3(method, `/${nobody}${path}`, { query })).status).toBe(404)
  })
  it("a glossary of another account is unknown (1.3 isolation)", async () => {
    const id = await createGlossary()
    const other = await TranslationHarness.open()
    expect((await other.call({ method: "GET", path: `/v3/glossaries/${id}` })).status).toBe(404)
  })
  it.each([
    ["no name", { dictionaries: [] }, "Missing or invalid argument: name"],
    ["empty name", { name: "" }, "Missing or invalid argument: name"],
    ["a name of more than 1024 bytes", { name: "ä".repeat(513) }, "Missing or invalid argument: name"],
    [
      "no entries",
      { name: "a", dictionaries: [{ source_lang: "en", target_lang: "de" }] },
      "Missing or invalid argument: entries"
    ],
    [
      "no source_lang",
      { name: "a", dictionaries: [{ target_lang: "de", entries: "a\tb" }] },
      "Missing or invalid argument: source_lang"
    ],
    [
      "two dictionaries of one pair",
      {
        name: "a",
        dictionaries: [
          { source_lang: "en", target_lang: "de", entries: "a\tb" },
          { source_lang: "en-US", target_lang: "de", entries: "c\td" }
        ]
      },
      "More than one dictionary for en to de"
    ],
    ["dictionaries that are no objects", { name: "a", dictionaries: ["x"] }, undefined]
  ])("7.3 POST %s: 400, nothing kept", async (_, body, detail) => {
    const answer = await v3("POST", "", { body })
    expect([answer.status, answer.body.detail]).toEqual([400, detail])
    expect((await v3("GET")).body.glossaries).toEqual([])
  })
  it.each([
    ["target xx", "en", "xx"],
    ["equal pair", "en", "en-GB"],
    ["Thai", "en", "th"],
    ["a language without glossaries", "eo", "en"]
  ])("7.3 unsupported pair: %s", async (_, source_lang, target_lang) => {
    const answer = await v3("POST", "", {
      body: { name: "a", dictionaries: [{ source_lang, target_lang, entries: "a\tb" }] }
    })
    expect([answer.status, answer.body.message]).toEqual([
      400,
      "Unsupported glossary source and target language pair"
    ])
  })
  it("7.3 entries_format other than tsv and csv: 400; 415 for another content type; 403 for a key without the scope", async () => {
    expect(
      (
        await v3("POST", "", {
          body: {
            name: "a",
            dictionaries: [{ source_lang: "en", target_lang: "de", entries: "a\tb", entries_format: "xml" }]
          }
        })
      ).status
    ).toBe(400)
    expect((await v3("POST", "", { body: "x", type: "text/plain" })).status).toBe(415)
    const reader = await world.key({ scopes: ["glossaries:read"] })
    expect([
      (await v3("GET", "", { key: reader })).status,
      (await v3("POST", "", { key: reader, body: { name: "a" } })).status
    ]).toEqual([200, 403])
  })
  it("2.5 the 1001st glossary of an account: 456", async () => {
    for (let i = 0; i < 1_000; i++) await v3("POST", "", { body: { name: "a" } })
    expect((await v3("POST", "", { body: { name: "a" } })).status).toBe(456)
  })
  it("2.5 a dictionary of more than 10485760 bytes: 413, also when a merge makes it so", async () => {
    const block = (letter: string, lines: number) =>
      Array.from({ length: lines }, (_, i) => `${letter}${i}\t${"x".repeat(1_000)}`).join("\n")
    const body = (entries: string) => ({
      name: "a",
      dictionaries: [{ source_lang: "en", target_lang: "de", entries }]
    })
    expect((await v3("POST", "", { body: body(block("a", 10_600)) })).status).toBe(413)
    const id = await createGlossary(block("a", 10_000))
    expect((await v3("PATCH", `/${id}`, { body: body(block("b", 1_000)) })).status).toBe(413)
    expect((await v3("GET", `/${id}`)).body.dictionaries[0].entry_count).toBe(10_000)
  })
})

describe("glossaries v2 (translation 8)", () => {
  const create = {
    name: "old",
    source_lang: "en",
    target_lang: "de",
    entries: "hello\thallo\nworld\tWelt",
    entries_format: "tsv"
  }
  it("create, get, list, entries, delete", async () => {
    const answer = await v2("POST", "", { body: create })
    const id = answer.body.glossary_id
    expect([answer.status, answer.body]).toEqual([
      201,
      {
        glossary_id: id,
        name: "old",
        ready: true,
        source_lang: "en",
        target_lang: "de",
        creation_time: "2026-01-31T12:00:00.000Z",
        entry_count: 2
      }
    ])
    expect((await v2("GET", `/${id}`)).body).toEqual(answer.body)
    expect((await v2("GET")).body).toEqual({ glossaries: [answer.body] })
    const entries = await v2("GET", `/${id}/entries`, { headers: { accept: "text/tab-separated-values" } })
    expect([entries.text, entries.header("content-type")]).toEqual([
      "hello\thallo\nworld\tWelt",
      "text/tab-separated-values; charset=UTF-8"
    ])
    expect((await v2("DELETE", `/${id}`)).status).toBe(204)
    expect((await v2("GET", `/${id}`)).status).toBe(404)
  })
  it.each(["name", "source_lang", "target_lang", "entries"])("%s is required: 400", async (name) => {
    const { [name as "name"]: _, ...body } = create
    expect((await v2("POST", "", { body })).status).toBe(400)
    expect((await v2("GET")).body.glossaries).toEqual([])
  })
  it.each([
    ["application/json", 415],
    ["*/*", 200],
    ["text/*;q=0.5, application/json", 200],
    ["text/tab-separated-values;q=0", 415],
    [undefined, 200]
  ])("entries with Accept %s: %i", async (accept, status) => {
    const { body } = await v2("POST", "", { body: create })
    expect(
      (await v2("GET", `/${body.glossary_id}/entries`, accept === undefined ? {} : { headers: { accept } }))
        .status
    ).toBe(status)
  })
  it("crossing over: v3-edited is shown by its first dictionary and cannot be deleted by v2 (403 naming the v3 path)", async () => {
    const { body } = await v2("POST", "", { body: create })
    const id = body.glossary_id
    await v3("PUT", `/${id}/dictionaries`, {
      body: { source_lang: "en", target_lang: "fr", entries: "a\tb" }
    })
    expect((await v2("GET", `/${id}`)).body).toMatchObject({ target_lang: "de", entry_count: 2 })
    const refused = await v2("DELETE", `/${id}`)
    expect([refused.status, refused.body.detail]).toEqual([
      403,
      expect.stringContaining(`/v3/glossaries/${id}`)
    ])
    expect((await v3("DELETE", `/${id}`)).status).toBe(204)
  })
  it("crossing over: without a dictionary it is skipped in the v2 list and 404 on get", async () => {
    const { body } = await v3("POST", "", { body: { name: "empty" } })
    expect((await v2("GET")).body.glossaries).toEqual([])
    expect((await v2("GET", `/${body.glossary_id}`)).status).toBe(404)
  })
  it("malformed id 400, unknown 404 for get, entries and delete", async () => {
    for (const [method, path] of [
      ["GET", ""],
      ["GET", "/entries"],
      ["DELETE", ""]
    ] as const) {
      expect((await v2(method, `/nope${path}`)).status).toBe(400)
      expect((await v2(method, `/${nobody}${path}`)).status).toBe(404)
    }
  })
})

describe("terms in text (translation 3.3.3–4)", () => {
  const text = (id: string | undefined, source: string, more: object = {}) =>
    world.text({
      text: [source],
      source_lang: "en",
      target_lang: "de",
      ...(id === undefined ? {} : { glossary_id: id }),
      ...more
    })
  it("the whole text, or a whole line, equal to an entry gives the target exactly", async () => {
    const id = await createGlossary("Hello. World.\thallo, Welt\nline two\tZeile zwei")
    expect(await text(id, "Hello. World.")).toBe("hallo, Welt")
    expect(await text(id, "one\n  line two \nthree\n")).toBe("ONE\n  Zeile zwei \nTHREE\n")
  })
  it("terms stand in the sentence, the longest first, at word borders only", async () => {
    const id = await createGlossary("new york\tNeu-York\nyork\tJork\ncat\tKatze")
    expect(await text(id, "I saw New York and york, concatenate no cat.")).toBe(
      "I SAW Neu-York AND Jork, CONCATENATE NO Katze."
    )
  })
  it("without case, the case carried over when the match is not exact", async () => {
    const id = await createGlossary("hello\thallo\nWorld\tWelt\nNASA\tEsa")
    expect(await text(id, "so HELLO, Hello, hello, world, nasa, NASA ok")).toBe(
      "SO HALLO, Hallo, hallo, Welt, Esa, Esa OK"
    )
  })
  it("scripts without spaces: substring", async () => {
    const { body } = await v3("POST", "", {
      body: { name: "z", dictionaries: [{ source_lang: "ja", target_lang: "de", entries: "陽子\tProton" }] }
    })
    expect(
      await world.text({
        text: ["強い陽子線です"],
        source_lang: "ja",
        target_lang: "de",
        glossary_id: body.glossary_id
      })
    ).toBe("強いProton線です")
  })
  it("glossary_ids: the first that has the term wins; each must hold the pair", async () => {
    const [one, two] = [await createGlossary("cat\tKatze"), await createGlossary("cat\tMieze\ndog\tHund")]
    expect(await text(undefined, "a cat, a dog", { glossary_ids: [one, two] })).toBe("A Katze, A Hund")
    const french = (
      await v3("POST", "", {
        body: { name: "f", dictionaries: [{ source_lang: "en", target_lang: "fr", entries: "cat\tchat" }] }
      })
    ).body.glossary_id
    const answer = await world.translate({
      text: ["a"],
      source_lang: "en",
      target_lang: "de",
      glossary_ids: [one, french]
    })
    expect([answer.status, answer.body.message]).toEqual([400, "No dictionary found for language pair"])
  })
  it("the pair counts by base: en-GB uses the dictionary of en", async () => {
    const { body } = await v3("POST", "", {
      body: { name: "f", dictionaries: [{ source_lang: "de", target_lang: "en", entries: "Katze\tkitty" }] }
    })
    expect(
      await world.text({
        text: ["eine Katze"],
        source_lang: "de",
        target_lang: "en-GB",
        glossary_id: body.glossary_id
      })
    ).toBe("EINE kitty")
  })
  it("never inside ignore_tags; escaped in markup; tags stay", async () => {
    const id = await createGlossary("cat\tKatze & <Kater>")
    expect(
      await text(id, "<d>a cat <x>cat</x> <b>cat</b></d>", { tag_handling: "xml", ignore_tags: ["x"] })
    ).toBe(
      "<d>A Katze &amp; &lt;Kater&gt; <x>cat</x> <b>Katze &amp; &lt;Kater&gt;</b></d>".replaceAll("&gt;", ">")
    )
  })
  it("unknown glossary 404; without source_lang 400 naming it; an edit is seen by the next request", async () => {
    expect((await world.translate({ text: ["a"], source_lang: "en", glossary_id: nobody })).status).toBe(404)
    const id = await createGlossary("cat\tKatze")
    const answer = await world.translate({ text: ["a"], glossary_id: id })
    expect([answer.status, answer.body.message]).toEqual([400, expect.stringContaining("source_lang")])
    expect(await text(id, "a cat")).toBe("A Katze")
    await v3("PATCH", `/${id}`, {
      body: { dictionaries: [{ source_lang: "en", target_lang: "de", entries: "cat\tKater" }] }
    })
    expect(await text(id, "a cat")).toBe("A Kater")
    await v3("DELETE", `/${id}`)
    expect((await world.translate({ text: ["a cat"], source_lang: "en", glossary_id: id })).status).toBe(404)
  })
})
