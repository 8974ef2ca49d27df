/** Between a model and an answer: internal names out of calls and text, calls of nobody dropped, built-in
 *  calls kept aside, the finish held until the round is judged. A text literal passes untouched where nothing
 *  is to be looked for (hot path). Source: chat sections 7.3, 11.3, 11.7, 17.3. */
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
import { BridgeReader } from "./prompt-bridge.ts"
import { ToolNameRestorer, type ToolNames } from "../request/tools.ts"

/** Where a turn's answer goes. `started`: it cannot be taken back. */
export interface Output extends RetrySink {
  /** A failure after that ends the answer. */
  readonly firstEventSent: boolean
}

/** Text and arguments of one turn; above it the answer ends with `length`. */
export const outputBytesMax = 16 * 1_048_576

export interface RewriteRules {
  readonly names: ToolNames
  /** By the model's name: is this call the client's to hear? */
  readonly external: ReadonlySet<string>
  readonly builtins: ReadonlySet<string>
  readonly dropCalls: boolean
  readonly oneCall: boolean
  readonly bridge: ReadonlyArray<Tool> | undefined
  /** The text may have to be told to the model again. */
  readonly keepsText: boolean
  readonly onOutputTooLong: () => void
}

interface ChoiceState {
  readonly text: ToolNameRestorer | undefined
  readonly reasoning: ToolNameRestorer | undefined
  readonly bridge: BridgeReader | undefined
  forwarded: number
  /** Forwarded calls that have no arguments yet. */
  bare: Set<number> | undefined
  places: Map<number, number | ToolCallDraft | undefined> | undefined
  finish: Finish | undefined
  content: boolean
}

interface ToolCallDraft {
  readonly id: string
  readonly name: string
  arguments: string
}

export class ChunkRewriter implements RetrySink {
  private readonly choices = new PerChoice<ChoiceState>()
  readonly builtinCalls: Array<ToolCallDraft> = []

  /** Calls that came through the prompt, by their public names. */
  readonly bridged: Array<ToolCall> = []

  /** The text of choice 0, kept where a round may have to be told to the model again. */
  said = ""

  unknownCalls = 0
  usage: Usage | undefined = undefined
  outputBytes = 0
  cut = false
  begunOnce = false
  rawTextDelta: ((text: string, bytes: number) => void) | undefined
  private readonly output: Output
  private rules: RewriteRules

  constructor(output: Output, rules: RewriteRules, begun: boolean) {
    this.output = output
    this.rules = rules
    this.begunOnce = begun
    this.rawTextDelta = this.literalFor(rules)
  }

  /** A fallback knows the tools by other names, or only through the prompt. Called while nothing has been
   *  heard. */
  retarget(rules: RewriteRules): void {
    this.rules = rules
    this.rawTextDelta = this.literalFor(rules)
  }

  private literalFor({
    names,
    bridge,
    keepsText
  }: RewriteRules): ((text: string, bytes: number) => void) | undefined {
    const { rawTextDelta: literal } = this.output
    return literal === undefined || names.hides || bridge !== undefined || keepsText
      ? undefined
      : (text, bytes) => {
          if (this.cut) return
          this.of(0).content = true
          this.grow(bytes)
          literal(text, bytes)
        }
  }

  get firstEventSent(): boolean {
    return this.output.firstEventSent
  }

  reset(): void {
    this.choices.clear()
    this.builtinCalls.length = this.bridged.length = 0
    this.said = ""
    this.unknownCalls = this.outputBytes = 0
    this.usage = undefined
    this.output.reset()
  }

  onFirstEvent(flow?: Flow): void {
    if (!this.begunOnce || flow !== undefined) this.output.onFirstEvent(flow)
    this.begunOnce = true
  }

  flush(): void {
    this.output.flush()
  }

  private of(choice: number): ChoiceState {
    const known = this.choices.get(choice)
    if (known !== undefined) return known
    const { names, bridge } = this.rules
    return this.choices.set(choice, {
      text: names.hides ? new ToolNameRestorer(names) : undefined,
      reasoning: names.hides ? new ToolNameRestorer(names) : undefined,
      bridge: bridge === undefined ? undefined : new BridgeReader(bridge),
      forwarded: 0,
      bare: undefined,
      places: undefined,
      finish: undefined,
      content: false
    })
  }

  private grow(bytes: number): void {
    if ((this.outputBytes += bytes) > outputBytesMax && !this.cut) {
      this.cut = true
      this.rules.onOutputTooLong()
    }
  }

  event(event: ModelEvent): void {
    if (this.cut) return
    switch (event._tag) {
      case "usage": {
        this.usage = event.usage
        return
      }
      case "provider_state": {
        this.output.event(event)
        return
      }
      case "finish": {
        this.of(event.choice).finish = event.reason
        return
      }
      case "text": {
        const state = this.of(event.choice)
        this.grow(Buffer.byteLength(event.text))
        const certain = state.bridge === undefined ? event.text : state.bridge.push(event.text)
        return this.text(state, event.choice, certain, event)
      }
      case "reasoning": {
        const state = this.of(event.choice)
        const text = state.reasoning === undefined ? event.text : state.reasoning.push(event.text)
        this.grow(Buffer.byteLength(event.text))
        if (text !== "") this.output.event({ ...event, text })
        return
      }
      case "refusal": {
        this.of(event.choice).content = true
        this.grow(Buffer.byteLength(event.text))
        this.output.event(event)
        return
      }
      case "audio": {
        this.of(event.choice).content = true
        this.grow(typeof event.value.data === "string" ? event.value.data.length : 0)
        this.output.event(event)
        return
      }
      case "call":
        return this.call(this.of(event.choice), event)
      case "arguments": {
        const state = this.of(event.choice)
        const place = state.places?.get(event.index)
        this.grow(Buffer.byteLength(event.text))
        if (typeof place === "number") {
          state.bare?.delete(place)
          this.output.event({ ...event, index: place })
        } else if (place !== undefined) place.arguments += event.text
      }
    }
  }

  private text(
    state: ChoiceState,
    choice: number,
    certain: string,
    from: Extract<ModelEvent, { _tag: "text" }>
  ): void {
    const text = state.text === undefined ? certain : state.text.push(certain)
    if (text === "") return
    state.content = true
    if (this.rules.keepsText && choice === 0) this.said += text
    this.output.event(text === from.text ? from : { ...from, text })
  }

  private call(state: ChoiceState, event: Extract<ModelEvent, { _tag: "call" }>): void {
    const { names, external, builtins, dropCalls, oneCall } = this.rules
    const places = (state.places ??= new Map())
    if (dropCalls) {
      places.set(event.index, undefined)
      return
    }
    const outward = names.outward(event.name) ?? (external.has(event.name) ? event.name : undefined)
    if (outward !== undefined && external.has(outward)) {
      const taken = oneCall && state.forwarded > 0
      places.set(event.index, taken ? undefined : state.forwarded)
      if (taken) return
      state.bare ??= new Set()
      state.bare.add(state.forwarded)
      this.output.event({ ...event, index: state.forwarded++, name: outward })
    } else if (builtins.has(event.name)) {
      const draft: ToolCallDraft = { id: event.id, name: event.name, arguments: "" }
      this.builtinCalls.push(draft)
      places.set(event.index, draft)
    } else {
      this.unknownCalls++
      places.set(event.index, undefined)
    }
  }

  /** Everything held is told; the finishes are still the caller's. */
  settle(): void {
    for (const [choice, state] of this.choices.list) {
      if (state.bridge !== undefined) {
        const { text, calls } = state.bridge.end()
        this.text(state, choice, text, { _tag: "text", choice, text: "" })
        for (const [i, { id, name, arguments: args }] of calls.entries()) {
          this.bridged.push({ id, name: this.rules.names.outward(name) ?? name, arguments: args })
          this.call(state, { _tag: "call", choice, index: i, id, name })
          this.event({ _tag: "arguments", choice, index: i, text: args })
        }
      }
      // No arguments are published as an empty object, streamed or not.
      if (state.bare !== undefined)
        for (const index of state.bare) this.output.event({ _tag: "arguments", choice, index, text: "{}" })
      const tail = state.text?.end() ?? ""
      const thought = state.reasoning?.end() ?? ""
      if (thought !== "") this.output.event({ _tag: "reasoning", choice, text: thought })
      if (tail !== "") {
        state.content = true
        if (this.rules.keepsText && choice === 0) this.said += tail
        this.output.event({ _tag: "text", choice, text: tail })
      }
    }
  }

  /** A choice with calls ends by them, except when it was cut short or withheld. */
  finishes(): ReadonlyArray<Extract<ModelEvent, { _tag: "finish" }>> {
    return this.choices.list.map(([choice, { finish = "stop", forwarded }]) => ({
      _tag: "finish" as const,
      choice,
      reason: this.cut
        ? ("length" as const)
        : finish === "length" || finish === "content_filter"
          ? finish
          : forwarded > 0
            ? ("tool_calls" as const)
            : ("stop" as const)
    }))
  }

  get calls(): number {
    return this.choices.list.reduce((calls, [, { forwarded }]) => calls + forwarded, 0)
  }

  get content(): boolean {
    return this.choices.list.some(([, { content }]) => content)
  }

  asToolCalls(): ReadonlyArray<ToolCall> {
    return this.builtinCalls.map(({ id, name, arguments: args }) => ({ id, name, arguments: args }))
  }
}

/** Collects nothing, tells nothing: for a choice of its own among several parallel calls. */
export const renumbered = (sink: ModelSink, choice: number, onUsage: (usage: Usage) => void): ModelSink => ({
  onFirstEvent: (flow) => sink.onFirstEvent(flow),
  flush: () => sink.flush(),
  event: (event) => {
    if (event._tag === "usage") onUsage(event.usage)
    else sink.event("choice" in event ? { ...event, choice } : event)
  }
})
