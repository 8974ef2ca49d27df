/** Chunks of an OpenAI-style chat stream into events. Most chunks differ from the one before in one string only: that frame is learned from a chunk
 *  which was read in full, and the next ones are recognised by comparing its ends (hot path, bench/chat-stream). Whatever is not exactly that frame
 *  is parsed. Source: chat sections 13.1 and 19. */
import { badResponse, newCallId, UpstreamFault, type Finish, type ModelSink, type Usage } from "./model.ts"
import { latin1, utf8 } from "./sse-reader.ts"

interface Known { readonly id: string; readonly index: number }
interface Choice { finished: boolean; readonly calls: Map<number, Known>; readonly byId: Map<string, Known>; last: Known | undefined }

export const finishOf = (reason: unknown, hasCalls: boolean): Finish => reason === "length" || reason === "content_filter" ? reason : hasCalls ? "tool_calls" : "stop"
const count = (value: unknown): number => typeof value === "number" && value >= 0 ? value : 0
export const usageOf = (usage: any): Usage => ({
  input: count(usage.prompt_tokens), output: count(usage.completion_tokens),
  cached: count(usage.prompt_tokens_details?.cached_tokens), reasoning: count(usage.completion_tokens_details?.reasoning_tokens)
})
const asText = (value: unknown): string => typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value)

/** What JSON allows to stand in a string as it is, ASCII only; everything else goes the longer way. */
// oxlint-disable-next-line no-control-regex
const unplain = /[\x00-\x1f"\\\x7f-\xff]/
const contentAt = /"delta":\s*\{(?:\s*"role":\s*"assistant",)?\s*"content":\s*"/

export class ChunkReader {
  finished = false
  done = false
  private sawUsage = false
  private readonly choices = new Map<number, Choice>()
  private prefix: string | undefined = undefined
  private suffix = ""
  private readonly sink: ModelSink
  /** Off in the test which compares both ways. */
  private readonly learns: boolean

  constructor(sink: ModelSink, learns = true) { this.sink = sink; this.learns = learns && sink.literal !== undefined }

  /** `payload`: latin1. */
  payload(payload: string): void {
    const { prefix, suffix } = this
    if (prefix !== undefined && payload.length >= prefix.length + suffix.length + 3 && payload.startsWith(prefix) && payload.endsWith(suffix)) {
      const literal = payload.slice(prefix.length, payload.length - suffix.length)
      if (literal.charCodeAt(0) === 34 && literal.charCodeAt(literal.length - 1) === 34) {
        if (!unplain.test(literal.slice(1, -1))) { this.sink.literal!(literal); return }
        let text: unknown
        try { text = JSON.parse(utf8(literal)) } catch { text = undefined }
        if (typeof text === "string") { if (text !== "") this.sink.literal!(latin1(JSON.stringify(text))); return }
      }
    }
    if (payload === "[DONE]") { this.done = true; return }
    let chunk: any
    try { chunk = JSON.parse(utf8(payload)) } catch { throw badResponse("a chunk is not JSON") }
    if (typeof chunk !== "object" || chunk === null) throw badResponse("a chunk is not an object")
    this.chunk(chunk)
    if (this.learns && !this.finished && isPlain(chunk)) this.learn(payload)
  }
  private learn(payload: string): void {
    const found = contentAt.exec(payload)
    if (found === null || found[0].includes("role")) return
    const start = found.index + found[0].length - 1
    let end = start + 1
    while (end < payload.length && payload.charCodeAt(end) !== 34) end += payload.charCodeAt(end) === 92 ? 2 : 1
    const prefix = payload.slice(0, start), suffix = payload.slice(end + 1)
    try {
      const empty = JSON.parse(utf8(`${prefix}"\\u0007"${suffix}`))
      if (!isPlain(empty) || empty.choices[0].delta.content !== "\u0007") return
    } catch { return }
    this.prefix = prefix
    this.suffix = suffix
  }

  chunk(chunk: any): void {
    const { error } = chunk
    if (error !== undefined && error !== null) throw new UpstreamFault({ reason: "error", detail: typeof error === "string" ? error : asText(error.message).slice(0, 2_000) })
    if (typeof chunk.usage === "object" && chunk.usage !== null) { this.sawUsage = true; this.sink.event({ type: "usage", usage: usageOf(chunk.usage) }) }
    if (!Array.isArray(chunk.choices)) { if (chunk.usage === undefined || chunk.usage === null) throw badResponse("a chunk without choices"); return }
    for (const [at, given] of chunk.choices.entries()) this.choice(given, typeof given?.index === "number" ? given.index : at)
  }
  private choice(given: any, at: number): void {
    if (typeof given !== "object" || given === null) throw badResponse("a choice is not an object")
    const choice = this.of(at), delta = given.delta ?? given.message ?? {}
    if (choice.finished) return
    this.texts(delta, at, given.logprobs)
    if (Array.isArray(delta.tool_calls)) for (const [i, call] of delta.tool_calls.entries()) this.call(choice, at, call, i)
    if (typeof delta.function_call === "object" && delta.function_call !== null) this.call(choice, at, { function: delta.function_call, index: 0 }, 0)
    if (given.finish_reason !== null && given.finish_reason !== undefined) {
      choice.finished = this.finished = true
      this.prefix = undefined
      this.sink.event({ type: "finish", choice: at, reason: finishOf(given.finish_reason, choice.calls.size > 0) })
    }
  }
  private texts(delta: any, choice: number, logprobs: unknown): void {
    const reasoning = typeof delta.reasoning_content === "string" ? delta.reasoning_content : delta.reasoning
    if (typeof reasoning === "string" && reasoning !== "") this.sink.event({ type: "reasoning", choice, text: reasoning })
    const content = Array.isArray(delta.content) ? delta.content.map((part: any) => asText(part?.text)).join("") : delta.content
    if (typeof content === "string" && content !== "") {
      this.sink.event({ type: "text", choice, text: content, ...(logprobs === null || logprobs === undefined ? {} : { logprobs }) })
    }
    if (typeof delta.refusal === "string" && delta.refusal !== "") this.sink.event({ type: "refusal", choice, text: delta.refusal })
  }
  /** A delta belongs to the call of its index, else of its id, else to the last one; a whole call may come at once. */
  private call(choice: Choice, at: number, delta: any, order: number): void {
    if (typeof delta !== "object" || delta === null) throw badResponse("a tool call is not an object")
    const { id, index } = delta, name = delta.function?.name
    let known = typeof index === "number" ? choice.calls.get(index) : typeof id === "string" && id !== "" ? choice.byId.get(id) : name === undefined ? choice.last : undefined
    // Some servers send every call with index 0: a new id with a name is a new call.
    if (known !== undefined && typeof id === "string" && id !== "" && typeof name === "string" && name !== "" && known.id !== id && !choice.byId.has(id)) known = undefined
    if (known === undefined) {
      if (typeof name !== "string" || name === "") throw badResponse("a tool call without a name")
      known = { id: typeof id === "string" && id !== "" ? id : newCallId(), index: choice.byId.size }
      choice.calls.set(typeof index === "number" ? index : choice.byId.size + order, known)
      choice.byId.set(known.id, known)
      this.sink.event({ type: "call", choice: at, index: known.index, id: known.id, name })
    }
    choice.last = known
    const text = asText(delta.function?.arguments)
    if (text !== "") this.sink.event({ type: "arguments", choice: at, index: known.index, text })
  }
  private of(at: number): Choice {
    let choice = this.choices.get(at)
    if (choice === undefined) this.choices.set(at, choice = { finished: false, calls: new Map(), byId: new Map(), last: undefined })
    return choice
  }
  /** The body is over: success only after a finish. */
  end(choices = 1): void {
    const open = [...this.choices.values()].some(({ finished }) => !finished)
    if (!this.finished || open || this.choices.size < choices) throw badResponse("stream ended early")
  }
  get usageSeen(): boolean { return this.sawUsage }
}

/** One choice 0, its delta one non-empty content, nothing finished, nothing else that would have to be told. */
const isPlain = (chunk: any): boolean => {
  if (!Array.isArray(chunk.choices) || chunk.choices.length !== 1 || (chunk.usage ?? null) !== null || (chunk.error ?? null) !== null) return false
  const [choice] = chunk.choices, { delta } = choice
  if ((choice.index ?? 0) !== 0 || (choice.finish_reason ?? null) !== null || (choice.logprobs ?? null) !== null || typeof delta !== "object" || delta === null) return false
  for (const name of Object.keys(delta)) if (name !== "content" && name !== "role" && delta[name] !== null && delta[name] !== "") return false
  return typeof delta.content === "string" && delta.content !== ""
}
