/** Makes a failing plan short: steps are left out, first many at once, then one by one, while the same promise
 *  is still broken. */
import type { RunOptions } from "./model.ts"
import type { Plan, Step } from "./plan.ts"
import { runPlan } from "./run.ts"

/** The most runs that one shrinking may take. */
const runsMax = 1_500

export const shrink = async (plan: Plan, promise: string, options: RunOptions = {}): Promise<Plan> => {
  let runs = 0
  const stillFails = async (steps: ReadonlyArray<Step>): Promise<number | undefined> => {
    runs++
    const { violation, stepsRun } = await runPlan({ ...plan, steps }, options)
    return violation?.promise === promise ? stepsRun : undefined
  }
  let steps = plan.steps
  const end = await stillFails(steps)
  if (end === undefined) return plan
  steps = steps.slice(0, end)
  for (let size = Math.ceil(steps.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let removed = true; removed && runs < runsMax;) {
      removed = false
      for (let at = steps.length - size; at > -size && runs < runsMax; at -= size) {
        const shorter = steps.filter((_, i) => i < at || i >= at + size)
        if (shorter.length === steps.length || (await stillFails(shorter)) === undefined) continue
        steps = shorter
        removed = true
      }
    }
  }
  return { ...plan, steps }
}
