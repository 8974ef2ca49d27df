/** The shipped program stopped with work in flight and killed, and started again on its folder: what it
 *  acknowledged is there. */
import * as deepl from "deepl-node"
import OpenAI from "openai"
import { afterAll, beforeAll, expect, it } from "vitest"
import { backwards, ModelServer } from "./model-server.ts"
import { freePort, Program, type Secrets, until } from "./program.ts"
import { everyText, names } from "./texts.ts"

let models: ModelServer
let program: Program
let secrets: Secrets

beforeAll(async () => {
  models = await ModelServer.open()
  program = await Program.start({ env: models.env, port: await freePort() })
  secrets = await program.secrets()
})

afterAll(async () => {
  await program?.close()
  models?.close()
})

const again = async (): Promise<void> => {
  program = await Program.start({ env: models.env, home: program.home, port: program.port })
}

const translator = (): deepl.DeepLClient =>
  new deepl.DeepLClient(secrets.developerKey, { serverUrl: program.url, maxRetries: 0, minTimeout: 60_000 })

const store = async (method: string, path: string, body?: object): Promise<any> => {
  const answer = await fetch(`${program.url}/api/v1/${path}`, {
    method,
    headers: { "X-STORE-Auth-Token": secrets.storeToken, "Content-Type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  return { status: answer.status, body: await answer.json() }
}

/** Creates one record of each service, and resolves with a look at them after a restart. */
const work = async (round: string): Promise<() => Promise<void>> => {
  const text = everyText[round.length]!
  const chat = new OpenAI({ baseURL: `${program.url}/v1`, apiKey: "none", maxRetries: 0 })
  const [glossary, document, response, product] = await Promise.all([
    translator().createGlossary(
      `${names[1]} ${round}`,
      "en",
      "de",
      new deepl.GlossaryEntries({ entries: { [names[8]!]: text } })
    ),
    translator().uploadDocument(Buffer.from(text), "en", "de", { filename: `${names[4]}.txt` }),
    chat.responses.create({ model: "main/model", input: text, store: true }),
    store("POST", "products", {
      item_name: `${names[10]} ${round}`,
      item_number: round,
      product_status_id: 1,
      primary_category_id: 1
    })
  ])
  return async () => {
    const entries = await translator().getGlossaryEntries(glossary)
    expect(entries.entries()).toEqual({ [names[8]!]: text })
    await until(async () => expect((await translator().getDocumentStatus(document)).status).toBe("done"))
    const client = new OpenAI({ baseURL: `${program.url}/v1`, apiKey: "none", maxRetries: 0 })
    expect((await client.responses.retrieve(response.id)).output_text).toBe(backwards(text))
    const next = await client.responses.create({
      model: "main/model",
      input: "?!",
      previous_response_id: response.id
    })
    expect(next.output_text).toBe("!?")
    expect((await store("GET", `products/${product.body.id}`)).body.item_name).toBe(`${names[10]} ${round}`)
  }
}

it("SIGTERM: a request in flight is answered, the exit code is 0, and a document goes on after the start", async () => {
  const look = await work("one")
  let open = (): void => {}
  models.gate = new Promise((resolve) => {
    open = resolve
  })
  models.asked.length = 0
  const waiting = translator().translateText("in flight", "en", "de")
  const document = await translator().uploadDocument(Buffer.from("on its way"), "en", "de", {
    filename: "a.txt"
  })
  await until(() => expect(models.asked.length).toBeGreaterThanOrEqual(2))
  const ended = program.end("SIGTERM")
  await until(async () => {
    const refused = await fetch(`${program.url}/livez`).then(
      () => false,
      () => true
    )
    expect(refused).toBe(true)
  })
  open()
  expect((await waiting).text).toBe("IN FLIGHT")
  expect(await ended).toBe(0)
  models.gate = undefined
  await again()
  await look()
  await until(async () => expect((await translator().getDocumentStatus(document)).status).toBe("done"))
})

it("SIGKILL: nothing that was acknowledged is missing, twice in a row", async () => {
  for (const round of ["two", "three"]) {
    const look = await work(round)
    await program.end("SIGKILL")
    await again()
    await look()
  }
  expect(program.out).not.toContain("developer key")
})

it("a second process in the same folder is refused by name, and the first serves on", async () => {
  const second = await program.run("serve", "--port", "0")
  expect([second.code, second.err]).toEqual([1, expect.stringContaining("another process")])
  expect((await fetch(`${program.url}/livez`)).status).toBe(200)
})

it("check finds all well", async () => {
  expect((await program.run("check")).out).toMatch(/all well/)
})
