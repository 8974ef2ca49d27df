/** Runs the benches of servers: one server process per candidate, loaded from the other core by this tree's
 *  load programs. The figure is the server's CPU per operation. */
import { thisTree } from "../checkout.ts"
import { cpuMsOf, loadCore, run, serverCore, start } from "../processes.ts"
import type { Bench, Measured, Size } from "../rounds.ts"

export interface ServerCandidate {
  readonly name: string
  /** The arguments of the server program. */
  readonly args: ReadonlyArray<string>
  readonly compared?: boolean
}

export interface Target {
  readonly port: string
  readonly key: string
  readonly size: Size
}

export interface Loaded {
  readonly operations: number
  readonly measured: Omit<Measured, "value">
}

export interface ServerBench {
  readonly title: string
  /** The file name of the server program in bench/programs. */
  readonly program: string
  readonly candidates: ReadonlyArray<ServerCandidate>
  readonly load: (target: Target) => Promise<Loaded>
}

/** True when the latencies reflect the load side's lateness more than the server. */
export const isLoadBound = (lateP99Ms: number, p99Ms: number, size: Size): boolean =>
  !size.smoke && lateP99Ms > Math.max(1, p99Ms / 10)

export const serverBench = ({ title, program, candidates, load }: ServerBench): Bench => ({
  title,
  unit: "µs CPU",
  open: (size) => ({
    candidates: candidates.map(({ name, args, compared = false }) => ({
      name,
      compared,
      prepare: async (tree) => {
        const server = await start({ tree, core: serverCore, name: program, args })
        const [port, ...rest] = server.firstLine.split(" ")
        const target = { port: port!, key: rest.join(" ") || "-", size }
        return {
          warm: async () => {
            await load(target)
          },
          measure: async () => {
            const beforeMs = cpuMsOf(server.pid)
            const { operations, measured } = await load(target)
            return { value: ((cpuMsOf(server.pid) - beforeMs) * 1_000) / operations, ...measured }
          },
          close: server.kill
        }
      }
    }))
  })
})

interface ClosedLoop {
  readonly perSecond: number
  readonly all: number
  readonly wrong: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly loadBusy: number
}

const connections = 64

/** Loads a server by 64 connections, each of which sends its next request when the answer has arrived. */
export const closedLoop =
  (title: string, loadProgram: string, mode: string) =>
  async ({ port, key, size }: Target): Promise<Loaded> => {
    const { perSecond, all, wrong, p50Ms, p99Ms, loadBusy } = await run<ClosedLoop>({
      tree: thisTree(),
      core: loadCore,
      name: loadProgram,
      args: [port, key, connections, size.seconds, mode, size.smoke ? 64 : 4_000]
    })
    if (wrong > 0) throw new Error(`${title}: ${wrong} wrong answers`)
    const busy = loadBusy > 0.9 ? ", load side busy: req/s is a lower bound" : ""
    return {
      operations: all,
      measured: {
        extra: `${Math.round(perSecond).toLocaleString("en")} req/s, p50 ${p50Ms} p99 ${p99Ms} ms${busy}`,
        load: { p50Ms, p99Ms, perSecond }
      }
    }
  }
