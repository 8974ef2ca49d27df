/** Anthropic's Messages interface. Source: chat section 13.3 (mapping), 7.6 (structured output by a forced
 *  tool), 12 (effort as a thinking budget). */
import { HttpClient, type CallFlow, type UpstreamHttp } from "./http-client.ts"
import {
  argumentsObject,
  badResponse,
  textOf,
  UpstreamFault,
  type ChatModel,
  type Finish,
  type Message,
  type ModelRequest,
  type ModelSink,
  type Part,
  type Usage
} from "./model.ts"
import { SseReader, utf8 } from "./sse-reader.ts"

export interface AnthropicOptions {
  readonly id: string
  readonly http: UpstreamHttp
  readonly maxTokens: number
}

const budgets = { low: 1_024, medium: 4_096, high: 16_384 } as const
const jsonTool = "json_output"
type Block = Readonly<Record<string, unknown>>

const dataUrl = (url: string): { readonly type: string; readonly data: string } | undefined => {
  const match = /^data:([^;,]+);base64,/.exec(url)
  return match === null ? undefined : { type: match[1]!, data: url.slice(match[0].length) }
}

const block = (part: Part): Block => {
  switch (part.type) {
    case "text":
    case "refusal":
      return { type: "text", text: part.text }
    case "image": {
      const inline = dataUrl(part.url)
      return {
        type: "image",
        source:
          inline === undefined
            ? { type: "url", url: part.url }
            : { type: "base64", media_type: inline.type, data: inline.data }
      }
    }
    case "file": {
      const inline = dataUrl(part.data) ?? { type: "application/pdf", data: part.data }
      if (inline.type !== "application/pdf")
        throw new UpstreamFault({
          reason: "unsupported",
          detail: "this model takes PDF files only",
          param: "messages"
        })
      return { type: "document", source: { type: "base64", media_type: inline.type, data: inline.data } }
    }
    case "audio":
      throw new UpstreamFault({
        reason: "unsupported",
        detail: "this model takes no audio",
        param: "messages"
      })
  }
}

const blocks = (content: Message["content"]): ReadonlyArray<Block> =>
  content === null || content === ""
    ? []
    : typeof content === "string"
      ? [{ type: "text", text: content }]
      : content.map(block)

const bodyOf = (message: Message, id: string): ReadonlyArray<Block> => {
  if (message.role === "tool")
    return [{ type: "tool_result", tool_use_id: message.callId, content: textOf(message.content) }]
  if (message.role === "user") return blocks(message.content)
  const thought = (message.bound ?? []).flatMap(({ upstream, value }) =>
    upstream === id && Array.isArray((value as any)?.thinking)
      ? (value as { readonly thinking: ReadonlyArray<Block> }).thinking
      : []
  )
  return [
    ...thought,
    ...blocks(message.content),
    ...(message.calls ?? []).map((call) => ({
      type: "tool_use",
      id: call.id,
      name: call.name,
      input: argumentsObject(call.arguments)
    }))
  ]
}

/** Same roles merged, results before anything else of their turn, a user first. */
const talk = (
  messages: ReadonlyArray<Message>,
  id: string
): ReadonlyArray<{ readonly role: string; readonly content: ReadonlyArray<Block> }> => {
  const merged: Array<{ role: string; content: Array<Block> }> = []
  for (const message of messages) {
    if (message.role === "system" || message.role === "developer") continue
    const role = message.role === "assistant" ? "assistant" : "user"
    const body = bodyOf(message, id)
    const last = merged.at(-1)
    if (body.length === 0) continue
    if (last?.role === role) last.content.push(...body)
    else merged.push({ role, content: [...body] })
  }
  for (const turn of merged)
    if (turn.role === "user")
      turn.content.sort((a, b) => Number(b["type"] === "tool_result") - Number(a["type"] === "tool_result"))
  return merged[0]?.role === "user"
    ? merged
    : [{ role: "user", content: [{ type: "text", text: "." }] }, ...merged]
}

export const anthropicBody = (
  request: ModelRequest,
  { id, maxTokens }: AnthropicOptions
): { readonly body: Block; readonly asJson: boolean } => {
  const { format, effort, tools = [], toolChoice } = request
  const budget = effort === undefined || effort === "none" ? undefined : budgets[effort]
  const asked = request.maxTokens ?? maxTokens
  const schema = format?.type === "json_schema" ? format.schema : undefined
  const asJson = schema !== undefined && tools.length === 0
  const orders = [
    ...request.messages
      .filter(({ role }) => role === "system" || role === "developer")
      .map(({ content }) => textOf(content)),
    ...(format?.type === "json_object"
      ? ["Answer with one JSON object and nothing else."]
      : schema !== undefined && (!asJson || budget !== undefined)
        ? [`Answer with JSON of this schema and nothing else: ${JSON.stringify(schema)}`]
        : [])
  ].filter((text) => text !== "")
  const forced = budget !== undefined && (toolChoice === "required" || typeof toolChoice === "object")
  const choice =
    toolChoice === undefined || forced
      ? request.parallel === false && tools.length > 0
        ? { type: "auto" }
        : undefined
      : typeof toolChoice === "object"
        ? { type: "tool", name: toolChoice.name }
        : { type: toolChoice === "required" ? "any" : toolChoice }
  const stops = request.stop?.filter((text) => text.trim() !== "")
  return {
    asJson: asJson && budget === undefined,
    body: {
      model: request.model,
      messages: talk(request.messages, id),
      max_tokens: budget === undefined ? asked : Math.max(asked + budget, budget + 1),
      stream: request.stream,
      system: orders.length === 0 ? undefined : orders.join("\n\n"),
      ...(asJson && budget === undefined
        ? {
            tools: [
              {
                name: jsonTool,
                description: format?.type === "json_schema" ? (format.description ?? "The answer.") : "",
                input_schema: schema
              }
            ],
            tool_choice: { type: "tool", name: jsonTool }
          }
        : tools.length === 0
          ? {}
          : {
              tools: tools.map(({ name, description, parameters }) => ({
                name,
                description,
                input_schema: parameters
              })),
              tool_choice:
                choice === undefined
                  ? undefined
                  : {
                      ...choice,
                      ...(request.parallel === false && choice.type !== "none"
                        ? { disable_parallel_tool_use: true }
                        : {})
                    }
            }),
      temperature:
        budget !== undefined || request.temperature === undefined
          ? undefined
          : Math.min(1, request.temperature),
      top_p: budget === undefined ? request.topP : undefined,
      stop_sequences: stops === undefined || stops.length === 0 ? undefined : stops,
      metadata: request.user === undefined ? undefined : { user_id: request.user },
      thinking:
        effort === undefined
          ? undefined
          : budget === undefined
            ? { type: "disabled" }
            : { type: "enabled", budget_tokens: budget }
    }
  }
}

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

const figure = (value: unknown): number => (typeof value === "number" ? value : 0)

/** Events of a stream; a whole answer is told as one. */
class Reader {
  finished = false
  stopped = false
  private reason: unknown = undefined
  private usage: Usage = { input: 0, output: 0, cached: 0, reasoning: 0 }
  private calls = 0

  private readonly blocks = new Map<
    number,
    { readonly type: string; readonly call: number; readonly asText: boolean; draft: Record<string, unknown> }
  >()

  private readonly thinking: Array<Record<string, unknown>> = []
  private readonly sink: ModelSink
  private readonly asJson: boolean

  constructor(sink: ModelSink, asJson: boolean) {
    this.sink = sink
    this.asJson = asJson
  }

  private count(usage: any): void {
    if (typeof usage !== "object" || usage === null) return
    const cached = figure(usage.cache_read_input_tokens)
    if (usage.input_tokens !== undefined)
      this.usage = {
        ...this.usage,
        input: figure(usage.input_tokens) + cached + figure(usage.cache_creation_input_tokens),
        cached
      }
    if (usage.output_tokens !== undefined) this.usage = { ...this.usage, output: figure(usage.output_tokens) }
  }

  read(event: any): void {
    switch (event?.type) {
      case "message_start":
        return this.count(event.message?.usage)
      case "content_block_start":
        return this.open(event.index, event.content_block ?? {})
      case "content_block_delta":
        return this.delta(event.index, event.delta ?? {})
      case "message_delta":
        this.count(event.usage)
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
          reason:
            event.error?.type === "overloaded_error"
              ? "overloaded"
              : event.error?.type === "rate_limit_error"
                ? "rate-limited"
                : "error",
          detail: "an error in the stream"
        })
    }
  }

  private open(index: number, given: any): void {
    const asText = this.asJson && given.type === "tool_use" && given.name === jsonTool
    const call = given.type === "tool_use" && !asText ? this.calls++ : -1
    this.blocks.set(index, { type: given.type, call, asText, draft: { ...given } })
    if (call >= 0)
      this.sink.event({
        _tag: "call",
        choice: 0,
        index: call,
        id: String(given.id),
        name: String(given.name)
      })
    if (given.type === "text" && typeof given.text === "string" && given.text !== "")
      this.sink.event({ _tag: "text", choice: 0, text: given.text })
    if (given.type === "thinking") {
      this.thinking.push(this.blocks.get(index)!.draft)
      if (given.thinking) this.sink.event({ _tag: "reasoning", choice: 0, text: given.thinking })
    }
    if (given.type === "redacted_thinking") this.thinking.push(given)
    if (
      given.type === "tool_use" &&
      typeof given.input === "object" &&
      given.input !== null &&
      Object.keys(given.input).length > 0
    )
      this.args(index, JSON.stringify(given.input))
  }

  private args(index: number, text: string): void {
    const of = this.blocks.get(index)
    if (of === undefined || text === "") return
    if (of.asText) this.sink.event({ _tag: "text", choice: 0, text })
    else if (of.call >= 0) this.sink.event({ _tag: "arguments", choice: 0, index: of.call, text })
  }

  private delta(index: number, delta: any): void {
    const of = this.blocks.get(index)
    switch (delta.type) {
      case "text_delta":
        if (delta.text !== "") this.sink.event({ _tag: "text", choice: 0, text: String(delta.text) })
        return
      case "input_json_delta":
        return this.args(index, String(delta.partial_json ?? ""))
      case "thinking_delta":
        if (of !== undefined)
          of.draft["thinking"] = `${String(of.draft["thinking"] ?? "")}${String(delta.thinking)}`
        if (delta.thinking !== "")
          this.sink.event({ _tag: "reasoning", choice: 0, text: String(delta.thinking) })
        return
      case "signature_delta":
        if (of !== undefined)
          of.draft["signature"] = `${String(of.draft["signature"] ?? "")}${String(delta.signature)}`
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

export const anthropic = (options: AnthropicOptions): ChatModel => {
  const client = new HttpClient(options.http)
  return {
    supports: { audio: false, logprobs: false, n: false, hints: false, tool_choice_none: true },
    list: async (signal) => {
      const answer = await client.json("GET", "/v1/models", undefined, signal)
      if (!Array.isArray(answer?.data)) throw badResponse("no list of models")
      return answer.data.flatMap((entry: any) =>
        typeof entry?.id === "string"
          ? [
              {
                id: entry.id,
                created: Number.isFinite(Date.parse(entry.created_at))
                  ? Math.floor(Date.parse(entry.created_at) / 1_000)
                  : undefined
              }
            ]
          : []
      )
    },
    close: () => client.close(),
    async generate(request, sink, signal) {
      const { body, asJson } = anthropicBody(request, options)
      const reader = new Reader(sink, asJson)
      if (!request.stream) {
        const answer = await client.json("POST", "/v1/messages", JSON.stringify(body), signal)
        if (!Array.isArray(answer?.content)) throw badResponse("no content")
        sink.onFirstEvent()
        reader.read({ type: "message_start", message: { usage: answer.usage } })
        for (const [index, content_block] of answer.content.entries())
          reader.read({ type: "content_block_start", index, content_block })
        reader.read({
          type: "message_delta",
          delta: { stop_reason: answer.stop_reason ?? "end_turn" },
          usage: answer.usage
        })
        return reader.end()
      }
      let begun = false
      let flow: CallFlow | undefined
      const sse = new SseReader((payload) => {
        let event: any
        try {
          event = JSON.parse(utf8(payload))
        } catch {
          throw badResponse("an event is not JSON")
        }
        if (!begun && event?.type !== "ping" && event?.type !== "error") {
          begun = true
          sink.onFirstEvent(flow)
        }
        reader.read(event)
      })
      await client
        .send(
          "POST",
          "/v1/messages",
          JSON.stringify(body),
          {
            head: (_, __, control) => {
              flow = control
            },
            data: (bytes, from, to) => {
              sse.push(bytes, from, to)
              sink.flush()
              if (reader.stopped) flow!.enough()
            }
          },
          signal
        )
        .catch((fault: unknown) => {
          if (!reader.stopped) throw fault
        })
      sse.end()
      reader.end()
    }
  }
}
