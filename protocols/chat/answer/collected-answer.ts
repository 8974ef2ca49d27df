/** A whole answer gathered from events: what the non-streaming endpoints send. Source: chat section 7.3. */
import type { Finish, Flow, ModelEvent, Usage } from "../../../actors/engines/chat/model.ts"
import type { Output } from "../turn/chunk-rewriter.ts"
import type { Choice } from "../wire.ts"

interface ToolCallDraft {
  readonly id: string
  readonly name: string
  arguments: string
}

interface Draft {
  text: string
  reasoning: string
  refusal: string
  calls: Array<ToolCallDraft>
  finish: Finish
  audio: unknown
  logprobs: { content: Array<unknown> } | undefined
}

export class CollectedAnswer implements Output {
  readonly firstEventSent = false
  private drafts: Array<Draft> = []
  usage: Usage | undefined = undefined
  onFirstEvent(_flow?: Flow): void {}
  flush(): void {}

  reset(): void {
    this.drafts = []
    this.usage = undefined
  }

  private of(choice: number): Draft {
    return (this.drafts[choice] ??= {
      text: "",
      reasoning: "",
      refusal: "",
      calls: [],
      finish: "stop",
      audio: undefined,
      logprobs: undefined
    })
  }

  event(event: ModelEvent): void {
    switch (event._tag) {
      case "text": {
        const draft = this.of(event.choice)
        draft.text += event.text
        const content = (event.logprobs as { readonly content?: unknown } | undefined)?.content
        if (Array.isArray(content)) (draft.logprobs ??= { content: [] }).content.push(...content)
        return
      }
      case "reasoning": {
        this.of(event.choice).reasoning += event.text
        return
      }
      case "refusal": {
        this.of(event.choice).refusal += event.text
        return
      }
      case "audio": {
        this.of(event.choice).audio = event.value
        return
      }
      case "call": {
        this.of(event.choice).calls[event.index] = { id: event.id, name: event.name, arguments: "" }
        return
      }
      case "arguments": {
        this.of(event.choice).calls[event.index]!.arguments += event.text
        return
      }
      case "finish": {
        this.of(event.choice).finish = event.reason
        return
      }
      case "usage": {
        this.usage = event.usage
        return
      }
      case "provider_state":
        return
    }
  }

  /** Without those that never came. */
  get choices(): ReadonlyArray<Choice> {
    return this.drafts.flatMap((draft) =>
      draft.logprobs === undefined ? draft : { ...draft, logprobs: { ...draft.logprobs, refusal: null } }
    )
  }
}
