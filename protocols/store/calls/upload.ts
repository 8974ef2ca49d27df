/** `POST /upload`: a JSON part that names the destination and a file part, kept as one blob below the file
 *  root; atomic, so a reader never sees half a file. Source: store section 8.10. */
import { Schema } from "effect"
import { table, type Store } from "../../../storage/store.ts"
import { writing } from "../access/access.ts"
import { noStore, Refused } from "../problems.ts"
import type { EndpointCall, Endpoint } from "../target.ts"

/** [destination] → its blob. */
export const Files = table(
  "store-files",
  Schema.Struct({ blob: Schema.String, bytes: Schema.Finite, updatedMs: Schema.Finite })
)

const destinationMax = 1_000
const partsMax = 8

/** Stays below the root, whatever system it is copied to; throws Refused (400). */
export const destinationOf = (given: unknown): string => {
  const wrong = (why: string): Refused =>
    new Refused(400, `destination ${why}`, [
      { field: "destination", code: given === undefined ? "required" : "invalid_value", message: why }
    ])
  if (typeof given !== "string" || given === "") throw wrong("is required")
  if (
    given.length > destinationMax ||
    [...given].some((char) => char < " " || char === "\x7f") ||
    !given.isWellFormed()
  )
    throw wrong("is too long or holds control characters")
  const parts = given
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

/** RFC 7578 parts of a whole body; throws Refused (400). */
export const partsOf = (contentType: string, body: Uint8Array): ReadonlyArray<Part> => {
  const boundary =
    /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))/i.exec(contentType)
  if (boundary === null) throw new Refused(415, "the body must be multipart/form-data")
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  const mark = Buffer.from(`\r\n--${boundary[1] ?? boundary[2]}`)
  const malformed = (): Refused => new Refused(400, "the multipart body is malformed")
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

const upload =
  (store: Store) =>
  async ({ engine, request, raw }: EndpointCall) => {
    const parts = partsOf(request.headers.get("content-type") ?? "", raw)
    const about = parts.find(({ file }) => !file)
    const file = parts.find((part) => part.file)
    if (about === undefined || file === undefined)
      throw new Refused(400, "a JSON part and a file part are wanted")
    let given: unknown
    try {
      given = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(about.bytes))
    } catch {
      throw new Refused(400, "the first part is not valid JSON")
    }
    const { destination, overwrite = false } = (typeof given === "object" && given !== null ? given : {}) as {
      readonly destination?: unknown
      readonly overwrite?: unknown
    }
    const path = destinationOf(destination)
    if (typeof overwrite !== "boolean")
      throw new Refused(400, "overwrite must be true or false", [
        { field: "overwrite", code: "invalid_type", message: "must be true or false" }
      ])
    const exists = (): Refused => new Refused(409, "there is a file at this destination")
    if (!overwrite && Files.get(store, [path]) !== undefined) throw exists()
    const blob = `store-${crypto.randomUUID()}`
    await store.blobs.write(
      blob,
      (async function* () {
        yield file.bytes
      })()
    )
    const before = await engine
      .write((tx) => {
        const known = Files.get(store, [path])
        if (known !== undefined && !overwrite) throw exists()
        tx.writes.push(Files.put([path], { blob, bytes: file.bytes.length, updatedMs: tx.nowMs }))
        return known
      })
      .catch(async (cause: unknown) => {
        await store.blobs.delete(blob)
        throw cause
      })
    if (before !== undefined) await store.blobs.delete(before.blob)
    return { status: 204, headers: [noStore] }
  }

export const uploadEndpoint = (store: Store): Endpoint => ({
  path: "upload",
  methods: { POST: { need: writing("system", "FileBrowser"), body: "raw", handle: upload(store) } }
})
