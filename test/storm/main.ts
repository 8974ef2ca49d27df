/** The crash storm as a command: `npm run crash -- --kills 1000`. It prints kills, promises and violations, and
 *  exits with 1 when anything that was acknowledged is missing, doubled or changed. With --json the report is
 *  its last line. */
import { parseArgs } from "node:util"
import { runStorm } from "./run.ts"

const { values } = parseArgs({
  options: {
    kills: { type: "string", default: "50" },
    adapter: { type: "string", default: "auto" },
    json: { type: "boolean", default: false }
  }
})

for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(130))

const report = await runStorm({
  kills: Number(values.kills),
  env: { TROUPE_ADAPTER: values.adapter },
  say: (text) => console.error(text)
})
const { kills, killsAtStart, answered, promises, checks, violations, errorLines, startMs, seconds } = report
console.log(
  [
    `${kills} kills (${killsAtStart} of them while it started) in ${seconds.toFixed(0)} s, ${(seconds / kills).toFixed(2)} s each`,
    `${answered} answers; promises: ${Object.entries(promises)
      .map(([name, count]) => `${name} ${count}`)
      .join(", ")}`,
    `start with recovery: p50 ${startMs.p50.toFixed(0)} ms, most ${startMs.most.toFixed(0)} ms`,
    `whole checks: ${checks}; lines of level error: ${JSON.stringify(errorLines)}`,
    `violations: ${violations.length}`,
    ...violations.map((text) => `VIOLATION ${text}`)
  ].join("\n")
)
if (values.json) console.log(JSON.stringify(report))
process.exit(violations.length === 0 ? 0 : 1)
