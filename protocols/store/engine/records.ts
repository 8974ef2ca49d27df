/** The durable tables of the engine: records, unique values, references between records, and the time of
 *  each collection's last change.
 *  Source: docs/spec/store.md, section 10. */
import { Schema } from "effect"
import { table } from "../../../storage/store.ts"
import type { Row } from "./resource.ts"

/** Rows by [resource, id]. Fields were checked on input and differ per resource, so the rows are not decoded
 *  a second time. */
export const Rows = table("store-rows", Schema.Any as Schema.Codec<Omit<Row, "id">, any>)

/** Owners of unique values by [name space, folded value]. */
export const Uniques = table(
  "store-uniques",
  Schema.Any as Schema.Codec<readonly [resource: string, id: number], any>
)

/** References by [referring resource, field, id referred to, referring id]. */
export const References = table("store-references", Schema.Any as Schema.Codec<null, any>)

/** Time at which any record of a resource last changed or was deleted, by [resource]. */
export const Collections = table("store-collections", Schema.Any as Schema.Codec<number, any>)
