import { beforeEach, describe, expect, it, vi } from "vitest"
import { distance } from "fastest-levenshtein"
import { SimilarityIndex, similarityOf } from "../../../../protocols/translation/memories/similarity.ts"
import { tmxOf, until } from "./tmx-files.ts"
import { unheard } from "../../../answer.ts"
import { TranslationHarness, type Answer } from "../harness.ts"

let world: TranslationHarness

beforeEach(async () => {
  world = await TranslationHarness.open({ change: (text) => text.toUpperCase() })
})

const call = (
  method: string,
  path = "",
  more: { body?: unknown; query?: string; headers?: Record<string, string>; key?: string; type?: string } = {}
): Promise<Answer> => world.call({ method, path: `/v3/translation_memories${path}`, ...more })

const nobody = "0f8fad5b-d9cb-469f-a165-70867728950e"
const pathOf = (address: string): string => new URL(address).pathname

const declare = (bytes: number, more: object = {}, parameters?: object): Promise<Answer> =>
  call("POST", "/import", {
    body: {
      source_file: { file_name: "legal.tmx", content_length: bytes, ...more },
      ...(parameters === undefined ? {} : { parameters })
    }
  })

const upload = (
  address: string,
  file: Uint8Array | string,
  type = "application/xml",
  method = "PUT"
): Promise<Answer> =>
  world.call({
    method,
    path: pathOf(address),
    key: "",
    type,
    body: typeof file === "string" ? Buffer.from(file) : file
  })

const job = async (id: string): Promise<any> => (await call("GET", `/jobs/${id}`)).body

const ended = (id: string): Promise<any> =>
  until(async () => {
    const now = await job(id)
    return ["processing", "awaiting_input"].includes(now.results[0].status) ? undefined : now
  })

const imported = async (file: string | Uint8Array): Promise<any> => {
  const { body } = await declare(typeof file === "string" ? Buffer.byteLength(file) : file.length)
  expect((await upload(body.upload_url, file)).status).toBe(200)
  return ended(body.job_id)
}

const memoryOf = async (units: Parameters<typeof tmxOf>[0]): Promise<string> =>
  (await imported(tmxOf(units))).results[0].translation_memory_id

const small = [
  { de: "Hallo Welt!", en: "Hello everyone!" },
  { de: "Guten Morgen", en: "Good morning", "es-ES": "Buenos días" }
]

describe("import (translation 9.5, 9.6, 9.8, 9.10)", () => {
  it("declare 202, upload 200 with an empty body, completed with id and skipped count", async () => {
    const file = tmxOf([...small, { de: "ohne Ziel" }, { de: "x", tlh: "y" }, { en: "ohne Quelle" }])
    const declared = await declare(
      Buffer.byteLength(file),
      { content_type: "application/xml" },
      { display_name: "Legal" }
    )
    expect([declared.status, declared.body]).toEqual([
      202,
      {
        job_id: expect.any(String),
        upload_url: expect.stringMatching(/^http:\/\/localhost\/v3\/assets\//),
        expires_at: "2026-01-31T13:00:00.000Z"
      }
    ])
    expect(await job(declared.body.job_id)).toEqual({
      job_id: declared.body.job_id,
      product: "translation_memory",
      operation: "import",
      creation_time: "2026-01-31T12:00:00.000Z",
      updated_time: "2026-01-31T12:00:00.000Z",
      source_file: { content_type: "application/xml", content_length: Buffer.byteLength(file) },
      parameters: { display_name: "Legal" },
      results: [{ status: "awaiting_input", status_metadata: { required_action: "Waiting for upload" } }]
    })
    const put = await upload(declared.body.upload_url, file)
    expect([put.status, put.text]).toEqual([200, ""])
    const {
      results: [result]
    } = await ended(declared.body.job_id)
    expect(result).toEqual({
      status: "completed",
      translation_memory_id: expect.any(String),
      skipped_segment_count: 3
    })
    expect((await call("GET", `/${result.translation_memory_id}`)).body).toEqual({
      translation_memory_id: result.translation_memory_id,
      name: "Legal",
      source_language: "de",
      target_languages: ["en", "es"],
      segment_count: 2,
      creation_time: "2026-01-31T12:00:00.000Z",
      updated_time: "2026-01-31T12:00:00.000Z"
    })
    await until(async () => ((await world.store.blobs.ids()).length === 0 ? true : undefined))
  })
  it("without display_name the file's name is the memory's, and the job shows no parameters", async () => {
    const done = await imported(tmxOf(small))
    expect(done.parameters).toBeUndefined()
    expect((await call("GET", `/${done.results[0].translation_memory_id}`)).body.name).toBe("legal.tmx")
  })
  it.each<[string, object, string]>([
    ["no source_file", {}, "source_file"],
    ["no file_name", { source_file: { content_length: 3 } }, "source_file.file_name"],
    ["no content_length", { source_file: { file_name: "a" } }, "source_file.content_length"],
    [
      "content_length 0",
      { source_file: { file_name: "a", content_length: 0 } },
      "source_file.content_length"
    ],
    [
      "content_length above 1 GiB",
      { source_file: { file_name: "a", content_length: 1_073_741_825 } },
      "source_file.content_length"
    ],
    [
      "file_name of 101",
      { source_file: { file_name: "x".repeat(101), content_length: 1 } },
      "source_file.file_name"
    ],
    [
      "content_type of 128",
      { source_file: { file_name: "a", content_length: 1, content_type: "x".repeat(128) } },
      "source_file.content_type"
    ],
    ["source_file no object", { source_file: 3 }, "source_file"]
  ])("9.5 %s: 400 naming the field", async (_, body, name) => {
    const answer = await call("POST", "/import", { body })
    expect([answer.status, answer.body.message.includes(`'${name}'`)]).toEqual([400, true])
  })
  it("9.6 body longer or shorter than declared, or another content type: 400, and the job stays waiting", async () => {
    const file = tmxOf(small)
    const { body } = await declare(Buffer.byteLength(file))
    expect((await upload(body.upload_url, `${file} `)).status).toBe(400)
    expect((await upload(body.upload_url, file.slice(1))).status).toBe(400)
    expect((await upload(body.upload_url, file, "text/plain")).status).toBe(400)
    expect([(await job(body.job_id)).results[0].status, await world.store.blobs.ids()]).toEqual([
      "awaiting_input",
      []
    ])
    expect((await upload(body.upload_url, file, "application/xml; charset=utf-8", "POST")).status).toBe(200)
    expect((await upload(body.upload_url, file)).status).toBe(409)
  })
  it("9.6 a wrong signature, another job's, or none: 403; needs no key", async () => {
    const [one, two] = [(await declare(5)).body, (await declare(5)).body]
    expect((await upload(`${one.upload_url}x`, "12345")).status).toBe(403)
    expect((await upload(one.upload_url.replace(one.job_id, two.job_id), "12345")).status).toBe(403)
  })
  it("9.6, 17 after expires_at: 403, job expired; 7 days later 404", async () => {
    const { body } = await declare(5)
    world.nowMs += 3_600_000
    expect((await upload(body.upload_url, "12345")).status).toBe(403)
    world.system.tick()
    expect((await ended(body.job_id)).results).toEqual([{ status: "expired" }])
    expect((await upload(body.upload_url, "12345")).status).toBe(403)
    world.nowMs += 7 * 86_400_000
    world.system.tick()
    await until(async () => ((await call("GET", `/jobs/${body.job_id}`)).status === 404 ? true : undefined))
  })
  it.each<[string, string | Uint8Array, RegExp]>([
    ["no XML", "hello", /not well-formed/],
    ["another root", "<a/>", /root element/],
    ["cut short", tmxOf(small).slice(0, -20), /not well-formed/],
    ["no usable unit", tmxOf([{ de: "x" }]), /no usable/],
    [
      "bytes that are no UTF-8",
      Buffer.concat([
        Buffer.from('<?xml version="1.0"?><tmx>'),
        Buffer.from([0xff, 0xfe, 0xff]),
        Buffer.from("</tmx>")
      ]),
      /encoding/
    ],
    [
      "an entity of its own",
      '<!DOCTYPE tmx [<!ENTITY x "y">]><tmx><header srclang="de"/><body><tu><tuv xml:lang="de"><seg>&x;</seg></tuv></tu></body></tmx>',
      /not well-formed/
    ],
    ["another encoding", '<?xml version="1.0" encoding="Shift_JIS"?><tmx/>', /encoding/],
    ["an unknown source language", tmxOf(small, "tlh"), /not supported/],
    ["nested without end", `<tmx>${"<a>".repeat(100)}`, /nested/]
  ])("9.10 %s: failed, with a text; nothing stays", async (_, file, message) => {
    const {
      results: [result]
    } = await imported(file)
    expect(result).toEqual({ status: "failed", error: { message: expect.stringMatching(message) } })
    expect((await call("GET")).body).toEqual({ translation_memories: [], total_count: 0 })
    await until(async () =>
      world.store.range("translation-memory-segments", { limit: 1 }).length === 0 &&
      (await world.store.blobs.ids()).length === 0
        ? true
        : undefined
    )
  })
  it("9.10 UTF-16 by byte order mark, both orders", async () => {
    const little = Buffer.concat([
      Buffer.from([0xff, 0xfe]),
      Buffer.from(tmxOf(small).replace("UTF-8", "UTF-16"), "utf16le")
    ])
    const big = Buffer.from(little).swap16()
    for (const file of [little, big])
      expect((await imported(file)).results[0]).toMatchObject({
        status: "completed",
        skipped_segment_count: 0
      })
  })
  it("9.10 srclang *all*: the language in which most units begin; old lang attribute; variants to our codes; inline tags dropped, text kept; equal sources joined, last target wins", async () => {
    const seg = (lang: string, text: string, name = "xml:lang") =>
      `<tuv ${name}="${lang}"><seg>${text}</seg></tuv>`
    const file = `<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header srclang="*all*"/><body>
      <tu>${seg("fr-FR", "un", "lang")}${seg("EN-us", "one", "lang")}</tu><tu>${seg("de", "eins")}${seg("fr", "un")}</tu>
      <tu>${seg("fr", "deux <bpt i='1'>&lt;b></bpt>gros<ept i='1'>&lt;/b></ept> <hi>chats</hi>")}${seg("pt-br", "dois")}</tu><tu>${seg("fr", "un")}${seg("en-US", "1")}${seg("de", "1")}</tu></body></tmx>`
    const {
      results: [{ translation_memory_id: id }]
    } = await imported(file)
    const { body } = await call("GET", `/${id}/segments`)
    expect(
      body.segments.map(({ source_text, targets }: any) => [
        source_text,
        targets.map((one: any) => [one.target_language, one.target_text])
      ])
    ).toEqual([
      [
        "un",
        [
          ["en-us", "1"],
          ["de", "1"]
        ]
      ],
      ["deux gros chats", [["pt-br", "dois"]]]
    ])
    expect((await call("GET", `/${id}`)).body).toMatchObject({
      source_language: "fr",
      target_languages: ["de", "en-us", "pt-br"],
      segment_count: 2
    })
  })
})

describe("lists and segments (translation 9.2–9.4, 9.9)", () => {
  it("9.2 oldest first, pages of 10 by default; page beyond the end is empty; out of range 400", async () => {
    const ids: Array<string> = []
    for (let i = 0; i < 3; i++) {
      ids.push(await memoryOf(small))
      world.nowMs++
    }
    const list = async (query: string) => {
      const { body } = await call("GET", "", { query })
      return [body.translation_memories.map((one: any) => one.translation_memory_id), body.total_count]
    }
    expect(await list("")).toEqual([ids, 3])
    expect(await list("page=1&page_size=2")).toEqual([[ids[2]], 3])
    expect(await list("page=9")).toEqual([[], 3])
    for (const query of ["page_size=0", "page_size=26", "page=-1", "page=1.5"])
      expect((await call("GET", "", { query })).status).toBe(400)
  })
  it("9.3, 9.8 unknown or foreign: 404; malformed: 400", async () => {
    const id = await memoryOf(small)
    const other = await TranslationHarness.open()
    const { body } = await declare(5)
    for (const path of [`/${nobody}`, `/${nobody}/segments`, `/jobs/${nobody}`])
      expect((await call("GET", path)).status).toBe(404)
    for (const path of ["/x", "/x/segments", "/jobs/x"]) expect((await call("GET", path)).status).toBe(400)
    expect((await other.call({ method: "GET", path: `/v3/translation_memories/${id}` })).status).toBe(404)
    world.account = other.account
    await world.store.flushed()
    const foreign = await (async () => {
      const { createAccount } = await import("../../../../protocols/translation/account/records.ts")
      world.account = await createAccount(world.store, { tier: "paid", nowMs: 0 })
      return world.key()
    })()
    expect((await call("GET", `/jobs/${body.job_id}`, { key: foreign })).status).toBe(404)
    expect((await call("GET", `/${id}`, { key: foreign })).status).toBe(404)
  })
  it("9.4 pages by cursor in import order; the cursor is left out at the end; ids are stable; segment_count is the whole's", async () => {
    const id = await memoryOf(
      Array.from({ length: 130 }, (_, i) => ({ de: `Satz ${i}`, en: `Sentence ${i}` }))
    )
    const texts: Array<string> = []
    let cursor: string | undefined
    let pages = 0
    do {
      const { body } = await call("GET", `/${id}/segments`, {
        query: cursor === undefined ? "" : `page_cursor=${encodeURIComponent(cursor)}`
      })
      expect(body.segment_count).toBe(130)
      texts.push(...body.segments.map((one: any) => one.source_text))
      cursor = body.next_page_cursor
      pages++
    } while (cursor !== undefined)
    expect([pages, texts]).toEqual([3, Array.from({ length: 130 }, (_, i) => `Satz ${i}`)])
    const one = async () => (await call("GET", `/${id}/segments`, { query: "page_size=1" })).body.segments[0]
    expect(await one()).toEqual({
      source_segment_id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4/),
      source_text: "Satz 0",
      targets: [
        {
          target_segment_id: expect.stringMatching(/^[0-9a-f]{8}-/),
          target_language: "en",
          target_text: "Sentence 0"
        }
      ]
    })
    expect(await one()).toEqual(await one())
    const full = await call("GET", `/${id}/segments`, { query: "page_size=100" })
    const rest = await call("GET", `/${id}/segments`, {
      query: `page_size=30&page_cursor=${full.body.next_page_cursor}`
    })
    expect([rest.body.segments.length, rest.body.next_page_cursor]).toEqual([30, undefined])
  })
  it("9.4 filter: source or any target, case-insensitive by default; pages of a filter", async () => {
    const id = await memoryOf([
      { de: "Apfel", en: "Pear" },
      { de: "Birne", en: "apple" },
      { de: "APFEL zwei", en: "x" }
    ])
    const found = async (query: string) => (await call("GET", `/${id}/segments`, { query })).body
    expect((await found("filter_text=apfel")).segments.map((one: any) => one.source_text)).toEqual([
      "Apfel",
      "APFEL zwei"
    ])
    expect((await found("filter_text=apple")).segments.map((one: any) => one.source_text)).toEqual(["Birne"])
    expect(
      (await found("filter_text=Apfel&filter_case_sensitive=true")).segments.map(
        (one: any) => one.source_text
      )
    ).toEqual(["Apfel"])
    expect((await found("filter_text=")).segments).toHaveLength(3)
    const first = await found("filter_text=apfel&page_size=1")
    expect([first.segments.length, first.segment_count]).toEqual([1, 3])
    const second = await found(`filter_text=apfel&page_size=1&page_cursor=${first.next_page_cursor}`)
    expect([second.segments[0].source_text, second.next_page_cursor]).toEqual(["APFEL zwei", undefined])
  })
  it("a search whose client goes reads no further", async () => {
    const id = await memoryOf([{ de: "Apfel", en: "Pear" }])
    const range = vi.spyOn(world.store, "range")
    const looks = (): number =>
      range.mock.calls.filter(([table]) => table === "translation-memory-segments").length
    try {
      const client = new AbortController()
      const path = `/v3/translation_memories/${id}/segments`
      const query = "filter_text=none"
      const answer = world.call({ method: "GET", path, query, signal: client.signal })
      expect(looks()).toBe(1)
      client.abort()
      expect((await answer).status).toBe(unheard)
      for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
      expect(looks()).toBe(1)
      expect((await world.call({ method: "GET", path, query })).status).toBe(200)
      expect(looks()).toBe(3)
    } finally {
      range.mockRestore()
    }
  })
  it("9.4 a foreign, damaged or filter-mismatched cursor, a filter of one character, page_size 0 or 101: 400", async () => {
    const [one, two] = [
      await memoryOf(Array.from({ length: 5 }, (_, i) => ({ de: `Satz ${i}`, en: "x" }))),
      await memoryOf(small)
    ]
    const { next_page_cursor: cursor } = (await call("GET", `/${one}/segments`, { query: "page_size=1" }))
      .body
    const status = async (id: string, query: string) =>
      (await call("GET", `/${id}/segments`, { query })).status
    expect(await status(one, `page_cursor=${cursor}`)).toBe(200)
    for (const [id, query] of [
      [two, `page_cursor=${cursor}`],
      [one, `page_cursor=${cursor}x`],
      [one, "page_cursor=9.9"],
      [one, `page_cursor=${cursor}&filter_text=Satz`],
      [one, "filter_text=a"],
      [one, "page_size=0"],
      [one, "page_size=101"]
    ] as const) {
      expect(await status(id, query), query).toBe(400)
    }
  })
  it("9.9 DELETE 204, afterwards 404; its rows go", async () => {
    const id = await memoryOf(small)
    expect((await call("DELETE", `/${id}`)).status).toBe(204)
    expect([
      (await call("GET", `/${id}`)).status,
      (await call("DELETE", `/${id}`)).status,
      (await call("GET", `/${id}/segments`)).status
    ]).toEqual([404, 404, 404])
    await until(async () =>
      world.store.range("translation-memory-segments", { limit: 1 }).length === 0 ? true : undefined
    )
  })
})

describe("export (translation 9.7, 9.8)", () => {
  it("202, completed, the file read again gives the same memory; downloaded after a full download; reused with 200", async () => {
    const id = await memoryOf([
      { de: 'a <b> & "c"', en: "d > e", "es-419": "f" },
      { de: "zwei", en: "two" }
    ])
    const started = await call("POST", `/${id}/export`)
    expect([started.status, started.body]).toEqual([
      202,
      { job_id: expect.any(String), parameters: { translation_memory_id: id } }
    ])
    const done = await ended(started.body.job_id)
    expect(done).toEqual({
      job_id: started.body.job_id,
      product: "translation_memory",
      operation: "export",
      creation_time: expect.any(String),
      updated_time: expect.any(String),
      parameters: { translation_memory_id: id },
      results: [
        {
          status: "completed",
          download_url: expect.stringMatching(/^http:\/\/localhost\/v3\/assets\//),
          expires_at: "2026-01-31T13:00:00.000Z"
        }
      ]
    })
    const again = await call("POST", `/${id}/export`)
    expect([again.status, again.body.job_id]).toEqual([200, started.body.job_id])
    const fetch = () => world.call({ method: "GET", path: pathOf(done.results[0].download_url), key: "" })
    const file = await fetch()
    expect([file.status, file.header("content-type")]).toEqual([200, "application/xml"])
    expect(file.text).toContain('srclang="de"')
    await until(async () =>
      (await job(started.body.job_id)).results[0].status === "downloaded" ? true : undefined
    )
    expect((await fetch()).text).toBe(file.text)
    const copy = (await imported(file.text)).results[0].translation_memory_id
    const segmentsOf = async (memory: string) =>
      (await call("GET", `/${memory}/segments`)).body.segments.map(({ source_text, targets }: any) => [
        source_text,
        targets.map((one: any) => [one.target_language, one.target_text])
      ])
    expect(await segmentsOf(copy)).toEqual(await segmentsOf(id))
  })
  it("after expires_at: 410, then a new job", async () => {
    const id = await memoryOf(small)
    const { body } = await call("POST", `/${id}/export`)
    const done = await ended(body.job_id)
    world.nowMs += 3_600_000
    expect(
      (await world.call({ method: "GET", path: pathOf(done.results[0].download_url), key: "" })).status
    ).toBe(410)
    world.system.tick()
    await until(async () => ((await job(body.job_id)).results[0].status === "expired" ? true : undefined))
    expect((await call("POST", `/${id}/export`)).status).toBe(202)
    await until(async () => ((await world.store.blobs.ids()).length <= 1 ? true : undefined))
  })
  it("409 while one is processing; deleting the memory ends it as failed (9.9)", async () => {
    const id = await memoryOf(Array.from({ length: 3_000 }, (_, i) => ({ de: `Satz ${i}`, en: "x" })))
    const [one, two] = await Promise.all([call("POST", `/${id}/export`), call("POST", `/${id}/export`)])
    expect([one.status, two.status].sort()).toEqual([202, 409])
    expect((await call("DELETE", `/${id}`)).status).toBe(204)
    const {
      results: [result]
    } = await ended(one.status === 202 ? one.body.job_id : two.body.job_id)
    expect(result.status).toBe("failed")
  })
  it("a wrong signature: 403; the upload's is no download's", async () => {
    const id = await memoryOf(small)
    const { body } = await call("POST", `/${id}/export`)
    const done = await ended(body.job_id)
    expect(
      (await world.call({ method: "GET", path: `${pathOf(done.results[0].download_url)}x`, key: "" })).status
    ).toBe(403)
  })
})

describe("memories in text (translation 3.1, 3.3.5)", () => {
  const translate = (memory: string, text: string, more: object = {}) =>
    world.text({
      text: [text],
      source_lang: "de",
      target_lang: "en-US",
      translation_memory_id: memory,
      ...more
    })
  it("exact whole text, case only, fuzzy above the threshold, nothing below it", async () => {
    const id = await memoryOf([
      { de: "Der Vertrag tritt sofort in Kraft.", en: "The contract takes effect immediately." }
    ])
    expect(
      await translate(id, "Der Vertrag tritt sofort in Kraft.", { translation_memory_threshold: 100 })
    ).toBe("The contract takes effect immediately.")
    expect(await translate(id, "  Der Vertrag  tritt sofort in Kraft.\n")).toBe(
      "  The contract takes effect immediately.\n"
    )
    expect(
      await translate(id, "der vertrag tritt sofort in kraft.", { translation_memory_threshold: 99 })
    ).toBe("The contract takes effect immediately.")
    expect(
      await translate(id, "der vertrag tritt sofort in kraft.", { translation_memory_threshold: 100 })
    ).not.toBe("The contract takes effect immediately.")
    const near = "Der Vertrag tritt morgen in Kraft."
    const similarity = Math.round(
      100 * (1 - distance(near, "Der Vertrag tritt sofort in Kraft.") / near.length)
    )
    expect(await translate(id, near, { translation_memory_threshold: similarity })).toBe(
      "The contract takes effect immediately."
    )
    expect(await translate(id, near, { translation_memory_threshold: similarity + 1 })).toBe(
      near.toUpperCase()
    )
    expect(await translate(id, "Etwas ganz anderes, das niemand kennt.")).toBe(
      "ETWAS GANZ ANDERES, DAS NIEMAND KENNT."
    )
  })
  it("then sentences; placeholders and tags stay; memory > glossary > engine; what it gave is not touched", async () => {
    const id = await memoryOf([
      { de: "Hallo {name}!", en: "hi, {name}" },
      { de: "Das ist gut.", en: "fine" }
    ])
    expect(await translate(id, "Hallo {name}! Eine Katze. Das ist gut.")).toBe("hi, {name} EINE KATZE. fine")
    const glossary = (
      await world.call({
        path: "/v3/glossaries",
        body: {
          name: "g",
          dictionaries: [{ source_lang: "de", target_lang: "en", entries: "Katze\tkitty\ngut\tgood" }]
        }
      })
    ).body.glossary_id
    expect(await translate(id, "Eine Katze. Das ist gut.", { glossary_id: glossary })).toBe(
      "EINE kitty. fine"
    )
    expect(await translate(id, "<p>Das <b>ist</b> gut.</p>", { tag_handling: "html" })).toMatch(
      /^<p>.*fine.*<\/p>$/
    )
    expect(await translate(id, "<p>Das <b>ist</b> gut.</p>", { tag_handling: "html" })).toContain("<b>")
  })
  it("9.4 last_used_time is set when a translation applied the segment, before the answer", async () => {
    const id = await memoryOf(small)
    world.nowMs += 5_000
    await translate(id, "Hallo Welt!")
    const { body } = await call("GET", `/${id}/segments`)
    expect(body.segments.map((one: any) => one.last_used_time)).toEqual([
      "2026-01-31T12:00:05.000Z",
      undefined
    ])
    expect("last_used_time" in body.segments[1]).toBe(false)
  })
  it("unknown, another source language or a target it has not: 404; a threshold outside 0–100: 400; without a memory it is only checked", async () => {
    const id = await memoryOf(small)
    const status = async (body: object) =>
      (await world.translate({ text: ["a"], source_lang: "de", target_lang: "en-US", ...body })).status
    expect(await status({ translation_memory_id: nobody })).toBe(404)
    expect(await status({ translation_memory_id: id, source_lang: "fr" })).toBe(404)
    expect(await status({ translation_memory_id: id, target_lang: "it" })).toBe(404)
    for (const threshold of [-1, 101, "x", 1.5])
      expect(await status({ translation_memory_id: id, translation_memory_threshold: threshold })).toBe(400)
    expect(await status({ translation_memory_threshold: 101 })).toBe(400)
    expect(await status({ translation_memory_threshold: 50 })).toBe(200)
  })
  it("source detection is allowed: texts of another language go to the engine", async () => {
    world = await TranslationHarness.open({
      change: (text) => text.toUpperCase(),
      detects: { "Hallo Welt!": "de", Bonjour: "fr" }
    })
    const id = await memoryOf(small)
    const answer = await world.translate({
      text: ["Hallo Welt!", "Bonjour"],
      target_lang: "en-US",
      translation_memory_id: id
    })
    expect(answer.body.translations.map(({ text }: any) => text)).toEqual(["Hello everyone!", "BONJOUR"])
  })
  it("a target variant is used only for itself, a bare target for all variants", async () => {
    const id = await memoryOf([{ de: "Farbe", "en-GB": "colour" }])
    expect(await translate(id, "Farbe", { target_lang: "en-GB" })).toBe("colour")
    expect(
      (
        await world.translate({
          text: ["Farbe"],
          source_lang: "de",
          target_lang: "en-US",
          translation_memory_id: id
        })
      ).status
    ).toBe(404)
  })
})

describe("similarity (translation 3.3.5)", () => {
  it("the index finds what a comparison with every text finds", async () => {
    let seed = 5
    const next = (max: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
      return (seed >> 8) % max
    }
    const words =
      "der die das Vertrag Haus Katze sehr gut neu alt gehen kommen und oder mit ohne Gericht Partei 12 §".split(
        " "
      )
    const sentence = (length: number): string =>
      Array.from({ length }, () => words[next(words.length)]).join(" ")
    const texts = Array.from({ length: 600 }, (_, i) => sentence(1 + (i % 40) * (i % 7 === 0 ? 3 : 1)))
    const index = new SimilarityIndex()
    for (const [i, text] of texts.entries()) index.add(i, text)
    index.seal()
    for (let round = 0; round < 120; round++) {
      const from = texts[next(texts.length)]!
      const at = next(from.length)
      const text =
        round % 4 === 0 ? sentence(1 + next(20)) : from.slice(0, at) + "xy" + from.slice(at + next(4))
      const threshold = [0, 50, 75, 90][round % 4]!
      const best = Math.max(...texts.map((one) => similarityOf(text, one)))
      const likely = await index.likely(text, threshold, () => Promise.resolve())
      const found = likely.map(({ place, ceiling }) => {
        const is = similarityOf(text, texts[place]!)
        expect(ceiling).toBeGreaterThanOrEqual(is === 99 ? 0 : is)
        return is
      })
      if (best >= threshold) expect(Math.max(...found)).toBe(best)
    }
  })
})
