/** What nobody refers to any more and has to be removed in the background: a row written in the commit that
 *  drops the last reference, so that a crash leaves nothing behind for good. */
import { Schema } from "effect"
import { table } from "../storage/store.ts"

/** ["blob" | "memory", id] */
export const Garbage = table("translation-garbage", Schema.Boolean)
