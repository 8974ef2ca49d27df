/** The shop itself: its warehouses, and the stores it sells in.
 *  Source: docs/spec/store.md, section 8.10. */
import { field, fieldsOf } from "../engine/fields.ts"
import { resource } from "../engine/resource.ts"
import { nameField } from "./name-field.ts"

export const warehouses = resource({
  name: "warehouses",
  singular: "warehouse",
  subject: "settings",
  area: "Warehouses",
  fields: {
    name: nameField("warehouse"),
    code: field.string(),
    ...fieldsOf(field.string(), "address_line_1 address_line_2 city state postal_code country phone email"),
    is_active: field.boolean(true),
    is_default: field.boolean()
  }
})

export const stores = resource({
  name: "stores",
  singular: "store",
  subject: "system",
  area: "StoreSettings",
  fields: {
    name: nameField("store"),
    domain: field.string(),
    email: field.string(),
    currency: field.string("USD", { lengthMax: 3 }),
    is_default: field.boolean()
  }
})
