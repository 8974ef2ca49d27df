/** Helpers shared by the resource endpoints: ids in paths, parameters of queries and bodies, pages, and
 *  answers sent after the commit. Guarantee: an answer made by `durable` is sent only when its writes are on
 *  disk.
 *  Source: docs/spec/translation.md, sections 1.2, 1.6, 2.3. */
import { timingSafeEqual } from "node:crypto"
import { Effect } from "effect"
import { askLater, json, type Answer, type Request, type Response, type Sink } from "../../runtime/http.ts"
import { Conflict, type Store, type Write } from "../../storage/store.ts"
import { readBody, readForm } from "../shared/body.ts"
import { Params } from "../shared/params.ts"
import { problem } from "./problems.ts"
import { isUuid } from "../shared/uuid.ts"

export const smallBytesMax = 262_144
export const buffered = (bytesMax: number) => ({ as: "buffer", bytesMax }) as const
export const noStore = [["Cache-Control", "no-store"]] as const
export const ok = (value: unknown, status = 200): Response => json(status, value, noStore)
export const noContent: Response = { status: 204, headers: noStore }

export const invalid = (name: string, detail?: string): Response =>
  problem({ _tag: "Invalid", name, ...(detail === undefined ? {} : { detail }) })

export const notFound = (what: string): Response => problem({ _tag: "NotFound", what })

/** Answers 503. The cause is an exception, a fault, or an actor's answer that holds one: it reaches the log. */
export const unavailable = (cause?: unknown): Response => problem({ _tag: "Down", status: 503, cause })

/** Returns the UUID of the path in lower case, or a 400 when it is none. */
export const idIn = (request: Request, name: string): string | Response => {
  const id = request.params[name] ?? ""
  return isUuid(id) ? id.toLowerCase() : invalid(name)
}

export const queryOf = (request: Request): Params | Response => {
  const read = readForm(request.query)
  return "_tag" in read ? problem(read) : new Params(read.bag)
}

export const bodyOf = (request: Request): Params | Response => {
  const read = readBody(request.headers.get("content-type"), request.body)
  return "_tag" in read ? problem(read) : new Params(read.bag)
}

export const faultOf = (params: Params): Response | undefined =>
  params.fault === undefined ? undefined : problem(params.fault)

export const isResponse = (value: object | string): value is Response =>
  typeof value === "object" && "status" in value && typeof value.status === "number"

/** Returns the objects of an array, or undefined when it is absent; anything else is reported as invalid. */
export const objectsIn = (params: Params, name: string): ReadonlyArray<Params> | undefined => {
  const value = Object.hasOwn(params.raw, name) ? params.raw[name] : undefined
  if (value === undefined || value === null) return undefined
  const list = Array.isArray(value) ? value : [value]
  if (list.every((one) => typeof one === "object" && one !== null && !Array.isArray(one)))
    return list.map((one) => new Params(one))
  params.invalid(name)
  return []
}

export const objectIn = (params: Params, name: string): Params | undefined => {
  const value = Object.hasOwn(params.raw, name) ? params.raw[name] : undefined
  if (value === undefined || value === null) return undefined
  if (typeof value === "object" && !Array.isArray(value)) return new Params(value as Params["raw"])
  params.invalid(name)
  return undefined
}

/** Commits now, and answers when that is on disk. A failed precondition answers `conflict`, a failed write
 *  503. What has to happen besides belongs to `flushed`: `answer` is not called when the client went. */
export const durable = (
  store: Store,
  writes: ReadonlyArray<Write>,
  answer: () => Response,
  conflict: () => Response = () => problem({ _tag: "Conflict" }),
  flushed: () => void = () => {}
): Answer =>
  askLater<Response>((done) => {
    const refused = store.commit(writes, (fault) => {
      if (fault === undefined) flushed()
      done(() => (fault === undefined ? answer() : unavailable(fault)))
    })
    if (refused instanceof Conflict) done(conflict)
  })

/** Reads `page` (from 0) and `page_size` of a list. */
export const pageOf = (
  params: Params,
  sizeMax: number,
  sizeDefault: number
): { readonly from: number; readonly size: number } => {
  const page = params.integer("page", 0, 1_000_000) ?? 0
  const size = params.integer("page_size", 1, sizeMax) ?? sizeDefault
  return { from: page * size, size }
}

export const bytesOf = (text: string): number => Buffer.byteLength(text)

/** Returns the base of absolute addresses: the configured one, or else the host that the client addressed. */
export const publicBaseOf = (request: Request, configured: string | undefined): string =>
  (configured ?? `${request.scheme}://${request.headers.get("host") ?? "localhost"}`).replace(/\/+$/, "")

/** Compares signatures of equal length in constant time. */
export const sameSignature = (presented: string, expected: string): boolean => {
  const a = Buffer.from(presented)
  const b = Buffer.from(expected)
  return a.length === b.length && timingSafeEqual(a, b)
}

/** Writes exactly `bytes` bytes of a streamed body to a blob, durably. Answers false, leaving no blob, when the
 *  body was longer or shorter. A body ends by itself when its client goes. */
export const takeUpload = (
  store: Store,
  blob: string,
  bytes: number,
  body: AsyncIterable<Uint8Array>
): Effect.Effect<boolean> => Effect.promise(() => writeExactly(store, blob, bytes, body))

const writeExactly = async (
  store: Store,
  blob: string,
  bytes: number,
  body: AsyncIterable<Uint8Array>
): Promise<boolean> => {
  class Odd extends Error {}
  const counted = async function* (): AsyncGenerator<Uint8Array> {
    let taken = 0
    for await (const chunk of body) {
      if ((taken += chunk.length) > bytes) throw new Odd()
      yield chunk
    }
    if (taken !== bytes) throw new Odd()
  }
  try {
    await store.blobs.write(blob, counted())
  } catch (cause) {
    if (cause instanceof Odd) return false
    throw cause
  }
  return true
}

/** Writes a body as fast as the client reads; `whole` follows when its last byte has been sent. */
export const sendWhole = (
  sink: Sink,
  chunks: AsyncIterable<Uint8Array>,
  whole: Effect.Effect<void> = Effect.void
): Effect.Effect<void> => {
  const sent = Effect.promise(async (signal) => {
    for await (const chunk of chunks) {
      if (signal.aborted) return
      if (!sink.write(chunk)) await sink.drained()
    }
  })
  const ended = Effect.flatMap(
    Effect.promise(() => sink.end()),
    (isWhole) => (isWhole ? whole : Effect.void)
  )
  return Effect.andThen(sent, Effect.uninterruptible(ended))
}

/** Streams a blob; `whole` is called when the last byte has been sent. */
export const download = (
  store: Store,
  blob: string,
  headers: ReadonlyArray<readonly [string, string]>,
  whole: () => void
): Response | undefined => {
  const bytes = store.blobs.read(blob)
  return bytes === undefined
    ? undefined
    : {
        status: 200,
        headers: [...headers, ...noStore],
        body: (sink) => sendWhole(sink, bytes, Effect.sync(whole))
      }
}
