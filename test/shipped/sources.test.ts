/** The built program against its own sources: the same questions to both, and the same bytes back, to their
 *  clients and to the models behind them. A fault of the bundle shows here even where nobody thought of it. */
import { rmSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { loadConfig } from "../../runtime/program/config/config.ts"
import { startNode, type RunningNode } from "../../runtime/program/start.ts"
import { Browser } from "./browser.ts"
import { ModelServer } from "./model-server.ts"
import { newHome, Program, type Secrets, until } from "./program.ts"
import { everyText, names, sentences } from "./texts.ts"

/** One of the two, and the models that it asks. */
interface Side {
  readonly url: string
  readonly secrets: Secrets
  readonly models: ModelServer
}

let program: Program
let node: RunningNode
let sides: readonly [Side, Side]
const home = newHome()

beforeAll(async () => {
  const [builtModels, sourceModels] = [await ModelServer.open(), await ModelServer.open()]
  program = await Program.start({ env: builtModels.env })
  node = await startNode(
    await loadConfig({
      TROUPE_DATA: join(home, "data"),
      TROUPE_PORT: "0",
      TROUPE_LOG_LEVEL: "error",
      ...sourceModels.env
    })
  )
  sides = [
    { url: program.url, secrets: await program.secrets(), models: builtModels },
    { url: node.url, secrets: node.createdSecrets as Secrets, models: sourceModels }
  ]
  await until(async () => {
    const languages = await ask(sides[1], "/v2/translate", {
      text: [sentences["BE"]],
      source_lang: "BE",
      target_lang: "DE"
    })
    expect(languages).toMatch(/^200/)
  })
  for (const { models } of sides) models.asked.length = 0
})

afterAll(async () => {
  await program?.close()
  await node?.stop()
  for (const { models } of sides ?? []) models.close()
  rmSync(home, { recursive: true, force: true })
})

const ask = async (side: Side, path: string, body: object): Promise<string> => {
  const answer = await fetch(`${side.url}${path}`, {
    method: "POST",
    headers: {
      Authorization: `DeepL-Auth-Key ${side.secrets.developerKey}`,
      "Content-Type": "application/json"
    },
    body: JSON.stringify(body)
  })
  return `${answer.status} ${answer.headers.get("content-type")} ${await answer.text()}`
}

const pairs: ReadonlyArray<readonly [string, string]> = [
  ["", ""],
  ["“", "”"],
  ["„", "“"],
  ["«\u00a0", "\u00a0»"],
  ["(", ")…"],
  ["¿", "?"],
  ["⟦1⟧ ", " ⟦2⟧"],
  ["<b>", "</b>"],
  ['<a href="https://x.example/ä?b=ü&amp;c">', "</a>!"],
  ["{name}, ", " %s ${x} {{y}}"],
  ["1. ", "。"],
  ["\ufeff", "\u2028next"]
]

/** Each text in each setting: several hundred strings. */
const strings = everyText.flatMap((text) => pairs.map(([before, after]) => `${before}${text}${after}`))

const batches = (size: number): ReadonlyArray<ReadonlyArray<string>> =>
  Array.from({ length: Math.ceil(strings.length / size) }, (_, i) => strings.slice(i * size, (i + 1) * size))

it.each([
  ["detection", { target_lang: "DE" }],
  ["plain text", { source_lang: "EN", target_lang: "DE", formality: "more" }],
  ["html", { source_lang: "EN", target_lang: "DE", tag_handling: "html" }],
  ["xml", { source_lang: "EN", target_lang: "DE", tag_handling: "xml", ignore_tags: ["b"] }],
  ["no sentences", { source_lang: "EN", target_lang: "FR", split_sentences: "0", preserve_formatting: true }],
  ["the translation service", { source_lang: "MK", target_lang: "DE", tag_handling: "html" }]
])("G-1: %s: built and sources answer the same bytes, and ask their models the same", async (_, options) => {
  for (const text of batches(40)) {
    const [built, source] = await Promise.all(
      sides.map((side) => ask(side, "/v2/translate", { text, ...options }))
    )
    expect(built).toBe(source)
    const [builtAsked, sourceAsked] = sides.map(({ models }) => models.asked.splice(0).toSorted())
    expect(builtAsked).toEqual(sourceAsked)
  }
})

it("a text alone, where detection cannot look at its neighbours", async () => {
  for (const text of everyText) {
    const [built, source] = await Promise.all(
      sides.map((side) => ask(side, "/v2/translate", { text: [text], target_lang: "FR" }))
    )
    expect(built).toBe(source)
  }
})

it("rephrasing, chat and refusals", async () => {
  const questions: ReadonlyArray<readonly [string, object]> = everyText.flatMap((text) => [
    ["/v2/write/rephrase", { text: [text], target_lang: "en-US", writing_style: "business" }],
    ["/v2/translate", { text: [text], target_lang: text }],
    ["/v1/chat/completions", { model: text, messages: [{ role: "user", content: text }] }],
    ["/v1/chat/completions", { model: "local/echo", messages: [{ role: text, content: text }] }]
  ])
  const withoutIds = (answer: string): string => answer.replace(/[0-9a-f]{32}|"created":\d+/g, "")
  for (const [path, body] of questions) {
    const [built, source] = await Promise.all(sides.map((side) => ask(side, path, body)))
    expect(withoutIds(built!), path).toBe(withoutIds(source!))
  }
})

it("G-1: every page of the console and of signing in", async () => {
  const paths = [
    "/login",
    "/console",
    "/connections",
    "/store/admin/login",
    "/store/admin/products",
    "/store/admin/products/new",
    "/store/admin/products/1",
    "/store/admin/tools/apps",
    "/store/admin/tools/apps/new",
    "/store/admin/tools/webhooks",
    "/store/admin/style.css",
    "/store/admin/nowhere",
    "/oauth/authorize",
    "/consent"
  ]
  const pagesOf = async ({ url, secrets }: Side): Promise<ReadonlyArray<string>> => {
    const browser = new Browser(url)
    const login = await browser.open("/store/admin/login")
    const entered = await browser.submit(login, "/store/admin/login", {
      username: secrets.storeUser,
      password: secrets.storePassword
    })
    expect(entered.status).toBe(303)
    const pages: Array<string> = []
    for (const path of paths) {
      const { status, headers, bytes } = await browser.open(path)
      const text = bytes
        .toString("latin1")
        .replaceAll(url, "")
        .replace(/(name="(?:csrf|req|state)[^"]*" value=")[^"]*/g, "$1")
        .replace(
          /[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|app_[\w-]+|\d{4}-\d\d-\d\d \d\d:\d\d/g,
          ""
        )
      pages.push(`${path} ${status} ${headers.get("content-type")} ${text}`)
    }
    return pages
  }
  const [built, source] = await Promise.all(sides.map(pagesOf))
  for (const [i, page] of source!.entries()) expect(built![i]).toBe(page)
})

it("names in records", async () => {
  for (const name of names) {
    const body = {
      name,
      source_lang: "en",
      target_lang: "de",
      entries: `${name}\t${name}!`,
      entries_format: "tsv"
    }
    const [built, source] = await Promise.all(sides.map((side) => ask(side, "/v2/glossaries", body)))
    const plain = (answer: string): string => answer.replace(/"(?:glossary_id|creation_time)":"[^"]*"/g, "")
    expect(plain(built!)).toBe(plain(source!))
  }
})
