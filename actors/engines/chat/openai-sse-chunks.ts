/** Reads the SSE chunks of an OpenAI-style chat stream and turns them into model events.
 *
 *  Most chunks differ from the one before in one string only (two, where a server pads them). That frame is
 *  learned from a chunk which was read in full; the next ones are recognised by comparing what stands around
 *  the strings, and their text goes on as it came, without parsing (hot path, bench/chat-stream):
 *
 *      data: {"id":"c1","choices":[{"delta":{"content":"Hello"}}],"obfuscation":"x7Kq"}⏎⏎
 *            └────────────── beforeText ───────────────┘└───┘└─── afterText ────┘└  ┘└┘
 *                                                       text                     padding
 *                                                                                    afterPadding
 *
 *  It is guaranteed that whatever is not exactly that frame is parsed, and that both ways tell the same.
 *  Source: docs/spec/chat.md, sections 13.1 and 19. */
import { badResponse, newCallId, UpstreamFault, type Finish, type ModelSink, type Usage } from "./model.ts"
import { PerChoice } from "./per-choice.ts"
import { utf8 } from "./sse-reader.ts"

interface Call {
  readonly id: string
  readonly index: number
}

interface Calls {
  readonly byIndex: Map<number, Call>
  readonly byId: Map<string, Call>
  last: Call | undefined
}

interface Choice {
  readonly number: number
  finished: boolean
  calls: Calls | undefined
}

export const finishOf = (reason: unknown, hasCalls: boolean): Finish => {
  if (reason === "length" || reason === "content_filter") return reason
  return hasCalls ? "tool_calls" : "stop"
}

const count = (value: unknown): number => (typeof value === "number" && value >= 0 ? value : 0)

export const usageOf = (usage: any): Usage => ({
  input: count(usage.prompt_tokens),
  output: count(usage.completion_tokens),
  cached: count(usage.prompt_tokens_details?.cached_tokens),
  reasoning: count(usage.completion_tokens_details?.reasoning_tokens)
})

/** Limits the choices of an answer, whatever was requested, because lists are indexed by their numbers. */
const choicesMax = 128

const asText = (value: unknown): string => {
  if (typeof value === "string") return value
  return value === undefined || value === null ? "" : JSON.stringify(value)
}

const isFilled = (value: unknown): value is string => typeof value === "string" && value !== ""

const contentStart = /"delta":\s*\{(?:\s*"role":\s*"assistant",)?\s*"content":\s*"/

/** Finds the padding of random letters that servers add, unless told not to, against guessing tokens by their
 *  length. */
const paddingStart = /"obfuscation":\s*"/

/** Characters that JSON.stringify escapes by one letter, as every writer does. */
const shortEscapes = new Set([...'"\\bfnrt'].map((char) => char.charCodeAt(0)))

/** The result of the last `scanString`: one object for all scans, so that a chunk allocates none. `end`:
 *  the index of the closing quote, or -1 when the string has to be parsed. `nonAscii`: the string holds
 *  bytes above ASCII. `escapes`: its backslashes, which are no bytes of the text. */
const scan = { end: 0, nonAscii: false, escapes: 0 }

/** Finds the end of the JSON string whose content begins at `from`, where it is written just as
 *  JSON.stringify would write it. */
const scanString = (text: string, from: number): typeof scan => {
  scan.nonAscii = false
  scan.escapes = 0
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 34) {
      scan.end = at
      return scan
    }
    if (code === 92) {
      if (!shortEscapes.has(text.charCodeAt(++at))) break
      scan.escapes++
    } else if (code < 32) break
    else if (code > 126) scan.nonAscii = true
  }
  scan.end = -1
  return scan
}

export class ChunkReader {
  finished = false
  done = false
  private readonly choices = new PerChoice<Choice>()

  /** The learned frame; undefined until one is learned, and again after a finish. */
  private beforeText: string | undefined = undefined

  private afterText = ""
  private afterPadding: string | undefined = undefined
  private readonly sink: ModelSink

  /** False only in the test that compares both ways. */
  private readonly learns: boolean

  constructor(sink: ModelSink, learns = true) {
    this.sink = sink
    this.learns = learns && sink.rawTextDelta !== undefined
  }

  /** Consumes as many whole events of the learned frame as there are at `at`, and returns where the rest
   *  begins. */
  readonly skipLearnedFrames = (text: string, at: number): number => {
    for (let start = at; ; at = start) {
      const { beforeText, afterText, afterPadding } = this
      if (beforeText === undefined || !text.startsWith("data:", start)) return at
      const payload = start + (text.charCodeAt(start + 5) === 32 ? 6 : 5)
      if (!text.startsWith(beforeText, payload)) return at

      const from = payload + beforeText.length
      const { end: to, nonAscii, escapes } = scanString(text, from)
      if (to <= from || !text.startsWith(afterText, to)) return at

      let end = to + afterText.length
      if (afterPadding !== undefined) {
        end = scanString(text, end).end
        if (end < 0 || !text.startsWith(afterPadding, end)) return at
        end += afterPadding.length
      }

      // This skips the line's end and the empty line, which ends the event.
      for (let lines = 0; lines < 2; lines++) {
        if (text.charCodeAt(end) === 13) end++
        if (text.charCodeAt(end++) !== 10) return at
      }

      const delta = text.slice(from, to)
      this.sink.rawTextDelta!(nonAscii ? utf8(delta) : delta, to - from - escapes)
      start = end
    }
  }

  /** Reads one event's data, in latin1. */
  payload(payload: string): void {
    if (payload === "[DONE]") {
      this.done = true
      return
    }
    let chunk: any
    try {
      chunk = JSON.parse(utf8(payload))
    } catch {
      throw badResponse("a chunk is not JSON")
    }
    if (typeof chunk !== "object" || chunk === null) throw badResponse("a chunk is not an object")
    this.chunk(chunk)
    if (this.learns && !this.finished && isTextDelta(chunk)) this.learn(payload)
  }

  private learn(payload: string): void {
    const content = contentStart.exec(payload)
    if (content === null || content[0].includes("role")) return
    const start = content.index + content[0].length
    const { end } = scanString(payload, start)
    if (end < 0) return

    const beforeText = payload.slice(0, start)
    const rest = payload.slice(end)
    const padding = paddingStart.exec(rest)
    let afterText = rest
    let afterPadding: string | undefined
    if (padding !== null) {
      const from = padding.index + padding[0].length
      const to = scanString(rest, from).end
      if (to < 0) return
      afterText = rest.slice(0, from)
      afterPadding = rest.slice(to)
    }

    // The frame with another string in it must be read as just that.
    try {
      const probe = JSON.parse(utf8(`${beforeText}\\u0007${afterText}${afterPadding ?? ""}`))
      if (!isTextDelta(probe) || probe.choices[0].delta.content !== "\u0007") return
    } catch {
      return
    }
    this.beforeText = beforeText
    this.afterText = afterText
    this.afterPadding = afterPadding
  }

  /** Reads one parsed chunk; a whole answer is read as one, too. */
  chunk(chunk: any): void {
    const { error } = chunk
    if (error !== undefined && error !== null)
      throw new UpstreamFault({
        reason: "error",
        detail: typeof error === "string" ? error : asText(error.message).slice(0, 2_000)
      })
    if (typeof chunk.usage === "object" && chunk.usage !== null)
      this.sink.event({ _tag: "usage", usage: usageOf(chunk.usage) })
    if (!Array.isArray(chunk.choices)) {
      if (chunk.usage === undefined || chunk.usage === null) throw badResponse("a chunk without choices")
      return
    }
    for (const [position, choice] of chunk.choices.entries())
      this.choice(choice, typeof choice?.index === "number" ? choice.index : position)
  }

  private choice(delivered: any, number: number): void {
    if (typeof delivered !== "object" || delivered === null) throw badResponse("a choice is not an object")
    if (!Number.isInteger(number) || number < 0 || number >= choicesMax)
      throw badResponse("a choice has a number that cannot be")
    const choice = this.stateOf(number)
    const delta = delivered.delta ?? delivered.message ?? {}
    if (choice.finished) return

    this.texts(delta, number, delivered.logprobs)
    if (Array.isArray(delta.tool_calls))
      for (const [i, call] of delta.tool_calls.entries()) this.call(choice, call, i)
    if (typeof delta.function_call === "object" && delta.function_call !== null)
      this.call(choice, { function: delta.function_call, index: 0 }, 0)

    if (delivered.finish_reason !== null && delivered.finish_reason !== undefined) {
      choice.finished = this.finished = true
      this.beforeText = undefined
      this.sink.event({
        _tag: "finish",
        choice: number,
        reason: finishOf(delivered.finish_reason, choice.calls !== undefined)
      })
    }
  }

  private texts(delta: any, choice: number, logprobs: unknown): void {
    const reasoning = typeof delta.reasoning_content === "string" ? delta.reasoning_content : delta.reasoning
    if (isFilled(reasoning)) this.sink.event({ _tag: "reasoning", choice, text: reasoning })
    const content = Array.isArray(delta.content)
      ? delta.content.map((part: any) => asText(part?.text)).join("")
      : delta.content
    if (isFilled(content)) {
      this.sink.event({
        _tag: "text",
        choice,
        text: content,
        ...(logprobs === null || logprobs === undefined ? {} : { logprobs })
      })
    }
    if (typeof delta.audio === "object" && delta.audio !== null)
      this.sink.event({ _tag: "audio", choice, value: delta.audio })
    if (isFilled(delta.refusal)) this.sink.event({ _tag: "refusal", choice, text: delta.refusal })
  }

  /** Reads a delta of a call; a whole call may arrive at once. `order` is its place in its chunk. */
  private call(choice: Choice, delta: any, order: number): void {
    if (typeof delta !== "object" || delta === null) throw badResponse("a tool call is not an object")
    const call = continuedCall(choice.calls, delta) ?? this.openCall(choice, delta, order)
    choice.calls!.last = call
    const text = asText(delta.function?.arguments)
    if (text !== "") this.sink.event({ _tag: "arguments", choice: choice.number, index: call.index, text })
  }

  private openCall(choice: Choice, { id, index, function: called }: any, order: number): Call {
    const name = called?.name
    if (!isFilled(name)) throw badResponse("a tool call without a name")
    const { byIndex, byId } = (choice.calls ??= { byIndex: new Map(), byId: new Map(), last: undefined })
    const call = { id: isFilled(id) ? id : newCallId(), index: byId.size }
    byIndex.set(typeof index === "number" ? index : byId.size + order, call)
    byId.set(call.id, call)
    this.sink.event({ _tag: "call", choice: choice.number, index: call.index, id: call.id, name })
    return call
  }

  private stateOf(number: number): Choice {
    return this.choices.get(number) ?? this.choices.set(number, { number, finished: false, calls: undefined })
  }

  /** Ends the body, which is a success only after every choice has finished. */
  end(choices = 1): void {
    const { list } = this.choices
    if (!this.finished || list.length < choices || list.some(([, { finished }]) => !finished))
      throw badResponse("stream ended early")
  }
}

/** Finds the call that a delta continues: the one of its index, otherwise of its id, otherwise the last
 *  one. */
const continuedCall = (calls: Calls | undefined, delta: any): Call | undefined => {
  if (calls === undefined) return undefined
  const call = addressedCall(calls, delta)
  const { id } = delta
  // Some servers send every call with index 0: a new id with a name is a new call.
  const isNew =
    call !== undefined &&
    isFilled(id) &&
    isFilled(delta.function?.name) &&
    call.id !== id &&
    !calls.byId.has(id)
  return isNew ? undefined : call
}

const addressedCall = (calls: Calls, { id, index, function: called }: any): Call | undefined => {
  if (typeof index === "number") return calls.byIndex.get(index)
  if (isFilled(id)) return calls.byId.get(id)
  return called?.name === undefined ? calls.last : undefined
}

/** True for a single choice 0 whose delta is one non-empty content: nothing is finished and nothing else is
 *  reported. */
const isTextDelta = (chunk: any): boolean => {
  if (
    !Array.isArray(chunk.choices) ||
    chunk.choices.length !== 1 ||
    (chunk.usage ?? null) !== null ||
    (chunk.error ?? null) !== null
  )
    return false
  const [choice] = chunk.choices
  const { delta } = choice
  if (
    (choice.index ?? 0) !== 0 ||
    (choice.finish_reason ?? null) !== null ||
    (choice.logprobs ?? null) !== null ||
    typeof delta !== "object" ||
    delta === null
  )
    return false
  for (const name of Object.keys(delta))
    if (name !== "content" && name !== "role" && delta[name] !== null && delta[name] !== "") return false
  return isFilled(delta.content)
}
