/** The console's product pages, over the same engine as the API.
 *  Source: docs/spec/store.md, sections 3.7, 8.1. */
import { Effect } from "effect"
import type { Response, Route } from "../../../runtime/http.ts"
import type { Form } from "../../shared/form.ts"
import type { Engine } from "../engine/engine.ts"
import { find } from "../engine/search.ts"
import { ruled, thenLater, type Later } from "../later.ts"
import { notFound, type Refusal, wordingOf } from "../problems.ts"
import { idOf, parseQuery } from "../engine/query.ts"
import { valueOf, type Row } from "../engine/resource.ts"
import { products } from "../resources/products.ts"
import type { Validation } from "../engine/writes.ts"
import { RecordWrites } from "../engine/writes.ts"
import { bodyBytesMax, textOf, type Gate, type Visit } from "./gate.ts"
import { csrfField, Html, html, input, page, root, seeOther } from "./page.ts"
import type { JsonObject } from "../wire.ts"
import { moneyUnit } from "../engine/fields.ts"

const home = `${root}/products`
const perPage = 25
const price = (row: Row): string => (valueOf(products, row, "price") / moneyUnit).toFixed(2)

const listPage =
  (engine: Engine) =>
  ({ request, user }: Visit): Later<Response> => {
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
      { zone: engine.zone }
    )
    return thenLater(find(engine, products, query), ({ ids, total }) => {
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
    })
  }

interface Draft {
  readonly item_name: string
  readonly item_number: string
  readonly price: string
  readonly quantity_on_hand: string
  readonly product_status_id: string
  readonly primary_category_id: string
}

/** A choice among the records of a resource. */
interface Select {
  readonly name: string
  readonly label: string
  readonly resource: string
}

const statusSelect: Select = { name: "product_status_id", label: "Status", resource: "product_statuses" }
const categorySelect: Select = { name: "primary_category_id", label: "Category", resource: "categories" }

const select = (engine: Engine, { name, label, resource }: Select, chosen: string): Html =>
  html`<label for="${name}">${label}</label><select id="${name}" name="${name}">${engine.all(resource).map((row) => html`<option value="${row.id}"${String(row.id) === chosen && new Html(" selected")}>${String(row.values["lookup_path"] ?? row.values["name"])}</option>`)}</select>`

/** A form for one product: where it is sent, and what it holds. */
interface ProductForm {
  readonly title: string
  readonly action: string
  readonly draft: Draft
}

const formPage = (
  engine: Engine,
  { user }: Visit,
  { title, action, draft }: ProductForm,
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
${input("price", "Price", draft.price, { type: "number" })}${input("quantity_on_hand", "Stock", draft.quantity_on_hand, { type: "number" })}${select(engine, statusSelect, draft.product_status_id)}${select(engine, categorySelect, draft.primary_category_id)}
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

const bodyOf = (draft: Draft): JsonObject => ({
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
  if (row === undefined) throw notFound("There is no such product.")
  return row
}

const draftFrom = (row: Row): Draft => ({
  item_name: String(row.values["item_name"]),
  item_number: String(valueOf(products, row, "item_number")),
  price: String(valueOf(products, row, "price") / moneyUnit),
  quantity_on_hand: String(valueOf(products, row, "quantity_on_hand")),
  product_status_id: String(row.values["product_status_id"]),
  primary_category_id: String(row.values["primary_category_id"])
})

const newForm = (draft: Draft): ProductForm => ({ title: "New product", action: `${home}/new`, draft })

const editForm = (row: Row, draft: Draft): ProductForm => ({
  title: String(row.values["item_name"]),
  action: `${home}/${row.id}`,
  draft
})

export const productRoutes = (gate: Gate, engine: Engine, validation: Validation): ReadonlyArray<Route> => {
  const writes = new RecordWrites(engine, validation)
  const body = { as: "buffer", bytesMax: bodyBytesMax } as const

  /** Saves a product: redirects to the list, or returns the form again with its faults. */
  const save = (
    visit: Visit,
    form: ProductForm,
    write: (body: JsonObject) => Effect.Effect<unknown, Refusal>
  ): Effect.Effect<Response> =>
    Effect.match(
      ruled(() => write(bodyOf(form.draft))),
      {
        onSuccess: () => seeOther(home),
        onFailure: ({ problem }) => formPage(engine, visit, form, wordingOf(problem).details)
      }
    )

  return [
    { method: "GET", path: home, handle: gate.page("Products", listPage(engine)) },
    {
      method: "GET",
      path: `${home}/new`,
      handle: gate.page("Products", (visit) => formPage(engine, visit, newForm(blank)))
    },
    {
      method: "POST",
      path: `${home}/new`,
      body,
      handle: gate.form("Products", (visit, form) =>
        save(visit, newForm(draftOf(form)), (product) => writes.create(products, product))
      )
    },
    {
      method: "GET",
      path: `${home}/:id`,
      handle: gate.page("Products", (visit) => {
        const row = rowOf(engine, visit)
        return formPage(engine, visit, editForm(row, draftFrom(row)))
      })
    },
    {
      method: "POST",
      path: `${home}/:id`,
      body,
      handle: gate.form("Products", (visit, form) => {
        const row = rowOf(engine, visit)
        const address = { resource: products, id: row.id }
        return save(visit, editForm(row, draftOf(form)), (product) => writes.update(address, product))
      })
    }
  ]
}
