/** Segments of translation memories: durable records in import order, indexed by their exact text. Ids are
 *  derived, not stored.
 *  Source: docs/spec/translation.md, sections 9.1, 9.4. */
import { Schema } from "effect"
import { createHash } from "node:crypto"
import { table, type Key, type Store } from "../../../storage/store.ts"

export const MemorySegment = Schema.Struct({
  text: Schema.String,
  /** Pairs of language code (lower case) and text. */
  targets: Schema.Array(Schema.Tuple([Schema.String, Schema.String]))
})

export type MemorySegment = typeof MemorySegment.Type

/** Segments by [memoryId, place]. */
export const MemorySegments = table("translation-memory-segments", MemorySegment)

/** Index by [memoryId, hash of the folded text, place]; its rows have no content. */
export const exactTable = "translation-memory-exact"

/** Time at which a translation last applied a segment, in epoch ms, by [memoryId, place]. */
export const LastUsed = table("translation-memory-used", Schema.Int)

/** Normalizes a text for comparison: NFC, trimmed, white space collapsed. */
export const normalized = (text: string): string => text.normalize("NFC").replace(/\s+/g, " ").trim()

const hash = (text: string): string => createHash("sha256").update(text).digest("base64url").slice(0, 22)

export const exactPrefix = (memoryId: string, text: string): Key => [
  memoryId,
  hash(normalized(text).toLowerCase())
]

/** Maximum number of segments returned for one text. Their texts differ at most in case; they are in import
 *  order. */
const exactMax = 64

export const exactPlaces = (store: Store, memoryId: string, text: string): ReadonlyArray<number> =>
  store
    .range(exactTable, { prefix: exactPrefix(memoryId, text), limit: exactMax })
    .map(({ key }) => key[2] as number)

const uuidOf = (name: string): string => {
  const bytes = createHash("sha256").update(name).digest()
  bytes[6] = (bytes[6]! & 0x0f) | 0x40
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString("hex", 0, 16)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

export const sourceIdOf = (memoryId: string, place: number): string => uuidOf(`${memoryId} ${place}`)

export const targetIdOf = (memoryId: string, place: number, language: string): string =>
  uuidOf(`${memoryId} ${place} ${language}`)
