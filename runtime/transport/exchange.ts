/** The parts of an HTTP exchange that both adapters share: status lines, trace ids, the client's address, and
 *  limits of the request head. */
import { randomFillSync } from "node:crypto"
import { STATUS_CODES } from "node:http"
import { BlockList, isIP } from "node:net"
import { Readable } from "node:stream"
import { BodyFault, type Headers } from "../http.ts"
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

  /** The size on the wire in bytes: name, colon, space, value and line end of each header. */
  get bytes(): number {
    let bytes = 0
    for (let i = 0; i < this.flat.length; i += 2) bytes += this.flat[i]!.length + this.flat[i + 1]!.length + 4
    return bytes
  }

  *entries(): Iterable<readonly [string, string]> {
    for (let i = 0; i < this.flat.length; i += 2) yield [this.flat[i]!, this.flat[i + 1]!]
  }
}

export interface Limits {
  readonly headerBytesMax: number
  readonly targetBytesMax: number
  readonly bodyTimeoutMs: number
  readonly socketIdleMs: number
}

export const limitsOf = (options: ListenOptions): Limits => ({
  headerBytesMax: options.headerBytesMax ?? 16_384,
  targetBytesMax: options.targetBytesMax ?? 8_192,
  bodyTimeoutMs: options.bodyTimeoutMs ?? 30_000,
  socketIdleMs: options.socketIdleMs ?? 60_000
})

/** The most bytes of a body that are read and discarded when no route wants it, so that the connection stays
 *  usable. */
export const discardBytesMax = 65_536

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

/** Returns the path with exactly one slash at its start. */
export const plainPath = (path: string): string => (path.startsWith("//") ? path.replace(/^\/+/, "/") : path)

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
