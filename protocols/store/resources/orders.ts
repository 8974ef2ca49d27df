/** Orders and their parts: items, payments, shipments, addresses, statuses. Guarantee: an order takes stock
 *  exactly once per line, whatever the order of the calls.
 *  Source: docs/spec/store.md, section 8.7. */
import { references, type Stored, type Values, field, fieldsOf } from "../engine/fields.ts"
import { conflict, invalid, notFound } from "../problems.ts"
import { resource, valueOf, type Row } from "../engine/resource.ts"
import type { Transaction } from "../engine/resource.ts"
import { addressFields } from "./customers.ts"
import { customFieldsOf } from "./custom-fields.ts"
import { moveStock, products } from "./products.ts"
import { inventorySettings } from "./settings.ts"
import type { JsonObject } from "../wire.ts"

const ofOrder = references("orders", { required: true, onDelete: "cascade" })
const itemsMax = 1_000

export const orders = resource({
  name: "orders",
  singular: "order",
  subject: "orders",
  area: "Orders",
  firstId: 100_000,
  fields: {
    customer_id: references("customers", { required: true }),
    order_status_id: references("order_statuses", { required: true }),
    order_shipping_address_id: references("order_addresses", { required: true }),
    order_billing_address_id: references("order_addresses", { required: true }),
    customer_type_id: references("customer_types", { onDelete: "keep" }),
    ordered_at: field.datetime(),
    special_instructions: field.text(),
    ...fieldsOf(
      field.money(),
      "subtotal tax_total shipping_total discount_total grand_total cost_total handling_total",
      "additional_fees discounted_shipping_total delivery_tax"
    ),
    ...fieldsOf(
      field.string(),
      "selected_shipping_method selected_shipping_provider_service ip_address referrer source_group",
      "search_phrase ppc_keyword session_id adcode entered_by entered_by_type order_number coupon_code",
      "campaign_code manufacturer_invoice_number"
    ),
    exported_to_accounting_system: field.flag(),
    ...fieldsOf(field.text(), "admin_comments public_comments instructions gift_message"),
    source: field.string("[none]"),
    ...fieldsOf(
      field.boolean(),
      "is_ppc is_payment_order_only is_gift expires reward_points_credited manufacturer_invoice_paid"
    ),
    store_id: field.integer(1),
    ...fieldsOf(
      field.integer(null),
      "adcode_id from_subscription_id from_quote_id sales_agent_user_id location_id"
    ),
    manufacturer_invoice_amount: field.money(null),
    previous_order_status_id: field.integer(null, { readOnly: true }),
    order_status_last_changed_at: field.datetime({ readOnly: true }),
    order_type: field.string("Order"),
    ...fieldsOf(field.datetime(), "expires_at due_date"),
    channel: field.string("Online"),
    device: field.string("None"),
    shipping_selections: field.list()
  },
  nested: {
    items: { of: "order_items", by: "order_id" },
    payments: { of: "order_payments", by: "order_id" },
    shipments: { of: "order_shipments", by: "order_id" },
    custom_fields: {
      from: ["custom_field_values", "custom_fields"],
      list: (read, row, limit) => customFieldsOf(read, "order_id", row.id, limit)
    }
  },
  prepare: ({ tx, before, input, values }) => {
    if (before === undefined && input["ordered_at"] === undefined) values["ordered_at"] = tx.nowMs
    if (before !== undefined && before.values["order_status_id"] !== values["order_status_id"]) {
      values["previous_order_status_id"] = before.values["order_status_id"] ?? null
      values["order_status_last_changed_at"] = tx.nowMs
    }
  },
  created: (tx, row, body) => {
    const { items } = body
    if (items !== undefined) placeItems(tx, row, items, body)
    announceOrder(tx, row.id)
    return items === undefined ? undefined : { items: representOrder(tx, row.id)["items"] }
  },
  // Deleting an open order returns its stock; shipped stock is not returned.
  removing: (tx, row) => {
    if (hasFlag(statusOf(tx, row), "is_open")) return returnStock(tx, row.id)
    for (const item of itemsOf(tx, row.id)) tx.update("order_items", item, { stock_taken: 0 })
  },
  events: ({ before, after }, tx) => {
    if (before !== undefined && after !== undefined)
      tx.emit("OrderUpdated", () => ({ order: tx.represent("orders", after) }))
  }
})

const itemsOf = (tx: Transaction, orderId: number): ReadonlyArray<Row> =>
  tx.children("order_items", "order_id", orderId, itemsMax)

const representOrder = (tx: Transaction, id: number): Record<string, unknown> => ({
  ...tx.represent("orders", tx.get("orders", id)!),
  items: itemsOf(tx, id).map((item) => tx.represent("order_items", item))
})

/** Takes the stock of a new order, when orders do, and emits its events. */
export const announceOrder = (tx: Transaction, id: number): void => {
  const isLive = !isEnded(statusOf(tx, tx.get("orders", id)!))
  const body = (): JsonObject => ({ order: representOrder(tx, id) })
  if (isLive && inventorySettings(tx).remove_from_inventory_when === "Ordered") takeStock(tx, id)
  tx.emit("NewOrder", body)
  if (isLive) tx.emit("NewValidOrder", body)
  tx.emit("OrderPlaced", body)
}

/** Inserts the items that come with an order, and computes the totals that do not come. */
const placeItems = (tx: Transaction, order: Row, items: unknown, body: JsonObject): void => {
  if (!Array.isArray(items) || items.length > itemsMax)
    throw invalid(`items must be a list of at most ${itemsMax}`, [
      { field: "items", code: "invalid_type", message: "must be a list" }
    ])
  let sum = 0
  for (const item of items) {
    if (typeof item !== "object" || item === null)
      throw invalid("an item must be an object", [
        { field: "items", code: "invalid_type", message: "must hold objects" }
      ])
    const row = tx.insert("order_items", tx.decode("order_items", { ...item, order_id: order.id }, true))
    sum += Math.round(valueOf(orderItems, row, "price") * valueOf(orderItems, row, "quantity"))
  }
  const subtotal = body["subtotal"] === undefined ? sum : valueOf(orders, order, "subtotal")
  const total =
    subtotal -
    valueOf(orders, order, "discount_total") +
    valueOf(orders, order, "tax_total") +
    valueOf(orders, order, "shipping_total") +
    valueOf(orders, order, "handling_total") +
    valueOf(orders, order, "additional_fees")
  const totals: Record<string, Stored> = {}
  if (body["subtotal"] === undefined) totals["subtotal"] = subtotal
  if (body["grand_total"] === undefined) totals["grand_total"] = Math.max(0, total)
  tx.update("orders", order, totals)
}

export const orderItems = resource({
  name: "order_items",
  singular: "order_item",
  subject: "orders",
  area: "Orders",
  fields: {
    order_id: ofOrder,
    product_id: references("products", { onDelete: "keep" }),
    item_number: field.string("", { lengthMax: 100 }),
    item_name: field.string(),
    price: field.money(),
    cost: field.money(),
    quantity: field.number(1, { min: 0.0001 }),
    weight: field.number(0, { min: 0 }),
    is_taxable: field.boolean(true),
    ...fieldsOf(field.string(), "notes warehouse"),
    personalizations: field.list(),
    variant_ids: field.list(),
    stock_taken: field.number(0, { readOnly: true })
  },
  prepare: ({ tx, before, input, values }) => {
    const product =
      before !== undefined || typeof values["product_id"] !== "number"
        ? undefined
        : tx.get("products", values["product_id"])
    if (product === undefined) return
    for (const name of ["item_number", "item_name", "price", "cost", "weight"] as const)
      if (input[name] === undefined) values[name] = valueOf(products, product, name)
    if (input["is_taxable"] === undefined)
      values["is_taxable"] = valueOf(products, product, "is_non_taxable") !== 1
  },
  removing: (tx, row) => {
    returnStockOf(tx, row)
  }
})

/** Takes the stock of an order's lines. `stock_taken` says what a line has taken, and is written with the
 *  move itself. */
const takeStock = (tx: Transaction, orderId: number): void => {
  for (const item of itemsOf(tx, orderId)) {
    const quantity = Math.ceil(valueOf(orderItems, item, "quantity"))
    const productId = valueOf(orderItems, item, "product_id") ?? 0
    if (productId <= 0 || valueOf(orderItems, item, "stock_taken") > 0) continue
    if (moveStock(tx, productId, -quantity) !== undefined)
      tx.update("order_items", item, { stock_taken: quantity })
  }
}

const returnStockOf = (tx: Transaction, item: Row): void => {
  const taken = valueOf(orderItems, item, "stock_taken")
  if (taken <= 0) return
  moveStock(tx, valueOf(orderItems, item, "product_id") ?? 0, taken)
  const current = tx.get("order_items", item.id)
  if (current !== undefined) tx.update("order_items", current, { stock_taken: 0 })
}

const returnStock = (tx: Transaction, orderId: number): void => {
  for (const item of itemsOf(tx, orderId)) returnStockOf(tx, item)
}

const statusOf = (tx: Transaction, order: Row): Row | undefined =>
  tx.get("order_statuses", valueOf(orders, order, "order_status_id") ?? 0)

type StatusFlag = "is_open" | "is_declined" | "is_cancelled" | "is_shipped"

const hasFlag = (status: Row | undefined, flag: StatusFlag): boolean =>
  status !== undefined && valueOf(orderStatuses, status, flag)

/** Returns whether the order is cancelled or declined, so that it will not be fulfilled. */
const isEnded = (status: Row | undefined): boolean =>
  hasFlag(status, "is_cancelled") || hasFlag(status, "is_declined")

const statusIdIn = ({ order_status_id: id }: JsonObject): number => {
  if (id === undefined)
    throw invalid("order_status_id is required", [
      { field: "order_status_id", code: "required", message: "is required" }
    ])
  if (typeof id !== "number" || !Number.isSafeInteger(id))
    throw invalid("order_status_id must be an integer", [
      { field: "order_status_id", code: "invalid_type", message: "must be an integer" }
    ])
  return id
}

/** Returns the event of a change of status, in addition to OrderStatusChanged. */
const eventOf = (before: Row | undefined, after: Row): string | undefined => {
  if (hasFlag(after, "is_cancelled")) return "OrderCanceled"
  if (hasFlag(after, "is_declined")) return "OrderDeclined"
  if (hasFlag(after, "is_shipped")) return "OrderShipped"
  return isEnded(before) ? "OrderApproved" : undefined
}

/** Moves an order along, with its stock and its events, as the table of section 8.7 says. */
export const changeOrderStatus = (tx: Transaction, id: number, body: JsonObject): JsonObject => {
  const order = tx.get("orders", id)
  if (order === undefined) throw notFound("there is no such order")
  const statusId = statusIdIn(body)
  const before = statusOf(tx, order)
  const after = tx.get("order_statuses", statusId)
  if (after === undefined)
    throw conflict("order_status_id names no status", [
      { field: "order_status_id", code: "not_found", message: "names no status" }
    ])
  if (before?.id === after.id) return tx.represent("orders", order)

  tx.update("orders", order, { order_status_id: statusId })
  const takesStock =
    inventorySettings(tx).remove_from_inventory_when === "Ordered" || hasFlag(after, "is_shipped")
  if (isEnded(after)) returnStock(tx, id)
  else if (takesStock) takeStock(tx, id)

  const orderBody = (): JsonObject => ({ order: representOrder(tx, id) })
  tx.emit("OrderStatusChanged", () => ({
    ...orderBody(),
    old_status: before === undefined ? null : tx.represent("order_statuses", before),
    new_status: tx.represent("order_statuses", after)
  }))
  const event = eventOf(before, after)
  if (event !== undefined) tx.emit(event, orderBody)
  return tx.represent("orders", tx.get("orders", id)!)
}

export const orderStatuses = resource({
  name: "order_statuses",
  singular: "order_status",
  subject: "orders",
  area: "OrderStatuses",
  fields: {
    name: field.string("", { required: true, lengthMin: 1, unique: "order_status" }),
    ...fieldsOf(
      field.boolean(),
      "is_open is_declined is_cancelled is_shipped is_fully_refunded is_partially_refunded",
      "is_quote_status is_partially_shipped"
    ),
    color: field.string(),
    email_template_id: field.integer(null)
  }
})

export const orderAddresses = resource({
  name: "order_addresses",
  singular: "order_address",
  subject: "orders",
  area: "Orders",
  fields: { ...addressFields, email: field.string(), customer_id: field.integer(null) }
})

export const orderShipments = resource({
  name: "order_shipments",
  singular: "order_shipment",
  subject: "orders",
  area: "Orders",
  fields: {
    order_id: ofOrder,
    shipment_name: field.string(),
    ship_method: field.string(),
    provider: field.string(),
    tracking_number: field.string(),
    tracking_url: field.string(),
    ...fieldsOf(field.number(0, { min: 0 }), "cost weight"),
    shipped_at: field.datetime(),
    is_shipped: field.boolean(),
    items: field.list(),
    comments: field.text()
  },
  // A shipment of the same order and name is the same shipment.
  existing: (tx, { shipment_name: name, order_id: orderId }) =>
    typeof name !== "string" || name === "" || typeof orderId !== "number"
      ? undefined
      : tx
          .children("order_shipments", "order_id", orderId, itemsMax)
          .find((row) => row.values["shipment_name"] === name),
  prepare: ({ tx, values, faults }) => {
    for (const item of (values["items"] ?? []) as ReadonlyArray<{ readonly order_item_id?: unknown }>) {
      const row =
        typeof item?.order_item_id === "number" ? tx.get("order_items", item.order_item_id) : undefined
      if (row === undefined || row.values["order_id"] !== values["order_id"])
        faults.push({ field: "items", code: "not_found", message: "must name items of this order" })
    }
  }
})

/** Fields of a card. An answer contains only the end of its number; the number itself is encrypted, and its
 *  security code is never stored. */
const cardFields = {
  card_number: field.string(null, {
    sealed: true,
    nullable: true,
    check: (value) => (/^\d{12,19}$/.test(value) ? undefined : "must have 12 to 19 digits")
  }),
  last_four: field.string("", { readOnly: true }),
  card_type: field.string(),
  ...fieldsOf(field.integer(null, { min: 0 }), "expiration_month expiration_year"),
  cardholder_name: field.string()
}

const setLastFour = (input: Values, values: Record<string, Stored>): void => {
  const number = input["card_number"]
  if (typeof number === "string") values["last_four"] = number.slice(-4)
  else if (number === null) values["last_four"] = ""
}

export const orderPayments = resource({
  name: "order_payments",
  singular: "order_payment",
  subject: "orders",
  area: "Orders",
  uncached: true,
  fields: {
    order_id: ofOrder,
    payment_type: field.string("CreditCard"),
    payment_method_id: field.integer(0),
    amount: field.money(),
    is_approved: field.boolean(),
    is_declined: field.boolean(),
    transaction_id: field.string(),
    authorization_code: field.string(),
    paid_at: field.datetime(),
    ...cardFields
  },
  prepare: ({ input, values }) => setLastFour(input, values)
})

export const creditCards = resource({
  name: "credit_cards",
  singular: "credit_card",
  subject: "orders",
  area: "Orders",
  uncached: true,
  fields: {
    customer_id: references("customers", { onDelete: "cascade" }),
    ...cardFields,
    is_default: field.boolean()
  },
  prepare: ({ input, values }) => setLastFour(input, values)
})

export const customerPaymentMethods = resource({
  name: "customer_payment_methods",
  singular: "customer_payment_method",
  subject: "people",
  area: "Customers",
  fields: {
    customer_id: references("customers", { required: true, onDelete: "cascade" }),
    payment_type: field.string("CreditCard"),
    profile_token: field.string(),
    last_four: field.string("", { lengthMax: 4 }),
    is_default: field.boolean()
  }
})
