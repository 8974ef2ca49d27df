/** The console's product pages, over the same engine as the API; and what webhooks could not deliver. Source:
 *  store sections 8.1, 9.2. */
import type { Response, Route } from "../../../runtime/http.ts"
import type { Form } from "../../shared/form.ts"
import type { Engine } from "../engine/engine.ts"
import { find } from "../engine/listing.ts"
import { Refused } from "../problems.ts"
import { idOf, parseQuery } from "../engine/query.ts"
import { valueOf, type Row } from "../engine/resource.ts"
import { products } from "../resources/products.ts"
import type { Webhooks } from "../calls/webhooks.ts"
import type { Validation } from "../engine/writing.ts"
import { Writing } from "../engine/writing.ts"
import { bodyBytesMax, textOf, type Gate, type Visit } from "./gate.ts"
import { csrfField, Html, html, input, page, root, seeOther } from "./page.ts"

const home = `${root}/products`
const hooks = `${root}/tools/webhooks`
const perPage = 25
const price = (row: Row): string => ((valueOf(products, row, "price") as number) / 10_000).toFixed(2)

const listPage =
  (engine: Engine) =>
  async ({ request, user }: Visit): Promise<Response> => {
    const asked = new URLSearchParams(request.query)
    const search = (asked.get("search") ?? "").slice(0, 100)
    const at = Math.max(1, idOf(asked.get("page") ?? "1") ?? 1)
    const query = parseQuery(
      products,
      new URLSearchParams({
        page: String(Math.min(at, 999_999_999)),
        count: String(perPage),
        sort: "item_name",
        ...(search === "" ? {} : { item_name: `like:${search.replaceAll(/ (?:AND|OR) /g, " ")}` })
      }).toString(),
      engine.zone
    )
    const { ids, total } = await find(engine, products, query)
    const last = Math.max(1, Math.ceil(total / perPage))
    const link = (page: number, text: string): Html =>
      html`<a href="${home}?${new URLSearchParams({ page: String(page), search }).toString()}">${text}</a>`
    return page(
      { title: "Products", crumbs: ["Catalog", "Products"], current: "products", user },
      html`<div class="row"><h1>Products</h1><a class="button" href="${home}/new">New</a></div>
<form class="card" method="get" action="${home}" role="search">${input("search", "Name holds", search, { type: "search" })} <button class="plain">Search</button></form>
<div class="card"><table><thead><tr><th scope="col">Name</th><th scope="col">Number</th><th scope="col" class="number">Price</th><th scope="col" class="number">Stock</th><th scope="col">Status</th></tr></thead><tbody>${ids.flatMap(
        (id) => {
          const row = engine.get("products", id)
          const status =
            row === undefined
              ? undefined
              : engine.get("product_statuses", row.values["product_status_id"] as number)
          return row === undefined
            ? []
            : [
                html`<tr><td><a href="${home}/${id}">${String(row.values["item_name"])}</a></td><td>${String(valueOf(products, row, "item_number"))}</td><td class="number">${price(row)}</td><td class="number">${String(valueOf(products, row, "quantity_on_hand"))}</td><td>${String(status?.values["name"] ?? "")}</td></tr>`
              ]
        }
      )}</tbody></table><p class="row"><span>${total === 1 ? "1 product" : `${total} products`}, page ${Math.min(at, last)} of ${last}</span><span>${at > 1 && link(at - 1, "Previous page")} ${at < last && link(at + 1, "Next page")}</span></p></div>`
    )
  }

interface Draft {
  readonly item_name: string
  readonly item_number: string
  readonly price: string
  readonly quantity_on_hand: string
  readonly product_status_id: string
  readonly primary_category_id: string
}

const select = (engine: Engine, name: string, label: string, of: string, chosen: string): Html =>
  html`<label for="${name}">${label}</label><select id="${name}" name="${name}">${engine.all(of).map((row) => html`<option value="${row.id}"${String(row.id) === chosen && new Html(" selected")}>${String(row.values["lookup_path"] ?? row.values["name"])}</option>`)}</select>`

const formPage = (
  engine: Engine,
  { user }: Visit,
  title: string,
  action: string,
  draft: Draft,
  problem?: string
): Response =>
  page(
    {
      title,
      crumbs: ["Catalog", "Products", title],
      current: "products",
      user,
      problem,
      status: problem === undefined ? 200 : 400
    },
    html`<h1>${title}</h1><form class="card" method="post" action="${action}">${csrfField(user.csrf)}${input("item_name", "Name", draft.item_name, { required: true })}${input("item_number", "Item number", draft.item_number)}
${input("price", "Price", draft.price, { type: "number" })}${input("quantity_on_hand", "Stock", draft.quantity_on_hand, { type: "number" })}${select(engine, "product_status_id", "Status", "product_statuses", draft.product_status_id)}${select(engine, "primary_category_id", "Category", "categories", draft.primary_category_id)}
<p><button>Save</button> <a href="${home}">Cancel</a></p></form>`
  )

const blank: Draft = {
  item_name: "",
  item_number: "",
  price: "0",
  quantity_on_hand: "0",
  product_status_id: "1",
  primary_category_id: "1"
}

const draftOf = (form: Form): Draft =>
  Object.fromEntries(Object.keys(blank).map((name) => [name, textOf(form, name)])) as unknown as Draft

const bodyOf = (draft: Draft): Record<string, unknown> => ({
  item_name: draft.item_name,
  item_number: draft.item_number,
  ...Object.fromEntries(
    (["price", "quantity_on_hand", "product_status_id", "primary_category_id"] as const).map((name) => [
      name,
      draft[name].trim() === "" || Number.isNaN(Number(draft[name])) ? draft[name] : Number(draft[name])
    ])
  )
})

const rowOf = (engine: Engine, { request }: Visit): Row => {
  const id = idOf(request.params["id"]!)
  const row = id === undefined ? undefined : engine.get("products", id)
  if (row === undefined) throw new Refused(404, "There is no such product.")
  return row
}

const draftFrom = (row: Row): Draft => ({
  item_name: String(row.values["item_name"]),
  item_number: String(valueOf(products, row, "item_number")),
  price: String((valueOf(products, row, "price") as number) / 10_000),
  quantity_on_hand: String(valueOf(products, row, "quantity_on_hand")),
  product_status_id: String(row.values["product_status_id"]),
  primary_category_id: String(row.values["primary_category_id"])
})

export const productRoutes = (gate: Gate, engine: Engine, validation: Validation): ReadonlyArray<Route> => {
  const writing = new Writing(engine, validation)
  const body = { as: "buffer", bytesMax: bodyBytesMax } as const
  const saving = async (
    visit: Visit,
    form: Form,
    title: string,
    action: string,
    save: (body: Record<string, unknown>) => Promise<unknown>
  ): Promise<Response> => {
    try {
      await save(bodyOf(draftOf(form)))
    } catch (cause) {
      if (cause instanceof Refused)
        return formPage(engine, visit, title, action, draftOf(form), cause.details)
      throw cause
    }
    return seeOther(home)
  }
  return [
    { method: "GET", path: home, handle: gate.page("Products", listPage(engine)) },
    {
      method: "GET",
      path: `${home}/new`,
      handle: gate.page("Products", (visit) => formPage(engine, visit, "New product", `${home}/new`, blank))
    },
    {
      method: "POST",
      path: `${home}/new`,
      body,
      handle: gate.form("Products", (visit, form) =>
        saving(visit, form, "New product", `${home}/new`, (given) => writing.create(products, given))
      )
    },
    {
      method: "GET",
      path: `${home}/:id`,
      handle: gate.page("Products", (visit) => {
        const row = rowOf(engine, visit)
        return formPage(engine, visit, String(row.values["item_name"]), `${home}/${row.id}`, draftFrom(row))
      })
    },
    {
      method: "POST",
      path: `${home}/:id`,
      body,
      handle: gate.form("Products", (visit, form) => {
        const row = rowOf(engine, visit)
        return saving(visit, form, String(row.values["item_name"]), `${home}/${row.id}`, (given) =>
          writing.update(products, row.id, given, { match: undefined, unmodifiedSince: undefined })
        )
      })
    }
  ]
}

export const webhookRoutes = (gate: Gate, engine: Engine, webhooks: Webhooks): ReadonlyArray<Route> => [
  {
    method: "GET",
    path: hooks,
    handle: gate.page("StoreSettings", ({ user }) =>
      page(
        { title: "Webhooks", crumbs: ["Tools", "Webhooks"], current: "webhooks", user },
        html`<h1>Webhooks</h1>`,
        ...(engine.all("webhooks").length === 0
          ? [
              html`<div class="card"><p>There are no subscriptions. They are made with <code>POST /api/v1/webhooks</code>.</p></div>`
            ]
          : engine.all("webhooks").map(
              ({ id, values }) =>
                html`<section class="card" aria-labelledby="w${id}"><h2 id="w${id}">${String(values["event_type"])}</h2><dl><dt>Target</dt><dd><code>${String(values["url"])}</code></dd><dt>Waiting</dt><dd>${webhooks.waiting(String(id))}</dd><dt>Dropped</dt><dd>${webhooks.dropped(String(id))}</dd></dl>
${
  webhooks.putAside(String(id)).length > 0 &&
  html`<table><caption class="hint">Not delivered</caption><thead><tr><th scope="col">When</th><th scope="col">Delivery</th><th scope="col">Why</th><th scope="col">Action</th></tr></thead><tbody>${webhooks
    .putAside(String(id))
    .slice(0, 100)
    .map(
      (entry) =>
        html`<tr><td>${new Date(entry.atMs).toISOString()}</td><td><code>${entry.delivery}</code></td><td>${entry.why}</td><td><form class="inline" method="post" action="${hooks}/${id}/${entry.seq}/again">${csrfField(user.csrf)}<button class="plain">Send again</button></form></td></tr>`
    )}</tbody></table>`
}</section>`
            ))
      )
    )
  },
  {
    method: "POST",
    path: `${hooks}/:id/:seq/again`,
    body: { as: "buffer", bytesMax: bodyBytesMax },
    handle: gate.form("StoreSettings", async ({ request: { params } }) => {
      await webhooks.again(params["id"]!, Number(params["seq"]))
      return seeOther(hooks)
    })
  }
]
