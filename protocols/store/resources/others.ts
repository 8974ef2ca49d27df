/** What else the catalog and the shop hold: plain engine resources. Names are those of the public interface
 *  where it has them.
 *  Source: store sections 8.5 "users", 8.10. */
import { b, d, i, m, n, named, s, t, to, type Field } from "../engine/fields.ts"
import { resource, valueOf } from "../engine/resource.ts"
import type { Transaction } from "../engine/resource.ts"
import { products } from "./products.ts"

const name = (unique?: string): Field =>
  s("", { required: true, lengthMin: 1, ...(unique === undefined ? {} : { unique }) })

const ofProduct = to("products", { required: true, gone: "cascade" })

/** Keeps the product's own note of whether it has variants. */
const noteVariants = (tx: Transaction, productId: unknown, left: number): void => {
  const product = typeof productId === "number" ? tx.get("products", productId) : undefined
  if (product !== undefined && (valueOf(products, product, "has_visible_variants") === true) !== left > 0)
    tx.update("products", product, { has_visible_variants: left > 0 })
}

export const productVariants = resource({
  name: "product_variants",
  singular: "product_variant",
  subject: "catalog",
  area: "VariationGroups",
  fields: {
    product_id: ofProduct,
    variant_group_id: to("variant_groups"),
    description: name(),
    item_number_extension: s(),
    ...named("price_adjustment cost_adjustment", m(0, { min: -1_000_000 })),
    weight_adjustment: n(),
    sort_order: i(),
    ...named("is_default exclude_from_coupon", b())
  },
  prepare: ({ tx, values }) => {
    noteVariants(tx, values["product_id"], 1)
  },
  removing: (tx, row) => {
    const productId = row.values["product_id"] as number
    noteVariants(tx, productId, tx.children("product_variants", "product_id", productId, 2).length - 1)
  }
})

export const variantGroups = resource({
  name: "variant_groups",
  singular: "variant_group",
  subject: "catalog",
  area: "VariationGroups",
  fields: {
    name: name(),
    cart_description: s(),
    group_type: s("DropDown"),
    sort_order: i(),
    ...named("is_optional is_inventory_group", b())
  }
})

export const variantInventory = resource({
  name: "variant_inventory",
  singular: "variant_inventory",
  subject: "catalog",
  area: "Products",
  fields: {
    product_id: ofProduct,
    item_number: s("", { lengthMax: 100, unique: "item_number" }),
    gtin: s(),
    quantity: i(0),
    product_status_id: to("product_statuses"),
    ...named("price cost", m(null)),
    weight: n(null),
    is_active: b(true),
    variant_ids: { kind: "list", initial: [] }
  }
})

export const productPictures = resource({
  name: "product_pictures",
  singular: "product_picture",
  subject: "catalog",
  area: "Products",
  fields: {
    product_id: ofProduct,
    image_file: s("", { required: true, lengthMin: 1 }),
    thumbnail_file: s(),
    caption: s(),
    alt_text: s(),
    sort_order: i(),
    is_primary: b()
  }
})

export const productPricing = resource({
  name: "product_pricing",
  singular: "product_pricing",
  subject: "catalog",
  area: "Products",
  fields: {
    product_id: ofProduct,
    customer_type_id: to("customer_types", { gone: "cascade" }),
    price: m(0, { required: true }),
    minimum_quantity: i(1, { min: 1 }),
    ...named("starts_at ends_at", d())
  }
})

export const attributeGroups = resource({
  name: "attribute_groups",
  singular: "attribute_group",
  subject: "catalog",
  area: "ProductAttributes",
  fields: { name: name("attribute_group"), sort_order: i(), is_hidden: b() }
})

export const attributes = resource({
  name: "attributes",
  singular: "attribute",
  subject: "catalog",
  area: "ProductAttributes",
  fields: {
    name: name(),
    attribute_group_id: to("attribute_groups"),
    value: s(),
    description: t(),
    sort_order: i(),
    ...named("is_searchable is_hidden", b())
  }
})

export const productLists = resource({
  name: "product_lists",
  singular: "product_list",
  subject: "catalog",
  area: "Products",
  fields: {
    name: name("product_list"),
    description: t(),
    product_ids: { kind: "list", initial: [] },
    sort_order: i(),
    is_hidden: b()
  }
})

export const warehouses = resource({
  name: "warehouses",
  singular: "warehouse",
  subject: "settings",
  area: "Warehouses",
  fields: {
    name: name("warehouse"),
    code: s(),
    ...named("address_line_1 address_line_2 city state postal_code country phone email", s()),
    is_active: b(true),
    is_default: b()
  }
})

export const stores = resource({
  name: "stores",
  singular: "store",
  subject: "system",
  area: "StoreSettings",
  fields: {
    name: name("store"),
    domain: s(),
    email: s(),
    currency: s("USD", { lengthMax: 3 }),
    is_default: b()
  }
})

export const customFields = resource({
  name: "custom_fields",
  singular: "custom_field",
  subject: "custom_fields",
  area: "CustomFields",
  fields: {
    name: name(),
    field_type: s("Text"),
    applies_to: s("Product", { oneOf: ["Product", "Category", "Customer", "Order"] }),
    description: t(),
    sort_order: i(),
    is_hidden: b()
  }
})

export const customFieldValues = resource({
  name: "custom_field_values",
  singular: "custom_field_value",
  subject: "custom_fields",
  area: "CustomFields",
  fields: {
    custom_field_id: to("custom_fields", { required: true, gone: "cascade" }),
    value: t(),
    product_id: to("products", { gone: "cascade" }),
    category_id: to("categories", { gone: "cascade" }),
    customer_id: to("customers", { gone: "cascade" }),
    order_id: to("orders", { gone: "cascade" })
  },
  prepare: ({ values, faults }) => {
    const owners = ["product_id", "category_id", "customer_id", "order_id"].filter(
      (owner) => typeof values[owner] === "number" && values[owner] > 0
    )
    if (owners.length !== 1)
      faults.push({
        field: "product_id",
        code: "invalid_value",
        message: "one of product_id, category_id, customer_id and order_id must be given"
      })
  }
})
