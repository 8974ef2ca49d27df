/** The chat-model port: one normal form of request and answer for every dialect. A model pushes events
 *  into a sink, which slows it down through `Flow`. It is guaranteed that aborting the signal ends the
 *  call and frees what it holds. Source: docs/spec/chat.md, sections 12 and 13. */
import { Data } from "effect"
import type { Abort } from "./abort.ts"

export type Part =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "refusal"; readonly text: string }
  /** `url` is a data URL (base64) or http(s). */
  | { readonly type: "image"; readonly url: string; readonly detail?: string }
  | { readonly type: "audio"; readonly data: string; readonly format: string }
  /** `data` is a data URL. */
  | { readonly type: "file"; readonly data: string; readonly filename: string }

export interface ToolCall {
  readonly id: string
  readonly name: string
  /** The JSON text as the model wrote it, which may be broken. */
  readonly arguments: string
}

/** Data that only the upstream which made it understands (thinking signatures, encrypted reasoning),
 *  handed back with the next turn. */
export interface ProviderState {
  readonly upstream: string
  readonly value: unknown
}

export interface Message {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool"
  readonly content: string | ReadonlyArray<Part> | null
  readonly calls?: ReadonlyArray<ToolCall>
  /** The call that a message of role `tool` answers. */
  readonly callId?: string
  readonly reasoning?: string
  readonly bound?: ReadonlyArray<ProviderState>
}

export interface Tool {
  readonly name: string
  readonly description?: string
  readonly parameters: Readonly<Record<string, unknown>>
  readonly strict?: boolean
}

export type ToolChoice = "auto" | "none" | "required" | { readonly name: string }

export type Format =
  | { readonly type: "json_object" }
  | {
      readonly type: "json_schema"
      readonly name: string
      readonly schema: Readonly<Record<string, unknown>>
      readonly strict?: boolean
      readonly description?: string
    }

export type Effort = "none" | "low" | "medium" | "high"

/** One request, in the normal form; what is undefined was not asked for. */
export interface ModelRequest {
  /** The model's name at its upstream. */
  readonly model: string
  readonly messages: ReadonlyArray<Message>
  /** The messages as JSON text in OpenAI's words, as the client wrote it, where that says just the same. */
  readonly verbatim?: string | undefined
  readonly stream: boolean
  readonly tools?: ReadonlyArray<Tool> | undefined
  readonly toolChoice?: ToolChoice | undefined
  readonly parallel?: boolean | undefined
  readonly temperature?: number | undefined
  readonly topP?: number | undefined
  readonly maxTokens?: number | undefined
  readonly stop?: ReadonlyArray<string> | undefined
  readonly seed?: number | undefined
  readonly frequencyPenalty?: number | undefined
  readonly presencePenalty?: number | undefined
  readonly logitBias?: Readonly<Record<string, number>> | undefined
  readonly logprobs?: boolean | undefined
  readonly topLogprobs?: number | undefined
  readonly n?: number | undefined
  readonly format?: Format | undefined
  readonly effort?: Effort | undefined
  /** The kind of reasoning summary that was asked for. */
  readonly summary?: string | undefined
  /** How the answer is to be spoken, besides written, in OpenAI's words. */
  readonly audio?: Readonly<Record<string, unknown>> | undefined
  readonly user?: string | undefined
  /** Fields that OpenAI-style upstreams get as they are. */
  readonly hints?: Readonly<Record<string, unknown>> | undefined
  /** Top-level fields of the client that no table has; they are forwarded with `passUnknown` only. */
  readonly unknown?: Readonly<Record<string, unknown>> | undefined
  /** The upstream's own id of the previous answer (`upstreamSessions`); `messages` is the whole context all
   *  the same, `freshFrom` where the new part begins. */
  readonly continues?: { readonly id: string; readonly freshFrom: number } | undefined
}

export interface Usage {
  readonly input: number
  readonly output: number
  readonly cached: number
  readonly reasoning: number
}

export type Finish = "stop" | "length" | "tool_calls" | "content_filter"

export type ModelEvent =
  | { readonly _tag: "text"; readonly choice: number; readonly text: string; readonly logprobs?: unknown }
  | { readonly _tag: "reasoning"; readonly choice: number; readonly text: string }
  | { readonly _tag: "refusal"; readonly choice: number; readonly text: string }
  /** `value` is what the model sent, whole or a delta. */
  | { readonly _tag: "audio"; readonly choice: number; readonly value: { readonly data?: unknown } }
  /** Begins a call, whose arguments follow. `index` counts the calls of a choice. */
  | {
      readonly _tag: "call"
      readonly choice: number
      readonly index: number
      readonly id: string
      readonly name: string
    }
  | { readonly _tag: "arguments"; readonly choice: number; readonly index: number; readonly text: string }
  | { readonly _tag: "finish"; readonly choice: number; readonly reason: Finish }
  | { readonly _tag: "usage"; readonly usage: Usage }
  /** Is stored with the answer for this upstream alone. */
  | { readonly _tag: "provider_state"; readonly value: unknown }

export interface Flow {
  pause(): void
  resume(): void
}

export interface ModelSink {
  /** Is called at the first sign of an answer, once, before any event. */
  onFirstEvent(flow?: Flow): void
  event(event: ModelEvent): void
  /** Takes a text delta of choice 0 as JSON.stringify would write it, without the quotes (hot path);
   *  `bytes` is the length of the text itself. A sink without it gets parsed events only. */
  rawTextDelta?: ((text: string, bytes: number) => void) | undefined
  /** Is called after all events of one read. */
  flush(): void
}

/** Says why an upstream gave no answer, or no whole one. */
export class UpstreamFault extends Data.TaggedError("UpstreamFault")<{
  readonly reason:
    | "unavailable"
    | "connect-timeout"
    | "timeout"
    | "gateway-timeout"
    | "bad-request"
    | "context"
    | "auth"
    | "not-found"
    | "error"
    | "too-large"
    | "rate-limited"
    | "overloaded"
    | "bad-response"
    | "aborted"
    | "unsupported"
    | "queue-full"
    | "broken"
  readonly detail: string
  readonly param?: string | null
  readonly code?: string | null
  readonly retryAfterMs?: number | undefined
  /** True when a connection that had rested was found closed: it says nothing about the upstream. */
  readonly isStale?: boolean
}> {
  override get message(): string {
    return `upstream ${this.reason}: ${this.detail}`
  }
}

export const badResponse = (detail: string): UpstreamFault =>
  new UpstreamFault({ reason: "bad-response", detail })

export interface ListedModel {
  readonly id: string
  readonly created?: number | undefined
  readonly ownedBy?: string | undefined
}

export type Hint = "seed" | "frequencyPenalty" | "presencePenalty" | "logitBias" | "hints"

/** What a model can take; what is absent, it can. */
export interface Supports {
  readonly tools?: boolean
  readonly images?: boolean
  readonly audio?: boolean
  readonly files?: boolean
  readonly json_schema?: boolean
  readonly logprobs?: boolean
  readonly n?: boolean
  readonly stream?: boolean
  readonly usage?: boolean
  readonly hints?: boolean
  readonly tool_choice_none?: boolean
  readonly effort_levels?: boolean
  readonly stop?: boolean
  /** The hints that it cannot take, where it can take some. */
  readonly lacks?: ReadonlyArray<Hint>
  /** False where tools go through the prompt. */
  readonly native_tools?: boolean
}

export interface ChatModel {
  readonly supports: Supports
  /** Is there where models of one upstream differ. */
  supportsFor?(model: string): Supports | undefined
  /** Resolves when the whole answer has been pushed; rejects with UpstreamFault. */
  generate(request: ModelRequest, sink: ModelSink, signal: Abort): Promise<void>
  list(signal: AbortSignal): Promise<ReadonlyArray<ListedModel>>
  /** Makes the upstream forget its own session, as far as it can. */
  forget?(id: string): Promise<void>
  close(): void
}

export const textOf = (content: Message["content"]): string => {
  if (content === null) return ""
  if (typeof content === "string") return content
  return content.map((part) => (part.type === "text" || part.type === "refusal" ? part.text : "")).join("")
}

/** Parses arguments for dialects that want an object; what is none goes to the model as it was. */
export const argumentsObject = (text: string): Record<string, unknown> => {
  try {
    const value: unknown = JSON.parse(text === "" ? "{}" : text)
    if (typeof value === "object" && value !== null && !Array.isArray(value))
      return value as Record<string, unknown>
  } catch {
    /* broken */
  }
  return { _raw: text }
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

/** Makes an id of `call_` and 24 letters or digits. */
export const newCallId = (): string => {
  let id = "call_"
  for (const byte of crypto.getRandomValues(new Uint8Array(24))) id += alphabet[byte % alphabet.length]
  return id
}

/** Estimates tokens as ceil(bytes / 4), where an upstream does not count. */
export const estimated = (text: string): number => Math.ceil(Buffer.byteLength(text) / 4)
