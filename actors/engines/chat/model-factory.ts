/** Makes a chat model from an upstream's record: it decides which dialect is spoken to which server. No
 *  server is contacted before a model is used. Source: docs/spec/chat.md, section 13. */
import { defined } from "../../../runtime/defined.ts"
import type { Engines } from "../ports.ts"
import { anthropic } from "./anthropic.ts"
import { embedded } from "./embedded-model.ts"
import type { Deadlines } from "./deadlines.ts"
import type { CallLimits, UpstreamHttp } from "./http-client.ts"
import { UpstreamFault, type ChatModel } from "./model.ts"
import { ollama } from "./ollama.ts"
import { openAiChat } from "./openai-chat.ts"
import { openAiResponses } from "./openai-responses.ts"
import type { UpstreamRecord } from "./upstream-record.ts"
import { translatorModel } from "./translator-model.ts"

export interface ModelDeps {
  readonly limits: CallLimits
  readonly deadlines: Deadlines
  readonly engines: Engines | undefined
  readonly env: Readonly<Record<string, string | undefined>>
  /** Fetches a remote image, if the record allows it. */
  readonly fetchBytes: (url: string, signal: AbortSignal) => Promise<Uint8Array>
}

/** Joins several models of one process under one record: one worker for `echo`, one for all GGUF files. */
const joined = (models: ReadonlyMap<string, ChatModel>): ChatModel => ({
  supports: {},
  supportsFor: (name) => models.get(name)?.supports,
  list: async (signal) =>
    (await Promise.all([...new Set(models.values())].map((model) => model.list(signal)))).flat(),
  generate: (request, sink, signal) => {
    const model = models.get(request.model)
    return model === undefined
      ? Promise.reject(new UpstreamFault({ reason: "not-found", detail: "no such model" }))
      : model.generate(request, sink, signal)
  },
  close: () => {
    for (const model of models.values()) model.close()
  }
})

export const modelFor = (
  record: UpstreamRecord,
  { limits, deadlines, engines, env, fetchBytes }: ModelDeps
): ChatModel => {
  // A key that was read from a file may end with its line break.
  const key = (
    record.api_key ?? (record.api_key_env === undefined ? undefined : env[record.api_key_env])
  )?.trim()
  const bearer = key === undefined ? {} : { Authorization: `Bearer ${key}` }
  const http = (headers: Readonly<Record<string, string>>): UpstreamHttp => ({
    base: record.base_url!,
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...headers,
      ...record.headers
    },
    limits,
    deadlines
  })
  const effort = defined({ effortMap: record.effort_map })
  switch (record.kind) {
    case "openai-chat":
      return openAiChat({
        id: record.id,
        http: http(bearer),
        supports: {},
        ...effort,
        ...defined({ passUnknown: record.pass_unknown })
      })
    case "openai-responses":
      return openAiResponses({
        id: record.id,
        http: http(bearer),
        supports: {
          n: false,
          stop: false,
          lacks: ["seed", "frequencyPenalty", "presencePenalty", "logitBias"]
        },
        ...effort,
        sessions: record.upstream_sessions === true
      })
    case "anthropic":
      return anthropic({
        id: record.id,
        http: http({ ...defined({ "x-api-key": key }), "anthropic-version": "2023-06-01" }),
        maxTokens: record.max_tokens ?? 4_096
      })
    case "ollama":
      return ollama({
        id: record.id,
        http: http(bearer),
        effortLevels: record.supports?.effort_levels === true,
        fetchImage: record.fetch_images === true ? fetchBytes : undefined
      })
    case "embedded": {
      const { files = {} } = record
      const names = Object.keys(files)
      const local = embedded(
        names.map((id) => ({ id })),
        { _tag: "gguf", files }
      )
      return joined(
        new Map<string, ChatModel>([
          ["echo", embedded([{ id: "echo" }], { _tag: "echo" })],
          ...(engines === undefined ? [] : [["translate", translatorModel(engines)] as const]),
          ...names.map((name) => [name, local] as const)
        ])
      )
    }
  }
}
