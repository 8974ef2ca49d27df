/** One HTTP exchange and one WebSocket over node:http and ws. Guarantee: the listener of an abort is called at
 *  most once, and never behind a complete answer. Source: docs/architecture.md, "Transport". */
import type { IncomingMessage, ServerResponse } from "node:http"
import type { WebSocket } from "ws"
import type { Request, Socket } from "../http.ts"
import type { Interruptible } from "./answering.ts"
import {
  type BodyStream,
  FlatHeaders,
  plainAddress,
  plainPath,
  type Proxies,
  type Refusal,
  traceId
} from "./exchange.ts"

const noBytes = new Uint8Array(0)

/** Lets an exchange find out which client a request came from. */
export interface Origin {
  readonly proxies: Proxies
  readonly secure: boolean
}

const absolutePattern = /^https?:\/\/([^/?#]*)(.*)$/i

/** Returns the request's target as path and query. A target in absolute form brings its own host, which counts
 *  instead of the header's (RFC 9112, section 3.2.2). */
const originForm = (message: IncomingMessage): string => {
  const target = message.url ?? "/"
  const absolute = target.startsWith("/") ? null : absolutePattern.exec(target)
  if (absolute === null) return target
  const { rawHeaders } = message
  for (let i = 0; i < rawHeaders.length; i += 2)
    if (rawHeaders[i]!.toLowerCase() === "host") rawHeaders[i + 1] = absolute[1]!
  return absolute[2]!.startsWith("/") ? absolute[2]! : `/${absolute[2]!}`
}

export class Exchange implements Request, Interruptible {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly headers: FlatHeaders
  readonly traceId = traceId()
  readonly client: string
  readonly scheme: "http" | "https"
  params: Readonly<Record<string, string>> = {}
  body: Uint8Array = noBytes
  bodyStream: BodyStream | undefined = undefined
  aborted = false
  answered = false
  fiber: Interruptible["fiber"] = undefined
  /** Where it is answered and refused; a WebSocket's upgrade has neither. */
  reply: ServerResponse | undefined = undefined
  refuse: (status: Refusal) => void = () => {}
  private controller: AbortController | undefined = undefined
  private abortListener: (() => void) | undefined = undefined

  constructor(node: Origin, message: IncomingMessage) {
    this.method = message.method ?? "GET"
    const target = originForm(message)
    const mark = target.indexOf("?")
    this.path = plainPath(mark < 0 ? target : target.slice(0, mark))
    this.query = mark < 0 ? "" : target.slice(mark + 1)
    this.headers = new FlatHeaders(
      message.rawHeaders.map((text, i) => (i % 2 === 0 ? text.toLowerCase() : text))
    )
    const peer = plainAddress(message.socket.remoteAddress ?? "")
    this.client = node.proxies.client(peer, this.headers)
    this.scheme = node.proxies.scheme(peer, node.secure, this.headers)
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

  abort(): void {
    if (this.aborted) return
    this.aborted = true
    this.abortListener?.()
    this.fiber?.interruptUnsafe()
    this.bodyStream?.fail("aborted")
    this.controller?.abort()
  }
}

export class NodeSocket<Data> implements Socket<Data> {
  readonly data: Data
  readonly ws: WebSocket
  lastHeardMs = Date.now()
  private readonly bufferedBytesMax: number
  private readonly onDrain: (socket: NodeSocket<Data>) => void

  constructor(
    ws: WebSocket,
    data: Data,
    bufferedBytesMax: number,
    onDrain: (socket: NodeSocket<Data>) => void
  ) {
    this.ws = ws
    this.data = data
    this.bufferedBytesMax = bufferedBytesMax
    this.onDrain = onDrain
  }

  get bufferedBytes(): number {
    return this.ws.bufferedAmount
  }

  send(message: string | Uint8Array): "sent" | "buffered" | "dropped" {
    if (this.ws.readyState !== this.ws.OPEN || this.ws.bufferedAmount > this.bufferedBytesMax)
      return "dropped"
    this.ws.send(message, { binary: typeof message !== "string" }, () => {
      if (this.waiting && this.ws.bufferedAmount === 0) {
        this.waiting = false
        this.onDrain(this)
      }
    })
    if (this.ws.bufferedAmount === 0) return "sent"
    this.waiting = true
    return "buffered"
  }

  private waiting = false

  cork(write: () => void): void {
    write()
  }

  ping(payload: string): void {
    if (this.ws.readyState === this.ws.OPEN) this.ws.ping(payload)
  }

  close(code: number, reason: string): void {
    this.ws.close(code, reason)
  }

  terminate(): void {
    this.ws.terminate()
  }
}
