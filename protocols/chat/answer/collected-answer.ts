/** Collects model events into one whole answer, which the non-streaming endpoint sends.
 *  Source: docs/spec/chat.md, section 7.3. */
import type { Finish, ModelEvent, Usage } from "../../../actors/engines/chat/model.ts"
import type { Output } from "../turn/chunk-rewriter.ts"
import type { Choice } from "../wire.ts"

interface ToolCallDraft {
  readonly id: string
  readonly name: string
  arguments: string
}

interface ChoiceDraft {
  text: string
  reasoning: string
  refusal: string
  calls: Array<ToolCallDraft>
  finish: Finish
  audio: unknown
  logprobs: { content: Array<unknown> } | undefined
}

/** The entries of an upstream's log probabilities, where it gave any. */
export const logprobsContent = (logprobs: unknown): ReadonlyArray<unknown> | undefined => {
  const content = (logprobs as { readonly content?: unknown } | undefined)?.content
  return Array.isArray(content) ? content : undefined
}

export class CollectedAnswer implements Output {
  /** Nothing is sent before the answer is complete, so every attempt may be repeated. */
  readonly firstEventSent = false

  private drafts: Array<ChoiceDraft> = []
  usage: Usage | undefined = undefined

  onFirstEvent(): void {}
  flush(): void {}

  reset(): void {
    this.drafts = []
    this.usage = undefined
  }

  private choice(index: number): ChoiceDraft {
    this.drafts[index] ??= {
      text: "",
      reasoning: "",
      refusal: "",
      calls: [],
      finish: "stop",
      audio: undefined,
      logprobs: undefined
    }
    return this.drafts[index]
  }

  event(event: ModelEvent): void {
    switch (event._tag) {
      case "text":
        return this.addText(this.choice(event.choice), event.text, event.logprobs)
      case "reasoning":
        this.choice(event.choice).reasoning += event.text
        return
      case "refusal":
        this.choice(event.choice).refusal += event.text
        return
      case "audio":
        this.choice(event.choice).audio = event.value
        return
      case "call":
        this.choice(event.choice).calls[event.index] = { id: event.id, name: event.name, arguments: "" }
        return
      case "arguments":
        this.choice(event.choice).calls[event.index]!.arguments += event.text
        return
      case "finish":
        this.choice(event.choice).finish = event.reason
        return
      case "usage":
        this.usage = event.usage
        return
      case "provider_state":
        return
    }
  }

  private addText(draft: ChoiceDraft, text: string, logprobs: unknown): void {
    draft.text += text
    const content = logprobsContent(logprobs)
    if (content === undefined) return
    draft.logprobs ??= { content: [] }
    draft.logprobs.content.push(...content)
  }

  /** The choices received, in their order. */
  get choices(): ReadonlyArray<Choice> {
    return this.drafts.flatMap((draft) =>
      draft.logprobs === undefined ? draft : { ...draft, logprobs: { ...draft.logprobs, refusal: null } }
    )
  }
}
