/** Response headers that every service sends. */

/** No cache may store the answer. */
export const noStore = ["Cache-Control", "no-store"] as const
