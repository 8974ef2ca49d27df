/** Speaks Anthropic's Messages interface: sends a request and turns the events of its answer into ours. It is
 *  guaranteed that an answer is whole only after its stop reason has come.
 *  Source: docs/spec/chat.md, section 13.3. */
import { anthropicRequest, jsonTool, type AnthropicOptions } from "./anthropic-request.ts"
import { HttpClient } from "./http-client.ts"
import { streamJsonEvents } from "./json-event-stream.ts"
import {
  badResponse,
  UpstreamFault,
  type ChatModel,
  type Finish,
  type ListedModel,
  type ModelSink,
  type Usage
} from "./model.ts"

const finishOf = (reason: unknown): Finish => {
  switch (reason) {
    case "max_tokens":
    case "model_context_window_exceeded":
      return "length"
    case "tool_use":
      return "tool_calls"
    case "refusal":
      return "content_filter"
    default:
      return "stop"
  }
}

const count = (value: unknown): number => (typeof value === "number" ? value : 0)

/** Maps the type of an error event to a fault reason; any other type is `error`. */
const streamFaults = new Map<unknown, UpstreamFault["reason"]>([
  ["overloaded_error", "overloaded"],
  ["rate_limit_error", "rate-limited"]
])

/** One content block while it arrives. */
interface OpenBlock {
  /** The number of its tool call, or -1. */
  readonly call: number
  /** True when its arguments are the answer's text. */
  readonly asText: boolean
  /** Accumulates the block's content; thinking is returned to the upstream with the next turn. */
  readonly draft: Record<string, unknown>
}

/** Turns the events of one answer into ours; an answer that was not streamed is read as events, too. */
class MessageReader {
  /** True once the stop reason has arrived. */
  finished = false

  /** True once the last event has arrived. */
  stopped = false

  private reason: unknown = undefined
  private usage: Usage = { input: 0, output: 0, cached: 0, reasoning: 0 }
  private calls = 0

  private readonly blocks = new Map<number, OpenBlock>()
  private readonly thinking: Array<Record<string, unknown>> = []
  private readonly sink: ModelSink
  private readonly answersByTool: boolean

  constructor(sink: ModelSink, answersByTool: boolean) {
    this.sink = sink
    this.answersByTool = answersByTool
  }

  private countTokens(usage: any): void {
    if (typeof usage !== "object" || usage === null) return
    const cached = count(usage.cache_read_input_tokens)
    if (usage.input_tokens !== undefined)
      this.usage = {
        ...this.usage,
        input: count(usage.input_tokens) + cached + count(usage.cache_creation_input_tokens),
        cached
      }
    if (usage.output_tokens !== undefined) this.usage = { ...this.usage, output: count(usage.output_tokens) }
  }

  read(event: any): void {
    switch (event?.type) {
      case "message_start":
        return this.countTokens(event.message?.usage)
      case "content_block_start":
        return this.open(event.index, event.content_block ?? {})
      case "content_block_delta":
        return this.delta(event.index, event.delta ?? {})
      case "message_delta":
        this.countTokens(event.usage)
        if (event.delta?.stop_reason !== null && event.delta?.stop_reason !== undefined) {
          this.finished = true
          this.reason = event.delta.stop_reason
        }
        return
      case "message_stop":
        this.stopped = true
        return
      case "error":
        throw new UpstreamFault({
          reason: streamFaults.get(event.error?.type) ?? "error",
          detail: "an error in the stream"
        })
    }
  }

  private open(index: number, block: any): void {
    const isTool = block.type === "tool_use"
    const asText = this.answersByTool && isTool && block.name === jsonTool
    const call = isTool && !asText ? this.calls++ : -1
    const draft = { ...block }
    this.blocks.set(index, { call, asText, draft })
    if (call >= 0)
      this.sink.event({
        _tag: "call",
        choice: 0,
        index: call,
        id: String(block.id),
        name: String(block.name)
      })
    if (block.type === "text" && typeof block.text === "string") this.text(block.text)
    if (block.type === "thinking") {
      this.thinking.push(draft)
      if (block.thinking) this.sink.event({ _tag: "reasoning", choice: 0, text: block.thinking })
    }
    if (block.type === "redacted_thinking") this.thinking.push(block)
    const { input } = block
    if (isTool && typeof input === "object" && input !== null && Object.keys(input).length > 0)
      this.arguments(index, JSON.stringify(input))
  }

  private text(text: string): void {
    if (text !== "") this.sink.event({ _tag: "text", choice: 0, text })
  }

  private arguments(index: number, text: string): void {
    const block = this.blocks.get(index)
    if (block === undefined || text === "") return
    if (block.asText) this.text(text)
    else if (block.call >= 0) this.sink.event({ _tag: "arguments", choice: 0, index: block.call, text })
  }

  private delta(index: number, delta: any): void {
    const draft = this.blocks.get(index)?.draft
    switch (delta.type) {
      case "text_delta":
        return this.text(String(delta.text))
      case "input_json_delta":
        return this.arguments(index, String(delta.partial_json ?? ""))
      case "thinking_delta":
        if (draft !== undefined) append(draft, "thinking", delta.thinking)
        if (delta.thinking !== "")
          this.sink.event({ _tag: "reasoning", choice: 0, text: String(delta.thinking) })
        return
      case "signature_delta":
        if (draft !== undefined) append(draft, "signature", delta.signature)
    }
  }

  end(): void {
    if (!this.finished) throw badResponse("stream ended early")
    if (this.thinking.length > 0)
      this.sink.event({ _tag: "provider_state", value: { thinking: this.thinking } })
    const reason = finishOf(this.reason)
    this.sink.event({
      _tag: "finish",
      choice: 0,
      reason: reason === "tool_calls" && this.calls === 0 ? "stop" : reason
    })
    this.sink.event({ _tag: "usage", usage: this.usage })
    this.sink.flush()
  }
}

const append = (draft: Record<string, unknown>, name: string, text: unknown): void => {
  draft[name] = `${String(draft[name] ?? "")}${String(text)}`
}

const listedModel = ({ id, created_at }: any): ListedModel => {
  const createdMs = Date.parse(created_at)
  return { id, created: Number.isFinite(createdMs) ? Math.floor(createdMs / 1_000) : undefined }
}

/** True for an event that is a sign of an answer. */
const isAnswer = (event: any): boolean => event?.type !== "ping" && event?.type !== "error"

/** Converts an answer that was not streamed into the events that would have streamed it. */
const readWhole = (reader: MessageReader, answer: any): void => {
  reader.read({ type: "message_start", message: { usage: answer.usage } })
  for (const [index, content_block] of answer.content.entries())
    reader.read({ type: "content_block_start", index, content_block })
  reader.read({
    type: "message_delta",
    delta: { stop_reason: answer.stop_reason ?? "end_turn" },
    usage: answer.usage
  })
}

export const anthropic = (options: AnthropicOptions): ChatModel => {
  const client = new HttpClient(options.http)
  return {
    supports: { audio: false, logprobs: false, n: false, hints: false, tool_choice_none: true },
    list: async (signal) => {
      const answer = await client.json("GET", "/v1/models", undefined, signal)
      if (!Array.isArray(answer?.data)) throw badResponse("no list of models")
      return answer.data.filter((entry: any) => typeof entry?.id === "string").map(listedModel)
    },
    close: () => client.close(),
    async generate(request, sink, signal) {
      const { body, answersByTool } = anthropicRequest(request, options)
      const reader = new MessageReader(sink, answersByTool)
      const text = JSON.stringify(body)
      if (!request.stream) {
        const answer = await client.json("POST", "/v1/messages", text, signal)
        if (!Array.isArray(answer?.content)) throw badResponse("no content")
        sink.onFirstEvent()
        readWhole(reader, answer)
        return reader.end()
      }
      const stream = {
        path: "/v1/messages",
        body: text,
        sink,
        isIgnored: () => false,
        isAnswer,
        read: (event: any) => reader.read(event),
        isWhole: () => reader.stopped
      }
      await streamJsonEvents(client, stream, signal)
      reader.end()
    }
  }
}
