/** How often an actor may crash. */
import { expect, it } from "vitest"
import { CrashRecord } from "../../runtime/supervisor.ts"

const intensity = { times: 3, withinMs: 60_000, backoffMs: 1_000 }

const crashes = (...atMs: ReadonlyArray<number>): ReadonlyArray<number | undefined> => {
  const record = new CrashRecord()
  return atMs.map((ms) => record.record("a bug", { monotonicMs: () => ms, random: () => 0.5 }, intensity))
}

it("so many crashes rest longer each time, and one more fails the actor", () => {
  expect(crashes(0, 1, 2, 3)).toEqual([1_000, 2_000, 4_000, undefined])
})

it("a crash counts for as long as the window is, to the millisecond", () => {
  expect(crashes(0, 1, 2, 59_999)).toEqual([1_000, 2_000, 4_000, undefined])
  expect(crashes(0, 1, 2, 60_000)).toEqual([1_000, 2_000, 4_000, 4_000])
  expect(crashes(0, 40_000, 80_000, 120_000, 160_000)).toEqual([1_000, 2_000, 2_000, 2_000, 2_000])
})
