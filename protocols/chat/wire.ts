/** The shapes chat answers in, and its ids. Pure; takes nothing from the house. Source: chat sections 5, 7.3,
 *  8.3, 9.4. */
import { randomBytes, randomFillSync } from "node:crypto"

export interface ErrorBody {
  readonly message: string
  readonly type: string
  readonly param: string | null
  readonly code: string | null
}

export const errorJson = (error: ErrorBody): string => JSON.stringify({ error })

const pool = Buffer.alloc(6_144)
let drawn = pool.length

const hex = (bytes: 12 | 16 | 24): string => {
  if (drawn + bytes > pool.length) {
    randomFillSync(pool)
    drawn = 0
  }
  drawn += bytes
  return pool.toString("hex", drawn - bytes, drawn)
}

/** For what is not kept: a slice holds its whole block. */
const blockBytes = 4_096

let digits = ""
let digit = 0

const passing = (): string => {
  if (digit === digits.length) {
    digits = randomBytes(blockBytes).toString("hex")
    digit = 0
  }
  return digits.slice(digit, (digit += 32))
}

export const newCompletionId = (): string => `chatcmpl-${passing()}`
export const newRequestId = (): string => `req_${passing()}`
export const newSessionId = (): string => hex(16)
export const newId = (kind: "resp" | "msg" | "rs" | "fc"): string => `${kind}_${hex(24)}`

export interface TokenUsage {
  readonly input: number
  readonly output: number
  readonly cached: number
  readonly reasoning: number
}

/** As JSON text; the figures are whole numbers. */
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
  `${kind}_${responseId.slice(5, 29)}${hex(12)}`

export const responsePrefixOf = (itemId: string): string | undefined => {
  const half = /^(?:msg|rs|fc)_([0-9a-f]{24})[0-9a-f]{24}$/.exec(itemId)?.[1]
  return half === undefined ? undefined : `resp_${half}`
}

/** One choice when it is whole. */
export interface Choice {
  readonly text: string
  readonly reasoning: string
  readonly refusal: string
  readonly calls: ReadonlyArray<{ readonly id: string; readonly name: string; readonly arguments: string }>
  readonly finish: string
  readonly audio: unknown
  readonly logprobs: unknown
}

/** `legacy`: the request used `functions`; the answer then has one `function_call`. */
const choiceJson = (
  { text, reasoning, refusal, calls, finish, audio, logprobs }: Choice,
  index: number,
  legacy: boolean
): unknown => ({
  index,
  message: {
    role: "assistant",
    content: text === "" && (calls.length > 0 || refusal !== "" || audio !== undefined) ? null : text,
    refusal: refusal === "" ? null : refusal,
    annotations: [],
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(audio === undefined ? {} : { audio }),
    ...(calls.length === 0
      ? {}
      : legacy
        ? { function_call: { name: calls[0]!.name, arguments: calls[0]!.arguments } }
        : {
            tool_calls: calls.map(({ id, name, arguments: args }) => ({
              id,
              type: "function",
              function: { name, arguments: args }
            }))
          })
  },
  logprobs: logprobs ?? null,
  finish_reason: legacy && finish === "tool_calls" ? "function_call" : finish
})

/** Put together by hand where the choice is text alone, as nearly every one is. */
const choiceText = (choice: Choice, index: number, legacy: boolean): string => {
  const { text, reasoning, refusal, calls, finish, audio, logprobs } = choice
  return calls.length > 0 ||
    audio !== undefined ||
    reasoning !== "" ||
    refusal !== "" ||
    (logprobs ?? null) !== null
    ? JSON.stringify(choiceJson(choice, index, legacy))
    : `{"index":${index},"message":{"role":"assistant","content":${JSON.stringify(text)},"refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"${finish}"}`
}

export const completionJson = ({
  id,
  created,
  model,
  choices,
  used: usage,
  legacy
}: {
  readonly id: string
  readonly created: number
  readonly model: string
  readonly choices: ReadonlyArray<Choice>
  readonly used: TokenUsage
  readonly legacy: boolean
}): string => {
  let all = ""
  for (let i = 0; i < choices.length; i++) all += (i === 0 ? "" : ",") + choiceText(choices[i]!, i, legacy)
  return `{"id":"${id}","object":"chat.completion","created":${created},"model":${JSON.stringify(model)},"choices":[${all}],"usage":${chatUsage(usage)},"service_tier":"default","system_fingerprint":null}`
}
