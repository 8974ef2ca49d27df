/** The parts of an HTTP exchange that both adapters share: status lines, trace ids, the client's address, and
 *  limits of the request head. */
import { randomFillSync } from "node:crypto"
import { STATUS_CODES } from "node:http"
import { BlockList, isIP } from "node:net"
import { Readable } from "node:stream"
import { BodyFault, type Headers, type Request, type Response, type Service } from "../http.ts"
import type { ListenOptions } from "./server.ts"

/** Reason phrases of the status codes that DeepL uses and no registry lists. */
const vendorReasons: Record<number, string> = { 456: "Quota Exceeded", 529: "Too Many Requests" }

const statusLines = new Map<number, string>()

/** The status line's code and phrase, as `200 OK`. */
export const statusLine = (status: number): string => {
  let line = statusLines.get(status)
  if (line === undefined) statusLines.set(status, (line = `${status} ${reasonOf(status)}`))
  return line
}

export const reasonOf = (status: number): string => vendorReasons[status] ?? STATUS_CODES[status] ?? "Unknown"

/** Returns the Content-Length of a body that does not stream. */
export const byteLengthOf = (body: string | Uint8Array | undefined): number => {
  if (body === undefined) return 0
  return typeof body === "string" ? Buffer.byteLength(body) : body.length
}

const control = /[\0-\x08\x0a-\x1f\x7f]/
const controls = new RegExp(control, "g")

/** Replaces every control character of a header's value by a space (RFC 9110, section 5.5), so that text from
 *  a request or from another server cannot end the header's line. */
export const fieldText = (value: string): string =>
  control.test(value) ? value.replace(controls, " ") : value

const pool = Buffer.alloc(16 * 256)
let digits = ""
let drawn = 0

/** Returns 32 random lower-case hex digits. They are drawn and formatted in blocks, because both calls cost
 *  more than their bytes. An id retains its whole block in memory, so it must not outlive its exchange. */
export const traceId = (): string => {
  if (drawn === digits.length) {
    digits = randomFillSync(pool).toString("hex")
    drawn = 0
  }
  return digits.slice(drawn, (drawn += 32))
}

/** Request headers as one list: names in lower case and values, alternating, in order of arrival. */
export class FlatHeaders implements Headers {
  private readonly flat: ReadonlyArray<string>

  constructor(flat: ReadonlyArray<string>) {
    this.flat = flat
  }

  get(name: string): string | undefined {
    const { flat } = this
    let value: string | undefined
    for (let i = 0; i < flat.length; i += 2)
      if (flat[i] === name) value = value === undefined ? flat[i + 1]! : `${value}, ${flat[i + 1]!}`
    return value
  }

  /** Reads in one pass what the transport itself has to know of the head. */
  inspect(): Head {
    const { flat } = this
    const head = new Head()
    for (let i = 0; i < flat.length; i += 2) head.field(flat[i]!, flat[i + 1]!)
    head.check()
    return head
  }

  *entries(): Iterable<readonly [string, string]> {
    for (let i = 0; i < this.flat.length; i += 2) yield [this.flat[i]!, this.flat[i + 1]!]
  }
}

/** The transport's own refusals: those that a service words, and three that take its words for 400. */
export type Refusal = Parameters<Service["refused"]>[0] | 417 | 426 | 505

export const refusal = (
  service: Service,
  status: Refusal,
  request: Parameters<Service["refused"]>[1]
): Response => {
  if (status !== 417 && status !== 426 && status !== 505) return service.refused(status, request)
  const response = service.refused(400, request)
  if (status !== 426) return { ...response, status }
  return { ...response, status, headers: [...(response.headers ?? []), ["Sec-WebSocket-Version", "13"]] }
}

/** The most header fields of a request: so many fit into the native library's table. */
const headerCountMax = 98

const hostPattern = /^(?:\[[\da-f:.]+\]|[\w.~!$&'()*+,;=%-]+)(?::\d*)?$/i
const digitsPattern = /^\d+$/

/** What the head of a request says of its framing (RFC 9112, sections 3.2, 5 and 6). Whatever two readers
 *  could understand differently is a fault, so that nobody can hide one request in another. */
export class Head {
  /** The size of all fields on the wire: name, colon, space, value and line end of each. */
  bytes = 0
  /** The length of the body; unknown while `chunked`. */
  length = 0
  chunked = false
  /** The client wants the connection closed behind the answer. */
  closes = false
  fault: 400 | 417 | 431 | undefined = undefined
  /** The native library refuses such a length as well, when it has heard us. */
  isLengthMalformed = false
  private count = 0
  private hosts = 0
  private lengths = 0

  field(name: string, value: string): void {
    this.count++
    this.bytes += name.length + value.length + 4
    switch (name.length) {
      case 0:
        this.fault = 400
        return
      case 4:
        if (name === "host") this.host(value)
        return
      case 6:
        if (name === "expect" && value.toLowerCase() !== "100-continue") this.fault ??= 417
        return
      case 10:
        if (name === "connection" && /\bclose\b/i.test(value)) this.closes = true
        return
      case 14:
        if (name === "content-length") this.contentLength(value)
        return
      case 17:
        if (name === "transfer-encoding") this.transferEncoding(value)
    }
  }

  private host(value: string): void {
    if (++this.hosts > 1 || !hostPattern.test(value)) this.fault = 400
  }

  private contentLength(value: string): void {
    const length = digitsPattern.test(value) ? Number(value) : Number.NaN
    if (!Number.isSafeInteger(length)) this.isLengthMalformed = value !== ""
    if (++this.lengths > 1 || !Number.isSafeInteger(length)) this.fault = 400
    this.length = length
  }

  private transferEncoding(value: string): void {
    if (this.chunked || value.toLowerCase() !== "chunked") this.fault = 400
    this.chunked = true
  }

  check(): void {
    if (this.hosts === 0 || (this.chunked && this.lengths > 0)) this.fault = 400
    else if (this.count > headerCountMax) this.fault ??= 431
  }
}

/** Says why a request for a WebSocket is no opening handshake (RFC 6455, section 4.2.1). */
export const handshakeFault = (request: Pick<Request, "method" | "headers">): 400 | 426 | undefined => {
  const { method, headers } = request
  if (method !== "GET" || !/\bupgrade\b/i.test(headers.get("connection") ?? "")) return 400
  if (!/^[A-Za-z\d+/]{22}==$/.test(headers.get("sec-websocket-key") ?? "")) return 400
  return headers.get("sec-websocket-version") === "13" ? undefined : 426
}

export const asksForSocket = (headers: Headers): boolean =>
  headers.get("upgrade")?.toLowerCase() === "websocket"

export interface Limits {
  readonly headerBytesMax: number
  readonly targetBytesMax: number
  readonly headerTimeoutMs: number
  readonly bodyTimeoutMs: number
  readonly bodyBytesMin: number
  readonly answerTimeoutMs: number
  readonly lingerMs: number
  readonly socketIdleMs: number
}

export const limitsOf = (options: ListenOptions): Limits => {
  const bodyTimeoutMs = options.bodyTimeoutMs ?? 30_000
  return {
    headerBytesMax: options.headerBytesMax ?? 16_384,
    targetBytesMax: options.targetBytesMax ?? 8_192,
    headerTimeoutMs: options.headerTimeoutMs ?? 15_000,
    bodyTimeoutMs,
    bodyBytesMin: ((options.bodyBytesPerSecondMin ?? 1_024) * bodyTimeoutMs) / 1_000,
    answerTimeoutMs: options.answerTimeoutMs ?? 30_000,
    lingerMs: options.lingerMs ?? 30_000,
    socketIdleMs: options.socketIdleMs ?? 60_000
  }
}

/** How fast a body arrives. Within each period it must bring so many bytes: a byte now and then does not hold
 *  a connection. Time in which nobody reads it does not count. */
export class Pace {
  paused = false
  private sinceMs: number
  private bytes = 0
  private readonly bytesMin: number

  constructor(bytesMin: number, nowMs: number) {
    this.bytesMin = bytesMin
    this.sinceMs = nowMs
  }

  arrived(bytes: number, nowMs: number): void {
    this.bytes += bytes
    if (this.bytes < this.bytesMin) return
    this.bytes = 0
    this.sinceMs = nowMs
  }

  pause(): void {
    this.paused = true
  }

  resume(nowMs: number): void {
    this.paused = false
    this.bytes = 0
    this.sinceMs = nowMs
  }

  overdue(withinMs: number, nowMs: number): boolean {
    return !this.paused && nowMs - this.sinceMs >= withinMs
  }
}

/** The most bytes of a body that are read and discarded when no route wants it, so that the connection stays
 *  usable. */
export const discardBytesMax = 65_536

/** The most bytes that are read behind a refusal which closes the connection. Closing while the client still
 *  sends would reset the connection, and the answer be lost (RFC 9112, section 9.6). */
export const lingerBytesMax = 64 * 1_048_576

/** How long a connection that is refused may be silent before it is closed. */
export const lingerQuietMs = 2_000

/** Determines the client's address. Behind trusted proxies it is the first forwarded address from the right
 *  that is not a trusted proxy; otherwise it is the peer of the connection. */
export class Proxies {
  private readonly trusted = new BlockList()
  readonly any: boolean

  constructor(ranges: ReadonlyArray<string> = []) {
    this.any = ranges.length > 0
    for (const range of ranges) {
      const [address, bits] = range.split("/") as [string, string | undefined]
      const family = isIP(address) === 6 ? "ipv6" : "ipv4"
      if (bits === undefined) this.trusted.addAddress(address, family)
      else this.trusted.addSubnet(address, Number(bits), family)
    }
  }

  private trusts(address: string): boolean {
    return isIP(address) !== 0 && this.trusted.check(address, isIP(address) === 6 ? "ipv6" : "ipv4")
  }

  client(peer: string, headers: Headers): string {
    if (!this.any || !this.trusts(peer)) return peer
    const hops = (headers.get("x-forwarded-for") ?? "")
      .split(",")
      .map((hop) => hop.trim())
      .filter((hop) => isIP(hop) !== 0)
    return hops.findLast((hop) => !this.trusts(hop)) ?? hops[0] ?? peer
  }

  scheme(peer: string, secure: boolean, headers: Headers): "http" | "https" {
    const own = secure ? "https" : "http"
    if (!this.any || !this.trusts(peer)) return own
    const forwarded = headers.get("x-forwarded-proto")?.split(",")[0]?.trim().toLowerCase()
    return forwarded === "https" || forwarded === "http" ? forwarded : own
  }
}

/** Returns an IPv4 address in dotted form, also when the socket writes it as ::ffff:1.2.3.4 or as full
 *  IPv6. */
export const plainAddress = (address: string): string => {
  const mapped = /^(?:::ffff:|0000:0000:0000:0000:0000:ffff:)(.+)$/i.exec(address)?.[1]
  if (mapped === undefined) return address
  const words = /^([0-9a-f]{4}):([0-9a-f]{4})$/i.exec(mapped)
  return words === null
    ? mapped
    : [words[1]!, words[2]!]
        .flatMap((word) => [parseInt(word.slice(0, 2), 16), parseInt(word.slice(2), 16)])
        .join(".")
}

/** Returns the path with one slash before the version of an API: clients whose base address ends with a slash send
 *  two. Any other path is as it was sent, because a proxy in front may fence paths off by how they begin. */
export const plainPath = (path: string): string =>
  path.startsWith("//") ? path.replace(/^\/+(?=v\d)/, "/") : path

/** A streamed request body: the transport pushes chunks, the handler pulls them, and `pause` and `resume`
 *  carry its demand back. */
export class BodyStream {
  readonly readable: AsyncIterable<Uint8Array>
  private readonly source: Readable
  private paused = false
  private ended = false

  constructor(pause: () => void, resume: () => void) {
    this.pause = pause
    this.resume = resume
    this.source = new Readable({
      highWaterMark: 131_072,
      read: () => {
        if (this.paused) {
          this.paused = false
          resume()
        }
      }
    })
    this.source.on("error", () => {})
    this.readable = this.source
  }

  private readonly pause: () => void
  private readonly resume: () => void

  push(chunk: Uint8Array): void {
    if (this.source.destroyed) return
    if (!this.source.push(chunk) && !this.paused) {
      this.paused = true
      this.pause()
    }
  }

  end(): void {
    this.ended = true
    this.flow()
    this.source.push(null)
  }

  fail(reason: BodyFault["reason"]): void {
    this.flow()
    this.source.destroy(new BodyFault(reason))
  }

  /** Is called with the answer. Who still reads hears that no more of the body will come; what arrives of it
   *  is discarded. */
  abandon(): void {
    if (!this.ended) this.fail("aborted")
  }

  /** Resumes a paused connection: nobody reads on now, and the connection's next request would never
   *  arrive. */
  private flow(): void {
    if (!this.paused) return
    this.paused = false
    this.resume()
  }
}
