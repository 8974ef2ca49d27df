/** Makes a failing plan short: steps are left out, first many at once, then one by one, while the same promise
 *  is still broken. */
import type { RunOptions } from "./model.ts"
import type { Plan } from "./plan.ts"
import { runPlan } from "./run.ts"

/** The most runs that one shrinking may take. */
const runsMax = 1_500

/** Leaves out what it can, while `stillFails`. */
export const shortest = async <A>(
  items: ReadonlyArray<A>,
  stillFails: (items: ReadonlyArray<A>) => Promise<boolean>
): Promise<ReadonlyArray<A>> => {
  let short = items
  let runs = 0
  for (let size = Math.ceil(short.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2))
    for (let removed = true; removed && runs < runsMax;) {
      removed = false
      for (let at = short.length - size; at > -size && runs < runsMax; at -= size) {
        const shorter = short.filter((_, i) => i < at || i >= at + size)
        if (shorter.length === short.length) continue
        runs++
        if (!(await stillFails(shorter))) continue
        short = shorter
        removed = true
      }
    }
  return short
}

export const shrink = async (plan: Plan, promise: string, options: RunOptions = {}): Promise<Plan> => {
  const whole = await runPlan(plan, options)
  if (whole.violation?.promise !== promise) return plan
  const steps = await shortest(plan.steps.slice(0, whole.stepsRun), async (fewer) => {
    const { violation } = await runPlan({ ...plan, steps: fewer }, options)
    return violation?.promise === promise
  })
  return { ...plan, steps }
}
