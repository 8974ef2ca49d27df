/** Chat gateways side by side in front of one scripted model server: all started first, each warmed, then
 *  interleaved rounds. `direct` has no gateway in between and so costs nothing there: what the others add to
 *  its latency is theirs. */
import { spawnSync } from "node:child_process"
import {
  cpuMsOf,
  median,
  runWatched,
  sideBySide,
  start,
  type Measured,
  type Row,
  type Running,
  type Size
} from "./harness.ts"

interface Load {
  readonly perSecond: number
  readonly all: number
  readonly wrong: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly lateP99Ms: number
}

export interface ChatBench {
  readonly mode: "stream" | "whole" | "paced"
  readonly connections: number
  /** Words per second and stream (`stream`). */
  readonly rate?: number
  readonly candidates: ReadonlyArray<Gateway>
}

const programs = {
  "raw uWS pipe": ["chat-server", "raw"],
  direct: undefined,
  "undici pipe": ["chat-server", "undici"],
  "node:http pipe": ["chat-server", "node"],
  nginx: ["nginx"],
  Portkey: ["portkey"],
  troupe: ["chat-server", "troupe"]
} as const

export type Gateway = keyof typeof programs

const hasNginx = (): boolean =>
  ["nginx", "setpriv"].every(
    (program) =>
      spawnSync(program, [program === "nginx" ? "-v" : "--version"], { stdio: "ignore" }).error === undefined
  )

export const chatBench =
  (bench: string, { mode, connections, rate = 50, candidates: wanted }: ChatBench, size: Size) =>
  async (): Promise<ReadonlyArray<Row>> => {
    const candidates = hasNginx() ? wanted : wanted.filter((name) => name !== "nginx")
    const leftOut = candidates.length < wanted.length ? "nginx is not installed: left out" : ""
    const n = size.smoke ? Math.min(10, connections) : connections
    const upstream = await start(1, "chat-upstream", rate, 100_000)
    const up = new Map<Gateway, Running>()
    const seen = new Map<Gateway, Array<Load>>(candidates.map((name) => [name, []]))
    const load = (
      name: Gateway,
      seconds: number,
      began: () => void,
      as: ChatBench["mode"] = mode,
      wires = n
    ): Promise<Load> =>
      runWatched<Load>(
        1,
        "load-chat",
        [(up.get(name) ?? upstream).said, wires, seconds, as, upstream.said],
        began
      )
    const measure = (name: Gateway) => async (): Promise<Measured> => {
      const gateway = up.get(name)
      let before = 0
      const got = await load(name, size.seconds, () => {
        before = gateway === undefined ? 0 : cpuMsOf(gateway.pid)
      })
      const cpuMs = gateway === undefined ? 0 : cpuMsOf(gateway.pid) - before
      if (got.wrong > 0 || got.all === 0)
        throw new Error(`${bench} ${name}: ${got.wrong} wrong answers of ${got.all}`)
      seen.get(name)!.push(got)
      const invalid =
        mode === "paced" && !size.smoke && got.lateP99Ms > Math.max(1, got.p99Ms / 10)
          ? `load-bound (p99 ${got.lateP99Ms} ms late)`
          : undefined
      return {
        value: mode === "paced" ? got.p50Ms : (cpuMs * 1_000) / got.all,
        ...(invalid === undefined ? {} : { invalid })
      }
    }
    try {
      await Promise.all(
        candidates.map(async (name) => {
          const program = programs[name]
          if (program === undefined) return
          const started = await start(0, program[0], ...program.slice(1), upstream.said)
          const [said, pid] = started.said.split(" ")
          // What does the work may be another process than the program which starts it.
          up.set(name, { ...started, said: said!, pid: Number(pid ?? started.pid) })
        })
      )
      // A hundred calls a second would be measured in code that is not compiled yet: a server which has been
      // up for a while is what is asked about.
      if (!size.smoke)
        for (const name of up.keys())
          await (mode === "paced"
            ? load(name, warmSeconds, () => {}, "whole", warmWires)
            : load(name, warmSeconds, () => {}))
      const rows = await sideBySide(
        bench,
        mode === "paced" ? "ms p50" : mode === "stream" ? "µs CPU/token" : "µs CPU/turn",
        size,
        candidates.map((name) => [name, measure(name)])
      )
      /** Of the same rounds, median. */
      const beside = (
        name: Gateway,
        than: Gateway,
        of: (one: Load, other: Load) => number
      ): number | undefined => {
        const other = seen.get(than)
        return other === undefined || name === than
          ? undefined
          : median(seen.get(name)!.map((one, i) => of(one, other[i]!)))
      }
      return rows.map((row, i) => {
        const name = row.candidate as Gateway
        const all = seen.get(name)!
        const middle = (of: (one: Load) => number): number => median(all.map(of))
        const added50 = beside(name, "direct", (one, other) => one.p50Ms - other.p50Ms)
        const added99 = beside(name, "direct", (one, other) => one.p99Ms - other.p99Ms)
        const peers =
          mode !== "whole" || connections === 1 || name !== "troupe"
            ? []
            : (["node:http pipe", "Portkey"] as const).flatMap(
                (peer) =>
                  beside(name, peer, (one, other) => one.perSecond / other.perSecond)
                    ?.toFixed(1)
                    .concat("x ", peer) ?? []
              )
        return {
          ...row,
          note: i > 0 ? row.note : [row.note, leftOut].filter((text) => text !== "").join("; "),
          extra: [
            `${Math.round(middle(({ perSecond }) => perSecond)).toLocaleString("en")}/s`,
            `p50 ${middle(({ p50Ms }) => p50Ms).toFixed(2)} p99 ${middle(({ p99Ms }) => p99Ms).toFixed(2)} ms`,
            ...(added50 === undefined || (mode === "whole" && connections > 1)
              ? []
              : [`added p50 ${added50.toFixed(3)} p99 ${added99!.toFixed(2)} ms`]),
            ...(peers.length === 0 ? [] : [`per second ${peers.join(", ")}`])
          ].join(", ")
        }
      })
    } finally {
      for (const gateway of up.values()) gateway.kill()
      upstream.kill()
    }
  }

const warmSeconds = 3
const warmWires = 16
