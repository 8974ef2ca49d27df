/** One HTTP exchange over uWebSockets.js: the request that a route reads, and the sink of a streamed
 *  response. The library's request is invalid when its callback returns, so its head is copied once, here.
 *  The library throws when a response is used after its end or its abort, and a throw in one of its callbacks
 *  ends the process. Guarantee: an exchange alone holds the library's response, and lets go of it at the end,
 *  at the upgrade and at the abort; from then on every call does nothing. */
import type uWS from "uWebSockets.js"
import type { Indexed, IndexedSet } from "../indexed-set.ts"
import type { Request, Service, Sink } from "../http.ts"
import {
  type BodyStream,
  byteLengthOf,
  FlatHeaders,
  lingerBytesMax,
  Pace,
  plainAddress,
  plainPath,
  type Proxies,
  traceId
} from "./exchange.ts"
import { type Interruptible } from "./answering.ts"

const noBytes = new Uint8Array(0)

/** Limits the bytes that a streamed response collects within one turn; beyond it they are written at once, so
 *  that back-pressure becomes visible. */
const corkBytesMax = 65_536

const textOf = (address: ArrayBuffer): string => plainAddress(Buffer.from(address).toString("latin1"))

/** Lets an exchange find out which client a request came from. */
export interface Origin {
  readonly proxies: Proxies
  readonly secure: boolean
  /** Holds the exchanges whose body is still arriving, or whose rest is discarded. */
  readonly watched: IndexedSet<Exchange>
}

export class Exchange implements Request, Indexed, Interruptible {
  index = -1
  readonly method: string
  readonly path: string
  readonly query: string
  readonly headers: FlatHeaders
  readonly traceId = traceId()
  params: Readonly<Record<string, string>> = {}
  body: Uint8Array = noBytes
  bodyStream: BodyStream | undefined = undefined
  service: Service | undefined = undefined
  aborted = false
  answered = false
  fiber: Interruptible["fiber"] = undefined
  pace: Pace | undefined = undefined
  /** More of its body is on its way. */
  arriving = false
  /** No request behind this one may be worked on: the connection ends with its answer. */
  closes = false
  /** It is answered; what still arrives of it is discarded until the connection is closed. */
  lingering = false
  /** When the lingering began, and when something arrived last. */
  answeredMs = 0
  heardMs = 0
  private lingerBytes = 0
  private listens = false
  private written = false
  private controller: AbortController | undefined = undefined
  private abortListener: (() => void) | undefined = undefined
  private peer: string | undefined = undefined
  private drains: Array<() => void> | undefined = undefined
  private res: uWS.HttpResponse | undefined
  private readonly origin: Origin

  constructor(origin: Origin, res: uWS.HttpResponse, req: uWS.HttpRequest) {
    this.origin = origin
    this.res = res
    this.method = req.getCaseSensitiveMethod()
    this.path = plainPath(req.getUrl())
    this.query = req.getQuery() ?? ""
    const flat: Array<string> = []
    req.forEach((name, value) => {
      flat.push(name, value)
    })
    this.headers = new FlatHeaders(flat)
  }

  private get address(): string {
    return (this.peer ??= this.res === undefined ? "" : textOf(this.res.getRemoteAddressAsText()))
  }

  get client(): string {
    return this.origin.proxies.client(this.address, this.headers)
  }

  get scheme(): "http" | "https" {
    const { proxies, secure } = this.origin
    if (proxies.any) return proxies.scheme(this.address, secure, this.headers)
    return secure ? "https" : "http"
  }

  get stream(): AsyncIterable<Uint8Array> {
    return this.bodyStream?.readable ?? { async *[Symbol.asyncIterator]() {} }
  }

  get signal(): AbortSignal {
    this.controller ??= new AbortController()
    if (this.aborted) this.controller.abort()
    return this.controller.signal
  }

  onAborted(listener: () => void): void {
    if (this.aborted) listener()
    else this.abortListener = listener
  }

  /** Reads the body. The library passes on what arrives behind an answer as well; nobody hears of that. */
  onData(read: (chunk: ArrayBuffer, isLast: boolean) => void): void {
    this.listens = true
    this.res?.onData((chunk, isLast) => {
      if (this.lingering) this.discard(chunk.byteLength, isLast)
      else if (this.res !== undefined) read(chunk, isLast)
    })
  }

  private discard(bytes: number, isLast: boolean): void {
    this.heardMs = performance.now()
    this.lingerBytes += bytes
    // What was written within the library's callback leaves behind it.
    if (isLast || this.lingerBytes > lingerBytesMax) setImmediate(() => this.close())
  }

  onWritable(listener: () => boolean): void {
    this.res?.onWritable(listener)
  }

  pause(): void {
    this.pace?.pause()
    this.res?.pause()
  }

  resume(): void {
    this.pace?.resume(performance.now())
    this.res?.resume()
  }

  /** Renews the library's own time-out of a slow body, which would cut the connection without an answer. */
  renew(): void {
    if (this.pace?.paused === true) return
    this.res?.pause()
    this.res?.resume()
  }

  /** Sends a whole response in one cork. `fields` begins with the trace id's value; the rest of the head
   *  follows in the same string, because each call into the library costs more than the bytes it carries. */
  end(
    status: string,
    fields: string,
    body: string | Uint8Array | undefined,
    closesConnection: boolean
  ): void {
    const res = this.release()
    res?.cork(() => {
      res.writeStatus(status)
      res.writeHeader("X-Trace-ID", fields)
      if (this.method === "HEAD") res.endWithoutBody(byteLengthOf(body), closesConnection)
      else res.end(body ?? "", closesConnection)
    })
  }

  /** Sends a whole response that closes the connection, but keeps it open to discard what still arrives: the
   *  library's own close would reset the connection while the client sends, and the answer be lost. A further
   *  request on it is cut by the library, because to it this response never ends: for that the whole response
   *  is written as one header, whose own line end is counted to the body. With `now` it does not wait for the
   *  end of the library's callback, in which it would be lost if another request followed in the same packet:
   *  the library sends at once what exceeds its buffer of 16 KiB. */
  endLingering(status: string, fields: string, body: string | Uint8Array | undefined, now: boolean): void {
    const { res } = this
    if (res === undefined) return
    this.linger()
    const padding = now ? " ".repeat(16_384) : ""
    const length = byteLengthOf(body)
    const tail = length === 0 && !now ? 0 : length + padding.length + 2
    const head = `${fields}\r\nConnection: close\r\nDate: ${new Date().toUTCString()}\r\nContent-Length: ${tail}\r\n`
    const parts = [Buffer.from(head, "utf8")]
    if (tail > 0 && this.method !== "HEAD")
      parts.push(Buffer.from("\r\n"), Buffer.from(body ?? ""), Buffer.from(padding))
    res.cork(() => {
      res.writeStatus(status)
      res.writeHeader("X-Trace-ID", Buffer.concat(parts))
    })
    if (!this.listens) this.onData(() => {})
  }

  private linger(): void {
    this.bodyStream?.abandon()
    this.lingering = true
    this.origin.watched.add(this)
    this.answeredMs = this.heardMs = performance.now()
  }

  /** Begins a streamed response. */
  begin(status: string, fields: string): void {
    const { res } = this
    res?.cork(() => {
      res.writeStatus(status)
      res.writeHeader("X-Trace-ID", fields)
    })
  }

  /** Writes the chunks in one cork, and returns false when the peer reads too slowly. */
  write(chunks: ReadonlyArray<string | Uint8Array>): boolean {
    const { res } = this
    let keepsUp = true
    res?.cork(() => {
      for (const chunk of chunks)
        if (chunk.length > 0) {
          this.written = true
          keepsUp = res.write(chunk) && keepsUp
        }
    })
    return keepsUp
  }

  /** Completes a streamed response. The connection is never closed here: the library would write its header
   *  into the middle of a chunked body. */
  finish(): void {
    if (this.closes) return this.finishLingering()
    const res = this.release()
    res?.cork(() => {
      if (this.method === "HEAD") res.endWithoutBody()
      else res.end()
    })
  }

  /** Completes a streamed response whose connection is to be closed. To the library it never ends: the last
   *  chunk comes with a trailer field (RFC 9112, section 7.1.2), which the library writes like any header. */
  private finishLingering(): void {
    const { res } = this
    if (res === undefined) return
    this.linger()
    res.cork(() => {
      if (this.method === "HEAD") res.writeHeader("Trailer", "X-Trace-ID\r\n")
      else if (this.written) res.writeHeader("\r\n0\r\nX-Trace-ID", `${this.traceId}\r\n`)
      else res.writeHeader("Content-Length", "0\r\n")
    })
    if (!this.listens) this.onData(() => {})
  }

  /** Drops the connection; the library reports it as an abort. */
  close(): void {
    const { res } = this
    this.res = undefined
    res?.close()
  }

  upgrade<Data>(data: Data, key: string, extensions: string, context: uWS.us_socket_context_t): void {
    const res = this.release()
    res?.cork(() => {
      res.writeStatus("101 Switching Protocols")
      res.writeHeader("X-Trace-ID", this.traceId)
      res.upgrade(data, key, "", extensions, context)
    })
  }

  /** Hands the library's response out for its last use. What is left of a body is discarded. */
  private release(): uWS.HttpResponse | undefined {
    this.bodyStream?.abandon()
    const { res } = this
    this.res = undefined
    return res
  }

  abort(): void {
    this.res = undefined
    if (this.lingering) return
    this.aborted = true
    this.abortListener?.()
    this.fiber?.interruptUnsafe()
    this.bodyStream?.fail("aborted")
    this.controller?.abort()
    this.wake()
  }

  onDrain(): Promise<void> {
    return new Promise((resolve) => {
      ;(this.drains ??= []).push(resolve)
    })
  }

  wake(): void {
    const waiting = this.drains
    this.drains = undefined
    if (waiting !== undefined) for (const resolve of waiting) resolve()
  }
}

/** A streamed response. Chunks written within one turn leave in one cork; chunks passed to `send` leave at
 *  once. */
export class ResponseStream implements Sink {
  private behind = false
  private ended = false
  private scheduled = false
  private queue: Array<string | Uint8Array> = []
  private queuedBytes = 0
  private readonly exchange: Exchange
  private readonly onEnd: () => void

  constructor(exchange: Exchange, onEnd: () => void) {
    this.exchange = exchange
    this.onEnd = onEnd
  }

  get signal(): AbortSignal {
    return this.exchange.signal
  }

  private get closed(): boolean {
    return this.exchange.aborted || this.ended
  }

  write(chunk: string | Uint8Array): boolean {
    if (this.closed) return true
    this.queue.push(chunk)
    this.queuedBytes += chunk.length
    if (this.queuedBytes >= corkBytesMax) this.flush()
    else if (!this.scheduled) {
      this.scheduled = true
      queueMicrotask(this.flush)
    }
    return !this.behind
  }

  send(chunk: string | Uint8Array): boolean {
    if (this.closed || chunk.length === 0) return true
    this.flush()
    this.behind = !this.exchange.write([chunk]) || this.behind
    return !this.behind
  }

  private readonly flush = (): void => {
    this.scheduled = false
    if (this.queue.length === 0) return
    const chunks = this.queue
    this.queue = []
    this.queuedBytes = 0
    this.behind = !this.exchange.write(chunks) || this.behind
  }

  writable(): boolean {
    this.behind = false
    this.exchange.wake()
    return true
  }

  async drained(): Promise<void> {
    this.flush()
    while (this.behind && !this.exchange.aborted) await this.exchange.onDrain()
  }

  /** Tells the server once that this response no longer counts as in flight. */
  markEnded(): void {
    if (!this.ended) {
      this.ended = true
      this.onEnd()
    }
  }

  async end(): Promise<boolean> {
    if (this.ended) return !this.exchange.aborted
    await this.drained()
    if (this.closed) return false
    this.markEnded()
    this.exchange.finish()
    return true
  }

  cut(): void {
    if (!this.closed) {
      this.markEnded()
      this.exchange.close()
    }
  }
}
