/** Customers, their addresses and types.
 *  Source: docs/spec/store.md, section 8.5. */
import { references, field, fieldsOf } from "../engine/fields.ts"
import { resource, type Draft } from "../engine/resource.ts"
import { customFieldsOf } from "./custom-fields.ts"

const checkEmail = (value: string): string | undefined =>
  /^[^@\s]+@[^@\s]+$/.test(value) ? undefined : "must be an e-mail address"

export const customers = resource({
  name: "customers",
  singular: "customer",
  subject: "people",
  area: "Customers",
  validate: "ValidateCustomer",
  fields: {
    email: field.string("", { required: true, lengthMax: 254, unique: "customer_email", check: checkEmail }),
    store_id: field.integer(1, { required: true, min: 1 }),
    ...fieldsOf(
      field.string(),
      "first_name last_name company phone_number alternate_phone_number customer_number username"
    ),
    customer_type_id: references("customer_types"),
    is_no_tax_customer: field.boolean(),
    tax_exemption_number: field.string(),
    comments: field.text(),
    ...fieldsOf(
      field.string(),
      "adcode source source_group search_string sales_person default_payment_type_name"
    ),
    ...fieldsOf(
      field.integer(null),
      "adcode_id affiliate_id sales_person_user_id reward_tier_id payment_net_term"
    ),
    ...fieldsOf(
      field.boolean(),
      "no_account is_affiliate_customer is_contact_information_only lock_default_address",
      "use_shared_credit_limit override_shared_credit_limit is_inactive"
    ),
    store_payment_methods_enabled: field.strings(),
    tax_rate: field.number(null, { min: 0 }),
    credit_limit: field.money(null),
    ...fieldsOf(field.datetime(), "registered_at last_visit_at")
  },
  nested: {
    addresses: { of: "addresses", by: "customer_id" },
    additional_emails: { from: [], list: () => [] },
    custom_fields: {
      from: ["custom_field_values", "custom_fields"],
      list: (read, row, limit) => customFieldsOf(read, "customer_id", row.id, limit)
    }
  },
  prepare: ({ tx, before, input, values }) => {
    if (before === undefined && input["registered_at"] === undefined) values["registered_at"] = tx.nowMs
  },
  events: ({ before, after }, tx) => {
    if (after === undefined) return
    const body = () => ({ customer: tx.represent("customers", after) })
    if (before === undefined) {
      tx.emit("CustomerCreated", body)
      if (after.values["no_account"] !== true) tx.emit("CustomerRegistered", body)
      return
    }
    tx.emit("CustomerUpdated", body)
    if (before.values["email"] !== after.values["email"])
      tx.emit("CustomerEmailUpdated", () => ({
        old_email: before.values["email"],
        new_email: after.values["email"],
        ...body()
      }))
  }
})

/** Makes an address the only default of its kind: the customer's other addresses lose the flag. */
const keepOneDefault = ({ tx, id, values }: Draft): void => {
  const customerId = values["customer_id"]
  for (const flag of ["is_default_shipping_address", "is_default_billing_address"]) {
    if (values[flag] !== true || typeof customerId !== "number") continue
    for (const other of tx.children("addresses", "customer_id", customerId, 1_000))
      if (other.id !== id && other.values[flag] === true) tx.update("addresses", other, { [flag]: false })
  }
}

export const addressFields = {
  ...fieldsOf(field.string(), "first_name last_name company"),
  address_line_1: field.string("", { required: true, lengthMin: 1 }),
  ...fieldsOf(
    field.string(),
    "address_line_2 city state postal_code country phone alternate_phone fax comments"
  ),
  address_type: field.string("Default")
}

export const addresses = resource({
  name: "addresses",
  singular: "address",
  subject: "people",
  area: "Customers",
  fields: {
    customer_id: references("customers", { required: true, onDelete: "cascade" }),
    ...addressFields,
    ...fieldsOf(field.boolean(), "is_default_shipping_address is_default_billing_address")
  },
  prepare: keepOneDefault
})

export const customerTypes = resource({
  name: "customer_types",
  singular: "customer_type",
  subject: "people",
  area: "CustomerTypes",
  fields: {
    name: field.string("", { required: true, lengthMin: 1, unique: "customer_type" }),
    customer_level: field.integer(),
    description: field.string()
  }
})
