/** The name of a record that must have one. */
import { defined } from "../../../runtime/defined.ts"
import { field, type Field } from "../engine/fields.ts"

/** `unique`: the name space in which no two records have the same name. */
export const nameField = (unique?: string): Field<string> =>
  field.string("", defined({ required: true, lengthMin: 1, unique }))
