/** Every key layout, on one page. All stores keep one ordered map from these keys to bytes; the first element
 *  says what the entry is.
 *
 *      ["j", kind, id, seq]     one event of an actor
 *      ["s", kind, id]          an actor's snapshot: [seq, state]
 *      ["i", kind, id]          the actor has something stored
 *      ["e", kind, id]          when the actor expires (decimal text)
 *      ["x", atMs, kind, id]    the same, ordered by time
 *      ["t", table, …key]       a row
 *      ["c", table, …key]       a counter (decimal text)
 *      ["m", name]              about the store itself */
import type { Key } from "./store.ts"

export const journalKey = (kind: string, id: string, seq: number): Key => ["j", kind, id, seq]
export const snapshotKey = (kind: string, id: string): Key => ["s", kind, id]
export const actorKey = (kind: string, id: string): Key => ["i", kind, id]
export const expiryKey = (kind: string, id: string): Key => ["e", kind, id]
export const expiryIndexKey = (atMs: number, kind: string, id: string): Key => ["x", atMs, kind, id]
export const rowKey = (table: string, key: Key): Key => ["t", table, ...key]
export const counterKey = (table: string, key: Key): Key => ["c", table, ...key]
export const schemaKey: Key = ["m", "schema"]
export const keyMarkKey: Key = ["m", "key"]

/** The version of the layout above. A store of a higher version is refused. Since 2 values carry checksums
 *  (checksum.ts), except those of ["m"], which earlier programs must be able to read. */
export const schemaVersion = 2

/** Encodes a key as one string, for maps. Distinct keys become distinct strings, because a string element
 *  never contains NUL (`assertKey`). */
export const mapKeyOf = (key: Key): string => {
  let name = ""
  for (const part of key) name += typeof part === "number" ? `#${part}\0` : `${part}\0`
  return name
}

const keyBytesMax = 1_900

export const assertKey = (key: Key): void => {
  let bytes = 0
  for (const part of key) {
    if (typeof part === "number") {
      if (!Number.isSafeInteger(part)) throw new TypeError("a key's numbers are safe integers")
      bytes += 9
      continue
    }
    if (part.includes("\0") || !part.isWellFormed())
      throw new TypeError("a key's strings are well-formed and hold no NUL")
    bytes += part.length < 600 ? part.length * 3 + 1 : Buffer.byteLength(part) + 1
  }
  if (bytes > keyBytesMax && exactBytes(key) > keyBytesMax)
    throw new TypeError(`a key is at most ${keyBytesMax} bytes`)
}

const exactBytes = (key: Key): number =>
  key.reduce<number>((sum, part) => sum + (typeof part === "number" ? 9 : Buffer.byteLength(part) + 1), 0)

/** Compares keys in LMDB's order: numbers before strings, strings by their UTF-8 bytes, a prefix before the
 *  keys that it begins. */
export const compareKeys = (a: Key, b: Key): number => {
  for (let i = 0; i < a.length && i < b.length; i++) {
    const x = a[i]!
    const y = b[i]!
    if (x === y) continue
    if (typeof x === "number") return typeof y === "number" ? x - y : -1
    if (typeof y === "number") return 1
    return Buffer.compare(Buffer.from(x), Buffer.from(y))
  }
  return a.length - b.length
}

export const startsWith = (key: Key, prefix: Key): boolean =>
  prefix.length <= key.length && prefix.every((part, i) => part === key[i])
