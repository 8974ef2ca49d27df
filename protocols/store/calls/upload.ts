/** `POST /upload`: a JSON part that names the destination, and a file part, which is stored as one blob below
 *  the file root; atomic, so a reader never sees half a file.
 *  Source: docs/spec/store.md, section 8.10. */
import { Effect, Schema } from "effect"
import { table, type Store } from "../../../storage/store.ts"
import { writeNeed } from "../access/scopes.ts"
import { noStore } from "../../shared/headers.ts"
import { parseBounded } from "../../shared/json-values.ts"
import { toItsEnd } from "../later.ts"
import { conflict, invalid, Refusal } from "../problems.ts"
import type { Answer, EndpointCall, Endpoint } from "../target.ts"
import type { JsonObject } from "../wire.ts"

/** Blobs by [destination]. */
export const Files = table(
  "store-files",
  Schema.Struct({ blob: Schema.String, bytes: Schema.Finite, updatedMs: Schema.Finite })
)

const destinationMax = 1_000
const partsMax = 8

/** Normalizes a destination, which stays below the root on every operating system; throws Refusal (400). */
export const destinationOf = (input: unknown): string => {
  const wrong = (why: string): Refusal =>
    invalid(`destination ${why}`, [
      { field: "destination", code: input === undefined ? "required" : "invalid_value", message: why }
    ])
  if (typeof input !== "string" || input === "") throw wrong("is required")
  if (
    input.length > destinationMax ||
    [...input].some((char) => char < " " || char === "\x7f") ||
    !input.isWellFormed()
  )
    throw wrong("is too long or holds control characters")
  const parts = input
    .replaceAll("\\", "/")
    .split("/")
    .filter((part) => part !== "" && part !== ".")
  if (parts.length === 0 || parts.some((part) => part === ".." || part.includes(":") || part.length > 255))
    throw wrong("must stay below the file root")
  return parts.join("/")
}

interface Part {
  readonly name: string
  readonly file: boolean
  readonly bytes: Uint8Array
}

/** Parses the parts of a whole body by RFC 7578; throws Refusal (400). */
export const partsOf = (contentType: string, body: Uint8Array): ReadonlyArray<Part> => {
  const boundary =
    /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))/i.exec(contentType)
  if (boundary === null) throw new Refusal({ _tag: "UnsupportedMediaType", expected: "multipart/form-data" })
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  const mark = Buffer.from(`\r\n--${boundary[1] ?? boundary[2]}`)
  const malformed = (): Refusal => invalid("the multipart body is malformed")
  const first = bytes.indexOf(mark.subarray(2))
  if (first < 0) throw malformed()
  const parts: Array<Part> = []
  for (let at = first + mark.length - 2; ;) {
    if (bytes.subarray(at, at + 2).toString("latin1") === "--") return parts
    if (parts.length >= partsMax || bytes.subarray(at, at + 2).toString("latin1") !== "\r\n")
      throw malformed()
    const head = bytes.indexOf("\r\n\r\n", at)
    const end = bytes.indexOf(mark, head + 2)
    if (head < 0 || end < head + 4) throw malformed()
    const headers = bytes.subarray(at, head).toString("utf8")
    parts.push({
      name: /;\s*name="([^"]*)"/i.exec(headers)?.[1] ?? "",
      file: /;\s*filename\*?=/i.test(headers),
      bytes: bytes.subarray(head + 4, end)
    })
    at = end + mark.length
  }
}

const strictUtf8 = new TextDecoder("utf-8", { fatal: true })

interface Destination {
  readonly path: string
  readonly overwrite: boolean
}

const destinationIn = (part: Part): Destination => {
  let input: unknown
  try {
    input = parseBounded(strictUtf8.decode(part.bytes))
  } catch {
    throw invalid("the first part is not valid JSON")
  }
  const { destination, overwrite = false } = (
    typeof input === "object" && input !== null ? input : {}
  ) as JsonObject
  const path = destinationOf(destination)
  if (typeof overwrite !== "boolean")
    throw invalid("overwrite must be true or false", [
      { field: "overwrite", code: "invalid_type", message: "must be true or false" }
    ])
  return { path, overwrite }
}

const alreadyThere = (): Refusal => conflict("there is a file at this destination")

async function* chunksOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

const upload =
  (store: Store) =>
  ({ engine, request, bytes }: EndpointCall): Effect.Effect<Answer, Refusal> => {
    const parts = partsOf(request.headers.get("content-type") ?? "", bytes)
    const description = parts.find(({ file }) => !file)
    const file = parts.find((part) => part.file)
    if (description === undefined || file === undefined)
      throw invalid("a JSON part and a file part are wanted")
    const { path, overwrite } = destinationIn(description)
    if (!overwrite && Files.get(store, [path]) !== undefined) throw alreadyThere()

    const blob = `store-${crypto.randomUUID()}`
    const deleted = (name: string): Effect.Effect<void> => Effect.promise(() => store.blobs.delete(name))
    const entered = engine.write((tx) => {
      const existing = Files.get(store, [path])
      if (existing !== undefined && !overwrite) throw alreadyThere()
      tx.writes.push(Files.put([path], { blob, bytes: file.bytes.length, updatedMs: tx.nowMs }))
      return existing
    })
    const stored = Effect.promise(() => store.blobs.write(blob, chunksOf(file.bytes))).pipe(
      Effect.andThen(Effect.onError(entered, () => deleted(blob))),
      Effect.flatMap((replaced) => (replaced === undefined ? Effect.void : deleted(replaced.blob)))
    )
    // The file is here in whole: it is stored, and what it replaces deleted, also when its client goes.
    return Effect.as(toItsEnd(stored), { status: 204, headers: [noStore] })
  }

export const uploadEndpoint = (store: Store): Endpoint => ({
  path: "upload",
  methods: { POST: { need: writeNeed("system", "FileBrowser"), body: "raw", handle: upload(store) } }
})
