/** Categories: a tree at most 32 deep, each with its path in words.
 *  Source: docs/spec/store.md, section 8.3. */
import { Effect } from "effect"
import { references, field, fieldsOf } from "../engine/fields.ts"
import { nextTurn } from "../../shared/event-loop.ts"
import { resource } from "../engine/resource.ts"
import type { Engine } from "../engine/engine.ts"
import type { Transaction } from "../engine/resource.ts"
import { customFieldsOf } from "./custom-fields.ts"
import type { JsonObject } from "../wire.ts"

const depthMax = 32

export const categories = resource({
  name: "categories",
  singular: "category",
  subject: "catalog",
  area: "Categories",
  fields: {
    name: field.string("", { required: true, lengthMin: 1 }),
    short_description: field.text(),
    sort_order: field.integer(),
    is_hidden: field.boolean(),
    parent_category_id: references("categories"),
    max_quantity: field.integer(0, { min: 0 }),
    ...fieldsOf(
      field.string(),
      "category_thumbnail category_image alternate_thumbnail default_product_picture external_content_url",
      "page_title keywords meta_description url_rewrite cat_image_alt_text thumb_image_alt_text"
    ),
    head_tags: field.text(),
    is_category_content_displayed: field.boolean(true),
    are_subcategory_products_displayed: field.boolean(),
    is_hide_from_site_maps: field.boolean(),
    lookup_path: field.text({ readOnly: true })
  },
  nested: {
    products: { of: "products", by: "primary_category_id" },
    custom_fields: {
      from: ["custom_field_values", "custom_fields"],
      list: (read, row, limit) => customFieldsOf(read, "category_id", row.id, limit)
    }
  },
  prepare: ({ tx, id, values, faults }) => {
    const ancestors = ancestorsOf(tx, values["parent_category_id"])
    if (ancestors.includes(id))
      faults.push({
        field: "parent_category_id",
        code: "invalid_value",
        message: "must be neither the category itself nor below it"
      })
    else if (ancestors.length >= depthMax)
      faults.push({
        field: "parent_category_id",
        code: "out_of_range",
        message: `makes the tree deeper than ${depthMax}`
      })
    else values["lookup_path"] = pathOf(tx, values)
  }
})

const ancestorsOf = (tx: Transaction, parent: unknown): ReadonlyArray<number> => {
  const ancestors: Array<number> = []
  for (let id = parent; typeof id === "number" && id > 0 && ancestors.length <= depthMax;) {
    ancestors.push(id)
    id = tx.get("categories", id)?.values["parent_category_id"]
  }
  return ancestors
}

const pathOf = (tx: Transaction, values: JsonObject): string =>
  [
    ...ancestorsOf(tx, values["parent_category_id"])
      .toReversed()
      .map((id) => tx.get("categories", id)?.values["name"] ?? ""),
    values["name"] ?? ""
  ]
    .join(" > ")
    .slice(0, 65_535)

const rebuildSlice = 100

/** Rebuilds every path, in small transactions; concurrent writes are preserved. */
export const rebuildTree = Effect.fnUntraced(function* (engine: Engine) {
  for (let after = 0; ;) {
    const ids = engine.page("categories", after, rebuildSlice)
    if (ids.length === 0) return
    const rebuilt = engine.write((tx) => {
      for (const id of ids) {
        const row = tx.get("categories", id)
        if (row !== undefined) tx.update("categories", row, {})
      }
    })
    yield* Effect.ignore(rebuilt)
    after = ids.at(-1)!
    yield* nextTurn
  }
})
