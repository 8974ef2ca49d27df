/** Compares a request with the capabilities of its model: hints that the model lacks are dropped silently,
 *  or refused if so configured; features that would change the answer's shape are refused.
 *  Source: docs/spec/chat.md, section 7.4. */
import type { Hint, Message, ModelRequest, Part, Supports } from "../../../actors/engines/chat/model.ts"
import { supportsOf, type Target } from "../../../actors/engines/chat/upstreams.ts"
import { Refusal, type Capability } from "../problems.ts"

const hasPart = (messages: ReadonlyArray<Message>, type: Part["type"]): boolean =>
  messages.some(
    ({ content }) => typeof content === "object" && content?.some((part) => part.type === type) === true
  )

const lacks = (capability: Capability): Refusal => new Refusal({ _tag: "ModelLacks", capability })

/** Refuses what would change the answer's shape. Plain guards: they run twice for every request. */
const checkCapabilities = (request: ModelRequest, supports: Supports): void => {
  const { messages, format, stop } = request
  if (request.logprobs === true && supports.logprobs === false) throw lacks("logprobs")
  if (request.audio !== undefined && supports.audio !== true) throw lacks("audio-output")
  if (supports.images === false && hasPart(messages, "image")) throw lacks("images")
  if (supports.audio === false && hasPart(messages, "audio")) throw lacks("audio")
  if (supports.files === false && hasPart(messages, "file")) throw lacks("files")
  if (format?.type === "json_schema" && supports.json_schema === false) throw lacks("json-schema")
  if (stop !== undefined && supports.stop === false) throw lacks("stop")
}

/** The hints by the names that clients know them by. */
const hintNames = {
  seed: "seed",
  frequencyPenalty: "frequency_penalty",
  presencePenalty: "presence_penalty",
  logitBias: "logit_bias",
  hints: "hints"
} as const satisfies Record<Hint, string>

const everyHint = Object.keys(hintNames) as ReadonlyArray<Hint>

const unsupportedHint = (hint: Hint, request: ModelRequest): Refusal =>
  new Refusal({
    _tag: "UnsupportedParameter",
    param: hint === "hints" ? Object.keys(request.hints!)[0]! : hintNames[hint]
  })

/** The request as the upstream can take it. */
export const fitToUpstream = (
  request: ModelRequest,
  target: Target,
  unsupported: "drop" | "error"
): ModelRequest => {
  const supports = supportsOf(target)
  checkCapabilities(request, supports)
  const lackedHints = supports.hints === false ? everyHint : supports.lacks
  if (lackedHints === undefined) return request
  let fitted = request
  for (const hint of lackedHints) {
    if (fitted[hint] === undefined) continue
    if (unsupported === "error") throw unsupportedHint(hint, fitted)
    fitted = { ...fitted, [hint]: undefined }
  }
  return fitted
}
