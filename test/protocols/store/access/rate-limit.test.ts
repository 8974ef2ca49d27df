/** The windows of the store. Source: docs/spec/store.md, section 4. */
import { expect, it } from "vitest"
import { windowMs } from "../../../../protocols/store/access/rate-limit.ts"
import { StoreHarness } from "../harness.ts"

it("an address that has used up its window is heard again in the next", async () => {
  const harness = await StoreHarness.open()
  harness.nowMs = Math.ceil(harness.nowMs / windowMs) * windowMs
  for (let call = 0; call < 50; call++)
    expect((await harness.get("/products", { token: "sat_wrong" })).status).toBe(401)
  expect((await harness.get("/products")).status).toBe(429)
  harness.nowMs += windowMs - 1
  expect((await harness.get("/products")).status).toBe(429)
  harness.nowMs += 1
  expect((await harness.get("/products")).status).toBe(200)
})

it("wrong passwords of an address are counted in windows too", async () => {
  const { shop, nowMs } = await StoreHarness.open()
  const limiter = shop.rateLimiter
  expect(nowMs % windowMs).toBe(0)
  for (let attempt = 0; attempt < 50; attempt++) await limiter.reserveSignIn("192.0.2.7")!.settle(true)
  expect(limiter.reserveSignIn("192.0.2.7")).toBeUndefined()
  expect(limiter.reserveSignIn("192.0.2.8")).toBeDefined()
})

it("A-4: attempts of an address that are being judged count, and are given back when they were right", async () => {
  const { shop } = await StoreHarness.open()
  const limiter = shop.rateLimiter
  const attempts = Array.from({ length: 150 }, () => limiter.reserveSignIn("192.0.2.7"))
  const judged = attempts.filter((attempt) => attempt !== undefined)
  expect(judged).toHaveLength(50)
  await judged[0]!.settle(false)
  await limiter.reserveSignIn("192.0.2.7")!.settle(true)
  expect(limiter.reserveSignIn("192.0.2.7")).toBeUndefined()
})
