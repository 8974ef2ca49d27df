import { expect, it } from "vitest"
import { aheadMsMax, idleMsMax, AudioRateLimiter } from "../../../../protocols/translation/voice/pace.ts"

it("twice real time and what is tolerated ahead of it, and not a millisecond more", () => {
  const pace = new AudioRateLimiter(1_000, true)
  pace.join(1_000)
  expect(pace.chunk(2_000, 2_000 + aheadMsMax.plain)).toBe(true)
  expect(pace.chunk(2_000, 1)).toBe(false)
})

it("sound whose length only decoding tells may come further ahead", () => {
  const pace = new AudioRateLimiter(0, false)
  expect([pace.heard(0, aheadMsMax.decoded), pace.heard(0, aheadMsMax.decoded + 1)]).toEqual([true, false])
})

it("the time between two connections earns nothing, and is no idle time", () => {
  const pace = new AudioRateLimiter(0, true)
  expect(pace.chunk(0, aheadMsMax.plain)).toBe(true)
  pace.leave(0)
  pace.join(600_000)
  expect([pace.idle(600_000), pace.chunk(600_000, 1)]).toEqual([false, false])
})

it("30 seconds without a chunk are idle", () => {
  const pace = new AudioRateLimiter(0, true)
  pace.chunk(5_000, 10)
  expect([pace.idle(5_000 + idleMsMax - 1), pace.idle(5_000 + idleMsMax)]).toEqual([false, true])
})
