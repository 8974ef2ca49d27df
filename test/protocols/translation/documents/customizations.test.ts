/** Documents with glossaries, style lists and memories, through the real service and its threads. Source:
 *  translation 3.1, 3.3.4–5, 4.1; documents 9.7. */
import { Effect } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { Zip } from "../../../../protocols/formats/zip.ts"
import { docxOf, mainPart, p } from "../../formats/build.ts"
import { tmxOf, until } from "../memories/tmx-files.ts"
import { DocumentWorld, type Handle } from "./document-world.ts"
import { fault, type Script } from "../harness.ts"

const nobody = "0f8fad5b-d9cb-469f-a165-70867728950e"
let world: DocumentWorld
const instead: { now: Script["instead"] } = { now: undefined }

beforeAll(async () => {
  world = await DocumentWorld.open({
    change: (text) => text.toUpperCase(),
    instead: (request) => instead.now?.(request) as Effect.Effect<never, never>
  })
})

afterAll(() => world.close())

const call = async (method: string, path: string, body?: unknown): Promise<any> => {
  const answer = await fetch(world.url + path, {
    method,
    headers: {
      authorization: `DeepL-Auth-Key ${world.secret}`,
      ...(body === undefined ? {} : { "content-type": "application/json" })
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  return answer.status === 204 ? undefined : await answer.json()
}

const glossaryOf = async (entries: string): Promise<string> =>
  (
    await call("POST", "/v3/glossaries", {
      name: "g",
      dictionaries: [{ source_lang: "en", target_lang: "de", entries }]
    })
  ).glossary_id

const styleOf = async (language: string): Promise<string> =>
  (
    await call("POST", "/v3/style_rules", {
      name: "s",
      language,
      configured_rules: { punctuation: { ellipsis: "use_ellipsis_character" } }
    })
  ).style_id

const memoryOf = async (units: Parameters<typeof tmxOf>[0]): Promise<string> => {
  const file = tmxOf(units, "en")
  const { job_id, upload_url } = await call("POST", "/v3/translation_memories/import", {
    source_file: { file_name: "m.tmx", content_length: Buffer.byteLength(file) }
  })
  await fetch(world.url + new URL(upload_url).pathname, {
    method: "PUT",
    headers: { "content-type": "application/xml" },
    body: file
  })
  return until(async () => {
    const {
      results: [result]
    } = await call("GET", `/v3/translation_memories/jobs/${job_id}`)
    return result.status === "completed" ? result.translation_memory_id : undefined
  })
}

const translatedBytes = async (
  name: string,
  content: string | Uint8Array,
  fields: Record<string, string>
): Promise<Buffer> => {
  const result = await world.translate(name, content, fields)
  if (result.at !== "OK") throw new Error(`${result.at} ${result.status} ${result.message}`)
  return result.bytes
}

const main = (bytes: Buffer): string => new Zip(bytes).part(mainPart)!.toString("utf8")

const bold = (text: string): string =>
  `<w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">${text}</w:t></w:r>`

describe("glossaries", () => {
  it("a term in a docx, plain, bold, and beside formatting: the term's translation, with the formatting where it stood", async () => {
    const glossary_id = await glossaryOf("cat\tKatze\nred house\trotes Haus")
    const body = main(
      await translatedBytes(
        "a.docx",
        docxOf(p("the cat sleeps") + p("a ", bold("cat"), " runs") + p("one ", bold("big"), " cat")),
        { glossary_id }
      )
    )
    const plain = body.split("</w:p>").map((paragraph) => paragraph.replace(/<[^>]*>/g, ""))
    expect(plain.slice(0, 3)).toEqual(["THE Katze SLEEPS", "A Katze RUNS", "ONE BIG Katze"])
    expect(body).toContain(bold("Katze"))
    expect(body).toContain(bold("BIG"))
  })
  it("a term that formatting cuts through is translated without loss", async () => {
    const glossary_id = await glossaryOf("red house\trotes Haus")
    const body = main(
      await translatedBytes("a.docx", docxOf(p("the red ", bold("house"), " stands")), { glossary_id })
    )
    expect(body.replace(/<[^>]*>/g, "")).toMatch(/^THE (?:RED HOUSE|rotes Haus) STANDS$/)
    expect(body.match(/<w:b\/>/g)).toHaveLength(1)
  })
  it("several glossaries; in txt, srt, html and xlf as well", async () => {
    const glossary_ids = `${await glossaryOf("cat\tKatze")},${await glossaryOf("dog\tHund")}`
    expect((await translatedBytes("a.txt", "the cat\nthe dog\n", { glossary_ids })).toString()).toBe(
      "THE Katze\nTHE Hund\n"
    )
    expect(
      (
        await translatedBytes("a.srt", "1\n00:00:01,000 --> 00:00:02,000\nthe cat\n", { glossary_ids })
      ).toString()
    ).toContain("\nTHE Katze\n")
    expect(
      (await translatedBytes("a.html", "<p>the <i>cat</i> &amp; dog</p>", { glossary_ids })).toString()
    ).toBe("<p>THE <i>Katze</i> &amp; Hund</p>")
    expect(
      (
        await translatedBytes(
          "a.xlf",
          '<xliff version="1.2"><file><body><trans-unit id="1"><source>the cat</source></trans-unit></body></file></xliff>',
          { glossary_ids }
        )
      ).toString()
    ).toContain("<target>THE Katze</target>")
  })
  it("deleted while the job runs: the job fails, and nothing is translated without it", async () => {
    const glossary_id = await glossaryOf("cat\tKatze")
    let asked = 0
    instead.now = () =>
      Effect.flatMap(
        Effect.promise(() => {
          asked++
          return call("DELETE", `/v3/glossaries/${glossary_id}`)
        }),
        () => Effect.fail(fault("timeout"))
      )
    try {
      const handle = (await (await world.upload("a.txt", "the cat sleeps", { glossary_id })).json()) as Handle
      const ended = await world.ended(handle)
      expect(ended.status).toBe("error")
      expect(JSON.stringify(ended)).not.toContain("sleeps")
      expect((await world.download(handle)).status).not.toBe(200)
      expect(asked).toBe(1)
    } finally {
      instead.now = undefined
    }
  })
})

describe("memories and style lists", () => {
  it("a paragraph that the memory knows comes from it, the rest from the engine", async () => {
    const translation_memory_id = await memoryOf([
      { en: "The contract takes effect immediately.", de: "Der Vertrag tritt sofort in Kraft." }
    ])
    const body = main(
      await translatedBytes(
        "a.docx",
        docxOf(p("The contract takes effect immediately.") + p("Nobody knows this one.")),
        { translation_memory_id }
      )
    )
    expect(
      body
        .split("</w:p>")
        .slice(0, 2)
        .map((paragraph) => paragraph.replace(/<[^>]*>/g, ""))
    ).toEqual(["Der Vertrag tritt sofort in Kraft.", "NOBODY KNOWS THIS ONE."])
    expect(
      (
        await translatedBytes("a.txt", "The contract takes effect tomorrow.\n", {
          translation_memory_id,
          translation_memory_threshold: "100"
        })
      ).toString()
    ).toBe("THE CONTRACT TAKES EFFECT TOMORROW.\n")
  })
  it("a style list sets its characters", async () => {
    expect((await translatedBytes("a.txt", "wait...\n", { style_id: await styleOf("de") })).toString()).toBe(
      "WAIT…\n"
    )
  })
})

describe("at upload", () => {
  it.each([
    ["glossary_id", nobody],
    ["glossary_ids", nobody],
    ["style_id", nobody],
    ["translation_memory_id", nobody]
  ])("an unknown %s: 404, nothing kept", async (field, id) => {
    const before = (await world.store.blobs.ids()).length
    expect((await world.upload("a.txt", "words", { [field]: id })).status).toBe(404)
    expect(await world.store.blobs.ids()).toHaveLength(before)
  })
  it("another account's are unknown", async () => {
    const glossary_id = await glossaryOf("cat\tKatze")
    const other = await DocumentWorld.open({})
    try {
      expect((await other.upload("a.txt", "words", { glossary_id })).status).toBe(404)
    } finally {
      await other.close()
    }
  })
  it("a style list of another language, a glossary without the pair: 400", async () => {
    expect((await world.upload("a.txt", "words", { style_id: await styleOf("fr") })).status).toBe(400)
    expect(
      (
        await world.upload("a.txt", "words", {
          glossary_id: await glossaryOf("cat\tKatze"),
          target_lang: "FR"
        })
      ).status
    ).toBe(400)
  })
})
