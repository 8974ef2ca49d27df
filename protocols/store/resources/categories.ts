/** Categories: a tree at most 32 deep, each with its path in words. Source: store section 8.3. */
import { b, i, named, s, t, to } from "../engine/fields.ts"
import { Refused } from "../problems.ts"
import { resource } from "../engine/resource.ts"
import type { Engine } from "../engine/engine.ts"
import type { Transaction } from "../engine/resource.ts"
import { customValues } from "./products.ts"

const depthMax = 32

export const categories = resource({
  name: "categories",
  singular: "category",
  subject: "catalog",
  area: "Categories",
  fields: {
    name: s("", { required: true, lengthMin: 1 }),
    short_description: t(),
    sort_order: i(),
    is_hidden: b(),
    parent_category_id: to("categories"),
    max_quantity: i(0, { min: 0 }),
    ...named(
      `category_thumbnail category_image alternate_thumbnail default_product_picture external_content_url page_title keywords meta_description url_rewrite
      cat_image_alt_text thumb_image_alt_text`,
      s()
    ),
    head_tags: t(),
    is_category_content_displayed: b(true),
    are_subcategory_products_displayed: b(),
    is_hide_from_site_maps: b(),
    lookup_path: t({ readOnly: true })
  },
  nested: {
    products: { of: "products", by: "primary_category_id" },
    custom_fields: {
      from: ["custom_field_values", "custom_fields"],
      show: (read, row, limit) => customValues(read, "category_id", row.id, limit)
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

const pathOf = (tx: Transaction, values: Readonly<Record<string, unknown>>): string =>
  [
    ...ancestorsOf(tx, values["parent_category_id"])
      .toReversed()
      .map((id) => tx.get("categories", id)?.values["name"] ?? ""),
    values["name"] ?? ""
  ]
    .join(" > ")
    .slice(0, 65_535)

const rebuildSlice = 100

/** Every path anew, in small transactions; a write between them keeps its own. */
export const rebuildTree = async (engine: Engine): Promise<void> => {
  for (let after = 0; ;) {
    const ids = engine.page("categories", after, rebuildSlice)
    if (ids.length === 0) return
    await engine
      .write((tx) => {
        for (const id of ids) {
          const row = tx.get("categories", id)
          if (row !== undefined) tx.update("categories", row, {})
        }
      })
      .catch((cause: unknown) => {
        if (!(cause instanceof Refused)) throw cause
      })
    after = ids.at(-1)!
    await new Promise((resolve) => {
      setImmediate(resolve)
    })
  }
}
