/** The output items of a response while they are built, and their JSON.
 *  Source: docs/spec/chat.md, section 9.4. */
import type { Json } from "../request/json-body.ts"

export interface ReasoningItem {
  readonly _tag: "Reasoning"
  readonly id: string
  text: string
  open: boolean
}

export interface MessagePart {
  readonly type: "output_text" | "refusal"
  text: string
  readonly logprobs: Array<unknown>
}

export interface MessageItem {
  readonly _tag: "Message"
  readonly id: string
  readonly parts: Array<MessagePart>
  open: boolean
}

export interface CallItem {
  readonly _tag: "Call"
  readonly id: string
  readonly callId: string
  readonly name: string
  arguments: string
  open: boolean
}

export type OutputItem = ReasoningItem | MessageItem | CallItem

export const partJson = ({ type, text, logprobs }: MessagePart): Json =>
  type === "refusal" ? { type, refusal: text } : { type, text, annotations: [], logprobs }

export interface ItemView {
  readonly status: string
  /** The item has just been added: it has no content yet. */
  readonly empty: boolean
  readonly summarized: boolean
  readonly upstreamState: ReadonlyArray<unknown>
}

/** The reasoning in the upstream's own encryption, where it gave any. */
const encryptedContent = (upstreamState: ReadonlyArray<unknown>): Json => {
  for (const value of upstreamState) {
    const content = (value as { readonly encrypted_content?: unknown } | null | undefined)?.encrypted_content
    if (typeof content === "string") return { encrypted_content: content }
  }
  return {}
}

const reasoningJson = ({ id, text }: ReasoningItem, view: ItemView): Json => {
  const { status, empty, summarized, upstreamState } = view
  if (summarized)
    return { id, type: "reasoning", summary: empty ? [] : [{ type: "summary_text", text }], status }
  return {
    id,
    type: "reasoning",
    summary: [],
    ...(empty ? {} : { content: [{ type: "reasoning_text", text }] }),
    status,
    ...encryptedContent(upstreamState)
  }
}

export const itemJson = (item: OutputItem, view: ItemView): Json => {
  const { status, empty } = view
  switch (item._tag) {
    case "Reasoning":
      return reasoningJson(item, view)
    case "Message":
      return {
        id: item.id,
        type: "message",
        status,
        role: "assistant",
        content: empty ? [] : item.parts.map(partJson)
      }
    case "Call":
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
