/** Every resource, and the records that a first boot creates.
 *  Source: docs/spec/store.md, sections 8.2, 8.3, 8.7. */
import type { Effect } from "effect"
import type { Engine } from "../engine/engine.ts"
import type { Resource } from "../engine/resource.ts"
import type { Refusal } from "../problems.ts"
import { cartItems, carts } from "./carts.ts"
import { categories } from "./categories.ts"
import {
  creditCards,
  customerPaymentMethods,
  orderAddresses,
  orderItems,
  orderPayments,
  orders,
  orderShipments,
  orderStatuses
} from "./orders.ts"
import { customFields, customFieldValues } from "./custom-fields.ts"
import { addresses, customers, customerTypes } from "./customers.ts"
import {
  attributeGroups,
  attributes,
  productLists,
  productPictures,
  productPricing,
  productVariants,
  variantGroups,
  variantInventory
} from "./product-parts.ts"
import { manufacturers, products, productStatuses } from "./products.ts"
import { stores, warehouses } from "./shop.ts"
import { users } from "./users.ts"

export const resources: ReadonlyArray<Resource> = [
  products,
  productStatuses,
  categories,
  manufacturers,
  productVariants,
  variantGroups,
  variantInventory,
  productPictures,
  productPricing,
  attributes,
  attributeGroups,
  productLists,
  customers,
  addresses,
  customerTypes,
  users,
  orders,
  orderItems,
  orderAddresses,
  orderPayments,
  orderShipments,
  orderStatuses,
  creditCards,
  customerPaymentMethods,
  carts,
  cartItems,
  warehouses,
  stores,
  customFields,
  customFieldValues
]

/** Creates the first records; true when it did. A store without statuses has never been booted. */
export const firstBoot = (engine: Engine): Effect.Effect<boolean, Refusal> =>
  engine.write((tx) => {
    if (engine.page("product_statuses", 0, 1).length > 0) return false
    tx.insert("product_statuses", { name: "In Stock" })
    tx.insert("product_statuses", { name: "Out of Stock", is_unavailable: true })
    tx.insert("product_statuses", { name: "Back Ordered", is_back_ordered: true })
    tx.insert("product_statuses", { name: "Discontinued", is_unavailable: true, is_hidden: true })
    tx.insert("categories", { name: "Default" })
    for (const [name, flags] of [
      ["Pending Processing", { is_open: true }],
      ["Processing", { is_open: true }],
      ["Shipped", { is_shipped: true }],
      ["Cancelled", { is_cancelled: true }],
      ["Declined", { is_declined: true }],
      ["Refunded", { is_fully_refunded: true }]
    ] as const)
      tx.insert("order_statuses", { name, ...flags })
    tx.insert("stores", { name: "Default", is_default: true })
    return true
  })

/** Creates a handful of products to look at. */
export const demoProducts = (engine: Engine): Effect.Effect<void, Refusal> =>
  engine.write((tx) => {
    const books = tx.insert("categories", { name: "Books" })
    const garden = tx.insert("categories", { name: "Garden" })
    const maker = tx.insert("manufacturers", { name: "Northwind Goods" })
    for (const [item_name, item_number, price, quantity_on_hand, category] of [
      ["Field Guide to Clouds", "BK-1001", 189_000, 12, books.id],
      ["The Quiet Harbour", "BK-1002", 145_000, 0, books.id],
      ["Copper Watering Can", "GD-2001", 349_000, 7, garden.id],
      ["Wildflower Seeds, 20 g", "GD-2002", 49_500, 140, garden.id],
      ["Cedar Planter Box", "GD-2003", 620_000, 3, garden.id]
    ] as const)
      tx.insert("products", {
        item_name,
        item_number,
        price,
        quantity_on_hand,
        primary_category_id: category,
        manufacturer_id: maker.id,
        product_status_id: quantity_on_hand > 0 ? 1 : 2
      })
  })
