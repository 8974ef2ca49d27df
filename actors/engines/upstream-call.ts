/** Calls an engine over HTTP: each try has a deadline, a few tries follow with growing pauses, and faults are
 *  worded here. */
import { Effect, Schedule } from "effect"
import { EngineFault } from "./ports.ts"

const tryMsDefault = 20_000

/** The deadline for one try of a translation, in ms. Callers wait 4.5 s and have to learn of a silent
 *  upstream earlier, so that its breaker can open. */
export const translationTryMs = 4_000

const retriesMax = 2
const answerBytesMax = 16 * 1_048_576

/** Reads a response's text; resolves with undefined when it is too long. */
const textOf = async (answer: Response): Promise<string | undefined> => {
  const parts: Array<Uint8Array> = []
  let bytes = 0
  for await (const part of answer.body ?? []) {
    if ((bytes += part.length) > answerBytesMax) return undefined
    parts.push(part)
  }
  return Buffer.concat(parts).toString("utf8")
}

export interface UpstreamCall {
  readonly engine: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | FormData
  readonly tryMs?: number
}

/** Calls the upstream and answers its JSON object. 429, 5xx, broken connections and silence are retried; any
 *  other 4xx is the caller's fault. */
export const callUpstream = ({
  engine,
  url,
  headers,
  body,
  tryMs = tryMsDefault
}: UpstreamCall): Effect.Effect<object, EngineFault> => {
  const fault = (reason: EngineFault["reason"], detail: string): EngineFault =>
    new EngineFault({ reason, engine, detail })
  const once = Effect.tryPromise({
    try: async (signal): Promise<object> => {
      const answer = await fetch(url, { method: "POST", headers, body, signal })
      if (answer.ok) {
        const text = await textOf(answer)
        if (text === undefined) throw fault("unavailable", `an answer of more than ${answerBytesMax} bytes`)
        const value: unknown = JSON.parse(text)
        if (typeof value !== "object" || value === null) throw new Error("an answer that is no object")
        return value
      }
      await answer.body?.cancel()
      throw fault(
        answer.status === 429 || answer.status >= 500
          ? "upstream"
          : answer.status === 400
            ? "bad-input"
            : "unavailable",
        `HTTP ${answer.status}`
      )
    },
    catch: (cause) => (cause instanceof EngineFault ? cause : fault("upstream", (cause as Error).message))
  }).pipe(
    Effect.timeoutOrElse({
      duration: tryMs,
      orElse: () => Effect.fail(fault("timeout", `no answer within ${tryMs} ms`))
    })
  )
  return Effect.retry(once, {
    times: retriesMax,
    schedule: Schedule.exponential("200 millis"),
    while: ({ reason }) => reason === "upstream"
  })
}
