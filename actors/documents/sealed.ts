/** Seals documents at rest: AES-256-GCM in chunks, under keys that only the client's document key yields.
 *  Order, length and position are sealed too, so a chunk that was cut off, swapped or taken from another
 *  document does not open. Source: docs/spec/documents.md, sections 9.1 and 9.2. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto"

const chunkBytes = 65_536
const tagBytes = 16
const keyBytes = 32
const checkBytes = 16
const headerBytes = 18
const magic = Buffer.from("TRPD\u0001", "latin1")
const labels = ["source", "result", "segments", "meta"] as const
export type Label = (typeof labels)[number]

export interface DocumentKeys {
  /** Recognizes the document key without revealing anything about it. */
  readonly check: string
  readonly of: (label: Label) => Buffer
  /** Overwrites the keys in memory. */
  readonly forget: () => void
}

export class SealedFault extends Error {
  constructor() {
    super("a sealed document does not open")
    this.name = "SealedFault"
  }
}

/** Returns a new document key: 64 upper-case hex digits. */
export const newDocumentKey = (): string => randomBytes(keyBytes).toString("hex").toUpperCase()

export const newDocumentId = (): string => randomBytes(16).toString("hex").toUpperCase()
const keyPattern = /^[0-9A-Fa-f]{64}$/

/** Derives a separate key for each label (HKDF). */
const derived = (key: Buffer, id: string, label: string, bytes: number): Buffer =>
  Buffer.from(hkdfSync("sha256", key, id, `troupe document ${label}`, bytes))

/** Derives the keys of a document; returns undefined when the text is not a document key. */
export const keysOf = (documentKey: string, id: string): DocumentKeys | undefined => {
  if (!keyPattern.test(documentKey)) return undefined
  const key = Buffer.from(documentKey, "hex")
  const derivedKeys = new Map<Label, Buffer>()
  return {
    check: derived(key, id, "check", checkBytes).toString("base64"),
    of: (label) => {
      const existing = derivedKeys.get(label)
      if (existing !== undefined) return existing
      const created = derived(key, id, label, keyBytes)
      derivedKeys.set(label, created)
      return created
    },
    forget: () => {
      key.fill(0)
      for (const derivedKey of derivedKeys.values()) derivedKey.fill(0)
    }
  }
}

/** Compares two checks in constant time. */
export const sameCheck = (a: string, b: string): boolean => {
  const x = Buffer.from(a, "base64")
  const y = Buffer.from(b, "base64")
  return x.length === checkBytes && y.length === checkBytes && timingSafeEqual(x, y)
}

const nonceOf = (random: Buffer, counter: number, last: boolean): Buffer => {
  const nonce = Buffer.allocUnsafe(12)
  random.copy(nonce, 0)
  nonce.writeUInt32BE(counter, 7)
  nonce[11] = last ? 1 : 0
  return nonce
}

const headerOf = (label: Label): Buffer => {
  const header = Buffer.alloc(headerBytes)
  magic.copy(header)
  header[5] = labels.indexOf(label)
  header.writeUInt32BE(chunkBytes, 6)
  randomBytes(7).copy(header, 10)
  return header
}

/** Seals the bytes as they arrive; a chunk is yielded when it is full or the last. */
export async function* sealing(
  plain: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  keys: DocumentKeys,
  label: Label
): AsyncGenerator<Uint8Array> {
  const header = headerOf(label)
  const random = header.subarray(10, 17)
  const key = keys.of(label)
  yield header
  let counter = 0
  const seal = (plainChunk: Buffer, last: boolean): Buffer => {
    const cipher = createCipheriv("aes-256-gcm", key, nonceOf(random, counter++, last)).setAAD(header)
    return Buffer.concat([cipher.update(plainChunk), cipher.final(), cipher.getAuthTag()])
  }
  const chunk = Buffer.allocUnsafe(chunkBytes)
  let filled = 0
  for await (const part of plain) {
    for (let offset = 0; offset < part.length;) {
      if (filled === chunkBytes) {
        yield seal(chunk, false)
        filled = 0
      }
      const bytes = Math.min(chunkBytes - filled, part.length - offset)
      chunk.set(part.subarray(offset, offset + bytes), filled)
      filled += bytes
      offset += bytes
    }
  }
  yield seal(chunk.subarray(0, filled), true)
  chunk.fill(0)
}

/** Yields the plain bytes; each chunk is verified before it is yielded, and SealedFault is thrown when it
 *  does not open. */
export async function* opening(
  sealed: AsyncIterable<Uint8Array>,
  keys: DocumentKeys,
  label: Label
): AsyncGenerator<Buffer> {
  const sealedChunkBytes = chunkBytes + tagBytes
  const key = keys.of(label)
  let pending: Buffer = Buffer.alloc(0)
  let header: Buffer | undefined
  let counter = 0
  const open = (chunk: Buffer, last: boolean): Buffer => {
    if (chunk.length < tagBytes) throw new SealedFault()
    try {
      const decipher = createDecipheriv(
        "aes-256-gcm",
        key,
        nonceOf(header!.subarray(10, 17), counter++, last)
      )
        .setAAD(header!)
        .setAuthTag(chunk.subarray(-tagBytes))
      return Buffer.concat([decipher.update(chunk.subarray(0, -tagBytes)), decipher.final()])
    } catch {
      throw new SealedFault()
    }
  }
  for await (const part of sealed) {
    pending =
      pending.length === 0
        ? Buffer.from(part.buffer, part.byteOffset, part.byteLength)
        : Buffer.concat([pending, part])
    if (header === undefined && pending.length >= headerBytes) {
      header = Buffer.from(pending.subarray(0, headerBytes))
      if (
        !header.subarray(0, 5).equals(magic) ||
        header[5] !== labels.indexOf(label) ||
        header.readUInt32BE(6) !== chunkBytes
      )
        throw new SealedFault()
      pending = pending.subarray(headerBytes)
    }
    while (header !== undefined && pending.length > sealedChunkBytes) {
      yield open(pending.subarray(0, sealedChunkBytes), false)
      pending = pending.subarray(sealedChunkBytes)
    }
  }
  if (header === undefined) throw new SealedFault()
  yield open(pending, true)
}

export const opened = async (
  sealed: AsyncIterable<Uint8Array>,
  keys: DocumentKeys,
  label: Label
): Promise<Buffer> => {
  const parts: Array<Buffer> = []
  for await (const part of opening(sealed, keys, label)) parts.push(part)
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts)
}

/** Seals a short value (a file's name), as base64. */
export const sealedText = async (text: string, keys: DocumentKeys): Promise<string> => {
  const parts: Array<Uint8Array> = []
  for await (const part of sealing([Buffer.from(text)], keys, "meta")) parts.push(part)
  return Buffer.concat(parts).toString("base64")
}

export const openedText = async (sealed: string, keys: DocumentKeys): Promise<string> =>
  (
    await opened(
      (async function* () {
        yield Buffer.from(sealed, "base64")
      })(),
      keys,
      "meta"
    )
  ).toString("utf8")
