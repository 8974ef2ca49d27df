/** The store's inventory settings: one row, with defaults until somebody changes it. Source: store section
 *  8.6. */
import { Schema } from "effect"
import { table } from "../../../storage/store.ts"
import { Refused } from "../problems.ts"
import type { Transaction } from "../engine/resource.ts"

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

export const settingsOf = (tx: Transaction): Inventory & { refuseStatus(id: number): void } => {
  const settings = { ...defaults, ...InventorySettings.get(tx.engine.store, settingsKey) }
  return {
    ...settings,
    refuseStatus: (id) => {
      for (const [field, value] of Object.entries(settings))
        if (field.endsWith("_status_id") && value === id) {
          throw new Refused(409, "the inventory settings use this status", [
            { field, code: "in_use", message: "uses it" }
          ])
        }
    }
  }
}

/** Throws Refused: 400 for what is no setting, 409 for a status that does not exist. */
export const changeSettings = (tx: Transaction, body: Readonly<Record<string, unknown>>): Inventory => {
  const { refuseStatus: _, ...current } = settingsOf(tx)
  const next: Record<string, unknown> = { ...current }
  for (const [field, value] of Object.entries(body)) {
    if (!Object.hasOwn(defaults, field)) continue
    const was = defaults[field as keyof Inventory]
    if (
      typeof value !== typeof was ||
      (field === "remove_from_inventory_when" && value !== "Ordered" && value !== "Shipped")
    ) {
      throw new Refused(400, `${field} cannot be that`, [
        { field, code: "invalid_value", message: "cannot be that" }
      ])
    }
    if (typeof value === "number" && tx.get("product_statuses", value) === undefined)
      throw new Refused(409, `${field} names no status`, [
        { field, code: "not_found", message: "names no status" }
      ])
    next[field] = value
  }
  tx.writes.push(InventorySettings.put(settingsKey, next as Partial<Inventory>))
  return next as unknown as Inventory
}
