/** Writes the answer of a call as JSON that no cache may store. */
import { noStore } from "../../shared/headers.ts"
import { jsonType } from "../problems.ts"
import type { Answer } from "../target.ts"

export const jsonAnswer = (status: number, value: unknown): Answer => ({
  status,
  headers: [jsonType, noStore],
  body: JSON.stringify(value)
})
