/** The store's inventory settings: one row, with defaults until somebody changes it.
 *  Source: docs/spec/store.md, section 8.6. */
import { Schema } from "effect"
import { table } from "../../../storage/store.ts"
import { conflict, invalid } from "../problems.ts"
import type { Transaction } from "../engine/resource.ts"
import type { JsonObject } from "../wire.ts"

export const InventorySettings = table("store-settings", Schema.Any as Schema.Codec<Partial<Inventory>, any>)

export interface Inventory {
  readonly track_inventory: boolean
  readonly remove_from_inventory_when: "Ordered" | "Shipped"
  readonly in_stock_product_status_id: number
  readonly out_of_stock_product_status_id: number
  readonly back_ordered_product_status_id: number
  readonly discontinued_product_status_id: number
  readonly product_hide_no_inventory: boolean
}

const defaults: Inventory = {
  track_inventory: true,
  remove_from_inventory_when: "Ordered",
  in_stock_product_status_id: 1,
  out_of_stock_product_status_id: 2,
  back_ordered_product_status_id: 3,
  discontinued_product_status_id: 4,
  product_hide_no_inventory: false
}

export const settingsKey = ["inventory"] as const

export const inventorySettings = (tx: Transaction): Inventory => ({
  ...defaults,
  ...InventorySettings.get(tx.engine.store, settingsKey)
})

/** Refuses to delete a product status that the settings name; throws Refusal (409). */
export const checkStatusUnused = (tx: Transaction, statusId: number): void => {
  for (const [field, value] of Object.entries(inventorySettings(tx)))
    if (field.endsWith("_status_id") && value === statusId)
      throw conflict("the inventory settings use this status", [
        { field, code: "in_use", message: "uses it" }
      ])
}

const stockMoments: ReadonlyArray<unknown> = ["Ordered", "Shipped"]

/** Changes the settings. Throws Refusal: 400 for an unknown setting, 409 for a status that does not exist. */
export const changeSettings = (tx: Transaction, body: JsonObject): Inventory => {
  const next: Record<string, unknown> = { ...inventorySettings(tx) }
  for (const [field, value] of Object.entries(body)) {
    if (!Object.hasOwn(defaults, field)) continue
    const hasType = typeof value === typeof defaults[field as keyof Inventory]
    if (!hasType || (field === "remove_from_inventory_when" && !stockMoments.includes(value)))
      throw invalid(`${field} cannot be that`, [{ field, code: "invalid_value", message: "cannot be that" }])
    if (typeof value === "number" && tx.get("product_statuses", value) === undefined)
      throw conflict(`${field} names no status`, [{ field, code: "not_found", message: "names no status" }])
    next[field] = value
  }
  tx.writes.push(InventorySettings.put(settingsKey, next as Partial<Inventory>))
  return next as unknown as Inventory
}
