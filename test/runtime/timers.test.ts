import { expect, it } from "vitest"
import { Timers } from "../../runtime/timers.ts"

it("fires in the first tick at or after its time, once, in order of time", () => {
  const timers = new Timers(1_000)
  const fired: Array<string> = []
  timers.schedule(1_120, () => fired.push("b"))
  timers.schedule(1_060, () => fired.push("a"))
  timers.schedule(9_000, () => fired.push("far"))
  timers.tick(1_050)
  expect(fired).toEqual([])
  timers.tick(1_100)
  expect(fired).toEqual(["a"])
  timers.tick(1_149)
  expect(fired).toEqual(["a"])
  timers.tick(60_000)
  expect(fired).toEqual(["a", "b", "far"])
  timers.tick(120_000)
  expect(fired).toHaveLength(3)
})

it("a time already past fires in the next tick, and a clock that jumps back does no harm", () => {
  const timers = new Timers(10_000)
  let fired = 0
  timers.schedule(1, () => {
    fired++
  })
  timers.tick(9_000)
  timers.tick(10_000)
  timers.tick(10_050)
  expect(fired).toBe(1)
})
