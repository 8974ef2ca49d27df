/** One call of the translator from a request. Its answer or fault is returned as a value, within the time
 *  that clients wait. A client that disconnects, or the end of that time, interrupts the call.
 *  Source: docs/spec/translation.md, sections 2.3, 2.4. */
import { Cause, Effect, Exit, Result } from "effect"
import {
  EngineFault,
  type TranslateRequest,
  type TranslateResult,
  type Translator
} from "../../../actors/engines/ports.ts"
import type { Request } from "../../../runtime/http.ts"
import type { Refusal } from "../problems.ts"

/** Time limit of a call in ms; clients repeat a request after 5 s. */
const engineMsMax = 4_500

export const callTranslator = (
  translator: Translator,
  request: TranslateRequest,
  client: Pick<Request, "signal">
): Promise<TranslateResult | EngineFault> =>
  new Promise((resolve, reject) => {
    let timer: NodeJS.Timeout | undefined
    let signal: AbortSignal | undefined
    let settled = false
    const stop = (reason: "timeout" | "unavailable", detail: string) => (): void => {
      if (settled) return
      end()
      resolve(new EngineFault({ reason, engine: translator.info.id, detail }))
      interrupt()
    }
    const onClientAbort = stop("unavailable", "the client went")
    const end = (): void => {
      settled = true
      clearTimeout(timer)
      signal?.removeEventListener("abort", onClientAbort)
    }
    const interrupt = Effect.runCallback(Effect.result(translator.translate(request)), {
      onExit: (exit) => {
        if (settled) return
        end()
        if (Exit.isFailure(exit)) reject(Cause.squash(exit.cause))
        else resolve(Result.isSuccess(exit.value) ? exit.value.success : exit.value.failure)
      }
    })
    if (settled) return // answered in this turn: no timer, no listener
    signal = client.signal
    timer = setTimeout(stop("timeout", `no answer within ${engineMsMax} ms`), engineMsMax)
    signal.addEventListener("abort", onClientAbort)
    if (signal.aborted) onClientAbort()
  })

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
