/** Checksums of the values on disk. A value is stored as the byte 0xC1, its CRC-32 (little-endian) and itself.
 *  MessagePack never uses 0xC1, and what version 1 of the layout stored begins with 0x92 (a list of two), a digit
 *  or a minus sign: such a value is read as it is, without a checksum, until it is written again. The marks
 *  differ in four bits or more, so that no flipped bit makes one of them another. An empty value stays empty.
 *  Guarantee: a changed bit of a value is a fault that names its key, never another value. Source: zlib's CRC-32
 *  (RFC 1952, section 8). */
import { crc32 } from "node:zlib"
import { StorageFault, type Key } from "./store.ts"

const mark = 0xc1
const headBytes = 5

/** Below this many bytes the call of the native function costs more than it saves. */
const nativeBytesMin = 64

const table = Int32Array.from({ length: 256 }, (_, i) => {
  let code = i
  for (let bit = 0; bit < 8; bit++) code = (code & 1) === 1 ? (code >>> 1) ^ 0xedb88320 : code >>> 1
  return code
})

const checksumOf = (value: Uint8Array): number => {
  if (value.length >= nativeBytesMin) return crc32(value)
  let code = -1
  for (let i = 0; i < value.length; i++) code = table[(code ^ value[i]!) & 0xff]! ^ (code >>> 8)
  return ~code >>> 0
}

/** Returns the bytes to store for a value. */
export const withChecksum = (value: Uint8Array): Uint8Array => {
  if (value.length === 0) return value
  const bytes = Buffer.allocUnsafe(headBytes + value.length)
  bytes[0] = mark
  bytes.writeUInt32LE(checksumOf(value), 1)
  bytes.set(value, headBytes)
  return bytes
}

/** True of the first bytes that values had before they had checksums. */
const isOlder = (first: number): boolean =>
  first === 0x92 || (first >= 0x30 && first <= 0x39) || first === 0x2d

/** Returns the value of stored bytes; undefined when they are damaged. */
export const valueOf = (bytes: Buffer): Buffer | undefined => {
  if (bytes.length === 0) return bytes
  if (bytes[0] !== mark) return isOlder(bytes[0]!) ? bytes : undefined
  if (bytes.length <= headBytes) return undefined
  const value = bytes.subarray(headBytes)
  return bytes.readUInt32LE(1) === checksumOf(value) ? value : undefined
}

const nameOf = (key: Key): string => key.join("/")

/** Says which value is damaged. */
export const damageOf = (key: Key): string => `the value of ${nameOf(key)} does not have its checksum`

/** Returns the value of stored bytes, and throws when they are damaged. */
export const checkedValue = (key: Key, bytes: Buffer): Buffer => {
  const value = valueOf(bytes)
  if (value === undefined) throw new StorageFault({ reason: "corrupt", detail: damageOf(key) })
  return value
}
