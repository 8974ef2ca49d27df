/** `npm run bench -- [names] [--smoke]`: every path side by side with its floor and peers, ratios, gates.
 *  Never asserts on time: a gate that is missed is printed as such. */
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import net from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { chatBench, type Gateway } from "./chat.ts"
import {
  cpuMsOf,
  keep,
  machine,
  root,
  run,
  runWatched,
  sideBySide,
  start,
  table,
  type Measured,
  type Row,
  type Size
} from "./harness.ts"

const words = process.argv.slice(2)
const smoke = words.includes("--smoke")
const wanted = words.filter((word) => !word.startsWith("--"))
const size: Size = { smoke, rounds: smoke ? 1 : 3, seconds: smoke ? 0.4 : 3 }

const micro = (bench: string, unit: string, operations: number, candidates: ReadonlyArray<string>) => () =>
  sideBySide(
    bench,
    unit,
    size,
    candidates.map((candidate) => [
      candidate,
      () => run<Measured>(0, "micro", bench, candidate, smoke ? Math.ceil(operations / 100) : operations)
    ])
  )

/** Starts all servers first (idle ones cost nothing), then loads them in turn. */
const servers = async (
  bench: string,
  kinds: ReadonlyArray<readonly [string, string, string?]>,
  load: (
    port: string,
    key: string
  ) => Promise<{ readonly done: number; readonly measured: Omit<Measured, "value"> }>,
  program = "server"
): Promise<ReadonlyArray<Row>> => {
  const up = await Promise.all(
    kinds.map(async ([name, kind, extra]) => {
      const server = await start(0, program, kind, ...(extra === undefined ? [] : [extra]))
      return {
        name,
        server,
        words: [
          server.said.slice(0, server.said.indexOf(" ")),
          server.said.slice(server.said.indexOf(" ") + 1)
        ]
      }
    })
  )
  try {
    // The compiler's own work is no part of an operation.
    if (!smoke)
      for (const {
        words: [port, key]
      } of up)
        await load(port!, key ?? "-")
    return await sideBySide(
      bench,
      "µs CPU",
      size,
      up.map(({ name, server, words: [port, key] }) => [
        name,
        async () => {
          const before = cpuMsOf(server.pid)
          const { done, measured } = await load(port!, key ?? "-")
          return { value: ((cpuMsOf(server.pid) - before) * 1_000) / done, ...measured }
        }
      ])
    )
  } finally {
    for (const { server } of up) server.kill()
  }
}

interface HttpLoad {
  readonly perSecond: number
  readonly all: number
  readonly wrong: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly loadBusy: number
}

const loaded = (bench: string, program: string, mode: string) => async (port: string, key: string) => {
  const { perSecond, all, wrong, p50Ms, p99Ms, loadBusy } = await run<HttpLoad>(
    1,
    program,
    port,
    key,
    64,
    size.seconds,
    mode,
    smoke ? 64 : 4_000
  )
  if (wrong > 0) throw new Error(`${bench}: ${wrong} wrong answers`)
  return {
    done: all,
    measured: {
      extra: `${Math.round(perSecond).toLocaleString("en")} req/s, p50 ${p50Ms} p99 ${p99Ms} ms${loadBusy > 0.9 ? ", load side busy: req/s is a lower bound" : ""}`
    }
  }
}

const http =
  (
    bench: string,
    mode: string,
    kinds: ReadonlyArray<readonly [string, string]> = [
      ["uWS floor", "http-uws"],
      ["node:http", "http-node"],
      ["fastify", "http-fastify"],
      ["troupe", "troupe"]
    ],
    program?: string
  ) =>
  () =>
    servers(bench, kinds, loaded(bench, "load-http", mode), program)

interface OpenLoad {
  readonly all: number
  readonly wrong: number
  readonly queueMax: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly lateP99Ms: number
}

/** Latency at a fixed rate of arrivals; CPU per request beside it. */
const httpOpen = () =>
  servers(
    "http-json (H1o)",
    [
      ["uWS floor", "http-uws"],
      ["node:http", "http-node"],
      ["fastify", "http-fastify"],
      ["troupe", "troupe"]
    ],
    async (port, key) => {
      const load = await run<OpenLoad>(
        1,
        "load-open",
        port,
        key,
        64,
        smoke ? size.seconds : 4,
        smoke ? 200 : 5_000
      )
      if (load.wrong > 0) throw new Error(`http-json (H1o): ${load.wrong} wrong or missing answers`)
      return {
        done: load.all,
        measured: {
          extra: `p50 ${load.p50Ms} p99 ${load.p99Ms} ms from the intended time, ${load.lateP99Ms} late, queue ${load.queueMax}`,
          ...(load.lateP99Ms > Math.max(1, load.p99Ms / 10) && !smoke
            ? { invalid: "latency load-bound" }
            : {})
        }
      }
    }
  )

const shop = (bench: string, mode: string) =>
  http(
    bench,
    mode,
    [
      ["uWS + LMDB floor", "floor"],
      ["troupe", "troupe"]
    ],
    "store-server"
  )

/** Floor: uWS, node:crypto and durable LMDB by hand, its introspection of an opaque token. The peer keeps all
 *  in memory. */
const oauth =
  (
    bench: string,
    mode: string,
    peerTokens: "jwt" | "opaque",
    ...ours: ReadonlyArray<readonly [string, string, string?]>
  ) =>
  () =>
    servers(
      bench,
      [["floor", "floor", "opaque"], ["oidc-provider", "oidc", peerTokens], ...ours],
      loaded(bench, "load-oauth", mode),
      "server-oauth"
    )

interface VoiceLoad {
  readonly sent: number
  readonly updates: number
  readonly expected: number
  readonly errors: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly lateP99Ms: number
}

/** Sessions are made anew for each round: a session's token opens one connection. */
const voice =
  (bench: string, sessions: number, rate: number, bytes: number) => async (): Promise<ReadonlyArray<Row>> => {
    const n = smoke ? 20 : sessions
    const candidate = (kind: string, path: string, extra?: string) => async (): Promise<Measured> => {
      const server = await start(0, "server", kind, ...(extra === undefined ? [] : [extra]))
      try {
        let before = 0
        const load = await runWatched<VoiceLoad>(
          1,
          "load-voice",
          [server.said.split(" ")[0]!, n, rate, bytes, smoke ? 0.6 : size.seconds, path],
          () => {
            before = cpuMsOf(server.pid)
          }
        )
        const cpu = cpuMsOf(server.pid) - before
        if (load.errors > 0) throw new Error(`${bench} ${kind}: ${load.errors} errors`)
        if (load.updates < load.expected - n)
          throw new Error(`${bench} ${kind}: ${load.expected - load.updates} updates missing`)
        return {
          value: (cpu * 1_000) / load.sent,
          extra: `update p50 ${load.p50Ms} p99 ${load.p99Ms} ms`,
          ...(load.lateP99Ms > Math.max(1, load.p99Ms / 10) && !smoke
            ? { invalid: `latency load-bound (p99 ${load.lateP99Ms} ms late)` }
            : {})
        }
      } finally {
        server.kill()
      }
    }
    return sideBySide(bench, "µs CPU/chunk", size, [
      ["uWS floor", candidate("voice-uws", "/")],
      ["ws", candidate("voice-ws", "/")],
      ["troupe", candidate("troupe", "/v3/voice/realtime/connect?token=t{}", `${bytes},${n}`)]
    ])
  }

/** One document, extracted and rebuilt with nothing changed, against parsing and packing it. */
const document = (format: string) => () =>
  sideBySide(
    `document-${format}`,
    "ms",
    size,
    [
      ["least", "least"],
      ["troupe", "ours"]
    ].map(([name, candidate]) => [
      name!,
      () => run<Measured>(0, "documents", format, candidate!, smoke ? 0.02 : 1)
    ])
  )

/** Process start to first accepted connection. */
const coldStart = async (): Promise<ReadonlyArray<Row>> => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-cold-"))
  let port = 18_080
  const once =
    (args: (port: number) => ReadonlyArray<string>, listens: boolean) => async (): Promise<Measured> => {
      const at = port++
      const began = performance.now()
      const child = spawn(process.execPath, args(at) as Array<string>, {
        stdio: "ignore",
        env: {
          ...process.env,
          TROUPE_DATA: join(folder, "data"),
          TROUPE_PORT: String(at),
          TROUPE_LOG_LEVEL: "error"
        }
      })
      const exited = new Promise((resolve) => child.on("exit", resolve))
      if (!listens) await exited
      for (let up = !listens; !up;) {
        up = await new Promise<boolean>((resolve) => {
          const wire = net.connect(at, "127.0.0.1")
          wire.on("connect", () => {
            wire.destroy()
            resolve(true)
          })
          wire.on("error", () => setTimeout(() => resolve(false), 3))
        })
        if (performance.now() - began > 20_000) throw new Error("does not start")
      }
      const value = performance.now() - began
      child.kill("SIGTERM")
      await exited
      return { value }
    }
  const fastify = `const f=require(${JSON.stringify(join(root, "node_modules/fastify"))})();f.get("/",()=>"ok");f.listen({port:+process.env.TROUPE_PORT})`
  const main = join(root, "dist", "main.cjs")
  try {
    await once(() => [main, "serve"], true)()
    return await sideBySide("cold-start", "ms", { ...size, rounds: smoke ? 1 : 5 }, [
      ["bare node", once(() => ["-e", "0"], false)],
      ["fastify", once(() => ["-e", fastify], true)],
      ["troupe", once(() => [main, "serve"], true)]
    ])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const recovery = (): Promise<ReadonlyArray<Row>> => {
  const states = smoke ? 2_000 : 1_000_000
  return sideBySide("recovery", "ms", { ...size, rounds: 1 }, [
    ["first answer (lazy)", () => run<Measured>(0, "recovery", "lazy", states)],
    ["all in memory (eager)", () => run<Measured>(0, "recovery", "eager", states)]
  ])
}

/** What stands above the engines; the floors do less (bench/programs/language.ts). */
const language =
  (title: string, bench: string, full: number, little: number) => (): Promise<ReadonlyArray<Row>> =>
    sideBySide(
      title,
      "µs CPU",
      { ...size, rounds: 1 },
      ["floor", "troupe"].map((candidate) => [
        candidate,
        () => run<Measured>(0, "language", bench, candidate, smoke ? little : full)
      ])
    )

const gateways: ReadonlyArray<Gateway> = [
  "raw uWS pipe",
  "direct",
  "undici pipe",
  "node:http pipe",
  "nginx",
  "troupe"
]

const withPortkey: ReadonlyArray<Gateway> = [...gateways, "Portkey"]

const benches: Record<string, () => Promise<ReadonlyArray<Row>>> = {
  tell: micro("tell", "ns CPU", 600_000, ["floor", "troupe", "xstate", "effect", "nact"]),
  "tell-1000": micro("tell-1000", "ns CPU", 600_000, ["floor", "troupe"]),
  ask: micro("ask", "ns CPU", 200_000, ["floor", "troupe", "xstate", "effect", "nact"]),
  "ask-1000": micro("ask-1000", "ns CPU", 200_000, ["floor", "troupe"]),
  idle: micro("idle", "bytes/actor", 100_000, ["floor", "troupe", "effect", "nact"]),
  "rate-window": micro("rate-window", "ns CPU", 1_000_000, ["floor", "troupe", "flexible"]),
  "durable-1": micro("durable-1", "asks/s", 2_000, ["floor", "troupe"]),
  "durable-64": micro("durable-64", "asks/s", 40_000, ["floor", "troupe"]),
  "durable-512": micro("durable-512", "asks/s", 60_000, ["floor", "troupe"]),
  "http-json": http("http-json (H1)", "same"),
  "http-open": httpOpen,
  "translate-hit": http("translate hit (H2)", "hit"),
  "translate-miss": http("translate miss (H2)", "miss"),
  "store-list": shop("store: list of 25 from cache", "store-list"),
  "store-read": shop("store: one of 1,000 from LMDB", "store-read"),
  "store-create": shop("store: durable create", "store-create"),
  "voice-v3": voice("voice V3, 500 x 50/s x 640 B", 500, 50, 640),
  "voice-v4": voice("voice V4, 1,000 x 5/s x 6,400 B", 1_000, 5, 6_400),
  "chat-stream": chatBench(
    "chat stream (S1), 200 x 100 tokens/s",
    { mode: "stream", connections: 200, rate: 100, candidates: gateways },
    size
  ),
  "chat-stream-light": chatBench(
    "chat stream (S2), 200 x 20 tokens/s",
    { mode: "stream", connections: 200, rate: 20, candidates: withPortkey },
    size
  ),
  "chat-turns": chatBench(
    "chat turns (S3), 64 connections",
    { mode: "whole", connections: 64, candidates: withPortkey },
    size
  ),
  "chat-latency": chatBench(
    "chat turns (S3), 1 connection, closed loop",
    { mode: "whole", connections: 1, candidates: withPortkey },
    size
  ),
  "chat-latency-paced": chatBench(
    "chat turns (S3), 1 connection, 100/s open loop",
    {
      mode: "paced",
      connections: 1,
      candidates: ["direct", ...withPortkey.filter((name) => name !== "direct")]
    },
    size
  ),
  ...Object.fromEntries(
    ["docx", "xlsx", "xml", "xlf", "html", "json", "srt", "txt", "seal"].map((format) => [
      `document-${format}`,
      document(format)
    ])
  ),
  tags: language("tags, 40 paragraphs of XML", "tags", 2_000, 20),
  memory: language("memory, 1 M segments", "memory", 1_000_000, 5_000),
  glossary: language("glossary of 10 MiB", "glossary", 10_485_760, 200_000),
  "oauth-client-credentials": oauth(
    "client_credentials (O1)",
    "client-credentials",
    "jwt",
    ["troupe", "troupe", "full"],
    ["troupe relaxed", "troupe", "relaxed"]
  ),
  "oauth-refresh": oauth(
    "refresh (O2)",
    "refresh",
    "jwt",
    ["troupe", "troupe", "full"],
    ["troupe relaxed", "troupe", "relaxed"]
  ),
  "oauth-introspect-opaque": oauth("introspection, refresh token (O3)", "introspect-opaque", "opaque", [
    "troupe",
    "troupe"
  ]),
  "oauth-introspect-jwt": oauth(
    "introspection, JWT seen before (O3)",
    "introspect-jwt",
    "opaque",
    ["floor, verifying each time", "floor", "jwt"],
    ["troupe", "troupe"]
  ),
  "cold-start": coldStart,
  recovery: recovery
}

const unknown = wanted.filter((name) => benches[name] === undefined)

if (unknown.length > 0) {
  console.error(`no bench ${unknown.join(", ")}; there are ${Object.keys(benches).join(", ")}`)
  process.exit(2)
}

const rows: Array<Row> = []
console.log(machine())

for (const [name, bench] of Object.entries(benches)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  const found = await bench()
  rows.push(...found)
  console.log(`\n${table(found)}`)
}

if (!smoke) keep(rows)
process.exit(0)
