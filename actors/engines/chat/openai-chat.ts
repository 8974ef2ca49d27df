/** Speaks to an OpenAI-compatible upstream by its chat completions. It is guaranteed that a fault before the
 *  first event leaves the sink untouched, so that the turn may be tried again.
 *  Source: docs/spec/chat.md, section 13.1. */
import type { Abort } from "./abort.ts"
import { HttpClient, JsonBody, type CallFlow, type Receiver, type UpstreamHttp } from "./http-client.ts"
import {
  badResponse,
  UpstreamFault,
  type ChatModel,
  type Format,
  type ListedModel,
  type Message,
  type ModelRequest,
  type ModelSink,
  type Part,
  type Supports,
  type ToolChoice
} from "./model.ts"
import { ChunkReader } from "./openai-sse-chunks.ts"
import { RefusingModels } from "./refusing-models.ts"
import { SseReader } from "./sse-reader.ts"

export interface OpenAiOptions {
  readonly http: UpstreamHttp
  readonly supports: Supports
  /** Maps words of effort to the upstream's; null drops the parameter. */
  readonly effortMap?: Readonly<Record<string, string | null>>
  readonly passUnknown?: boolean
  /** The upstream's record id tells which reasoning it made itself. */
  readonly id: string
}

const partOf = (part: Part): unknown => {
  switch (part.type) {
    case "text":
      return { type: "text", text: part.text }
    case "refusal":
      return { type: "refusal", refusal: part.text }
    case "image":
      return {
        type: "image_url",
        image_url: { url: part.url, ...(part.detail === undefined ? {} : { detail: part.detail }) }
      }
    case "audio":
      return { type: "input_audio", input_audio: { data: part.data, format: part.format } }
    case "file":
      return { type: "file", file: { file_data: part.data, filename: part.filename } }
  }
}

const messageOf = (message: Message): unknown => {
  const { role, content, calls, callId } = message
  if (typeof content === "string" && calls === undefined && callId === undefined) return { role, content }
  return {
    role,
    content: content === null || typeof content === "string" ? content : content.map(partOf),
    tool_calls:
      calls === undefined || calls.length === 0
        ? undefined
        : calls.map(({ id, name, arguments: text }) => ({
            id,
            type: "function",
            function: { name, arguments: text }
          })),
    tool_call_id: callId
  }
}

export const effortOf = ({ effort }: ModelRequest, map: OpenAiOptions["effortMap"]): string | undefined => {
  if (effort === undefined || map === undefined || !Object.hasOwn(map, effort)) return effort
  return map[effort] ?? undefined
}

const toolChoiceOf = (choice: ToolChoice): unknown =>
  typeof choice === "string" ? choice : { type: "function", function: { name: choice.name } }

const formatOf = (format: Format): unknown =>
  format.type === "json_object"
    ? { type: "json_object" }
    : {
        type: "json_schema",
        json_schema: {
          name: format.name,
          schema: format.schema,
          strict: format.strict,
          description: format.description
        }
      }

/** Writes the body of POST /chat/completions; undefined members are left out by JSON. It is one literal
 *  without spreads, because it is made for every turn. `newerLimit` gives the limit its newer name, which
 *  OpenAI's reasoning models insist on and many other servers do not know. */
export const chatBody = (
  request: ModelRequest,
  { effortMap, passUnknown, http }: OpenAiOptions,
  newerLimit = false
): string => {
  const { tools, toolChoice, format, stream, verbatim } = request
  const offered = tools === undefined || tools.length === 0 ? undefined : tools
  const body = {
    model: request.model,
    messages: verbatim === undefined ? request.messages.map(messageOf) : undefined,
    stream: stream ? true : undefined,
    stream_options: stream
      ? { include_usage: true, include_obfuscation: http.base.includes("api.openai.com") ? false : undefined }
      : undefined,
    tools: offered?.map(({ name, description, parameters, strict }) => ({
      type: "function",
      function: { name, description, parameters, strict }
    })),
    tool_choice: offered === undefined || toolChoice === undefined ? undefined : toolChoiceOf(toolChoice),
    parallel_tool_calls: offered === undefined ? undefined : request.parallel,
    temperature: request.temperature,
    top_p: request.topP,
    max_tokens: newerLimit ? undefined : request.maxTokens,
    max_completion_tokens: newerLimit ? request.maxTokens : undefined,
    stop: request.stop,
    seed: request.seed,
    frequency_penalty: request.frequencyPenalty,
    presence_penalty: request.presencePenalty,
    logit_bias: request.logitBias,
    logprobs: request.logprobs,
    top_logprobs: request.topLogprobs,
    n: request.n,
    response_format: format === undefined ? undefined : formatOf(format),
    reasoning_effort: effortOf(request, effortMap),
    modalities: request.audio === undefined ? undefined : ["text", "audio"],
    audio: request.audio,
    user: request.user
  }
  const text = JSON.stringify(
    passUnknown === true || request.hints !== undefined
      ? { ...(passUnknown === true ? request.unknown : undefined), ...body, ...request.hints }
      : body
  )
  return verbatim === undefined ? text : `${text.slice(0, -1)},"messages":${verbatim}}`
}

export const listedModels = (answer: any): ReadonlyArray<ListedModel> => {
  if (!Array.isArray(answer?.data)) throw badResponse("no list of models")
  return answer.data.flatMap((entry: any) =>
    typeof entry?.id === "string"
      ? [
          {
            id: entry.id,
            created: Number.isInteger(entry.created) ? entry.created : undefined,
            ownedBy: typeof entry.owned_by === "string" ? entry.owned_by : undefined
          }
        ]
      : []
  )
}

/** True for an event that is a fault. Some servers name an error of null in every chunk. */
const isFault = (payload: string): boolean => {
  if (!payload.includes('"error"')) return false
  try {
    return (JSON.parse(payload)?.error ?? null) !== null
  } catch {
    return true
  }
}

/** Reads an answer that was not streamed: it is a stream of one chunk, and without a finish reason it has
 *  ended all the same. */
const readWhole = (answer: any, sink: ModelSink): void => {
  if (!Array.isArray(answer?.choices) || answer.choices.length === 0) {
    if (answer?.error !== undefined && answer?.error !== null)
      throw new UpstreamFault({ reason: "error", detail: "an error in an answer" })
    throw badResponse("no choices")
  }
  sink.onFirstEvent()
  for (const choice of answer.choices)
    if (typeof choice === "object" && choice !== null) choice.finish_reason ??= "stop"
  new ChunkReader(sink).chunk(answer)
  sink.flush()
}

export const openAiChat = (options: OpenAiOptions): ChatModel => {
  const client = new HttpClient(options.http)
  const refuseMaxTokens = new RefusingModels((detail) => detail.includes("max_completion_tokens"))
  const post = (request: ModelRequest, receiver: Receiver, signal: Abort): Promise<void> => {
    const body = chatBody(request, options, refuseMaxTokens.has(request.model))
    return client.send("POST", "/chat/completions", body, receiver, signal)
  }

  const askWhole = (request: ModelRequest, sink: ModelSink, signal: Abort): Promise<void> =>
    post(request, new JsonBody((answer) => readWhole(answer, sink)), signal)

  const askStream = async (request: ModelRequest, sink: ModelSink, signal: Abort): Promise<void> => {
    const reader = new ChunkReader(sink)
    let answered = false
    let flow: CallFlow | undefined
    let json: JsonBody | undefined
    const sse = new SseReader((payload) => {
      // A fault in the first event is one before any answer.
      if (!answered && !isFault(payload)) {
        answered = true
        sink.onFirstEvent(flow)
      }
      reader.payload(payload)
      if (reader.done && reader.finished) flow!.enough()
    }, reader.skipLearnedFrames)
    const receiver: Receiver = {
      head: (type, length, control) => {
        flow = control
        if (type.startsWith("application/json")) {
          json = new JsonBody()
          json.head(type, length)
        }
      },
      data: (bytes, from, to) => {
        if (json !== undefined) return json.data(bytes, from, to)
        sse.push(bytes, from, to)
        sink.flush()
      }
    }
    await post(request, receiver, signal).catch((fault: unknown) => {
      // The connection may break after the last word: what was whole is whole.
      if (!(reader.done && reader.finished)) throw fault
    })
    if (json !== undefined) {
      const answer = json.json()
      if ((answer?.error ?? null) === null) sink.onFirstEvent()
      reader.chunk(answer)
    } else sse.end()
    reader.end(request.n ?? 1)
    sink.flush()
  }

  const ask = (request: ModelRequest, sink: ModelSink, signal: Abort): Promise<void> =>
    request.stream ? askStream(request, sink, signal) : askWhole(request, sink, signal)

  return {
    supports: options.supports,
    generate: (request, sink, signal) => {
      const { model, maxTokens } = request
      if (maxTokens === undefined || refuseMaxTokens.has(model)) return ask(request, sink, signal)
      return ask(request, sink, signal).catch((fault: unknown) => {
        if (!refuseMaxTokens.learn(model, fault)) throw fault
        return ask(request, sink, signal)
      })
    },
    list: async (signal) => listedModels(await client.json("GET", "/models", undefined, signal)),
    close: () => client.close()
  }
}
