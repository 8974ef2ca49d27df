/** The shapes that chat answers in, and its ids. Pure: it imports nothing of this program.
 *  Source: docs/spec/chat.md, sections 5, 7.3, 8.3 and 9.4. */
import { randomBytes, randomFillSync } from "node:crypto"

export interface ErrorBody {
  readonly message: string
  readonly type: string
  readonly param: string | null
  readonly code: string | null
}

export const errorJson = (error: ErrorBody): string => JSON.stringify({ error })

const pool = Buffer.alloc(6_144)
let poolUsed = pool.length

const randomHex = (bytes: 12 | 16 | 24): string => {
  if (poolUsed + bytes > pool.length) {
    randomFillSync(pool)
    poolUsed = 0
  }
  poolUsed += bytes
  return pool.toString("hex", poolUsed - bytes, poolUsed)
}

const blockBytes = 4_096
let block = ""
let blockUsed = 0

/** Hexadecimal text for ids that are not stored: a slice retains the memory of its whole block. */
const transientHex = (): string => {
  if (blockUsed === block.length) {
    block = randomBytes(blockBytes).toString("hex")
    blockUsed = 0
  }
  blockUsed += 32
  return block.slice(blockUsed - 32, blockUsed)
}

export const newCompletionId = (): string => `chatcmpl-${transientHex()}`
export const newRequestId = (): string => `req_${transientHex()}`
export const newSessionId = (): string => randomHex(16)
export const newId = (kind: "resp" | "msg" | "rs" | "fc"): string => `${kind}_${randomHex(24)}`

export interface TokenUsage {
  readonly input: number
  readonly output: number
  readonly cached: number
  readonly reasoning: number
}

/** The usage as JSON text; its figures are whole numbers. */
export const chatUsage = ({ input, output, cached, reasoning }: TokenUsage): string =>
  `{"prompt_tokens":${input},"completion_tokens":${output},"total_tokens":${input + output},"prompt_tokens_details":{"cached_tokens":${cached},"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":${reasoning},"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`

export const responsesUsage = ({ input, output, cached, reasoning }: TokenUsage): unknown => ({
  input_tokens: input,
  input_tokens_details: { cached_tokens: cached },
  output_tokens: output,
  output_tokens_details: { reasoning_tokens: reasoning },
  total_tokens: input + output
})

/** An output item's id begins with half of its response's, so that a reference finds the response without an
 *  index. */
export const newItemId = (kind: "msg" | "rs" | "fc", responseId: string): string =>
  `${kind}_${responseId.slice(5, 29)}${randomHex(12)}`

export const responsePrefixOf = (itemId: string): string | undefined => {
  const half = /^(?:msg|rs|fc)_([0-9a-f]{24})[0-9a-f]{24}$/.exec(itemId)?.[1]
  return half === undefined ? undefined : `resp_${half}`
}

interface CallJson {
  readonly id: string
  readonly name: string
  readonly arguments: string
}

/** One choice of a whole answer. */
export interface Choice {
  readonly text: string
  readonly reasoning: string
  readonly refusal: string
  readonly calls: ReadonlyArray<CallJson>
  readonly finish: string
  readonly audio: unknown
  readonly logprobs: unknown
}

/** Returns the members for calls. `legacy`: the request has the old `functions`, the answer one
 *  `function_call`. */
const callMembers = (calls: ReadonlyArray<CallJson>, legacy: boolean): object => {
  const [first] = calls
  if (first === undefined) return {}
  if (legacy) return { function_call: { name: first.name, arguments: first.arguments } }
  return {
    tool_calls: calls.map(({ id, name, arguments: args }) => ({
      id,
      type: "function",
      function: { name, arguments: args }
    }))
  }
}

const finishWord = (finish: string, legacy: boolean): string =>
  legacy && finish === "tool_calls" ? "function_call" : finish

const choiceJson = (choice: Choice, index: number, legacy: boolean): unknown => {
  const { text, reasoning, refusal, calls, finish, audio, logprobs } = choice
  const hasOtherContent = calls.length > 0 || refusal !== "" || audio !== undefined
  return {
    index,
    message: {
      role: "assistant",
      content: text === "" && hasOtherContent ? null : text,
      refusal: refusal === "" ? null : refusal,
      annotations: [],
      ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
      ...(audio === undefined ? {} : { audio }),
      ...callMembers(calls, legacy)
    },
    logprobs: logprobs ?? null,
    finish_reason: finishWord(finish, legacy)
  }
}

const isTextAlone = ({ reasoning, refusal, calls, audio, logprobs }: Choice): boolean =>
  calls.length === 0 &&
  audio === undefined &&
  reasoning === "" &&
  refusal === "" &&
  (logprobs ?? null) === null

/** Writes the JSON by hand where the choice is text alone, as nearly every one is. */
const choiceText = (choice: Choice, index: number, legacy: boolean): string =>
  isTextAlone(choice)
    ? `{"index":${index},"message":{"role":"assistant","content":${JSON.stringify(choice.text)},"refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"${choice.finish}"}`
    : JSON.stringify(choiceJson(choice, index, legacy))

export interface Completion {
  readonly id: string
  readonly created: number
  readonly model: string
  readonly choices: ReadonlyArray<Choice>
  readonly usage: TokenUsage
  readonly legacy: boolean
}

/** A whole chat completion as JSON text. */
export const completionJson = ({ id, created, model, choices, usage, legacy }: Completion): string => {
  let all = ""
  for (let i = 0; i < choices.length; i++) all += (i === 0 ? "" : ",") + choiceText(choices[i]!, i, legacy)
  return `{"id":"${id}","object":"chat.completion","created":${created},"model":${JSON.stringify(model)},"choices":[${all}],"usage":${chatUsage(usage)},"service_tier":"default","system_fingerprint":null}`
}
