/** Users of the console, read only.
 *  Source: docs/spec/store.md, section 8.5 "users". */
import { field, fieldsOf } from "../engine/fields.ts"
import { resource } from "../engine/resource.ts"

export const users = resource({
  name: "users",
  singular: "user",
  subject: "people",
  area: "UserAccounts",
  readOnly: true,
  fields: {
    username: field.string("", { unique: "username" }),
    ...fieldsOf(field.string(), "email first_name last_name phone"),
    profile_id: field.integer(),
    is_salesperson: field.boolean(),
    last_login_at: field.datetime()
  }
})
