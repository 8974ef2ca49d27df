/** When a write of the store is answered. Source: docs/spec/store.md, section 6. */
import { expect, it } from "vitest"
import { heldStore, turned } from "../../../storage/held-commits.ts"
import { minimal, StoreHarness } from "../harness.ts"

it("a created product is answered when it is on disk", async () => {
  const { store, hold, waiting, settle } = heldStore()
  const harness = await StoreHarness.open({}, store)
  hold()
  let status = 0
  const posting = harness.post("/products.json", minimal).then((answer) => {
    ;({ status } = answer)
  })
  await waiting
  for (let turns = 0; turns < 5; turns++) await turned()
  expect(status).toBe(0)
  settle()
  await posting
  expect(status).toBe(201)
})
