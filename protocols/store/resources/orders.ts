/** Orders and what belongs to them: items, payments, shipments, addresses, statuses; and how an order takes
 *  stock, exactly once per line, whatever the order of the calls. Source: store section 8.7. */
import { b, d, f, i, m, n, named, s, t, to, type Stored } from "../engine/fields.ts"
import { Refused } from "../problems.ts"
import { resource, valueOf, type Row } from "../engine/resource.ts"
import type { Transaction } from "../engine/resource.ts"
import { addressFields } from "./people.ts"
import { customValues, moveStock, products } from "./products.ts"
import { settingsOf } from "./settings.ts"

const ofOrder = to("orders", { required: true, gone: "cascade" })
const itemsMax = 1_000

export const orders = resource({
  name: "orders",
  singular: "order",
  subject: "orders",
  area: "Orders",
  firstId: 100_000,
  fields: {
    customer_id: to("customers", { required: true }),
    order_status_id: to("order_statuses", { required: true }),
    order_shipping_address_id: to("order_addresses", { required: true }),
    order_billing_address_id: to("order_addresses", { required: true }),
    customer_type_id: to("customer_types", { gone: "keep" }),
    ordered_at: d(),
    special_instructions: t(),
    ...named(
      `subtotal tax_total shipping_total discount_total grand_total cost_total handling_total additional_fees discounted_shipping_total delivery_tax`,
      m()
    ),
    ...named(
      "selected_shipping_method selected_shipping_provider_service ip_address referrer source_group search_phrase ppc_keyword session_id adcode entered_by entered_by_type order_number coupon_code campaign_code manufacturer_invoice_number",
      s()
    ),
    exported_to_accounting_system: f(),
    ...named("admin_comments public_comments instructions gift_message", t()),
    source: s("[none]"),
    ...named(
      "is_ppc is_payment_order_only is_gift expires reward_points_credited manufacturer_invoice_paid",
      b()
    ),
    store_id: i(1),
    ...named("adcode_id from_subscription_id from_quote_id sales_agent_user_id location_id", i(null)),
    manufacturer_invoice_amount: m(null),
    previous_order_status_id: i(null, { readOnly: true }),
    order_status_last_changed_at: d({ readOnly: true }),
    order_type: s("Order"),
    ...named("expires_at due_date", d()),
    channel: s("Online"),
    device: s("None"),
    shipping_selections: { kind: "list", initial: [] }
  },
  nested: {
    items: { of: "order_items", by: "order_id" },
    payments: { of: "order_payments", by: "order_id" },
    shipments: { of: "order_shipments", by: "order_id" },
    custom_fields: {
      from: ["custom_field_values", "custom_fields"],
      show: (read, row, limit) => customValues(read, "order_id", row.id, limit)
    }
  },
  prepare: ({ tx, before, given, values }) => {
    if (before === undefined && given["ordered_at"] === undefined) values["ordered_at"] = tx.nowMs
    if (before !== undefined && before.values["order_status_id"] !== values["order_status_id"]) {
      values["previous_order_status_id"] = before.values["order_status_id"] ?? null
      values["order_status_last_changed_at"] = tx.nowMs
    }
  },
  created: (tx, row, body) => {
    if (body["items"] !== undefined) placeItems(tx, row, body["items"], body)
    const order = tx.get("orders", row.id)!
    const status = statusOf(tx, order)
    const shown = () => ({ order: showOrder(tx, row.id) })
    if (!closed(status) && settingsOf(tx).remove_from_inventory_when === "Ordered") takeStock(tx, row.id)
    tx.emit("NewOrder", shown)
    if (!closed(status)) tx.emit("NewValidOrder", shown)
    tx.emit("OrderPlaced", shown)
    return body["items"] === undefined ? undefined : { items: showOrder(tx, row.id)["items"] }
  },
  // Open orders give their stock back; what has been shipped is gone, whatever becomes of its record.
  removing: (tx, row) => {
    if (flag(statusOf(tx, row), "is_open")) returnStock(tx, row.id)
    else
      for (const item of tx.children("order_items", "order_id", row.id, itemsMax))
        tx.update("order_items", item, { stock_taken: 0 })
  },
  events: ({ before, after }, tx) => {
    if (before !== undefined && after !== undefined)
      tx.emit("OrderUpdated", () => ({ order: tx.show("orders", after) }))
  }
})

const showOrder = (tx: Transaction, id: number): Record<string, unknown> => ({
  ...tx.show("orders", tx.get("orders", id)!),
  items: tx.children("order_items", "order_id", id, itemsMax).map((item) => tx.show("order_items", item))
})

/** Items that come with the order; totals that do not come are computed. */
const placeItems = (
  tx: Transaction,
  order: Row,
  given: unknown,
  body: Readonly<Record<string, unknown>>
): void => {
  if (!Array.isArray(given) || given.length > itemsMax)
    throw new Refused(400, `items must be a list of at most ${itemsMax}`, [
      { field: "items", code: "invalid_type", message: "must be a list" }
    ])
  let subtotal = 0
  for (const item of given) {
    if (typeof item !== "object" || item === null)
      throw new Refused(400, "an item must be an object", [
        { field: "items", code: "invalid_type", message: "must hold objects" }
      ])
    const row = tx.insert("order_items", tx.decode("order_items", { ...item, order_id: order.id }, true))
    subtotal += Math.round(
      (valueOf(orderItems, row, "price") as number) * (valueOf(orderItems, row, "quantity") as number)
    )
  }
  const money = (name: string): number => valueOf(orders, order, name) as number
  const totals: Record<string, Stored> = {}
  if (body["subtotal"] === undefined) totals["subtotal"] = subtotal
  if (body["grand_total"] === undefined)
    totals["grand_total"] = Math.max(
      0,
      (body["subtotal"] === undefined ? subtotal : money("subtotal")) -
        money("discount_total") +
        money("tax_total") +
        money("shipping_total") +
        money("handling_total") +
        money("additional_fees")
    )
  tx.update("orders", order, totals)
}

export const orderItems = resource({
  name: "order_items",
  singular: "order_item",
  subject: "orders",
  area: "Orders",
  fields: {
    order_id: ofOrder,
    product_id: to("products", { gone: "keep" }),
    item_number: s("", { lengthMax: 100 }),
    item_name: s(),
    price: m(),
    cost: m(),
    quantity: n(1, { min: 0.0001 }),
    weight: n(0, { min: 0 }),
    is_taxable: b(true),
    ...named("notes warehouse", s()),
    personalizations: { kind: "list", initial: [] },
    variant_ids: { kind: "list", initial: [] },
    stock_taken: n(0, { readOnly: true })
  },
  prepare: ({ tx, before, given, values }) => {
    const product =
      before !== undefined || typeof values["product_id"] !== "number"
        ? undefined
        : tx.get("products", values["product_id"])
    if (product === undefined) return
    for (const name of ["item_number", "item_name", "price", "cost", "weight"])
      if (given[name] === undefined) values[name] = valueOf(products, product, name)
    if (given["is_taxable"] === undefined)
      values["is_taxable"] = valueOf(products, product, "is_non_taxable") !== 1
  },
  removing: (tx, row) => {
    giveBack(tx, row)
  }
})

/** `stock_taken` is the mark: what this line has of the stock, written with the move itself. */
const takeStock = (tx: Transaction, orderId: number): void => {
  for (const item of tx.children("order_items", "order_id", orderId, itemsMax)) {
    const quantity = Math.ceil(valueOf(orderItems, item, "quantity") as number)
    const productId = valueOf(orderItems, item, "product_id") as number
    if (productId <= 0 || (valueOf(orderItems, item, "stock_taken") as number) > 0) continue
    if (moveStock(tx, productId, -quantity) !== undefined)
      tx.update("order_items", item, { stock_taken: quantity })
  }
}

const giveBack = (tx: Transaction, item: Row): void => {
  const taken = valueOf(orderItems, item, "stock_taken") as number
  if (taken <= 0) return
  moveStock(tx, valueOf(orderItems, item, "product_id") as number, taken)
  const now = tx.get("order_items", item.id)
  if (now !== undefined) tx.update("order_items", now, { stock_taken: 0 })
}

const returnStock = (tx: Transaction, orderId: number): void => {
  for (const item of tx.children("order_items", "order_id", orderId, itemsMax)) giveBack(tx, item)
}

const statusOf = (tx: Transaction, order: Row): Row | undefined =>
  tx.get("order_statuses", valueOf(orders, order, "order_status_id") as number)

const flag = (status: Row | undefined, name: string): boolean =>
  status !== undefined && valueOf(orderStatuses, status, name) === true

const closed = (status: Row | undefined): boolean =>
  flag(status, "is_cancelled") || flag(status, "is_declined")

/** The call that moves an order along: events, and stock, as the table of 8.7 says. */
export const changeOrderStatus = (
  tx: Transaction,
  id: number,
  body: Readonly<Record<string, unknown>>
): Record<string, unknown> => {
  const order = tx.get("orders", id)
  if (order === undefined) throw new Refused(404, "there is no such order")
  const wanted = body["order_status_id"]
  if (wanted === undefined)
    throw new Refused(400, "order_status_id is required", [
      { field: "order_status_id", code: "required", message: "is required" }
    ])
  if (typeof wanted !== "number" || !Number.isSafeInteger(wanted))
    throw new Refused(400, "order_status_id must be an integer", [
      { field: "order_status_id", code: "invalid_type", message: "must be an integer" }
    ])
  const before = statusOf(tx, order)
  const next = tx.get("order_statuses", wanted)
  if (next === undefined)
    throw new Refused(409, "order_status_id names no status", [
      { field: "order_status_id", code: "not_found", message: "names no status" }
    ])
  if (before?.id === next.id) return tx.show("orders", order)
  tx.update("orders", order, { order_status_id: wanted })
  if (closed(next)) returnStock(tx, id)
  else {
    const when = settingsOf(tx).remove_from_inventory_when
    if (when === "Ordered" || flag(next, "is_shipped")) takeStock(tx, id)
  }
  const shown = () => ({ order: showOrder(tx, id) })
  tx.emit("OrderStatusChanged", () => ({
    ...shown(),
    old_status: before === undefined ? null : tx.show("order_statuses", before),
    new_status: tx.show("order_statuses", next)
  }))
  if (flag(next, "is_cancelled")) tx.emit("OrderCanceled", shown)
  else if (flag(next, "is_declined")) tx.emit("OrderDeclined", shown)
  else if (flag(next, "is_shipped")) tx.emit("OrderShipped", shown)
  else if (closed(before)) tx.emit("OrderApproved", shown)
  return tx.show("orders", tx.get("orders", id)!)
}

export const orderStatuses = resource({
  name: "order_statuses",
  singular: "order_status",
  subject: "orders",
  area: "OrderStatuses",
  fields: {
    name: s("", { required: true, lengthMin: 1, unique: "order_status" }),
    ...named(
      "is_open is_declined is_cancelled is_shipped is_fully_refunded is_partially_refunded is_quote_status is_partially_shipped",
      b()
    ),
    color: s(),
    email_template_id: i(null)
  }
})

export const orderAddresses = resource({
  name: "order_addresses",
  singular: "order_address",
  subject: "orders",
  area: "Orders",
  fields: { ...addressFields, email: s(), customer_id: i(null) }
})

export const orderShipments = resource({
  name: "order_shipments",
  singular: "order_shipment",
  subject: "orders",
  area: "Orders",
  fields: {
    order_id: ofOrder,
    shipment_name: s(),
    ship_method: s(),
    provider: s(),
    tracking_number: s(),
    tracking_url: s(),
    ...named("cost weight", n(0, { min: 0 })),
    shipped_at: d(),
    is_shipped: b(),
    items: { kind: "list", initial: [] },
    comments: t()
  },
  same: (tx, values) =>
    typeof values["shipment_name"] !== "string" ||
    values["shipment_name"] === "" ||
    typeof values["order_id"] !== "number"
      ? undefined
      : tx
          .children("order_shipments", "order_id", values["order_id"], itemsMax)
          .find((row) => row.values["shipment_name"] === values["shipment_name"]),
  prepare: ({ tx, values, faults }) => {
    for (const item of (values["items"] ?? []) as ReadonlyArray<{ readonly order_item_id?: unknown }>) {
      const row =
        typeof item?.order_item_id === "number" ? tx.get("order_items", item.order_item_id) : undefined
      if (row === undefined || row.values["order_id"] !== values["order_id"])
        faults.push({ field: "items", code: "not_found", message: "must name items of this order" })
    }
  }
})

/** Only the end of a card's number is shown; the number itself is sealed, its security code is never kept. */
const cardFields = {
  card_number: s(null, {
    sealed: true,
    nullable: true,
    wrong: (value) => (/^\d{12,19}$/.test(value) ? undefined : "must have 12 to 19 digits")
  }),
  last_four: s("", { readOnly: true }),
  card_type: s(),
  ...named("expiration_month expiration_year", i(null, { min: 0 })),
  cardholder_name: s()
}

const noteLastFour = (given: Readonly<Record<string, Stored>>, values: Record<string, Stored>): void => {
  const number = given["card_number"]
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
    payment_type: s("CreditCard"),
    payment_method_id: i(0),
    amount: m(),
    is_approved: b(),
    is_declined: b(),
    transaction_id: s(),
    authorization_code: s(),
    paid_at: d(),
    ...cardFields
  },
  prepare: ({ given, values }) => noteLastFour(given, values)
})

export const creditCards = resource({
  name: "credit_cards",
  singular: "credit_card",
  subject: "orders",
  area: "Orders",
  uncached: true,
  fields: { customer_id: to("customers", { gone: "cascade" }), ...cardFields, is_default: b() },
  prepare: ({ given, values }) => noteLastFour(given, values)
})

export const customerPaymentMethods = resource({
  name: "customer_payment_methods",
  singular: "customer_payment_method",
  subject: "people",
  area: "Customers",
  fields: {
    customer_id: to("customers", { required: true, gone: "cascade" }),
    payment_type: s("CreditCard"),
    profile_token: s(),
    last_four: s("", { lengthMax: 4 }),
    is_default: b()
  }
})
