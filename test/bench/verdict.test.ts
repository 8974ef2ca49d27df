/** The rule by which `npm run bench -- --against` calls a row, on ratios written by hand. */
import { expect, it } from "vitest"
import { judge, medianInterval } from "../../bench/verdict.ts"

const around = (...offsets: ReadonlyArray<number>): ReadonlyArray<number> =>
  offsets.map((offset) => 1 + offset / 100)

it.each([
  ["a median within 5 %", around(-3, -2, -1, 0, 2, 4, 6), "unchanged"],
  ["a cost that rises", around(6, 7, 8, 9, 10, 11, 12), "worse"],
  ["a cost that falls", around(-12, -11, -10, -9, -8, -7, -6), "better"],
  ["six rounds", around(6, 7, 8, 9, 10, 11), "too few rounds"],
  ["one odd round among seven", around(-1, -1, 0, 0, 0, 1, 60), "not shown"],
  ["one odd round among fifteen", around(-2, -2, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 2, 2, 60), "unchanged"],
  ["a middle half across both borders", around(-20, -10, -8, 0, 8, 10, 20), "not shown"],
  ["a difference that one round contradicts", around(-1, 7, 8, 9, 10, 11, 12), "not shown"]
])("verdict: %s", (_, ratios, verdict) => {
  expect(judge(ratios).verdict).toBe(verdict)
})

it("verdict: of a rate more is better", () => {
  const ratios = around(6, 7, 8, 9, 10, 11, 12)
  expect(judge(ratios, true).verdict).toBe("better")
})

it("a difference under 5 % is named by fifteen rounds whose interval excludes 1, not by seven", () => {
  const seven = around(-4, -4, -3, -3, -3, -2, -2)
  const fifteen = [...seven, ...seven, 1]
  expect(judge(seven)).toMatchObject({ verdict: "unchanged", smallDifference: undefined })
  expect(judge(fifteen)).toMatchObject({ verdict: "unchanged", smallDifference: "3.0 % less" })
})

it.each([
  [5, undefined],
  [6, { low: 1, high: 6 }],
  [7, { low: 1, high: 7 }],
  [9, { low: 2, high: 8 }],
  [15, { low: 4, high: 12 }]
])("the interval of the median of %i rounds", (rounds, interval) => {
  const values = Array.from({ length: rounds }, (_, index) => rounds - index)
  expect(medianInterval(values)).toEqual(interval)
})
