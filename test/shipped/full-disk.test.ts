/** The shipped program on a disk that fills up: what needs no write is served, what needs one is refused, and
 *  writes are taken again when there is room. */
import OpenAI from "openai"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { noSmallDisk } from "../small-disk.ts"
import { backwards, ModelServer } from "./model-server.ts"
import { Program, type Secrets, until } from "./program.ts"

interface Answered {
  readonly status: number
  readonly retryAfter: string | null
  readonly body: any
}

const json = (value: unknown) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(value)
})

const whenPossible = noSmallDisk === undefined ? describe : describe.skip

whenPossible(`G-3 a full disk${noSmallDisk === undefined ? "" : `: ${noSmallDisk}`}`, () => {
  let models: ModelServer
  let program: Program
  let secrets: Secrets

  /** What was acknowledged, by item number. */
  const acknowledged: Array<string> = []
  const refused: Array<string> = []

  beforeAll(async () => {
    models = await ModelServer.open()
    program = await Program.start({ env: { ...models.env, STT_MAX_SESSIONS: "0" }, diskSize: "24m" })
    secrets = await program.secrets()
  })

  afterAll(async () => {
    await program?.close()
    models?.close()
  })

  const call = async (path: string, init: RequestInit, credential?: string): Promise<Answered> => {
    const headers = new Headers(init.headers)
    if (credential !== undefined) headers.set("Authorization", credential)
    headers.set("X-STORE-Auth-Token", secrets.storeToken)
    const answer = await fetch(`${program.url}${path}`, { ...init, headers })
    const text = await answer.text()
    return {
      status: answer.status,
      retryAfter: answer.headers.get("retry-after"),
      body: text.startsWith("{") ? JSON.parse(text) : text
    }
  }

  const key = (): string => `DeepL-Auth-Key ${secrets.developerKey}`

  const createProduct = async (number: string): Promise<Answered> => {
    const answer = await call(
      "/api/v1/products",
      json({ item_name: number, item_number: number, product_status_id: 1, primary_category_id: 1 })
    )
    if (answer.status === 201) acknowledged.push(number)
    else refused.push(number)
    return answer
  }

  const uploadDocument = (): Promise<Answered> => {
    const form = new FormData()
    form.set("target_lang", "DE")
    form.set("file", new Blob(["text ".repeat(2_000)]), "a.txt")
    return call("/v2/document", { method: "POST", body: form }, key())
  }

  const createToken = (): Promise<Answered> => {
    const basic = Buffer.from(`${secrets.oauthClientId}:${secrets.oauthClientSecret}`).toString("base64")
    const body = new URLSearchParams({ grant_type: "client_credentials" })
    return call("/oauth/token", { method: "POST", body }, `Basic ${basic}`)
  }

  const register = (): Promise<Answered> =>
    call("/oauth/register", json({ client_name: "a", redirect_uris: ["http://127.0.0.1:9/cb"] }))

  const createKey = (): Promise<Answered> =>
    call("/console/api/keys", json({ label: "a" }), `Bearer ${secrets.operatorToken}`)

  const respond = (more: object): Promise<Answered> =>
    call("/v1/responses", json({ model: "main/model", input: "question", ...more }))

  const metric = async (): Promise<string | undefined> =>
    /^troupe_storage_full (\d)/m.exec((await call("/metrics", {})).body)?.[1]

  const linesOf = (text: string): number => program.log.split(text).length - 1

  it("writes are refused in every service's own words, with a time to try again", async () => {
    expect((await createProduct("before")).status).toBe(201)
    program.disk!.fill()
    for (let i = 0; (await createProduct(`filling ${i}`)).status === 201; i++) program.disk!.fill()
    const full = { status: 503, retryAfter: "5" }
    expect(await createProduct("refused")).toMatchObject({ ...full, body: { details: "storage is full" } })
    expect(await uploadDocument()).toMatchObject({ ...full, body: { code: "storage_full" } })
    const unavailable = { ...full, body: { error: { code: "storage_unavailable" } } }
    expect(await respond({ store: true })).toMatchObject(unavailable)
    expect(await respond({ background: true })).toMatchObject(unavailable)
    expect(await register()).toMatchObject({ ...full, body: { error: "server_error" } })
    expect(await createKey()).toMatchObject({ ...full, body: { message: "Storage is full" } })
    expect(program.isAlive).toBe(true)
  })

  it("what needs no write is served: reads, translation, chat and its stream", async () => {
    const products = await call("/api/v1/products.json?fields=item_number", {})
    expect([products.status, JSON.stringify(products.body)]).toEqual([
      200,
      expect.stringContaining('"before"')
    ])
    const translated = await call("/v2/translate", json({ text: ["night"], target_lang: "DE" }), key())
    expect(translated.body.translations[0].text).toBe("NIGHT")
    expect((await call("/.well-known/oauth-authorization-server", {})).status).toBe(200)
    const client = new OpenAI({ baseURL: `${program.url}/v1`, apiKey: "none", maxRetries: 0 })
    const messages = [{ role: "user" as const, content: "question" }]
    const stream = client.chat.completions.stream({ model: "main/model", messages })
    expect((await stream.finalChatCompletion()).choices[0]!.message.content).toBe(backwards("question"))
    expect((await respond({ store: false })).status).toBe(200)
  })

  it("health and metrics say so, and the log says it once", async () => {
    for (const path of ["/health", "/ready", "/health/details"])
      expect(await call(path, {})).toMatchObject({ status: 200, body: { status: "degraded", db: "full" } })
    expect((await call("/livez", {})).status).toBe(200)
    expect(await metric()).toBe("1")
    expect(linesOf("the disk is full")).toBe(1)
    expect(program.log).not.toContain("a request failed")
  })

  it("writes are taken again when there is room, by itself", async () => {
    program.disk!.empty()
    await until(async () =>
      expect((await call("/health", {})).body).toMatchObject({ status: "ok", db: "ok" })
    )
    expect(await metric()).toBe("0")
    expect((await createProduct("after")).status).toBe(201)
    expect((await uploadDocument()).status).toBe(200)
    expect((await createToken()).status).toBe(200)
    expect((await register()).status).toBe(201)
    expect((await respond({ store: true })).status).toBe(200)
    expect(linesOf("the disk has room again")).toBe(1)
  })

  it("nothing acknowledged is lost, nothing refused is seen, and the stop is in order", async () => {
    const products = await call("/api/v1/products.json?fields=item_number", {})
    const text = JSON.stringify(products.body)
    for (const number of acknowledged) expect(text).toContain(`"${number}"`)
    for (const number of refused) expect(text).not.toContain(`"${number}"`)
    expect((await program.run("check")).out).toMatch(/all well/)
    for (let i = 0; (await createProduct(`last ${i}`)).status === 201; i++) program.disk!.fill()
    expect(await program.end()).toBe(0)
  })
})
