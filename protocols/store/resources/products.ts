/** Products, their statuses, and how stock moves a status. Source: store sections 8.1, 8.2, 8.6. */
import { b, d, f, h, i, m, n, named, s, t, to, type Stored } from "../engine/fields.ts"
import { resource, valueOf, type Reader, type Row } from "../engine/resource.ts"
import type { Transaction } from "../engine/resource.ts"
import { settingsOf } from "./settings.ts"

const count = (options = {}) => i(0, { min: 0, ...options })
const optional = i(null, { min: 0 })

export const products = resource({
  name: "products",
  singular: "product",
  subject: "catalog",
  area: "Products",
  validate: "ValidateProduct",
  fields: {
    item_name: s("", { required: true, lengthMin: 1 }),
    item_number: s("", { lengthMax: 100, unique: "item_number" }),
    product_status_id: to("product_statuses", { required: true }),
    primary_category_id: to("categories", { required: true }),
    manufacturer_id: to("manufacturers"),
    warehouse_id: to("warehouses"),
    ...named("supplier_id profile_id master_product_id", i(0, { nullable: true, min: 0 })),
    ...named(
      `manufacturer_part_number gtin tax_code keywords page_title meta_description related_name no_price_mask hs_code coo hts freight_class
      material_code product_line_code shipping_classification_code add_to_cart_message custom_upsell_url category_list`,
      s()
    ),
    url_rewrite: s("", { unique: "product_url" }),
    ...named(
      "short_description bullets long_description_1 long_description_2 long_description_3 long_description_4 long_description_5 head_tags additional_attributes",
      h()
    ),
    ...named(
      `long_description_tab_name_1 long_description_tab_name_2 long_description_tab_name_3 long_description_tab_name_4 long_description_tab_name_5
      long_description_external_url_1 long_description_external_url_2 long_description_external_url_3 long_description_external_url_4
      long_description_external_url_5 bullets_external_url`,
      s()
    ),
    price: m(),
    cost: m(),
    retail: m(),
    ...named("handling_fee shipping_override insurance_cost", m(null)),
    weight: n(0, { min: 0 }),
    weight_unit: s("Lbs"),
    ...named("height length width", s("", { numeric: true })),
    size_unit: s("In"),
    ...named(
      "minimum_quantity maximum_quantity quantity_on_order sort_order days_until_reorder_allowed pack_slip_sort_order",
      count()
    ),
    quantity_increment: i(1, { min: 1 }),
    quantity_on_hand: i(0),
    ...named(
      "is_hidden is_spotlight_item is_non_taxable is_shipped_individually call_for_shipping call_for_pricing e_product_allow_multiple_deliveries",
      f()
    ),
    ...named(
      `use_tabs override_theme_use_tabs is_non_shipping_item use_variant_inventory is_featured_item custom_flag_1 custom_flag_2 custom_flag_3 custom_flag_4
      custom_flag_5 is_kit is_child_product is_non_inventory is_discontinued call_for_shipping_on_whole_order break_out_shipping exclude_parent_from_display
      drop_ship use_map_pricing exclude_children_from_display use_pricing_from_parent enable_low_stock_warning do_not_discount hide_variant_surcharges
      is_subscription_product exclude_from_commissions force_separate_order approval_required inelligible_for_purchase_by_points is_linked_product
      do_not_send_review_request is_enable_variants_on_parent is_hide_children_on_parent is_exempt_from_min_order_amount`,
      b()
    ),
    earns_points: b(true),
    e_product_type: s("NotAnEProduct"),
    e_product_url: s(),
    e_product_email: s(),
    e_product_delivery_action: s("None"),
    e_product_verification_link_expiration: count(),
    e_product_serial_number_file_path: s(),
    e_product_generic_username: s(),
    ...named("e_product_password e_product_generic_password", s(null, { sealed: true, nullable: true })),
    eta_date: d(),
    ...named(
      `low_stock_warning_threshold starting_quantity subscription_frequency additional_points_earned available_region_id
      product_rating_dimension_group_override_id in_stock_notification_email_template_id`,
      optional
    ),
    ...named(
      `subscription_frequency_type allowed_variable_subscription_types enabled_configurator quickbooks_item_id ext_update_date shipper_hq_shipping_groups
      shipper_hq_dimensional_rule_groups shipper_hq_packing_boxes last_item_number`,
      s()
    ),
    rate_adjustment_type: s("AutoCalculation"),
    cart_product_id: s("00000000-0000-0000-0000-000000000000", { lengthMax: 36 }),
    has_visible_variants: b(false, { readOnly: true }),
    average_review_rating: n(0, { readOnly: true }),
    review_count: i(0, { readOnly: true })
  },
  nested: {
    categories: {
      from: ["categories"],
      show: (read, row) => {
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
      show: (read, row, limit) => customValues(read, "product_id", row.id, limit)
    },
    ...Object.fromEntries(
      [
        "related",
        "attributes",
        "personalizations",
        "reviews",
        "child_products",
        "shipping_rate_adjustments"
      ].map((name) => [name, { from: [], show: () => [] }])
    )
  },
  prepare: ({ tx, before, given, values, faults }) => {
    const number = (name: string): number => (values[name] ?? 0) as number
    const most = number("maximum_quantity")
    if (most > 0 && number("minimum_quantity") > most)
      faults.push({
        field: "minimum_quantity",
        code: "out_of_range",
        message: "must not be above maximum_quantity"
      })
    const settings = settingsOf(tx)
    if (
      values["is_discontinued"] === true &&
      before?.values["is_discontinued"] !== true &&
      given["is_discontinued"] === true
    ) {
      if (before !== undefined) values["product_status_id"] = settings.discontinued_product_status_id
    } else if (
      before !== undefined &&
      (given["product_status_id"] === undefined ||
        given["product_status_id"] === before.values["product_status_id"]) &&
      number("quantity_on_hand") !== ((before.values["quantity_on_hand"] ?? 0) as number) &&
      settings.track_inventory &&
      values["is_non_inventory"] !== true
    ) {
      values["product_status_id"] = statusAfter(
        values["product_status_id"] as number,
        number("quantity_on_hand"),
        settings
      )
    }
  },
  events: ({ before, after }, tx) => {
    if (after === undefined) return
    const body = () => ({ product: tx.show("products", after) })
    if (before === undefined) return tx.emit("ProductCreated", body)
    tx.emit("ProductUpdated", body)
    if (before.values["product_status_id"] !== after.values["product_status_id"])
      tx.emit("ProductStatusChanged", () => {
        const status = tx.get("product_statuses", after.values["product_status_id"] as number)
        return {
          item: {
            product_id: after.id,
            product_status_id: after.values["product_status_id"],
            item_number: after.values["item_number"] ?? "",
            item_name: after.values["item_name"],
            inventory: after.values["quantity_on_hand"] ?? 0,
            product: tx.show("products", after),
            product_status: status === undefined ? null : tx.show("product_statuses", status)
          }
        }
      })
  }
})

type Settings = ReturnType<typeof settingsOf>

const statusAfter = (status: number, quantity: number, settings: Settings): Stored =>
  status === settings.in_stock_product_status_id && quantity <= 0
    ? settings.out_of_stock_product_status_id
    : status === settings.out_of_stock_product_status_id && quantity > 0
      ? settings.in_stock_product_status_id
      : status

/** `{name, value}` of the custom fields a record has. */
export const customValues = (read: Reader, by: string, id: number, limit: number): ReadonlyArray<unknown> =>
  read
    .children("custom_field_values", by, id, limit)
    .map((row) => ({
      name: read.get("custom_fields", row.values["custom_field_id"] as number)?.values["name"] ?? "",
      value: row.values["value"] ?? ""
    }))

export const productStatuses = resource({
  name: "product_statuses",
  singular: "product_status",
  subject: "catalog",
  area: "ProductStatuses",
  fields: {
    name: s("", { required: true, lengthMin: 1, unique: "product_status" }),
    time_frame: s(),
    ...named("is_unavailable is_hidden is_back_ordered show_quantity", b())
  },
  removing: (tx, row) => {
    settingsOf(tx).refuseStatus(row.id)
  }
})

export const manufacturers = resource({
  name: "manufacturers",
  singular: "manufacturer",
  subject: "catalog",
  area: "Manufacturers",
  fields: {
    name: s("", { required: true, lengthMin: 1, unique: "manufacturer" }),
    description: t(),
    is_hidden: b(),
    sort_order: i(null),
    ...named(
      "manufacturer_logo_url page_title keywords meta_description url_rewrite head_tags brand_code",
      s()
    )
  }
})

/** Moves a product's stock in this transaction; `below` says whether it may fall under 0. */
export const moveStock = (tx: Transaction, productId: number, by: number): Row | undefined => {
  const row = tx.get("products", productId)
  return row === undefined
    ? undefined
    : tx.update("products", row, {
        quantity_on_hand: (valueOf(products, row, "quantity_on_hand") as number) + by
      })
}
