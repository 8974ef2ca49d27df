/** Declares the configuration of the process itself: listener, storage, log, how many actors stay in memory,
 *  which operational endpoints
 *  are open, and where traces go. */
import { item } from "./item.ts"

export const serverItems = {
  host: item({
    name: "http.host",
    env: "TROUPE_HOST",
    kind: "string",
    initial: "127.0.0.1",
    doc: "Address to listen on."
  }),
  port: item({
    name: "http.port",
    env: "TROUPE_PORT",
    kind: "integer",
    initial: 8080,
    min: 0,
    max: 65_535,
    doc: "TCP port to listen on; 0: any free one."
  }),
  adapter: item({
    name: "http.adapter",
    env: "TROUPE_ADAPTER",
    kind: ["auto", "uws", "node"],
    initial: "auto",
    doc: "HTTP server: uWebSockets.js where its binary loads, else node:http."
  }),
  tlsCert: item({
    name: "http.tls_cert",
    env: "TROUPE_TLS_CERT",
    kind: "string",
    initial: undefined,
    doc: "Certificate file (PEM); with http.tls_key the listener speaks TLS."
  }),
  tlsKey: item({
    name: "http.tls_key",
    env: "TROUPE_TLS_KEY",
    kind: "string",
    initial: undefined,
    doc: "Private key file (PEM)."
  }),
  trustedProxies: item({
    name: "http.trusted_proxies",
    env: "TROUPE_TRUSTED_PROXIES",
    kind: "list",
    initial: [],
    doc: "Addresses or CIDR ranges whose X-Forwarded-For and -Proto are believed."
  }),
  publicBase: item({
    name: "http.public_base",
    env: "TROUPE_PUBLIC_BASE",
    kind: "string",
    initial: undefined,
    doc: "Base address which clients see (https://host); else taken from each request."
  }),
  drainMs: item({
    name: "http.drain_ms",
    env: "TROUPE_DRAIN_MS",
    kind: "integer",
    initial: 10_000,
    min: 0,
    max: 600_000,
    doc: "Time in ms for requests in flight at a stop."
  }),
  data: item({
    name: "storage.folder",
    env: "TROUPE_DATA",
    kind: "string",
    initial: "./data",
    doc: "Folder of everything durable."
  }),
  cache: item({
    name: "storage.cache",
    env: "TROUPE_CACHE",
    kind: "string",
    initial: undefined,
    doc: "Folder of what can be made anew; else the folder cache of the data folder."
  }),
  durability: item({
    name: "storage.durability",
    env: "TROUPE_DURABILITY",
    kind: ["full", "relaxed"],
    initial: "full",
    doc: "full: answers leave when flushed to disk; relaxed: benches and development only."
  }),
  masterKey: item({
    name: "storage.master_key",
    env: "SERVICE_MASTER_KEY",
    kind: "string",
    initial: undefined,
    secret: true,
    doc: "32 bytes, base64 or hex; else the file master.key of the data folder."
  }),
  printSecrets: item({
    name: "first_start.print_secrets",
    env: "TROUPE_PRINT_SECRETS",
    kind: ["auto", "always"],
    initial: "auto",
    doc: "New demo secrets: auto prints them on a terminal, else writes them to first-start.txt in the data folder; always prints."
  }),
  logLevel: item({
    name: "log.level",
    env: "TROUPE_LOG_LEVEL",
    kind: ["debug", "info", "warn", "error"],
    initial: "info",
    doc: "Least severe log line that is written."
  }),
  otlpUrl: item({
    name: "telemetry.otlp_url",
    env: "OTEL_EXPORTER_OTLP_ENDPOINT",
    kind: "string",
    initial: undefined,
    doc: "Base address of an OTLP collector (http://host:4318); without it nothing is traced."
  }),
  otlpHeaders: item({
    name: "telemetry.otlp_headers",
    env: "OTEL_EXPORTER_OTLP_HEADERS",
    kind: "string",
    initial: undefined,
    secret: true,
    doc: "Headers for the collector: name=value,name=value."
  }),
  traceSamplePercent: item({
    name: "telemetry.sample_percent",
    env: "TROUPE_TRACE_SAMPLE_PERCENT",
    kind: "integer",
    initial: 100,
    min: 0,
    max: 100,
    doc: "Requests of a hundred that are traced."
  }),
  serviceName: item({
    name: "telemetry.service_name",
    env: "OTEL_SERVICE_NAME",
    kind: "string",
    initial: "troupe",
    doc: "Name of this node in traces."
  }),
  residentActorsMax: item({
    name: "actors.resident_max",
    env: "TROUPE_RESIDENT_ACTORS_MAX",
    kind: "integer",
    initial: 200_000,
    min: 100,
    max: 10_000_000,
    doc: "Actors in memory at most."
  }),
  healthDetailsMode: item({
    name: "operations.health_details",
    env: "HEALTH_DETAILS_MODE",
    kind: ["open", "off", "auth"],
    initial: "open",
    doc: "GET /health/details: open, off (404) or auth (API_KEY)."
  }),
  metricsMode: item({
    name: "operations.metrics",
    env: "METRICS_MODE",
    kind: ["open", "off", "auth"],
    initial: "open",
    doc: "GET /metrics: open, off (404) or auth (API_KEY)."
  })
}
