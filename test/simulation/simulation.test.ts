/** The simulation among the checks: 300 seeds keep every promise, every kind of fault falls in them, and a seed
 *  is a run. */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { chooseParts } from "./cast/cast.ts"
import { planOf, stepsPerSeed, type Plan } from "./plan.ts"
import { failureText } from "./report.ts"
import { Random } from "./random.ts"
import { runPlan } from "./run.ts"
import { shortest, shrink } from "./shrink.ts"
import { Tally } from "./tally.ts"

const seeds = Array.from({ length: 300 }, (_, i) => i + 1)
const { stackTraceLimit } = Error

// Nobody reads the stacks of the faults that a run is made of.
beforeAll(() => {
  Error.stackTraceLimit = 0
})
afterAll(() => {
  Error.stackTraceLimit = stackTraceLimit
})

const explain = async (plan: Plan, promise: string): Promise<string> => {
  const short = await shrink(plan, promise)
  return failureText(plan.seed, short, await runPlan(short, { keepsLines: true }))
}

describe("300 seeds", () => {
  it("keep every promise, and every kind of fault falls in them", { timeout: 300_000 }, async () => {
    const tally = new Tally()
    for (const seed of seeds) {
      const plan = planOf(seed)
      const result = await runPlan(plan)
      if (result.violation !== undefined) expect.fail(await explain(plan, result.violation.promise))
      tally.add(result.tally.counts)
    }
    expect([...tally.counts].filter(([, count]) => count === 0)).toEqual([])
  })
  it("have at least 500 steps over eight actors of three kinds", () => {
    expect(stepsPerSeed).toBeGreaterThanOrEqual(500)
    for (const seed of seeds) {
      const parts = chooseParts(new Random(seed))
      expect(parts.length).toBeGreaterThanOrEqual(8)
      expect(new Set(parts.map(({ role }) => role.definition.kind)).size).toBeGreaterThanOrEqual(3)
    }
  })
})

it("the same seed is the same run, line by line; another seed is another", { timeout: 60_000 }, async () => {
  for (const seed of [1, 2, 3]) {
    const first = await runPlan(planOf(seed), { keepsLines: true })
    const again = await runPlan(planOf(seed), { keepsLines: true })
    expect(again.lines).toEqual(first.lines)
    expect(again.fingerprint).toBe(first.fingerprint)
    expect((await runPlan(planOf(seed + 10))).fingerprint).not.toBe(first.fingerprint)
  }
})

it("a failing plan is shrunk to the steps that matter", async () => {
  const steps = Array.from({ length: 500 }, (_, i) => i)
  const short = await shortest(steps, async (some) => some.includes(7) && some.includes(301))
  expect(short).toEqual([7, 301])
})
