/** Blobs and memories that nobody refers to any more are removed in the background. Their row is written in
 *  the commit that drops the last reference, so that a crash leaves nothing behind for good. */
import { Schema } from "effect"
import { table } from "../storage/store.ts"

/** ["blob" | "memory", id] → true */
export const Garbage = table("translation-garbage", Schema.Boolean)
