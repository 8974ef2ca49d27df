import { expect, it } from "vitest"
import { OwnAppTokens } from "../../../../protocols/store/access/app-tokens.ts"
import { World } from "../harness.ts"

it("sessions and tokens that have ended do not pile up", async () => {
  const world = await World.open()
  const { app } = await world.user(["catalog"], ["Products"])
  const userId = await world.open.staff.add({ username: "anna" })
  for (let round = 0; round < 300; round++) {
    world.nowMs += 12 * 3_600_000
    await world.open.staff.open(userId)
    await (world.open.tokens as OwnAppTokens).issue({ appId: app.appId, scopes: ["catalog"], lifeMs: 1_000 })
  }
  expect(world.store.range("store-sessions", { limit: 1_000 }).length).toBeLessThan(100)
  expect(world.store.range("store-app-tokens", { limit: 1_000 }).length).toBeLessThan(100)
})

it("strangers leave no rows behind", async () => {
  const world = await World.open()
  for (let i = 0; i < 100; i++) await world.get("/products", { token: "bad", client: `192.0.2.${i}` })
  await world.open.settled()
  expect(world.store.range("store-windows", { limit: 1_000 })).toEqual([])
})
