import { Context } from "effect"
import { describe, expect, it } from "vitest"
import { RateWindow } from "../../actors/rate-window.ts"
import { ActorSystem } from "../../runtime/registry.ts"
import { openMemory } from "../../storage/memory.ts"

const world = () => {
  const clock = { nowMs: 20_000 }
  const system = new ActorSystem({ store: openMemory(), nowMs: () => clock.nowMs })
  system.host(RateWindow, Context.empty())
  const window = system.ref(RateWindow, "a")
  const take = (
    cost = 1,
    limit = 3,
    windowMs = 10_000,
    lastSeen?: { startMs: number; charged: number }
  ): unknown => {
    let heard: unknown = "later"
    window.askNow(
      "Take",
      { cost, limit, windowMs, ...(lastSeen === undefined ? {} : { lastSeen }) },
      (answer) => {
        heard = answer
      }
    )
    return heard
  }
  return { clock, take }
}

const limited = (retryAfterMs: number) => ({ refuse: { _tag: "Limited", retryAfterMs } })

describe("rate window", () => {
  it("answers in the caller's turn: so many calls pass, the next is refused until the window ends", () => {
    const { clock, take } = world()
    clock.nowMs = 21_000
    expect(take()).toEqual({ reply: { charged: 1, remaining: 2, resetMs: 9_000 } })
    expect(take()).toEqual({ reply: { charged: 2, remaining: 1, resetMs: 9_000 } })
    clock.nowMs = 25_000
    expect(take()).toEqual({ reply: { charged: 3, remaining: 0, resetMs: 5_000 } })
    expect(take()).toEqual(limited(5_000))
  })
  it("what the caller has seen of this window counts when it is more than the actor remembers", () => {
    const { take } = world()
    take()
    expect(take(1, 3, 10_000, { startMs: 20_000, charged: 2 })).toEqual({
      reply: { charged: 3, remaining: 0, resetMs: 10_000 }
    })
    expect(take(1, 3, 10_000, { startMs: 20_000, charged: 1 })).toEqual(limited(10_000))
    expect(world().take(1, 3, 10_000, { startMs: 10_000, charged: 3 })).toMatchObject({
      reply: { charged: 1 }
    })
  })
  it("windows are fixed and aligned: the counter resets at k·windowMs, not a window after the first call", () => {
    const { clock, take } = world()
    clock.nowMs = 29_999
    take(3)
    expect(take()).toEqual(limited(1))
    clock.nowMs = 30_000
    expect(take()).toEqual({ reply: { charged: 1, remaining: 2, resetMs: 10_000 } })
  })
  it("a refused call costs nothing", () => {
    const { take } = world()
    take(2)
    expect(take(2)).toEqual(limited(10_000))
    expect(take(1)).toEqual({ reply: { charged: 3, remaining: 0, resetMs: 10_000 } })
  })
  it("translation's rate: 200 calls in 2 s, the 201st waits", () => {
    const { clock, take } = world()
    for (let i = 0; i < 200; i++) expect(take(1, 200, 2_000)).toHaveProperty("reply")
    expect(take(1, 200, 2_000)).toEqual(limited(2_000))
    clock.nowMs += 2_000
    expect(take(1, 200, 2_000)).toHaveProperty("reply")
  })
  it("what the asker has seen counts, so that an actor which lost its memory gives nothing away", () => {
    const { take } = world()
    expect(take(1, 3, 10_000, { startMs: 20_000, charged: 3 })).toEqual(limited(10_000))
    expect(take(1, 3, 10_000, { startMs: 10_000, charged: 3 })).toEqual({
      reply: { charged: 1, remaining: 2, resetMs: 10_000 }
    })
  })
  it("a clock that steps back by a window or less keeps the window it was in; by more, it starts anew", () => {
    const { clock, take } = world()
    clock.nowMs = 30_000
    take(3)
    clock.nowMs = 25_000
    expect(take()).toEqual(limited(15_000))
    clock.nowMs = 15_000
    expect(take()).toEqual({ reply: { charged: 1, remaining: 2, resetMs: 5_000 } })
  })
})
