/** How long an answer is repeated. Source: docs/spec/store.md, section 6.6. */
import { expect, it } from "vitest"
import { minimal, StoreHarness } from "../harness.ts"

const dayMs = 86_400_000

it("a repeat gets the first answer for a day, then the request is a new one", async () => {
  const harness = await StoreHarness.open()
  const create = async (): Promise<number> => {
    const answer = await harness.call({
      method: "POST",
      path: "/products.json",
      body: minimal,
      headers: { "idempotency-key": "k" }
    })
    expect(answer.status).toBe(201)
    return answer.body.id
  }
  const first = await create()
  harness.nowMs += dayMs - 1
  expect(await create()).toBe(first)
  harness.nowMs += 1
  expect(await create()).not.toBe(first)
})
