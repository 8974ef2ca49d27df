import { expect, it } from "vitest"
import { Timers } from "../../runtime/timers.ts"

it("fires in the first tick at or after its time, once, in order of time", () => {
  let nowMs = 1_000
  const timers = new Timers(() => nowMs)
  const tickAt = (ms: number): void => {
    nowMs = ms
    timers.tick()
  }
  const fired: Array<string> = []
  timers.after(120, () => fired.push("b"))
  timers.after(60, () => fired.push("a"))
  timers.after(8_000, () => fired.push("far"))
  tickAt(1_050)
  expect(fired).toEqual([])
  tickAt(1_100)
  expect(fired).toEqual(["a"])
  tickAt(1_149)
  expect(fired).toEqual(["a"])
  tickAt(60_000)
  expect(fired).toEqual(["a", "b", "far"])
  tickAt(120_000)
  expect(fired).toHaveLength(3)
})

it("a time already past fires in the next tick, and a clock that jumps back does no harm", () => {
  let nowMs = 10_000
  const timers = new Timers(() => nowMs)
  const tickAt = (ms: number): void => {
    nowMs = ms
    timers.tick()
  }
  let fired = 0
  timers.after(-9_999, () => {
    fired++
  })
  tickAt(9_000)
  tickAt(10_000)
  tickAt(10_050)
  expect(fired).toBe(1)
})
