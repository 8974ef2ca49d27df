/** Content-Encoding of answers: gzip for clients that accept it, in this turn when the body is small,
 *  otherwise on a thread.
 *  Source: docs/spec/store.md, section 2.7. */
import { gzip, gzipSync } from "node:zlib"
import { Effect } from "effect"
import type { Header, Request, Response } from "../../runtime/http.ts"
import type { Answer } from "./target.ts"

/** Minimum body size in bytes; compressing a shorter one saves too little. */
const bytesMin = 1_024

/** Maximum size in bytes of a body that is compressed in the turn of its request. */
const inTurnBytesMax = 16_384

const level = 1
const gzipHeader: Header = ["Content-Encoding", "gzip"]

const takesGzip = (request: Request): boolean =>
  /\bgzip\b(?!\s*;\s*q=0(?:\.0*)?(?:,|$))/.test(request.headers.get("accept-encoding") ?? "")

/** The response of an answer; `more` are headers that every response to this request has. */
export const responseOf = (
  request: Request,
  { status, body, headers = [] }: Answer,
  more: ReadonlyArray<Header>
): Response | Effect.Effect<Response> => {
  const all = [...headers, ...more]
  if (body === undefined) return { status, headers: all }
  if (body.length <= bytesMin || !takesGzip(request)) return { status, headers: all, body }
  if (body.length <= inTurnBytesMax || request.method === "HEAD")
    return { status, headers: [...all, gzipHeader], body: gzipSync(body, { level }) }
  return Effect.callback((resume) => {
    gzip(body, { level }, (cause, bytes) =>
      resume(
        cause === null
          ? Effect.succeed({ status, headers: [...all, gzipHeader], body: bytes })
          : Effect.die(cause)
      )
    )
  })
}
