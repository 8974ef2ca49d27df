/** Everything that the program keeps, by the names that are on disk. A name that is new, gone or another makes the test of the samples fail: a
 *  new one wants an instance in a new sample, a changed one breaks the data of everybody who has some. */

/** Kinds of actors that are kept, with the tags of the events and (after a slash) of the folded states that the samples hold. */
export const keptKinds: Readonly<Record<string, ReadonlyArray<string>>> = {
  "document-job": ["Begun", "Failed", "Finished", "Locked", "Received"],
  "memory-job": ["Broken", "Declared", "Expired", "ExportBegun", "ReadWhole", "Uploaded", "Written"],
  "proxy-session": ["/Active", "Committed", "Deleted", "Held"],
  "quality-job": ["Accepted", "Evaluated"],
  "refresh-family": ["/Active", "Opened", "Revoked", "Rotated"],
  "voice-job": ["Billed", "Completed", "Created", "Fetched", "Uploaded"],
  "voice-session": [
    "/Live",
    "Concluded",
    "Connected",
    "Created",
    "Delivered",
    "Disconnected",
    "Renewed",
    "Restored",
    "Translated"
  ],
  "webhook-delivery": ["/Idle", "/Resting", "/Sending"]
}

/** How far the work of actors had come: the newest event of each. Jobs stand before their work, in the middle of it, and after. */
export const newestTags: Readonly<Record<string, ReadonlyArray<string>>> = {
  "document-job": ["Begun", "Failed", "Finished", "Locked", "Received"],
  "memory-job": ["Broken", "Declared", "Expired", "ExportBegun", "ReadWhole", "Uploaded", "Written"],
  "proxy-session": ["Committed", "Deleted"],
  "quality-job": ["Accepted", "Evaluated"],
  "refresh-family": ["Opened", "Revoked", "Rotated"],
  "voice-job": ["Billed", "Completed", "Created", "Uploaded"],
  "voice-session": ["Created", "Renewed", "Restored", "Translated"],
  "webhook-delivery": ["/Idle", "/Resting", "/Sending"]
}

/** Kinds of actors that leave nothing on disk: a restart begins them anew. */
export const memoryKinds: ReadonlyArray<string> = ["circuit-breaker", "engine", "lockout", "rate-window"]

export const tables: ReadonlyArray<string> = [
  "authorization-assertion-ids",
  "authorization-audit",
  "authorization-broker-grants",
  "authorization-clients",
  "authorization-codes",
  "authorization-consent-keys",
  "authorization-consents",
  "authorization-expiries",
  "authorization-family-ends",
  "authorization-idempotency",
  "authorization-idps",
  "authorization-issuances",
  "authorization-mapping-keys",
  "authorization-mappings",
  "authorization-policies",
  "authorization-prompts",
  "authorization-proof-ids",
  "authorization-providers",
  "authorization-requests",
  "authorization-resources",
  "authorization-sessions",
  "authorization-settings",
  "authorization-signing-keys",
  "authorization-unique-names",
  "authorization-used-states",
  "authorization-user-emails",
  "authorization-user-federations",
  "authorization-users",
  "chat-background",
  "chat-events",
  "chat-forgotten",
  "chat-responses",
  "documents",
  "store-admin-token-hashes",
  "store-admin-tokens",
  "store-app-clients",
  "store-apps",
  "store-collections",
  "store-decrypt-audit",
  "store-files",
  "store-idempotency",
  "store-idempotency-times",
  "store-outbox",
  "store-outbox-aside",
  "store-references",
  "store-rows",
  "store-sessions",
  "store-settings",
  "store-staff",
  "store-staff-subjects",
  "store-uniques",
  "store-windows",
  "translation-accounts",
  "translation-garbage",
  "translation-glossaries",
  "translation-glossary-entries",
  "translation-key-hashes",
  "translation-keys",
  "translation-memories",
  "translation-memory-exact",
  "translation-memory-exports",
  "translation-memory-segments",
  "translation-memory-used",
  "translation-spoken-terms",
  "translation-styles",
  "translation-tags",
  "translation-voice-jobs-open",
  "voice-tokens"
]
/** Tables that no request of b01f4be fills, so that no folder of data holds a row: tokens that the store gives out itself are made by tests only. */
export const emptyTables: ReadonlyArray<string> = ["store-app-tokens"]

export const counters: ReadonlyArray<string> = [
  "chat-sessions",
  "document-counts",
  "store-admin-token-ids",
  "store-decrypt-audit",
  "store-ids",
  "store-outbox-dropped",
  "store-outbox-seq",
  "translation-usage"
]
/** Files, by their names: uploads and results of jobs, sealed documents and their checkpoints, files of the store. */
export const blobs: ReadonlyArray<string> = [
  "doc-ID.result",
  "doc-ID.segments.N",
  "doc-ID.source",
  "quality-ID",
  "quality-ID-report",
  "store-ID",
  "tm-ID-ID",
  "tmx-ID",
  "voice-ID-N",
  "voice-ID-source-ID"
]
/** Files beside the store. */
export const files: ReadonlyArray<string> = [
  "blobs",
  "local.sealed",
  "master.key",
  "revocation-intents",
  "store.lmdb"
]
