/** Configuration: built-in default, then one YAML file, then environment. Every key has one name, type, unit,
 *  default and doc; all faults are told at once. Source: design section 6. */
import { existsSync, readFileSync } from "node:fs"

import { authorizationItems } from "./authorization.ts"
import { item, type Item } from "./item.ts"

export type { Item }

/** By name in the YAML file. */
export const items = {
  host: item({ env: "TROUPE_HOST", kind: "string", initial: "127.0.0.1", doc: "Address to listen on." }),
  port: item({
    env: "TROUPE_PORT",
    kind: "integer",
    initial: 8080,
    min: 0,
    max: 65_535,
    doc: "TCP port to listen on; 0: any free one."
  }),
  data: item({ env: "TROUPE_DATA", kind: "string", initial: "./data", doc: "Folder of everything durable." }),
  durability: item({
    env: "TROUPE_DURABILITY",
    kind: ["full", "relaxed"],
    initial: "full",
    doc: "full: answers leave when flushed to disk; relaxed: benches and development only."
  }),
  adapter: item({
    env: "TROUPE_ADAPTER",
    kind: ["auto", "uws", "node"],
    initial: "auto",
    doc: "HTTP server: uWebSockets.js where its binary loads, else node:http."
  }),
  tlsCert: item({
    env: "TROUPE_TLS_CERT",
    kind: "string",
    initial: undefined,
    doc: "Certificate file (PEM); with tlsKey the listener speaks TLS."
  }),
  tlsKey: item({ env: "TROUPE_TLS_KEY", kind: "string", initial: undefined, doc: "Private key file (PEM)." }),
  trustedProxies: item({
    env: "TROUPE_TRUSTED_PROXIES",
    kind: "list",
    initial: [],
    doc: "Addresses or CIDR ranges whose X-Forwarded-For and -Proto are believed."
  }),
  publicBase: item({
    env: "TROUPE_PUBLIC_BASE",
    kind: "string",
    initial: undefined,
    doc: "Base address which clients see (https://host); else taken from each request."
  }),
  corsOrigins: item({
    env: "TROUPE_CORS_ORIGINS",
    kind: "list",
    initial: [],
    doc: "Origins of browsers that may call the translation API."
  }),
  testMode: item({
    env: "TROUPE_TEST_MODE",
    kind: "boolean",
    initial: false,
    doc: "Translation for the vendor's client test-suites: fixture engine, any key, steering headers; everything in memory, never beside real accounts."
  }),
  testProxyPort: item({
    env: "TROUPE_TEST_PROXY_PORT",
    kind: "integer",
    initial: 3_001,
    min: 0,
    max: 65_535,
    doc: "Forward proxy of test mode; 0: any free port."
  }),
  masterKey: item({
    env: "SERVICE_MASTER_KEY",
    kind: "string",
    initial: undefined,
    secret: true,
    doc: "32 bytes, base64 or hex; else the file master.key of the data folder."
  }),
  logLevel: item({
    env: "TROUPE_LOG_LEVEL",
    kind: ["debug", "info", "warn", "error"],
    initial: "info",
    doc: "Least severe log line that is written."
  }),
  drainMs: item({
    env: "TROUPE_DRAIN_MS",
    kind: "integer",
    initial: 10_000,
    min: 0,
    max: 600_000,
    doc: "Time in ms for requests in flight at a stop."
  }),
  residentActorsMax: item({
    env: "TROUPE_RESIDENT_ACTORS_MAX",
    kind: "integer",
    initial: 200_000,
    min: 100,
    max: 10_000_000,
    doc: "Actors in memory at most."
  }),
  rateCalls: item({
    env: "TROUPE_RATE_CALLS",
    kind: "integer",
    initial: 200,
    min: 1,
    max: 1_000_000,
    doc: "Translation calls per key and window."
  }),
  rateWindowMs: item({
    env: "TROUPE_RATE_WINDOW_MS",
    kind: "integer",
    initial: 2_000,
    min: 10,
    max: 3_600_000,
    doc: "Length of that window in ms."
  }),
  callsInFlight: item({
    env: "TROUPE_CALLS_IN_FLIGHT",
    kind: "integer",
    initial: 64,
    min: 1,
    max: 100_000,
    doc: "Translation calls per key at once."
  }),
  enginesTranslate: item({
    env: "ENGINES_TRANSLATE",
    kind: "list",
    initial: ["deepl", "openai", "firefox", "apertium"],
    doc: "Translators in order of preference; those that are not ready are passed over."
  }),
  apertium: item({
    env: "APERTIUM",
    kind: ["auto", "off"],
    initial: "auto",
    doc: "Use the Apertium pairs that are installed."
  }),
  pairsWarm: item({
    env: "PAIRS_WARM",
    kind: "list",
    initial: [],
    doc: "Directions to start at once, as en>es."
  }),
  modelsDir: item({
    env: "MODELS_DIR",
    kind: "string",
    initial: "./models",
    doc: "Folder of model files the operator supplies: mt/<src>-<trg>/, stt/<lang>/."
  }),
  sttMaxSessions: item({
    env: "STT_MAX_SESSIONS",
    kind: "integer",
    initial: 2,
    min: 0,
    max: 64,
    doc: "Hearings of the embedded recognizer at once, about one per core; 0 switches it off."
  }),
  openaiBaseUrl: item({
    env: "OPENAI_BASE_URL",
    kind: "string",
    initial: undefined,
    doc: "OpenAI-compatible upstream (…/v1) for translation and transcription."
  }),
  openaiApiKey: item({
    env: "OPENAI_API_KEY",
    kind: "string",
    initial: undefined,
    secret: true,
    doc: "Its key."
  }),
  openaiModel: item({
    env: "OPENAI_MODEL",
    kind: "string",
    initial: undefined,
    doc: "Its chat model for translation; unset: not used for that."
  }),
  openaiSttModel: item({
    env: "OPENAI_STT_MODEL",
    kind: "string",
    initial: undefined,
    doc: "Its transcription model; unset: not used for that."
  }),
  deeplUpstreamUrl: item({
    env: "DEEPL_UPSTREAM_URL",
    kind: "string",
    initial: undefined,
    doc: "DeepL-compatible upstream for translation."
  }),
  deeplUpstreamKey: item({
    env: "DEEPL_UPSTREAM_KEY",
    kind: "string",
    initial: undefined,
    secret: true,
    doc: "Its key."
  }),
  chatKeys: item({
    env: "API_KEY",
    kind: "string",
    initial: undefined,
    secret: true,
    doc: "Chat: keys, separated by commas, each the owner of its own sessions; unset: no key is asked for."
  }),
  chatUpstreams: item({
    env: "UPSTREAMS",
    kind: "json",
    initial: undefined,
    secret: true,
    doc: "Chat: array of upstream records (JSON in the environment); unset: one embedded upstream called local."
  }),
  healthDetailsMode: item({
    env: "HEALTH_DETAILS_MODE",
    kind: ["open", "off", "auth"],
    initial: "open",
    doc: "GET /health/details: open, off (404) or auth (API_KEY)."
  }),
  metricsMode: item({
    env: "METRICS_MODE",
    kind: ["open", "off", "auth"],
    initial: "open",
    doc: "GET /metrics: open, off (404) or auth (API_KEY)."
  }),
  sessionRetentionMs: item({
    env: "SESSION_RETENTION_MS",
    kind: "integer",
    initial: 1_800_000,
    min: 1,
    max: 31_536_000_000,
    doc: "Chat: life of a stored session after its last turn."
  }),
  chatBodyBytesMax: item({
    env: "MAX_BODY_BYTES",
    kind: "integer",
    initial: 52_428_800,
    min: 1_024,
    max: 1_073_741_824,
    doc: "Chat: request body in bytes."
  }),
  upstreamConnectMs: item({
    env: "UPSTREAM_CONNECT_TIMEOUT_MS",
    kind: "integer",
    initial: 10_000,
    min: 1,
    max: 600_000,
    doc: "Chat: TCP and TLS to an upstream."
  }),
  upstreamFirstMs: item({
    env: "UPSTREAM_FIRST_EVENT_TIMEOUT_MS",
    kind: "integer",
    initial: 180_000,
    min: 1,
    max: 3_600_000,
    doc: "Chat: until an upstream's first byte."
  }),
  upstreamIdleMs: item({
    env: "UPSTREAM_IDLE_TIMEOUT_MS",
    kind: "integer",
    initial: 120_000,
    min: 1,
    max: 3_600_000,
    doc: "Chat: between an upstream's events."
  }),
  turnMs: item({
    env: "TURN_TIMEOUT_MS",
    kind: "integer",
    initial: 600_000,
    min: 1,
    max: 86_400_000,
    doc: "Chat: whole turn, retries included."
  }),
  streamCommitMs: item({
    env: "STREAM_COMMIT_MS",
    kind: "integer",
    initial: 10_000,
    min: 1,
    max: 600_000,
    doc: "Chat: a stream's status is held back at most this long."
  }),
  streamKeepAliveMs: item({
    env: "STREAM_KEEPALIVE_MS",
    kind: "integer",
    initial: 15_000,
    min: 0,
    max: 600_000,
    doc: "Chat: comment frame on an idle stream; 0: none."
  }),
  turnsInFlightMax: item({
    env: "MAX_INFLIGHT_TURNS",
    kind: "integer",
    initial: 4_096,
    min: 0,
    max: 1_000_000,
    doc: "Chat: turns at once."
  }),
  sessionTurnsMax: item({
    env: "MAX_SESSION_TURNS",
    kind: "integer",
    initial: 16,
    min: 1,
    max: 10_000,
    doc: "Chat: turns of one session at once."
  }),
  sessionsMax: item({
    env: "MAX_SESSIONS",
    kind: "integer",
    initial: 100_000,
    min: 1,
    max: 100_000_000,
    doc: "Chat: stored sessions; beyond it the one that would expire first leaves."
  }),
  storedResponseBytesMax: item({
    env: "MAX_STORED_RESPONSE_BYTES",
    kind: "integer",
    initial: 8_388_608,
    min: 1_024,
    max: 268_435_456,
    doc: "Chat: one stored response."
  }),
  shutdownGraceMs: item({
    env: "SHUTDOWN_GRACE_MS",
    kind: "integer",
    initial: 30_000,
    min: 0,
    max: 3_600_000,
    doc: "Chat: time for turns under way at a stop."
  }),
  builtinTools: item({
    env: "BUILTIN_TOOLS",
    kind: "list",
    initial: [],
    doc: "Chat: built-in tools for requests without tools: web_fetch, current_time."
  }),
  builtinRoundsMax: item({
    env: "BUILTIN_TOOL_MAX_ROUNDS",
    kind: "integer",
    initial: 8,
    min: 0,
    max: 100,
    doc: "Chat: rounds of built-in tools in one turn."
  }),
  modelsCacheMs: item({
    env: "MODELS_CACHE_MS",
    kind: "integer",
    initial: 60_000,
    min: 1,
    max: 86_400_000,
    doc: "Chat: age of an upstream's model list."
  }),
  unsupportedParams: item({
    env: "UNSUPPORTED_PARAMS",
    kind: ["drop", "error"],
    initial: "drop",
    doc: "Chat: hints a model lacks are dropped, or refused."
  }),
  storeDomain: item({
    env: "STORE_DOMAIN",
    kind: "string",
    initial: undefined,
    doc: "Host name of the store; unset: only localhost and the host of publicBase."
  }),
  storePlan: item({
    env: "STORE_PLAN",
    kind: ["steel", "bronze", "silver", "gold", "platinum", "diamond"],
    initial: "gold",
    doc: "The store's plan: 5, 10, 20, then 50 calls of custom apps in 10 s."
  }),
  storeHeaderPrefix: item({
    env: "STORE_HEADER_PREFIX",
    kind: "string",
    initial: "X-STORE",
    doc: "Begins the names of the store's own headers."
  }),
  storeRetryAfter: item({
    env: "STORE_RETRY_AFTER",
    kind: ["date", "seconds"],
    initial: "date",
    doc: "Form of Retry-After with the store's 429."
  }),
  storeCacheTtlS: item({
    env: "STORE_CACHE_TTL_S",
    kind: "integer",
    initial: 60,
    min: 0,
    max: 86_400,
    doc: "Life in s of a cached answer of the store."
  }),
  storeMaxBodyBytes: item({
    env: "STORE_MAX_BODY_BYTES",
    kind: "integer",
    initial: 2_097_152,
    min: 1_024,
    max: 26_214_400,
    doc: "Largest body in bytes of a store call (uploads and imports: 25 MiB)."
  }),
  storeTimeZone: item({
    env: "STORE_TIME_ZONE",
    kind: "string",
    initial: "UTC",
    doc: "Time zone of the store's datetimes."
  }),
  storeDataKey: item({
    env: "STORE_DATA_KEY",
    kind: "string",
    initial: undefined,
    secret: true,
    doc: "32 bytes, base64, for encrypted fields; several, newest first, with commas; else from the master key."
  }),
  storeAdminPassword: item({
    env: "STORE_ADMIN_PASSWORD",
    kind: "string",
    initial: undefined,
    secret: true,
    doc: "Password of the console user admin, set at the store's first boot; no demo is made then."
  }),
  ...authorizationItems,
  storeWebhookPrivateTargets: item({
    env: "STORE_WEBHOOK_PRIVATE_TARGETS",
    kind: "boolean",
    initial: false,
    doc: "Webhooks may call http and private addresses. Development only."
  })
}

type Items = typeof items

type ValueOf<I extends Item> = I["kind"] extends "string"
  ? I["initial"] extends string
    ? string
    : string | undefined
  : I["kind"] extends "integer" | "duration"
    ? number
    : I["kind"] extends "boolean"
      ? boolean
      : I["kind"] extends "list"
        ? ReadonlyArray<string>
        : I["kind"] extends "json"
          ? unknown
          : I["kind"] extends ReadonlyArray<infer A>
            ? A
            : never

export type Config = { readonly [N in keyof Items]: ValueOf<Items[N]> }

export class ConfigFault extends Error {
  readonly faults: ReadonlyArray<string>

  constructor(faults: ReadonlyArray<string>) {
    super(`configuration:\n  ${faults.join("\n  ")}`)
    this.name = "ConfigFault"
    this.faults = faults
  }
}

const unitsMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/** Go style: `90s`, `1h30m`; a bare number is milliseconds. */
const durationMs = (text: string): number | undefined =>
  /^\d+$/.test(text)
    ? Number(text)
    : !/^(?:\d+(?:ms|s|m|h))+$/.test(text)
      ? undefined
      : [...text.matchAll(/(\d+)(ms|s|m|h)/g)].reduce(
          (sum, [, count, unit]) => sum + Number(count) * unitsMs[unit!]!,
          0
        )

/** `server: { issuer: … }` is `server.issuer`. */
const flat = (content: Record<string, unknown>, under = ""): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(content).flatMap(([name, value]) =>
      typeof value === "object" && value !== null && !Array.isArray(value) && !(`${under}${name}` in items)
        ? Object.entries(flat(value as Record<string, unknown>, `${under}${name}.`))
        : [[`${under}${name}`, value]]
    )
  )

const parsed = (given: unknown, { kind, min, max }: Item): { readonly value: unknown } | string => {
  if (kind === "list") {
    const list =
      typeof given === "string"
        ? given
            .split(",")
            .map((part) => part.trim())
            .filter((part) => part !== "")
        : given
    return Array.isArray(list) && list.every((part) => typeof part === "string")
      ? { value: list }
      : "wants a list of texts"
  }
  if (kind === "integer") {
    const value = typeof given === "string" && /^-?\d+$/.test(given.trim()) ? Number(given) : given
    return typeof value === "number" &&
      Number.isSafeInteger(value) &&
      value >= (min ?? -Infinity) &&
      value <= (max ?? Infinity)
      ? { value }
      : `wants an integer from ${min} to ${max}`
  }
  if (kind === "boolean")
    return given === true || given === "true" || given === "1"
      ? { value: true }
      : given === false || given === "false" || given === "0"
        ? { value: false }
        : "wants true or false"
  if (kind === "duration") {
    const value = typeof given === "string" ? durationMs(given.trim()) : given
    return typeof value === "number" && Number.isSafeInteger(value) && value >= 0
      ? { value }
      : "wants a duration such as 90s, 15m or 1h30m"
  }
  if (kind === "json") {
    if (typeof given !== "string") return { value: given }
    try {
      return { value: JSON.parse(given) as unknown }
    } catch {
      return "wants JSON"
    }
  }
  if (kind === "string")
    return typeof given === "string" || typeof given === "number" ? { value: String(given) } : "wants a text"
  return kind.includes(String(given)) ? { value: String(given) } : `wants one of ${kind.join(", ")}`
}

/** Throws ConfigFault with every fault. The YAML file: `file`, else TROUPE_CONFIG. */
export const loadConfig = async (
  env: Readonly<Record<string, string | undefined>>,
  file: string | undefined = env["TROUPE_CONFIG"]
): Promise<Config> => {
  const faults: Array<string> = []
  let fromFile: Record<string, unknown> = {}
  if (file !== undefined) {
    if (!existsSync(file)) throw new ConfigFault([`${file}: no such file`])
    try {
      const content: unknown = (await import("yaml")).parse(readFileSync(file, "utf8"))
      if (typeof content === "object" && content !== null && !Array.isArray(content))
        fromFile = flat(content as Record<string, unknown>)
      else if (content !== null) faults.push(`${file}: wants names and values`)
    } catch (cause) {
      faults.push(`${file}: ${(cause as Error).message.split("\n")[0]}`)
    }
    for (const name of Object.keys(fromFile))
      if (!(name in items)) faults.push(`${file}: ${name} is no configuration key`)
  }
  const config: Record<string, unknown> = {}
  for (const [name, about] of Object.entries(items) as Array<[string, Item]>) {
    const inEnv = env[about.env]
    const given = inEnv !== undefined && inEnv !== "" ? inEnv : (fromFile[name] ?? undefined)
    const result = given === undefined ? { value: about.initial } : parsed(given, about)
    if (typeof result === "string")
      faults.push(`${inEnv !== undefined && inEnv !== "" ? about.env : `${file}: ${name}`}: ${result}`)
    else config[name] = result.value
  }
  if ((config["tlsCert"] === undefined) !== (config["tlsKey"] === undefined))
    faults.push("tlsCert and tlsKey go together")
  // Asked only about another than the default: the first Intl object costs a start some milliseconds.
  if (config["storeTimeZone"] !== items.storeTimeZone.initial)
    try {
      void new Intl.DateTimeFormat("en", { timeZone: String(config["storeTimeZone"]) })
    } catch {
      faults.push("storeTimeZone: there is no such time zone")
    }
  if (faults.length > 0) throw new ConfigFault(faults)
  return config as unknown as Config
}

/** What is in force, secrets masked. */
export const maskedConfig = (config: Config): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(config).map(([name, value]) => [
      name,
      (items[name as keyof Items] as Item).secret === true && value !== undefined
        ? "********"
        : (value ?? null)
    ])
  )
