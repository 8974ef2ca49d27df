/** What a simulation tells its operator. */
import type { Plan } from "./plan.ts"
import type { RunResult } from "./run.ts"
import type { Tally } from "./tally.ts"

export const tallyText = (tally: Tally): string =>
  [...tally.counts].map(([kind, count]) => `  ${kind.padEnd(26)} ${count}`).join("\n")

/** A failing seed, its shortest plan, and what happened in it. */
export const failureText = (seed: number, short: Plan, { violation, lines }: RunResult): string =>
  [
    `seed ${seed}: ${violation!.promise}: ${violation!.words}`,
    `  the shortest plan found has ${short.steps.length} steps:`,
    ...lines.map((line) => `    ${line}`),
    `  repeat it: npm run simulate -- --seeds 1 --seed ${seed}`
  ].join("\n")
