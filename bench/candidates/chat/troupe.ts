/** The chat service itself, over a store in memory. */
import { Effect } from "effect"
import { chatService } from "../../../runtime/program/services/chat.ts"
import { Actors } from "../../../runtime/registry.ts"
import { Metrics } from "../../../runtime/metrics.ts"
import { listenWith } from "../../../runtime/transport/listen.ts"
import { openMemory } from "../../../storage/memory.ts"
import { announce } from "./shared.ts"

type ChatConfig = Parameters<typeof chatService>[0]

const configOf = (upstreamPort: string): ChatConfig => ({
  host: "127.0.0.1",
  chatKeys: undefined,
  chatHosts: [],
  chatCorsOrigins: [],
  chatUpstreams: [
    { id: "up", kind: "openai-chat", base_url: `http://127.0.0.1:${upstreamPort}/v1`, max_concurrency: 1_024 }
  ],
  healthDetailsMode: "open",
  metricsMode: "open",
  sessionRetentionMs: 1_800_000,
  chatBodyBytesMax: 1_048_576,
  upstreamConnectMs: 10_000,
  upstreamFirstMs: 180_000,
  upstreamIdleMs: 120_000,
  turnMs: 600_000,
  streamCommitMs: 10_000,
  streamKeepAliveMs: 15_000,
  turnsInFlightMax: 4_096,
  sessionTurnsMax: 16,
  sessionsMax: 100_000,
  storedResponseBytesMax: 8_388_608,
  shutdownGraceMs: 0,
  builtinTools: [],
  builtinRoundsMax: 8,
  modelsCacheMs: 60_000,
  unsupportedParams: "drop"
})

const serve = (upstreamPort: string) =>
  Effect.gen(function* () {
    const store = openMemory()
    const actors = yield* Actors.make({ store })
    const chat = chatService(configOf(upstreamPort), {
      store,
      actors,
      engines: undefined,
      log: () => {},
      metrics: new Metrics()
    })
    const server = yield* Effect.promise(() =>
      listenWith("uws", () => {}, [chat.service], { host: "127.0.0.1", port: 0 })
    )
    announce(server.port)
    yield* Effect.never
  })

export const troupe = (upstreamPort: string): Promise<void> =>
  Effect.runPromise(Effect.scoped(serve(upstreamPort)))
