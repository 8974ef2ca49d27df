/** Lists: paging, sort, fields, expand, the query syntax; and the cache in front of them. Source:
 *  docs/spec/store.md, sections 6.2 to 6.4, 7, 11. */
import { beforeAll, describe, expect, it } from "vitest"
import { StoreHarness } from "../harness.ts"

let harness: StoreHarness

beforeAll(async () => {
  harness = await StoreHarness.open()
  const rows: ReadonlyArray<readonly [string, number, number, string, object?]> = [
    ["Doge Mug", 5, 1, "9"],
    ["wow Shirt", 10, 3.5, "10"],
    ["Plain Bag", 25, 4, "13"],
    ["DOGE wow Hat", 30, 2, "2", { is_hidden: 1, long_description_1: "Very Soft Wool" }],
    ["gt:5", 1, 0, "", { eta_date: "2026-05-01" }]
  ]
  for (const [item_name, price, weight, length, more] of rows)
    await harness.product({ item_name, price, weight, length, ...more })
})

const ask = (path: string, headers = {}) => {
  harness.fresh()
  return harness.get(path, { headers })
}

const names = async (query: string): Promise<ReadonlyArray<string>> => {
  const { body, status, text } = await ask(`/products?${query}`)
  if (status !== 200) throw new Error(text)
  return body.products.map(({ item_name }: any) => item_name)
}

describe("paging", () => {
  it("metadata wraps the array; links keep every other parameter and the suffix", async () => {
    const { body } = await ask("/products.json?page=2&count=2&sort=-price&fields=item_name")
    expect(Object.keys(body)).toEqual(["total_count", "previous_page", "next_page", "products"])
    expect(body).toEqual({
      total_count: 5,
      previous_page: "https://shop.example/api/v1/products.json?page=1&count=2&sort=-price&fields=item_name",
      next_page: "https://shop.example/api/v1/products.json?page=3&count=2&sort=-price&fields=item_name",
      products: [
        { id: 2, item_name: "wow Shirt" },
        { id: 1, item_name: "Doge Mug" }
      ]
    })
    expect(
      (await harness.get(body.next_page.slice("https://shop.example".length))).body.products
    ).toHaveLength(1)
  })
  it.each(["page=0", "page=abc", "count=251", "count=0", "page=-1", "page=1&page=2", "count=1.5"])(
    "STORE-41 ?%s: 400",
    async (query) => {
      const answer = await ask(`/products?${query}`)
      expect([answer.status, /page|count/.test(answer.body.details)]).toEqual([400, true])
    }
  )
  it("STORE-42 ?page=99 beyond the end: 404", async () =>
    expect((await ask("/products?page=99")).status).toBe(404))
  it("STORE-43 an empty catalog, page 1: 200, total_count 0", async () => {
    const empty = await StoreHarness.open()
    expect((await empty.get("/products")).body).toEqual({ total_count: 0, products: [] })
    expect((await empty.get("/products?page=2")).status).toBe(404)
  })
  it.each([
    "sort=nope",
    "fields=nope",
    "expand=nope",
    "nope=1",
    "sort=long_description_1",
    "sort=e_product_password",
    "e_product_password=x",
    "pictures=1",
    "__proto__=1",
    "toString=1"
  ])("STORE-44 ?%s: 400 naming it", async (query) => {
    const answer = await ask(`/products?${query}`)
    expect([
      answer.status,
      answer.body.details.includes(
        query.split("=")[query.includes("nope") && !query.startsWith("nope") ? 1 : 0]!
      ) || answer.body.details.includes(query.split("=")[1]!)
    ]).toEqual([400, true])
  })
  it("sorts by several fields, ties by id, deep pages from the remembered order", async () => {
    expect(await names("sort=is_hidden,-price")).toEqual([
      "Plain Bag",
      "wow Shirt",
      "Doge Mug",
      "gt:5",
      "DOGE wow Hat"
    ])
    expect(await names("sort=item_name")).toEqual([
      "Doge Mug",
      "DOGE wow Hat",
      "gt:5",
      "Plain Bag",
      "wow Shirt"
    ])
    expect(await names("sort=-id")).toEqual((await names("")).toReversed())
  })
})

describe("queries", () => {
  it.each([
    "price=gt:abc",
    "is_kit=maybe",
    "eta_date=gt:tomorrow",
    "price=like:5",
    "id=1.2.3",
    `item_name=${Array.from({ length: 21 }, () => "a").join(" OR ")}`
  ])("STORE-45 ?%s: 400", async (query) => expect((await ask(`/products?${query}`)).status).toBe(400))
  it.each<[string, ReadonlyArray<string>]>([
    ["price=gt:5.00+AND+lte:25.00", ["wow Shirt", "Plain Bag"]],
    ["weight=OR+gt:3.5&length=gt:12", ["Plain Bag"]],
    ["weight=OR+gte:3.5&length=lt:3", ["wow Shirt", "Plain Bag", "DOGE wow Hat", "gt:5"]],
    ["price=lt:6&weight=OR+gt:3.6", ["Doge Mug", "Plain Bag", "gt:5"]],
    ["item_name=like:doge+OR+like:wow", ["Doge Mug", "wow Shirt", "DOGE wow Hat"]],
    ["item_name=like:doge AND like:wow", ["DOGE wow Hat"]],
    ["item_name=startwith:DOGE", ["Doge Mug", "DOGE wow Hat"]],
    ["item_name=DOGE%20MUG", ["Doge Mug"]],
    ["item_name=not:doge mug&price=not:1&price=lt:30", ["wow Shirt", "Plain Bag"]],
    ["is_hidden=true", ["DOGE wow Hat"]],
    ["is_hidden=0&price=gte:25", ["Plain Bag"]],
    ["eta_date=not:null", ["gt:5"]],
    ["eta_date=eq:null&price=5", ["Doge Mug"]],
    ["eta_date=gt:2026-04-30T23:00:00-01:00", []],
    ["eta_date=gte:2026-05-01", ["gt:5"]],
    ["long_description_1=like:soft wool", ["DOGE wow Hat"]],
    ["long_description_1=&price=lt:6", ["Doge Mug", "gt:5"]],
    ["id=gt:3", ["DOGE wow Hat", "gt:5"]],
    ["price=5+OR+gt:5+AND+lt:12", ["Doge Mug", "wow Shirt"]]
  ])("STORE-46 ?%s", async (query, expected) => expect(await names(query)).toEqual(expected))
  it("STORE-47 ?item_name=eq:gt:5 compares with the text gt:5", async () => {
    expect(await names("item_name=eq:gt:5")).toEqual(["gt:5"])
    expect(await names("item_name=gt:5")).not.toContain("")
  })
  it("incremental sync: what changed since", async () => {
    const since = new Date(harness.nowMs + 1).toISOString()
    await harness.put("/products/2", { weight_unit: "Kg" })
    expect(await names(`updated_at=gt:${since}`)).toEqual(["wow Shirt"])
  })
  it("STORE-48 select_many without ids: 400; with missing ids: those left out, in the order asked", async () => {
    expect((await ask("/products/select_many")).status).toBe(400)
    const { body } = await ask("/products/select_many?ids=5,999,1,x,3&fields=id")
    expect(body).toEqual({ total_count: 3, products: [{ id: 5 }, { id: 1 }, { id: 3 }] })
    expect(
      (await ask("/products/select_many?ids=5,1,3&sort=id&fields=id")).body.products.map(({ id }: any) => id)
    ).toEqual([1, 3, 5])
  })
  it("random queries never fail otherwise than by 400 or 404", async () => {
    let seed = 5
    const next = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
      return (seed >> 8) % below
    }
    const parts = [
      "price",
      "item_name",
      "=",
      "&",
      "OR ",
      " AND ",
      " OR ",
      "gt:",
      "like:",
      "5",
      "%",
      "%ff",
      "null",
      "sort",
      "page",
      ",",
      "-",
      "fields",
      "expand",
      "variants",
      "+",
      "\u{1F600}",
      "id"
    ]
    for (let round = 0; round < 400; round++) {
      const query = Array.from({ length: next(9) }, () => parts[next(parts.length)]).join("")
      expect([query, [200, 400, 404].includes((await ask(`/products?${query}`)).status)]).toEqual([
        query,
        true
      ])
    }
  })
})

describe("nested", () => {
  it("expand, filled and nested lists; fields may name nested ones", async () => {
    const id = await harness.product()
    const picture = (await harness.post("/product_pictures", { product_id: id, image_file: "a.png" })).body
    expect((await ask(`/products/${id}?expand=pictures,categories`)).body).toMatchObject({
      id,
      pictures: [picture],
      categories: [{ id: 1, is_primary: true, name: "Default" }]
    })
    expect((await ask(`/products/${id}?fields=pictures`)).body).toEqual({ id, pictures: [picture] })
    const filled = (await ask(`/products/${id}/filled.json`)).body
    expect(Object.keys(filled)).toEqual(
      expect.arrayContaining([
        "categories",
        "variants",
        "variant_inventory",
        "pictures",
        "pricing",
        "related",
        "attributes",
        "personalizations",
        "reviews",
        "child_products",
        "shipping_rate_adjustments",
        "custom_fields"
      ])
    )
    expect((await ask(`/products/${id}/pictures.json`)).body).toEqual({ total_count: 1, pictures: [picture] })
    expect((await ask(`/products/${id}/pictures?price=1`)).status).toBe(400)
    await harness.delete(`/products/${id}`)
    expect((await ask(`/product_pictures/${picture.id}`)).status).toBe(404)
  })
  it("a product knows whether it has variants, and its ETag with it", async () => {
    const id = await harness.product()
    const before = (await ask(`/products/${id}`)).header("etag")
    const variant = (await harness.post("/product_variants", { product_id: id, description: "Red" })).body
    const after = await ask(`/products/${id}`)
    expect([after.body.has_visible_variants, after.header("etag") === before]).toEqual([true, false])
    await harness.delete(`/product_variants/${variant.id}`)
    expect((await ask(`/products/${id}`)).body.has_visible_variants).toBe(false)
  })
})

describe("cache", () => {
  it("STORE-49 GET twice, then PUT, then GET: the second has Age, after the PUT the new value at once", async () => {
    const id = await harness.product({ price: 1 })
    const path = `/products/${id}.json`
    const first = await ask(path)
    expect([first.header("age"), first.header("cache-control"), first.header("expires")]).toEqual([
      undefined,
      "private, max-age=60",
      new Date(harness.nowMs + 60_000).toUTCString()
    ])
    const second = await ask(path)
    expect([second.header("age"), second.header("cache-control"), second.header("vary")]).toEqual([
      "10",
      "private, max-age=50",
      "X-STORE-Auth-Token, Cookie, Accept-Encoding"
    ])
    await harness.put(path, { price: 2 })
    const third = await harness.get(path)
    expect([third.header("age"), third.body.price]).toEqual([undefined, 2])
    expect((await ask("/products?sort=-id&count=1")).body.products[0].price).toBe(2)
    await harness.put(path, { price: 3 })
    expect((await ask("/products?sort=-id&count=1")).body.products[0].price).toBe(3)
  })
  it("STORE-50 If-Modified-Since = Last-Modified: 304, counted in the window", async () => {
    const id = await harness.product()
    harness.fresh()
    for (const path of [`/products/${id}`, "/products?count=1"]) {
      const first = await ask(path)
      const again = await harness.get(path, {
        headers: { "if-modified-since": first.header("last-modified")! }
      })
      expect([
        again.status,
        again.text,
        again.header("x-store-call-limit"),
        again.header("last-modified"),
        again.header("content-type")
      ]).toEqual([304, "", "2/50", first.header("last-modified"), undefined])
    }
    const first = await ask(`/products/${id}`)
    await harness.put(`/products/${id}`, { price: 9 })
    expect(
      (
        await harness.get(`/products/${id}`, {
          headers: { "if-modified-since": first.header("last-modified")! }
        })
      ).status
    ).toBe(200)
    for (const odd of ["yesterday", new Date(harness.nowMs + 86_400_000).toUTCString()])
      expect((await harness.get(`/products/${id}`, { headers: { "if-modified-since": odd } })).status).toBe(
        200
      )
  })
  it("a change within the second of the answer is never hidden by a 304", async () => {
    const id = await harness.product()
    harness.nowMs += 10_300
    await harness.call({ method: "PUT", path: `/products/${id}`, body: { price: 1 } })
    harness.nowMs += 100
    const first = await harness.get(`/products/${id}`)
    harness.nowMs += 100
    await harness.call({ method: "PUT", path: `/products/${id}`, body: { price: 2 } })
    harness.nowMs += 5_000
    const later = await harness.get(`/products/${id}`, {
      headers: { "if-modified-since": first.header("last-modified")! }
    })
    expect([later.status, later.body.price]).toEqual([200, 2])
  })
  it("If-None-Match wins over the date and compares weakly", async () => {
    const id = await harness.product()
    const etag = (await ask(`/products/${id}`)).header("etag")!
    const ask2 = (tags: string) =>
      ask(`/products/${id}`, { "if-none-match": tags, "if-modified-since": "Sat, 01 Jan 2000 00:00:00 GMT" })
    for (const [tags, status] of [
      [etag, 304],
      [`W/${etag}`, 304],
      [`"x", ${etag}`, 304],
      ["*", 304],
      ['"x"', 200]
    ] as const)
      expect((await ask2(tags)).status).toBe(status)
  })
  it("STORE-51 Cache-Control: no-cache: 200, fresh Expires, no Age", async () => {
    const path = "/manufacturers"
    await ask(path)
    const again = await ask(path, { "cache-control": "no-cache" })
    expect([again.status, again.header("age"), again.header("expires")]).toEqual([
      200,
      undefined,
      new Date(harness.nowMs + 60_000).toUTCString()
    ])
    expect((await ask(path)).header("expires")).toBe(
      new Date(Date.parse(again.header("expires")!)).toUTCString()
    )
    expect((await ask(path, { pragma: "no-cache" })).header("age")).toBeUndefined()
  })
  it("entries die with their time; carts, stock, errors and writes are never stored", async () => {
    await ask("/categories")
    harness.nowMs += 60_000
    expect((await ask("/categories")).header("age")).toBeUndefined()
    for (const path of [
      "/carts",
      "/inventory?product_id=1",
      "/credit_cards",
      "/products/0",
      "/products?nope=1"
    ])
      expect([path, (await ask(path)).header("cache-control")]).toEqual([path, "no-store"])
  })
  it("HEAD is GET; bodies over 1 KiB come as gzip when that is accepted", async () => {
    const zipped = await ask("/products/1", { "accept-encoding": "br, gzip" })
    expect([zipped.header("content-encoding"), zipped.text]).toEqual(["gzip", ""])
    expect(
      (await ask("/products/1", { "accept-encoding": "gzip;q=0" })).header("content-encoding")
    ).toBeUndefined()
    expect((await harness.call({ method: "HEAD", path: "/products/1" })).status).toBe(200)
  })
})

it("datetimes go out with the store's offset, and come in without one in its zone", async () => {
  const berlin = await StoreHarness.open({ zone: "Europe/Berlin" })
  const id = await berlin.product({ eta_date: "2026-07-01" })
  expect((await berlin.get(`/products/${id}`)).body.eta_date).toBe("2026-07-01T00:00:00.000+02:00")
  expect((await berlin.get("/products?eta_date=gte:2026-06-30T22:00:00Z")).body.total_count).toBe(1)
  expect((await berlin.put(`/products/${id}`, { eta_date: "2026-12-24T18:00" })).body.eta_date).toBe(
    "2026-12-24T18:00:00.000+01:00"
  )
})
