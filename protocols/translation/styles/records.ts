/** Style lists as durable records; the version of a list increases with every change.
 *  Source: docs/spec/translation.md, section 10.1. */
import { Schema } from "effect"
import { table, type Store } from "../../../storage/store.ts"

export const Instruction = Schema.Struct({
  id: Schema.String,
  label: Schema.String,
  prompt: Schema.String,
  sourceLanguage: Schema.String
})

export type Instruction = typeof Instruction.Type

export const StyleList = Schema.Struct({
  styleId: Schema.String,
  accountId: Schema.String,
  name: Schema.String,
  language: Schema.String,
  version: Schema.Int,
  createdMs: Schema.Int,
  updatedMs: Schema.Int,
  rules: Schema.Record(Schema.String, Schema.Record(Schema.String, Schema.String)),
  instructions: Schema.Array(Instruction)
})

export type StyleList = typeof StyleList.Type

/** Style lists by [accountId, styleId]. */
export const StyleLists = table("translation-styles", StyleList)

export const listsMax = 1_000

export const stylesOf = (store: Store, accountId: string): ReadonlyArray<StyleList> =>
  StyleLists.range(store, { prefix: [accountId], limit: listsMax })
    .map(({ value }) => value)
    .sort((a, b) => a.createdMs - b.createdMs)
