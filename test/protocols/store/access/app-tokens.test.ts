/** What has ended, and strangers, leave no rows behind.
 *  Source: docs/spec/store.md, sections 3.4, 4.7. */
import { expect, it } from "vitest"
import { OwnAppTokens } from "../../../../protocols/store/access/app-tokens.ts"
import { StoreHarness } from "../harness.ts"

it("sessions and tokens that have ended do not pile up", async () => {
  const harness = await StoreHarness.open()
  const { app } = await harness.user(["catalog"], ["Products"])
  const userId = await harness.shop.staff.add({ username: "anna" })
  for (let round = 0; round < 300; round++) {
    harness.nowMs += 12 * 3_600_000
    await harness.shop.staff.open(userId)
    await (harness.shop.tokens as OwnAppTokens).issue({
      appId: app.appId,
      scopes: ["catalog"],
      lifeMs: 1_000
    })
  }
  expect(harness.store.range("store-sessions", { limit: 1_000 }).length).toBeLessThan(100)
  expect(harness.store.range("store-app-tokens", { limit: 1_000 }).length).toBeLessThan(100)
})

it("strangers leave no rows behind", async () => {
  const harness = await StoreHarness.open()
  for (let i = 0; i < 100; i++) await harness.get("/products", { token: "bad", client: `192.0.2.${i}` })
  await harness.shop.settled()
  expect(harness.store.range("store-windows", { limit: 1_000 })).toEqual([])
})
