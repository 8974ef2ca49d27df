/** One call of the translator from a request, within the time that clients wait. The end of that time, or an
 *  interruption because the client went, stops the engine's work.
 *  Source: docs/spec/translation.md, sections 2.3, 2.4. */
import { Effect, Exit } from "effect"
import {
  EngineFault,
  type TranslateRequest,
  type TranslateResult,
  type Translator
} from "../../../actors/engines/ports.ts"
import type { Refusal } from "../problems.ts"

/** Time limit of a call in ms; clients repeat a request after 5 s. */
const engineMsMax = 4_500

export const callTranslator = (
  translator: Translator,
  request: TranslateRequest
): Effect.Effect<TranslateResult, EngineFault> => {
  const work = translator.translate(request)
  // An answer that is there already needs no timer.
  if (Exit.isExit(work)) return work
  return Effect.timeoutOrElse(work, {
    duration: engineMsMax,
    orElse: () => {
      const detail = `no answer within ${engineMsMax} ms`
      return Effect.fail(new EngineFault({ reason: "timeout", engine: translator.info.id, detail }))
    }
  })
}

export const refusalOfEngineFault = (cause: EngineFault): Refusal => {
  switch (cause.reason) {
    case "unsupported":
      return { _tag: "UnsupportedLanguage", name: "target_lang", pair: true }
    case "bad-input":
      return { _tag: "Invalid", name: "text" }
    case "overloaded":
      return { _tag: "Overloaded", cause }
    case "timeout":
    case "crashed":
    case "upstream":
    case "unavailable":
      return { _tag: "Down", status: 504, cause }
  }
}
