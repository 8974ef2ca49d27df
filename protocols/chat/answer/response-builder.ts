/** Events into the output items of a response, and into the events of its stream where there is one.
 *  Guarantee: one response id throughout, sequence numbers without a gap, `added` in the order of
 *  `output_index`, joined deltas equal to what `done` says. Source: chat sections 9.4 and 10. */
import type { Flow, Message, ModelEvent, ToolCall, Usage } from "../../../actors/engines/chat/model.ts"
import type { Output } from "../turn/chunk-rewriter.ts"
import type { Json } from "../request/fields.ts"
import { newItemId, responsesUsage } from "../wire.ts"

export type ResponseStatus = "queued" | "in_progress" | "completed" | "incomplete" | "failed" | "cancelled"

export interface BuilderOptions {
  readonly id: string
  readonly createdS: number
  readonly echo: Json
  readonly background: boolean
  readonly summarized: boolean
  readonly onFirstEvent: (flow: Flow | undefined) => void
  /** Absent: nothing is streamed. */
  readonly emit?: ((type: string, event: Json) => void) | undefined
  readonly flush?: () => void
}

interface Reasoning {
  readonly kind: "reasoning"
  readonly id: string
  text: string
  open: boolean
}

interface MessageItem {
  readonly kind: "message"
  readonly id: string
  readonly parts: Array<{
    readonly type: "output_text" | "refusal"
    text: string
    readonly logprobs: Array<unknown>
  }>
  open: boolean
}

interface CallItem {
  readonly kind: "call"
  readonly id: string
  readonly callId: string
  readonly name: string
  arguments: string
  open: boolean
}

type Draft = Reasoning | MessageItem | CallItem

const complete = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

export class ResponseBuilder implements Output {
  firstEventSent = false
  readonly bound: Array<unknown> = []
  usage: Usage | undefined = undefined
  finishReason: "stop" | "length" | "content_filter" = "stop"
  sequence = 0
  private items: Array<Draft> = []
  private readonly calls = new Map<number, CallItem>()
  private readonly options: BuilderOptions

  constructor(options: BuilderOptions) {
    this.options = options
  }

  onFirstEvent(flow?: Flow): void {
    if (this.options.emit !== undefined && !this.options.background) this.firstEventSent = true
    this.options.onFirstEvent(flow)
  }

  flush(): void {
    this.options.flush?.()
  }

  reset(): void {
    this.items = []
    this.calls.clear()
    this.bound.length = 0
    this.usage = undefined
    this.finishReason = "stop"
  }

  emit(type: string, more: Json): void {
    if (this.options.emit === undefined) return
    this.options.emit(type, { type, sequence_number: this.sequence++, ...more })
  }

  private get last(): Draft | undefined {
    return this.items.at(-1)
  }

  private at(item: Draft): { readonly item_id: string; readonly output_index: number } {
    return { item_id: item.id, output_index: this.items.indexOf(item) }
  }

  event(event: ModelEvent): void {
    switch (event._tag) {
      case "reasoning":
        return this.think(event.text)
      case "text":
        return this.say("output_text", event.text, event.logprobs)
      case "refusal":
        return this.say("refusal", event.text, undefined)
      case "call":
        return this.call(event)
      case "arguments": {
        const item = this.calls.get(event.index)!
        if (!item.open) return
        item.arguments += event.text
        return this.emit("response.function_call_arguments.delta", { ...this.at(item), delta: event.text })
      }
      case "finish": {
        if (event.reason === "length" || event.reason === "content_filter") this.finishReason = event.reason
        return
      }
      case "usage": {
        this.usage = event.usage
        return
      }
      case "provider_state":
        this.bound.push(event.value)
    }
  }

  private think(text: string): void {
    let item = this.last
    if (item?.kind !== "reasoning" || !item.open) {
      this.closeUpTo()
      item = { kind: "reasoning", id: newItemId("rs", this.options.id), text: "", open: true }
      this.items.push(item)
      this.emit("response.output_item.added", {
        output_index: this.items.length - 1,
        item: this.item(item, "in_progress", true)
      })
      if (this.options.summarized)
        this.emit("response.reasoning_summary_part.added", {
          ...this.at(item),
          summary_index: 0,
          part: { type: "summary_text", text: "" }
        })
      else
        this.emit("response.content_part.added", {
          ...this.at(item),
          content_index: 0,
          part: { type: "reasoning_text", text: "" }
        })
    }
    item.text += text
    if (this.options.summarized)
      this.emit("response.reasoning_summary_text.delta", { ...this.at(item), summary_index: 0, delta: text })
    else this.emit("response.reasoning_text.delta", { ...this.at(item), content_index: 0, delta: text })
  }

  private say(type: "output_text" | "refusal", text: string, logprobs: unknown): void {
    let item = this.last
    if (item?.kind !== "message" || !item.open) {
      this.closeUpTo()
      item = { kind: "message", id: newItemId("msg", this.options.id), parts: [], open: true }
      this.items.push(item)
      this.emit("response.output_item.added", {
        output_index: this.items.length - 1,
        item: this.item(item, "in_progress", true)
      })
    }
    let part = item.parts.at(-1)
    if (part?.type !== type) {
      this.closePart(item)
      part = { type, text: "", logprobs: [] }
      item.parts.push(part)
      this.emit("response.content_part.added", {
        ...this.at(item),
        content_index: item.parts.length - 1,
        part: partJson(part)
      })
    }
    part.text += text
    const content = (logprobs as { readonly content?: unknown } | undefined)?.content
    const told = Array.isArray(content) ? content : []
    part.logprobs.push(...told)
    if (type === "output_text")
      this.emit("response.output_text.delta", {
        ...this.at(item),
        content_index: item.parts.length - 1,
        delta: text,
        logprobs: told
      })
    else
      this.emit("response.refusal.delta", {
        ...this.at(item),
        content_index: item.parts.length - 1,
        delta: text
      })
  }

  private call({ index, id, name }: Extract<ModelEvent, { _tag: "call" }>): void {
    this.closeUpTo()
    const item: CallItem = {
      kind: "call",
      id: newItemId("fc", this.options.id),
      callId: id,
      name,
      arguments: "",
      open: true
    }
    this.items.push(item)
    this.calls.set(index, item)
    this.emit("response.output_item.added", {
      output_index: this.items.length - 1,
      item: this.item(item, "in_progress", true)
    })
  }

  private closePart(item: MessageItem): void {
    const part = item.parts.at(-1)
    if (part === undefined) return
    const at = { ...this.at(item), content_index: item.parts.length - 1 }
    if (part.type === "output_text")
      this.emit("response.output_text.done", { ...at, text: part.text, logprobs: part.logprobs })
    else this.emit("response.refusal.done", { ...at, refusal: part.text })
    this.emit("response.content_part.done", { ...at, part: partJson(part) })
  }

  private close(item: Draft): void {
    if (!item.open) return
    item.open = false
    if (item.kind === "message") this.closePart(item)
    else if (item.kind === "reasoning") {
      if (this.options.summarized) {
        this.emit("response.reasoning_summary_text.done", {
          ...this.at(item),
          summary_index: 0,
          text: item.text
        })
        this.emit("response.reasoning_summary_part.done", {
          ...this.at(item),
          summary_index: 0,
          part: { type: "summary_text", text: item.text }
        })
      } else {
        this.emit("response.reasoning_text.done", { ...this.at(item), content_index: 0, text: item.text })
        this.emit("response.content_part.done", {
          ...this.at(item),
          content_index: 0,
          part: { type: "reasoning_text", text: item.text }
        })
      }
    } else
      this.emit("response.function_call_arguments.done", {
        ...this.at(item),
        name: item.name,
        arguments: item.arguments
      })
    this.emit("response.output_item.done", {
      output_index: this.items.indexOf(item),
      item: this.item(item, "completed")
    })
  }

  /** Before another item begins: a call whose arguments are not whole yet may still grow, everything else is
   *  over. */
  private closeUpTo(): void {
    for (const item of this.items)
      if (item.open && (item.kind !== "call" || complete(item.arguments))) this.close(item)
  }

  /** Everything is said. */
  closeAll(): void {
    for (const item of this.items) this.close(item)
  }

  private item(item: Draft, status: string, empty = false): Json {
    switch (item.kind) {
      case "reasoning":
        return this.options.summarized
          ? {
              id: item.id,
              type: "reasoning",
              summary: empty ? [] : [{ type: "summary_text", text: item.text }],
              status
            }
          : {
              id: item.id,
              type: "reasoning",
              summary: [],
              ...(empty ? {} : { content: [{ type: "reasoning_text", text: item.text }] }),
              status,
              ...this.encrypted
            }
      case "message":
        return {
          id: item.id,
          type: "message",
          status,
          role: "assistant",
          content: empty ? [] : item.parts.map(partJson)
        }
      case "call":
        return {
          id: item.id,
          type: "function_call",
          status,
          call_id: item.callId,
          name: item.name,
          arguments: item.arguments
        }
    }
  }

  private get encrypted(): Json {
    const found = this.bound.find((value) => typeof (value as any)?.encrypted_content === "string") as any
    return found === undefined ? {} : { encrypted_content: found.encrypted_content }
  }

  /** The response as it is now. */
  responseObject(
    status: ResponseStatus,
    {
      error = null,
      completedS = null
    }: {
      readonly error?: { readonly code: string; readonly message: string } | null
      readonly completedS?: number | null
    } = {}
  ): Json {
    const { id, createdS, echo, background } = this.options
    const terminal = status !== "queued" && status !== "in_progress"
    const reason =
      status !== "incomplete"
        ? null
        : { reason: this.finishReason === "content_filter" ? "content_filter" : "max_output_tokens" }
    return {
      id,
      object: "response",
      created_at: createdS,
      completed_at: status === "completed" ? completedS : null,
      status,
      background,
      error,
      incomplete_details: reason,
      instructions: echo["instructions"],
      max_output_tokens: echo["max_output_tokens"],
      model: echo["model"],
      output: this.items.map((item) =>
        this.item(item, item.open ? (terminal ? "incomplete" : "in_progress") : "completed")
      ),
      ...echo,
      usage: terminal && this.usage !== undefined ? responsesUsage(this.usage) : null
    }
  }

  /** What the next turn hears of this one; cut answers keep their text only. */
  contextMessages(whole: boolean): ReadonlyArray<Message> {
    const text = this.items.flatMap((item) => (item.kind === "message" ? item.parts : []))
    const content = text.map((part) => part.text).join("")
    const calls: ReadonlyArray<ToolCall> = whole
      ? this.items.flatMap((item) =>
          item.kind === "call" ? [{ id: item.callId, name: item.name, arguments: item.arguments }] : []
        )
      : []
    if (content === "" && calls.length === 0) return []
    const refused = text.length > 0 && text.every(({ type }) => type === "refusal")
    return [
      {
        role: "assistant",
        content: content === "" ? null : refused ? [{ type: "refusal", text: content }] : content,
        ...(calls.length === 0 ? {} : { calls })
      }
    ]
  }
}

const partJson = ({
  type,
  text,
  logprobs
}: {
  readonly type: "output_text" | "refusal"
  readonly text: string
  readonly logprobs: ReadonlyArray<unknown>
}): Json => (type === "refusal" ? { type, refusal: text } : { type, text, annotations: [], logprobs })
