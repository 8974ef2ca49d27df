/** A hundred thousand products: pages, filters and sorts over all of them answer right, without reading all;
 *  and the service over a real socket, on both adapters. Source: docs/spec/store.md, sections 4, 6, 10.8. */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { Rows } from "../../../../protocols/store/engine/records.ts"
import { listenWith } from "../../../../runtime/transport/listen.ts"
import type { Server } from "../../../../runtime/transport/server.ts"
import { openMemory } from "../../../../storage/memory.ts"
import type { Range, Store } from "../../../../storage/store.ts"
import { minimal, StoreHarness } from "../harness.ts"

describe("100,000 products", () => {
  const many = 100_000
  let harness: StoreHarness
  let rowsRead = 0
  let slicesRead = 0
  let rowsAtOnceMax = 0
  beforeAll(async () => {
    const memory = openMemory()
    // Rows as they would lie there after an import; written directly, because this is about reading.
    for (let from = 1; from <= many; from += 10_000) {
      memory.commit(
        Array.from({ length: 10_000 }, (_, i) => {
          const id = from + i
          return Rows.put(["products", id], {
            version: 1,
            createdMs: 1_000 + id,
            updatedMs: 1_000 + id,
            values: {
              item_name: `Product ${(id * 7_919) % many}`,
              item_number: `SKU-${id}`,
              product_status_id: 1 + (id % 3),
              primary_category_id: 1,
              price: ((id * 37) % 100_000) * 100,
              quantity_on_hand: id % 200
            }
          })
        }),
        () => {}
      )
      await memory.flushed()
    }
    const keep = memory.range("store-rows", { prefix: ["products"], limit: many })
    const store: Store = {
      ...memory,
      // The memory store sorts and filters all its rows for a range; the shelf is taken from an array
      // instead, and what is read is counted.
      range: (table: string, range: Range) => {
        if (table !== "store-rows" || range.prefix?.[0] !== "products") return memory.range(table, range)
        slicesRead++
        const after = range.after === undefined ? 0 : (range.after[1] as number)
        const rows = keep.slice(after, after + range.limit)
        rowsAtOnceMax = Math.max(rowsAtOnceMax, rows.length)
        return rows
      },
      get: (table, key) => {
        if (table === "store-rows" && key[0] === "products") rowsRead++
        return memory.get(table, key)
      }
    }
    harness = await StoreHarness.open({}, store)
  }, 60_000)
  const ask = async (query: string) => {
    harness.fresh()
    rowsRead = 0
    slicesRead = 0
    const { body, status } = await harness.get(`/products?${query}`)
    expect([query, status]).toEqual([query, 200])
    return body
  }
  const prices = (body: any): ReadonlyArray<number> => body.products.map(({ price }: any) => price)

  it("the columns are read once, in slices; a page then reads only its own rows", async () => {
    const first = await ask("sort=-price&fields=price&count=100")
    expect([first.total_count, first.products.length, slicesRead >= many / 500, rowsAtOnceMax]).toEqual([
      many,
      100,
      true,
      500
    ])
    expect(prices(first)).toEqual(prices(first).toSorted((a, b) => b - a))
    expect(prices(first)[0]).toBe(999.99)
    await ask("sort=-price&fields=price&count=100&page=2")
    expect([slicesRead, rowsRead]).toEqual([0, 100])
  })
  it("filters count exactly, deep pages and the last one are right", async () => {
    expect((await ask("product_status_id=2&count=1")).total_count).toBe(33_334)
    expect((await ask("price=gte:100+AND+lt:200&count=1")).total_count).toBe(10_000)
    const found = await ask("item_name=startwith:product 9999&sort=item_name&fields=item_name")
    expect(found.products.map(({ item_name }: any) => item_name)).toEqual([
      "Product 9999",
      ...Array.from({ length: 10 }, (_, i) => `Product 9999${i}`)
    ])
    const last = await ask("sort=price&fields=price&count=250&page=400")
    expect([last.products.length, last.next_page, prices(last).at(-1)]).toEqual([250, undefined, 999.99])
    const middle = await ask("sort=price,-id&fields=price&count=250&page=201")
    expect(prices(middle)[0]).toBe(500)
    expect([slicesRead, rowsRead]).toEqual([0, 250])
  })
  it("a write is in the next list: changed, new and deleted ones", async () => {
    await harness.put("/products/5", { price: 1_000_000 })
    expect((await ask("sort=-price&fields=price&count=1")).products).toEqual([{ id: 5, price: 1_000_000 }])
    await harness.delete("/products/5")
    expect((await ask("sort=-price&fields=id&count=1")).total_count).toBe(many - 1)
    expect((await ask("price=1000000")).total_count).toBe(0)
  })
  it("long text is searched row by row, a turn at a time", async () => {
    let turns = 0
    const counting = setInterval(() => turns++, 0)
    expect((await ask("long_description_1=like:nothing+of+the+kind")).total_count).toBe(0)
    clearInterval(counting)
    expect(turns).toBeGreaterThan(5)
  })
})

describe.each(["uws", "node"] as const)("over a real socket: %s", (adapter) => {
  let harness: StoreHarness
  let server: Server
  let url: string
  beforeAll(async () => {
    harness = await StoreHarness.open({ domain: "localhost", plainLoopback: true })
    server = await listenWith(adapter, () => {}, [harness.shop.service], { host: "127.0.0.1", port: 0 })
    url = `http://localhost:${server.port}/api/v1`
  })
  afterAll(() => server.drain(1_000))
  const call = (method: string, path: string, body?: unknown, headers = {}) =>
    fetch(url + path, {
      method,
      headers: {
        "x-store-auth-token": harness.token,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...headers
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) })
    })

  it("51 parallel calls in one window: exactly 50 succeed, correct headers on all", async () => {
    harness.fresh()
    const answers = await Promise.all(
      Array.from({ length: 51 }, (_, i) =>
        i % 2 === 0 ? call("GET", "/products.json") : call("POST", "/products.json", minimal)
      )
    )
    const passed = answers.filter(({ status }) => status === 200 || status === 201)
    const limited = answers.filter(({ status }) => status === 429)
    expect([passed.length, limited.length]).toEqual([50, 1])
    expect(passed.map(({ headers }) => headers.get("x-store-call-limit")).sort()).toEqual(
      Array.from({ length: 50 }, (_, i) => `${i + 1}/50`).sort()
    )
    expect([
      limited[0]!.headers.get("x-store-call-limit"),
      Date.parse(limited[0]!.headers.get("retry-after")!)
    ]).toEqual(["50/50", harness.nowMs + 10_000])
    for (const answer of answers) {
      expect(answer.headers.get("x-request-id")).toMatch(/^[0-9a-f]{32}$/)
      expect(answer.headers.get("x-content-type-options")).toBe("nosniff")
      await answer.text()
    }
  })
  it("create, read, list, change, delete; HEAD, gzip and 304 as they leave", async () => {
    harness.fresh()
    const created = await call("POST", "/products", { ...minimal, item_name: "Sock" })
    const { id } = (await created.json()) as any
    expect([created.status, created.headers.get("location")]).toEqual([
      201,
      `https://localhost/api/v1/products/${id}`
    ])
    expect(
      (
        (await (
          await call("GET", "/products.json?item_name=sock", undefined, { "accept-encoding": "gzip" })
        ).json()) as any
      ).total_count
    ).toBe(1)
    const head = await call("HEAD", `/products/${id}`)
    expect([
      head.status,
      await head.text(),
      Number(head.headers.get("content-length")) > 1_000 || head.headers.get("content-encoding") === "gzip"
    ]).toEqual([200, "", true])
    expect(
      (await call("GET", `/products/${id}`, undefined, { "if-none-match": created.headers.get("etag")! }))
        .status
    ).toBe(304)
    expect(((await (await call("PATCH", `/products/${id}`, { price: 2 })).json()) as any).price).toBe(2)
    expect((await call("DELETE", `/products/${id}`)).status).toBe(204)
    expect((await call("PUT", "/products", {})).headers.get("allow")).toBe("GET, HEAD, POST, OPTIONS")
    expect((await call("OPTIONS", "/products")).status).toBe(204)
  })
  it("bodies of many sizes are taken whole; refused ones leave a usable connection", async () => {
    harness.fresh()
    for (const size of [10, 70_000, 131_072, 190_000, 500_000]) {
      const answer = await call("POST", "/products", { ...minimal, long_description_1: "x".repeat(size) })
      expect([size, answer.status, ((await answer.json()) as any).long_description_1.length]).toEqual([
        size,
        201,
        size
      ])
    }
    for (const size of [10, 200_000]) {
      const refused = await fetch(`${url}/products`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-store-auth-token": "bad" },
        body: "x".repeat(size)
      })
      expect([size, refused.status, ((await refused.json()) as any).status_code]).toEqual([size, 401, 401])
    }
    expect((await call("GET", "/products/1")).status).toBe(200)
  })
})
