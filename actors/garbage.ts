/** Lists the blobs and memories that nothing refers to any more, for removal in the background. A row is
 *  written in the commit that drops the last reference, so that a crash leaves nothing behind permanently. */
import { Schema } from "effect"
import { table } from "../storage/store.ts"

/** ["blob" | "memory", id] → true */
export const Garbage = table("translation-garbage", Schema.Boolean)
