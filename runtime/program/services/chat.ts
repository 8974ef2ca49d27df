/** Assembles the chat service: upstreams, sessions, turns, its part of the operational endpoints, and how it
 *  drains. Part of the composition root. */
import { statSync } from "node:fs"
import { join } from "node:path"
import { monitorEventLoopDelay } from "node:perf_hooks"
import { Context, Effect, Layer } from "effect"
import { CircuitBreaker } from "../../../actors/circuit-breaker.ts"
import { Deadlines } from "../../../actors/engines/chat/deadlines.ts"
import { modelFor } from "../../../actors/engines/chat/model-factory.ts"
import type { ChatModel } from "../../../actors/engines/chat/model.ts"
import { readRecords, type UpstreamRecord } from "../../../actors/engines/chat/upstream-record.ts"
import { Upstream, Upstreams } from "../../../actors/engines/chat/upstreams.ts"
import type { Engines } from "../../../actors/engines/ports.ts"
import { endings, ProxySession } from "../../../actors/proxy-session.ts"
import { Access, requestIdOf, withHeaders } from "../../../protocols/chat/access.ts"
import { BackgroundResponses } from "../../../protocols/chat/answer/background-responses.ts"
import { builtinTools } from "../../../protocols/chat/turn/builtin-tools.ts"
import { fetchImage, type FetchOptions } from "../../../protocols/chat/turn/public-fetch.ts"
import { ChatMetrics } from "../../../protocols/chat/metrics.ts"
import { problemResponse } from "../../../protocols/chat/problems.ts"
import { ResponseRuns } from "../../../protocols/chat/answer/response-runs.ts"
import { ResponsesApi } from "../../../protocols/chat/answer/responses.ts"
import { chat } from "../../../protocols/chat/routes.ts"
import { Sessions } from "../../../protocols/chat/answer/sessions.ts"
import { Turns, type ChatSettings } from "../../../protocols/chat/turn/turn.ts"
import { isLoopbackHost } from "../../../protocols/shared/addresses.ts"
import { mapBytesDefault } from "../../../storage/lmdb.ts"
import type { Store } from "../../../storage/store.ts"
import { ConfigFault, type Config } from "../config/config.ts"
import type { Headers, Response, Service } from "../../http.ts"
import type { Log } from "../../kind.ts"
import type { Metrics } from "../../metrics.ts"
import { Actors, type ActorSystem } from "../../registry.ts"
import { EnginePorts } from "../engines.ts"
import type { Probes } from "../operations.ts"
import { Configuration, Logging, opening, Storage } from "../parts.ts"
import { Telemetry } from "../telemetry/telemetry.ts"

export interface ChatParts {
  readonly store: Store
  readonly actors: ActorSystem
  readonly engines: Engines | undefined
  readonly log: Log
  readonly metrics: Metrics
  /** Wraps the model of an upstream where calls are traced. */
  readonly traced?: (upstream: string, model: ChatModel) => ChatModel
  /** Tests replace the model of a record by this. */
  readonly modelOf?: (record: UpstreamRecord) => ChatModel | undefined
  /** Tests replace the name look-up, and the check whether an address is public, by these. */
  readonly outside?: Pick<FetchOptions, "resolve" | "allow">
  readonly backoffMs?: number
  /** Returns the size of the store on disk in bytes. */
  readonly storeBytes?: () => number
}

export type ChatConfig = Pick<
  Config,
  | "chatKeys"
  | "chatHosts"
  | "chatCorsOrigins"
  | "chatUpstreams"
  | "healthDetailsMode"
  | "metricsMode"
  | "sessionRetentionMs"
  | "chatBodyBytesMax"
  | "upstreamConnectMs"
  | "upstreamFirstMs"
  | "upstreamIdleMs"
  | "turnMs"
  | "streamCommitMs"
  | "streamKeepAliveMs"
  | "turnsInFlightMax"
  | "sessionTurnsMax"
  | "sessionsMax"
  | "storedResponseBytesMax"
  | "shutdownGraceMs"
  | "builtinTools"
  | "builtinRoundsMax"
  | "modelsCacheMs"
  | "unsupportedParams"
  | "host"
>

export interface ChatService {
  readonly service: Service
  /** The service's part of health and metrics. */
  readonly probes: Probes
  /** Continues the work that the previous process left unfinished. */
  resume(): Promise<void>
  /** Waits for the turns in progress; those that outlast the grace period are ended. */
  drain(): Promise<void>
  close(): void
}

/** A fault of the chat configuration stops the start with exit code 78 (sysexits EX_CONFIG). */
class ChatConfigFault extends ConfigFault {
  readonly exitCode = 78
}

/** Orders the breaker's phases as the metric numbers them. */
const breakerPhases = ["Closed", "Probing", "Open"]

/** Names the breaker's phases in health details. */
const breakerStates: Readonly<Record<string, string>> = { Open: "open", Probing: "half_open" }

/** An upstream is down while its breaker is open, or when its last answer was an error. */
const upstreamState = (
  lastSuccessMs: number | undefined,
  lastErrorMs: number | undefined,
  phase: string
): "unknown" | "up" | "down" => {
  if (lastSuccessMs === undefined && lastErrorMs === undefined) return "unknown"
  return phase === "Open" || (lastErrorMs ?? -1) > (lastSuccessMs ?? -1) ? "down" : "up"
}

const healthOf = (
  views: ReadonlyArray<{ readonly state: string; readonly breaker: string }>
): "degraded" | "ok" =>
  views.some(({ state, breaker }) => state === "down" || breaker !== "closed") ? "degraded" : "ok"

const builtIn = [{ id: "local", kind: "embedded" }]
const version = "0.1.0"

export const chatService = (
  config: ChatConfig,
  {
    store,
    actors,
    engines,
    log,
    metrics: numbers,
    traced,
    modelOf,
    storeBytes,
    outside = {},
    backoffMs = 250
  }: ChatParts
): ChatService => {
  const records = readRecords(config.chatUpstreams ?? builtIn)
  if (typeof records === "string") throw new ChatConfigFault([records])
  const keys = (config.chatKeys ?? "")
    .split(",")
    .map((key) => key.trim())
    .filter((key) => key !== "")
  if (keys.length === 0 && !isLoopbackHost(config.host.toLowerCase()))
    log("warn", "chat answers without a key on an address that others can reach: set API_KEY")
  for (const { id, api_key: apiKey, api_key_env: name } of records)
    if (apiKey === undefined && name !== undefined && (process.env[name] ?? "") === "")
      log("warn", "a chat upstream is called without a key: its api_key_env is not set", {
        upstream: id,
        variable: name
      })
  const deadlines = new Deadlines(actors)
  actors.host(CircuitBreaker, Context.empty())
  actors.host(ProxySession, Context.empty())
  const limits = {
    connectMs: config.upstreamConnectMs,
    firstMs: config.upstreamFirstMs,
    idleMs: config.upstreamIdleMs
  }
  const fetchBytes = (url: string, signal: AbortSignal): Promise<Uint8Array> =>
    fetchImage(url, signal, outside)
  const tracedModel = (record: UpstreamRecord): ChatModel => {
    const model =
      modelOf?.(record) ?? modelFor(record, { limits, deadlines, engines, env: process.env, fetchBytes })
    return traced?.(record.id, model) ?? model
  }
  const upstreams = new Upstreams(
    records.map((record) => new Upstream(record, tracedModel(record), actors, deadlines)),
    { cacheMs: config.modelsCacheMs, nowMs: () => actors.nowMs(), deadlines }
  )
  const metrics = new ChatMetrics(numbers)
  const access = new Access({ keys, hosts: config.chatHosts, corsOrigins: config.chatCorsOrigins })
  const builtins = builtinTools({
    allowlist: config.builtinTools,
    roundsMax: config.builtinRoundsMax,
    nowMs: () => actors.nowMs(),
    fetch: outside
  })
  const settings: ChatSettings = {
    bodyBytesMax: config.chatBodyBytesMax,
    turnMs: config.turnMs,
    commitMs: config.streamCommitMs,
    keepAliveMs: config.streamKeepAliveMs,
    inFlightMax: config.turnsInFlightMax,
    sessionTurnsMax: config.sessionTurnsMax,
    sessionsMax: config.sessionsMax,
    responseBytesMax: config.storedResponseBytesMax,
    retentionMs: config.sessionRetentionMs,
    unsupported: config.unsupportedParams,
    backoffMs
  }
  const turns = new Turns({ settings, upstreams, builtins, metrics, clock: actors, deadlines, log })
  const sessions = new Sessions({
    store,
    actors,
    metrics,
    upstreams,
    retentionMs: settings.retentionMs,
    turnsMax: settings.sessionTurnsMax,
    sessionsMax: settings.sessionsMax,
    responseBytesMax: settings.responseBytesMax,
    turnMs: settings.turnMs
  })
  const runs = new ResponseRuns(turns, sessions)
  const background = new BackgroundResponses(runs)
  const denied = (path: string, headers: Headers): Response | undefined => {
    if (path === "/health") return undefined
    const mode = path === "/metrics" ? config.metricsMode : config.healthDetailsMode
    if (mode === "off" || (mode === "auth" && access.open))
      return problemResponse({ _tag: "UnknownUrl", method: "GET", path })
    const isRefused = mode === "auth" && access.ownerOf(headers) === undefined
    return isRefused ? problemResponse({ _tag: "InvalidKey" }) : undefined
  }

  const upstreamViews = () =>
    Promise.all(
      upstreams.all.map(async (upstream) => {
        const { record, gate, breaker, lastError, lastSuccessMs, offered } = upstream
        const phase = actors.inspect(breaker.kind, breaker.id)?.phase ?? "Closed"
        return {
          id: record.id,
          kind: record.kind,
          state: upstreamState(lastSuccessMs, lastError?.atMs, phase),
          breaker: breakerStates[phase] ?? "closed",
          in_flight: gate.running,
          queued: gate.queued,
          models: offered?.length ?? 0,
          last_success: lastSuccessMs === undefined ? null : new Date(lastSuccessMs).toISOString(),
          last_error:
            lastError === undefined
              ? null
              : { at: new Date(lastError.atMs).toISOString(), code: lastError.code }
        }
      })
    )
  const nextExpiry = (): string | null => {
    const next = store.expired(Number.MAX_SAFE_INTEGER, 64).find(({ kind }) => kind === ProxySession.kind)
    return next === undefined ? null : new Date(next.atMs).toISOString()
  }
  const size = (): { readonly bytes_used: number; readonly bytes_map: number } => ({
    bytes_used: storeBytes?.() ?? 0,
    bytes_map: mapBytesDefault
  })
  metrics.publish(() => ({
    turnsInFlight: turns.inFlight,
    sessionsActive: sessions.activeCount,
    sessionsEnded: endings.map((why) => [why, sessions.endedCount(why)]),
    upstreams: upstreams.all.map(({ record, gate, breaker }) => ({
      id: record.id,
      queued: gate.queued,
      breaker: breakerPhases.indexOf(actors.inspect(breaker.kind, breaker.id)?.phase ?? "Closed")
    }))
  }))
  const loop = monitorEventLoopDelay({ resolution: 20 })
  loop.enable()
  const startedMs = performance.now()
  return {
    service: chat({ turns, access, responses: new ResponsesApi(runs, background) }),
    probes: {
      draining: () => turns.draining,
      denied,
      preflight: (headers) => access.preflight(headers),
      withHeaders: (response, headers) =>
        withHeaders(response, {
          requestId: requestIdOf(headers),
          startedMs: performance.now(),
          cors: access.cors(headers)
        }),
      details: async () => {
        const views = await upstreamViews()
        return {
          status: turns.draining ? "draining" : healthOf(views),
          version,
          uptime_seconds: Math.floor((performance.now() - startedMs) / 1_000),
          timestamp: new Date().toISOString(),
          upstreams: views,
          sessions: {
            active: sessions.activeCount,
            oldest_expires_at: nextExpiry(),
            retention_seconds: Math.floor(settings.retentionMs / 1_000)
          },
          storage: { ok: true, ...size(), last_commit_ms: Math.round(metrics.lastCommitMs * 100) / 100 },
          turns: {
            in_flight: turns.inFlight,
            queued: upstreams.all.reduce((sum, { gate }) => sum + gate.queued, 0)
          },
          event_loop: { lag_p99_ms: Math.round(loop.percentile(99) / 10_000) / 100 },
          tools: { bridge: "proxy", builtin_allowlist: builtins.allowed.map(({ name }) => name) }
        }
      }
    },
    resume: async () => {
      void upstreams.list()
      await background.resume()
    },
    drain: () => turns.drain(config.shutdownGraceMs),
    close: () => {
      loop.disable()
      sessions.close()
      upstreams.close()
    }
  }
}

export class Chat extends Context.Service<Chat, ChatService>()("program/Chat") {
  static readonly layer = Layer.effect(Chat)(
    Effect.gen(function* () {
      const config = yield* Configuration
      const { metrics, tracing } = yield* Telemetry
      const parts: ChatParts = {
        store: yield* Storage,
        actors: yield* Actors,
        engines: yield* EnginePorts,
        log: yield* Logging,
        metrics,
        ...(tracing && { traced: tracing.chatModel }),
        storeBytes: () => (config.testMode ? 0 : statSync(join(config.data, "store.lmdb")).size)
      }
      return yield* opening(
        "chat",
        () => chatService(config, parts),
        (chat) => chat.close()
      )
    })
  )
}
