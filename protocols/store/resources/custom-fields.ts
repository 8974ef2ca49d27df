/** Fields that a shop adds to products, categories, customers and orders, and their values.
 *  Source: docs/spec/store.md, section 8.10. */
import { field, references } from "../engine/fields.ts"
import { resource, type Reader } from "../engine/resource.ts"
import { nameField } from "./name-field.ts"

type Owner = "product_id" | "category_id" | "customer_id" | "order_id"

const owners: ReadonlyArray<Owner> = ["product_id", "category_id", "customer_id", "order_id"]

/** Name and value of each custom field that a record has. Positional parameters: this runs once per record.
 *  */
export const customFieldsOf = (
  read: Reader,
  owner: Owner,
  id: number,
  limit: number
): ReadonlyArray<unknown> =>
  read
    .children("custom_field_values", owner, id, limit)
    .map((row) => ({
      name: read.get("custom_fields", row.values["custom_field_id"] as number)?.values["name"] ?? "",
      value: row.values["value"] ?? ""
    }))

export const customFields = resource({
  name: "custom_fields",
  singular: "custom_field",
  subject: "custom_fields",
  area: "CustomFields",
  fields: {
    name: nameField(),
    field_type: field.string("Text"),
    applies_to: field.string("Product", { oneOf: ["Product", "Category", "Customer", "Order"] }),
    description: field.text(),
    sort_order: field.integer(),
    is_hidden: field.boolean()
  }
})

export const customFieldValues = resource({
  name: "custom_field_values",
  singular: "custom_field_value",
  subject: "custom_fields",
  area: "CustomFields",
  fields: {
    custom_field_id: references("custom_fields", { required: true, onDelete: "cascade" }),
    value: field.text(),
    product_id: references("products", { onDelete: "cascade" }),
    category_id: references("categories", { onDelete: "cascade" }),
    customer_id: references("customers", { onDelete: "cascade" }),
    order_id: references("orders", { onDelete: "cascade" })
  },
  prepare: ({ values, faults }) => {
    const present = owners.filter((owner) => typeof values[owner] === "number" && values[owner] > 0)
    if (present.length !== 1)
      faults.push({
        field: "product_id",
        code: "invalid_value",
        message: "one of product_id, category_id, customer_id and order_id must be given"
      })
  }
})
