/** The durable tables of the engine: records, what is unique among them, who refers to whom, and when a
 *  collection last changed.
 *  Source: docs/spec/store.md, section 10. */
import { Schema } from "effect"
import { table } from "../../../storage/store.ts"
import type { Row } from "./resource.ts"

/** [resource, id]. Fields were checked at the border and differ per resource, so the rows are not decoded a
 *  second time. */
export const Rows = table("store-rows", Schema.Any as Schema.Codec<Omit<Row, "id">, any>)

/** [name space, folded value] → who has it */
export const Uniques = table(
  "store-uniques",
  Schema.Any as Schema.Codec<readonly [resource: string, id: number], any>
)

/** [referring resource, field, id referred to, referring id] */
export const References = table("store-references", Schema.Any as Schema.Codec<null, any>)

/** [resource] → when any of its records last changed or was deleted. */
export const Collections = table("store-collections", Schema.Any as Schema.Codec<number, any>)
