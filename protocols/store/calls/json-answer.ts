/** Writes the answer of a call as JSON that no cache may store. */
import { Effect } from "effect"
import { noStore } from "../../shared/headers.ts"
import type { Engine } from "../engine/engine.ts"
import type { Transaction } from "../engine/resource.ts"
import { jsonType, type Refusal } from "../problems.ts"
import type { Answer } from "../target.ts"

export const jsonAnswer = (status: number, value: unknown): Answer => ({
  status,
  headers: [jsonType, noStore],
  body: JSON.stringify(value)
})

/** Answers what `work` returns when its commit is durable. */
export const written = (engine: Engine, work: (tx: Transaction) => unknown): Effect.Effect<Answer, Refusal> =>
  Effect.map(engine.write(work), (value) => jsonAnswer(200, value))
