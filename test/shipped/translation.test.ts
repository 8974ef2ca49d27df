/** The shipped program's translation, with its published client, in the scripts of the world. */
import * as deepl from "deepl-node"
import { createWriteStream, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { ModelServer } from "./model-server.ts"
import { Program, until } from "./program.ts"
import { everyText, names, oddities, sentences } from "./texts.ts"

let models: ModelServer
let program: Program
let client: deepl.DeepLClient

beforeAll(async () => {
  models = await ModelServer.open()
  program = await Program.start({ env: models.env })
  const { developerKey } = await program.secrets()
  client = new deepl.DeepLClient(developerKey, { serverUrl: program.url, maxRetries: 0, minTimeout: 60_000 })
})

afterAll(async () => {
  await program?.close()
  models?.close()
})

/** The target that each text can be translated into. */
const targetOf = (code: string): deepl.TargetLanguageCode => (code === "DE" ? "en-US" : "de")

it("G-1: each language is detected, Belarusian and Macedonian too", async () => {
  const detected: Record<string, string> = {}
  for (const [code, text] of Object.entries(sentences))
    detected[code] = (await client.translateText(text, null, targetOf(code))).detectedSourceLang
  expect(detected).toEqual(
    Object.fromEntries(Object.keys(sentences).map((code) => [code, code.toLowerCase()]))
  )
})

it("texts come back whole, whatever their script", async () => {
  for (const text of everyText)
    expect((await client.translateText(text, "en", "de", { splitSentences: "off" })).text).toBe(
      text.replaceAll("⟦", "[").replaceAll("⟧", "]").toUpperCase()
    )
})

it("G-1: markup keeps its place, no mark leaks, and the model is asked once", async () => {
  for (const tagHandling of ["html", "xml"] as const)
    for (const text of Object.values(sentences)) {
      const word = text.split(" ")[0]!
      const marked = text.replace(word, `<b id="1">${word}</b><i>7</i>`)
      const before = models.asked.length
      const answer = await client.translateText(`<p>${marked}</p>`, "en", "de", { tagHandling })
      expect(answer.text).toBe(
        `<p>${marked}</p>`
          .split(/(<[^>]*>)/)
          .map((part, i) => (i % 2 === 0 ? part.toUpperCase() : part))
          .join("")
      )
      expect(models.asked.length - before, text).toBe(1)
    }
})

it("glossaries keep their entries, and use them", async () => {
  const entries = new deepl.GlossaryEntries({
    entries: Object.fromEntries(names.map((name, i) => [name, `${names.at(i - 1)} ${i}`]))
  })
  const created = await client.createGlossary("Словарь 用語集 📖", "en", "de", entries)
  expect(created.name).toBe("Словарь 用語集 📖")
  expect((await client.getGlossaryEntries(created)).entries()).toEqual(entries.entries())
  for (const [i, name] of names.entries())
    expect((await client.translateText(name, "en", "de", { glossary: created })).text).toBe(
      `${names.at(i - 1)} ${i}`
    )
  await client.deleteGlossary(created)
})

it("G-1: style lists hold their quotation marks and umlauts", async () => {
  const created = await client.createStyleRule({
    name: "Стиль „ä“",
    language: "de",
    configured_rules: {
      punctuation: { quotation_mark: "use_guillemets" },
      spelling_and_grammar: { umlauts: "replace_umlauts_with_ae_oe_ue" }
    },
    custom_instructions: [{ label: "Ümläute 字", prompt: "Пиши кратко — 短く" }]
  } as never)
  expect(created.name).toBe("Стиль „ä“")
  const { text } = await client.translateText("He said “yes” to the «old» Jäger, “Öl”.", "en", "de", {
    styleRule: created.styleId
  })
  expect(text).toBe("HE SAID «YES» TO THE «OLD» JAeGER, «OeL».")
  expect(models.asked.at(-1)).toContain("Пиши кратко — 短く")
  await client.deleteStyleRule(created.styleId)
})

it("documents keep their texts and names", async () => {
  const walk = async (name: string, i: number): Promise<void> => {
    const text = `${oddities[i % oddities.length]}\n${Object.values(sentences)[i]}\n`
    const handle = await client.uploadDocument(Buffer.from(text), "en", "de", { filename: `${name}.txt` })
    await until(async () => expect((await client.getDocumentStatus(handle)).status).toBe("done"))
    const output = join(program.home, `${i} ${name}.txt`)
    await client.downloadDocument(handle, createWriteStream(output))
    expect(readFileSync(output, "utf8")).toBe(text.replaceAll("⟦", "[").replaceAll("⟧", "]").toUpperCase())
  }
  // One after the other: on a quick machine all of them asking at once pass the key's 100 requests a second.
  for (const [i, name] of names.entries()) await walk(name, i)
})

it("the command line translates a document to a name beside it", async () => {
  const [name] = names.slice(8)
  writeFileSync(join(program.home, `${name}.txt`), sentences["EN"]!)
  const { code, out } = await program.run("translate", `${name}.txt`, "--from", "EN", "--to", "DE")
  expect([code, out]).toEqual([0, expect.stringContaining(name!)])
  const written = readdirSync(program.home).filter((file) => file.startsWith(name!))
  expect(written).toHaveLength(2)
  expect(written.map((file) => readFileSync(join(program.home, file), "utf8")).sort()).toEqual(
    [sentences["EN"]!.toUpperCase(), sentences["EN"]!].sort()
  )
})

it("a translation memory keeps its segments", async () => {
  const segment = (language: string, text: string): string =>
    `<tuv xml:lang="${language}"><seg>${text.replaceAll("&", "&amp;")}</seg></tuv>`
  const file = Buffer.from(
    `<?xml version="1.0" encoding="UTF-8"?><tmx version="1.4"><header creationtool="t" creationtoolversion="1" segtype="sentence" o-tmf="t" adminlang="en" srclang="de" datatype="plaintext"/><body>${names
      .map((name) => `<tu>${segment("de", name)}${segment("en", name.toUpperCase())}</tu>`)
      .join("")}</body></tmx>`
  )
  const begun = await client.createTranslationMemoryImport("Память.tmx", file.length, {
    displayName: "Память 記憶"
  })
  await client.uploadTranslationMemoryFile(begun, file)
  const id = await until(async () => {
    const { results } = await client.getTranslationMemoryJob(begun.jobId)
    expect(results[0]!.status).toBe("completed")
    return results[0]!.translationMemoryId!
  })
  expect((await client.getTranslationMemory(id)).name).toBe("Память 記憶")
  const { segments } = await client.listTranslationMemorySegments(id, { pageSize: 100 })
  expect(segments.map(({ sourceText }) => sourceText).sort()).toEqual([...names].sort())
})

it("the command line prints what the service answers", async () => {
  for (const text of [sentences["RU"]!, sentences["AR"]!, oddities[0]!]) {
    const { code, out } = await program.run("translate", text, "--from", "EN", "--to", "DE")
    expect([code, out.trim()]).toEqual([0, text.toUpperCase()])
  }
})
