/** The simulation as a command: `npm run simulate -- --seeds N --seed S --jobs J`, with
 *  `--only PROMISE` for one promise alone. It runs N seeds from S on in
 *  J processes, prints how often each kind of fault fell, and of each promise that was broken the first seeds
 *  and a minimal trace. It exits with 1 when any was. */
import { fork } from "node:child_process"
import { parseArgs } from "node:util"
import { planOf } from "./plan.ts"
import { failureText, tallyText } from "./report.ts"
import { hearRejections, runPlan } from "./run.ts"
import { shrink } from "./shrink.ts"
import { Tally } from "./tally.ts"

interface Failure {
  readonly seed: number
  readonly promise: string
  readonly words: string
}

/** What one process reports to the first. */
interface Share {
  readonly failures: ReadonlyArray<Failure>
  readonly counts: ReadonlyArray<readonly [string, number]>
}

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "300" },
    seed: { type: "string", default: "1" },
    jobs: { type: "string", default: "1" },
    only: { type: "string" },
    "no-shrink": { type: "boolean", default: false },
    fingerprints: { type: "boolean", default: false },
    share: { type: "boolean", default: false }
  }
})

const seeds = Number(values.seeds)
const first = Number(values.seed)
const { only } = values
const jobs = Math.max(1, Number(values.jobs))

const runSeeds = async (from: number, count: number): Promise<Share> => {
  const tally = new Tally()
  const failures: Array<Failure> = []
  for (let seed = from; seed < from + count; seed++) {
    const { violation, fingerprint, tally: run } = await runPlan(planOf(seed), { only })
    tally.add(run.counts)
    if (values.fingerprints) console.log(`${seed} ${fingerprint}`)
    if (violation !== undefined) failures.push({ seed, ...violation })
  }
  return { failures, counts: [...tally.counts] }
}

const runElsewhere = (from: number, count: number): Promise<Share> =>
  new Promise((resolve, reject) => {
    const child = fork(process.argv[1]!, [
      "--share",
      ...(only === undefined ? [] : ["--only", only]),
      "--seed",
      String(from),
      "--seeds",
      String(count)
    ])
    child.on("message", (share) => resolve(share as Share))
    child.on("exit", (code) => (code === 0 ? undefined : reject(new Error(`a process ended with ${code}`))))
  })

const explain = async (seed: number, promise: string): Promise<string> => {
  const plan = planOf(seed)
  const short = values["no-shrink"] ? plan : await shrink(plan, promise, { only })
  return failureText(seed, short, await runPlan(short, { only, keepsLines: true }))
}

const runAll = async (): Promise<void> => {
  const startedMs = Date.now()
  const share = Math.ceil(seeds / jobs)
  const shares =
    jobs === 1
      ? [await runSeeds(first, seeds)]
      : await Promise.all(
          Array.from({ length: jobs }, (_, i) =>
            runElsewhere(first + i * share, Math.min(share, seeds - i * share))
          )
        )
  const tally = new Tally()
  for (const { counts } of shares) tally.add(counts)
  const failures = shares.flatMap((found) => found.failures)
  console.log(`${seeds} seeds from ${first}: ${failures.length} broke a promise`)
  console.log(tallyText(tally))
  for (const name of new Set(failures.map((failure) => failure.promise))) {
    const found = failures.filter((failure) => failure.promise === name)
    const [{ seed, promise }] = found as [Failure]
    console.log(
      `\n${name}\n${found.length} seeds: ${found
        .slice(0, 10)
        .map((one) => one.seed)
        .join(", ")}`
    )
    console.log(await explain(seed, promise))
  }
  console.log(`\n${((Date.now() - startedMs) / 1_000).toFixed(1)} s`)
  process.exitCode = failures.length === 0 ? 0 : 1
}

hearRejections()
// Nobody reads the stacks of the faults that a run is made of, and they cost a tenth of it.
Error.stackTraceLimit = 0
if (values.share) {
  process.send!(await runSeeds(first, seeds))
  process.disconnect()
} else await runAll()
