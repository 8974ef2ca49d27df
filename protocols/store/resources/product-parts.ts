/** The parts of the catalog around products: variants, pictures, prices, attributes, lists. Names are those
 *  of the public interface where it has them.
 *  Source: docs/spec/store.md, section 8.10. */
import { field, fieldsOf, references } from "../engine/fields.ts"
import { resource, valueOf, type Transaction } from "../engine/resource.ts"
import { nameField } from "./name-field.ts"
import { products } from "./products.ts"

const ofProduct = references("products", { required: true, onDelete: "cascade" })

/** Records in a product whether it has variants. */
const setHasVariants = (tx: Transaction, productId: unknown, variants: number): void => {
  const product = typeof productId === "number" ? tx.get("products", productId) : undefined
  if (product !== undefined && valueOf(products, product, "has_visible_variants") !== variants > 0)
    tx.update("products", product, { has_visible_variants: variants > 0 })
}

export const productVariants = resource({
  name: "product_variants",
  singular: "product_variant",
  subject: "catalog",
  area: "VariationGroups",
  fields: {
    product_id: ofProduct,
    variant_group_id: references("variant_groups"),
    description: nameField(),
    item_number_extension: field.string(),
    ...fieldsOf(field.money(0, { min: -1_000_000 }), "price_adjustment cost_adjustment"),
    weight_adjustment: field.number(),
    sort_order: field.integer(),
    ...fieldsOf(field.boolean(), "is_default exclude_from_coupon")
  },
  prepare: ({ tx, values }) => {
    setHasVariants(tx, values["product_id"], 1)
  },
  removing: (tx, row) => {
    const productId = row.values["product_id"] as number
    setHasVariants(tx, productId, tx.children("product_variants", "product_id", productId, 2).length - 1)
  }
})

export const variantGroups = resource({
  name: "variant_groups",
  singular: "variant_group",
  subject: "catalog",
  area: "VariationGroups",
  fields: {
    name: nameField(),
    cart_description: field.string(),
    group_type: field.string("DropDown"),
    sort_order: field.integer(),
    ...fieldsOf(field.boolean(), "is_optional is_inventory_group")
  }
})

export const variantInventory = resource({
  name: "variant_inventory",
  singular: "variant_inventory",
  subject: "catalog",
  area: "Products",
  fields: {
    product_id: ofProduct,
    item_number: field.string("", { lengthMax: 100, unique: "item_number" }),
    gtin: field.string(),
    quantity: field.integer(0),
    product_status_id: references("product_statuses"),
    ...fieldsOf(field.money(null), "price cost"),
    weight: field.number(null),
    is_active: field.boolean(true),
    variant_ids: field.list()
  }
})

export const productPictures = resource({
  name: "product_pictures",
  singular: "product_picture",
  subject: "catalog",
  area: "Products",
  fields: {
    product_id: ofProduct,
    image_file: field.string("", { required: true, lengthMin: 1 }),
    thumbnail_file: field.string(),
    caption: field.string(),
    alt_text: field.string(),
    sort_order: field.integer(),
    is_primary: field.boolean()
  }
})

export const productPricing = resource({
  name: "product_pricing",
  singular: "product_pricing",
  subject: "catalog",
  area: "Products",
  fields: {
    product_id: ofProduct,
    customer_type_id: references("customer_types", { onDelete: "cascade" }),
    price: field.money(0, { required: true }),
    minimum_quantity: field.integer(1, { min: 1 }),
    ...fieldsOf(field.datetime(), "starts_at ends_at")
  }
})

export const attributeGroups = resource({
  name: "attribute_groups",
  singular: "attribute_group",
  subject: "catalog",
  area: "ProductAttributes",
  fields: { name: nameField("attribute_group"), sort_order: field.integer(), is_hidden: field.boolean() }
})

export const attributes = resource({
  name: "attributes",
  singular: "attribute",
  subject: "catalog",
  area: "ProductAttributes",
  fields: {
    name: nameField(),
    attribute_group_id: references("attribute_groups"),
    value: field.string(),
    description: field.text(),
    sort_order: field.integer(),
    ...fieldsOf(field.boolean(), "is_searchable is_hidden")
  }
})

export const productLists = resource({
  name: "product_lists",
  singular: "product_list",
  subject: "catalog",
  area: "Products",
  fields: {
    name: nameField("product_list"),
    description: field.text(),
    product_ids: field.list(),
    sort_order: field.integer(),
    is_hidden: field.boolean()
  }
})
