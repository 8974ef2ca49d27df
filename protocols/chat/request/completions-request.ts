/** POST /v1/chat/completions: reads the body to a turn. Guarantee: fields are checked in the order of the
 *  specification's tables, and rules over several fields after all of them.
 *  Source: docs/spec/chat.md, sections 5.2 and 7.1. */
import type { Message, ModelRequest, Tool } from "../../../actors/engines/chat/model.ts"
import { missing, notSupported, Refusal, wrongType } from "../problems.ts"
import { Fields } from "./fields.ts"
import { memberText, type Json } from "./json-body.ts"
import { checkCalls, readMessage } from "./messages.ts"
import { checkChoice, readChoice, readFunctions, readTools, type ToolChoiceSpec } from "./tools.ts"
import { readEffort, readFormat, readModel, type TurnSpec } from "./turn-spec.ts"

export interface CompletionsSpec extends TurnSpec {
  /** The stream ends with a chunk of the usage. */
  readonly includeUsage: boolean
  /** The request has the old `functions`: the answer has one `function_call`. */
  readonly legacy: boolean
}

const stopsMax = 4
const stopBytesMax = 256

const checkStop = (word: unknown, param: string): void => {
  if (typeof word !== "string") throw wrongType(param, "a string")
  if (word === "") throw new Refusal({ _tag: "EmptyString", param })
  if (Buffer.byteLength(word) > stopBytesMax)
    throw new Refusal({ _tag: "TooLong", param, kind: "string", max: stopBytesMax })
}

const readStop = (fields: Fields): ReadonlyArray<string> | undefined => {
  const value = fields.raw("stop")
  if (value === undefined) return undefined
  if (typeof value === "string") {
    checkStop(value, "stop")
    return [value]
  }
  const words = fields.array("stop", { min: 1, max: stopsMax })!
  for (const [i, word] of words.entries()) checkStop(word, `stop[${i}]`)
  return words as ReadonlyArray<string>
}

const readBias = (fields: Fields): ModelRequest["logitBias"] => {
  const biases = fields.object("logit_bias")
  for (const name of Object.keys(fields.plain("logit_bias") ?? {})) biases!.number(name, -100, 100)
  return fields.plain("logit_bias") as ModelRequest["logitBias"]
}

const modalities: ReadonlyArray<unknown> = ["text", "audio"]

/** True when the answer is to be spoken besides written. */
const readModalities = (fields: Fields): boolean => {
  const requested = fields.array("modalities")
  for (const [i, word] of (requested ?? []).entries())
    if (!modalities.includes(word)) throw notSupported(`modalities[${i}]`, ["text", "audio"])
  return requested?.includes("audio") === true
}

const hintNames = [
  "service_tier",
  "prompt_cache_key",
  "safety_identifier",
  "verbosity",
  "prediction"
] as const

const specifiedNames = new Set<string>([
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

/** Returns the members of a body whose names are wanted, or undefined when there are none. */
const pick = (body: Json, isWanted: (name: string) => boolean): Record<string, unknown> | undefined => {
  let entries: Array<readonly [string, unknown]> | undefined
  for (const name of Object.keys(body)) if (isWanted(name)) (entries ??= []).push([name, body[name]])
  return entries === undefined ? undefined : Object.fromEntries(entries)
}

const messagesMax = 4_096

/** True for a message of nothing but a role and a text: four strings with their names, which are forwarded as
 *  the client wrote them. */
const isPlain = (message: Fields): boolean => message.size === 2 && typeof message.raw("content") === "string"

interface ReadMessages {
  readonly messages: ReadonlyArray<Message>
  /** Every one of them is plain. */
  readonly allPlain: boolean
}

const readMessages = (fields: Fields): ReadMessages => {
  if (!fields.has("messages")) throw missing("messages")
  const messages: Array<Message> = []
  let allPlain = true
  for (const message of fields.each("messages", { min: 1, max: messagesMax })!) {
    messages.push(readMessage(message, messages))
    allPlain &&= isPlain(message)
  }
  return { messages, allPlain }
}

interface StreamFields {
  readonly stream: boolean
  readonly includeUsage: boolean
  readonly hasOptions: boolean
}

const readStream = (fields: Fields): StreamFields => {
  const stream = fields.boolean("stream") ?? false
  const options = fields.object("stream_options")
  const includeUsage = options?.boolean("include_usage") ?? false
  options?.boolean("include_obfuscation")
  return { stream, includeUsage, hasOptions: options !== undefined }
}

/** The fields between `stream_options` and `functions`, in their order. */
const readSampling = (fields: Fields) => {
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
  const isSpoken = readModalities(fields)
  return {
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
    isSpoken
  }
}

interface ChosenTools {
  readonly tools: ReadonlyArray<Tool> | undefined
  readonly choice: ToolChoiceSpec
}

/** The whole body: `text` is what `body` was parsed from. */
export const readCompletions = (body: Json, text: string): CompletionsSpec => {
  const fields = new Fields(body)
  const model = readModel(fields)
  const { messages, allPlain } = readMessages(fields)
  const requestTools = readTools(fields)
  const toolChoice = readChoice(fields, "tool_choice", false)
  const parallel = fields.boolean("parallel_tool_calls")
  const { stream, includeUsage, hasOptions } = readStream(fields)
  const sampling = readSampling(fields)
  const functions = readFunctions(fields)
  const functionCall = readChoice(fields, "function_call", false)

  if (hasOptions && !stream) throw new Refusal({ _tag: "StreamOptionsWithoutStream" })
  if (sampling.topLogprobs !== undefined && sampling.logprobs !== true)
    throw new Refusal({ _tag: "TopLogprobsWithoutLogprobs" })
  checkCalls(messages, (i) => `messages[${i}]`)
  const legacy = requestTools === undefined && functions !== undefined
  const { tools, choice }: ChosenTools = legacy
    ? { tools: functions, choice: functionCall }
    : { tools: requestTools?.tools, choice: toolChoice }
  checkChoice(choice, tools, legacy ? "function_call" : "tool_choice")

  const user = fields.raw("user")
  return {
    model,
    includeUsage,
    legacy,
    external: tools !== undefined,
    choice,
    request: {
      model: "",
      messages,
      stream,
      tools,
      toolChoice: choice.choice,
      parallel: legacy ? false : parallel,
      // Written out: a spread would copy member by member, on every request.
      temperature: sampling.temperature,
      topP: sampling.topP,
      maxTokens: sampling.maxTokens,
      effort: sampling.effort,
      n: sampling.n,
      stop: sampling.stop,
      seed: sampling.seed,
      frequencyPenalty: sampling.frequencyPenalty,
      presencePenalty: sampling.presencePenalty,
      logitBias: sampling.logitBias,
      logprobs: sampling.logprobs,
      topLogprobs: sampling.topLogprobs,
      format: sampling.format,
      audio: sampling.isSpoken ? (fields.plain("audio") ?? {}) : undefined,
      user: typeof user === "string" ? user : undefined,
      hints: pick(body, (name) => isHint.has(name) && fields.has(name)),
      unknown: pick(body, (name) => !specifiedNames.has(name)),
      verbatim: allPlain ? memberText(text, "messages", 4 * messages.length) : undefined
    }
  }
}
