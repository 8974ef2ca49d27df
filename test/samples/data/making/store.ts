/** Fills the store: a record of every collection, orders and carts, an app of the console, webhooks. */
import { outsideUrl } from "../outside.ts"
import { Browser } from "../program.ts"
import { callback, good, type Making } from "./making.ts"

export const fillStore = async (to: Making): Promise<void> => {
  const { facts } = to
  const make = async (resource: string, json: object): Promise<number> =>
    (await to.store(resource, { json })).id
  const ids: Record<string, number> = (facts["store"] = {})
  ids["categories"] = await make("categories", {
    name: "Samples",
    short_description: "<b>bold</b>",
    sort_order: 3
  })
  ids["manufacturers"] = await make("manufacturers", { name: "Maker of samples", url_rewrite: "maker" })
  ids["products"] = await make("products", {
    item_name: "A sample",
    item_number: "SAMPLE-1",
    product_status_id: 1,
    primary_category_id: ids["categories"],
    manufacturer_id: ids["manufacturers"],
    price: 12.34,
    cost: 5,
    weight: 1.5,
    long_description_1: "<p>Long</p>",
    keywords: "one two",
    quantity_on_hand: 40,
    e_product_password: "made-up e-product password",
    gtin: "4006381333931"
  })
  ids["product_statuses"] = await make("product_statuses", { name: "Sampled", is_back_ordered: true })
  ids["variant_groups"] = await make("variant_groups", { name: "Colour", group_type: "DropDown" })
  ids["product_variants"] = await make("product_variants", {
    product_id: ids["products"],
    variant_group_id: ids["variant_groups"],
    description: "Red",
    price_adjustment: 1.5
  })
  ids["variant_inventory"] = await make("variant_inventory", {
    product_id: ids["products"],
    item_number: "SAMPLE-1-RED",
    quantity: 7,
    product_status_id: 1,
    variant_ids: [ids["product_variants"]]
  })
  ids["product_pictures"] = await make("product_pictures", {
    product_id: ids["products"],
    image_file: "images/sample.png",
    is_primary: true
  })
  ids["customer_types"] = await make("customer_types", { name: "Wholesale", customer_level: 2 })
  ids["product_pricing"] = await make("product_pricing", {
    product_id: ids["products"],
    customer_type_id: ids["customer_types"],
    price: 9.99,
    minimum_quantity: 10,
    starts_at: "2026-01-01T00:00:00"
  })
  ids["attribute_groups"] = await make("attribute_groups", { name: "Material" })
  ids["attributes"] = await make("attributes", {
    name: "Wood",
    attribute_group_id: ids["attribute_groups"],
    value: "oak",
    is_searchable: true
  })
  ids["product_lists"] = await make("product_lists", { name: "Best of", product_ids: [ids["products"]] })
  ids["warehouses"] = await make("warehouses", { name: "North", code: "N", city: "Oslo" })
  ids["stores"] = await make("stores", { name: "Second", domain: "second.example.com", currency: "EUR" })
  ids["custom_fields"] = await make("custom_fields", { name: "Engraving", applies_to: "Product" })
  ids["custom_field_values"] = await make("custom_field_values", {
    custom_field_id: ids["custom_fields"],
    product_id: ids["products"],
    value: "To Ada"
  })
  ids["customers"] = await make("customers", {
    email: "Customer@Example.com",
    store_id: 1,
    first_name: "Cus",
    last_name: "Tomer",
    customer_type_id: ids["customer_types"],
    credit_limit: 100.5
  })
  ids["addresses"] = await make("addresses", {
    customer_id: ids["customers"],
    address_line_1: "1 Sample Street",
    city: "Sampleton",
    is_default_shipping_address: true
  })
  ids["order_statuses"] = await make("order_statuses", { name: "Sampling", is_open: true })
  ids["order_addresses"] = await make("order_addresses", {
    address_line_1: "2 Order Street",
    city: "Orderton"
  })
  ids["orders"] = await make("orders", {
    customer_id: ids["customers"],
    order_status_id: 1,
    order_billing_address_id: ids["order_addresses"],
    order_shipping_address_id: ids["order_addresses"],
    admin_comments: "sample",
    grand_total: 24.68
  })
  ids["order_items"] = await make("order_items", {
    order_id: ids["orders"],
    product_id: ids["products"],
    quantity: 2,
    price: 12.34
  })
  ids["order_payments"] = await make("order_payments", {
    order_id: ids["orders"],
    amount: 24.68,
    card_number: "4111111111111111"
  })
  ids["order_shipments"] = await make("order_shipments", {
    order_id: ids["orders"],
    tracking_number: "TRACK-1",
    cost: 3.5
  })
  ids["credit_cards"] = await make("credit_cards", {
    customer_id: ids["customers"],
    card_number: "5555555555554444"
  })
  ids["customer_payment_methods"] = await make("customer_payment_methods", { customer_id: ids["customers"] })
  ids["carts"] = await make("carts", { customer_id: ids["customers"], coupon_code: "TEN" })
  await to.store(`carts/${ids["carts"]}/items`, {
    json: { items: [{ product_id: ids["products"], quantity: 3 }] }
  })
  ids["placed"] = await make("carts", { email: "new@example.com" })
  await to.store(`carts/${ids["placed"]}/items`, {
    json: { items: [{ product_id: ids["products"], quantity: 1 }] }
  })
  const placed = await to.store(`carts/${ids["placed"]}/place_order`, {
    json: {
      customer: { store_id: 1 },
      shipping_address: { address_line_1: "3 Cart Street" },
      payment: { card_number: "4000056655665556" }
    }
  })
  ids["placedOrder"] = placed.order_id
  await to.store("inventory/add", { json: { product_id: ids["products"], quantity: 5 } })
  await to.store("inventory/settings", { method: "PUT", json: { remove_from_inventory_when: "Shipped" } })
  facts["idempotency"] = {
    key: "sample-idempotency-1",
    body: { item_name: "Made once", item_number: "SAMPLE-2", product_status_id: 1, primary_category_id: 1 }
  }
  await to.store("products", {
    json: facts["idempotency"].body,
    headers: { "idempotency-key": facts["idempotency"].key }
  })
  const form = new FormData()
  form.set("about", JSON.stringify({ destination: "images/sample.png" }))
  form.set("file", new Blob(["made-up picture"]), "sample.png")
  await to.store("upload", { raw: form })
}
/** Signs in to the console and makes an app with a token there. */
export const consoleOf = async (to: Making, username: string, password: string): Promise<void> => {
  const { facts } = to
  const browser = new Browser(to.program)
  const page = await browser.call("/store/admin/login")
  await good(
    browser.call("/store/admin/login", { form: { ...browser.hidden(page.text), username, password } }),
    303
  )
  facts["consoleCookies"] = Object.fromEntries(browser.cookies)
  const session = await good(browser.call("/store/admin/api/session"))
  const headers = { "x-csrf-token": session.csrf_token }
  const app = await good(
    browser.call("/store/admin/api/apps", {
      headers,
      json: {
        name: "Sample app",
        kind: "custom",
        scopes: ["catalog", "read_catalog", "orders", "people", "decrypt"],
        redirect_uris: [callback],
        allowed_origins: ["https://page.example.com"],
        run_without_user: true
      }
    })
  )
  const token = await good(
    browser.call(`/store/admin/api/apps/${app.app_id}/tokens`, {
      headers,
      json: { scopes: ["catalog", "orders", "people"], label: "sampled" }
    })
  )
  facts["storeApp"] = { id: app.app_id, secret: app.app_secret, token: token.token }
}
export const webhook = async (to: Making, path: string, event: string): Promise<number> =>
  (
    await to.store("webhooks", {
      json: { event_type: event, url: `${outsideUrl}/hooks/${path}`, secret: "a made-up secret of a webhook" }
    })
  ).id
