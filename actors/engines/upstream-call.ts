/** Calls an engine over HTTP: a deadline per try, a few tries with growing pauses. It is guaranteed that
 *  faults are worded by us, and that an answer of more than 16 MiB is not read. Source:
 *  docs/spec/engines.md, section 2.5. */
import { Effect, Schedule } from "effect"
import { EngineFault } from "./ports.ts"

const tryMsDefault = 20_000

/** The deadline of one translation: callers wait 4.5 s, and must know of a silent upstream before, so that
 *  its breaker opens. */
export const translationTryMs = 4_000

const retriesMax = 2
const answerBytesMax = 16 * 1_048_576

/** Reads the body; undefined when it is too long. */
const textOf = async (answer: Response): Promise<string | undefined> => {
  const parts: Array<Uint8Array> = []
  let bytes = 0
  for await (const part of answer.body ?? []) {
    if ((bytes += part.length) > answerBytesMax) return undefined
    parts.push(part)
  }
  return Buffer.concat(parts).toString("utf8")
}

const reasonOf = (status: number): EngineFault["reason"] => {
  if (status === 429 || status >= 500) return "upstream"
  return status === 400 ? "bad-input" : "unavailable"
}

/** An OpenAI-compatible service. */
export interface OpenAiService {
  readonly url: string
  readonly key: string
  readonly model: string
}

export interface UpstreamCall {
  readonly engine: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | FormData
  readonly tryMs?: number
}

/** Returns the JSON object it answers. 429, 5xx and cut connections are tried again; other 4xx are the
 *  caller's. */
export const callUpstream = ({
  engine,
  url,
  headers,
  body,
  tryMs = tryMsDefault
}: UpstreamCall): Effect.Effect<object, EngineFault> => {
  const fault = (reason: EngineFault["reason"], detail: string, cause?: unknown): EngineFault =>
    new EngineFault({ reason, engine, detail, ...(cause === undefined ? {} : { cause }) })
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
      throw fault(reasonOf(answer.status), `HTTP ${answer.status}`)
    },
    catch: (cause) =>
      cause instanceof EngineFault ? cause : fault("upstream", (cause as Error).message, cause)
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
