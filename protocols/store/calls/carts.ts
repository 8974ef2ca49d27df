/** The calls of a cart: items, shipping, coupons, totals; and placing an order, which is one transaction or
 *  nothing.
 *  Source: docs/spec/store.md, section 8.9. */
import { Effect } from "effect"
import { defined } from "../../../runtime/defined.ts"
import { readNeed, writeNeed } from "../access/scopes.ts"
import { moneyUnit } from "../engine/fields.ts"
import { valueOf, type Row, type Transaction } from "../engine/resource.ts"
import { conflict, invalid, notFound, type Refusal } from "../problems.ts"
import { alreadyPlaced, cartItems, carts } from "../resources/carts.ts"
import { announceOrder } from "../resources/orders.ts"
import { productStatuses, products } from "../resources/products.ts"
import type { Answer, Endpoint, EndpointCall } from "../target.ts"
import type { JsonObject } from "../wire.ts"
import { jsonAnswer, written } from "./json-answer.ts"

const linesMax = 1_000

/** A cart that may still change. */
const openCart = (tx: Transaction, id: number): Row => {
  const cart = tx.get("carts", id)
  if (cart === undefined) throw notFound("there is no such cart")
  if (valueOf(carts, cart, "is_placed")) throw alreadyPlaced()
  return cart
}

const linesOf = (tx: Transaction, cartId: number): ReadonlyArray<Row> =>
  tx.children("cart_items", "cart_id", cartId, linesMax + 1)

const cartBody = (tx: Transaction, id: number): JsonObject => ({
  ...tx.represent("carts", tx.get("carts", id)!),
  items: linesOf(tx, id).map((line) => tx.represent("cart_items", line))
})

const itemsIn = ({ items }: JsonObject): ReadonlyArray<JsonObject> => {
  const isList =
    Array.isArray(items) &&
    items.length > 0 &&
    items.length <= linesMax &&
    items.every((item) => typeof item === "object" && item !== null)
  if (!isList)
    throw invalid(`items must be a list of 1 to ${linesMax} objects`, [
      { field: "items", code: "invalid_type", message: "must be a list of objects" }
    ])
  return items
}

const positiveIn = (item: JsonObject, name: string): number => {
  const value = item[name]
  if (typeof value !== "number" || !Number.isFinite(value) || value <= 0) {
    const code = value === undefined ? "required" : "invalid_value"
    throw invalid(`${name} must be a number above 0`, [
      { field: name, code, message: "must be a number above 0" }
    ])
  }
  return value
}

/** Checks what the product allows: availability, minimum, maximum, steps, stock. */
const checkQuantity = (tx: Transaction, product: Row, quantity: number): void => {
  const status = tx.get("product_statuses", valueOf(products, product, "product_status_id") ?? 0)
  const isUnavailable = status !== undefined && valueOf(productStatuses, status, "is_unavailable")
  const isBackOrdered = status !== undefined && valueOf(productStatuses, status, "is_back_ordered")
  const minimum = valueOf(products, product, "minimum_quantity")
  const maximum = valueOf(products, product, "maximum_quantity")
  const increment = valueOf(products, product, "quantity_increment")
  const onHand = valueOf(products, product, "quantity_on_hand")
  const refusal = (message: string) =>
    conflict(`${valueOf(products, product, "item_name")}: ${message}`, [
      { field: "quantity", code: "out_of_range", message }
    ])
  if (isUnavailable) throw refusal("is not available")
  if (quantity < minimum) throw refusal(`at least ${minimum}`)
  if (maximum > 0 && quantity > maximum) throw refusal(`at most ${maximum}`)
  if (quantity % increment !== 0) throw refusal(`only multiples of ${increment}`)
  if (!valueOf(products, product, "is_non_inventory") && !isBackOrdered && quantity > onHand)
    throw refusal(`only ${onHand} are there`)
}

const recomputeTotals = (tx: Transaction, id: number): void => {
  const cart = tx.get("carts", id)!
  const subtotal = linesOf(tx, id).reduce(
    (sum, line) => sum + Math.round(valueOf(cartItems, line, "price") * valueOf(cartItems, line, "quantity")),
    0
  )
  const total =
    subtotal +
    valueOf(carts, cart, "shipping_total") +
    valueOf(carts, cart, "tax_total") -
    valueOf(carts, cart, "discount_total")
  tx.update("carts", cart, { subtotal, grand_total: Math.max(0, total) })
}

const addItem = (tx: Transaction, cartId: number, item: JsonObject): void => {
  const quantity = positiveIn(item, "quantity")
  const productId = positiveIn(item, "product_id")
  const product = tx.get("products", productId)
  if (product === undefined)
    throw conflict("product_id names no product", [
      { field: "product_id", code: "not_found", message: "names no product" }
    ])
  const variants = JSON.stringify(item["variant_ids"] ?? [])
  const existing = linesOf(tx, cartId).find(
    (line) =>
      valueOf(cartItems, line, "product_id") === productId &&
      JSON.stringify(valueOf(cartItems, line, "variant_ids")) === variants
  )
  const total = quantity + (existing === undefined ? 0 : valueOf(cartItems, existing, "quantity"))
  checkQuantity(tx, product, total)
  const values = tx.decode(
    "cart_items",
    defined({
      cart_id: cartId,
      product_id: productId,
      quantity: total,
      variant_ids: item["variant_ids"],
      personalizations: item["personalizations"]
    }),
    true
  )
  if (existing !== undefined) tx.update("cart_items", existing, { quantity: total })
  else
    tx.insert("cart_items", {
      ...values,
      item_number: valueOf(products, product, "item_number"),
      item_name: valueOf(products, product, "item_name"),
      price: valueOf(products, product, "price")
    })
  if (linesOf(tx, cartId).length > linesMax) throw conflict(`a cart holds at most ${linesMax} lines`)
}

const addItems = (tx: Transaction, id: number, body: JsonObject): void => {
  openCart(tx, id)
  for (const item of itemsIn(body)) addItem(tx, id, item)
}

const productOf = (tx: Transaction, line: Row): Row =>
  tx.get("products", valueOf(cartItems, line, "product_id")!)!

const changeItems = (tx: Transaction, id: number, body: JsonObject): void => {
  openCart(tx, id)
  for (const item of itemsIn(body)) {
    const line = tx.get("cart_items", positiveIn(item, "cart_item_id"))
    const quantity = positiveIn(item, "quantity")
    if (line === undefined || valueOf(cartItems, line, "cart_id") !== id)
      throw conflict("cart_item_id names no line of this cart", [
        { field: "cart_item_id", code: "not_found", message: "names no line of this cart" }
      ])
    checkQuantity(tx, productOf(tx, line), quantity)
    tx.update("cart_items", line, { quantity })
  }
}

const isNumbers = (value: unknown): value is ReadonlyArray<number> =>
  Array.isArray(value) && value.every((part) => typeof part === "number")

/** Removes the lines that the body names; all of them when it names none. */
const removeItems = (tx: Transaction, id: number, body: JsonObject): void => {
  openCart(tx, id)
  const lineIds = body["cart_item_ids"]
  if (lineIds !== undefined && !isNumbers(lineIds)) throw invalid("cart_item_ids must be a list of ids")
  for (const line of linesOf(tx, id))
    if (lineIds === undefined || lineIds.includes(line.id)) tx.remove("cart_items", line)
}

const setFields =
  (fields: ReadonlyArray<string>) =>
  (tx: Transaction, id: number, body: JsonObject): void => {
    const cart = openCart(tx, id)
    const values = Object.entries(tx.decode("carts", body, false))
    tx.update("carts", cart, Object.fromEntries(values.filter(([name]) => fields.includes(name))))
  }

const objectIn = (body: JsonObject, name: string): JsonObject | undefined => {
  const value = body[name]
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as JsonObject)
    : undefined
}

/** Returns the cart's customer, or else the one with the e-mail address of the order, who is created when
 *  there is none. */
const customerOf = (tx: Transaction, cart: Row, body: JsonObject): number => {
  const customerId = valueOf(carts, cart, "customer_id") ?? 0
  if (customerId > 0) return customerId
  const customer = objectIn(body, "customer")
  const email = customer?.["email"] ?? cart.values["email"]
  const holder = typeof email === "string" ? tx.engine.byUnique("customer_email", email) : undefined
  return holder?.[1] ?? tx.insert("customers", tx.decode("customers", { ...customer, email }, true)).id
}

const addressOf = (tx: Transaction, cart: Row, body: JsonObject, name: string): number => {
  const address = objectIn(body, name) ?? (cart.values["shipping_address"] as JsonObject | undefined)
  if (address === undefined)
    throw conflict(`${name} is needed`, [{ field: name, code: "required", message: "is needed" }])
  return tx.insert("order_addresses", tx.decode("order_addresses", address, true)).id
}

const insertOrder = (tx: Transaction, cart: Row, body: JsonObject): Row => {
  const customerId = customerOf(tx, cart, body)
  const shipping = addressOf(tx, cart, body, "shipping_address")
  const billing =
    objectIn(body, "billing_address") === undefined ? shipping : addressOf(tx, cart, body, "billing_address")
  checkPaymentMethod(body)
  return tx.insert("orders", {
    customer_id: customerId,
    order_status_id: 1,
    order_shipping_address_id: shipping,
    order_billing_address_id: billing,
    subtotal: valueOf(carts, cart, "subtotal"),
    grand_total: valueOf(carts, cart, "grand_total"),
    shipping_total: valueOf(carts, cart, "shipping_total"),
    tax_total: valueOf(carts, cart, "tax_total"),
    discount_total: valueOf(carts, cart, "discount_total"),
    coupon_code: cart.values["coupon_code"] ?? "",
    selected_shipping_method: cart.values["selected_shipping_method"] ?? ""
  })
}

const checkPaymentMethod = (body: JsonObject): void => {
  const methodId = objectIn(body, "payment")?.["payment_method_id"] ?? 0
  if (methodId !== 0)
    throw conflict("there is no such payment method", [
      { field: "payment_method_id", code: "not_found", message: "names no payment method" }
    ])
}

const insertItem = (tx: Transaction, orderId: number, line: Row): void => {
  tx.insert("order_items", {
    order_id: orderId,
    product_id: valueOf(cartItems, line, "product_id"),
    quantity: valueOf(cartItems, line, "quantity"),
    item_number: valueOf(cartItems, line, "item_number"),
    item_name: valueOf(cartItems, line, "item_name"),
    price: valueOf(cartItems, line, "price"),
    variant_ids: valueOf(cartItems, line, "variant_ids"),
    personalizations: valueOf(cartItems, line, "personalizations")
  })
}

const insertPayment = (tx: Transaction, orderId: number, cart: Row, body: JsonObject): void => {
  const amount = valueOf(carts, cart, "grand_total") / moneyUnit
  const payment = { ...objectIn(body, "payment"), order_id: orderId, amount }
  tx.insert("order_payments", { ...tx.decode("order_payments", payment, true), payment_method_id: 0 })
}

/** Creates an order from a cart: customer and addresses where they are new, order, items, payment, stock. */
const placeOrder = (tx: Transaction, id: number, body: JsonObject): JsonObject => {
  const cart = openCart(tx, id)
  const lines = linesOf(tx, id)
  if (lines.length === 0) throw conflict("the cart is empty")
  for (const line of lines) checkQuantity(tx, productOf(tx, line), valueOf(cartItems, line, "quantity"))

  const order = insertOrder(tx, cart, body)
  for (const line of lines) insertItem(tx, order.id, line)
  insertPayment(tx, order.id, cart, body)
  announceOrder(tx, order.id)

  tx.update("carts", cart, {
    is_placed: true,
    associated_order_id: order.id,
    customer_id: order.values["customer_id"]!
  })
  return { order_id: order.id, order_approved: false, redirect_url: null, message: "" }
}

const readOrders = readNeed("orders", "Orders")
const writeOrders = writeNeed("orders", "Orders")

/** Declares a call that changes a cart and answers with the whole cart. */
const changing =
  (work: (tx: Transaction, id: number, body: JsonObject) => void) =>
  ({ engine, id, body }: EndpointCall): Effect.Effect<Answer, Refusal> =>
    written(engine, (tx) => {
      work(tx, id, body)
      recomputeTotals(tx, id)
      return cartBody(tx, id)
    })

const reading =
  (view: (tx: Transaction, cart: Row) => unknown) =>
  ({ engine, id }: EndpointCall): Answer =>
    jsonAnswer(
      200,
      engine.attempt((tx) => {
        const cart = tx.get("carts", id)
        if (cart === undefined) throw notFound("there is no such cart")
        return view(tx, cart)
      })
    )

const itemsBody = (tx: Transaction, cart: Row): JsonObject => {
  const items = linesOf(tx, cart.id).map((line) => tx.represent("cart_items", line))
  return { total_count: items.length, items }
}

const shippingBody = (_: Transaction, cart: Row): JsonObject => ({
  selected_shipping_method: valueOf(carts, cart, "selected_shipping_method"),
  shipping_total: valueOf(carts, cart, "shipping_total") / moneyUnit,
  shipping_address: valueOf(carts, cart, "shipping_address"),
  shipping_selections: valueOf(carts, cart, "shipping_selections")
})

const paymentMethodsBody = (): JsonObject => ({
  total_count: 1,
  payment_methods: [{ id: 0, name: "Credit card", type: "CreditCard" }]
})

const handlePlaceOrder = ({ engine, id, body, validate }: EndpointCall): Effect.Effect<Answer, Refusal> => {
  const checkout = (): JsonObject => ({
    cart: engine.attempt((tx) => {
      openCart(tx, id)
      return cartBody(tx, id)
    })
  })
  return Effect.andThen(
    validate("ValidateCheckout", checkout),
    written(engine, (tx) => placeOrder(tx, id, body))
  )
}

const shippingFields = ["selected_shipping_method", "shipping_address", "shipping_selections"]

export const cartEndpoints: ReadonlyArray<Endpoint> = [
  {
    path: "carts/:id/items",
    methods: {
      GET: { need: readOrders, handle: reading(itemsBody) },
      POST: { need: writeOrders, body: "object", handle: changing(addItems) },
      PUT: { need: writeOrders, body: "object", handle: changing(changeItems) },
      DELETE: { need: writeOrders, body: "optional", handle: changing(removeItems) }
    }
  },
  {
    path: "carts/:id/calculated",
    methods: { GET: { need: readOrders, handle: reading((tx, cart) => cartBody(tx, cart.id)) } }
  },
  {
    path: "carts/:id/shipping",
    methods: {
      GET: { need: readOrders, handle: reading(shippingBody) },
      PUT: { need: writeOrders, body: "object", handle: changing(setFields(shippingFields)) }
    }
  },
  {
    path: "carts/:id/shipping_estimation",
    methods: { PUT: { need: writeOrders, body: "object", handle: changing(setFields(["shipping_address"])) } }
  },
  {
    path: "carts/:id/coupon_code",
    methods: { PUT: { need: writeOrders, body: "object", handle: changing(setFields(["coupon_code"])) } }
  },
  {
    path: "carts/:id/payment_methods",
    methods: { GET: { need: readOrders, handle: reading(paymentMethodsBody) } }
  },
  {
    path: "carts/:id/place_order",
    methods: { POST: { need: writeOrders, body: "optional", handle: handlePlaceOrder } }
  }
]
