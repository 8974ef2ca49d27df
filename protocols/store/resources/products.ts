/** Products, their statuses and manufacturers, and how stock moves a status.
 *  Source: docs/spec/store.md, sections 8.1, 8.2, 8.6. */
import { field, fieldsOf, references } from "../engine/fields.ts"
import { resource, valueOf, type Draft, type Row, type Transaction } from "../engine/resource.ts"
import type { JsonObject } from "../wire.ts"
import { customFieldsOf } from "./custom-fields.ts"
import { checkStatusUnused, inventorySettings, type Inventory } from "./settings.ts"

const count = field.integer(0, { min: 0 })
const optionalCount = field.integer(null, { min: 0 })

export const products = resource({
  name: "products",
  singular: "product",
  subject: "catalog",
  area: "Products",
  validate: "ValidateProduct",
  fields: {
    item_name: field.string("", { required: true, lengthMin: 1 }),
    item_number: field.string("", { lengthMax: 100, unique: "item_number" }),
    product_status_id: references("product_statuses", { required: true }),
    primary_category_id: references("categories", { required: true }),
    manufacturer_id: references("manufacturers"),
    warehouse_id: references("warehouses"),
    ...fieldsOf(field.integer(0, { nullable: true, min: 0 }), "supplier_id profile_id master_product_id"),
    ...fieldsOf(
      field.string(),
      "manufacturer_part_number gtin tax_code keywords page_title meta_description related_name",
      "no_price_mask hs_code coo hts freight_class material_code product_line_code",
      "shipping_classification_code add_to_cart_message custom_upsell_url category_list"
    ),
    url_rewrite: field.string("", { unique: "product_url" }),
    ...fieldsOf(
      field.html(),
      "short_description bullets long_description_1 long_description_2 long_description_3",
      "long_description_4 long_description_5 head_tags additional_attributes"
    ),
    ...fieldsOf(
      field.string(),
      "long_description_tab_name_1 long_description_tab_name_2 long_description_tab_name_3",
      "long_description_tab_name_4 long_description_tab_name_5 long_description_external_url_1",
      "long_description_external_url_2 long_description_external_url_3 long_description_external_url_4",
      "long_description_external_url_5 bullets_external_url"
    ),
    price: field.money(),
    cost: field.money(),
    retail: field.money(),
    ...fieldsOf(field.money(null), "handling_fee shipping_override insurance_cost"),
    weight: field.number(0, { min: 0 }),
    weight_unit: field.string("Lbs"),
    ...fieldsOf(field.string("", { numeric: true }), "height length width"),
    size_unit: field.string("In"),
    ...fieldsOf(
      count,
      "minimum_quantity maximum_quantity quantity_on_order sort_order days_until_reorder_allowed",
      "pack_slip_sort_order"
    ),
    quantity_increment: field.integer(1, { min: 1 }),
    quantity_on_hand: field.integer(0),
    ...fieldsOf(
      field.flag(),
      "is_hidden is_spotlight_item is_non_taxable is_shipped_individually call_for_shipping",
      "call_for_pricing e_product_allow_multiple_deliveries"
    ),
    ...fieldsOf(
      field.boolean(),
      "use_tabs override_theme_use_tabs is_non_shipping_item use_variant_inventory is_featured_item",
      "custom_flag_1 custom_flag_2 custom_flag_3 custom_flag_4 custom_flag_5 is_kit is_child_product",
      "is_non_inventory is_discontinued call_for_shipping_on_whole_order break_out_shipping",
      "exclude_parent_from_display drop_ship use_map_pricing exclude_children_from_display",
      "use_pricing_from_parent enable_low_stock_warning do_not_discount hide_variant_surcharges",
      "is_subscription_product exclude_from_commissions force_separate_order approval_required",
      "inelligible_for_purchase_by_points is_linked_product do_not_send_review_request",
      "is_enable_variants_on_parent is_hide_children_on_parent is_exempt_from_min_order_amount"
    ),
    earns_points: field.boolean(true),
    e_product_type: field.string("NotAnEProduct"),
    e_product_url: field.string(),
    e_product_email: field.string(),
    e_product_delivery_action: field.string("None"),
    e_product_verification_link_expiration: count,
    e_product_serial_number_file_path: field.string(),
    e_product_generic_username: field.string(),
    ...fieldsOf(
      field.string(null, { sealed: true, nullable: true }),
      "e_product_password e_product_generic_password"
    ),
    eta_date: field.datetime(),
    ...fieldsOf(
      optionalCount,
      "low_stock_warning_threshold starting_quantity subscription_frequency additional_points_earned",
      "available_region_id product_rating_dimension_group_override_id",
      "in_stock_notification_email_template_id"
    ),
    ...fieldsOf(
      field.string(),
      "subscription_frequency_type allowed_variable_subscription_types enabled_configurator",
      "quickbooks_item_id ext_update_date shipper_hq_shipping_groups shipper_hq_dimensional_rule_groups",
      "shipper_hq_packing_boxes last_item_number"
    ),
    rate_adjustment_type: field.string("AutoCalculation"),
    cart_product_id: field.string("00000000-0000-0000-0000-000000000000", { lengthMax: 36 }),
    has_visible_variants: field.boolean(false, { readOnly: true }),
    average_review_rating: field.number(0, { readOnly: true }),
    review_count: field.integer(0, { readOnly: true })
  },
  nested: {
    categories: {
      from: ["categories"],
      list: (read, row) => {
        const category = read.get("categories", row.values["primary_category_id"] as number)
        return category === undefined
          ? []
          : [{ id: category.id, is_primary: true, name: category.values["name"] ?? "" }]
      }
    },
    variants: { of: "product_variants", by: "product_id" },
    variant_inventory: { of: "variant_inventory", by: "product_id" },
    pictures: { of: "product_pictures", by: "product_id" },
    pricing: { of: "product_pricing", by: "product_id" },
    custom_fields: {
      from: ["custom_field_values", "custom_fields"],
      list: (read, row, limit) => customFieldsOf(read, "product_id", row.id, limit)
    },
    ...Object.fromEntries(
      [
        "related",
        "attributes",
        "personalizations",
        "reviews",
        "child_products",
        "shipping_rate_adjustments"
      ].map((name) => [name, { from: [], list: () => [] }])
    )
  },
  prepare: (draft) => {
    checkQuantities(draft)
    moveStatus(draft)
  },
  events: ({ before, after }, tx) => {
    if (after === undefined) return
    const body = (): JsonObject => ({ product: tx.represent("products", after) })
    if (before === undefined) return tx.emit("ProductCreated", body)
    tx.emit("ProductUpdated", body)
    if (before.values["product_status_id"] !== after.values["product_status_id"])
      tx.emit("ProductStatusChanged", () => statusChangedBody(tx, after))
  }
})

const checkQuantities = ({ values, faults }: Draft): void => {
  const minimum = (values["minimum_quantity"] ?? 0) as number
  const maximum = (values["maximum_quantity"] ?? 0) as number
  if (maximum > 0 && minimum > maximum)
    faults.push({
      field: "minimum_quantity",
      code: "out_of_range",
      message: "must not be above maximum_quantity"
    })
}

/** A product that is discontinued, or whose stock runs out or comes back, changes its status, unless the
 *  caller sets one. */
const moveStatus = ({ tx, before, input, values }: Draft): void => {
  if (before === undefined) return
  const settings = inventorySettings(tx)
  if (input["is_discontinued"] === true && before.values["is_discontinued"] !== true) {
    values["product_status_id"] = settings.discontinued_product_status_id
    return
  }
  const statusId = input["product_status_id"]
  const quantity = (values["quantity_on_hand"] ?? 0) as number
  const isTracked = settings.track_inventory && values["is_non_inventory"] !== true
  const keepsStatus = statusId === undefined || statusId === before.values["product_status_id"]
  if (isTracked && keepsStatus && quantity !== valueOf(products, before, "quantity_on_hand"))
    values["product_status_id"] = statusAfter(values["product_status_id"] as number, quantity, settings)
}

const statusChangedBody = (tx: Transaction, product: Row): JsonObject => {
  const statusId = product.values["product_status_id"] as number
  const status = tx.get("product_statuses", statusId)
  return {
    item: {
      product_id: product.id,
      product_status_id: statusId,
      item_number: product.values["item_number"] ?? "",
      item_name: product.values["item_name"],
      inventory: product.values["quantity_on_hand"] ?? 0,
      product: tx.represent("products", product),
      product_status: status === undefined ? null : tx.represent("product_statuses", status)
    }
  }
}

const statusAfter = (statusId: number, quantity: number, settings: Inventory): number => {
  const { in_stock_product_status_id: inStock, out_of_stock_product_status_id: outOfStock } = settings
  if (statusId === inStock && quantity <= 0) return outOfStock
  return statusId === outOfStock && quantity > 0 ? inStock : statusId
}

export const productStatuses = resource({
  name: "product_statuses",
  singular: "product_status",
  subject: "catalog",
  area: "ProductStatuses",
  fields: {
    name: field.string("", { required: true, lengthMin: 1, unique: "product_status" }),
    time_frame: field.string(),
    ...fieldsOf(field.boolean(), "is_unavailable is_hidden is_back_ordered show_quantity")
  },
  removing: (tx, row) => {
    checkStatusUnused(tx, row.id)
  }
})

export const manufacturers = resource({
  name: "manufacturers",
  singular: "manufacturer",
  subject: "catalog",
  area: "Manufacturers",
  fields: {
    name: field.string("", { required: true, lengthMin: 1, unique: "manufacturer" }),
    description: field.text(),
    is_hidden: field.boolean(),
    sort_order: field.integer(null),
    ...fieldsOf(
      field.string(),
      "manufacturer_logo_url page_title keywords meta_description url_rewrite head_tags brand_code"
    )
  }
})

/** Moves a product's stock in this transaction; it may fall below 0. Undefined when there is no such product.
 *  */
export const moveStock = (tx: Transaction, productId: number, quantity: number): Row | undefined => {
  const row = tx.get("products", productId)
  if (row === undefined) return undefined
  const quantityOnHand = valueOf(products, row, "quantity_on_hand") + quantity
  return tx.update("products", row, { quantity_on_hand: quantityOnHand })
}
