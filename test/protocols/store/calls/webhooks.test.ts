/** Webhooks: signed deliveries, retries, what could not be delivered, reply webhooks; and a disk that is full.
 *  Source: docs/spec/store.md, sections 9, 10.3. */
import { createHmac } from "node:crypto"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { Effect } from "effect"
import { afterEach, describe, expect, it } from "vitest"
import { isPublicAddress, publicLookup } from "../../../../protocols/store/access/public-addresses.ts"
import { openMemory } from "../../../../storage/memory.ts"
import { StorageFault, type Store } from "../../../../storage/store.ts"
import { minimal, StoreHarness } from "../harness.ts"

interface Heard {
  readonly event: string
  readonly delivery: string
  readonly signed: boolean
  readonly body: any
  readonly path: string
}

const servers: Array<Server> = []

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

/** `answer`: status and text, or nothing ever. */
const target = async (
  secret: () => string,
  answer: (heard: Heard, count: number) => readonly [number, string?] | undefined
): Promise<{
  readonly url: string
  readonly heard: Array<Heard>
  readonly until: (count: number) => Promise<void>
}> => {
  const heard: Array<Heard> = []
  const waiting: Array<() => void> = []
  const server = createServer((request, response) => {
    let text = ""
    request.on("data", (part) => {
      text += String(part)
    })
    request.on("end", () => {
      const of = (name: string): string => String(request.headers[`x-store-${name}`])
      const signature = createHmac("sha256", secret())
        .update(`${of("timestamp")}.${text}`)
        .digest("hex")
      const one: Heard = {
        event: of("event"),
        delivery: of("delivery"),
        signed: of("signature") === `sha256=${signature}`,
        body: JSON.parse(text),
        path: request.url!
      }
      heard.push(one)
      const reply = answer(one, heard.length)
      if (reply !== undefined) {
        response.writeHead(reply[0])
        response.end(reply[1])
      }
      for (const wake of waiting.splice(0)) wake()
    })
  }).listen(0, "127.0.0.1")
  servers.push(server)
  await new Promise((resolve) => server.once("listening", resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    heard,
    until: async (count) => {
      while (heard.length < count)
        await new Promise<void>((resolve) => {
          waiting.push(resolve)
        })
    }
  }
}

const settled = async (done: () => boolean): Promise<void> => {
  for (let turn = 0; turn < 2_000 && !done(); turn++) await new Promise((resolve) => setTimeout(resolve, 2))
}

const open = (waitsMs: ReadonlyArray<number> = [1, 1], more = {}): Promise<StoreHarness> =>
  StoreHarness.open({ webhooks: { privateTargets: true, waitsMs, ...more } })

const secretText = "s".repeat(32)

const subscribe = async (
  harness: StoreHarness,
  event: string,
  url: string,
  more: object = {}
): Promise<any> =>
  (await harness.post("/webhooks", { event_type: event, url, secret: secretText, ...more })).body

describe("notify", () => {
  it("a delivery is signed, names its event, and carries the record as it was committed", async () => {
    const harness = await open()
    const hook = await target(
      () => secretText,
      () => [204]
    )
    await subscribe(harness, "ProductCreated", hook.url)
    const id = await harness.product({ price: 3 })
    await hook.until(1)
    expect(hook.heard[0]).toMatchObject({
      event: "ProductCreated",
      signed: true,
      body: { product: { id, price: 3, item_name: "My test product" } }
    })
    expect(hook.heard[0]!.delivery).toMatch(/^[0-9a-f-]{36}$/)
    await settled(() => harness.shop.webhooks.waiting("1") === 0)
    expect(harness.shop.webhooks.waiting("1")).toBe(0)
  })
  it("STORE-60 the target returns 500: retried with the same X-STORE-Delivery; the API's answer is unaffected", async () => {
    const harness = await open()
    const hook = await target(
      () => secretText,
      (_, count) => (count < 3 ? [500] : [200])
    )
    await subscribe(harness, "ProductCreated", hook.url)
    expect((await harness.post("/products", minimal)).status).toBe(201)
    expect((await harness.post("/products", minimal)).status).toBe(201)
    await hook.until(4)
    expect(new Set(hook.heard.slice(0, 3).map(({ delivery }) => delivery)).size).toBe(1)
    expect(hook.heard[3]!.delivery).not.toBe(hook.heard[0]!.delivery)
    expect(hook.heard.map(({ body }) => body.product.id)).toEqual([1, 1, 1, 2])
  })
  it("after the last attempt: the fallback once, else put aside and counted; the next goes on, and it can be sent again", async () => {
    let down = true
    const harness = await open([1])
    const hook = await target(
      () => secretText,
      ({ body }) => (down && body.product.item_name === "bad" ? [500] : [200])
    )
    await subscribe(harness, "ProductCreated", hook.url)
    await harness.product({ item_name: "bad" })
    const good = await harness.product({ item_name: "good" })
    await settled(() => hook.heard.some(({ body }) => body.product.id === good))
    await settled(() => harness.shop.webhooks.undelivered("1").length > 0)
    expect(harness.shop.webhooks.undelivered("1")).toMatchObject([
      { event: "ProductCreated", why: "answered 500", delivery: hook.heard[0]!.delivery }
    ])
    expect(harness.shop.webhooks.dropped("1")).toBe(1)
    expect(hook.heard.map(({ body }) => body.product.item_name)).toEqual(["bad", "bad", "good"])
    down = false
    const [aside] = harness.shop.webhooks.undelivered("1")
    await Effect.runPromise(harness.shop.webhooks.resend("1", aside!.seq))
    await hook.until(4)
    expect(hook.heard[3]!.delivery).toBe(hook.heard[0]!.delivery)
    expect(harness.shop.webhooks.undelivered("1")).toEqual([])
  })
  it("Fallback posts once to the other address after the last failure", async () => {
    const harness = await open([1])
    const hook = await target(
      () => secretText,
      ({ path }) => (path === "/hook" ? [500] : [200])
    )
    await subscribe(harness, "ProductCreated", hook.url, {
      failure_type: "Fallback",
      fallback_url: hook.url.replace("/hook", "/other")
    })
    await harness.product()
    await settled(() => harness.shop.webhooks.waiting("1") === 0)
    expect(hook.heard.map(({ path }) => path)).toEqual(["/hook", "/hook", "/other"])
    expect(harness.shop.webhooks.undelivered("1")).toEqual([])
  })
  it("one target that hangs delays neither the API nor another subscription", async () => {
    const harness = await open()
    const slow = await target(
      () => secretText,
      () => undefined
    )
    const quick = await target(
      () => secretText,
      () => [200]
    )
    await subscribe(harness, "ProductCreated", slow.url)
    await subscribe(harness, "ProductCreated", quick.url)
    for (let i = 0; i < 5; i++) await harness.product()
    await quick.until(5)
    expect([slow.heard.length, harness.shop.webhooks.waiting("1")]).toEqual([1, 5])
  })
  it("events of orders, customers and product status", async () => {
    const harness = await open()
    const hook = await target(
      () => secretText,
      () => [200]
    )
    for (const event of [
      "CustomerCreated",
      "CustomerRegistered",
      "CustomerEmailUpdated",
      "NewOrder",
      "NewValidOrder",
      "OrderPlaced",
      "OrderStatusChanged",
      "OrderCanceled",
      "ProductStatusChanged"
    ])
      await subscribe(harness, event, hook.url)
    const product = await harness.product({ quantity_on_hand: 1 })
    const customer = (await harness.post("/customers", { email: "a@b.c" })).body.id
    await harness.put(`/customers/${customer}`, { email: "d@b.c" })
    const address = (await harness.post("/order_addresses", { address_line_1: "x" })).body.id
    const order = (
      await harness.post("/orders", {
        customer_id: customer,
        order_status_id: 1,
        order_shipping_address_id: address,
        order_billing_address_id: address,
        items: [{ product_id: product, quantity: 1 }]
      })
    ).body.id
    await harness.put(`/orders/${order}/status`, { order_status_id: 4 })
    await hook.until(10)
    const of = (event: string) => hook.heard.filter((heard) => heard.event === event).map(({ body }) => body)
    expect(of("CustomerEmailUpdated")[0]).toMatchObject({
      old_email: "a@b.c",
      new_email: "d@b.c",
      customer: { id: customer }
    })
    expect(of("OrderStatusChanged")[0]).toMatchObject({
      order: { id: order },
      old_status: { id: 1 },
      new_status: { id: 4 }
    })
    expect(
      of("ProductStatusChanged").map(({ item }) => [item.product_id, item.product_status_id, item.inventory])
    ).toEqual([
      [product, 2, 0],
      [product, 1, 1]
    ])
    for (const event of [
      "CustomerCreated",
      "CustomerRegistered",
      "NewOrder",
      "NewValidOrder",
      "OrderPlaced",
      "OrderCanceled"
    ])
      expect([event, of(event).length]).toEqual([event, 1])
  })
})

describe("subscriptions", () => {
  it.each([
    "http://hooks.example/",
    "ftp://x/",
    "https://10.0.0.1/",
    "https://127.0.0.1/",
    "https://[::1]/",
    "https://[::ffff:10.0.0.1]/",
    "https://169.254.169.254/",
    "https://0x7f.1/",
    "https://localhost/",
    "https://user:pass@hooks.example/",
    "nonsense",
    ""
  ])("STORE-61 webhook url %j: 400 at create", async (url) => {
    const harness = await StoreHarness.open()
    expect((await harness.post("/webhooks", { event_type: "NewOrder", url })).status).toBe(400)
  })
  it("STORE-61 a name that resolves to a private address later is not delivered", async () => {
    let asked = 0
    const lookup: any = (_: string, __: unknown, done: (cause: null, found: unknown) => void) => {
      asked++
      done(null, [{ address: "127.0.0.1", family: 4 }])
    }
    const harness = await StoreHarness.open({ webhooks: { waitsMs: [], lookup } })
    await harness.post("/webhooks", { event_type: "ProductCreated", url: "https://hooks.example/" })
    await harness.product()
    await settled(() => harness.shop.webhooks.undelivered("1").length > 0)
    expect(harness.shop.webhooks.undelivered("1")).toMatchObject([{ why: "PrivateTarget" }])
    expect(asked).toBeGreaterThan(0)
  })
  it("addresses: public or not; a name's public address is the one connected to", async () => {
    for (const address of [
      "10.1.2.3",
      "172.31.0.1",
      "192.168.1.1",
      "100.64.0.1",
      "0.0.0.0",
      "224.0.0.1",
      "255.255.255.255",
      "::1",
      "::",
      "fe80::1",
      "fc00::1",
      "::ffff:8.8.8.8",
      "2002:7f00:1::",
      "64:ff9b::a00:1",
      "nonsense"
    ])
      expect([address, isPublicAddress(address)]).toEqual([address, false])
    for (const address of ["8.8.8.8", "1.1.1.1", "2606:4700::1111"])
      expect([address, isPublicAddress(address)]).toEqual([address, true])
    const found = await new Promise((resolve) => {
      publicLookup(((_: string, __: unknown, done: any) =>
        done(null, [
          { address: "10.0.0.1", family: 4 },
          { address: "9.9.9.9", family: 4 }
        ])) as never)("x", {}, (_, address) => resolve(address))
    })
    expect(found).toBe("9.9.9.9")
  })
  it("the secret is made when absent and shown once; Fallback wants its address; events not built are 409; at most 100", async () => {
    const harness = await StoreHarness.open()
    const make = (more: object) =>
      harness.post("/webhooks", { event_type: "NewOrder", url: "https://hooks.example/", ...more })
    const created = await make({})
    expect(created.body.secret).toMatch(/^\S{40,}$/)
    expect((await harness.get(`/webhooks/${created.body.id}`)).body.secret).toBeNull()
    expect((await make({ failure_type: "Fallback" })).status).toBe(409)
    expect((await make({ event_type: "GetPrice" })).status).toBe(409)
    expect((await make({ event_type: "Nonsense" })).status).toBe(400)
    for (let count = 1; count < 100; count++) expect((await make({})).status).toBe(201)
    expect((await make({})).status).toBe(409)
  })
})

describe("reply", () => {
  it("messages refuse the write, nothing is kept", async () => {
    const harness = await open()
    const hook = await target(
      () => secretText,
      ({ body }) => [
        200,
        JSON.stringify({ validation_messages: body.product.price > 5 ? ["too dear", "really"] : [] })
      ]
    )
    await subscribe(harness, "ValidateProduct", hook.url)
    const refused = await harness.post("/products", { ...minimal, price: 6 })
    expect([refused.status, refused.body.details]).toEqual([409, "too dear\nreally"])
    const id = await harness.product({ price: 5 })
    expect((await harness.put(`/products/${id}`, { price: 7 })).status).toBe(409)
    expect((await harness.get(`/products/${id}`)).body.price).toBe(5)
    expect((await harness.get("/products")).body.total_count).toBe(1)
    const imported = await harness.post("/products/importMany", [{ product: { ...minimal, price: 9 } }])
    expect(imported.body.results[0]).toMatchObject({ status_code: 409, details: "too dear\nreally" })
  })
  it.each([
    ["Error", 409],
    ["Ignore", 201]
  ] as const)(
    "STORE-62 a ValidateProduct target that hangs, failure_type %s: %d after the limit",
    async (failure_type, status) => {
      const harness = await open([], { replyMs: 60 })
      const hook = await target(
        () => secretText,
        () => undefined
      )
      await subscribe(harness, "ValidateProduct", hook.url, { failure_type })
      const answer = await harness.post("/products", minimal)
      expect([answer.status, hook.heard.length]).toEqual([status, 1])
      expect((await harness.get("/products")).body.total_count).toBe(status === 201 ? 1 : 0)
    }
  )
  it("Fallback asks the other address; answers are cached by body when so set", async () => {
    const harness = await open()
    const hook = await target(
      () => secretText,
      ({ path }) => (path === "/hook" ? [500] : [200, '{"validation_messages":[]}'])
    )
    await subscribe(harness, "ValidateCustomer", hook.url, {
      failure_type: "Fallback",
      fallback_url: `${hook.url}2`,
      cache_length: "Short"
    })
    expect((await harness.post("/customers", { email: "a@b.c" })).status).toBe(201)
    expect(hook.heard.map(({ path, event }) => [path, event])).toEqual([
      ["/hook", "ValidateCustomer"],
      ["/hook2", "ValidateCustomer"]
    ])
  })
  it("ValidateCheckout refuses the order", async () => {
    const harness = await open()
    const hook = await target(
      () => secretText,
      () => [200, '{"validation_messages":["no"]}']
    )
    const id = await harness.product({ quantity_on_hand: 3 })
    const cart = (await harness.post("/carts", {})).body.id
    await harness.post(`/carts/${cart}/items`, { items: [{ product_id: id, quantity: 1 }] })
    await subscribe(harness, "ValidateCheckout", hook.url)
    const answer = await harness.post(`/carts/${cart}/place_order`, {
      customer: { email: "a@b.c" },
      shipping_address: { address_line_1: "x" }
    })
    expect([answer.status, answer.body.details, (await harness.get("/orders")).body.total_count]).toEqual([
      409,
      "no",
      0
    ])
  })
})

it('STORE-65 disk full: POST 503 "storage is full", GET 200; afterwards all is well again', async () => {
  let full = false
  const memory = openMemory()
  const store: Store = {
    ...memory,
    commit: (writes, settle) => {
      if (!full) return memory.commit(writes, settle)
      setImmediate(() => settle(new StorageFault({ reason: "full", detail: "no room" })))
      return undefined
    }
  }
  const harness = await StoreHarness.open({}, store)
  const id = await harness.product({ item_number: "there" })
  full = true
  const refused = await harness.post("/products", { ...minimal, item_number: "lost" })
  expect([refused.status, refused.body.details, refused.header("retry-after")]).toEqual([
    503,
    "storage is full",
    "5"
  ])
  expect((await harness.get(`/products/${id}`)).status).toBe(200)
  expect((await harness.get("/products")).body.total_count).toBe(1)
  full = false
  expect((await harness.post("/products", { ...minimal, item_number: "lost" })).status).toBe(201)
  expect((await harness.get("/products?sort=item_number")).body.total_count).toBe(2)
})
