/** Measures HTTP requests of translation and store. The floors do the same work by hand and check nothing. */
import { thisTree } from "../checkout.ts"
import { loadCore, run } from "../processes.ts"
import type { Bench } from "../rounds.ts"
import { closedLoop, isLoadBound, serverBench, type ServerCandidate } from "./servers.ts"

const translationServers: ReadonlyArray<ServerCandidate> = [
  { name: "uWS floor", args: ["http-uws"] },
  { name: "node:http", args: ["http-node"] },
  { name: "fastify", args: ["http-fastify"] },
  { name: "troupe", args: ["troupe"], compared: true }
]

const storeServers: ReadonlyArray<ServerCandidate> = [
  { name: "uWS + LMDB floor", args: ["floor"] },
  { name: "troupe", args: ["troupe"], compared: true }
]

const translate = (title: string, mode: string): Bench =>
  serverBench({
    title,
    program: "server",
    candidates: translationServers,
    load: closedLoop(title, "load-http", mode)
  })

const shop = (title: string, mode: string): Bench =>
  serverBench({
    title,
    program: "store-server",
    candidates: storeServers,
    load: closedLoop(title, "load-http", mode)
  })

interface OpenLoop {
  readonly all: number
  readonly wrong: number
  readonly queueMax: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly lateP99Ms: number
}

/** Measures latency at a fixed rate of arrivals, with CPU per request beside it. */
const openLoop = (title: string): Bench =>
  serverBench({
    title,
    program: "server",
    candidates: translationServers,
    load: async ({ port, key, size }) => {
      const { all, wrong, queueMax, p50Ms, p99Ms, lateP99Ms } = await run<OpenLoop>({
        tree: thisTree(),
        core: loadCore,
        name: "load-open",
        args: [port, key, 64, size.smoke ? size.seconds : 4, size.smoke ? 200 : 5_000]
      })
      if (wrong > 0) throw new Error(`${title}: ${wrong} wrong or missing answers`)
      return {
        operations: all,
        measured: {
          extra: `p50 ${p50Ms} p99 ${p99Ms} ms from the intended time, ${lateP99Ms} late, queue ${queueMax}`,
          load: { p50Ms, p99Ms },
          ...(isLoadBound(lateP99Ms, p99Ms, size) ? { invalid: "latency load-bound" } : {})
        }
      }
    }
  })

export const httpBenches: Record<string, Bench> = {
  "http-json": translate("http-json (H1)", "same"),
  "http-open": openLoop("http-json (H1o)"),
  "translate-hit": translate("translate hit (H2)", "hit"),
  "translate-miss": translate("translate miss (H2)", "miss"),
  "store-list": shop("store: list of 25 from cache", "store-list"),
  "store-read": shop("store: one of 1,000 from LMDB", "store-read"),
  "store-create": shop("store: durable create", "store-create")
}
