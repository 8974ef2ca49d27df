/** Users of the console, read only: what the staff list shows of them. Source: store section 8.5 "users". */
import { b, d, i, named, s } from "../engine/fields.ts"
import { resource } from "../engine/resource.ts"

export const users = resource({
  name: "users",
  singular: "user",
  subject: "people",
  area: "UserAccounts",
  readOnly: true,
  fields: {
    username: s("", { unique: "username" }),
    ...named("email first_name last_name phone", s()),
    profile_id: i(),
    is_salesperson: b(),
    last_login_at: d()
  }
})
