/** One HTTP/1.1 connection to an origin: one request at a time, the answer's bytes by callback out of one
 *  buffer which all connections share. It is our own because a proxied turn costs little else
 *  (bench/chat-turns, chat-stream); it understands what an answer to a POST, GET or DELETE can be. It is
 *  guaranteed that a connection breaks where it would have to guess, and that `end` or `failed` comes once.
 *  Source: RFC 9112. */
import net from "node:net"
import tls from "node:tls"
import type { Deadline, Deadlines } from "./deadlines.ts"
import { readHead, type ResponseHead } from "./http1-head.ts"

/** Waits for one answer. `end` or `failed` is called once, and nothing after it. */
export interface ResponseHandler {
  head(head: ResponseHead): void
  /** Takes a piece of the body, which is valid during the call only. */
  data(bytes: Buffer, from: number, to: number): void
  end(): void
  failed(reason: WireFault, detail: string): void
}

/** `stale`: a connection that had rested ended before a byte of the answer came. Its server had most probably
 *  closed it meanwhile; that says nothing about the server. */
export type WireFault = "connect-timeout" | "broken" | "stale"

/** An exchange under way, as its caller sees it. The handler says whose it is: the connection may have
 *  gone on to somebody else's. */
export interface Exchange {
  pause(handler: ResponseHandler): void
  resume(handler: ResponseHandler): void
  abandon(handler: ResponseHandler): void
}

/** The origin that connections belong to: its address, and where they go when they are idle or closed. */
export interface ConnectionOwner {
  readonly host: string
  readonly port: number
  readonly secure: boolean
  readonly connectMs: number
  readonly deadlines: Deadlines
  /** The TLS session of the last handshake. */
  tlsSession: Buffer | undefined
  /** Takes back a connection that may be used again, for so long. */
  release(connection: Http1Connection, keepAliveMs: number): void
  /** Closes all that rest: one of them was stale, so none is trusted. */
  distrustIdle(): void
  forget(connection: Http1Connection): void
}

export const headBytesMax = 65_536

/** A chunk's extensions, or a trailer's line, have at most so many bytes. */
const lineBytesMax = 4_096

/** One buffer serves every connection: what it holds has been read when the next read begins. */
const sharedBuffer = Buffer.allocUnsafeSlow(65_536)

/** Values of hexadecimal digits by their character code; -1 for all other characters. */
const hexDigits = Int8Array.from({ length: 256 }, (_, code) =>
  "0123456789abcdef".indexOf(String.fromCharCode(code).toLowerCase())
)

/** The part of an answer that the next byte belongs to. */
type Part = "head" | "counted" | "size" | "extension" | "chunk" | "chunk end" | "trailers" | "until close"

export class Http1Connection implements Exchange {
  closed = false
  idleUntilMs = 0
  private part: Part = "head"

  /** Bytes left of the body or of this chunk; while a size is read, the size so far. */
  private left = 0

  /** Digits read of a size, or bytes of an extension or a trailer. */
  private lineLength = 0

  /** The beginning of a head whose end has not come yet. */
  private partialHead: Buffer | undefined = undefined

  private keepAlive = false
  private keepAliveMs = 0
  private hasRested = false
  private paused = false
  private handler: ResponseHandler | undefined = undefined
  private connectDeadline: Deadline | undefined
  private fault: string | undefined = undefined
  private readonly socket: net.Socket
  private readonly owner: ConnectionOwner

  constructor(owner: ConnectionOwner) {
    this.owner = owner
    this.connectDeadline = owner.deadlines.start(owner.connectMs, () =>
      this.fail("connect-timeout", "no connection in time")
    )
    this.socket = this.connect()
    this.socket.setNoDelay(true)
    this.socket.setKeepAlive(true, 60_000)
    this.socket.on(owner.secure ? "secureConnect" : "connect", () => this.connected())
    this.socket.on("error", (cause: NodeJS.ErrnoException) => {
      this.fault = cause.code ?? "the connection broke"
    })
    // The connection ends at once: until its own end has gone out as well, it would be used again or waited
    // for.
    this.socket.on("end", () => {
      if (this.part === "until close" && this.handler !== undefined) this.finish(false)
      else this.lost("the connection ended")
    })
    this.socket.on("close", () => this.lost(this.fault ?? "the connection broke"))
  }

  private connect(): net.Socket {
    const { host, port, secure, tlsSession } = this.owner
    const onread: net.OnReadOpts = {
      buffer: sharedBuffer,
      callback: (length) => {
        this.read(sharedBuffer, length)
        return true
      }
    }
    if (!secure) return net.connect({ host, port, onread })
    const socket = tls.connect({
      host,
      port,
      onread,
      ALPNProtocols: ["http/1.1"],
      ...(net.isIP(host) === 0 ? { servername: host } : {}),
      ...(tlsSession === undefined ? {} : { session: tlsSession })
    } as tls.ConnectionOptions)
    socket.on("session", (session: Buffer) => {
      this.owner.tlsSession = session
    })
    return socket
  }

  private connected(): void {
    this.connectDeadline?.stop()
    this.connectDeadline = undefined
  }

  send(request: string, ascii: boolean, handler: ResponseHandler): void {
    this.handler = handler
    this.part = "head"
    this.socket.write(request, ascii ? "latin1" : "utf8")
  }

  /** Stops reading until `resume`; at most what has been read already is still handed over. */
  pause(handler: ResponseHandler): void {
    if (this.handler === handler) {
      this.paused = true
      this.socket.pause()
    }
  }

  resume(handler: ResponseHandler): void {
    if (this.handler === handler) this.flow()
  }

  private flow(): void {
    if (this.paused) {
      this.paused = false
      this.socket.resume()
    }
  }

  /** Ends the exchange because nobody waits any more: the server learns it by the connection's end. */
  abandon(handler: ResponseHandler): void {
    if (this.handler === handler) {
      this.handler = undefined
      this.destroy()
    }
  }

  destroy(): void {
    this.closed = true
    this.connected()
    this.owner.forget(this)
    this.socket.destroy()
  }

  private lost(detail: string): void {
    const isSilent = this.part === "head" && this.partialHead === undefined
    const isStale = this.hasRested && isSilent && this.handler !== undefined
    if (isStale) this.owner.distrustIdle()
    this.fail(isStale ? "stale" : "broken", detail)
  }

  private fail(reason: WireFault, detail: string): void {
    const { handler } = this
    this.handler = undefined
    this.destroy()
    handler?.failed(reason, detail)
  }

  private finish(clean: boolean): void {
    const handler = this.handler!
    this.handler = undefined
    this.flow()
    // An answer may come before all of its request has left: the next one would wait behind the remainder.
    if (clean && this.keepAlive && !this.closed && this.socket.writableLength === 0) {
      this.hasRested = true
      this.owner.release(this, this.keepAliveMs)
    } else this.destroy()
    handler.end()
  }

  /** Hands the bytes to the part they belong to, until all are read. One switch over the parts: this runs for
   *  every read of every stream (bench/chat-stream). Each part returns where the next begins, or -1 when
   *  nothing more is to be read: the exchange has ended, or the rest has to come first. */
  private read(received: Buffer, length: number): void {
    let bytes = received
    let to = length
    if (this.partialHead !== undefined) {
      bytes = Buffer.concat([this.partialHead, received.subarray(0, length)])
      to = bytes.length
      this.partialHead = undefined
    }
    for (let at = 0; at >= 0 && at < to;) {
      const { handler } = this
      // Nobody has asked for these bytes.
      if (handler === undefined) {
        if (!this.closed) this.destroy()
        return
      }
      switch (this.part) {
        case "head":
          at = this.readHead(handler, bytes, at, to)
          break
        case "counted":
        case "chunk":
          at = this.readCounted(handler, bytes, at, to)
          break
        case "until close":
          handler.data(bytes, at, to)
          return
        case "size":
          at = this.readSize(bytes[at]!, at)
          break
        case "extension":
          at = this.readExtension(bytes[at]!, at)
          break
        case "chunk end":
          at = this.readChunkEnd(bytes[at]!, at)
          break
        case "trailers":
          at = this.readTrailer(bytes[at]!, at, to)
      }
    }
  }

  /** The parameters of the following are positional: no object is made for them in a read. */
  private readHead(handler: ResponseHandler, bytes: Buffer, at: number, to: number): number {
    const end = bytes.indexOf("\r\n\r\n", at)
    if (end < 0 || end + 4 > to) {
      if (to - at > headBytesMax) return this.refuse("the head is too large")
      this.partialHead = Buffer.from(bytes.subarray(at, to))
      return -1
    }
    const head = readHead(bytes.toString("latin1", at, end))
    if (head === undefined || head.status === 101) return this.refuse("the answer is not HTTP/1.1")
    const next = end + 4
    // An interim answer: the final one follows.
    if (head.status < 200) return next

    this.frame(head)
    handler.head(head)
    if (head.length === 0 && this.handler === handler) return this.finishAt(next, to)
    return next
  }

  /** Sets how the body of this head is framed. */
  private frame(head: ResponseHead): void {
    this.keepAlive = head.keepAlive
    this.keepAliveMs = head.keepAliveMs
    this.left = head.length
    if (head.chunked) {
      this.part = "size"
      this.left = this.lineLength = 0
    } else if (head.length < 0) {
      this.part = "until close"
      this.keepAlive = false
    } else this.part = "counted"
  }

  private readCounted(handler: ResponseHandler, bytes: Buffer, at: number, to: number): number {
    const end = Math.min(to, at + this.left)
    this.left -= end - at
    handler.data(bytes, at, end)
    if (this.left > 0) return end
    if (this.part === "chunk") this.part = "chunk end"
    else if (this.handler === handler) return this.finishAt(end, to)
    return end
  }

  private readSize(byte: number, at: number): number {
    const digit = hexDigits[byte]!
    if (digit >= 0) {
      if (++this.lineLength > 8) return this.refuse("a chunk is too large")
      this.left = this.left * 16 + digit
      return at + 1
    }
    const endsSize = byte === 13 || byte === 59 || byte === 32 || byte === 9
    if (this.lineLength === 0 || !endsSize) return this.refuse("a chunk without a size")
    this.part = "extension"
    this.lineLength = 0
    return at + 1
  }

  private readExtension(byte: number, at: number): number {
    if (byte === 10) {
      this.lineLength = 0
      this.part = this.left === 0 ? "trailers" : "chunk"
    } else if (++this.lineLength > lineBytesMax) return this.refuse("a chunk's extensions are too long")
    return at + 1
  }

  private readChunkEnd(byte: number, at: number): number {
    if (byte === 10) {
      this.left = this.lineLength = 0
      this.part = "size"
    } else if (byte !== 13) return this.refuse("a chunk is longer than its size")
    return at + 1
  }

  private readTrailer(byte: number, at: number, to: number): number {
    if (byte === 10) {
      if (this.lineLength === 0) return this.finishAt(at + 1, to)
      this.lineLength = 0
    } else if (byte !== 13 && ++this.lineLength > lineBytesMax) return this.refuse("a trailer is too long")
    return at + 1
  }

  /** Ends the exchange. What comes after its end makes the connection useless. */
  private finishAt(at: number, to: number): number {
    this.finish(at === to)
    return -1
  }

  private refuse(detail: string): number {
    this.fail("broken", detail)
    return -1
  }
}
