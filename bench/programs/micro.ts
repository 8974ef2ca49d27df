/** Runs one candidate of one in-process bench in a process of its own. It prints the cost of an operation in
 *  ns of CPU, and a checksum of the work: node micro.js BENCH CANDIDATE OPERATIONS */
import { ask, askThousand } from "../candidates/kernel/ask.ts"
import { durable } from "../candidates/kernel/durable.ts"
import { idle } from "../candidates/kernel/idle.ts"
import { rateWindow } from "../candidates/kernel/rate-window.ts"
import { tell, tellThousand } from "../candidates/kernel/tell.ts"
import type { Work } from "../candidates/kernel/work.ts"

const bench = process.argv[2]!
const candidate = process.argv[3]!
const operations = Number(process.argv[4])
const isDurable = bench.startsWith("durable-")

const works: Readonly<Record<string, (candidate: string) => Work | undefined>> = {
  tell,
  "tell-1000": tellThousand,
  ask,
  "ask-1000": askThousand,
  "rate-window": rateWindow
}

if (bench === "idle") {
  console.log(JSON.stringify(await idle(candidate, operations)))
  process.exit(0)
}

const findWork = async (): Promise<Work> => {
  if (isDurable) return durable(candidate, Number(bench.split("-").at(-1)))
  const work = works[bench]?.(candidate)
  if (work === undefined) throw new Error(`no ${candidate} in ${bench}`)
  return work
}

interface Round {
  readonly nsEach: number
  readonly perSecond: number
  readonly checksum: number
}

const work = await findWork()
await work(Math.max(1_000, Math.ceil(operations / 10)))
const rounds: Array<Round> = []

for (let round = 0; round < 3; round++) {
  const cpu = process.cpuUsage()
  const startedMs = performance.now()
  const checksum = await work(operations)
  const { user, system } = process.cpuUsage(cpu)
  rounds.push({
    nsEach: ((user + system) * 1_000) / operations,
    perSecond: operations / ((performance.now() - startedMs) / 1_000),
    checksum
  })
}

const { nsEach, perSecond, checksum } = rounds.sort((a, b) => a.nsEach - b.nsEach)[1]!

// Durable work waits for the disk, so its figure is throughput; elsewhere it is CPU.
console.log(
  JSON.stringify(
    isDurable
      ? { value: perSecond, extra: `${(nsEach / 1_000).toFixed(1)} µs CPU each` }
      : { value: nsEach, extra: `${(1_000 / nsEach).toFixed(2)} M/s`, checksum }
  )
)

process.exit(0)
