/** Bad input to creates and updates, row by row, and what good input becomes.
 *  Source: docs/spec/store.md, sections 6.5, 11. */
import { beforeAll, describe, expect, it } from "vitest"
import { codes, minimal, StoreHarness } from "../harness.ts"

let harness: StoreHarness

beforeAll(async () => {
  harness = await StoreHarness.open()
})

const post = (body: unknown, more = {}) => harness.post("/products.json", body, more)

it("the minimal product of the interface is created whole, with defaults", async () => {
  const created = await post({
    item_name: "My test product",
    item_number: "mytestproduct",
    product_status_id: 1,
    primary_category_id: 1
  })
  expect(created.status).toBe(201)
  expect(created.body).toMatchObject({
    item_name: "My test product",
    item_number: "mytestproduct",
    price: 0,
    weight_unit: "Lbs",
    earns_points: true,
    is_hidden: 0,
    is_kit: false,
    eta_date: null
  })
  expect(created.header("location")).toBe(`https://shop.example/api/v1/products/${created.body.id}`)
  expect(created.header("etag")).toBe(`"${created.body.id}-1"`)
  expect(created.header("cache-control")).toBe("no-store")
  expect(Object.keys(created.body).length).toBeGreaterThan(120)
  expect((await harness.get(`/products/${created.body.id}.json`)).body).toEqual(created.body)
})

describe("refused, and nothing is kept", () => {
  it.each<[string, unknown, object, number, ReadonlyArray<string> | undefined]>([
    ["STORE-25 body {", "{", {}, 400, undefined],
    ["empty body", "", { type: "application/json" }, 400, undefined],
    ["not UTF-8", new Uint8Array([0x22, 0xff, 0x22]), {}, 400, undefined],
    ["an array", [], {}, 400, undefined],
    ["null", "null", {}, 400, undefined],
    [
      "STORE-26 nothing given: three fields are required",
      {},
      {},
      400,
      ["item_name required", "product_status_id required", "primary_category_id required"]
    ],
    ["STORE-27 item_name: 5", { ...minimal, item_name: 5 }, {}, 400, ["item_name invalid_type"]],
    [
      "STORE-28 item_name of 256 characters",
      { ...minimal, item_name: "x".repeat(256) },
      {},
      400,
      ["item_name too_long"]
    ],
    [
      "STORE-29 product_status_id: 999",
      { ...minimal, product_status_id: 999 },
      {},
      409,
      ["product_status_id not_found"]
    ],
    [
      'STORE-30 primary_category_id: "1"',
      { ...minimal, primary_category_id: "1" },
      {},
      400,
      ["primary_category_id invalid_type"]
    ],
    ["STORE-32 price: -1", { ...minimal, price: -1 }, {}, 400, ["price out_of_range"]],
    ["STORE-32 price: 1.23456", { ...minimal, price: 1.23456 }, {}, 400, ["price invalid_value"]],
    ["price above the range", { ...minimal, price: 1e9 }, {}, 400, ["price out_of_range"]],
    ["STORE-33 Content-Type: text/plain", minimal, { type: "text/plain" }, 415, undefined],
    ["STORE-34 body of 3 MiB", "x".repeat(3 * 1_048_576), {}, 413, undefined],
    ["NUL in a name", { ...minimal, item_name: "a\0b" }, {}, 400, ["item_name invalid_value"]],
    ["a lone surrogate", { ...minimal, item_name: "\ud800" }, {}, 400, ["item_name invalid_value"]],
    ["an empty name", { ...minimal, item_name: "" }, {}, 400, ["item_name invalid_value"]],
    ["null for what is not nullable", { ...minimal, price: null }, {}, 400, ["price invalid_type"]],
    ["a flag of 2", { ...minimal, is_hidden: 2 }, {}, 400, ["is_hidden invalid_type"]],
    ['a boolean of "true"', { ...minimal, is_kit: "true" }, {}, 400, ["is_kit invalid_type"]],
    ["an integer of 1.5", { ...minimal, sort_order: 1.5 }, {}, 400, ["sort_order invalid_value"]],
    ["a datetime of yesterday", { ...minimal, eta_date: "yesterday" }, {}, 400, ["eta_date invalid_value"]],
    ["31 February", { ...minimal, eta_date: "2026-02-31" }, {}, 400, ["eta_date invalid_value"]],
    [
      "primary_category_id: 0",
      { ...minimal, primary_category_id: 0 },
      {},
      409,
      ["primary_category_id not_found"]
    ],
    [
      "a minimum above the maximum",
      { ...minimal, minimum_quantity: 5, maximum_quantity: 4 },
      {},
      409,
      ["minimum_quantity out_of_range"]
    ],
    [
      "several faults at once",
      { item_name: 5, price: "1", product_status_id: 1, primary_category_id: 1 },
      {},
      400,
      ["item_name invalid_type", "price invalid_type"]
    ]
  ])("%s", async (_, body, more, status, errors) => {
    const before = (await harness.get("/products?count=1")).body.total_count
    const answer = await post(body, more)
    expect([
      answer.status,
      answer.body.status_code,
      typeof answer.body.message,
      typeof answer.body.details
    ]).toEqual([status, status, "string", "string"])
    if (errors !== undefined) expect(codes(answer)).toEqual(errors)
    expect(answer.header("x-store-call-limit")).toMatch(/^\d+\/50$/)
    harness.fresh()
    expect(
      (await harness.get("/products?count=1", { headers: { "cache-control": "no-cache" } })).body.total_count
    ).toBe(before)
  })
  it("STORE-31 same item_number in other letter case: 409 not_unique", async () => {
    await post({ ...minimal, item_number: "Case-1" })
    const answer = await post({ ...minimal, item_number: "cASE-1" })
    expect([answer.status, codes(answer)]).toEqual([409, ["item_number not_unique"]])
    const variant = await harness.post("/variant_inventory", { product_id: 1, item_number: "CASE-1" })
    expect([variant.status, codes(variant)]).toEqual([409, ["item_number not_unique"]])
  })
})

describe("what a write means", () => {
  it("STORE-35 POST with the id of an existing product: 200, updated", async () => {
    const id = await harness.product()
    const answer = await post({ id, item_name: "Renamed" })
    expect([answer.status, answer.body.id, answer.body.item_name, answer.body.product_status_id]).toEqual([
      200,
      id,
      "Renamed",
      1
    ])
  })
  it("STORE-36 POST with id 999999 (none): 201 with another id", async () => {
    const answer = await post({ ...minimal, id: 999_999 })
    expect(answer.status).toBe(201)
    expect(answer.body.id).toBeLessThan(999_999)
  })
  it("STORE-37 PUT and DELETE of an unknown id: 404", async () => {
    expect((await harness.put("/products/777777", { price: 1 })).status).toBe(404)
    expect((await harness.delete("/products/777777")).status).toBe(404)
    for (const id of ["abc", "0", "-1", "1.5", "9007199254740993"])
      expect((await harness.get(`/products/${id}`)).status).toBe(404)
  })
  it("STORE-38 DELETE twice: 204, 404; its id is never used again", async () => {
    const id = await harness.product()
    const deleted = await harness.delete(`/products/${id}`)
    expect([deleted.status, deleted.text]).toEqual([204, ""])
    expect((await harness.delete(`/products/${id}`)).status).toBe(404)
    expect(await harness.product()).toBe(id + 1)
  })
  it('STORE-39 PUT {"price":5}: other fields unchanged, updated_at later', async () => {
    const id = await harness.product({ item_name: "Kept" })
    const before = (await harness.get(`/products/${id}`)).body
    const { body, status } = await harness.put(`/products/${id}`, {
      price: 5,
      id: 3,
      created_at: "2000-01-01",
      nonsense: 1
    })
    expect(status).toBe(200)
    expect(body).toEqual({ ...before, price: 5, updated_at: body.updated_at })
    expect(Date.parse(body.updated_at)).toBeGreaterThan(Date.parse(before.updated_at))
    expect(
      (await harness.call({ method: "PATCH", path: `/products/${id}`, body: { price: 6 } })).body.price
    ).toBe(6)
  })
  it("STORE-40 PUT that changes nothing: 200, updated_at same, no webhook", async () => {
    const id = await harness.product({ price: 2.5 })
    await harness.post("/webhooks", { event_type: "ProductUpdated", url: "https://hooks.example/a" })
    const before = (await harness.get(`/products/${id}`)).body
    const answer = await harness.put(`/products/${id}`, { price: 2.5, is_kit: 0 })
    expect([answer.status, answer.body]).toEqual([200, before])
    expect(harness.shop.webhooks.waiting("1")).toBe(0)
    await harness.put(`/products/${id}`, { price: 3 })
    expect(harness.shop.webhooks.waiting("1")).toBe(1)
  })
  it("updated_at grows with each change, even within one instant", async () => {
    const id = await harness.product()
    const times = []
    for (const price of [1, 2, 3])
      times.push(
        (await harness.call({ method: "PUT", path: `/products/${id}`, body: { price } })).body.updated_at
      )
    expect(new Set(times).size).toBe(3)
    expect(times.toSorted()).toEqual(times)
  })
  it("money is exact, datetimes are taken with any offset, booleans as 0 and 1", async () => {
    const id = await harness.product({
      price: 0.1,
      cost: 999_999_999.9999,
      eta_date: "2026-03-04T05:06:07.1234567+02:00",
      is_kit: 1,
      is_hidden: true
    })
    expect((await harness.get(`/products/${id}`)).body).toMatchObject({
      price: 0.1,
      cost: 999_999_999.9999,
      eta_date: "2026-03-04T03:06:07.123Z",
      is_kit: true,
      is_hidden: 1
    })
  })
})

describe("preconditions and repeats", () => {
  it("STORE-52 PUT with a stale If-Match: 412", async () => {
    const id = await harness.product()
    const etag = (await harness.get(`/products/${id}`)).header("etag")!
    expect(
      (await harness.put(`/products/${id}`, { price: 1 }, { headers: { "if-match": etag } })).status
    ).toBe(200)
    expect(
      (await harness.put(`/products/${id}`, { price: 2 }, { headers: { "if-match": etag } })).status
    ).toBe(412)
    expect((await harness.delete(`/products/${id}`, { headers: { "if-match": etag } })).status).toBe(412)
    expect(
      (
        await harness.put(
          `/products/${id}`,
          { price: 2 },
          { headers: { "if-unmodified-since": new Date(harness.nowMs - 60_000).toUTCString() } }
        )
      ).status
    ).toBe(412)
    expect((await harness.get(`/products/${id}`)).body.price).toBe(1)
  })
  it("STORE-53 POST repeated with one Idempotency-Key: same 201 body, one product", async () => {
    const send = () => post({ ...minimal, item_number: "once" }, { headers: { "idempotency-key": "k-53" } })
    const [first, second] = [await send(), await send()]
    expect([first.status, second.status, second.text]).toEqual([201, 201, first.text])
    expect(second.header("idempotency-replayed")).toBe("true")
    expect((await harness.get("/products?item_number=once")).body.total_count).toBe(1)
  })
  it("a repeat while the first still runs waits for it", async () => {
    harness.fresh()
    const answers = await Promise.all(
      [1, 2, 3].map(() =>
        harness.call({
          method: "POST",
          body: { ...minimal, item_number: "together" },
          headers: { "idempotency-key": "k-together" }
        })
      )
    )
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201])
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
  })
  it("STORE-54 same key, other body: 409", async () => {
    await post(minimal, { headers: { "idempotency-key": "k-54" } })
    expect((await post({ ...minimal, price: 1 }, { headers: { "idempotency-key": "k-54" } })).status).toBe(
      409
    )
    harness.nowMs += 86_400_000
    expect((await post({ ...minimal, price: 1 }, { headers: { "idempotency-key": "k-54" } })).status).toBe(
      201
    )
  })
  it("a 409 is kept too; a malformed key is 400", async () => {
    const send = () =>
      post({ ...minimal, product_status_id: 55 }, { headers: { "idempotency-key": "k-409" } })
    expect([(await send()).status, (await send()).status]).toEqual([409, 409])
    expect((await post(minimal, { headers: { "idempotency-key": "a b" } })).status).toBe(400)
  })
})

it("STORE-67 importMany with one bad line of three: 200, total_errors 1, two stored", async () => {
  const answer = await harness.post("/products/importMany", [
    {
      product: { ...minimal, item_number: "imp-1" },
      category: { name: "Imported" },
      manufacturer: { name: "Maker" }
    },
    { product: { item_name: 5 } },
    { lookup_by_sku: true, product: { item_number: "IMP-1", price: 4 } }
  ])
  expect([
    answer.status,
    answer.body.total_errors,
    answer.body.results.map(({ status_code }: any) => status_code)
  ]).toEqual([200, 1, [201, 400, 200]])
  const id = answer.body.results[0].entity_id
  expect(answer.body.results[2].entity_id).toBe(id)
  const stored = (await harness.get(`/products/${id}?expand=categories`)).body
  expect([stored.price, stored.categories[0].name]).toEqual([4, "Imported"])
  for (const bad of [[], {}, "x", Array.from({ length: 501 }, () => ({}))])
    expect((await harness.post("/products/importMany", bad)).status).toBe(400)
  expect(
    (await harness.post("/manufacturers/importMany", [{ manufacturer: { name: "Other" } }])).body.results[0]
      .status_code
  ).toBe(201)
})
