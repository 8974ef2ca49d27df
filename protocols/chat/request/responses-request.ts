/** POST /v1/responses: the body into a turn, in the order of the specification's tables. Source: chat
 *  sections 5.2, 9.1 to 9.3. */
import type { Message, Tool } from "../../../actors/engines/chat/model.ts"
import { readEffort, readFormat, readModel, type TurnSpec } from "./completions-request.ts"
import { Fields, isObject, type Json } from "./fields.ts"
import { messagesOf, readItems, type FindItem, type Item } from "./response-items.ts"
import { badValue, missing, tooLong, unsupportedParameter, unsupportedValue, wrongType } from "../problems.ts"
import { checkChoice, readChoice, readTools } from "./tools.ts"

export interface ResponsesSpec extends TurnSpec {
  readonly previousId: string | undefined
  readonly instructions: string | undefined
  readonly items: ReadonlyArray<Item>
  /** This turn's own part of the context; the request's messages begin with its ancestors. */
  readonly own: ReadonlyArray<Message>
  readonly store: boolean
  readonly background: boolean
  readonly truncation: "auto" | "disabled"
  /** Members of the response object that repeat the request. */
  readonly echo: Json
  /** A summary of the reasoning instead of its text. */
  readonly summarized: boolean
}

const inputs = ["messages", "prompt", "input"] as const

const filled = (value: unknown): boolean =>
  value !== undefined && value !== "" && !(Array.isArray(value) && value.length === 0)

const metadataMax = 16
const metadataKeyMax = 64
const metadataValueMax = 512

const readMetadata = (fields: Fields): Json => {
  const given = fields.plain("metadata") ?? {}
  const names = Object.keys(given)
  if (names.length > metadataMax) throw tooLong("array", "metadata", metadataMax)
  for (const name of names) {
    if (name.length > metadataKeyMax) throw tooLong("string", "metadata", metadataKeyMax)
    const value = given[name]
    if (typeof value !== "string") throw wrongType(`metadata.${name.slice(0, metadataKeyMax)}`, "a string")
    if (value.length > metadataValueMax) throw tooLong("string", `metadata.${name}`, metadataValueMax)
  }
  return given
}

/** Which of the three inputs counts; undefined: a pure continuation. */
const inputName = (fields: Fields): (typeof inputs)[number] | undefined => {
  const prompt = fields.raw("prompt")
  if (isObject(prompt)) throw unsupportedValue("prompt", "Stored prompt templates are not supported.")
  const name = inputs.find((one) => filled(fields.raw(one)))
  if (
    name === undefined &&
    !(fields.has("previous_response_id") && inputs.some((one) => Array.isArray(fields.raw(one))))
  )
    throw missing("input")
  return name
}

const flat = ({ name, description, parameters, strict }: Tool): Json => ({
  type: "function",
  name,
  description: description ?? null,
  parameters,
  strict: strict ?? false
})

export const readResponses = (
  body: Json,
  find: FindItem,
  nativeTools: (model: string) => boolean
): ResponsesSpec => {
  const fields = new Fields(body)
  const model = readModel(fields)
  const name = inputName(fields)
  const items = name === undefined ? [] : readItems(fields, name, find)
  const previousId = fields.string("previous_response_id", { max: 128 })
  const given = readTools(fields, { flat: true, native: nativeTools(model) })
  const stream = fields.boolean("stream") ?? false
  const reasoning = fields.object("reasoning")
  const inner = reasoning === undefined ? undefined : readEffort(reasoning, "effort")
  const outer = readEffort(fields, "reasoning_effort")
  const summary = reasoning?.choice("summary", ["auto", "concise", "detailed"])
  const instructions = fields.string("instructions")
  const choice = readChoice(fields, "tool_choice", true)
  const parallel = fields.boolean("parallel_tool_calls")
  const outputTokens = fields.integer("max_output_tokens", 1)
  const synonym = fields.integer("max_tokens", 1)
  const temperature = fields.number("temperature", 0, 2)
  const topP = fields.number("top_p", 0, 1)
  const text = fields.object("text")
  const format = readFormat(text?.object("format"), false)
  const store = fields.boolean("store") ?? true
  const background = fields.boolean("background") ?? false
  const metadata = readMetadata(fields)
  const truncation = fields.choice("truncation", ["disabled", "auto"]) ?? "disabled"
  const include = fields.array("include") ?? []
  for (const [i, word] of include.entries())
    if (typeof word !== "string") throw wrongType(`include[${i}]`, "a string")
  const topLogprobs = fields.integer("top_logprobs", 0, 20)
  fields.object("stream_options")
  if (fields.has("conversation")) throw unsupportedParameter("conversation")

  if (background && !store) throw badValue("background", "'background' needs 'store'.")
  const tools = given?.tools
  if (given === undefined || given.hosted.length === 0) checkChoice(choice, tools)
  const logprobs = include.includes("message.output_text.logprobs")
  const user = fields.raw("user")
  const effort = reasoning?.has("effort") === true ? inner : outer
  const shownEffort = reasoning?.raw("effort") ?? fields.raw("reasoning_effort") ?? null
  const hints = Object.fromEntries(
    ["service_tier", "prompt_cache_key", "safety_identifier"].flatMap((one) =>
      fields.has(one) ? [[one, fields.raw(one)]] : []
    )
  )
  if (text?.has("verbosity") === true) hints["verbosity"] = text.raw("verbosity")
  const maxTokens = outputTokens ?? synonym
  const own = messagesOf(items)
  return {
    model,
    previousId,
    instructions,
    items,
    own,
    store,
    background,
    truncation,
    external: given !== undefined,
    choice,
    summarized: summary !== undefined,
    request: {
      model: "",
      messages: own,
      stream,
      tools,
      toolChoice: choice.choice,
      parallel,
      temperature,
      topP,
      maxTokens,
      effort,
      format,
      logprobs: logprobs ? true : undefined,
      topLogprobs: logprobs ? topLogprobs : undefined,
      summary,
      user: typeof user === "string" ? user : undefined,
      hints: Object.keys(hints).length === 0 ? undefined : hints,
      unknown: given === undefined || given.hosted.length === 0 ? undefined : { tools: given.hosted }
    },
    echo: {
      instructions: instructions ?? null,
      max_output_tokens: maxTokens ?? null,
      model,
      parallel_tool_calls: parallel ?? true,
      previous_response_id: previousId ?? null,
      reasoning: { effort: shownEffort, summary: summary ?? null },
      service_tier: "default",
      store,
      temperature: temperature ?? 1,
      top_p: topP ?? 1,
      text: {
        format: text?.plain("format") ?? { type: "text" },
        ...(text?.has("verbosity") === true ? { verbosity: text.raw("verbosity") } : {})
      },
      tool_choice: fields.raw("tool_choice") ?? "auto",
      tools: [...(tools ?? []).map(flat), ...(given?.hosted ?? [])],
      top_logprobs: topLogprobs ?? 0,
      truncation,
      user: typeof user === "string" ? user : null,
      metadata
    }
  }
}
