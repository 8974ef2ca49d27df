/** An OpenAI-compatible upstream, responses interface. With `sessions` its own response ids continue a talk,
 *  and an id it no longer knows is answered by sending the whole context once. Source: chat sections 13.2,
 *  15.4, 15.5. */
import type { Abort } from "./abort.ts"
import { HttpClient, type CallFlow } from "./http-client.ts"
import {
  badResponse,
  UpstreamFault,
  type ChatModel,
  type Message,
  type ModelRequest,
  type ModelSink,
  type Part
} from "./model.ts"
import { effortOf, listedModels, type OpenAiOptions } from "./openai-chat.ts"
import { SseReader, utf8 } from "./sse-reader.ts"

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

const itemsOf = (message: Message, id: string): ReadonlyArray<unknown> => {
  const { role, content, calls, callId } = message
  const parts =
    typeof content === "string"
      ? content === ""
        ? []
        : [{ type: "text" as const, text: content }]
      : (content ?? [])
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

/** `sealed`: reasoning comes back encrypted, to be handed in with the next turn. */
export const responsesBody = (
  request: ModelRequest,
  { id, effortMap }: OpenAiOptions,
  sessions: boolean,
  from: number,
  sealed = !sessions
): unknown => {
  const effort = effortOf(request, effortMap)
  const { format, tools = [], toolChoice } = request
  // In this interface verbosity lies under `text`, and there is no prediction: OpenAI refuses either at the
  // top.
  const { verbosity, prediction: _, ...hints } = request.hints ?? {}
  const formatOf =
    format === undefined
      ? undefined
      : format.type === "json_object"
        ? { type: "json_object" }
        : {
            type: "json_schema",
            name: format.name,
            schema: format.schema,
            strict: format.strict,
            description: format.description
          }
  const include = [
    ...(sealed ? ["reasoning.encrypted_content"] : []),
    ...(request.logprobs === true ? ["message.output_text.logprobs"] : [])
  ]
  const hosted = (request.unknown?.["tools"] as ReadonlyArray<unknown> | undefined) ?? []
  return {
    model: request.model,
    input: request.messages.slice(from).flatMap((message) => itemsOf(message, id)),
    stream: request.stream,
    store: sessions,
    ...(from > 0 ? { previous_response_id: request.continues!.id } : {}),
    tools:
      tools.length + hosted.length === 0
        ? undefined
        : [
            ...tools.map(({ name, description, parameters, strict }) => ({
              type: "function",
              name,
              description,
              parameters,
              strict: strict ?? false
            })),
            ...hosted
          ],
    tool_choice:
      tools.length === 0 || toolChoice === undefined
        ? undefined
        : typeof toolChoice === "string"
          ? toolChoice
          : { type: "function", name: toolChoice.name },
    parallel_tool_calls: tools.length === 0 ? undefined : request.parallel,
    temperature: request.temperature,
    top_p: request.topP,
    max_output_tokens: request.maxTokens,
    reasoning:
      effort === undefined && request.summary === undefined
        ? undefined
        : { effort, summary: request.summary },
    text: formatOf === undefined && verbosity === undefined ? undefined : { format: formatOf, verbosity },
    include: include.length === 0 ? undefined : include,
    top_logprobs: request.topLogprobs,
    user: request.user,
    ...hints
  }
}

class Reader {
  over = false
  private readonly calls = new Map<number, { readonly index: number; told: boolean }>()
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
          call.told = true
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

  private call(at: number, item: any): void {
    const call = { index: this.calls.size, told: false }
    this.calls.set(at, call)
    this.sink.event({
      _tag: "call",
      choice: 0,
      index: call.index,
      id: String(item.call_id),
      name: String(item.name)
    })
  }

  private item(at: number, item: any): void {
    if (item.type === "reasoning" && typeof item.encrypted_content === "string")
      this.sink.event({ _tag: "provider_state", value: item })
    if (item.type !== "function_call") return
    if (!this.calls.has(at)) this.call(at, item)
    const call = this.calls.get(at)!
    if (!call.told && typeof item.arguments === "string" && item.arguments !== "") {
      call.told = true
      this.sink.event({ _tag: "arguments", choice: 0, index: call.index, text: item.arguments })
    }
  }

  /** Of an answer that was not streamed. */
  whole(response: any): void {
    if (!Array.isArray(response?.output)) throw badResponse("no output")
    if (response.status === "failed")
      throw new UpstreamFault({ reason: "error", detail: "the response failed" })
    for (const [at, item] of response.output.entries()) {
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
      this.item(at, item)
    }
    this.end(response)
  }

  private end(response: any): void {
    this.over = true
    if (this.sessions && typeof response.id === "string")
      this.sink.event({ _tag: "provider_state", value: { session: response.id } })
    const reason = response.incomplete_details?.reason
    this.sink.event({
      _tag: "finish",
      choice: 0,
      reason:
        response.status === "incomplete"
          ? reason === "content_filter"
            ? "content_filter"
            : "length"
          : this.calls.size > 0
            ? "tool_calls"
            : "stop"
    })
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

const openMax = 1_000

export const openAiResponses = (options: OpenAiOptions & { readonly sessions: boolean }): ChatModel => {
  const client = new HttpClient(options.http)
  const { sessions } = options
  /** Models that have said that they encrypt no reasoning. */
  const open = new Set<string>()
  const once = async (request: ModelRequest, sink: ModelSink, signal: Abort, from: number): Promise<void> => {
    const body = JSON.stringify(
      responsesBody(request, options, sessions, from, !sessions && !open.has(request.model))
    )
    const reader = new Reader(sink, sessions)
    if (!request.stream) {
      const answer = await client.json("POST", "/responses", body, signal)
      sink.onFirstEvent()
      reader.whole(answer)
      return sink.flush()
    }
    let begun = false
    let flow: CallFlow | undefined
    const sse = new SseReader((payload) => {
      if (payload === "[DONE]" || reader.over) return
      let event: any
      try {
        event = JSON.parse(utf8(payload))
      } catch {
        throw badResponse("an event is not JSON")
      }
      if (!begun && event?.type !== "error" && event?.type !== "response.failed") {
        begun = true
        sink.onFirstEvent(flow)
      }
      reader.read(event)
    })
    await client
      .send(
        "POST",
        "/responses",
        body,
        {
          head: (_, __, control) => {
            flow = control
          },
          data: (bytes, from, to) => {
            sse.push(bytes, from, to)
            sink.flush()
            if (reader.over) flow!.enough()
          }
        },
        signal
      )
      .catch((fault: unknown) => {
        if (!reader.over) throw fault
      })
    sse.end()
    if (!reader.over) throw badResponse("stream ended early")
    sink.flush()
  }
  return {
    supports: options.supports,
    list: async (signal) => listedModels(await client.json("GET", "/models", undefined, signal)),
    forget: async (id) => {
      await client.json(
        "DELETE",
        `/responses/${encodeURIComponent(id)}`,
        undefined,
        AbortSignal.timeout(10_000)
      )
    },
    close: () => client.close(),
    generate: async (request, sink, signal) => {
      const from =
        sessions && request.continues !== undefined && request.continues.freshFrom > 0
          ? request.continues.freshFrom
          : 0
      try {
        return await once(request, sink, signal, from)
      } catch (fault) {
        if (
          !sessions &&
          fault instanceof UpstreamFault &&
          fault.reason === "bad-request" &&
          /encrypted.content/i.test(fault.detail) &&
          !open.has(request.model) &&
          open.size < openMax
        ) {
          open.add(request.model)
          return await once(request, sink, signal, from)
        }
        const lost =
          from > 0 &&
          fault instanceof UpstreamFault &&
          (fault.reason === "not-found" ||
            (fault.reason === "bad-request" &&
              /previous[ _]response/i.test(`${fault.code ?? ""} ${fault.param ?? ""} ${fault.detail}`)))
        if (!lost) throw fault
        return await once(request, sink, signal, 0)
      }
    }
  }
}
