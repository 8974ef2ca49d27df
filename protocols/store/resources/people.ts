/** Customers, their addresses and types. Source: store section 8.5. */
import { b, d, i, m, n, named, s, t, to } from "../engine/fields.ts"
import { resource, type Draft } from "../engine/resource.ts"
import { customValues } from "./products.ts"

const emailWrong = (value: string): string | undefined =>
  /^[^@\s]+@[^@\s]+$/.test(value) ? undefined : "must be an e-mail address"

export const customers = resource({
  name: "customers",
  singular: "customer",
  subject: "people",
  area: "Customers",
  validate: "ValidateCustomer",
  fields: {
    email: s("", { required: true, lengthMax: 254, unique: "customer_email", wrong: emailWrong }),
    store_id: i(1, { required: true, min: 1 }),
    ...named(
      "first_name last_name company phone_number alternate_phone_number customer_number username",
      s()
    ),
    customer_type_id: to("customer_types"),
    is_no_tax_customer: b(),
    tax_exemption_number: s(),
    comments: t(),
    ...named("adcode source source_group search_string sales_person default_payment_type_name", s()),
    ...named("adcode_id affiliate_id sales_person_user_id reward_tier_id payment_net_term", i(null)),
    ...named(
      `no_account is_affiliate_customer is_contact_information_only lock_default_address use_shared_credit_limit override_shared_credit_limit is_inactive`,
      b()
    ),
    store_payment_methods_enabled: { kind: "strings", initial: [] },
    tax_rate: n(null, { min: 0 }),
    credit_limit: m(null),
    ...named("registered_at last_visit_at", d())
  },
  nested: {
    addresses: { of: "addresses", by: "customer_id" },
    additional_emails: { from: [], show: () => [] },
    custom_fields: {
      from: ["custom_field_values", "custom_fields"],
      show: (read, row, limit) => customValues(read, "customer_id", row.id, limit)
    }
  },
  prepare: ({ tx, before, given, values }) => {
    if (before === undefined && given["registered_at"] === undefined) values["registered_at"] = tx.nowMs
  },
  events: ({ before, after }, tx) => {
    if (after === undefined) return
    const body = () => ({ customer: tx.show("customers", after) })
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

/** A default of its kind takes that from the customer's others. */
const onlyDefault = ({ tx, id, values }: Draft): void => {
  const customerId = values["customer_id"]
  for (const flag of ["is_default_shipping_address", "is_default_billing_address"]) {
    if (values[flag] !== true || typeof customerId !== "number") continue
    for (const other of tx.children("addresses", "customer_id", customerId, 1_000))
      if (other.id !== id && other.values[flag] === true) tx.update("addresses", other, { [flag]: false })
  }
}

export const addressFields = {
  ...named("first_name last_name company", s()),
  address_line_1: s("", { required: true, lengthMin: 1 }),
  ...named("address_line_2 city state postal_code country phone alternate_phone fax comments", s()),
  address_type: s("Default")
}

export const addresses = resource({
  name: "addresses",
  singular: "address",
  subject: "people",
  area: "Customers",
  fields: {
    customer_id: to("customers", { required: true, gone: "cascade" }),
    ...addressFields,
    ...named("is_default_shipping_address is_default_billing_address", b())
  },
  prepare: onlyDefault
})

export const customerTypes = resource({
  name: "customer_types",
  singular: "customer_type",
  subject: "people",
  area: "CustomerTypes",
  fields: {
    name: s("", { required: true, lengthMin: 1, unique: "customer_type" }),
    customer_level: i(),
    description: s()
  }
})
