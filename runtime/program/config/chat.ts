/** Declares the configuration of the chat service. */
import { item } from "./item.ts"

export const chatItems = {
  chatKeys: item({
    name: "chat.keys",
    env: "API_KEY",
    kind: "string",
    initial: undefined,
    secret: true,
    doc: "Chat: keys, separated by commas, each the owner of its own sessions; unset: no key is asked for."
  }),
  chatHosts: item({
    name: "chat.hosts",
    env: "CHAT_HOSTS",
    kind: "list",
    initial: [],
    doc: "Chat: names besides the loopback ones that it answers to without keys; * is any."
  }),
  chatCorsOrigins: item({
    name: "chat.cors_origins",
    env: "CHAT_CORS_ORIGINS",
    kind: "list",
    initial: [],
    doc: "Chat: origins of browsers that may call it; * is any. Unset: any with keys, none without."
  }),
  chatUpstreams: item({
    name: "chat.upstreams",
    env: "UPSTREAMS",
    kind: "json",
    initial: undefined,
    secret: true,
    doc: "Chat: array of upstream records (JSON in the environment); unset: one embedded upstream called local."
  }),
  sessionRetentionMs: item({
    name: "chat.session_retention_ms",
    env: "SESSION_RETENTION_MS",
    kind: "integer",
    initial: 1_800_000,
    min: 1,
    max: 31_536_000_000,
    doc: "Chat: life of a stored session after its last turn."
  }),
  chatBodyBytesMax: item({
    name: "chat.body_bytes_max",
    env: "MAX_BODY_BYTES",
    kind: "integer",
    initial: 52_428_800,
    min: 1_024,
    max: 1_073_741_824,
    doc: "Chat: request body in bytes."
  }),
  upstreamConnectMs: item({
    name: "chat.upstream_connect_ms",
    env: "UPSTREAM_CONNECT_TIMEOUT_MS",
    kind: "integer",
    initial: 10_000,
    min: 1,
    max: 600_000,
    doc: "Chat: TCP and TLS to an upstream."
  }),
  upstreamFirstMs: item({
    name: "chat.upstream_first_event_ms",
    env: "UPSTREAM_FIRST_EVENT_TIMEOUT_MS",
    kind: "integer",
    initial: 180_000,
    min: 1,
    max: 3_600_000,
    doc: "Chat: until an upstream's first byte."
  }),
  upstreamIdleMs: item({
    name: "chat.upstream_idle_ms",
    env: "UPSTREAM_IDLE_TIMEOUT_MS",
    kind: "integer",
    initial: 120_000,
    min: 1,
    max: 3_600_000,
    doc: "Chat: between an upstream's events."
  }),
  turnMs: item({
    name: "chat.turn_ms",
    env: "TURN_TIMEOUT_MS",
    kind: "integer",
    initial: 600_000,
    min: 1,
    max: 86_400_000,
    doc: "Chat: whole turn, retries included."
  }),
  streamCommitMs: item({
    name: "chat.stream_commit_ms",
    env: "STREAM_COMMIT_MS",
    kind: "integer",
    initial: 10_000,
    min: 1,
    max: 600_000,
    doc: "Chat: a stream's status is held back at most this long."
  }),
  streamKeepAliveMs: item({
    name: "chat.stream_keepalive_ms",
    env: "STREAM_KEEPALIVE_MS",
    kind: "integer",
    initial: 15_000,
    min: 0,
    max: 600_000,
    doc: "Chat: comment frame on an idle stream; 0: none."
  }),
  turnsInFlightMax: item({
    name: "chat.turns_in_flight_max",
    env: "MAX_INFLIGHT_TURNS",
    kind: "integer",
    initial: 4_096,
    min: 0,
    max: 1_000_000,
    doc: "Chat: turns at once."
  }),
  sessionTurnsMax: item({
    name: "chat.session_turns_max",
    env: "MAX_SESSION_TURNS",
    kind: "integer",
    initial: 16,
    min: 1,
    max: 10_000,
    doc: "Chat: turns of one session at once."
  }),
  sessionsMax: item({
    name: "chat.sessions_max",
    env: "MAX_SESSIONS",
    kind: "integer",
    initial: 100_000,
    min: 1,
    max: 100_000_000,
    doc: "Chat: stored sessions; beyond it the one that would expire first leaves."
  }),
  storedResponseBytesMax: item({
    name: "chat.stored_response_bytes_max",
    env: "MAX_STORED_RESPONSE_BYTES",
    kind: "integer",
    initial: 8_388_608,
    min: 1_024,
    max: 268_435_456,
    doc: "Chat: one stored response."
  }),
  shutdownGraceMs: item({
    name: "chat.shutdown_grace_ms",
    env: "SHUTDOWN_GRACE_MS",
    kind: "integer",
    initial: 30_000,
    min: 0,
    max: 3_600_000,
    doc: "Chat: time for turns under way at a stop."
  }),
  builtinTools: item({
    name: "chat.builtin_tools",
    env: "BUILTIN_TOOLS",
    kind: "list",
    initial: [],
    doc: "Chat: built-in tools for requests without tools: web_fetch, current_time."
  }),
  builtinRoundsMax: item({
    name: "chat.builtin_rounds_max",
    env: "BUILTIN_TOOL_MAX_ROUNDS",
    kind: "integer",
    initial: 8,
    min: 0,
    max: 100,
    doc: "Chat: rounds of built-in tools in one turn."
  }),
  modelsCacheMs: item({
    name: "chat.models_cache_ms",
    env: "MODELS_CACHE_MS",
    kind: "integer",
    initial: 60_000,
    min: 1,
    max: 86_400_000,
    doc: "Chat: age of an upstream's model list."
  }),
  unsupportedParams: item({
    name: "chat.unsupported_params",
    env: "UNSUPPORTED_PARAMS",
    kind: ["drop", "error"],
    initial: "drop",
    doc: "Chat: hints a model lacks are dropped, or refused."
  })
}
