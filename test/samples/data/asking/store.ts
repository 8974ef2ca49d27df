/** What the store is asked: every collection, what is sealed, its console, and its deliveries. */
import { createHmac } from "node:crypto"
import { Browser, type Asking } from "../program.ts"
import type { Asked } from "./asked.ts"

const collections = [
  "categories",
  "manufacturers",
  "products",
  "product_statuses",
  "variant_groups",
  "product_variants",
  "variant_inventory",
  "product_pictures",
  "customer_types",
  "product_pricing",
  "attribute_groups",
  "attributes",
  "product_lists",
  "warehouses",
  "stores",
  "custom_fields",
  "custom_field_values",
  "customers",
  "addresses",
  "order_statuses",
  "order_addresses",
  "orders",
  "order_items",
  "order_payments",
  "order_shipments",
  "credit_cards",
  "customer_payment_methods",
  "carts",
  "cart_items",
  "users",
  "webhooks"
]

export const askStore = async (to: Asked, collectionsAsked = collections): Promise<void> => {
  const { facts, program } = to
  let calls = 0
  const ask = async (
    path: string,
    asking: Asking = {},
    name?: string,
    token: string = facts["storeToken"] ?? facts["storeApp"].token
  ): Promise<any> => {
    if (++calls % 40 === 0) await program.later()
    return to.ask(
      `/api/v1/${path}`,
      {
        ...asking,
        headers: { "x-sample-auth-token": token, "x-store-auth-token": token, ...asking.headers }
      },
      name
    )
  }
  await program.later()
  for (const collection of collectionsAsked) await ask(`${collection}.json`)
  const { store: ids } = facts
  for (const [name, id] of Object.entries(ids).filter(([name]) => collectionsAsked.includes(name)))
    await ask(`${name}/${id as number}`)
  for (const resource of ["credit_cards", "products"])
    await ask(
      `${resource}/${ids[resource]}/decrypted`,
      {},
      `decrypted: ${resource}`,
      facts["storeUser"]?.access_token ?? facts["storeApp"].token
    )
  if (ids.orders !== undefined) {
    await ask(
      `order_payments/${ids.order_payments}/decrypted`,
      {},
      "decrypted: order_payments",
      facts["storeUser"]?.access_token ?? facts["storeApp"].token
    )
    for (const path of [
      `carts/${ids.placed}/calculated`,
      `orders/${ids.placedOrder}`,
      `products/${ids.products}/filled`,
      "inventory?item_number=sample-1",
      "inventory/settings",
      "products.json?price=gt:5+AND+lte:40&sort=-price&fields=item_name,price"
    ])
      await ask(path)
    await ask(
      "products",
      { json: facts["idempotency"].body, headers: { "idempotency-key": facts["idempotency"].key } },
      "store: asked again"
    )
    await ask(
      "products",
      {
        json: { ...facts["idempotency"].body, item_number: "SAMPLE-3" },
        headers: { "idempotency-key": "another" }
      },
      "store: asked under a new key"
    )
    await ask(
      "products",
      { json: { ...facts["idempotency"].body, item_number: "sample-1" } },
      "store: a number that is taken"
    )
    await ask(`categories/${ids.categories}`, { method: "DELETE" }, "store: a category that is referred to")
    const form = new FormData()
    form.set("about", JSON.stringify({ destination: "images/sample.png" }))
    form.set("file", new Blob(["another"]), "sample.png")
    await ask("upload", { raw: form }, "store: a file that is there")
    await ask(
      "products",
      { json: { item_name: "After", item_number: "AFTER-1", product_status_id: 1, primary_category_id: 1 } },
      "store: the next product",
      facts["storeApp"].token
    )
  }
  const browser = new Browser(program, facts["consoleCookies"])
  for (const path of ["session", "apps", `apps/${facts["storeApp"].id}/tokens`])
    await to.take(`console: ${path}`, browser.call(`/store/admin/api/${path}`))
  await to.take("console: webhooks", browser.call("/store/admin/tools/webhooks"))
  if (facts["hooks"] === undefined) return

  // Deliveries that rested or were under way arrive, signed; one that was put aside is sent again.
  const arrivals = (path: string) => to.outside.heard.filter((one) => one.path === `/hooks/${path}`)
  await to.until("deliveries", async () => ["resting", "sending"].every((path) => arrivals(path).length > 0))
  const page = await browser.call("/store/admin/tools/webhooks")
  const again =
    /action="(\/store\/admin\/tools\/webhooks\/\d+\/\d+\/again)"/.exec(page.text)?.[1] ?? "/nowhere"
  const sent = await browser.call(again, { form: browser.hidden(page.text) })
  to.say("console: sent again", sent.headers.get("location"), sent.status)
  await to.until("what was put aside", async () => arrivals("dead").length > 0)
  for (const path of ["resting", "sending", "dead"]) {
    const [{ headers, text } = { headers: {}, text: "" }] = arrivals(path) as ReadonlyArray<{
      readonly headers: Record<string, any>
      readonly text: string
    }>
    const signature = createHmac("sha256", "a made-up secret of a webhook")
      .update(`${headers["x-sample-timestamp"]}.`)
      .update(Buffer.from(text, "latin1"))
      .digest("hex")
    to.say(`delivery: ${path}`, {
      event: headers["x-sample-event"],
      delivery: headers["x-sample-delivery"],
      signed: headers["x-sample-signature"] === `sha256=${signature}`,
      body: JSON.parse(Buffer.from(text, "latin1").toString())
    })
  }
}
