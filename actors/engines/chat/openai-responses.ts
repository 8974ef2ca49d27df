/** Speaks to an OpenAI-compatible upstream by its responses interface. With `sessions` the upstream's own
 *  response ids continue a conversation; it is guaranteed that an id it no longer knows costs the client
 *  nothing: the whole context is sent once more.
 *  Source: docs/spec/chat.md, sections 13.2, 15.4 and 15.5. */
import type { Abort } from "./abort.ts"
import { HttpClient } from "./http-client.ts"
import { streamJsonEvents } from "./json-event-stream.ts"
import {
  badResponse,
  UpstreamFault,
  type ChatModel,
  type Finish,
  type Format,
  type Message,
  type ModelRequest,
  type ModelSink,
  type Part,
  type Tool,
  type ToolChoice
} from "./model.ts"
import { effortOf, listedModels, type OpenAiOptions } from "./openai-chat.ts"
import { RefusingModels } from "./refusing-models.ts"

const partOf = (part: Part, role: string): unknown => {
  switch (part.type) {
    case "text":
      return { type: role === "assistant" ? "output_text" : "input_text", text: part.text }
    case "refusal":
      return { type: "refusal", refusal: part.text }
    case "image":
      return { type: "input_image", image_url: part.url, detail: part.detail ?? "auto" }
    case "audio":
      return { type: "input_audio", input_audio: { data: part.data, format: part.format } }
    case "file":
      return { type: "input_file", file_data: part.data, filename: part.filename }
  }
}

const partsOf = (content: Message["content"]): ReadonlyArray<Part> => {
  if (content === null || content === "") return []
  return typeof content === "string" ? [{ type: "text", text: content }] : content
}

const itemsOf = (message: Message, id: string): ReadonlyArray<unknown> => {
  const { role, content, calls, callId } = message
  const parts = partsOf(content)
  if (role === "tool")
    return [
      {
        type: "function_call_output",
        call_id: callId,
        output: parts.map((part) => (part.type === "text" ? part.text : "")).join("")
      }
    ]
  const reasoning = (message.bound ?? []).flatMap(({ upstream, value }) =>
    (upstream === id || upstream === "*") && (value as any)?.type === "reasoning" ? [value] : []
  )
  return [
    ...reasoning,
    ...(parts.length === 0
      ? []
      : [{ type: "message", role, content: parts.map((part) => partOf(part, role)) }]),
    ...(calls ?? []).map((call) => ({
      type: "function_call",
      call_id: call.id,
      name: call.name,
      arguments: call.arguments
    }))
  ]
}

export interface ResponsesBodyOptions extends Pick<OpenAiOptions, "id" | "effortMap"> {
  /** True when the upstream stores its answers, so that the next request may continue one. */
  readonly sessions: boolean
  /** The first message that the upstream does not have yet. */
  readonly from: number
  /** Requests encrypted reasoning, which is returned with the next turn; the default is `!sessions`. */
  readonly encryptedReasoning?: boolean
}

const formatOf = (format: Format): unknown =>
  format.type === "json_object"
    ? { type: "json_object" }
    : {
        type: "json_schema",
        name: format.name,
        schema: format.schema,
        strict: format.strict,
        description: format.description
      }

const toolOf = ({ name, description, parameters, strict }: Tool): unknown => ({
  type: "function",
  name,
  description,
  parameters,
  strict: strict ?? false
})

const toolChoiceOf = (choice: ToolChoice): unknown =>
  typeof choice === "string" ? choice : { type: "function", name: choice.name }

/** Writes the body of POST /responses; undefined members are left out by JSON. */
export const responsesBody = (
  request: ModelRequest,
  { id, effortMap, sessions, from, encryptedReasoning = !sessions }: ResponsesBodyOptions
): unknown => {
  const effort = effortOf(request, effortMap)
  const { tools = [], toolChoice } = request
  // In this interface verbosity belongs to `text`, and there is no prediction: OpenAI refuses either at the
  // top.
  const { verbosity, prediction: _, ...hints } = request.hints ?? {}
  const format = request.format === undefined ? undefined : formatOf(request.format)
  const include = [
    ...(encryptedReasoning ? ["reasoning.encrypted_content"] : []),
    ...(request.logprobs === true ? ["message.output_text.logprobs"] : [])
  ]
  const hosted = (request.unknown?.["tools"] as ReadonlyArray<unknown> | undefined) ?? []
  return {
    model: request.model,
    input: request.messages.slice(from).flatMap((message) => itemsOf(message, id)),
    stream: request.stream,
    store: sessions,
    ...(from > 0 ? { previous_response_id: request.continues!.id } : {}),
    tools: tools.length + hosted.length === 0 ? undefined : [...tools.map(toolOf), ...hosted],
    tool_choice: tools.length === 0 || toolChoice === undefined ? undefined : toolChoiceOf(toolChoice),
    parallel_tool_calls: tools.length === 0 ? undefined : request.parallel,
    temperature: request.temperature,
    top_p: request.topP,
    max_output_tokens: request.maxTokens,
    reasoning:
      effort === undefined && request.summary === undefined
        ? undefined
        : { effort, summary: request.summary },
    text: format === undefined && verbosity === undefined ? undefined : { format, verbosity },
    include: include.length === 0 ? undefined : include,
    top_logprobs: request.topLogprobs,
    user: request.user,
    ...hints
  }
}

interface OpenCall {
  readonly index: number
  argumentsSent: boolean
}

const finishOf = (response: any, hasCalls: boolean): Finish => {
  if (response.status !== "incomplete") return hasCalls ? "tool_calls" : "stop"
  return response.incomplete_details?.reason === "content_filter" ? "content_filter" : "length"
}

/** Turns the events of one answer into ours; an answer that was not streamed is read by `whole`. */
class ResponseReader {
  ended = false
  private readonly calls = new Map<number, OpenCall>()
  private readonly sink: ModelSink
  private readonly sessions: boolean

  constructor(sink: ModelSink, sessions: boolean) {
    this.sink = sink
    this.sessions = sessions
  }

  read(event: any): void {
    switch (event?.type) {
      case "response.output_text.delta":
        if (event.delta !== "")
          this.sink.event({
            _tag: "text",
            choice: 0,
            text: String(event.delta),
            ...(Array.isArray(event.logprobs) && event.logprobs.length > 0
              ? { logprobs: { content: event.logprobs } }
              : {})
          })
        return
      case "response.refusal.delta":
        if (event.delta !== "") this.sink.event({ _tag: "refusal", choice: 0, text: String(event.delta) })
        return
      case "response.reasoning_text.delta":
      case "response.reasoning_summary_text.delta":
        if (event.delta !== "") this.sink.event({ _tag: "reasoning", choice: 0, text: String(event.delta) })
        return
      case "response.output_item.added":
        if (event.item?.type === "function_call") this.call(event.output_index, event.item)
        return
      case "response.function_call_arguments.delta": {
        const call = this.calls.get(event.output_index)
        if (call !== undefined && event.delta !== "") {
          call.argumentsSent = true
          this.sink.event({ _tag: "arguments", choice: 0, index: call.index, text: String(event.delta) })
        }
        return
      }
      case "response.output_item.done":
        return this.item(event.output_index, event.item ?? {})
      case "response.completed":
      case "response.incomplete":
        return this.end(event.response ?? {})
      case "response.failed":
        throw new UpstreamFault({
          reason: event.response?.error?.code === "rate_limit_exceeded" ? "rate-limited" : "error",
          detail: "the response failed"
        })
      case "error":
        throw new UpstreamFault({ reason: "error", detail: "an error in the stream" })
    }
  }

  private call(outputIndex: number, item: any): void {
    const call = { index: this.calls.size, argumentsSent: false }
    this.calls.set(outputIndex, call)
    this.sink.event({
      _tag: "call",
      choice: 0,
      index: call.index,
      id: String(item.call_id),
      name: String(item.name)
    })
  }

  private item(outputIndex: number, item: any): void {
    if (item.type === "reasoning" && typeof item.encrypted_content === "string")
      this.sink.event({ _tag: "provider_state", value: item })
    if (item.type !== "function_call") return
    if (!this.calls.has(outputIndex)) this.call(outputIndex, item)
    const call = this.calls.get(outputIndex)!
    if (!call.argumentsSent && typeof item.arguments === "string" && item.arguments !== "") {
      call.argumentsSent = true
      this.sink.event({ _tag: "arguments", choice: 0, index: call.index, text: item.arguments })
    }
  }

  /** Reads an answer that was not streamed. */
  whole(response: any): void {
    if (!Array.isArray(response?.output)) throw badResponse("no output")
    if (response.status === "failed")
      throw new UpstreamFault({ reason: "error", detail: "the response failed" })
    for (const [outputIndex, item] of response.output.entries()) {
      if (item.type === "reasoning")
        for (const part of [...(item.content ?? []), ...(item.summary ?? [])])
          this.read({ type: "response.reasoning_text.delta", delta: part.text ?? "" })
      if (item.type === "message")
        for (const part of item.content ?? [])
          this.read(
            part.type === "refusal"
              ? { type: "response.refusal.delta", delta: part.refusal }
              : { type: "response.output_text.delta", delta: part.text, logprobs: part.logprobs }
          )
      this.item(outputIndex, item)
    }
    this.end(response)
  }

  private end(response: any): void {
    this.ended = true
    if (this.sessions && typeof response.id === "string")
      this.sink.event({ _tag: "provider_state", value: { session: response.id } })
    this.sink.event({ _tag: "finish", choice: 0, reason: finishOf(response, this.calls.size > 0) })
    const { usage } = response
    if (typeof usage?.output_tokens === "number")
      this.sink.event({
        _tag: "usage",
        usage: {
          input: Number(usage.input_tokens ?? 0),
          output: usage.output_tokens,
          cached: Number(usage.input_tokens_details?.cached_tokens ?? 0),
          reasoning: Number(usage.output_tokens_details?.reasoning_tokens ?? 0)
        }
      })
  }
}

/** True when the upstream reports that it does not have the response which was to be continued. */
const hasLostSession = (fault: unknown): boolean => {
  if (!(fault instanceof UpstreamFault)) return false
  if (fault.reason === "not-found") return true
  const wording = `${fault.code ?? ""} ${fault.param ?? ""} ${fault.detail}`
  return fault.reason === "bad-request" && /previous[ _]response/i.test(wording)
}

const isFault = (event: any): boolean => event?.type === "error" || event?.type === "response.failed"

const forgetMs = 10_000

interface Generation {
  readonly request: ModelRequest
  readonly sink: ModelSink
  readonly signal: Abort
}

export const openAiResponses = (options: OpenAiOptions & { readonly sessions: boolean }): ChatModel => {
  const client = new HttpClient(options.http)
  const { sessions } = options
  const refuseEncryptedReasoning = new RefusingModels((detail) => /encrypted.content/i.test(detail))

  const ask = async ({ request, sink, signal }: Generation, body: string): Promise<void> => {
    const reader = new ResponseReader(sink, sessions)
    if (!request.stream) {
      const answer = await client.json("POST", "/responses", body, signal)
      sink.onFirstEvent()
      reader.whole(answer)
      return sink.flush()
    }
    const stream = {
      path: "/responses",
      body,
      sink,
      isIgnored: (payload: string) => payload === "[DONE]" || reader.ended,
      isAnswer: (event: any) => !isFault(event),
      read: (event: any) => reader.read(event),
      isWhole: () => reader.ended
    }
    await streamJsonEvents(client, stream, signal)
    if (!reader.ended) throw badResponse("stream ended early")
    sink.flush()
  }

  /** Sends the messages from `from` on. When the model turns out to refuse encrypted reasoning, it sends them
   *  without it. */
  const askFrom = async (generation: Generation, from: number): Promise<void> => {
    const { request } = generation
    const encryptedReasoning = !sessions && !refuseEncryptedReasoning.has(request.model)
    const bodyOf = (encrypted: boolean): string =>
      JSON.stringify(responsesBody(request, { ...options, from, encryptedReasoning: encrypted }))
    try {
      await ask(generation, bodyOf(encryptedReasoning))
    } catch (fault) {
      if (!encryptedReasoning || !refuseEncryptedReasoning.learn(request.model, fault)) throw fault
      await ask(generation, bodyOf(false))
    }
  }

  return {
    supports: options.supports,
    list: async (signal) => listedModels(await client.json("GET", "/models", undefined, signal)),
    forget: async (id) => {
      const path = `/responses/${encodeURIComponent(id)}`
      await client.json("DELETE", path, undefined, AbortSignal.timeout(forgetMs))
    },
    close: () => client.close(),
    generate: async (request, sink, signal) => {
      const generation = { request, sink, signal }
      const from = sessions ? Math.max(0, request.continues?.freshFrom ?? 0) : 0
      try {
        await askFrom(generation, from)
      } catch (fault) {
        if (from === 0 || !hasLostSession(fault)) throw fault
        await askFrom(generation, 0)
      }
    }
  }
}
