/** Calls to an engine over HTTP: a deadline per try, a few tries with growing pauses, faults in our words. */
import { Effect, Schedule } from "effect"
import { EngineFault } from "./ports.ts"

const tryMs = 20_000
const retriesMax = 2

export interface UpstreamCall { readonly engine: string; readonly url: string; readonly headers: Readonly<Record<string, string>>; readonly body: string | FormData }

/** The JSON answer. 429 and 5xx, cut connections and silence are tried again; 4xx are the caller's. */
export const callUpstream = ({ engine, url, headers, body }: UpstreamCall): Effect.Effect<unknown, EngineFault> => {
  const fault = (reason: EngineFault["reason"], detail: string): EngineFault => new EngineFault({ reason, engine, detail })
  const once = Effect.tryPromise({
    try: async (signal): Promise<unknown> => {
      const answer = await fetch(url, { method: "POST", headers, body, signal: AbortSignal.any([signal, AbortSignal.timeout(tryMs)]) })
      if (answer.ok) return await answer.json()
      await answer.body?.cancel()
      throw fault(answer.status === 429 || answer.status >= 500 ? "upstream" : answer.status === 400 ? "bad-input" : "unavailable", `HTTP ${answer.status}`)
    },
    catch: (cause) => cause instanceof EngineFault ? cause : fault((cause as Error).name === "TimeoutError" ? "timeout" : "upstream", (cause as Error).message)
  })
  return Effect.retry(once, { times: retriesMax, schedule: Schedule.exponential("200 millis"), while: ({ reason }) => reason === "upstream" })
}
