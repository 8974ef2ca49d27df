/** Events into the chunks of a chat stream. Everything gathered within one batch leaves in one write (hot
 *  path, bench/chat-stream).
 *  Source: chat sections 8.3, 8.4, 19. */
import type { Flow, ModelEvent } from "../../../actors/engines/chat/model.ts"
import { doneFrame, frame } from "../../shared/sse.ts"
import type { Output } from "../turn/chunk-rewriter.ts"
import { chatUsage, type ErrorBody } from "../wire.ts"

export interface ChunkOptions {
  readonly id: string
  readonly created: number
  readonly model: string
  readonly includeUsage: boolean
  readonly legacy: boolean
  readonly onFirstEvent: (flow: Flow | undefined) => void
  readonly write: (text: string) => void
}

/** Of one text delta towards a client whose upstream could not stream. */
const pieceChars = 2_048

export class CompletionChunks implements Output {
  firstEventSent = false
  private out = ""
  private readonly open: Array<boolean> = []
  private readonly head: string
  private readonly tail: string
  private readonly literalHead: string
  private readonly options: ChunkOptions

  /** The upstream did not stream: long texts leave in pieces. */
  private readonly pieces: boolean

  constructor(options: ChunkOptions, pieces = false) {
    this.options = options
    this.pieces = pieces
    const { id, created, model, includeUsage } = options
    this.head = `data: {"id":"${id}","object":"chat.completion.chunk","created":${created},"model":${JSON.stringify(model)},"system_fingerprint":null,"choices":[`
    this.tail = `]${includeUsage ? ',"usage":null' : ""}}\n\n`
    this.literalHead = `${this.head}{"index":0,"delta":{"content":"`
    this.literalTail = `"},"logprobs":null,"finish_reason":null}${this.tail}`
  }

  private readonly literalTail: string

  onFirstEvent(flow?: Flow): void {
    this.firstEventSent = true
    this.options.onFirstEvent(flow)
  }

  reset(): void {
    this.out = ""
  }

  flush(): void {
    const { out } = this
    if (out === "") return
    this.out = ""
    this.options.write(out)
  }

  readonly rawTextDelta = (text: string): void => {
    if (this.open[0] !== true) this.role(0, false)
    this.out += this.literalHead + text + this.literalTail
  }

  private delta(
    choice: number,
    delta: unknown,
    logprobs: unknown = null,
    finish: string | null = null
  ): void {
    this.out += `${this.head}${JSON.stringify({ index: choice, delta, logprobs, finish_reason: finish })}${this.tail}`
  }

  private role(choice: number, call: boolean): void {
    if (this.open[choice] === true) return
    this.open[choice] = true
    this.delta(choice, { role: "assistant", content: call ? null : "", refusal: null })
  }

  event(event: ModelEvent): void {
    const { legacy } = this.options
    switch (event._tag) {
      case "text": {
        this.role(event.choice, false)
        if (!this.pieces || event.logprobs !== undefined)
          return this.delta(event.choice, { content: event.text }, event.logprobs)
        for (let at = 0; at < event.text.length;) {
          let end = at + pieceChars
          // Never between the halves of a surrogate pair.
          if (end < event.text.length && (event.text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end++
          this.delta(event.choice, { content: event.text.slice(at, end) })
          at = end
        }
        return
      }
      case "reasoning":
        this.role(event.choice, false)
        return this.delta(event.choice, { reasoning_content: event.text })
      case "audio":
        this.role(event.choice, false)
        return this.delta(event.choice, { audio: event.value })
      case "refusal":
        this.role(event.choice, false)
        return this.delta(event.choice, { refusal: event.text })
      case "call":
        this.role(event.choice, true)
        if (legacy)
          return event.index === 0
            ? this.delta(event.choice, { function_call: { name: event.name, arguments: "" } })
            : undefined
        return this.delta(event.choice, {
          tool_calls: [
            {
              index: event.index,
              id: event.id,
              type: "function",
              function: { name: event.name, arguments: "" }
            }
          ]
        })
      case "arguments":
        if (legacy)
          return event.index === 0
            ? this.delta(event.choice, { function_call: { arguments: event.text } })
            : undefined
        return this.delta(event.choice, {
          tool_calls: [{ index: event.index, function: { arguments: event.text } }]
        })
      case "finish":
        this.role(event.choice, false)
        return this.delta(
          event.choice,
          {},
          null,
          legacy && event.reason === "tool_calls" ? "function_call" : event.reason
        )
      case "usage":
        if (this.options.includeUsage) this.out += `${this.head}],"usage":${chatUsage(event.usage)}}\n\n`
        return
      case "provider_state":
        return
    }
  }

  done(): void {
    this.out += doneFrame
    this.flush()
  }

  fail(error: ErrorBody): void {
    this.out += frame(JSON.stringify({ error }))
    this.done()
  }
}
