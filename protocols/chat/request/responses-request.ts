/** POST /v1/responses: reads the body to a turn. Guarantee: fields are checked in the order of the
 *  specification's tables, and rules over several fields after all of them.
 *  Source: docs/spec/chat.md, sections 5.2 and 9.1 to 9.3. */
import type { Effort, Format, Message, Tool } from "../../../actors/engines/chat/model.ts"
import { missing, Refusal, wrongType } from "../problems.ts"
import { Fields } from "./fields.ts"
import { isObject, type Json } from "./json-body.ts"
import { messagesOf, readItems, type FindItem, type Item } from "./response-items.ts"
import { checkChoice, readChoice, readTools, type RequestTools } from "./tools.ts"
import { readEffort, readFormat, readModel, type TurnSpec } from "./turn-spec.ts"

export interface ResponsesSpec extends TurnSpec {
  readonly previousId: string | undefined
  readonly instructions: string | undefined
  readonly items: ReadonlyArray<Item>
  /** This turn's own part of the context; the request's messages begin with its ancestors'. */
  readonly ownMessages: ReadonlyArray<Message>
  readonly store: boolean
  readonly background: boolean
  readonly truncation: "auto" | "disabled"
  /** Members of the response object that repeat the request. */
  readonly echo: Json
  /** The client receives a summary of the reasoning instead of its text. */
  readonly summarized: boolean
}

/** Look-ups that reading items and tools requires. */
export interface ResponsesLookup {
  readonly findItem: FindItem
  readonly hasHostedTools: (model: string) => boolean
}

const inputNames = ["messages", "prompt", "input"] as const

const isFilled = (value: unknown): boolean =>
  value !== undefined && value !== "" && !(Array.isArray(value) && value.length === 0)

/** Returns which of the three inputs counts, or undefined for a pure continuation. */
const inputName = (fields: Fields): (typeof inputNames)[number] | undefined => {
  if (isObject(fields.raw("prompt"))) throw new Refusal({ _tag: "PromptTemplate" })
  const filled = inputNames.find((name) => isFilled(fields.raw(name)))
  if (filled !== undefined) return filled
  const hasEmptyInput = inputNames.some((name) => Array.isArray(fields.raw(name)))
  if (!hasEmptyInput || !fields.has("previous_response_id")) throw missing("input")
  return undefined
}

const metadataMax = 16
const metadataKeyMax = 64
const metadataValueMax = 512

const tooLong = (kind: "array" | "string", param: string, max: number): Refusal =>
  new Refusal({ _tag: "TooLong", param, kind, max })

const readMetadata = (fields: Fields): Json => {
  const metadata = fields.plain("metadata") ?? {}
  const names = Object.keys(metadata)
  if (names.length > metadataMax) throw tooLong("array", "metadata", metadataMax)
  for (const name of names) {
    if (name.length > metadataKeyMax) throw tooLong("string", "metadata", metadataKeyMax)
    const value = metadata[name]
    if (typeof value !== "string") throw wrongType(`metadata.${name.slice(0, metadataKeyMax)}`, "a string")
    if (value.length > metadataValueMax) throw tooLong("string", `metadata.${name}`, metadataValueMax)
  }
  return metadata
}

interface ReasoningFields {
  readonly effort: Effort | undefined
  /** The effort in the client's word, for the echo. */
  readonly effortWord: unknown
  readonly summary: string | undefined
}

/** `reasoning.effort` counts before the chat endpoint's `reasoning_effort`; both are checked. */
const readReasoning = (fields: Fields): ReasoningFields => {
  const reasoning = fields.object("reasoning")
  const nestedEffort = reasoning === undefined ? undefined : readEffort(reasoning, "effort")
  const flatEffort = readEffort(fields, "reasoning_effort")
  const summary = reasoning?.choice("summary", ["auto", "concise", "detailed"])
  return {
    effort: reasoning?.has("effort") === true ? nestedEffort : flatEffort,
    effortWord: reasoning?.raw("effort") ?? fields.raw("reasoning_effort") ?? null,
    summary
  }
}

interface TextFields {
  readonly format: Format | undefined
  readonly verbosity: unknown
  /** The `text` member of the response object. */
  readonly echo: Json
}

const readText = (fields: Fields): TextFields => {
  const text = fields.object("text")
  const format = readFormat(text?.object("format"), false)
  const verbosity = text?.raw("verbosity")
  const formatEcho = text?.plain("format") ?? { type: "text" }
  const echo = verbosity === undefined ? { format: formatEcho } : { format: formatEcho, verbosity }
  return { format, verbosity, echo }
}

/** True when the log probabilities of the text are to be included. */
const readInclude = (fields: Fields): boolean => {
  const include = fields.array("include") ?? []
  for (const [i, word] of include.entries())
    if (typeof word !== "string") throw wrongType(`include[${i}]`, "a string")
  return include.includes("message.output_text.logprobs")
}

const hintNames = ["service_tier", "prompt_cache_key", "safety_identifier"]

const readHints = (fields: Fields, verbosity: unknown): Record<string, unknown> | undefined => {
  const hints: Record<string, unknown> = {}
  for (const name of hintNames) if (fields.has(name)) hints[name] = fields.raw(name)
  if (verbosity !== undefined) hints["verbosity"] = verbosity
  return Object.keys(hints).length === 0 ? undefined : hints
}

const flatTool = ({ name, description, parameters, strict }: Tool): Json => ({
  type: "function",
  name,
  description: description ?? null,
  parameters,
  strict: strict ?? false
})

const hasHosted = (requestTools: RequestTools | undefined): boolean =>
  requestTools !== undefined && requestTools.hosted.length > 0

/** The fields from `reasoning` to `conversation`, in their order. */
const readOptions = (fields: Fields) => {
  const reasoning = readReasoning(fields)
  const instructions = fields.string("instructions")
  const choice = readChoice(fields, "tool_choice", true)
  const parallel = fields.boolean("parallel_tool_calls")
  const outputTokens = fields.integer("max_output_tokens", 1)
  const tokens = fields.integer("max_tokens", 1)
  const temperature = fields.number("temperature", 0, 2)
  const topP = fields.number("top_p", 0, 1)
  const text = readText(fields)
  const store = fields.boolean("store") ?? true
  const background = fields.boolean("background") ?? false
  const metadata = readMetadata(fields)
  const truncation = fields.choice("truncation", ["disabled", "auto"]) ?? ("disabled" as const)
  const logprobs = readInclude(fields)
  const topLogprobs = fields.integer("top_logprobs", 0, 20)
  fields.object("stream_options")
  if (fields.has("conversation")) throw new Refusal({ _tag: "UnsupportedParameter", param: "conversation" })
  const user = fields.raw("user")
  return {
    reasoning,
    instructions,
    choice,
    parallel,
    maxTokens: outputTokens ?? tokens,
    temperature,
    topP,
    text,
    store,
    background,
    metadata,
    truncation,
    logprobs,
    topLogprobs,
    user: typeof user === "string" ? user : undefined
  }
}

interface EchoSource {
  readonly fields: Fields
  readonly options: ReturnType<typeof readOptions>
  readonly requestTools: RequestTools | undefined
  readonly model: string
  readonly previousId: string | undefined
}

const echoOf = ({ fields, options, requestTools, model, previousId }: EchoSource): Json => ({
  instructions: options.instructions ?? null,
  max_output_tokens: options.maxTokens ?? null,
  model,
  parallel_tool_calls: options.parallel ?? true,
  previous_response_id: previousId ?? null,
  reasoning: { effort: options.reasoning.effortWord, summary: options.reasoning.summary ?? null },
  service_tier: "default",
  store: options.store,
  temperature: options.temperature ?? 1,
  top_p: options.topP ?? 1,
  text: options.text.echo,
  tool_choice: fields.raw("tool_choice") ?? "auto",
  tools: [...(requestTools?.tools ?? []).map(flatTool), ...(requestTools?.hosted ?? [])],
  top_logprobs: options.topLogprobs ?? 0,
  truncation: options.truncation,
  user: options.user ?? null,
  metadata: options.metadata
})

export const readResponses = (body: Json, { findItem, hasHostedTools }: ResponsesLookup): ResponsesSpec => {
  const fields = new Fields(body)
  const model = readModel(fields)
  const input = inputName(fields)
  const items = input === undefined ? [] : readItems(fields, input, findItem)
  const previousId = fields.string("previous_response_id", { max: 128 })
  const requestTools = readTools(fields, { flat: true, hosted: hasHostedTools(model) })
  const stream = fields.boolean("stream") ?? false
  const options = readOptions(fields)
  const { reasoning, choice, text, logprobs } = options

  if (options.background && !options.store) throw new Refusal({ _tag: "BackgroundWithoutStore" })
  const tools = requestTools?.tools
  if (!hasHosted(requestTools)) checkChoice(choice, tools)

  const ownMessages = messagesOf(items)
  return {
    model,
    previousId,
    instructions: options.instructions,
    items,
    ownMessages,
    store: options.store,
    background: options.background,
    truncation: options.truncation,
    external: requestTools !== undefined,
    choice,
    summarized: reasoning.summary !== undefined,
    request: {
      model: "",
      messages: ownMessages,
      stream,
      tools,
      toolChoice: choice.choice,
      parallel: options.parallel,
      temperature: options.temperature,
      topP: options.topP,
      maxTokens: options.maxTokens,
      effort: reasoning.effort,
      format: text.format,
      logprobs: logprobs ? true : undefined,
      topLogprobs: logprobs ? options.topLogprobs : undefined,
      summary: reasoning.summary,
      user: options.user,
      hints: readHints(fields, text.verbosity),
      unknown: hasHosted(requestTools) ? { tools: requestTools!.hosted } : undefined
    },
    echo: echoOf({ fields, options, requestTools, model, previousId })
  }
}
