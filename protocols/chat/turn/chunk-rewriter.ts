/** Rewrites a model's chunks on their way to the client: internal names are removed from calls and text,
 *  calls of tools that nobody has are dropped, calls of built-in tools are set aside, and the finish waits
 *  until the round is judged.
 *
 *    actors/engines/chat/http1-connection.ts  bytes from the model server
 *      → sse-reader.ts                        bytes into frames
 *      → openai-sse-chunks.ts                 a frame's chunk into model events, or a raw text delta
 *      → turn/chunk-rewriter.ts               THIS FILE: events into what the client may see
 *      → answer/completion-chunks.ts          events into the chunks of a chat stream
 *        answer/response-builder.ts           … or into the items and events of a response
 *        answer/collected-answer.ts           … or into one whole answer
 *      → answer/stream-reply.ts               headers, backpressure, keep-alive
 *      → runtime/transport                    bytes to the client
 *
 *  A raw text delta passes untouched where nothing is to be looked for (hot path, bench/chat-stream).
 *  Source: docs/spec/chat.md, sections 7.3, 11.3, 11.7 and 17.3. */
import type {
  Finish,
  Flow,
  ModelEvent,
  ModelSink,
  Tool,
  ToolCall,
  Usage
} from "../../../actors/engines/chat/model.ts"
import type { RetrySink } from "../../../actors/engines/chat/attempts.ts"
import { PerChoice } from "../../../actors/engines/chat/per-choice.ts"
import { PromptBridgeReader } from "./prompt-bridge.ts"
import { ToolNameRestorer, type ToolNames } from "./tool-names.ts"

/** Destination of a turn's answer: chunks, a response, or one whole answer. */
export type Output = RetrySink

/** Text and arguments of one turn; above it the answer ends with `length`. */
export const outputBytesMax = 16 * 1_048_576

export interface RewriteRules {
  readonly names: ToolNames
  /** The client's tools, by their public names: their calls are forwarded. */
  readonly external: ReadonlySet<string>
  readonly builtins: ReadonlySet<string>
  readonly dropCalls: boolean
  readonly oneCall: boolean
  /** The tools of a model that learns of them from its prompt; undefined for one with native calls. */
  readonly bridge: ReadonlyArray<Tool> | undefined
  /** The text may be needed in another round. */
  readonly keepsText: boolean
  readonly onOutputTooLong: () => void
}

type RawTextDelta = NonNullable<ModelSink["rawTextDelta"]>
type TextEvent = Extract<ModelEvent, { _tag: "text" }>
type CallEvent = Extract<ModelEvent, { _tag: "call" }>
type FinishEvent = Extract<ModelEvent, { _tag: "finish" }>

interface ToolCallDraft {
  readonly id: string
  readonly name: string
  arguments: string
}

/** Destination of the arguments of a model's call: the client under a new index, a built-in tool, or
 *  nowhere. */
type CallTarget = number | ToolCallDraft | undefined

interface ChoiceState {
  readonly textRestorer: ToolNameRestorer | undefined
  readonly reasoningRestorer: ToolNameRestorer | undefined
  readonly bridge: PromptBridgeReader | undefined
  forwardedCalls: number
  /** Forwarded calls that have no arguments yet. */
  withoutArguments: Set<number> | undefined
  /** Target of each call, by the model's index of the call. */
  callTargets: Map<number, CallTarget> | undefined
  finish: Finish | undefined
  hasContent: boolean
}

export class ChunkRewriter implements RetrySink {
  private readonly choices = new PerChoice<ChoiceState>()
  readonly builtinCalls: Array<ToolCallDraft> = []

  /** Calls that came through the prompt, by their public names. */
  readonly bridgedCalls: Array<ToolCall> = []

  /** The text of choice 0, gathered only under `keepsText`. */
  text = ""

  unknownCalls = 0
  usage: Usage | undefined = undefined
  outputBytes = 0

  /** The answer outgrew its limit: what comes after is dropped. */
  truncated = false

  rawTextDelta: RawTextDelta | undefined
  private readonly output: Output
  private rules: RewriteRules

  constructor(output: Output, rules: RewriteRules) {
    this.output = output
    this.rules = rules
    this.rawTextDelta = this.rawTextDeltaFor(rules)
  }

  /** Rewrites for another upstream: a fallback knows the tools by other names, or only through the prompt. It
   *  is called while no event has come. */
  retarget(rules: RewriteRules): void {
    this.rules = rules
    this.rawTextDelta = this.rawTextDeltaFor(rules)
  }

  private rawTextDeltaFor({ names, bridge, keepsText }: RewriteRules): RawTextDelta | undefined {
    const { rawTextDelta } = this.output
    const readsText = names.hasInternal || bridge !== undefined || keepsText
    if (rawTextDelta === undefined || readsText) return undefined
    return (text, bytes) => {
      if (this.truncated) return
      this.choice(0).hasContent = true
      this.countBytes(bytes)
      rawTextDelta(text, bytes)
    }
  }

  get firstEventSent(): boolean {
    return this.output.firstEventSent
  }

  reset(): void {
    this.choices.clear()
    this.builtinCalls.length = 0
    this.bridgedCalls.length = 0
    this.text = ""
    this.unknownCalls = 0
    this.outputBytes = 0
    this.usage = undefined
    this.output.reset()
  }

  onFirstEvent(flow?: Flow): void {
    this.output.onFirstEvent(flow)
  }

  flush(): void {
    this.output.flush()
  }

  private choice(index: number): ChoiceState {
    const existing = this.choices.get(index)
    if (existing !== undefined) return existing
    const { names, bridge } = this.rules
    return this.choices.set(index, {
      textRestorer: names.hasInternal ? new ToolNameRestorer(names) : undefined,
      reasoningRestorer: names.hasInternal ? new ToolNameRestorer(names) : undefined,
      bridge: bridge === undefined ? undefined : new PromptBridgeReader(bridge),
      forwardedCalls: 0,
      withoutArguments: undefined,
      callTargets: undefined,
      finish: undefined,
      hasContent: false
    })
  }

  private countBytes(bytes: number): void {
    this.outputBytes += bytes
    if (this.outputBytes <= outputBytesMax || this.truncated) return
    this.truncated = true
    this.rules.onOutputTooLong()
  }

  event(event: ModelEvent): void {
    if (this.truncated) return
    switch (event._tag) {
      case "usage":
        this.usage = event.usage
        return
      case "provider_state":
        return this.output.event(event)
      case "finish":
        this.choice(event.choice).finish = event.reason
        return
      case "text": {
        const state = this.choice(event.choice)
        this.countBytes(Buffer.byteLength(event.text))
        const text = state.bridge === undefined ? event.text : state.bridge.push(event.text)
        return this.forwardText(state, text, event)
      }
      case "reasoning": {
        const state = this.choice(event.choice)
        const text =
          state.reasoningRestorer === undefined ? event.text : state.reasoningRestorer.push(event.text)
        this.countBytes(Buffer.byteLength(event.text))
        if (text !== "") this.output.event({ ...event, text })
        return
      }
      case "refusal":
        this.choice(event.choice).hasContent = true
        this.countBytes(Buffer.byteLength(event.text))
        return this.output.event(event)
      case "audio":
        this.choice(event.choice).hasContent = true
        this.countBytes(typeof event.value.data === "string" ? event.value.data.length : 0)
        return this.output.event(event)
      case "call":
        return this.startCall(this.choice(event.choice), event)
      case "arguments": {
        const state = this.choice(event.choice)
        const target = state.callTargets?.get(event.index)
        this.countBytes(Buffer.byteLength(event.text))
        if (typeof target === "number") {
          state.withoutArguments?.delete(target)
          this.output.event({ ...event, index: target })
        } else if (target !== undefined) target.arguments += event.text
      }
    }
  }

  private forwardText(state: ChoiceState, certain: string, event: TextEvent): void {
    const text = state.textRestorer === undefined ? certain : state.textRestorer.push(certain)
    if (text === "") return
    state.hasContent = true
    if (this.rules.keepsText && event.choice === 0) this.text += text
    this.output.event(text === event.text ? event : { ...event, text })
  }

  private startCall(state: ChoiceState, event: CallEvent): void {
    state.callTargets ??= new Map()
    state.callTargets.set(event.index, this.callTarget(state, event))
  }

  private callTarget(state: ChoiceState, event: CallEvent): CallTarget {
    const { names, external, builtins, dropCalls } = this.rules
    if (dropCalls) return undefined
    const publicName = names.toPublic(event.name) ?? (external.has(event.name) ? event.name : undefined)
    if (publicName !== undefined && external.has(publicName))
      return this.forwardCall(state, event, publicName)
    if (builtins.has(event.name)) {
      const draft: ToolCallDraft = { id: event.id, name: event.name, arguments: "" }
      this.builtinCalls.push(draft)
      return draft
    }
    this.unknownCalls++
    return undefined
  }

  private forwardCall(state: ChoiceState, event: CallEvent, name: string): CallTarget {
    if (this.rules.oneCall && state.forwardedCalls > 0) return undefined
    const index = state.forwardedCalls++
    state.withoutArguments ??= new Set()
    state.withoutArguments.add(index)
    this.output.event({ ...event, index, name })
    return index
  }

  /** Forwards everything that was held back. The finishes are still the caller's to send. */
  settle(): void {
    for (const [choice, state] of this.choices.list) {
      if (state.bridge !== undefined) this.settleBridge(state.bridge, choice, state)
      // No arguments are published as an empty object, streamed or not.
      if (state.withoutArguments !== undefined)
        for (const index of state.withoutArguments)
          this.output.event({ _tag: "arguments", choice, index, text: "{}" })
      const text = state.textRestorer?.end() ?? ""
      const reasoning = state.reasoningRestorer?.end() ?? ""
      if (reasoning !== "") this.output.event({ _tag: "reasoning", choice, text: reasoning })
      if (text === "") continue
      state.hasContent = true
      if (this.rules.keepsText && choice === 0) this.text += text
      this.output.event({ _tag: "text", choice, text })
    }
  }

  private settleBridge(bridge: PromptBridgeReader, choice: number, state: ChoiceState): void {
    const { text, calls } = bridge.end()
    this.forwardText(state, text, { _tag: "text", choice, text: "" })
    for (const [index, { id, name, arguments: args }] of calls.entries()) {
      this.bridgedCalls.push({ id, name: this.rules.names.toPublic(name) ?? name, arguments: args })
      this.startCall(state, { _tag: "call", choice, index, id, name })
      this.event({ _tag: "arguments", choice, index, text: args })
    }
  }

  /** The finish of each choice: one with calls ends by them, except when it was cut short or withheld. */
  finishes(): ReadonlyArray<FinishEvent> {
    return this.choices.list.map(([choice, state]) => ({
      _tag: "finish" as const,
      choice,
      reason: this.finishOf(state)
    }))
  }

  private finishOf({ finish, forwardedCalls }: ChoiceState): Finish {
    if (this.truncated) return "length"
    if (finish === "length" || finish === "content_filter") return finish
    return forwardedCalls > 0 ? "tool_calls" : "stop"
  }

  /** How many calls were forwarded. */
  get callCount(): number {
    return this.choices.list.reduce((sum, [, { forwardedCalls }]) => sum + forwardedCalls, 0)
  }

  get hasContent(): boolean {
    return this.choices.list.some(([, { hasContent }]) => hasContent)
  }
}

/** Creates a sink for one of several parallel calls: it numbers the events with its choice and counts usage
 *  separately. */
export const sinkForChoice = (
  sink: ModelSink,
  choice: number,
  onUsage: (usage: Usage) => void
): ModelSink => ({
  onFirstEvent: (flow) => sink.onFirstEvent(flow),
  flush: () => sink.flush(),
  event: (event) => {
    if (event._tag === "usage") onUsage(event.usage)
    else sink.event("choice" in event ? { ...event, choice } : event)
  }
})
