/** One HTTP exchange over uWebSockets.js: the request that a route reads, and the sink of a streamed
 *  response. The library's request is invalid when its callback returns, so its head is copied once, here.
 *  The library throws when a response is used after its end or its abort, and a throw in one of its callbacks
 *  ends the process. Guarantee: an exchange alone holds the library's response, and lets go of it at the end,
 *  at the upgrade and at the abort; from then on every call does nothing. */
import type uWS from "uWebSockets.js"
import type { Indexed } from "../indexed-set.ts"
import type { Request, Service, Sink } from "../http.ts"
import {
  type BodyStream,
  byteLengthOf,
  FlatHeaders,
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
  lastByteMs = 0
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
    this.res?.onData((chunk, isLast) => {
      if (this.res !== undefined) read(chunk, isLast)
    })
  }

  onWritable(listener: () => boolean): void {
    this.res?.onWritable(listener)
  }

  pause(): void {
    this.res?.pause()
  }

  resume(): void {
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
      for (const chunk of chunks) if (chunk.length > 0) keepsUp = res.write(chunk) && keepsUp
    })
    return keepsUp
  }

  /** Completes a streamed response. The connection is never closed here: the library would write its header
   *  into the middle of a chunked body. */
  finish(): void {
    const res = this.release()
    res?.cork(() => {
      if (this.method === "HEAD") res.endWithoutBody()
      else res.end()
    })
  }

  /** Drops the connection; the library reports it as an abort. */
  close(): void {
    this.res?.close()
    this.res = undefined
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
    this.aborted = true
    this.res = undefined
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
