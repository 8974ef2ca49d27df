/** What the records mean: categories, stock, people, orders, carts, sealed fields, files. Source:
 *  docs/spec/store.md, sections 8, 11. */
import { beforeEach, describe, expect, it } from "vitest"
import { Files, destinationOf, partsOf } from "../../../../protocols/store/calls/upload.ts"
import { DecryptAudit } from "../../../../protocols/store/calls/decrypted.ts"
import { codes, minimal, StoreHarness } from "../harness.ts"

let harness: StoreHarness

beforeEach(async () => {
  harness = await StoreHarness.open()
})

const stock = async (id: number): Promise<number> =>
  (await harness.get(`/inventory?product_id=${id}`)).body.quantity

describe("catalog", () => {
  it("STORE-55 a category made its own ancestor: 409", async () => {
    const a = (await harness.post("/categories", { name: "A" })).body.id
    const b = (await harness.post("/categories", { name: "B", parent_category_id: a })).body
    expect(b.lookup_path).toBe("A > B")
    const c = (await harness.post("/categories", { name: "C", parent_category_id: b.id })).body.id
    for (const [id, parent] of [
      [a, c],
      [a, a],
      [b.id, c]
    ]) {
      const answer = await harness.put(`/categories/${id}`, { parent_category_id: parent })
      expect([answer.status, codes(answer)]).toEqual([409, ["parent_category_id invalid_value"]])
    }
    expect((await harness.put(`/categories/${c}`, { parent_category_id: null })).body.lookup_path).toBe("C")
  })
  it("a tree is at most 32 deep, and can be rebuilt", async () => {
    let parent = 0
    for (let depth = 1; depth <= 32; depth++)
      parent = (await harness.post("/categories", { name: `d${depth}`, parent_category_id: parent })).body.id
    expect((await harness.post("/categories", { name: "too deep", parent_category_id: parent })).status).toBe(
      409
    )
    await harness.put("/categories/2", { name: "renamed" })
    expect((await harness.get("/categories/3")).body.lookup_path).toBe("d1 > d2")
    expect((await harness.post("/categories/rebuild_tree", {})).status).toBe(204)
    for (let turn = 0; turn < 50; turn++)
      await new Promise((resolve) => {
        setImmediate(resolve)
      })
    expect((await harness.get("/categories/3")).body.lookup_path).toBe("renamed > d2")
  })
  it("STORE-56 DELETE a category with products: 409 in_use; and statuses, manufacturers likewise", async () => {
    const manufacturer = (await harness.post("/manufacturers", { name: "M" })).body.id
    const id = await harness.product({ manufacturer_id: manufacturer })
    for (const path of ["/categories/1", "/product_statuses/1", `/manufacturers/${manufacturer}`]) {
      const answer = await harness.delete(path)
      expect([path, answer.status, answer.body.errors[0].code]).toEqual([path, 409, "in_use"])
    }
    expect((await harness.delete("/product_statuses/4")).status).toBe(409)
    await harness.delete(`/products/${id}`)
    for (const path of ["/categories/1", `/manufacturers/${manufacturer}`])
      expect((await harness.delete(path)).status).toBe(204)
  })
  it("names are unique case folded; free again when they go", async () => {
    const id = (await harness.post("/manufacturers", { name: "Straße ΑΣ" })).body.id
    expect((await harness.post("/manufacturers", { name: "STRAßE ας" })).status).toBe(409)
    await harness.put(`/manufacturers/${id}`, { name: "Other" })
    expect((await harness.post("/manufacturers", { name: "straße ας" })).status).toBe(201)
    await harness.delete(`/manufacturers/${id}`)
    expect((await harness.post("/manufacturers", { name: "OTHER" })).status).toBe(201)
  })
})

describe("stock", () => {
  it("STORE-57 two inventory/remove of 1 at once with stock 1: one 200, one 409", async () => {
    const id = await harness.product({ quantity_on_hand: 1 })
    harness.fresh()
    const answers = await Promise.all(
      [1, 2].map(() =>
        harness.call({ method: "POST", path: "/inventory/remove", body: { product_id: id, quantity: 1 } })
      )
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409])
    expect(await stock(id)).toBe(0)
    expect((await harness.get(`/products/${id}`)).body.product_status_id).toBe(2)
  })
  it("concurrent adds are all kept, and move the status back", async () => {
    const id = await harness.product({ product_status_id: 2 })
    harness.fresh()
    const answers = await Promise.all(
      Array.from({ length: 20 }, () =>
        harness.call({ method: "POST", path: "/inventory/add", body: { product_id: id, quantity: 3 } })
      )
    )
    expect(new Set(answers.map(({ body }) => body.quantity)).size).toBe(20)
    expect(await stock(id)).toBe(60)
    expect((await harness.get(`/products/${id}`)).body.product_status_id).toBe(1)
  })
  it("identifiers: exactly one, found by number, gtin or name; ambiguous 409, none 404", async () => {
    const id = await harness.product({ item_number: "N-1", gtin: "400", item_name: "Twin" })
    await harness.product({ item_name: "twin", gtin: "401" })
    const variant = (
      await harness.post("/variant_inventory", { product_id: id, item_number: "N-1-R", quantity: 4 })
    ).body.id
    const ask = async (query: string) => {
      const { status, body } = await harness.get(`/inventory?${query}`)
      return [status, body.product_id, body.variant_inventory_id]
    }
    expect(await ask("item_number=n-1")).toEqual([200, id, null])
    expect(await ask("gtin=400")).toEqual([200, id, null])
    expect(await ask("item_number=N-1-R")).toEqual([200, id, variant])
    expect(await ask(`variant_inventory_id=${variant}`)).toEqual([200, id, variant])
    expect((await ask("item_name=Twin"))[0]).toBe(409)
    for (const none of ["", "item_number=a&gtin=b", "product_id=x"]) expect((await ask(none))[0]).toBe(400)
    for (const none of ["item_number=zz", "gtin=zz", "product_id=999", "item_name=zz"])
      expect((await ask(none))[0]).toBe(404)
    for (const body of [
      { product_id: id },
      { product_id: id, quantity: -1 },
      { product_id: id, quantity: 1.5 },
      { product_id: id, quantity: "1" },
      { quantity: 1 }
    ])
      expect((await harness.post("/inventory/set", body)).status).toBe(400)
    expect(
      (await harness.post("/inventory/set", { variant_inventory_id: variant, quantity: 9 })).body.quantity
    ).toBe(9)
  })
  it("back-ordered products go below zero; settings can be read and changed", async () => {
    const id = await harness.product({ product_status_id: 3 })
    expect((await harness.post("/inventory/remove", { product_id: id, quantity: 5 })).body.quantity).toBe(-5)
    expect((await harness.get("/inventory/settings")).body).toMatchObject({
      track_inventory: true,
      remove_from_inventory_when: "Ordered",
      in_stock_product_status_id: 1
    })
    expect((await harness.put("/inventory/settings", { remove_from_inventory_when: "Never" })).status).toBe(
      400
    )
    expect((await harness.put("/inventory/settings", { in_stock_product_status_id: 99 })).status).toBe(409)
    expect(
      (await harness.put("/inventory/settings", { remove_from_inventory_when: "Shipped" })).body
        .remove_from_inventory_when
    ).toBe("Shipped")
  })
  it("a discontinued product gets that status", async () => {
    const id = await harness.product()
    expect((await harness.put(`/products/${id}`, { is_discontinued: true })).body.product_status_id).toBe(4)
  })
})

const customer = async (): Promise<number> =>
  (await harness.post("/customers", { email: "a@example.com" })).body.id

const order = async (productId: number, more: object = {}, quantity = 2): Promise<any> => {
  const address = (await harness.post("/order_addresses", { address_line_1: "1 Street" })).body.id
  const customerId =
    (await harness.get("/customers?email=a@example.com")).body.customers[0]?.id ?? (await customer())
  return (
    await harness.post("/orders", {
      customer_id: customerId,
      order_status_id: 1,
      order_shipping_address_id: address,
      order_billing_address_id: address,
      items: [{ product_id: productId, quantity }],
      ...more
    })
  ).body
}

describe("people", () => {
  it("e-mail addresses are checked and unique; a customer with orders stays", async () => {
    const id = await customer()
    for (const email of ["", "a", "a@b@c", "a b@c.d", "@x", 5])
      expect((await harness.post("/customers", { email })).status).toBe(400)
    expect((await harness.post("/customers", { email: "A@EXAMPLE.com" })).status).toBe(409)
    await order(await harness.product({ quantity_on_hand: 5 }))
    expect((await harness.delete(`/customers/${id}`)).status).toBe(409)
    expect((await harness.get("/users")).status).toBe(200)
    expect((await harness.post("/users", { username: "x" })).status).toBe(405)
  })
  it("one default address per customer and kind", async () => {
    const id = await customer()
    const make = (more: object) =>
      harness.post("/addresses", {
        customer_id: id,
        address_line_1: "x",
        is_default_shipping_address: true,
        ...more
      })
    const [first, second] = [(await make({})).body, (await make({ is_default_billing_address: true })).body]
    const { body } = await harness.get(`/customers/${id}?expand=addresses`)
    expect(body.addresses.map((address: any) => [address.id, address.is_default_shipping_address])).toEqual([
      [first.id, false],
      [second.id, true]
    ])
    await harness.delete(`/customers/${id}`)
    expect((await harness.get(`/addresses/${first.id}`)).status).toBe(404)
  })
})

describe("orders", () => {
  it("ids from 100000, totals computed when absent, items copied from the product, stock taken", async () => {
    const id = await harness.product({ item_number: "P", price: 12.5, quantity_on_hand: 5 })
    const ordered = await order(id, { tax_total: 1.5 })
    expect(ordered).toMatchObject({
      id: 100_000,
      subtotal: 25,
      grand_total: 26.5,
      tax_total: 1.5,
      channel: "Online"
    })
    expect(ordered.items[0]).toMatchObject({ product_id: id, item_number: "P", price: 12.5, quantity: 2 })
    expect(await stock(id)).toBe(3)
    await harness.delete(`/products/${id}`)
    expect((await harness.get(`/orders/${ordered.id}/items`)).body.items[0].item_name).toBe("My test product")
  })
  it("what it refers to must be there", async () => {
    const answer = await harness.post("/orders", {
      customer_id: 1,
      order_status_id: 99,
      order_shipping_address_id: 1,
      order_billing_address_id: 1
    })
    expect([answer.status, codes(answer)]).toEqual([
      409,
      [
        "customer_id not_found",
        "order_status_id not_found",
        "order_shipping_address_id not_found",
        "order_billing_address_id not_found"
      ]
    ])
    expect(codes(await harness.post("/orders", {}))).toHaveLength(4)
  })
  it("STORE-58 order status to cancelled twice: stock returned once", async () => {
    const id = await harness.product({ quantity_on_hand: 5 })
    const { id: orderId } = await order(id)
    const cancel = () => harness.put(`/orders/${orderId}/status`, { order_status_id: 4 })
    expect([(await cancel()).status, await stock(id), (await cancel()).status, await stock(id)]).toEqual([
      200, 5, 200, 5
    ])
    await harness.put(`/orders/${orderId}/status`, { order_status_id: 5 })
    expect(await stock(id)).toBe(5)
    await harness.put(`/orders/${orderId}/status`, { order_status_id: 2 })
    await harness.put(`/orders/${orderId}/status`, { order_status_id: 3 })
    expect(await stock(id)).toBe(3)
  })
  it("stock leaves at shipping when so set; deleting an open order returns it, a shipped one not", async () => {
    const id = await harness.product({ quantity_on_hand: 9 })
    await harness.put("/inventory/settings", { remove_from_inventory_when: "Shipped" })
    const one = await order(id)
    const two = await order(id)
    expect(await stock(id)).toBe(9)
    await harness.put(`/orders/${one.id}/status`, { order_status_id: 3 })
    expect(await stock(id)).toBe(7)
    await harness.delete(`/orders/${one.id}`)
    expect(await stock(id)).toBe(7)
    await harness.put("/inventory/settings", { remove_from_inventory_when: "Ordered" })
    const three = await order(id)
    expect(await stock(id)).toBe(5)
    await harness.delete(`/orders/${three.id}`)
    await harness.delete(`/orders/${two.id}`)
    expect(await stock(id)).toBe(7)
  })
  it("STORE-59 plain PUT of order_status_id: changed, no OrderStatusChanged", async () => {
    const { id } = await order(await harness.product({ quantity_on_hand: 5 }))
    await harness.post("/webhooks", { event_type: "OrderStatusChanged", url: "https://hooks.example/a" })
    const answer = await harness.put(`/orders/${id}`, { order_status_id: 2 })
    expect([
      answer.body.order_status_id,
      answer.body.previous_order_status_id,
      harness.shop.webhooks.waiting("1")
    ]).toEqual([2, 1, 0])
    await harness.put(`/orders/${id}/status`, { order_status_id: 3 })
    expect(harness.shop.webhooks.waiting("1")).toBe(1)
    for (const [body, status] of [
      [{}, 400],
      [{ order_status_id: "3" }, 400],
      [{ order_status_id: 99 }, 409]
    ] as const)
      expect((await harness.put(`/orders/${id}/status`, body)).status).toBe(status)
    expect((await harness.put("/orders/5/status", { order_status_id: 1 })).status).toBe(404)
  })
  it("a shipment of the same name is that shipment; its items are the order's", async () => {
    const ordered = await order(await harness.product({ quantity_on_hand: 5 }))
    const item = ordered.items[0].id
    const send = (more: object) =>
      harness.post("/order_shipments", {
        order_id: ordered.id,
        shipment_name: "S1",
        items: [{ order_item_id: item, quantity: 1 }],
        ...more
      })
    const [first, second] = [await send({}), await send({ tracking_number: "T" })]
    expect([first.status, second.status, second.body.id, second.body.tracking_number]).toEqual([
      201,
      200,
      first.body.id,
      "T"
    ])
    expect((await send({ items: [{ order_item_id: 999 }] })).status).toBe(409)
  })
})

describe("carts", () => {
  const line = (body: any) => body.items[0]
  it("from the first item to the order, once", async () => {
    const id = await harness.product({ price: 10, quantity_on_hand: 4, item_name: "Mug" })
    const cart = (await harness.post("/carts", {})).body.id
    const added = await harness.post(`/carts/${cart}/items`, { items: [{ product_id: id, quantity: 2 }] })
    expect([added.status, added.body.subtotal, added.body.grand_total]).toEqual([200, 20, 20])
    expect(
      (await harness.post(`/carts/${cart}/items`, { items: [{ product_id: id, quantity: 3 }] })).status
    ).toBe(409)
    expect(
      (
        await harness.put(`/carts/${cart}/items`, {
          items: [{ cart_item_id: line(added.body).id, quantity: 3 }]
        })
      ).body.subtotal
    ).toBe(30)
    await harness.put(`/carts/${cart}/shipping`, {
      shipping_address: { address_line_1: "1 Street" },
      selected_shipping_method: "Post"
    })
    expect((await harness.get(`/carts/${cart}/payment_methods`)).body.payment_methods[0].id).toBe(0)
    harness.fresh()
    const placed = await Promise.all(
      [1, 2].map(() =>
        harness.call({
          method: "POST",
          path: `/carts/${cart}/place_order`,
          body: { customer: { email: "new@example.com" }, payment: { card_number: "4111111111111111" } }
        })
      )
    )
    expect(placed.map(({ status }) => status).sort()).toEqual([200, 409])
    const { order_id: orderId } = placed.find(({ status }) => status === 200)!.body
    const ordered = (await harness.get(`/orders/${orderId}?expand=items,payments`)).body
    expect(ordered).toMatchObject({
      grand_total: 30,
      items: [{ quantity: 3, item_name: "Mug" }],
      payments: [{ amount: 30, card_number: null, last_four: "1111" }]
    })
    expect(await stock(id)).toBe(1)
    for (const [method, path, body] of [
      ["POST", "items", { items: [{ product_id: id, quantity: 1 }] }],
      ["PUT", "coupon_code", { coupon_code: "x" }],
      ["DELETE", "items", undefined],
      ["POST", "place_order", {}]
    ] as const) {
      harness.fresh()
      expect([
        path,
        (
          await harness.call({
            method,
            path: `/carts/${cart}/${path}`,
            ...(body === undefined ? {} : { body })
          })
        ).status
      ]).toEqual([path, 409])
    }
    expect((await harness.put(`/carts/${cart}`, { email: "x@y" })).status).toBe(409)
  })
  it("refusals change nothing: empty, unavailable, out of step, unknown method, no address", async () => {
    const id = await harness.product({
      quantity_on_hand: 100,
      minimum_quantity: 2,
      maximum_quantity: 8,
      quantity_increment: 2
    })
    const discontinued = await harness.product({ product_status_id: 4, quantity_on_hand: 5 })
    const cart = (await harness.post("/carts", {})).body.id
    const add = async (product: number, quantity: unknown) =>
      (await harness.post(`/carts/${cart}/items`, { items: [{ product_id: product, quantity }] })).status
    expect((await harness.post(`/carts/${cart}/place_order`, {})).status).toBe(409)
    expect([
      await add(id, 1),
      await add(id, 10),
      await add(id, 3),
      await add(discontinued, 1),
      await add(999, 1),
      await add(id, 0),
      await add(id, "2")
    ]).toEqual([409, 409, 409, 409, 409, 400, 400])
    expect(await add(id, 4)).toBe(200)
    const before = (await harness.get(`/carts/${cart}/calculated`)).text
    for (const [body, status] of [
      [{ customer: { email: "x@y.z" } }, 409],
      [{ customer: { email: "bad" }, shipping_address: { address_line_1: "a" } }, 400],
      [
        {
          customer: { email: "x@y.z" },
          shipping_address: { address_line_1: "a" },
          payment: { payment_method_id: 7 }
        },
        409
      ],
      [
        {
          customer: { email: "x@y.z" },
          shipping_address: { address_line_1: "a" },
          payment: { card_number: "12" }
        },
        400
      ]
    ] as const) {
      expect((await harness.post(`/carts/${cart}/place_order`, body)).status).toBe(status)
    }
    expect((await harness.get(`/carts/${cart}/calculated`)).text).toBe(before)
    expect([
      (await harness.get("/orders")).body.total_count,
      (await harness.get("/customers")).body.total_count,
      await stock(id)
    ]).toEqual([0, 0, 100])
    expect((await harness.delete(`/carts/${cart}/items`)).body.items).toEqual([])
  })
})

describe("encrypted data", () => {
  it("STORE-15 an admin token, a product with e_product_password set: the field is null, sealed at rest", async () => {
    const id = await harness.product({ e_product_password: "open sesame" })
    expect((await harness.get(`/products/${id}`)).body.e_product_password).toBeNull()
    expect(Buffer.from(harness.store.get("store-rows", ["products", id])!).toString("latin1")).not.toContain(
      "sesame"
    )
  })
  it("STORE-14 an admin token on /credit_cards/1/decrypted: 403", async () => {
    const card = await harness.post("/credit_cards", {
      card_number: "4111111111111111",
      cardholder_name: "A"
    })
    expect(card.body).toMatchObject({ card_number: null, last_four: "1111" })
    const answer = await harness.get("/credit_cards/1/decrypted")
    expect([answer.status, answer.body.details, answer.header("cache-control")]).toEqual([
      403,
      "This token cannot access encrypted data.",
      "no-store"
    ])
  })
  it("a user with scope and area sees it, after an audit line; without either, not", async () => {
    const id = await harness.product({ e_product_password: "open sesame" })
    const path = `/products/${id}/decrypted`
    const may = await harness.user(["read_catalog", "decrypt"], ["Products", "EncryptedData"])
    const answer = await harness.get(path, { token: may.token })
    expect([answer.status, answer.body.e_product_password, answer.header("cache-control")]).toEqual([
      200,
      "open sesame",
      "no-store"
    ])
    expect(
      DecryptAudit.range(harness.store, { limit: 9 }).map(({ value }) => [
        value.userId,
        value.resource,
        value.id
      ])
    ).toEqual([[may.userId, "products", id]])
    for (const held of [
      await harness.user(["read_catalog"], ["Products", "EncryptedData"]),
      await harness.user(["read_catalog", "decrypt"], ["Products"]),
      await harness.user(["decrypt"], ["Products", "EncryptedData"])
    ]) {
      expect((await harness.get(path, { token: held.token })).status).toBe(403)
    }
    expect((await harness.get("/products/999/decrypted", { token: may.token })).status).toBe(404)
    expect(DecryptAudit.range(harness.store, { limit: 9 })).toHaveLength(1)
  })
})

describe("upload", () => {
  const send = (about: unknown, file = "content", more: object = {}) =>
    harness.post(
      "/upload",
      [
        '--B\r\nContent-Disposition: form-data; name="options"\r\nContent-Type: application/json\r\n\r\n',
        JSON.stringify(about),
        '\r\n--B\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n',
        file,
        "\r\n--B--\r\n"
      ].join(""),
      { type: "multipart/form-data; boundary=B", ...more }
    )
  it("keeps a file below the root; exists without overwrite: 409", async () => {
    expect((await send({ destination: "/images/a.txt" })).status).toBe(204)
    expect((await send({ destination: "images//./a.txt" })).status).toBe(409)
    expect((await send({ destination: "images/a.txt", overwrite: true }, "new")).status).toBe(204)
    const { blob, bytes } = Files.get(harness.store, ["images/a.txt"])!
    const parts: Array<Uint8Array> = []
    for await (const part of harness.store.blobs.read(blob)!) parts.push(part)
    expect([bytes, Buffer.concat(parts).toString(), (await harness.store.blobs.ids()).length]).toEqual([
      3,
      "new",
      1
    ])
  })
  it.each([
    "/../x",
    "a/../../x",
    "..",
    "",
    "C:/x",
    "c:\\x",
    "a\\..\\..\\b",
    "a\0b",
    "/",
    "x".repeat(1_001),
    5
  ])("STORE-68 upload destination %j: 400", async (destination) =>
    expect((await send({ destination })).status).toBe(400)
  )
  it("malformed bodies are 400 or 415", async () => {
    expect((await harness.post("/upload", "x", { type: "text/plain" })).status).toBe(415)
    for (const body of [
      "",
      "--B",
      "--B\r\n",
      "--B\r\n\r\n",
      "--B--",
      '--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n{}\r\n--B--\r\n',
      "--B\r\nx\r\n\r\nnot json\r\n--B\r\nContent-Disposition: form-data; name=f; filename=x\r\n\r\ny\r\n--B--"
    ]) {
      expect([
        body,
        (await harness.post("/upload", body, { type: "multipart/form-data; boundary=B" })).status
      ]).toEqual([body, 400])
    }
    let seed = 3
    const pieces = [
      "--B",
      "\r\n",
      "--",
      "\r\n\r\n",
      "x",
      'Content-Disposition: form-data; name="f"; filename="x"',
      "\0"
    ]
    for (let round = 0; round < 500; round++) {
      const body = Array.from({ length: 8 }, () => {
        seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
        return pieces[(seed >> 8) % pieces.length]!
      }).join("")
      try {
        partsOf("multipart/form-data; boundary=B", Buffer.from(body))
      } catch (cause) {
        expect(cause).toMatchObject({ problem: { _tag: "Invalid" } })
      }
    }
    expect(destinationOf("a/b.txt")).toBe("a/b.txt")
  })
})

it("every resource can be created, read, changed and deleted with what it requires", async () => {
  const product = await harness.product()
  const field = (await harness.post("/custom_fields", { name: "Colour" })).body.id
  const who = await customer()
  const bodies: Record<string, object> = {
    attribute_groups: { name: "g" },
    attributes: { name: "a" },
    product_lists: { name: "l" },
    variant_groups: { name: "g" },
    product_variants: { product_id: product, description: "d" },
    variant_inventory: { product_id: product, item_number: "v" },
    product_pictures: { product_id: product, image_file: "f" },
    product_pricing: { product_id: product, price: 3 },
    warehouses: { name: "w" },
    stores: { name: "s" },
    custom_fields: { name: "f" },
    custom_field_values: { custom_field_id: field, product_id: product, value: "red" },
    customer_types: { name: "t" },
    addresses: { customer_id: who, address_line_1: "x" },
    order_addresses: { address_line_1: "x" },
    order_statuses: { name: "n" },
    credit_cards: {},
    customer_payment_methods: { customer_id: who },
    carts: {}
  }
  for (const [name, body] of Object.entries(bodies)) {
    const created = await harness.post(`/${name}.json`, body)
    expect([name, created.status]).toEqual([name, 201])
    expect([name, (await harness.get(`/${name}/${created.body.id}.json`)).body]).toEqual([name, created.body])
    expect([name, (await harness.put(`/${name}/${created.body.id}`, body)).body]).toEqual([
      name,
      created.body
    ])
    if (name === "custom_field_values")
      expect((await harness.get(`/products/${product}/custom_fields`)).body.custom_fields).toEqual([
        { name: "Colour", value: "red" }
      ])
    expect([name, (await harness.delete(`/${name}/${created.body.id}`)).status]).toEqual([name, 204])
  }
  expect((await harness.post("/custom_field_values", { custom_field_id: field, value: "x" })).status).toBe(
    409
  )
  expect(minimal.item_name).toBe("My test product")
})
