/** The shipped store: records in the scripts of the world through create, read, find, change and delete, its
 *  webhooks, its console's pages byte for byte, and an import by the command line. */
import { createHmac } from "node:crypto"
import { writeFileSync } from "node:fs"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { Browser } from "./browser.ts"
import { Program, type Secrets, until } from "./program.ts"
import { everyText, names } from "./texts.ts"

interface Delivery {
  readonly event: string
  readonly isSigned: boolean
  readonly body: any
}

const secret = "Ключ der Bestellungen, 32 Zeichen"

let program: Program
let secrets: Secrets
let target: Server
const deliveries: Array<Delivery> = []

beforeAll(async () => {
  target = createServer((request, response) => {
    const parts: Array<Buffer> = []
    request.on("data", (part: Buffer) => parts.push(part))
    request.on("end", () => {
      const text = Buffer.concat(parts).toString()
      const signature = createHmac("sha256", secret)
        .update(`${String(request.headers["x-store-timestamp"])}.${text}`)
        .digest("hex")
      deliveries.push({
        event: String(request.headers["x-store-event"]),
        isSigned: request.headers["x-store-signature"] === `sha256=${signature}`,
        body: JSON.parse(text)
      })
      response.end()
    })
  })
  await new Promise<void>((resolve) => target.listen(0, "127.0.0.1", resolve))
  program = await Program.start({
    env: { APERTIUM: "off", STT_MAX_SESSIONS: "0", STORE_WEBHOOK_PRIVATE_TARGETS: "true", STORE_PLAN: "gold" }
  })
  secrets = await program.secrets()
})

afterAll(async () => {
  await program?.close()
  target?.closeAllConnections()
  target?.close()
})

/** Asks the API; waits and asks again when the plan's calls are spent. */
const call = async (method: string, path: string, body?: unknown): Promise<any> =>
  until(async () => {
    const answer = await fetch(`${program.url}/api/v1/${path}`, {
      method,
      headers: { "X-STORE-Auth-Token": secrets.storeToken, "Content-Type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) })
    })
    expect([429, 503]).not.toContain(answer.status)
    const text = await answer.text()
    return { status: answer.status, body: text === "" ? undefined : JSON.parse(text) }
  })

it("products: create, read, find, change, delete; the webhook hears each", async () => {
  const url = `http://127.0.0.1:${(target.address() as AddressInfo).port}/заказ`
  for (const event of ["ProductCreated", "ProductUpdated"])
    expect((await call("POST", "webhooks", { event_type: event, url, secret })).status).toBe(201)
  for (const [i, name] of names.entries()) {
    const product = {
      item_name: name,
      item_number: `N-${i}-${name}`,
      short_description: everyText[i]!,
      price: i,
      product_status_id: 1,
      primary_category_id: 1
    }
    const created = await call("POST", "products", product)
    expect([created.status, created.body.item_name]).toEqual([201, name])
    const { id } = created.body
    expect((await call("GET", `products/${id}`)).body).toMatchObject(product)
    const found = await call("GET", `products?item_name=like:${encodeURIComponent(name)}`)
    expect(found.body.products.map(({ id: foundId }: { readonly id: number }) => foundId)).toContain(id)
    const changed = `«${name}» — ${i}`
    expect((await call("PUT", `products/${id}`, { item_name: changed })).status).toBe(200)
    await until(() => {
      const heard = deliveries.filter(({ body }) => body.product.id === id)
      expect(heard.map(({ event, isSigned, body }) => [event, isSigned, body.product.item_name])).toEqual([
        ["ProductCreated", true, name],
        ["ProductUpdated", true, changed]
      ])
    })
    expect((await call("DELETE", `products/${id}`)).status).toBeLessThan(300)
    expect((await call("GET", `products/${id}`)).status).toBe(404)
  }
})

it("the command line imports rows in every script", async () => {
  writeFileSync(
    join(program.home, "строки.jsonl"),
    names
      .map((name, i) =>
        JSON.stringify({
          item_name: name,
          item_number: `I-${i}`,
          product_status_id: 1,
          primary_category_id: 1
        })
      )
      .join("\n")
  )
  const { code, out } = await program.run("store", "import", "строки.jsonl", "--json")
  expect([code, JSON.parse(out)]).toMatchObject([0, { rows: names.length, stored: names.length, refused: 0 }])
})

it("G-1: titles and names on the console's pages are what they should be, byte for byte", async () => {
  const browser = new Browser(program.url)
  const login = await browser.open("/store/admin/login")
  expect(login.text).toContain("<title>Sign in · Store console</title>")
  const entered = await browser.submit(login, "/store/admin/login", {
    username: secrets.storeUser,
    password: secrets.storePassword
  })
  expect(entered.status).toBe(303)
  for (const [path, title] of [
    ["/store/admin/products", "Products"],
    ["/store/admin/tools/apps", "API Apps"],
    ["/store/admin/tools/apps/new", "New app"],
    ["/store/admin/tools/webhooks", "Webhooks"]
  ] as const) {
    const page = await browser.open(path)
    expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"])
    expect(page.text).toContain('<meta charset="utf-8">')
    const end = Buffer.from(" \u00b7 Store console</title>", "utf8")
    expect(page.text).toContain(`<title>${title}`)
    expect(page.bytes.includes(end)).toBe(true)
    expect(page.text).not.toMatch(/\ufffd|\u00c2\u00b7|\u00e2\u20ac/)
  }
  const listed = await browser.open("/store/admin/products")
  for (const name of names.slice(-5)) expect(listed.text).toContain(name.replaceAll("&", "&amp;"))
})
