/** Reads multipart/form-data from a stream, part by part; the bytes of a file are passed on and never
 *  buffered as a whole. Limits apply to the header of a part, the number of parts, and the bytes that a
 *  reader takes at once.
 *  Source: RFC 7578; RFC 2046, section 5.1; RFC 5987; docs/spec/translation.md, section 4.1. */

export interface Part {
  readonly name: string
  /** File name as the client sent it; present only for files. */
  readonly fileName: string | undefined
  /** Content of the part. What is not read when the next part is requested is skipped. */
  readonly bytes: AsyncIterable<Buffer>
}

export class MultipartFault extends Error {
  readonly reason: "syntax" | "too-many"

  constructor(reason: "syntax" | "too-many") {
    super(`multipart body: ${reason}`)
    this.name = "MultipartFault"
    this.reason = reason
  }
}

const headBytesMax = 16_384
const partsMax = 200
const preambleBytesMax = 65_536

/** Returns the boundary, or undefined for another content type or one without a boundary. */
export const boundaryOf = (contentType: string | undefined): string | undefined => {
  if (contentType === undefined || !/^multipart\/form-data\s*(?:;|$)/i.test(contentType)) return undefined
  const found = /;\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))/i.exec(contentType)
  return found?.[1] ?? found?.[2]
}

class Reader {
  private buffered: Buffer = Buffer.alloc(0)
  private readonly source: AsyncIterator<Uint8Array>
  private ended = false

  constructor(stream: AsyncIterable<Uint8Array>) {
    this.source = stream[Symbol.asyncIterator]()
  }

  private async more(): Promise<boolean> {
    if (this.ended) return false
    const { value, done } = await this.source.next()
    if (done === true) {
      this.ended = true
      return false
    }
    const chunk = Buffer.from(
      (value as Uint8Array).buffer,
      (value as Uint8Array).byteOffset,
      (value as Uint8Array).byteLength
    )
    this.buffered = this.buffered.length === 0 ? chunk : Buffer.concat([this.buffered, chunk])
    return true
  }

  /** Yields the bytes before `mark` in pieces and consumes the mark. It ends without the mark only by a
   *  fault. */
  async *until(mark: Buffer): AsyncGenerator<Buffer> {
    for (;;) {
      const at = this.buffered.indexOf(mark)
      if (at >= 0) {
        const piece = this.buffered.subarray(0, at)
        this.buffered = this.buffered.subarray(at + mark.length)
        if (piece.length > 0) yield piece
        return
      }
      const safe = this.buffered.length - mark.length + 1
      if (safe > 0) {
        const piece = this.buffered.subarray(0, safe)
        this.buffered = this.buffered.subarray(safe)
        yield piece
      }
      if (!(await this.more())) throw new MultipartFault("syntax")
    }
  }

  async whole(mark: Buffer, bytesMax: number): Promise<Buffer> {
    const pieces: Array<Buffer> = []
    let bytes = 0
    for await (const piece of this.until(mark)) {
      bytes += piece.length
      if (bytes > bytesMax) throw new MultipartFault("syntax")
      pieces.push(Buffer.from(piece))
    }
    return Buffer.concat(pieces)
  }

  async take(length: number): Promise<string> {
    while (this.buffered.length < length) if (!(await this.more())) throw new MultipartFault("syntax")
    const taken = this.buffered.toString("latin1", 0, length)
    this.buffered = this.buffered.subarray(length)
    return taken
  }

  /** Reads and discards the rest, so that the connection can be used again. */
  async drain(): Promise<void> {
    this.buffered = Buffer.alloc(0)
    while (await this.more()) this.buffered = Buffer.alloc(0)
  }
}

export async function* multipart(stream: AsyncIterable<Uint8Array>, boundary: string): AsyncGenerator<Part> {
  const reader = new Reader(stream)
  const delimiter = Buffer.from(`\r\n--${boundary}`)
  const lineEnd = Buffer.from("\r\n")
  // The first boundary may be at the very start, without a preceding line break.
  const first = await reader.whole(Buffer.from(`--${boundary}`), preambleBytesMax)
  if (first.length > 0 && !first.toString("latin1").endsWith("\r\n")) throw new MultipartFault("syntax")
  for (let count = 0; ; count++) {
    const after = await reader.take(2)
    if (after === "--") {
      await reader.drain()
      return
    }
    if (after !== "\r\n") throw new MultipartFault("syntax")
    if (count >= partsMax) throw new MultipartFault("too-many")
    let disposition = ""
    for (let bytes = 0; ;) {
      const line = await reader.whole(lineEnd, headBytesMax)
      if (line.length === 0) break
      if ((bytes += line.length) > headBytesMax) throw new MultipartFault("syntax")
      const text = line.toString("utf8")
      if (/^content-disposition\s*:/i.test(text)) disposition = text.slice(text.indexOf(":") + 1)
    }
    const name = parameter(disposition, "name")
    if (!/^\s*form-data\b/i.test(disposition) || name === undefined) throw new MultipartFault("syntax")
    let read = false
    const bytes = (async function* () {
      if (!read) {
        read = true
        yield* reader.until(delimiter)
      }
    })()
    yield { name, fileName: extended(disposition) ?? parameter(disposition, "filename"), bytes }
    for await (const _ of bytes) {
      /* what the consumer has left */
    }
  }
}

const parameter = (disposition: string, name: string): string | undefined => {
  const found = new RegExp(`;\\s*${name}=(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s;]*))`, "i").exec(disposition)
  // Browsers write quotes as %22 and leave backslashes alone; others escape quotes with a backslash.
  return found === null
    ? undefined
    : (found[1]?.replace(/\\(["\\])/g, "$1").replaceAll("%22", '"') ?? found[2]!)
}

const extended = (disposition: string): string | undefined => {
  const found = /;\s*filename\*=(utf-8|iso-8859-1)'[^']*'([^\s;]+)/i.exec(disposition)
  if (found === null) return undefined
  try {
    return found[1]!.toLowerCase() === "utf-8"
      ? decodeURIComponent(found[2]!)
      : Buffer.from(
          found[2]!.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) =>
            String.fromCharCode(Number.parseInt(hex, 16))
          ),
          "latin1"
        ).toString("latin1")
  } catch {
    return undefined
  }
}
