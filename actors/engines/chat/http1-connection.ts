/** HTTP/1.1 towards one origin: one request at a time on a kept connection, the answer's bytes by callback
 *  out of one buffer which all connections share. Our own because a proxied turn costs little else
 *  (bench/chat-turns, chat-stream); it understands what an answer to a POST, GET or DELETE can be, and breaks
 *  the connection where it would have to guess. Source: RFC 9112. */
import net from "node:net"
import tls from "node:tls"
import type { Deadline, Deadlines } from "./deadlines.ts"

/** Who waits for one answer. `end` or `failed` comes once, after it nothing. */
export interface Hearer {
  /** `length`: of the body in bytes, -1 when the head does not say. */
  head(head: Head): void
  /** A piece of the body, valid during the call only. */
  data(bytes: Buffer, from: number, to: number): void
  end(): void
  failed(reason: WireFault, detail: string): void
}

export type WireFault = "connect-timeout" | "broken"

export interface Head {
  readonly status: number
  readonly type: string
  readonly retryAfter: string | undefined
  readonly length: number
  readonly chunked: boolean
  readonly keep: boolean
  readonly keepMs: number
}

export const headBytesMax = 65_536

/** Of a chunk's extensions, and of a trailer's line. */
const lineBytesMax = 4_096

const keepMsDefault = 30_000

/** One buffer for every connection: what it holds has been read when the next read begins. */
const shared = Buffer.allocUnsafeSlow(65_536)

/** -1: no hexadecimal digit. */
const digits = Int8Array.from({ length: 256 }, (_, code) =>
  "0123456789abcdef".indexOf(String.fromCharCode(code).toLowerCase())
)

/** The text before the empty line; undefined when it is not HTTP/1.1 or frames its body in a way that could
 *  be read two ways. */
export const readHead = (text: string): Head | undefined => {
  if (!/^HTTP\/1\.[01] \d{3}(?: |\r|$)/.test(text)) return undefined
  const status = Number(text.slice(9, 12))
  let type = ""
  let retryAfter: string | undefined
  let length = -1
  let chunked = false
  let keep = text.charCodeAt(7) === 49
  let keepMs = keepMsDefault
  for (let at = text.indexOf("\r\n"); at >= 0;) {
    const from = at + 2
    const colon = text.indexOf(":", from)
    at = text.indexOf("\r\n", from)
    const to = at < 0 ? text.length : at
    if (colon <= from || colon > to || text.charCodeAt(from) <= 32 || text.charCodeAt(colon - 1) <= 32)
      return undefined
    switch (colon - from) {
      case 10:
      case 11:
      case 12:
      case 14:
      case 17:
        break
      default:
        continue
    }
    const value = text.slice(colon + 1, to).trim()
    switch (text.slice(from, colon).toLowerCase()) {
      case "content-type":
        type = value
        break
      case "retry-after":
        retryAfter = value
        break
      case "content-length": {
        if (!/^\d{1,15}$/.test(value) || (length >= 0 && length !== Number(value))) return undefined
        length = Number(value)
        break
      }
      case "transfer-encoding": {
        if (chunked || value.toLowerCase() !== "chunked") return undefined
        chunked = true
        break
      }
      case "connection": {
        const words = value.toLowerCase()
        if (words.includes("close")) keep = false
        else if (words.includes("keep-alive")) keep = true
        break
      }
      case "keep-alive": {
        const seconds = /timeout=(\d{1,6})/i.exec(value)?.[1]
        // A second before the server would hang up.
        if (seconds !== undefined)
          keepMs = Math.max(0, Math.min(keepMsDefault, Number(seconds) * 1_000 - 1_000))
      }
    }
  }
  if (chunked && length >= 0) {
    length = -1
    keep = false
  }
  if (status === 204 || status === 304) {
    chunked = false
    length = 0
  }
  return { status, type, retryAfter, length, chunked, keep, keepMs }
}

/** Where a connection stands in its answer. */
type Place = "head" | "counted" | "size" | "extension" | "chunk" | "chunk end" | "trailers" | "rest"

class Connection {
  dead = false
  idleUntilMs = 0
  private place: Place = "head"

  /** Bytes of the body, of this chunk, or of the size read so far. */
  private left = 0

  /** Digits of a size, bytes of an extension or a trailer. */
  private line = 0

  /** A head which has not come whole. */
  private held: Buffer | undefined = undefined

  private keep = false
  private keepMs = 0
  private paused = false
  private hearer: Hearer | undefined = undefined
  private connecting: Deadline | undefined
  private fault: string | undefined = undefined
  private readonly socket: net.Socket
  private readonly origin: Origin

  constructor(origin: Origin) {
    this.origin = origin
    this.connecting = origin.deadlines.start(origin.connectMs, () =>
      this.fail("connect-timeout", "no connection in time")
    )
    const { host, port } = origin
    const onread: net.OnReadOpts = {
      buffer: shared,
      callback: (length) => {
        this.read(shared, length)
        return true
      }
    }
    const socket = (this.socket = origin.secure
      ? tls.connect({
          host,
          port,
          onread,
          ALPNProtocols: ["http/1.1"],
          ...(net.isIP(host) === 0 ? { servername: host } : {}),
          ...(origin.session === undefined ? {} : { session: origin.session })
        } as tls.ConnectionOptions)
      : net.connect({ host, port, onread }))
    socket.setNoDelay(true)
    socket.setKeepAlive(true, 60_000)
    socket.on(origin.secure ? "secureConnect" : "connect", () => this.connected())
    socket.on("error", (cause: NodeJS.ErrnoException) => {
      this.fault = cause.code ?? "the connection broke"
    })
    // At once: until its own end has gone out as well, it would be used again or waited for.
    socket.on("end", () => {
      if (this.place === "rest" && this.hearer !== undefined) this.finish(false)
      else this.fail("broken", "the connection ended")
    })
    socket.on("close", () => this.fail("broken", this.fault ?? "the connection broke"))
    if (origin.secure)
      socket.on("session", (session: Buffer) => {
        origin.session = session
      })
  }

  private connected(): void {
    this.connecting?.stop()
    this.connecting = undefined
  }

  send(request: string, ascii: boolean, hearer: Hearer): void {
    this.hearer = hearer
    this.place = "head"
    this.socket.write(request, ascii ? "latin1" : "utf8")
  }

  /** What comes still is read after `resume`; at most the read in hand is told meanwhile. */
  pause(hearer: Hearer): void {
    if (this.hearer === hearer) {
      this.paused = true
      this.socket.pause()
    }
  }

  resume(hearer: Hearer): void {
    if (this.hearer === hearer) this.flow()
  }

  private flow(): void {
    if (this.paused) {
      this.paused = false
      this.socket.resume()
    }
  }

  /** Nobody waits any more: the server learns it by the connection's end. */
  abandon(hearer: Hearer): void {
    if (this.hearer === hearer) {
      this.hearer = undefined
      this.destroy()
    }
  }

  destroy(): void {
    this.dead = true
    this.connected()
    this.origin.gone(this)
    this.socket.destroy()
  }

  private fail(reason: WireFault, detail: string): void {
    const { hearer } = this
    this.hearer = undefined
    this.destroy()
    hearer?.failed(reason, detail)
  }

  private finish(clean: boolean): void {
    const hearer = this.hearer!
    this.hearer = undefined
    this.flow()
    // Answered before all of its request has left: the next one would wait behind the rest.
    if (clean && this.keep && !this.dead && this.socket.writableLength === 0)
      this.origin.rest(this, this.keepMs)
    else this.destroy()
    hearer.end()
  }

  private read(given: Buffer, length: number): void {
    let bytes = given
    let to = length
    if (this.held !== undefined) {
      bytes = Buffer.concat([this.held, given.subarray(0, length)])
      to = bytes.length
      this.held = undefined
    }
    for (let at = 0; at < to;) {
      const { hearer } = this
      // Bytes that nobody asked for.
      if (hearer === undefined) {
        if (!this.dead) this.destroy()
        return
      }
      switch (this.place) {
        case "head": {
          const end = bytes.indexOf("\r\n\r\n", at)
          if (end < 0 || end + 4 > to) {
            if (to - at > headBytesMax) return this.fail("broken", "the head is too large")
            this.held = Buffer.from(bytes.subarray(at, to))
            return
          }
          const head = readHead(bytes.toString("latin1", at, end))
          if (head === undefined || head.status === 101)
            return this.fail("broken", "the answer is not HTTP/1.1")
          at = end + 4
          if (head.status < 200) break
          this.keep = head.keep
          this.keepMs = head.keepMs
          this.left = head.length
          this.place = head.chunked ? "size" : head.length < 0 ? "rest" : "counted"
          if (head.chunked) this.left = this.line = 0
          if (this.place === "rest") this.keep = false
          hearer.head(head)
          if (head.length === 0 && this.hearer === hearer) return this.finish(at === to)
          break
        }
        case "counted":
        case "chunk": {
          const end = Math.min(to, at + this.left)
          this.left -= end - at
          hearer.data(bytes, at, end)
          at = end
          if (this.left > 0) break
          if (this.place === "chunk") this.place = "chunk end"
          else if (this.hearer === hearer) return this.finish(at === to)
          break
        }
        case "rest": {
          hearer.data(bytes, at, to)
          return
        }
        case "size": {
          const byte = bytes[at++]!
          const digit = digits[byte]!
          if (digit >= 0) {
            if (++this.line > 8) return this.fail("broken", "a chunk is too large")
            this.left = this.left * 16 + digit
          } else if (this.line > 0 && (byte === 13 || byte === 59 || byte === 32 || byte === 9)) {
            this.place = "extension"
            this.line = 0
          } else return this.fail("broken", "a chunk without a size")
          break
        }
        case "extension": {
          if (bytes[at++] === 10) {
            this.line = 0
            this.place = this.left === 0 ? "trailers" : "chunk"
          } else if (++this.line > lineBytesMax)
            return this.fail("broken", "a chunk's extensions are too long")
          break
        }
        case "chunk end": {
          const byte = bytes[at++]!
          if (byte === 10) {
            this.left = this.line = 0
            this.place = "size"
          } else if (byte !== 13) return this.fail("broken", "a chunk is longer than its size")
          break
        }
        case "trailers": {
          const byte = bytes[at++]!
          if (byte === 10) {
            if (this.line === 0) return this.finish(at === to)
            this.line = 0
          } else if (byte !== 13 && ++this.line > lineBytesMax)
            return this.fail("broken", "a trailer is too long")
        }
      }
    }
  }
}

export interface OriginOptions {
  readonly url: URL
  readonly connectMs: number
  readonly deadlines: Deadlines
}

/** A call under way, for who made it. */
export interface Line {
  pause(hearer: Hearer): void
  resume(hearer: Hearer): void
  abandon(hearer: Hearer): void
}

export class Origin {
  readonly host: string
  readonly port: number
  readonly secure: boolean
  readonly connectMs: number
  readonly deadlines: Deadlines

  /** TLS: of the last handshake. */
  session: Buffer | undefined = undefined

  /** The last one that came to rest is the first to be used again. */
  private readonly idle: Array<Connection> = []

  private readonly all = new Set<Connection>()
  private tidying: Deadline | undefined = undefined

  constructor({ url, connectMs, deadlines }: OriginOptions) {
    this.secure = url.protocol === "https:"
    this.host = url.hostname.replace(/^\[|\]$/g, "")
    this.port = url.port === "" ? (this.secure ? 443 : 80) : Number(url.port)
    this.connectMs = connectMs
    this.deadlines = deadlines
  }

  /** `request`: head and body as they go out; `ascii` when every character is one byte. */
  call(request: string, ascii: boolean, hearer: Hearer): Line {
    const connection = this.rested() ?? new Connection(this)
    this.all.add(connection)
    connection.send(request, ascii, hearer)
    return connection
  }

  private rested(): Connection | undefined {
    if (this.idle.length === 0) return undefined
    const nowMs = this.tidy()
    let found = this.idle.pop()
    for (; found !== undefined && found.idleUntilMs <= nowMs; found = this.idle.pop()) found.destroy()
    return found
  }

  /** Those at rest for too long are let go, the time now told. */
  private tidy(): number {
    const nowMs = this.deadlines.clock.nowMs()
    while (this.idle.length > 0 && this.idle[0]!.idleUntilMs <= nowMs) this.idle[0]!.destroy()
    return nowMs
  }

  rest(connection: Connection, keepMs: number): void {
    connection.idleUntilMs = this.deadlines.clock.nowMs() + keepMs
    this.idle.push(connection)
    this.tidying ??= this.deadlines.start(keepMsDefault, this.quiet)
  }

  /** Without calls nobody else would. */
  private readonly quiet = (): void => {
    this.tidy()
    this.tidying = this.idle.length === 0 ? undefined : this.deadlines.start(keepMsDefault, this.quiet)
  }

  gone(connection: Connection): void {
    this.all.delete(connection)
    const at = this.idle.indexOf(connection)
    if (at >= 0) this.idle.splice(at, 1)
  }

  close(): void {
    this.tidying?.stop()
    this.tidying = undefined
    for (const connection of this.all) connection.destroy()
  }
}
