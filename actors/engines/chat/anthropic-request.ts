/** Writes a request in the words of Anthropic's Messages interface. It is guaranteed that messages alternate
 *  between user and assistant, begin with a user, and have a tool's results before anything else of their
 *  turn.
 *  Source: docs/spec/chat.md, sections 7.6 (structured output by a forced tool), 12 (effort as a thinking
 *  budget) and 13.3 (mapping). */
import type { UpstreamHttp } from "./http-client.ts"
import {
  argumentsObject,
  textOf,
  UpstreamFault,
  type Message,
  type ModelRequest,
  type Part,
  type ToolChoice
} from "./model.ts"

export interface AnthropicOptions {
  readonly id: string
  readonly http: UpstreamHttp
  readonly maxTokens: number
}

const thinkingBudgets = { low: 1_024, medium: 4_096, high: 16_384 } as const

/** The tool whose arguments are a structured answer. */
export const jsonTool = "json_output"

export type Block = Readonly<Record<string, unknown>>

interface InlineData {
  readonly type: string
  readonly data: string
}

const dataUrl = (url: string): InlineData | undefined => {
  const match = /^data:([^;,]+);base64,/.exec(url)
  return match === null ? undefined : { type: match[1]!, data: url.slice(match[0].length) }
}

const block = (part: Part): Block => {
  switch (part.type) {
    case "text":
    case "refusal":
      return { type: "text", text: part.text }
    case "image": {
      const inline = dataUrl(part.url)
      return {
        type: "image",
        source:
          inline === undefined
            ? { type: "url", url: part.url }
            : { type: "base64", media_type: inline.type, data: inline.data }
      }
    }
    case "file": {
      const inline = dataUrl(part.data) ?? { type: "application/pdf", data: part.data }
      if (inline.type !== "application/pdf")
        throw new UpstreamFault({
          reason: "unsupported",
          detail: "this model takes PDF files only",
          param: "messages"
        })
      return { type: "document", source: { type: "base64", media_type: inline.type, data: inline.data } }
    }
    case "audio":
      throw new UpstreamFault({
        reason: "unsupported",
        detail: "this model takes no audio",
        param: "messages"
      })
  }
}

const blocksOf = (content: Message["content"]): ReadonlyArray<Block> => {
  if (content === null || content === "") return []
  return typeof content === "string" ? [{ type: "text", text: content }] : content.map(block)
}

/** The thinking that this upstream wrote itself, which it wants back unchanged. */
const thinkingOf = (message: Message, upstreamId: string): ReadonlyArray<Block> =>
  (message.bound ?? []).flatMap(({ upstream, value }) =>
    upstream === upstreamId && Array.isArray((value as any)?.thinking)
      ? (value as { readonly thinking: ReadonlyArray<Block> }).thinking
      : []
  )

const bodyOf = (message: Message, upstreamId: string): ReadonlyArray<Block> => {
  if (message.role === "tool")
    return [{ type: "tool_result", tool_use_id: message.callId, content: textOf(message.content) }]
  if (message.role === "user") return blocksOf(message.content)
  return [
    ...thinkingOf(message, upstreamId),
    ...blocksOf(message.content),
    ...(message.calls ?? []).map((call) => ({
      type: "tool_use",
      id: call.id,
      name: call.name,
      input: argumentsObject(call.arguments)
    }))
  ]
}

interface AnthropicMessage {
  readonly role: string
  readonly content: Array<Block>
}

const isSystem = ({ role }: Message): boolean => role === "system" || role === "developer"

/** Merges neighbours of one role, puts results before anything else of their turn, and a user first. */
const messagesOf = (
  messages: ReadonlyArray<Message>,
  upstreamId: string
): ReadonlyArray<AnthropicMessage> => {
  const merged: Array<AnthropicMessage> = []
  for (const message of messages) {
    if (isSystem(message)) continue
    const role = message.role === "assistant" ? "assistant" : "user"
    const body = bodyOf(message, upstreamId)
    const last = merged.at(-1)
    if (body.length === 0) continue
    if (last?.role === role) last.content.push(...body)
    else merged.push({ role, content: [...body] })
  }
  for (const turn of merged)
    if (turn.role === "user")
      turn.content.sort((a, b) => Number(b["type"] === "tool_result") - Number(a["type"] === "tool_result"))
  return merged[0]?.role === "user"
    ? merged
    : [{ role: "user", content: [{ type: "text", text: "." }] }, ...merged]
}

/** Requests structured output: by a forced tool where nothing prevents it, otherwise by instructions. */
const jsonInstructionsOf = ({ format }: ModelRequest, asTool: boolean): ReadonlyArray<string> => {
  if (format?.type === "json_object") return ["Answer with one JSON object and nothing else."]
  if (format === undefined || asTool) return []
  return [`Answer with JSON of this schema and nothing else: ${JSON.stringify(format.schema)}`]
}

const systemOf = (request: ModelRequest, asTool: boolean): string | undefined => {
  const instructions = [
    ...request.messages.filter(isSystem).map(({ content }) => textOf(content)),
    ...jsonInstructionsOf(request, asTool)
  ].filter((text) => text !== "")
  return instructions.length === 0 ? undefined : instructions.join("\n\n")
}

/** Converts the tool choice to Anthropic's words. A model that thinks cannot be forced to call a tool. */
const choiceOf = (choice: ToolChoice | undefined, thinks: boolean): Block | undefined => {
  if (choice === undefined) return undefined
  if (typeof choice === "object") return thinks ? undefined : { type: "tool", name: choice.name }
  if (choice === "required") return thinks ? undefined : { type: "any" }
  return { type: choice }
}

const toolChoiceOf = ({ toolChoice, parallel }: ModelRequest, thinks: boolean): Block | undefined => {
  const choice = choiceOf(toolChoice, thinks)
  if (parallel !== false || choice?.["type"] === "none") return choice
  return { ...(choice ?? { type: "auto" }), disable_parallel_tool_use: true }
}

/** Writes the tools and the choice among them; the tool of structured output is offered alone. */
const toolsOf = (request: ModelRequest, asTool: boolean, thinks: boolean): Block => {
  const { format, tools = [] } = request
  if (asTool && format?.type === "json_schema")
    return {
      tools: [
        { name: jsonTool, description: format.description ?? "The answer.", input_schema: format.schema }
      ],
      tool_choice: { type: "tool", name: jsonTool }
    }
  if (tools.length === 0) return {}
  return {
    tools: tools.map(({ name, description, parameters }) => ({
      name,
      description,
      input_schema: parameters
    })),
    tool_choice: toolChoiceOf(request, thinks)
  }
}

const thinkingParameterOf = (
  effort: ModelRequest["effort"],
  budget: number | undefined
): Block | undefined => {
  if (effort === undefined) return undefined
  return budget === undefined ? { type: "disabled" } : { type: "enabled", budget_tokens: budget }
}

export interface AnthropicRequest {
  readonly body: Block
  /** True when the answer's text arrives as the arguments of `jsonTool`. */
  readonly answersByTool: boolean
}

/** Writes the body of POST /v1/messages; undefined members are left out by JSON. */
export const anthropicRequest = (
  request: ModelRequest,
  { id, maxTokens }: AnthropicOptions
): AnthropicRequest => {
  const { format, effort, tools = [], temperature } = request
  const budget = effort === undefined || effort === "none" ? undefined : thinkingBudgets[effort]
  const thinks = budget !== undefined
  const answersByTool = format?.type === "json_schema" && tools.length === 0 && !thinks
  const limit = request.maxTokens ?? maxTokens
  const stops = request.stop?.filter((text) => text.trim() !== "") ?? []
  return {
    answersByTool,
    body: {
      model: request.model,
      messages: messagesOf(request.messages, id),
      max_tokens: thinks ? Math.max(limit + budget, budget + 1) : limit,
      stream: request.stream,
      system: systemOf(request, answersByTool),
      ...toolsOf(request, answersByTool, thinks),
      temperature: thinks || temperature === undefined ? undefined : Math.min(1, temperature),
      top_p: thinks ? undefined : request.topP,
      stop_sequences: stops.length === 0 ? undefined : stops,
      metadata: request.user === undefined ? undefined : { user_id: request.user },
      thinking: thinkingParameterOf(effort, budget)
    }
  }
}
