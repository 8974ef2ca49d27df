/** Carts and their lines. A placed cart never changes again.
 *  Source: docs/spec/store.md, section 8.9. */
import { field, fieldsOf, references } from "../engine/fields.ts"
import { resource } from "../engine/resource.ts"
import { conflict, type Refusal } from "../problems.ts"

export const alreadyPlaced = (): Refusal => conflict("this cart has been placed")

export const carts = resource({
  name: "carts",
  singular: "cart",
  subject: "orders",
  area: "Orders",
  uncached: true,
  validate: "ValidateCart",
  fields: {
    customer_id: references("customers", { onDelete: "cascade" }),
    ...fieldsOf(field.string(), "email session_id coupon_code selected_shipping_method"),
    store_id: field.integer(1),
    ...fieldsOf(field.money(0, { readOnly: true }), "subtotal tax_total discount_total grand_total"),
    shipping_total: field.money(0, { readOnly: true }),
    shipping_address: field.object(),
    shipping_selections: field.list(),
    is_placed: field.boolean(false, { readOnly: true }),
    associated_order_id: field.integer(null, { readOnly: true }),
    last_visited_at: field.datetime()
  },
  nested: { items: { of: "cart_items", by: "cart_id" } },
  prepare: ({ before, input }) => {
    if (before?.values["is_placed"] === true && Object.keys(input).length > 0) throw alreadyPlaced()
  },
  removing: (_, row) => {
    if (row.values["is_placed"] === true) throw alreadyPlaced()
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
    cart_id: references("carts", { required: true, onDelete: "cascade" }),
    product_id: references("products", { required: true, onDelete: "cascade" }),
    quantity: field.number(1),
    item_number: field.string(),
    item_name: field.string(),
    price: field.money(),
    variant_ids: field.list(),
    personalizations: field.list()
  }
})
