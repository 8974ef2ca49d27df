/** Compares chat gateways in front of one scripted model server. `direct` has no gateway in between and so
 *  costs nothing there: the latency that the others add is theirs. */
import { spawnSync } from "node:child_process"
import { thisTree } from "../checkout.ts"
import { cpuMsOf, loadCore, run, serverCore, start, type RunningServer } from "../processes.ts"
import type { Bench, Candidate, LoadFigures, Measured, Prepared, Results, Session, Size } from "../rounds.ts"
import type { Tree } from "../tree.ts"
import { median } from "../verdict.ts"
import { isLoadBound } from "./servers.ts"

/** `stream`: words of streamed answers; `whole`: a closed loop of whole answers; `paced`: an open loop. */
type Mode = "stream" | "whole" | "paced"

interface ChatLoad extends LoadFigures {
  readonly perSecond: number
  readonly all: number
  readonly wrong: number
  readonly lateP99Ms: number
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

type Gateway = keyof typeof programs

interface ChatBench {
  readonly title: string
  readonly mode: Mode
  readonly connections: number
  /** How many words each stream carries per second. */
  readonly wordsPerSecond?: number
  readonly gateways: ReadonlyArray<Gateway>
}

const units: Record<Mode, string> = { stream: "µs CPU/token", whole: "µs CPU/turn", paced: "ms p50" }

const warmSeconds = 3
const warmConnections = 16
const streamTokens = 100_000

const hasNginx = (): boolean =>
  ["nginx", "setpriv"].every(
    (program) =>
      spawnSync(program, [program === "nginx" ? "-v" : "--version"], { stdio: "ignore" }).error === undefined
  )

interface GatewayAddress {
  readonly port: string
  /** The id of the process that does the work; undefined when the load goes to the model server itself. */
  readonly pid: number | undefined
}

/** Measures one gateway under load; its figure is CPU per unit, or the median latency when requests are
 *  paced. */
const gatewayOf = (
  { title, mode, connections }: ChatBench,
  {
    name,
    address,
    upstream,
    size
  }: {
    readonly name: Gateway
    readonly address: GatewayAddress
    readonly upstream: RunningServer
    readonly size: Size
  }
): Omit<Prepared, "close"> => {
  const load = (
    wires: number,
    seconds: number,
    loadMode: Mode,
    onConnected?: () => void
  ): Promise<ChatLoad> =>
    run<ChatLoad>(
      {
        tree: thisTree(),
        core: loadCore,
        name: "load-chat",
        args: [address.port, wires, seconds, loadMode, upstream.firstLine]
      },
      onConnected
    )
  const wires = size.smoke ? Math.min(10, connections) : connections
  const cpuMs = (): number => (address.pid === undefined ? 0 : cpuMsOf(address.pid))
  return {
    // A hundred calls a second would run in code that is not compiled yet, but the bench is about a server
    // that has been running for a while.
    warm: async () => {
      if (address.pid === undefined) return
      await (mode === "paced" ? load(warmConnections, warmSeconds, "whole") : load(wires, warmSeconds, mode))
    },
    measure: async (): Promise<Measured> => {
      let beforeMs = 0
      const seen = await load(wires, size.seconds, mode, () => {
        beforeMs = cpuMs()
      })
      const spentMs = cpuMs() - beforeMs
      if (seen.wrong > 0 || seen.all === 0)
        throw new Error(`${title} ${name}: ${seen.wrong} wrong answers of ${seen.all}`)
      return {
        value: mode === "paced" ? seen.p50Ms : (spentMs * 1_000) / seen.all,
        load: seen,
        ...(mode === "paced" && isLoadBound(seen.lateP99Ms, seen.p99Ms, size)
          ? { invalid: `load-bound (p99 ${seen.lateP99Ms} ms late)` }
          : {})
      }
    }
  }
}

const loadsOf = (results: Results, name: string): ReadonlyArray<LoadFigures> =>
  (results.get(name) ?? []).flatMap(({ load }) => (load === undefined ? [] : [load]))

/** Returns the median of a figure computed from both sides of the same round. */
const besideOf = (
  results: Results,
  {
    name,
    other,
    figure
  }: {
    readonly name: string
    readonly other: string
    readonly figure: (own: LoadFigures, other: LoadFigures) => number
  }
): number | undefined => {
  const others = loadsOf(results, other)
  if (others.length === 0 || name === other) return undefined
  return median(loadsOf(results, name).map((own, round) => figure(own, others[round]!)))
}

const addedLatency = (results: Results, name: string): string => {
  const added = (of: (load: LoadFigures) => number): number | undefined =>
    besideOf(results, { name, other: "direct", figure: (own, direct) => of(own) - of(direct) })
  const p50 = added(({ p50Ms }) => p50Ms)
  const p99 = added(({ p99Ms }) => p99Ms)
  return p50 === undefined || p99 === undefined ? "" : `added p50 ${p50.toFixed(3)} p99 ${p99.toFixed(2)} ms`
}

const perSecondAgainstPeers = (results: Results): string => {
  const multiples = ["node:http pipe", "Portkey"].flatMap((other) => {
    const multiple = besideOf(results, {
      name: "troupe",
      other,
      figure: (own, peer) => own.perSecond! / peer.perSecond!
    })
    return multiple === undefined ? [] : [`${multiple.toFixed(1)}x ${other}`]
  })
  return multiples.length === 0 ? "" : `per second ${multiples.join(", ")}`
}

const describe =
  ({ mode, connections }: ChatBench) =>
  (name: string, results: Results): string => {
    const loads = loadsOf(results, name)
    const perSecond = median(loads.map((load) => load.perSecond!))
    const p50 = median(loads.map(({ p50Ms }) => p50Ms))
    const p99 = median(loads.map(({ p99Ms }) => p99Ms))
    const saturated = mode === "whole" && connections > 1
    return [
      `${Math.round(perSecond).toLocaleString("en")}/s`,
      `p50 ${p50.toFixed(2)} p99 ${p99.toFixed(2)} ms`,
      saturated ? "" : addedLatency(results, name),
      saturated && name === "troupe" ? perSecondAgainstPeers(results) : ""
    ]
      .filter((text) => text !== "")
      .join(", ")
  }

const openSession = async (bench: ChatBench, size: Size): Promise<Session> => {
  const gateways = hasNginx() ? bench.gateways : bench.gateways.filter((name) => name !== "nginx")
  const upstream = await start({
    tree: thisTree(),
    core: loadCore,
    name: "chat-upstream",
    args: [bench.wordsPerSecond ?? 50, streamTokens]
  })

  const prepare = async (name: Gateway, tree: Tree): Promise<Prepared> => {
    const program = programs[name]
    if (program === undefined) {
      const address = { port: upstream.firstLine, pid: undefined }
      return gatewayOf(bench, { name, address, upstream, size })
    }
    const [file, ...args] = program
    const server = await start({ tree, core: serverCore, name: file, args: [...args, upstream.firstLine] })
    // The work may be done by another process than the program which starts it.
    const [port, pid] = server.firstLine.split(" ")
    const address = { port: port!, pid: Number(pid ?? server.pid) }
    return { ...gatewayOf(bench, { name, address, upstream, size }), close: server.kill }
  }

  const candidates: ReadonlyArray<Candidate> = gateways.map((name) => ({
    name,
    compared: name === "troupe",
    prepare: (tree) => prepare(name, tree)
  }))
  return {
    candidates,
    close: upstream.kill,
    describe: describe(bench),
    note: gateways.length < bench.gateways.length ? "nginx is not installed: left out" : ""
  }
}

const chat = (bench: ChatBench): Bench => ({
  title: bench.title,
  unit: units[bench.mode],
  open: (size) => openSession(bench, size)
})

const gateways: ReadonlyArray<Gateway> = [
  "raw uWS pipe",
  "direct",
  "undici pipe",
  "node:http pipe",
  "nginx",
  "troupe"
]

const gatewaysAndPortkey: ReadonlyArray<Gateway> = [...gateways, "Portkey"]

export const chatBenches: Record<string, Bench> = {
  "chat-stream": chat({
    title: "chat stream (S1), 200 x 100 tokens/s",
    mode: "stream",
    connections: 200,
    wordsPerSecond: 100,
    gateways
  }),
  "chat-stream-light": chat({
    title: "chat stream (S2), 200 x 20 tokens/s",
    mode: "stream",
    connections: 200,
    wordsPerSecond: 20,
    gateways: gatewaysAndPortkey
  }),
  "chat-turns": chat({
    title: "chat turns (S3), 64 connections",
    mode: "whole",
    connections: 64,
    gateways: gatewaysAndPortkey
  }),
  "chat-latency": chat({
    title: "chat turns (S3), 1 connection, closed loop",
    mode: "whole",
    connections: 1,
    gateways: gatewaysAndPortkey
  }),
  "chat-latency-paced": chat({
    title: "chat turns (S3), 1 connection, 100/s open loop",
    mode: "paced",
    connections: 1,
    gateways: ["direct", ...gatewaysAndPortkey.filter((name) => name !== "direct")]
  })
}
