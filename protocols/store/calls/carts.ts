/** Carts: items, shipping, coupons, totals; and placing an order, which is one transaction or nothing. A
 *  placed cart never changes again.
 *  Source: store section 8.9. */
import { reading, writing } from "../access/access.ts"
import { b, d, i, m, moneyUnit, n, named, s, to, type Stored } from "../engine/fields.ts"
import { jsonType, noStore, Refused } from "../problems.ts"
import { resource, valueOf, type Row } from "../engine/resource.ts"
import { orders as ordersResource } from "../resources/orders.ts"
import { productStatuses, products } from "../resources/products.ts"
import type { Answer, EndpointCall, Endpoint } from "../target.ts"
import type { Transaction } from "../engine/resource.ts"

const linesMax = 1_000

export const carts = resource({
  name: "carts",
  singular: "cart",
  subject: "orders",
  area: "Orders",
  uncached: true,
  validate: "ValidateCart",
  fields: {
    customer_id: to("customers", { gone: "cascade" }),
    ...named("email session_id coupon_code selected_shipping_method", s()),
    store_id: i(1),
    ...named("subtotal tax_total discount_total grand_total", m(0, { readOnly: true })),
    shipping_total: m(0, { readOnly: true }),
    shipping_address: { kind: "object", initial: null, nullable: true },
    shipping_selections: { kind: "list", initial: [] },
    is_placed: b(false, { readOnly: true }),
    associated_order_id: i(null, { readOnly: true }),
    last_visited_at: d()
  },
  nested: { items: { of: "cart_items", by: "cart_id" } },
  prepare: ({ before, given }) => {
    if (before?.values["is_placed"] === true && Object.keys(given).length > 0) throw placed()
  },
  removing: (_, row) => {
    if (row.values["is_placed"] === true) throw placed()
  }
})

export const cartItems = resource({
  name: "cart_items",
  singular: "cart_item",
  subject: "orders",
  area: "Orders",
  uncached: true,
  readOnly: true,
  fields: {
    cart_id: to("carts", { required: true, gone: "cascade" }),
    product_id: to("products", { required: true, gone: "cascade" }),
    quantity: n(1),
    item_number: s(),
    item_name: s(),
    price: m(),
    variant_ids: { kind: "list", initial: [] },
    personalizations: { kind: "list", initial: [] }
  }
})

const placed = (): Refused => new Refused(409, "this cart has been placed")

const open = (tx: Transaction, id: number): Row => {
  const cart = tx.get("carts", id)
  if (cart === undefined) throw new Refused(404, "there is no such cart")
  if (cart.values["is_placed"] === true) throw placed()
  return cart
}

const lines = (tx: Transaction, id: number): ReadonlyArray<Row> =>
  tx.children("cart_items", "cart_id", id, linesMax + 1)

const shown = (tx: Transaction, id: number): Record<string, unknown> => ({
  ...tx.show("carts", tx.get("carts", id)!),
  items: lines(tx, id).map((line) => tx.show("cart_items", line))
})

const listOf = (
  body: Readonly<Record<string, unknown>>
): ReadonlyArray<Readonly<Record<string, unknown>>> => {
  const items = body["items"]
  if (
    !Array.isArray(items) ||
    items.length === 0 ||
    items.length > linesMax ||
    !items.every((item) => typeof item === "object" && item !== null)
  )
    throw new Refused(400, `items must be a list of 1 to ${linesMax} objects`, [
      { field: "items", code: "invalid_type", message: "must be a list of objects" }
    ])
  return items
}

const numberOf = (item: Readonly<Record<string, unknown>>, name: string): number => {
  const value = item[name]
  if (typeof value !== "number" || !Number.isFinite(value) || value <= 0)
    throw new Refused(400, `${name} must be a number above 0`, [
      {
        field: name,
        code: value === undefined ? "required" : "invalid_value",
        message: "must be a number above 0"
      }
    ])
  return value
}

/** What the product allows: minimum, maximum, steps, stock, availability. */
const checkQuantity = (tx: Transaction, product: Row, quantity: number): void => {
  const of = (name: string): number => valueOf(products, product, name) as number
  const status = tx.get("product_statuses", of("product_status_id"))
  const on = (name: string): boolean =>
    status !== undefined && valueOf(productStatuses, status, name) === true
  const refuse = (why: string): Refused =>
    new Refused(409, `${String(product.values["item_name"])}: ${why}`, [
      { field: "quantity", code: "out_of_range", message: why }
    ])
  if (on("is_unavailable")) throw refuse("is not available")
  if (quantity < of("minimum_quantity")) throw refuse(`at least ${of("minimum_quantity")}`)
  if (of("maximum_quantity") > 0 && quantity > of("maximum_quantity"))
    throw refuse(`at most ${of("maximum_quantity")}`)
  if (quantity % of("quantity_increment") !== 0) throw refuse(`only multiples of ${of("quantity_increment")}`)
  if (
    valueOf(products, product, "is_non_inventory") !== true &&
    !on("is_back_ordered") &&
    quantity > of("quantity_on_hand")
  )
    throw refuse(`only ${of("quantity_on_hand")} are there`)
}

const recompute = (tx: Transaction, id: number): void => {
  const cart = tx.get("carts", id)!
  const subtotal = lines(tx, id).reduce(
    (sum, line) =>
      sum +
      Math.round(
        (valueOf(cartItems, line, "price") as number) * (valueOf(cartItems, line, "quantity") as number)
      ),
    0
  )
  tx.update("carts", cart, {
    subtotal,
    grand_total: Math.max(
      0,
      subtotal +
        (valueOf(carts, cart, "shipping_total") as number) +
        (valueOf(carts, cart, "tax_total") as number) -
        (valueOf(carts, cart, "discount_total") as number)
    )
  })
}

const addItems = (tx: Transaction, id: number, body: Readonly<Record<string, unknown>>): void => {
  open(tx, id)
  for (const item of listOf(body)) {
    const quantity = numberOf(item, "quantity")
    const productId = numberOf(item, "product_id")
    const product = tx.get("products", productId)
    if (product === undefined)
      throw new Refused(409, "product_id names no product", [
        { field: "product_id", code: "not_found", message: "names no product" }
      ])
    const present = lines(tx, id).find(
      (line) =>
        line.values["product_id"] === productId &&
        JSON.stringify(line.values["variant_ids"] ?? []) === JSON.stringify(item["variant_ids"] ?? [])
    )
    const total = quantity + (present === undefined ? 0 : (valueOf(cartItems, present, "quantity") as number))
    checkQuantity(tx, product, total)
    const { values } = {
      values: tx.decode(
        "cart_items",
        {
          cart_id: id,
          product_id: productId,
          quantity: total,
          ...(item["variant_ids"] === undefined ? {} : { variant_ids: item["variant_ids"] }),
          ...(item["personalizations"] === undefined ? {} : { personalizations: item["personalizations"] })
        },
        true
      )
    }
    if (present !== undefined) tx.update("cart_items", present, { quantity: total })
    else
      tx.insert("cart_items", {
        ...values,
        item_number: valueOf(products, product, "item_number"),
        item_name: valueOf(products, product, "item_name"),
        price: valueOf(products, product, "price")
      })
    if (lines(tx, id).length > linesMax) throw new Refused(409, `a cart holds at most ${linesMax} lines`)
  }
}

const changeItems = (tx: Transaction, id: number, body: Readonly<Record<string, unknown>>): void => {
  open(tx, id)
  for (const item of listOf(body)) {
    const line = tx.get("cart_items", numberOf(item, "cart_item_id"))
    const quantity = numberOf(item, "quantity")
    if (line === undefined || line.values["cart_id"] !== id)
      throw new Refused(409, "cart_item_id names no line of this cart", [
        { field: "cart_item_id", code: "not_found", message: "names no line of this cart" }
      ])
    checkQuantity(tx, tx.get("products", line.values["product_id"] as number)!, quantity)
    tx.update("cart_items", line, { quantity })
  }
}

const removeItems = (tx: Transaction, id: number, body: Readonly<Record<string, unknown>>): void => {
  open(tx, id)
  const given = body["cart_item_ids"]
  if (given !== undefined && (!Array.isArray(given) || !given.every((part) => typeof part === "number")))
    throw new Refused(400, "cart_item_ids must be a list of ids")
  for (const line of lines(tx, id))
    if (given === undefined || (given as ReadonlyArray<number>).includes(line.id))
      tx.remove("cart_items", line)
}

const setFields =
  (fields: ReadonlyArray<string>) =>
  (tx: Transaction, id: number, body: Readonly<Record<string, unknown>>): void => {
    const cart = open(tx, id)
    const values = tx.decode("carts", body, false)
    tx.update(
      "carts",
      cart,
      Object.fromEntries(Object.entries(values).filter(([name]) => fields.includes(name)))
    )
  }

/** Customer and addresses where they are new, order, items, payment, stock: all or nothing. */
const placeOrder = (
  tx: Transaction,
  id: number,
  body: Readonly<Record<string, unknown>>
): Record<string, unknown> => {
  const cart = open(tx, id)
  const inCart = lines(tx, id)
  if (inCart.length === 0) throw new Refused(409, "the cart is empty")
  for (const line of inCart)
    checkQuantity(
      tx,
      tx.get("products", line.values["product_id"] as number)!,
      valueOf(cartItems, line, "quantity") as number
    )
  const part = (name: string): Readonly<Record<string, unknown>> | undefined => {
    const value = body[name]
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  }
  let customerId = valueOf(carts, cart, "customer_id") as number
  if (!(customerId > 0)) {
    const email = part("customer")?.["email"] ?? cart.values["email"]
    const holder = typeof email === "string" ? tx.engine.byUnique("customer_email", email) : undefined
    customerId =
      holder?.[1] ?? tx.insert("customers", tx.decode("customers", { ...part("customer"), email }, true)).id
  }
  const address = (name: string): number => {
    const given = part(name) ?? (cart.values["shipping_address"] as Record<string, unknown> | undefined)
    if (given === undefined)
      throw new Refused(409, `${name} is needed`, [{ field: name, code: "required", message: "is needed" }])
    return tx.insert("order_addresses", tx.decode("order_addresses", given, true)).id
  }
  const shipping = address("shipping_address")
  const billing = part("billing_address") === undefined ? shipping : address("billing_address")
  const payment = part("payment") ?? {}
  const method = payment["payment_method_id"] ?? 0
  if (method !== 0)
    throw new Refused(409, "there is no such payment method", [
      { field: "payment_method_id", code: "not_found", message: "names no payment method" }
    ])
  const money = (name: string): Stored => valueOf(carts, cart, name)
  const order = tx.insert("orders", {
    customer_id: customerId,
    order_status_id: 1,
    order_shipping_address_id: shipping,
    order_billing_address_id: billing,
    subtotal: money("subtotal"),
    grand_total: money("grand_total"),
    shipping_total: money("shipping_total"),
    tax_total: money("tax_total"),
    discount_total: money("discount_total"),
    coupon_code: cart.values["coupon_code"] ?? "",
    selected_shipping_method: cart.values["selected_shipping_method"] ?? ""
  })
  for (const line of inCart)
    tx.insert("order_items", {
      order_id: order.id,
      product_id: line.values["product_id"]!,
      quantity: valueOf(cartItems, line, "quantity"),
      item_number: valueOf(cartItems, line, "item_number"),
      item_name: valueOf(cartItems, line, "item_name"),
      price: valueOf(cartItems, line, "price"),
      variant_ids: valueOf(cartItems, line, "variant_ids"),
      personalizations: valueOf(cartItems, line, "personalizations")
    })
  const card = tx.decode(
    "order_payments",
    { ...payment, order_id: order.id, amount: (valueOf(carts, cart, "grand_total") as number) / moneyUnit },
    true
  )
  tx.insert("order_payments", { ...card, payment_method_id: 0 })
  ordersResource.created!(tx, tx.get("orders", order.id)!, {})
  tx.update("carts", cart, { is_placed: true, associated_order_id: order.id, customer_id: customerId })
  return { order_id: order.id, order_approved: false, redirect_url: null, message: "" }
}

const readNeed = reading("orders", "Orders")
const writeNeed = writing("orders", "Orders")

const json = (status: number, value: unknown): Answer => ({
  status,
  headers: [jsonType, noStore],
  body: JSON.stringify(value)
})

const changing =
  (work: (tx: Transaction, id: number, body: Readonly<Record<string, unknown>>) => void) =>
  async ({ engine, id, body }: EndpointCall): Promise<Answer> =>
    json(
      200,
      await engine.write((tx) => {
        work(tx, id, body)
        recompute(tx, id)
        return shown(tx, id)
      })
    )

const reads =
  (view: (tx: Transaction, cart: Row) => unknown) =>
  ({ engine, id }: EndpointCall): Answer =>
    json(
      200,
      engine.attempt((tx) => {
        const cart = tx.get("carts", id)
        if (cart === undefined) throw new Refused(404, "there is no such cart")
        return view(tx, cart)
      })
    )

const shippingOf = (_: Transaction, cart: Row) => ({
  selected_shipping_method: valueOf(carts, cart, "selected_shipping_method"),
  shipping_total: (valueOf(carts, cart, "shipping_total") as number) / moneyUnit,
  shipping_address: valueOf(carts, cart, "shipping_address"),
  shipping_selections: valueOf(carts, cart, "shipping_selections")
})

export const cartEndpoints = (): ReadonlyArray<Endpoint> => [
  {
    path: "carts/:id/items",
    methods: {
      GET: {
        need: readNeed,
        handle: reads((tx, cart) => {
          const items = lines(tx, cart.id).map((line) => tx.show("cart_items", line))
          return { total_count: items.length, items }
        })
      },
      POST: { need: writeNeed, body: "object", handle: changing(addItems) },
      PUT: { need: writeNeed, body: "object", handle: changing(changeItems) },
      DELETE: { need: writeNeed, body: "optional", handle: changing(removeItems) }
    }
  },
  {
    path: "carts/:id/calculated",
    methods: { GET: { need: readNeed, handle: reads((tx, cart) => shown(tx, cart.id)) } }
  },
  {
    path: "carts/:id/shipping",
    methods: {
      GET: { need: readNeed, handle: reads(shippingOf) },
      PUT: {
        need: writeNeed,
        body: "object",
        handle: changing(setFields(["selected_shipping_method", "shipping_address", "shipping_selections"]))
      }
    }
  },
  {
    path: "carts/:id/shipping_estimation",
    methods: { PUT: { need: writeNeed, body: "object", handle: changing(setFields(["shipping_address"])) } }
  },
  {
    path: "carts/:id/coupon_code",
    methods: { PUT: { need: writeNeed, body: "object", handle: changing(setFields(["coupon_code"])) } }
  },
  {
    path: "carts/:id/payment_methods",
    methods: {
      GET: {
        need: readNeed,
        handle: reads(() => ({
          total_count: 1,
          payment_methods: [{ id: 0, name: "Credit card", type: "CreditCard" }]
        }))
      }
    }
  },
  {
    path: "carts/:id/place_order",
    methods: {
      POST: {
        need: writeNeed,
        body: "optional",
        handle: async ({ engine, id, body, validate }) => {
          await validate("ValidateCheckout", () => ({
            cart: engine.attempt((tx) => {
              open(tx, id)
              return shown(tx, id)
            })
          }))
          return json(200, await engine.write((tx) => placeOrder(tx, id, body)))
        }
      }
    }
  }
]
