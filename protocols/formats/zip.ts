/** ZIP packages: read through the central directory under strict rules and a budget, written by copying
 *  unchanged entries in compressed form. Guarantee: a package without changes is written byte for byte, and a
 *  ZIP bomb is refused before it is unpacked.
 *  Source: docs/spec/documents.md, sections 3.3, 3.4; APPNOTE 6.3. */
import { crc32, deflateRawSync, inflateRawSync } from "node:zlib"
import { BadDocument, limits, type Reason } from "./document.ts"

export interface Entry {
  readonly name: string
  readonly method: number
  readonly crc: number
  readonly packed: number
  readonly size: number
  /** Offset of the entry's local header. */
  readonly at: number
  readonly dataAt: number
  /** Offset of the entry's record in the central directory. */
  readonly recordAt: number
  readonly recordBytes: number
}

const endMark = 0x06054b50
const end64Mark = 0x06064b50
const locatorMark = 0x07064b50
const recordMark = 0x02014b50
const localMark = 0x04034b50
const endBytes = 22
const commentMax = 65_535
const most32 = 0xffffffff

const damaged = (where?: string): never => {
  throw new BadDocument("damaged archive", where)
}

const big = (bytes: Buffer, at: number): number => {
  const value = bytes.readBigUInt64LE(at)
  return value > BigInt(Number.MAX_SAFE_INTEGER) ? damaged() : Number(value)
}

export class Zip {
  readonly bytes: Buffer
  readonly entries: ReadonlyArray<Entry>
  private readonly byName: ReadonlyMap<string, Entry>
  private readonly directoryAt: number
  private readonly directoryEnd: number
  private readonly endAt: number

  /** Bytes before the first header of the archive, which its offsets do not include. */
  private readonly shift: number

  private unpacked = 0

  constructor(bytes: Buffer) {
    this.bytes = bytes
    try {
      this.endAt = this.findEnd()
      const { count, size, at } = this.directory()
      if (count > limits.entriesMax) throw new BadDocument("too many parts")
      const end64 = this.end64At()
      this.directoryEnd = end64 ?? this.endAt
      this.directoryAt = this.directoryEnd - size
      this.shift = this.directoryAt - at
      if (this.directoryAt < 0 || this.shift < 0) damaged()
      this.entries = this.read(count)
    } catch (cause) {
      if (cause instanceof RangeError) damaged()
      throw cause
    }
    this.byName = new Map(this.entries.map((entry) => [entry.name, entry]))
    if (this.byName.size !== this.entries.length) damaged()
    this.apart()
  }

  private findEnd(): number {
    const { bytes } = this
    for (let at = bytes.length - endBytes; at >= Math.max(0, bytes.length - endBytes - commentMax); at--) {
      if (bytes.readUInt32LE(at) === endMark && at + endBytes + bytes.readUInt16LE(at + 20) === bytes.length)
        return at
    }
    return damaged("no end record")
  }

  private end64At(): number | undefined {
    const locator = this.endAt - 20
    if (locator < 0 || this.bytes.readUInt32LE(locator) !== locatorMark) return undefined
    // The recorded offset does not include bytes before the archive, so the record is searched backwards too.
    const said = big(this.bytes, locator + 8)
    if (said + 4 <= this.bytes.length && this.bytes.readUInt32LE(said) === end64Mark) return said
    const found = this.bytes.lastIndexOf(Buffer.from([0x50, 0x4b, 6, 6]), locator)
    return found < 0 ? damaged() : found
  }

  private directory(): { readonly count: number; readonly size: number; readonly at: number } {
    const { bytes, endAt } = this
    const at64 = this.end64At()
    if (at64 !== undefined)
      return { count: big(bytes, at64 + 32), size: big(bytes, at64 + 40), at: big(bytes, at64 + 48) }
    if (bytes.readUInt16LE(endAt + 4) !== 0) damaged()
    return {
      count: bytes.readUInt16LE(endAt + 10),
      size: bytes.readUInt32LE(endAt + 12),
      at: bytes.readUInt32LE(endAt + 16)
    }
  }

  private read(count: number): ReadonlyArray<Entry> {
    const { bytes } = this
    const entries: Array<Entry> = []
    let at = this.directoryAt
    for (let i = 0; i < count; i++) {
      if (at + 46 > this.directoryEnd || bytes.readUInt32LE(at) !== recordMark) damaged()
      const nameBytes = bytes.readUInt16LE(at + 28)
      const extraBytes = bytes.readUInt16LE(at + 30)
      const recordBytes = 46 + nameBytes + extraBytes + bytes.readUInt16LE(at + 32)
      const name = bytes.toString("utf8", at + 46, at + 46 + nameBytes)
      let size = bytes.readUInt32LE(at + 24)
      let packed = bytes.readUInt32LE(at + 20)
      let local = bytes.readUInt32LE(at + 42)
      const wide = extraOf(bytes, at + 46 + nameBytes, extraBytes)
      if (wide !== undefined) {
        let next = wide
        if (size === most32) {
          size = big(bytes, next)
          next += 8
        }
        if (packed === most32) {
          packed = big(bytes, next)
          next += 8
        }
        if (local === most32) local = big(bytes, next)
      }
      const method = bytes.readUInt16LE(at + 10)
      const flags = bytes.readUInt16LE(at + 8)
      if ((method !== 0 && method !== 8) || (flags & 1) !== 0)
        throw new BadDocument("unsupported compression")
      if (name === "" || name.startsWith("/") || /(?:^|\/)\.\.(?:\/|$)|[\0\\]|^[A-Za-z]:/.test(name))
        damaged("a part's name")
      local += this.shift
      if (local + 30 > this.directoryAt || bytes.readUInt32LE(local) !== localMark) damaged()
      const localName = bytes.readUInt16LE(local + 26)
      if (bytes.toString("utf8", local + 30, local + 30 + localName) !== name) damaged("a part's name")
      const dataAt = local + 30 + localName + bytes.readUInt16LE(local + 28)
      if (dataAt + packed > this.directoryAt) damaged()
      entries.push({
        name,
        method,
        crc: bytes.readUInt32LE(at + 16),
        packed,
        size,
        at: local,
        dataAt,
        recordAt: at,
        recordBytes
      })
      at += recordBytes
    }
    return entries
  }

  /** Checks that no two entries overlap and that their unpacked sizes stay within the budget. */
  private apart(): void {
    const sorted = [...this.entries].sort((a, b) => a.at - b.at)
    let end = 0
    let total = 0
    for (const { at, dataAt, packed, size, name } of sorted) {
      if (at < end) damaged(name)
      end = dataAt + packed
      total += size
      if (
        total > limits.unpackedBytesMax ||
        size > limits.partBytesMax ||
        (size > limits.ratioFromBytes && size > packed * limits.ratioMax)
      )
        throw new BadDocument("too large when unpacked")
    }
  }

  has(name: string): boolean {
    return this.byName.has(name)
  }

  get(name: string): Entry | undefined {
    return this.byName.get(name)
  }

  /** Returns the bytes of a part, or undefined when there is no part of that name. */
  part(name: string): Buffer | undefined {
    const entry = this.byName.get(name)
    if (entry === undefined) return undefined
    this.unpacked += entry.size
    if (this.unpacked > limits.unpackedBytesMax) throw new BadDocument("too large when unpacked")
    const packed = this.bytes.subarray(entry.dataAt, entry.dataAt + entry.packed)
    let bytes = packed
    if (entry.method === 8)
      try {
        bytes = inflateRawSync(packed, { maxOutputLength: Math.max(1, entry.size) })
      } catch {
        damaged(name)
      }
    if (bytes.length !== entry.size || crc32(bytes) !== entry.crc) damaged(name)
    return bytes
  }

  /** Returns the archive with some parts replaced and others, under new names, added at its end. */
  with(changed: ReadonlyMap<string, Buffer>, added: ReadonlyMap<string, Buffer> = new Map()): Buffer {
    if (changed.size === 0 && added.size === 0) return this.bytes
    const { bytes } = this
    const out: Array<Buffer> = []
    const records = new Map<Entry, Buffer>()
    let length = 0
    const put = (part: Buffer): void => {
      out.push(part)
      length += part.length
    }
    const sorted = [...this.entries].sort((a, b) => a.at - b.at)
    put(bytes.subarray(0, sorted[0]?.at ?? this.directoryAt))
    for (const [i, entry] of sorted.entries()) {
      const next = sorted[i + 1]?.at ?? this.directoryAt
      const at = length
      const plain = changed.get(entry.name)
      const record = Buffer.from(bytes.subarray(entry.recordAt, entry.recordAt + entry.recordBytes))
      if (plain === undefined) put(bytes.subarray(entry.at, next))
      else {
        const packed = entry.method === 8 ? deflateRawSync(plain, { level: 6 }) : plain
        const sum = crc32(plain)
        const header = Buffer.from(bytes.subarray(entry.at, entry.dataAt))
        const nameEnd = 30 + header.readUInt16LE(26)
        dropWide(header, nameEnd, header.length - nameEnd)
        const flags = header.readUInt16LE(6) & ~8
        header.writeUInt16LE(flags, 6)
        sizes(header, 14, sum, packed.length, plain.length)
        put(header)
        put(packed)
        record.writeUInt16LE(flags, 8)
        sizes(record, 16, sum, packed.length, plain.length)
        dropWide(record, 46 + record.readUInt16LE(28), record.readUInt16LE(30))
      }
      place(record, at - this.shift)
      records.set(entry, record)
    }
    const more: Array<Buffer> = []
    for (const [name, plain] of added) {
      const { header, packed, record } = newEntry(name, plain, length - this.shift)
      put(header)
      put(packed)
      more.push(record)
    }
    const directoryAt = length
    for (const entry of this.entries) put(records.get(entry)!)
    for (const record of more) put(record)
    const directoryBytes = length - directoryAt
    put(this.ending(directoryAt - this.shift, directoryBytes, this.entries.length + more.length, length))
    return Buffer.concat(out, length)
  }

  private ending(at: number, size: number, count: number, end64: number): Buffer {
    const tail = Buffer.from(this.bytes.subarray(this.directoryEnd))
    const end = this.endAt - this.directoryEnd
    if (end > 0) {
      tail.writeBigUInt64LE(BigInt(count), 24)
      tail.writeBigUInt64LE(BigInt(count), 32)
      tail.writeBigUInt64LE(BigInt(size), 40)
      tail.writeBigUInt64LE(BigInt(at), 48)
      tail.writeBigUInt64LE(BigInt(end64 - this.shift), end - 20 + 8)
    }
    if (tail.readUInt16LE(end + 10) !== 0xffff) {
      tail.writeUInt16LE(count, end + 8)
      tail.writeUInt16LE(count, end + 10)
    }
    if (tail.readUInt32LE(end + 12) !== most32) tail.writeUInt32LE(size, end + 12)
    if (tail.readUInt32LE(end + 16) !== most32) tail.writeUInt32LE(at, end + 16)
    return tail
  }
}

/** Offset of the ZIP64 values in an extra field. */
const extraOf = (bytes: Buffer, from: number, length: number): number | undefined => {
  for (let at = from; at + 4 <= from + length; at += 4 + bytes.readUInt16LE(at + 2))
    if (bytes.readUInt16LE(at) === 1) return at + 4
  return undefined
}

/** Overwrites the ZIP64 field with one that has no meaning, because the sizes are written in their regular
 *  fields. */
const dropWide = (bytes: Buffer, from: number, length: number): void => {
  const wide = extraOf(bytes, from, length)
  if (wide !== undefined) bytes.writeUInt16LE(0x9999, wide - 4)
}

const sizes = (bytes: Buffer, at: number, sum: number, packed: number, size: number): void => {
  bytes.writeUInt32LE(sum, at)
  bytes.writeUInt32LE(packed, at + 4)
  bytes.writeUInt32LE(size, at + 8)
}

const place = (record: Buffer, at: number): void => {
  if (record.readUInt32LE(42) !== most32) {
    record.writeUInt32LE(at, 42)
    return
  }
  const wide = extraOf(record, 46 + record.readUInt16LE(28), record.readUInt16LE(30))
  if (wide === undefined) {
    record.writeUInt32LE(at, 42)
    return
  }
  const before = (record.readUInt32LE(24) === most32 ? 8 : 0) + (record.readUInt32LE(20) === most32 ? 8 : 0)
  record.writeBigUInt64LE(BigInt(at), wide + before)
}

const newEntry = (
  name: string,
  plain: Buffer,
  at: number
): { readonly header: Buffer; readonly packed: Buffer; readonly record: Buffer } => {
  const text = Buffer.from(name)
  const packed = deflateRawSync(plain, { level: 6 })
  const sum = crc32(plain)
  const header = Buffer.alloc(30 + text.length)
  const record = Buffer.alloc(46 + text.length)
  header.writeUInt32LE(localMark, 0)
  record.writeUInt32LE(recordMark, 0)
  record.writeUInt16LE(20, 4)
  for (const [bytes, from] of [
    [header, 4],
    [record, 6]
  ] as const) {
    bytes.writeUInt16LE(20, from)
    bytes.writeUInt16LE(8, from + 4)
    bytes.writeUInt16LE(33, from + 8) // 1980-01-01: the same bytes each time
    sizes(bytes, from + 10, sum, packed.length, plain.length)
    bytes.writeUInt16LE(text.length, from + 22)
  }
  record.writeUInt32LE(at, 42)
  text.copy(header, 30)
  text.copy(record, 46)
  return { header, packed, record }
}

/** Writes a new archive of these parts, in their order. */
export const archive = (parts: ReadonlyMap<string, Buffer>): Buffer => {
  const out: Array<Buffer> = []
  const records: Array<Buffer> = []
  let length = 0
  for (const [name, plain] of parts) {
    const { header, packed, record } = newEntry(name, plain, length)
    out.push(header, packed)
    records.push(record)
    length += header.length + packed.length
  }
  const directory = Buffer.concat(records)
  const end = Buffer.alloc(endBytes)
  end.writeUInt32LE(endMark, 0)
  end.writeUInt16LE(parts.size, 8)
  end.writeUInt16LE(parts.size, 10)
  end.writeUInt32LE(directory.length, 12)
  end.writeUInt32LE(length, 16)
  return Buffer.concat([...out, directory, end])
}

const oleMark = Buffer.from([0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1])

/** Opens a package at upload; `otherwise` is the reason for refusing what is not one. */
export const openPackage = (bytes: Buffer, otherwise: Reason): Zip => {
  if (bytes.length === 0) throw new BadDocument("empty")
  if (bytes.subarray(0, 8).equals(oleMark)) throw new BadDocument("legacy or password-protected Office file")
  if (bytes.length < endBytes || !bytes.subarray(0, Math.min(bytes.length, 4_096)).includes("PK"))
    throw new BadDocument(otherwise)
  return new Zip(bytes)
}
