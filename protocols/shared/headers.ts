/** Response headers that every service sends. */

/** Nothing may keep the answer. */
export const noStore = ["Cache-Control", "no-store"] as const
