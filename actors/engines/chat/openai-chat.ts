/** An OpenAI-compatible upstream, chat completions. Source: chat section 13.1. */
import type { Abort } from "./abort.ts"
import { HttpClient, Whole, type UpstreamHttp } from "./http.ts"
import { badResponse, UpstreamFault, type ChatModel, type ListedModel, type Message, type ModelRequest, type ModelSink, type Part, type Supports } from "./model.ts"
import { ChunkReader } from "./openai-chunks.ts"
import { SseReader } from "./sse-reader.ts"

export interface OpenAiOptions {
  readonly http: UpstreamHttp; readonly supports: Supports
  /** Words of effort, mapped further; null drops the parameter. */ readonly effortMap?: Readonly<Record<string, string | null>>
  readonly passUnknown?: boolean
  /** The upstream's record id: which reasoning it made itself. */ readonly id: string
}

const partOf = (part: Part): unknown => {
  switch (part.type) {
    case "text": return { type: "text", text: part.text }
    case "refusal": return { type: "refusal", refusal: part.text }
    case "image": return { type: "image_url", image_url: { url: part.url, ...(part.detail === undefined ? {} : { detail: part.detail }) } }
    case "audio": return { type: "input_audio", input_audio: { data: part.data, format: part.format } }
    case "file": return { type: "file", file: { file_data: part.data, filename: part.filename } }
  }
}
const messageOf = ({ role, content, calls, callId }: Message): unknown => ({
  role, content: content === null || typeof content === "string" ? content : content.map(partOf),
  ...(calls === undefined || calls.length === 0 ? {} : { tool_calls: calls.map(({ id, name, arguments: text }) => ({ id, type: "function", function: { name, arguments: text } })) }),
  ...(callId === undefined ? {} : { tool_call_id: callId })
})
export const effortOf = (request: ModelRequest, map: OpenAiOptions["effortMap"]): string | undefined =>
  request.effort === undefined ? undefined : map !== undefined && Object.hasOwn(map, request.effort) ? map[request.effort] ?? undefined : request.effort

/** The body of POST /chat/completions; undefined members are left out by JSON. */
export const chatBody = (request: ModelRequest, { effortMap, passUnknown, http }: OpenAiOptions): unknown => ({
  ...(passUnknown === true ? request.unknown : undefined),
  model: request.model, messages: request.messages.map(messageOf),
  ...(request.stream ? { stream: true, stream_options: { include_usage: true, ...(http.base.includes("api.openai.com") ? { include_obfuscation: false } : {}) } } : {}),
  tools: request.tools === undefined || request.tools.length === 0 ? undefined : request.tools.map(({ name, description, parameters, strict }) => ({ type: "function", function: { name, description, parameters, strict } })),
  tool_choice: request.toolChoice === undefined || request.tools === undefined || request.tools.length === 0 ? undefined
    : typeof request.toolChoice === "string" ? request.toolChoice : { type: "function", function: { name: request.toolChoice.name } },
  parallel_tool_calls: request.tools === undefined || request.tools.length === 0 ? undefined : request.parallel,
  temperature: request.temperature, top_p: request.topP, max_completion_tokens: undefined, max_tokens: request.maxTokens, stop: request.stop, seed: request.seed,
  frequency_penalty: request.frequencyPenalty, presence_penalty: request.presencePenalty, logit_bias: request.logitBias,
  logprobs: request.logprobs, top_logprobs: request.topLogprobs, n: request.n,
  response_format: request.format === undefined ? undefined : request.format.type === "json_object" ? { type: "json_object" }
    : { type: "json_schema", json_schema: { name: request.format.name, schema: request.format.schema, strict: request.format.strict, description: request.format.description } },
  reasoning_effort: effortOf(request, effortMap), modalities: request.audio === true ? ["text", "audio"] : undefined, user: request.user, ...request.hints
})

export const listedModels = (answer: any): ReadonlyArray<ListedModel> => {
  if (!Array.isArray(answer?.data)) throw badResponse("no list of models")
  return answer.data.flatMap((entry: any) => typeof entry?.id === "string"
    ? [{ id: entry.id, created: Number.isInteger(entry.created) ? entry.created : undefined, ownedBy: typeof entry.owned_by === "string" ? entry.owned_by : undefined }] : [])
}

export const openAiChat = (options: OpenAiOptions): ChatModel => {
  const client = new HttpClient(options.http)
  const whole = async (request: ModelRequest, sink: ModelSink, signal: Abort): Promise<void> => {
    const answer = await client.json("POST", "/chat/completions", JSON.stringify(chatBody(request, options)), signal)
    if (!Array.isArray(answer?.choices) || answer.choices.length === 0) {
      if (answer?.error !== undefined && answer?.error !== null) throw new UpstreamFault({ reason: "error", detail: "an error in an answer" })
      throw badResponse("no choices")
    }
    const reader = new ChunkReader(sink)
    sink.begun()
    // A whole answer is a stream of one chunk, and one without a finish reason is over all the same.
    for (const choice of answer.choices) if (typeof choice === "object" && choice !== null) choice.finish_reason ??= "stop"
    reader.chunk(answer)
    sink.flush()
  }
  const streamed = async (request: ModelRequest, sink: ModelSink, signal: Abort): Promise<void> => {
    const reader = new ChunkReader(sink)
    let begun = false, flow: Parameters<ModelSink["begun"]>[0], json: Whole | undefined
    const sse = new SseReader((payload) => {
      if (!begun) { begun = true; sink.begun(flow) }
      reader.payload(payload)
    }, reader.leap)
    await client.send("POST", "/chat/completions", JSON.stringify(chatBody(request, options)), {
      head: (type, length, control) => { flow = control; if (type.startsWith("application/json")) { json = new Whole(); json.head(type, length) } },
      data: (bytes, from, to) => { if (json !== undefined) json.data(bytes, from, to); else { sse.push(bytes, from, to); sink.flush() } }
    }, signal).catch((fault: unknown) => {
      // The connection may break after the last word: what was whole is whole.
      if (!(reader.done && reader.finished)) throw fault
    })
    if (json !== undefined) {
      const answer = json.json()
      sink.begun()
      reader.chunk(answer)
    } else sse.end()
    reader.end(request.n ?? 1)
    sink.flush()
  }
  return {
    supports: options.supports,
    generate: (request, sink, signal) => request.stream ? streamed(request, sink, signal) : whole(request, sink, signal),
    list: async (signal) => listedModels(await client.json("GET", "/models", undefined, signal)),
    close: () => client.close()
  }
}
