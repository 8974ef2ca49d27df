/** The hostile hour as a command: `npm run hostile -- --minutes 60`. It prints the honest clients' latencies in
 *  quiet, under hostility, and at the hand-written floor, what the program held over time, and what every
 *  5xx was. It exits with 1 when an honest client was answered wrongly, a 5xx is unexplained, or the process
 *  ended. With --json the faults are its last line, with
 *  --log FILE the program's log goes there. */
import { parseArgs } from "node:util"
import { Flood } from "./flood.ts"
import { runFloor, type FloorSettings } from "./floor.ts"
import { Honest, type HonestSettings } from "./honest.ts"
import { openModels } from "./models.ts"
import type { Accounts } from "./preparation.ts"
import { faultsOf, textOf } from "./report.ts"
import { permitted, refused } from "./requests.ts"
import { Rude } from "./rude.ts"
import { runHostile } from "./run.ts"
import type { TallyReport } from "./tally.ts"

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "1" },
    refused: { type: "string", default: "1000" },
    adapter: { type: "string", default: "auto" },
    json: { type: "boolean", default: false },
    log: { type: "string" },
    role: { type: "string" },
    settings: { type: "string", default: "{}" }
  }
})

const reportMs = 1_000

interface LoadSettings {
  readonly port: number
  readonly accounts: Accounts
  readonly refusedPerSecond: number
}

const tell = (said: object): void => {
  process.send!(said)
}

/** Does `work` at the word "end", and then ends. */
const untilEnd = (work: () => Promise<void> | void): void => {
  process.on("message", () => void Promise.resolve(work()).then(() => process.disconnect()))
  process.on("disconnect", () => process.exit(0))
}

const load = (running: { report(): TallyReport; close(): void }): void => {
  setInterval(() => tell(running.report()), reportMs)
  untilEnd(() => {
    tell(running.report())
    running.close()
  })
}

const roles: Readonly<Record<string, (settings: any) => void | Promise<void>>> = {
  models: async () => {
    tell({ port: await openModels() })
    untilEnd(() => {})
  },
  floor: async (settings: FloorSettings) => {
    tell(await runFloor(settings))
    untilEnd(() => {})
  },
  honest: (settings: HonestSettings) => {
    const honest = new Honest(settings)
    untilEnd(async () => tell(await honest.end()))
  },
  permitted: ({ port, accounts }: LoadSettings) => load(new Flood(port, permitted(accounts))),
  refused: ({ port, accounts, refusedPerSecond }: LoadSettings) =>
    load(new Flood(port, refused(accounts, refusedPerSecond))),
  rude: (settings: LoadSettings) => load(new Rude(settings))
}

if (values.role !== undefined) await roles[values.role]!(JSON.parse(values.settings))
else {
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(130))
  const report = await runHostile({
    minutes: Number(values.minutes),
    refusedPerSecond: Number(values.refused),
    env: { TROUPE_ADAPTER: values.adapter },
    say: (text) => console.error(text),
    ...(values.log === undefined ? {} : { log: values.log })
  })
  const faults = faultsOf(report)
  console.log(textOf(report))
  for (const fault of faults) console.log(`FAULT ${fault}`)
  if (values.json) console.log(JSON.stringify({ faults }))
  process.exit(faults.length === 0 ? 0 : 1)
}
