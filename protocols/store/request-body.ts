/** Reads the body of a request up to its limit, and parses it as JSON. Throws Refusal.
 *  Source: docs/spec/store.md, sections 2.4, 6.5. */
import { Effect } from "effect"
import { BodyFault, type Request } from "../../runtime/http.ts"
import { holdsTooManyValues, valuesMax } from "../shared/json-values.ts"
import { promised } from "./later.ts"
import { invalid, Refusal, type Problem } from "./problems.ts"
import type { JsonObject } from "./wire.ts"

export const uploadBytesMax = 25 * 1_048_576

const nothing = new Uint8Array(0)

/** Reads and discards a body. A fault on the way is handled by the transport, and ends the connection. */
export const drainBody = async (request: Request): Promise<Uint8Array> => {
  try {
    for await (const _ of request.stream) {
      // Only the end of the body matters.
    }
  } catch {
    // The connection ends with it.
  }
  return nothing
}

export const discardBody = (request: Request): Effect.Effect<Uint8Array> =>
  Effect.promise(() => drainBody(request))

const tooLarge = (bytesMax: number): Refusal =>
  new Refusal({ _tag: "TooLarge", details: `the body must have at most ${bytesMax} bytes` })

const unreadable = (fault: BodyFault): Problem => ({
  _tag: "Unreadable",
  status: fault.reason === "too-large" ? 413 : 408
})

const readWhole = async (request: Request, bytesMax: number): Promise<Uint8Array> => {
  if (Number(request.headers.get("content-length") ?? 0) > bytesMax) throw tooLarge(bytesMax)
  const parts: Array<Uint8Array> = []
  let length = 0
  try {
    for await (const part of request.stream) {
      length += part.length
      if (length > bytesMax) throw tooLarge(bytesMax)
      parts.push(part)
    }
  } catch (cause) {
    throw cause instanceof BodyFault ? new Refusal(unreadable(cause)) : cause
  }
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts)
}

export const readBody = (request: Request, bytesMax: number): Effect.Effect<Uint8Array, Refusal> =>
  promised(() => readWhole(request, bytesMax))

const strictUtf8 = new TextDecoder("utf-8", { fatal: true })

/** Throws Refusal, also for a body of too many values, which is not parsed. */
export const jsonOf = (request: Request, bytes: Uint8Array, max = valuesMax): unknown => {
  const type = (request.headers.get("content-type") ?? "").split(";")[0]!.trim().toLowerCase()
  if (bytes.length === 0) throw invalid("the body is empty")
  if (type !== "application/json")
    throw new Refusal({ _tag: "UnsupportedMediaType", expected: "application/json" })
  if (holdsTooManyValues(bytes, max))
    throw new Refusal({ _tag: "TooLarge", details: `the body must have at most ${max} JSON values` })
  try {
    return JSON.parse(strictUtf8.decode(bytes))
  } catch {
    throw invalid("the body is not valid JSON in UTF-8")
  }
}

export const objectOf = (request: Request, bytes: Uint8Array): JsonObject => {
  const value = jsonOf(request, bytes)
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw invalid("the body is not a JSON object")
  return value as JsonObject
}
