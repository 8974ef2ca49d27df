/** The chat server that crash tests kill: real store, transport and sessions, models from a scripted upstream
 *  outside. node main.mjs FOLDER UPSTREAM_URL GRACE_MS; says its port; SIGTERM stops it as `serve` does. */
import { Effect } from "effect"
import { chatService } from "../../../runtime/program/services/chat.ts"
import { operations } from "../../../runtime/program/operations.ts"
import { ActorSystem } from "../../../runtime/registry.ts"
import { Metrics } from "../../../runtime/metrics.ts"
import { listenWith } from "../../../runtime/transport/listen.ts"
import { openLmdb } from "../../../storage/lmdb.ts"

const [, , folder, upstream, graceMs] = process.argv
const store = await openLmdb({ folder: folder! })
const system = new ActorSystem({ store, nowMs: Date.now })
setInterval(() => system.tick(), 10)

const metrics = new Metrics()
const chat = chatService(
  {
    host: "127.0.0.1",
    chatKeys: undefined,
    chatHosts: [],
    chatCorsOrigins: [],
    chatUpstreams: [{ id: "main", kind: "openai-chat", base_url: upstream }],
    healthDetailsMode: "open",
    metricsMode: "open",
    sessionRetentionMs: 1_800_000,
    chatBodyBytesMax: 1_048_576,
    upstreamConnectMs: 2_000,
    upstreamFirstMs: 60_000,
    upstreamIdleMs: 60_000,
    turnMs: 60_000,
    streamCommitMs: 10_000,
    streamKeepAliveMs: 15_000,
    turnsInFlightMax: 4_096,
    sessionTurnsMax: 16,
    sessionsMax: 100_000,
    storedResponseBytesMax: 8_388_608,
    shutdownGraceMs: Number(graceMs ?? 0),
    builtinTools: [],
    builtinRoundsMax: 8,
    modelsCacheMs: 60_000,
    unsupportedParams: "drop"
  },
  { store, actors: system, engines: undefined, log: () => {}, metrics }
)

const ops = operations({
  actors: system,
  metrics,
  engines: () => [],
  adapter: () => "",
  isOperator: () => false,
  keys: { list: () => [], create: () => Promise.resolve({}), deactivate: () => Promise.resolve({}) },
  backup: () => Effect.die("not asked for"),
  check: () => Effect.promise(() => store.check()),
  probes: chat.probes
})

const server = await listenWith("auto", () => {}, [ops, chat.service], { host: "127.0.0.1", port: 0 })
await chat.resume()

process.on(
  "SIGTERM",
  () =>
    void (async () => {
      await chat.drain()
      await server.drain(1_000)
      chat.close()
      await store.close()
      process.exit(0)
    })()
)

console.log(`port ${server.port}`)
