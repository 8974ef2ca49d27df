/** POST /v1/chat/completions: the body into a turn. Checks run in the order of the specification's tables.
 *  Source: chat sections 5.2, 7.1. */
import type { Effort, Format, Message, ModelRequest, Tool } from "../../../actors/engines/chat/model.ts"
import { Fields, memberText, type Json } from "./fields.ts"
import { checkCalls, readMessage } from "./messages.ts"
import { badValue, missing, tooLong, wrongType } from "../problems.ts"
import { checkChoice, readChoice, readFunctions, readTools, type ToolChoiceSpec } from "./tools.ts"

/** What a turn needs, whichever endpoint it came by. */
export interface TurnSpec {
  /** As the client wrote it. */
  readonly model: string
  /** `model` is filled in when the upstream is known. */
  readonly request: ModelRequest
  /** The request named tools, maybe none: built-ins are off. */
  readonly external: boolean
  readonly choice: ToolChoiceSpec
}

export interface CompletionsSpec extends TurnSpec {
  readonly includeUsage: boolean
  readonly legacy: boolean
}

const efforts: Record<string, Effort> = {
  none: "none",
  minimal: "none",
  low: "low",
  medium: "medium",
  high: "high",
  xhigh: "high",
  max: "high"
}

export const readEffort = (fields: Fields, name: string): Effort | undefined => {
  const word = fields.string(name)
  if (word === undefined) return undefined
  if (!Object.hasOwn(efforts, word))
    throw badValue(
      fields.path(name),
      `Invalid value for '${fields.path(name)}': supported are ${Object.keys(efforts)
        .map((one) => `'${one}'`)
        .join(", ")}.`
    )
  return efforts[word]
}

const formatName = /^[A-Za-z0-9_-]{1,64}$/

/** `inner` is where name and schema stand: chat nests them. */
export const readFormat = (format: Fields | undefined, nested: boolean): Format | undefined => {
  if (format === undefined) return undefined
  const type = format.choice("type", ["text", "json_object", "json_schema"])
  if (type === undefined) throw missing(format.path("type"))
  if (type === "text") return undefined
  if (type === "json_object") return { type }
  const inner = nested ? format.object("json_schema") : format
  if (inner === undefined) throw missing(format.path("json_schema"))
  const name = inner.required("name", { pattern: formatName })
  const schema = inner.plain("schema")
  const strict = inner.boolean("strict")
  const description = inner.string("description")
  if (schema === undefined) throw missing(inner.path("schema"))
  return {
    type,
    name,
    schema,
    ...(strict === undefined ? {} : { strict }),
    ...(description === undefined ? {} : { description })
  }
}

const stopsMax = 4
const stopBytesMax = 256

const readStop = (fields: Fields): ReadonlyArray<string> | undefined => {
  const value = fields.raw("stop")
  if (value === undefined) return undefined
  const list = typeof value === "string" ? [value] : fields.array("stop", { min: 1, max: stopsMax })!
  for (const [i, word] of list.entries()) {
    const path = typeof value === "string" ? "stop" : `stop[${i}]`
    if (typeof word !== "string") throw wrongType(path, "a string")
    if (word === "") throw badValue(path, `Invalid '${path}': the string is empty.`)
    if (Buffer.byteLength(word) > stopBytesMax) throw tooLong("string", path, stopBytesMax)
  }
  return list as ReadonlyArray<string>
}

const readBias = (fields: Fields): Readonly<Record<string, number>> | undefined => {
  const bias = fields.object("logit_bias")
  for (const name of Object.keys(fields.plain("logit_bias") ?? {})) bias!.number(name, -100, 100)
  return fields.plain("logit_bias") as Record<string, number> | undefined
}

const readModalities = (fields: Fields): boolean => {
  const given = fields.array("modalities")
  for (const [i, word] of (given ?? []).entries())
    if (word !== "text" && word !== "audio")
      throw badValue(
        `modalities[${i}]`,
        `Invalid value for 'modalities[${i}]': supported are 'text', 'audio'.`
      )
  return given?.includes("audio") === true
}

export const readModel = (fields: Fields): string => {
  const model = fields.raw("model")
  if (model === undefined) throw missing("model")
  return fields.required("model", { min: 1, max: 256 })
}

const hintNames = [
  "service_tier",
  "prompt_cache_key",
  "safety_identifier",
  "verbosity",
  "prediction"
] as const

const known = new Set<string>([
  "model",
  "messages",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "stream",
  "stream_options",
  "temperature",
  "top_p",
  "max_tokens",
  "max_completion_tokens",
  "reasoning_effort",
  "n",
  "stop",
  "seed",
  "frequency_penalty",
  "presence_penalty",
  "logit_bias",
  "logprobs",
  "top_logprobs",
  "response_format",
  "modalities",
  "user",
  "functions",
  "function_call",
  "audio",
  "store",
  "metadata",
  ...hintNames
])

const isHint = new Set<string>(hintNames)

/** undefined when there are none. */
const picked = (body: Json, wanted: (name: string) => boolean): Record<string, unknown> | undefined => {
  let found: Array<readonly [string, unknown]> | undefined
  for (const name of Object.keys(body)) if (wanted(name)) (found ??= []).push([name, body[name]])
  return found === undefined ? undefined : Object.fromEntries(found)
}

const messagesMax = 4_096

/** Nothing in it but a role and a text, four strings with their names: it is read as it is written. */
const plain = (message: Fields): boolean => message.size === 2 && typeof message.raw("content") === "string"

/** `text`: what `body` was read from. */
export const readCompletions = (body: Json, text: string): CompletionsSpec => {
  const fields = new Fields(body)
  const model = readModel(fields)
  if (!fields.has("messages")) throw missing("messages")
  const messages: Array<Message> = []
  let asWritten = true
  for (const message of fields.each("messages", { min: 1, max: messagesMax })!) {
    messages.push(readMessage(message, messages))
    asWritten &&= plain(message)
  }
  const given = readTools(fields)
  const choice = readChoice(fields, "tool_choice", false)
  const parallel = fields.boolean("parallel_tool_calls")
  const stream = fields.boolean("stream") ?? false
  const options = fields.object("stream_options")
  const includeUsage = options?.boolean("include_usage") ?? false
  options?.boolean("include_obfuscation")
  const temperature = fields.number("temperature", 0, 2)
  const topP = fields.number("top_p", 0, 1)
  const tokens = fields.integer("max_tokens", 1)
  const completionTokens = fields.integer("max_completion_tokens", 1)
  const effort = readEffort(fields, "reasoning_effort")
  const n = fields.integer("n", 1, 8)
  const stop = readStop(fields)
  const seed = fields.integer("seed", Number.MIN_SAFE_INTEGER)
  const frequencyPenalty = fields.number("frequency_penalty", -2, 2)
  const presencePenalty = fields.number("presence_penalty", -2, 2)
  const logitBias = readBias(fields)
  const logprobs = fields.boolean("logprobs")
  const topLogprobs = fields.integer("top_logprobs", 0, 20)
  const format = readFormat(fields.object("response_format"), true)
  const audio = readModalities(fields)
  const functions = readFunctions(fields)
  const oldChoice = readChoice(fields, "function_call", false)

  if (options !== undefined && !stream)
    throw badValue("stream_options", "'stream_options' is only allowed with 'stream': true.")
  if (topLogprobs !== undefined && logprobs !== true)
    throw badValue("top_logprobs", "'top_logprobs' needs 'logprobs': true.")
  checkCalls(messages, (i) => `messages[${i}]`)
  const legacy = given === undefined && functions !== undefined
  const tools: ReadonlyArray<Tool> | undefined = given?.tools ?? functions
  const chosen = legacy ? oldChoice : choice
  checkChoice(chosen, tools, legacy ? "function_call" : "tool_choice")
  const hints = picked(body, (name) => isHint.has(name) && fields.has(name))
  const unknown = picked(body, (name) => !known.has(name))
  const user = fields.raw("user")
  return {
    model,
    includeUsage,
    legacy,
    external: tools !== undefined,
    choice: chosen,
    request: {
      model: "",
      messages,
      stream,
      tools,
      toolChoice: chosen.choice,
      parallel: legacy ? false : parallel,
      temperature,
      topP,
      maxTokens: completionTokens ?? tokens,
      effort,
      n: n === 1 ? undefined : n,
      stop,
      seed,
      frequencyPenalty,
      presencePenalty,
      logitBias,
      logprobs: logprobs === true ? true : undefined,
      topLogprobs,
      format,
      audio: audio ? (fields.plain("audio") ?? {}) : undefined,
      user: typeof user === "string" ? user : undefined,
      hints,
      unknown,
      verbatim: asWritten ? memberText(text, "messages", 4 * messages.length) : undefined
    }
  }
}
