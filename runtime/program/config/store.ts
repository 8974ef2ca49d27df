/** Declares the configuration of the store. */
import { item } from "./item.ts"

export const storeItems = {
  storeDomain: item({
    name: "store.domain",
    env: "STORE_DOMAIN",
    kind: "string",
    initial: undefined,
    doc: "Host name of the store; unset: only localhost and the host of http.public_base."
  }),
  storePlan: item({
    name: "store.plan",
    env: "STORE_PLAN",
    kind: ["steel", "bronze", "silver", "gold", "platinum", "diamond"],
    initial: "gold",
    doc: "The store's plan: 5, 10, 20, then 50 calls of custom apps in 10 s."
  }),
  storeHeaderPrefix: item({
    name: "store.header_prefix",
    env: "STORE_HEADER_PREFIX",
    kind: "string",
    initial: "X-STORE",
    doc: "Begins the names of the store's own headers."
  }),
  storeRetryAfter: item({
    name: "store.retry_after",
    env: "STORE_RETRY_AFTER",
    kind: ["date", "seconds"],
    initial: "date",
    doc: "Form of Retry-After with the store's 429."
  }),
  storeCacheTtlS: item({
    name: "store.cache_ttl_s",
    env: "STORE_CACHE_TTL_S",
    kind: "integer",
    initial: 60,
    min: 0,
    max: 86_400,
    doc: "Life in s of a cached answer of the store."
  }),
  storeMaxBodyBytes: item({
    name: "store.max_body_bytes",
    env: "STORE_MAX_BODY_BYTES",
    kind: "integer",
    initial: 2_097_152,
    min: 1_024,
    max: 26_214_400,
    doc: "Largest body in bytes of a store call (uploads and imports: 25 MiB)."
  }),
  storeTimeZone: item({
    name: "store.time_zone",
    env: "STORE_TIME_ZONE",
    kind: "string",
    initial: "UTC",
    doc: "Time zone of the store's datetimes."
  }),
  storeDataKey: item({
    name: "store.data_key",
    env: "STORE_DATA_KEY",
    kind: "string",
    initial: undefined,
    secret: true,
    doc: "32 bytes, base64, for encrypted fields; several, newest first, with commas; else from the master key."
  }),
  storeAdminPassword: item({
    name: "store.admin_password",
    env: "STORE_ADMIN_PASSWORD",
    kind: "string",
    initial: undefined,
    secret: true,
    doc: "Password of the console user admin, set at the store's first boot; no demo is made then."
  }),
  storeWebhookPrivateTargets: item({
    name: "store.webhook_private_targets",
    env: "STORE_WEBHOOK_PRIVATE_TARGETS",
    kind: "boolean",
    initial: false,
    doc: "Webhooks may call http and private addresses. Development only."
  })
}
