/** Builds the output items of a response from model events, and the events of its stream when it has one.
 *  Guarantee: one response id throughout, sequence numbers without a gap, `added` in the order of
 *  `output_index`, joined deltas equal to the text of `done`.
 *  Source: docs/spec/chat.md, sections 9.4 and 10. */
import type { Flow, Message, ModelEvent, ToolCall, Usage } from "../../../actors/engines/chat/model.ts"
import { parseBounded } from "../../shared/json-values.ts"
import type { ResponseError } from "../problems.ts"
import type { Json } from "../request/json-body.ts"
import type { Output } from "../turn/chunk-rewriter.ts"
import { newItemId, responsesUsage } from "../wire.ts"
import { logprobsContent } from "./collected-answer.ts"
import {
  itemJson,
  partJson,
  type CallItem,
  type MessageItem,
  type MessagePart,
  type OutputItem,
  type ReasoningItem
} from "./response-output.ts"

export type ResponseStatus = "queued" | "in_progress" | "completed" | "incomplete" | "failed" | "cancelled"

export interface BuilderOptions {
  readonly id: string
  readonly createdS: number
  /** Members of the response object that repeat the request. */
  readonly echo: Json
  readonly background: boolean
  /** The client receives a summary of the reasoning instead of its text. */
  readonly summarized: boolean
  readonly onFirstEvent: (flow: Flow | undefined) => void
  /** Absent when nothing is streamed. */
  readonly emit?: ((type: string, event: Json) => void) | undefined
  readonly flush?: () => void
}

export interface ResponseEnd {
  readonly error?: ResponseError
  readonly completedS?: number
}

type CallEvent = Extract<ModelEvent, { _tag: "call" }>

const isWholeJson = (text: string): boolean => {
  try {
    parseBounded(text)
    return true
  } catch {
    return false
  }
}

const isTerminal = (status: ResponseStatus): boolean => status !== "queued" && status !== "in_progress"

export class ResponseBuilder implements Output {
  firstEventSent = false

  /** State that only the upstream understands, stored for it with the answer. */
  readonly upstreamState: Array<unknown> = []

  usage: Usage | undefined = undefined
  finishReason: "stop" | "length" | "content_filter" = "stop"
  sequence = 0
  private items: Array<OutputItem> = []
  private readonly calls = new Map<number, CallItem>()
  private readonly options: BuilderOptions

  constructor(options: BuilderOptions) {
    this.options = options
  }

  onFirstEvent(flow?: Flow): void {
    // A background response can be taken back to its beginning: its events are only stored.
    if (this.options.emit !== undefined && !this.options.background) this.firstEventSent = true
    this.options.onFirstEvent(flow)
  }

  flush(): void {
    this.options.flush?.()
  }

  reset(): void {
    this.items = []
    this.calls.clear()
    this.upstreamState.length = 0
    this.usage = undefined
    this.finishReason = "stop"
  }

  emit(type: string, members: Json): void {
    if (this.options.emit === undefined) return
    this.options.emit(type, { type, sequence_number: this.sequence++, ...members })
  }

  event(event: ModelEvent): void {
    switch (event._tag) {
      case "reasoning":
        return this.addReasoning(event.text)
      case "text":
        return this.addText(event.text, event.logprobs)
      case "refusal":
        return this.addRefusal(event.text)
      case "call":
        return this.addCall(event)
      case "arguments":
        return this.addArguments(event.index, event.text)
      case "finish":
        if (event.reason === "length" || event.reason === "content_filter") this.finishReason = event.reason
        return
      case "usage":
        this.usage = event.usage
        return
      case "provider_state":
        this.upstreamState.push(event.value)
    }
  }

  private get last(): OutputItem | undefined {
    return this.items.at(-1)
  }

  /** The members that say which item an event is about. */
  private position(item: OutputItem): { readonly item_id: string; readonly output_index: number } {
    return { item_id: item.id, output_index: this.items.indexOf(item) }
  }

  private add(item: OutputItem): void {
    this.items.push(item)
    this.emit("response.output_item.added", {
      output_index: this.items.length - 1,
      item: this.json(item, "in_progress", true)
    })
  }

  private addReasoning(text: string): void {
    const item = this.openReasoning()
    item.text += text
    const { summarized } = this.options
    const position = this.position(item)
    if (summarized)
      this.emit("response.reasoning_summary_text.delta", { ...position, summary_index: 0, delta: text })
    else this.emit("response.reasoning_text.delta", { ...position, content_index: 0, delta: text })
  }

  private openReasoning(): ReasoningItem {
    const { last } = this
    if (last?._tag === "Reasoning" && last.open) return last
    this.closeFinished()
    const item: ReasoningItem = {
      _tag: "Reasoning",
      id: newItemId("rs", this.options.id),
      text: "",
      open: true
    }
    this.add(item)
    const position = this.position(item)
    if (this.options.summarized)
      this.emit("response.reasoning_summary_part.added", {
        ...position,
        summary_index: 0,
        part: { type: "summary_text", text: "" }
      })
    else
      this.emit("response.content_part.added", {
        ...position,
        content_index: 0,
        part: { type: "reasoning_text", text: "" }
      })
    return item
  }

  private addText(text: string, logprobs: unknown): void {
    const item = this.openMessage()
    const part = this.openPart(item, "output_text")
    const content = logprobsContent(logprobs) ?? []
    part.text += text
    part.logprobs.push(...content)
    this.emit("response.output_text.delta", { ...this.partPosition(item), delta: text, logprobs: content })
  }

  private addRefusal(text: string): void {
    const item = this.openMessage()
    this.openPart(item, "refusal").text += text
    this.emit("response.refusal.delta", { ...this.partPosition(item), delta: text })
  }

  private openMessage(): MessageItem {
    const { last } = this
    if (last?._tag === "Message" && last.open) return last
    this.closeFinished()
    const item: MessageItem = {
      _tag: "Message",
      id: newItemId("msg", this.options.id),
      parts: [],
      open: true
    }
    this.add(item)
    return item
  }

  private openPart(item: MessageItem, type: MessagePart["type"]): MessagePart {
    const last = item.parts.at(-1)
    if (last?.type === type) return last
    this.closePart(item)
    const part: MessagePart = { type, text: "", logprobs: [] }
    item.parts.push(part)
    this.emit("response.content_part.added", { ...this.partPosition(item), part: partJson(part) })
    return part
  }

  /** The position of the last part of a message. */
  private partPosition(item: MessageItem): Json {
    return { ...this.position(item), content_index: item.parts.length - 1 }
  }

  private addCall({ index, id, name }: CallEvent): void {
    this.closeFinished()
    const item: CallItem = {
      _tag: "Call",
      id: newItemId("fc", this.options.id),
      callId: id,
      name,
      arguments: "",
      open: true
    }
    this.calls.set(index, item)
    this.add(item)
  }

  private addArguments(index: number, text: string): void {
    const item = this.calls.get(index)!
    if (!item.open) return
    item.arguments += text
    this.emit("response.function_call_arguments.delta", { ...this.position(item), delta: text })
  }

  private closePart(item: MessageItem): void {
    const part = item.parts.at(-1)
    if (part === undefined) return
    const position = this.partPosition(item)
    if (part.type === "output_text")
      this.emit("response.output_text.done", { ...position, text: part.text, logprobs: part.logprobs })
    else this.emit("response.refusal.done", { ...position, refusal: part.text })
    this.emit("response.content_part.done", { ...position, part: partJson(part) })
  }

  private closeReasoning(item: ReasoningItem): void {
    const { text } = item
    const position = this.position(item)
    if (this.options.summarized) {
      const summary = { ...position, summary_index: 0 }
      this.emit("response.reasoning_summary_text.done", { ...summary, text })
      this.emit("response.reasoning_summary_part.done", { ...summary, part: { type: "summary_text", text } })
    } else {
      const content = { ...position, content_index: 0 }
      this.emit("response.reasoning_text.done", { ...content, text })
      this.emit("response.content_part.done", { ...content, part: { type: "reasoning_text", text } })
    }
  }

  private close(item: OutputItem): void {
    if (!item.open) return
    item.open = false
    switch (item._tag) {
      case "Message":
        this.closePart(item)
        break
      case "Reasoning":
        this.closeReasoning(item)
        break
      case "Call":
        this.emit("response.function_call_arguments.done", {
          ...this.position(item),
          name: item.name,
          arguments: item.arguments
        })
    }
    this.emit("response.output_item.done", {
      output_index: this.items.indexOf(item),
      item: this.json(item, "completed")
    })
  }

  /** Called before another item begins: a call whose arguments are not whole yet may still grow, everything
   *  else is closed. */
  private closeFinished(): void {
    for (const item of this.items)
      if (item.open && (item._tag !== "Call" || isWholeJson(item.arguments))) this.close(item)
  }

  /** Called when the model has said everything. */
  closeAll(): void {
    for (const item of this.items) this.close(item)
  }

  private json(item: OutputItem, status: string, empty = false): Json {
    const { summarized } = this.options
    return itemJson(item, { status, empty, summarized, upstreamState: this.upstreamState })
  }

  /** The response object as it is now. */
  responseObject(status: ResponseStatus, { error, completedS }: ResponseEnd = {}): Json {
    const { id, createdS, echo, background } = this.options
    const terminal = isTerminal(status)
    const openStatus = terminal ? "incomplete" : "in_progress"
    return {
      id,
      object: "response",
      created_at: createdS,
      completed_at: status === "completed" ? (completedS ?? null) : null,
      status,
      background,
      error: error ?? null,
      incomplete_details: status === "incomplete" ? this.incompleteDetails : null,
      instructions: echo["instructions"],
      max_output_tokens: echo["max_output_tokens"],
      model: echo["model"],
      output: this.items.map((item) => this.json(item, item.open ? openStatus : "completed")),
      ...echo,
      usage: terminal && this.usage !== undefined ? responsesUsage(this.usage) : null
    }
  }

  private get incompleteDetails(): Json {
    return { reason: this.finishReason === "content_filter" ? "content_filter" : "max_output_tokens" }
  }

  /** The answer as the next turn's context. One that was cut short (`whole` is false) keeps its text only. */
  contextMessages(whole: boolean): ReadonlyArray<Message> {
    const parts = this.items.flatMap((item) => (item._tag === "Message" ? item.parts : []))
    const text = parts.map((part) => part.text).join("")
    const calls = whole ? this.toolCalls() : []
    if (text === "" && calls.length === 0) return []
    const content = text === "" ? null : messageContent(text, parts)
    return [{ role: "assistant", content, ...(calls.length === 0 ? {} : { calls }) }]
  }

  private toolCalls(): ReadonlyArray<ToolCall> {
    return this.items.flatMap((item) =>
      item._tag === "Call" ? [{ id: item.callId, name: item.name, arguments: item.arguments }] : []
    )
  }
}

const messageContent = (text: string, parts: ReadonlyArray<MessagePart>): Message["content"] =>
  parts.every(({ type }) => type === "refusal") ? [{ type: "refusal", text }] : text
