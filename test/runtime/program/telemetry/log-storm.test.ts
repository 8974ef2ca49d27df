/** The storm of equal lines, under a clock that the test owns. */
import { expect, it } from "vitest"
import { LogStorm } from "../../../../runtime/program/telemetry/log-storm.ts"

const storm = () => {
  const reports: Array<readonly [string, number]> = []
  let due: (() => void) | undefined
  const guard = new LogStorm(
    (sort, suppressed) => reports.push([sort, suppressed]),
    (work) => {
      due = work
    }
  )
  const pass = (): void => {
    const work = due
    due = undefined
    work?.()
  }
  return { guard, reports, pass, waits: () => due !== undefined }
}

it("20 lines of a sort pass, the others are counted and reported once the window ends", () => {
  const { guard, reports, pass } = storm()
  const written = Array.from({ length: 1_000 }, () => guard.admits("a")).filter(Boolean)
  expect(written).toHaveLength(20)
  expect(guard.admits("b")).toBe(true)
  expect(reports).toEqual([])
  pass()
  expect(reports).toEqual([["a", 980]])
  expect(guard.admits("a")).toBe(true)
})

it("a quiet log has no timer, and a window without a storm says nothing", () => {
  const { guard, reports, pass, waits } = storm()
  expect(waits()).toBe(false)
  guard.admits("a")
  expect(waits()).toBe(true)
  pass()
  expect([reports, waits()]).toEqual([[], false])
})

it("however many sorts there are, they are bounded together", () => {
  const { guard, reports, pass } = storm()
  let written = 0
  for (let i = 0; i < 10_000; i++) if (guard.admits(`sort ${i}`)) written++
  expect(written).toBe(1_000 + 20)
  pass()
  expect(reports).toEqual([["(other)", 8_980]])
})
