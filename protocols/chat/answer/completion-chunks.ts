/** Writes the chunks of a chat stream: model events in, frames of server-sent events out. Everything gathered
 *  within one batch leaves in one write (hot path, bench/chat-stream). What the client may see was decided
 *  before, in turn/chunk-rewriter.ts, which also draws the whole path.
 *  Source: docs/spec/chat.md, sections 8.3, 8.4 and 19. */
import type { Flow, ModelEvent } from "../../../actors/engines/chat/model.ts"
import { doneFrame, frame } from "../../shared/sse.ts"
import type { Output } from "../turn/chunk-rewriter.ts"
import { chatUsage, type ErrorBody } from "../wire.ts"

export interface ChunkOptions {
  readonly id: string
  readonly created: number
  readonly model: string
  readonly includeUsage: boolean
  /** The request has the old `functions`: calls are written as `function_call`. */
  readonly legacy: boolean
  readonly onFirstEvent: (flow: Flow | undefined) => void
  readonly write: (text: string) => void
}

/** The length of a text delta towards a client whose upstream could not stream. */
const pieceChars = 2_048

type TextEvent = Extract<ModelEvent, { _tag: "text" }>
type CallEvent = Extract<ModelEvent, { _tag: "call" }>
type ArgumentsEvent = Extract<ModelEvent, { _tag: "arguments" }>

export class CompletionChunks implements Output {
  firstEventSent = false
  private batch = ""

  /** True once the role of a choice has been written, by choice. */
  private readonly roleWritten: Array<boolean> = []

  private readonly head: string
  private readonly tail: string
  private readonly rawHead: string
  private readonly rawTail: string
  private readonly options: ChunkOptions

  /** The upstream does not stream: long texts leave in pieces. */
  private readonly splitsText: boolean

  constructor(options: ChunkOptions, splitsText = false) {
    this.options = options
    this.splitsText = splitsText
    const { id, created, model, includeUsage } = options
    this.head = `data: {"id":"${id}","object":"chat.completion.chunk","created":${created},"model":${JSON.stringify(model)},"system_fingerprint":null,"choices":[`
    this.tail = `]${includeUsage ? ',"usage":null' : ""}}\n\n`
    this.rawHead = `${this.head}{"index":0,"delta":{"content":"`
    this.rawTail = `"},"logprobs":null,"finish_reason":null}${this.tail}`
  }

  onFirstEvent(flow?: Flow): void {
    this.firstEventSent = true
    this.options.onFirstEvent(flow)
  }

  reset(): void {
    this.batch = ""
  }

  flush(): void {
    const { batch } = this
    if (batch === "") return
    this.batch = ""
    this.options.write(batch)
  }

  readonly rawTextDelta = (text: string): void => {
    if (this.roleWritten[0] !== true) this.writeRole(0, false)
    this.batch += this.rawHead + text + this.rawTail
  }

  private writeChoice(choice: object): void {
    this.batch += this.head + JSON.stringify(choice) + this.tail
  }

  private writeDelta(index: number, delta: unknown, logprobs: unknown = null): void {
    this.writeChoice({ index, delta, logprobs, finish_reason: null })
  }

  private writeRole(choice: number, beforeCall: boolean): void {
    if (this.roleWritten[choice] === true) return
    this.roleWritten[choice] = true
    this.writeDelta(choice, { role: "assistant", content: beforeCall ? null : "", refusal: null })
  }

  event(event: ModelEvent): void {
    switch (event._tag) {
      case "text":
        this.writeRole(event.choice, false)
        return this.writeText(event)
      case "reasoning":
        this.writeRole(event.choice, false)
        return this.writeDelta(event.choice, { reasoning_content: event.text })
      case "audio":
        this.writeRole(event.choice, false)
        return this.writeDelta(event.choice, { audio: event.value })
      case "refusal":
        this.writeRole(event.choice, false)
        return this.writeDelta(event.choice, { refusal: event.text })
      case "call":
        this.writeRole(event.choice, true)
        return this.writeCall(event)
      case "arguments":
        return this.writeArguments(event)
      case "finish": {
        this.writeRole(event.choice, false)
        const isLegacyCall = this.options.legacy && event.reason === "tool_calls"
        const reason = isLegacyCall ? "function_call" : event.reason
        return this.writeChoice({ index: event.choice, delta: {}, logprobs: null, finish_reason: reason })
      }
      case "usage":
        if (this.options.includeUsage) this.batch += `${this.head}],"usage":${chatUsage(event.usage)}}\n\n`
        return
      case "provider_state":
        return
    }
  }

  private writeText({ choice, text, logprobs }: TextEvent): void {
    if (!this.splitsText || logprobs !== undefined)
      return this.writeDelta(choice, { content: text }, logprobs)
    for (let start = 0; start < text.length;) {
      let end = start + pieceChars
      // A text is never cut between the halves of a surrogate pair.
      if (end < text.length && (text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end++
      this.writeDelta(choice, { content: text.slice(start, end) })
      start = end
    }
  }

  private writeCall({ choice, index, id, name }: CallEvent): void {
    const call = { name, arguments: "" }
    if (!this.options.legacy)
      this.writeDelta(choice, { tool_calls: [{ index, id, type: "function", function: call }] })
    else if (index === 0) this.writeDelta(choice, { function_call: call })
  }

  private writeArguments({ choice, index, text }: ArgumentsEvent): void {
    const call = { arguments: text }
    if (!this.options.legacy) this.writeDelta(choice, { tool_calls: [{ index, function: call }] })
    else if (index === 0) this.writeDelta(choice, { function_call: call })
  }

  done(): void {
    this.batch += doneFrame
    this.flush()
  }

  fail(error: ErrorBody): void {
    this.batch += frame(JSON.stringify({ error }))
    this.done()
  }
}
