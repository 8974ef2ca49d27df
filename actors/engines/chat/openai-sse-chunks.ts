/** Chunks of an OpenAI-style chat stream into events. Most chunks differ from the one before in one string
 *  only (two, where a server pads them): that frame is learned from a chunk which was read in full, and the
 *  next ones are recognised by comparing what stands around the strings (hot path, bench/chat-stream).
 *  Whatever is not exactly that frame is parsed. Source: chat sections 13.1 and 19. */
import { badResponse, newCallId, UpstreamFault, type Finish, type ModelSink, type Usage } from "./model.ts"
import { PerChoice } from "./per-choice.ts"
import { utf8 } from "./sse-reader.ts"

interface Known {
  readonly id: string
  readonly index: number
}

interface Calls {
  readonly byIndex: Map<number, Known>
  readonly byId: Map<string, Known>
  last: Known | undefined
}

interface Choice {
  finished: boolean
  calls: Calls | undefined
}

export const finishOf = (reason: unknown, hasCalls: boolean): Finish =>
  reason === "length" || reason === "content_filter" ? reason : hasCalls ? "tool_calls" : "stop"

const count = (value: unknown): number => (typeof value === "number" && value >= 0 ? value : 0)

export const usageOf = (usage: any): Usage => ({
  input: count(usage.prompt_tokens),
  output: count(usage.completion_tokens),
  cached: count(usage.prompt_tokens_details?.cached_tokens),
  reasoning: count(usage.completion_tokens_details?.reasoning_tokens)
})

/** Of one answer, whatever was asked: lists are kept by their numbers. */
const choicesMax = 128

const asText = (value: unknown): string =>
  typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value)

const contentAt = /"delta":\s*\{(?:\s*"role":\s*"assistant",)?\s*"content":\s*"/

/** Random letters against guessing tokens by their length, where a server is not told to leave them out. */
const paddingAt = /"obfuscation":\s*"/

/** What JSON.stringify escapes, and in the same way. */
const escapes = new Set([...'"\\bfnrt'].map((char) => char.charCodeAt(0)))

/** Where the string ends whose inside begins at `from`: only of what JSON.stringify would write just so. -1:
 *  read it in full. `wide`: not ASCII. `escaped`: backslashes which are none of its own bytes. */
const inside = { end: 0, wide: false, escaped: 0 }

const measure = (text: string, from: number): typeof inside => {
  inside.wide = false
  inside.escaped = 0
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === 34) {
      inside.end = at
      return inside
    }
    if (code === 92) {
      if (!escapes.has(text.charCodeAt(++at))) break
      inside.escaped++
    } else if (code < 32) break
    else if (code > 126) inside.wide = true
  }
  inside.end = -1
  return inside
}

export class ChunkReader {
  finished = false
  done = false
  private readonly choices = new PerChoice<Choice>()

  /** Before the string, after it, and after the padding. */
  private opening: string | undefined = undefined

  private closing = ""
  private padded: string | undefined = undefined
  private readonly sink: ModelSink

  /** Off in the test which compares both ways. */
  private readonly learns: boolean

  constructor(sink: ModelSink, learns = true) {
    this.sink = sink
    this.learns = learns && sink.rawTextDelta !== undefined
  }

  /** Takes as many whole events of the learned frame as stand at `at`; where the rest begins. */
  readonly leap = (text: string, at: number): number => {
    for (let start = at; ; at = start) {
      const { opening, closing, padded } = this
      if (opening === undefined || !text.startsWith("data:", start)) return at
      const payload = start + (text.charCodeAt(start + 5) === 32 ? 6 : 5)
      if (!text.startsWith(opening, payload)) return at
      const from = payload + opening.length
      const { end: to, wide, escaped } = measure(text, from)
      if (to <= from || !text.startsWith(closing, to)) return at
      let end = to + closing.length
      if (padded !== undefined) {
        end = measure(text, end).end
        if (end < 0 || !text.startsWith(padded, end)) return at
        end += padded.length
      }
      for (let lines = 0; lines < 2; lines++) {
        if (text.charCodeAt(end) === 13) end++
        if (text.charCodeAt(end++) !== 10) return at
      }
      const literal = text.slice(from, to)
      this.sink.rawTextDelta!(wide ? utf8(literal) : literal, to - from - escaped)
      start = end
    }
  }

  /** `payload`: latin1. */
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
    if (this.learns && !this.finished && isPlain(chunk)) this.learn(payload)
  }

  private learn(payload: string): void {
    const found = contentAt.exec(payload)
    if (found === null || found[0].includes("role")) return
    const start = found.index + found[0].length
    const { end } = measure(payload, start)
    if (end < 0) return
    const opening = payload.slice(0, start)
    const rest = payload.slice(end)
    const padding = paddingAt.exec(rest)
    let closing = rest
    let padded: string | undefined
    if (padding !== null) {
      const from = padding.index + padding[0].length
      const to = measure(rest, from).end
      if (to < 0) return
      closing = rest.slice(0, from)
      padded = rest.slice(to)
    }
    // The frame with another string in it must be read as just that.
    try {
      const other = JSON.parse(utf8(`${opening}\\u0007${closing}${padded ?? ""}`))
      if (!isPlain(other) || other.choices[0].delta.content !== "\u0007") return
    } catch {
      return
    }
    this.opening = opening
    this.closing = closing
    this.padded = padded
  }

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
    for (const [at, given] of chunk.choices.entries())
      this.choice(given, typeof given?.index === "number" ? given.index : at)
  }

  private choice(given: any, at: number): void {
    if (typeof given !== "object" || given === null) throw badResponse("a choice is not an object")
    if (!Number.isInteger(at) || at < 0 || at >= choicesMax)
      throw badResponse("a choice has a number that cannot be")
    const choice = this.of(at)
    const delta = given.delta ?? given.message ?? {}
    if (choice.finished) return
    this.texts(delta, at, given.logprobs)
    if (Array.isArray(delta.tool_calls))
      for (const [i, call] of delta.tool_calls.entries()) this.call(choice, at, call, i)
    if (typeof delta.function_call === "object" && delta.function_call !== null)
      this.call(choice, at, { function: delta.function_call, index: 0 }, 0)
    if (given.finish_reason !== null && given.finish_reason !== undefined) {
      choice.finished = this.finished = true
      this.opening = undefined
      this.sink.event({
        _tag: "finish",
        choice: at,
        reason: finishOf(given.finish_reason, choice.calls !== undefined)
      })
    }
  }

  private texts(delta: any, choice: number, logprobs: unknown): void {
    const reasoning = typeof delta.reasoning_content === "string" ? delta.reasoning_content : delta.reasoning
    if (typeof reasoning === "string" && reasoning !== "")
      this.sink.event({ _tag: "reasoning", choice, text: reasoning })
    const content = Array.isArray(delta.content)
      ? delta.content.map((part: any) => asText(part?.text)).join("")
      : delta.content
    if (typeof content === "string" && content !== "") {
      this.sink.event({
        _tag: "text",
        choice,
        text: content,
        ...(logprobs === null || logprobs === undefined ? {} : { logprobs })
      })
    }
    if (typeof delta.audio === "object" && delta.audio !== null)
      this.sink.event({ _tag: "audio", choice, value: delta.audio })
    if (typeof delta.refusal === "string" && delta.refusal !== "")
      this.sink.event({ _tag: "refusal", choice, text: delta.refusal })
  }

  /** A delta belongs to the call of its index, else of its id, else to the last one; a whole call may come at
   *  once. */
  private call(choice: Choice, at: number, delta: any, order: number): void {
    if (typeof delta !== "object" || delta === null) throw badResponse("a tool call is not an object")
    const { id, index } = delta
    const name = delta.function?.name
    const calls = choice.calls
    let known =
      typeof index === "number"
        ? calls?.byIndex.get(index)
        : typeof id === "string" && id !== ""
          ? calls?.byId.get(id)
          : name === undefined
            ? calls?.last
            : undefined
    // Some servers send every call with index 0: a new id with a name is a new call.
    if (
      known !== undefined &&
      typeof id === "string" &&
      id !== "" &&
      typeof name === "string" &&
      name !== "" &&
      known.id !== id &&
      !calls!.byId.has(id)
    )
      known = undefined
    if (known === undefined) {
      if (typeof name !== "string" || name === "") throw badResponse("a tool call without a name")
      const { byIndex, byId } = (choice.calls ??= { byIndex: new Map(), byId: new Map(), last: undefined })
      known = { id: typeof id === "string" && id !== "" ? id : newCallId(), index: byId.size }
      byIndex.set(typeof index === "number" ? index : byId.size + order, known)
      byId.set(known.id, known)
      this.sink.event({ _tag: "call", choice: at, index: known.index, id: known.id, name })
    }
    choice.calls!.last = known
    const text = asText(delta.function?.arguments)
    if (text !== "") this.sink.event({ _tag: "arguments", choice: at, index: known.index, text })
  }

  private of(at: number): Choice {
    return this.choices.get(at) ?? this.choices.set(at, { finished: false, calls: undefined })
  }

  /** The body is over: success only after a finish. */
  end(choices = 1): void {
    const { list } = this.choices
    if (!this.finished || list.length < choices || list.some(([, { finished }]) => !finished))
      throw badResponse("stream ended early")
  }
}

/** One choice 0, its delta one non-empty content, nothing finished, nothing else that would have to be told.
 *  */
const isPlain = (chunk: any): boolean => {
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
  return typeof delta.content === "string" && delta.content !== ""
}
