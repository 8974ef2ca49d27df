/** Reads the upstreams' records out of the configuration. It is guaranteed that an unknown name, a wrong
 *  type, a missing or doubled id is refused in one line that names the setting.
 *  Source: docs/spec/chat.md, sections 2 and 13. */
import { Schema, SchemaIssue } from "effect"
import type { Supports } from "./model.ts"

const Flag = Schema.optionalKey(Schema.Boolean)
const Words = Schema.Record(Schema.String, Schema.String)

const ConfiguredRecord = Schema.Struct({
  id: Schema.String.check(Schema.isPattern(/^[a-z0-9][a-z0-9-]{0,31}$/)),
  kind: Schema.Literals(["openai-chat", "openai-responses", "anthropic", "ollama", "embedded"]),
  base_url: Schema.optionalKey(
    Schema.String.check(Schema.isPattern(/^https?:\/\/[^\s/?#@]+(?:\/[^\s?#]*)?$/))
  ),
  api_key: Schema.optionalKey(Schema.String),
  api_key_env: Schema.optionalKey(Schema.String),
  headers: Schema.optionalKey(Words),
  models: Schema.optionalKey(Schema.Array(Schema.String)),
  aliases: Schema.optionalKey(Words),
  open_models: Flag,
  max_concurrency: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100_000 }))),
  queue: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000 }))),
  queue_timeout_ms: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))),
  retries: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 10 }))),
  fallbacks: Schema.optionalKey(Schema.Array(Schema.String)),
  supports: Schema.optionalKey(
    Schema.Struct({
      tools: Flag,
      images: Flag,
      audio: Flag,
      files: Flag,
      json_schema: Flag,
      logprobs: Flag,
      n: Flag,
      stream: Flag,
      usage: Flag,
      hints: Flag,
      effort_levels: Flag
    })
  ),
  effort_map: Schema.optionalKey(Schema.Record(Schema.String, Schema.NullOr(Schema.String))),
  pass_unknown: Flag,
  namespace: Flag,
  native_tools: Flag,
  upstream_sessions: Flag,
  fetch_images: Flag,
  max_tokens: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))),
  /** The longest prompt in tokens, where it is known: `truncation: "auto"` cuts before the call. */
  context_tokens: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))),
  /** The GGUF file of each embedded model, by its name. */
  files: Schema.optionalKey(Words)
})

type ConfiguredRecord = typeof ConfiguredRecord.Type

export interface UpstreamRecord extends Omit<
  ConfiguredRecord,
  "aliases" | "max_concurrency" | "queue" | "queue_timeout_ms" | "retries" | "fallbacks" | "open_models"
> {
  readonly aliases: Readonly<Record<string, string>>
  readonly max_concurrency: number
  readonly queue: number
  readonly queue_timeout_ms: number
  readonly retries: number
  readonly fallbacks: ReadonlyArray<string>
  readonly open_models: boolean
  readonly supports?: Supports
}

const decode = Schema.decodeUnknownResult(ConfiguredRecord, { onExcessProperty: "error", errors: "first" })
const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** Returns the records, or one line that names the setting at fault. */
export const readRecords = (input: unknown): ReadonlyArray<UpstreamRecord> | string => {
  if (!Array.isArray(input)) return "chat.upstreams: wants an array of upstream records"
  const records: Array<UpstreamRecord> = []
  const ids = new Set<string>()
  for (const [i, item] of input.entries()) {
    const result = decode(item)
    if (result._tag === "Failure") {
      const [issue] = format(result.failure.issue).issues
      const path = (issue?.path ?? []).map((part) => String(typeof part === "object" ? part.key : part))
      const setting = [`chat.upstreams[${i}]`, ...path].join(".")
      return `${setting}: ${(issue?.message ?? "wrong").split("\n")[0]}`
    }
    const record = result.success
    if (ids.has(record.id)) return `chat.upstreams[${i}].id: two upstreams are called ${record.id}`
    if (record.kind !== "embedded" && record.base_url === undefined)
      return `chat.upstreams[${i}].base_url: is missing`
    if (record.base_url !== undefined && !URL.canParse(record.base_url))
      return `chat.upstreams[${i}].base_url: is no address`
    ids.add(record.id)
    records.push({
      aliases: {},
      max_concurrency: 64,
      queue: 256,
      queue_timeout_ms: 10_000,
      retries: 2,
      fallbacks: [],
      open_models: false,
      ...record
    })
  }
  return records
}
