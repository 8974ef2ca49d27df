/** The transport over node:http and ws, which is used where the native library cannot load. It behaves the
 *  same at about three times the cost. Source: docs/architecture.md, "Transport". */
import { createServer, type IncomingMessage, type Server as HttpServer, type ServerResponse } from "node:http"
import { createServer as createTlsServer } from "node:https"
import { readFileSync } from "node:fs"
import type { AddressInfo } from "node:net"
import type { Duplex } from "node:stream"
import { WebSocketServer, type WebSocket } from "ws"
import {
  type Answer,
  type BodyFault,
  type Header,
  type Request,
  type Response,
  type Route,
  type Sink,
  type Socket,
  type SocketRoute
} from "../http.ts"
import {
  BodyStream,
  byteLengthOf,
  discardBytesMax,
  fieldText,
  FlatHeaders,
  limitsOf,
  plainAddress,
  plainPath,
  Proxies,
  reasonOf,
  traceId,
  type Limits
} from "./exchange.ts"
import { Answering, type Interruptible } from "./answering.ts"
import { RouteTable } from "./route-table.ts"
import { type Bind, listenBy, type ListenOptions, opening } from "./server.ts"

type Status = 400 | 404 | 405 | 408 | 413 | 414 | 431 | 500 | 503
const noBytes = new Uint8Array(0)

/** Converts a header to what node:http accepts: it throws at characters of more than one byte. */
const latin1Header = ([name, value]: Header): Header => [name, fieldText(value).replace(/[^\t -\xff]/g, "?")]

class Exchange implements Request, Interruptible {
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
  refuse: (status: Status) => void = () => {}
  private controller: AbortController | undefined = undefined
  private abortListener: (() => void) | undefined = undefined

  constructor(node: Node, message: IncomingMessage) {
    this.method = message.method ?? "GET"
    const target = message.url ?? "/"
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
    this.aborted = true
    this.abortListener?.()
    this.fiber?.interruptUnsafe()
    this.bodyStream?.fail("aborted")
    this.controller?.abort()
  }
}

class NodeSocket<Data> implements Socket<Data> {
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

/** Says how one request's body is read. When `as` is undefined it is discarded. */
interface BodyReading {
  readonly message: IncomingMessage
  readonly reply: ServerResponse
  readonly bytesMax: number
  readonly as: "buffer" | "stream" | undefined
  readonly refuse: (status: Status) => void
  readonly proceed: () => void
}

const streamOf = (message: IncomingMessage): BodyStream =>
  new BodyStream(
    () => message.pause(),
    () => message.resume()
  )

class Node {
  table = new RouteTable([opening])
  readonly limits: Limits
  readonly proxies: Proxies
  readonly secure: boolean
  readonly sockets = new Set<NodeSocket<any>>()
  /** Brings the answers of handlers to their exchanges. */
  readonly answering: Answering<Exchange>
  draining = false
  inFlight = 0

  constructor(options: ListenOptions) {
    this.limits = limitsOf(options)
    this.proxies = new Proxies(options.trustedProxies)
    this.secure = options.tls !== undefined
    this.answering = new Answering(
      options.context,
      (exchange, response) => this.answer(exchange, exchange.reply!, response),
      (exchange, status) => exchange.refuse(status)
    )
  }

  request(message: IncomingMessage, reply: ServerResponse): void {
    const exchange = new Exchange(this, message)
    this.inFlight++
    reply.on("close", () => {
      this.inFlight--
      if (reply.writableFinished) exchange.bodyStream?.abandon()
      else exchange.abort()
    })
    const match = this.table.match(exchange.method, exchange.path)
    exchange.params = match.params
    const refuse = (status: Status): void =>
      this.answer(exchange, reply, match.service.refused(status, exchange), status !== 500)
    exchange.reply = reply
    exchange.refuse = refuse
    const { headers } = exchange
    const chunked = headers.get("transfer-encoding") !== undefined
    const length = chunked ? undefined : Number(headers.get("content-length") ?? 0)
    if (exchange.path.length + exchange.query.length > this.limits.targetBytesMax) return refuse(414)
    if (headers.bytes > this.limits.headerBytesMax) return refuse(431)
    if (length !== undefined && !Number.isSafeInteger(length)) return refuse(400)
    if (this.draining) return refuse(503)
    const { route } = match
    const refusal = route?.admit?.(exchange)
    const bytesMax = refusal !== undefined ? discardBytesMax : (route?.body?.bytesMax ?? discardBytesMax)
    if (length !== undefined && length > bytesMax)
      return refusal === undefined ? refuse(413) : this.answer(exchange, reply, refusal, true)
    const proceed = (): void => {
      if (refusal !== undefined) this.answer(exchange, reply, refusal)
      else if (route !== undefined) this.handle(exchange, route)
      else
        this.answer(
          exchange,
          reply,
          match.service.refused(match.allow === undefined ? 404 : 405, exchange, match.allow)
        )
    }
    if (length === 0) return proceed()
    const body = refusal === undefined ? route?.body : undefined
    this.read(exchange, { message, reply, bytesMax, as: body?.as, refuse, proceed })
  }

  private read(exchange: Exchange, { message, reply, bytesMax, as, refuse, proceed }: BodyReading): void {
    const stream = as === "stream" ? streamOf(message) : undefined
    exchange.bodyStream = stream
    const parts: Array<Uint8Array> = []
    let bytes = 0
    let stopped = false
    const stop = (reason: BodyFault["reason"], status: Status): void => {
      stopped = true
      clearTimeout(timer)
      // Behind its answer a body is only discarded: what is too much or too slow of it is cut.
      if (reply.writableFinished) message.socket.destroy()
      else if (stream !== undefined) stream.fail(reason)
      else refuse(status)
    }
    // A message that is answered does not hear of its connection's end, so its timer must not hold the process.
    const timer = setTimeout(() => stop("timeout", 408), this.limits.bodyTimeoutMs).unref()

    message.on("data", (chunk: Uint8Array) => {
      if (stopped) return
      timer.refresh()
      bytes += chunk.length
      if (bytes > bytesMax) return stop("too-large", 413)
      if (stream !== undefined) stream.push(chunk)
      else if (as === "buffer") parts.push(chunk)
    })
    message.on("end", () => {
      clearTimeout(timer)
      if (stopped) return
      if (stream !== undefined) return stream.end()
      if (as === "buffer") exchange.body = parts.length === 1 ? parts[0]! : Buffer.concat(parts)
      proceed()
    })
    message.on("close", () => {
      clearTimeout(timer)
      if (!message.complete) exchange.abort()
    })
    if (stream !== undefined) proceed()
  }

  private handle(exchange: Exchange, route: Route): void {
    let answer: Answer
    try {
      answer = route.handle(exchange)
    } catch (defect) {
      return this.answering.failed(exchange, defect)
    }
    this.answering.settle(exchange, answer)
  }

  answer(
    exchange: Exchange,
    reply: ServerResponse,
    response: Response,
    close = response.close ?? false
  ): void {
    if (exchange.aborted || exchange.answered) return
    exchange.answered = true
    const { body, headers = [], always = [] } = response
    const head = [
      ["X-Trace-ID", exchange.traceId],
      ...[...headers, ...always].map(latin1Header),
      ...(close || this.draining ? [["Connection", "close"]] : [])
    ].flat() as Array<string>
    const bodiless = response.status === 204 || response.status === 304
    if (typeof body !== "function" && !bodiless) head.push("Content-Length", String(byteLengthOf(body)))
    reply.writeHead(response.status, reasonOf(response.status), head)
    if (typeof body !== "function" || exchange.method === "HEAD") {
      reply.end(typeof body === "function" ? undefined : body)
      return
    }
    let ended: Promise<boolean> | undefined
    const closed = new Promise<void>((resolve) => {
      reply.on("close", resolve)
    })
    const write = (chunk: Uint8Array | string): boolean =>
      exchange.aborted || ended !== undefined || (reply.write(chunk) && !reply.writableNeedDrain)
    const sink: Sink = {
      signal: exchange.signal,
      write,
      send: write,
      drained: async () => {
        if (!exchange.aborted && reply.writableNeedDrain)
          await Promise.race([
            new Promise((resolve) => {
              reply.once("drain", resolve)
            }),
            closed
          ])
      },
      end: () =>
        (ended ??= (async () => {
          if (exchange.aborted) return false
          return new Promise<boolean>((resolve) => {
            reply.end(() => resolve(true))
            void closed.then(() => resolve(reply.writableFinished))
          })
        })())
    }
    Promise.resolve()
      .then(() => body(sink))
      .then(
        () => sink.end(),
        () => {
          if (ended === undefined) reply.destroy()
        }
      )
  }

  upgrade(
    servers: ReadonlyMap<SocketRoute<any>, WebSocketServer>,
    message: IncomingMessage,
    wire: Duplex,
    head: Buffer
  ): void {
    const exchange = new Exchange(this, message)
    wire.on("error", () => wire.destroy())
    const route = this.table.sockets.find(({ path }) => path === exchange.path)
    const service = this.table.serviceOf(exchange.path)
    const refuse = ({ status, headers = [], always = [], body }: Response): void => {
      const bytes = typeof body === "function" || body === undefined ? "" : body
      wire.end(
        [
          `HTTP/1.1 ${status} ${reasonOf(status)}`,
          `X-Trace-ID: ${exchange.traceId}`,
          `Date: ${new Date().toUTCString()}`,
          "Connection: close",
          ...[...headers, ...always].map(([name, value]) => `${name}: ${fieldText(value)}`),
          `Content-Length: ${Buffer.byteLength(bytes)}`,
          "",
          ""
        ].join("\r\n") + bytes
      )
    }
    if (route === undefined) return refuse(service.refused(404, exchange))
    if (this.draining) return refuse(service.refused(503, exchange))
    let verdict: { readonly accept: unknown } | Response
    try {
      verdict = route.upgrade(exchange)
    } catch {
      return refuse(service.refused(500, exchange))
    }
    if (!("accept" in verdict)) return refuse(verdict)
    const { accept } = verdict
    const server = servers.get(route)!
    server.once("headers", (lines: Array<string>) => {
      lines.push(`X-Trace-ID: ${exchange.traceId}`)
    })
    server.handleUpgrade(message, wire, head, (ws) => this.open(route, ws, accept))
  }

  private open(route: SocketRoute<any>, ws: WebSocket, accept: unknown): void {
    const socket = new NodeSocket(ws, accept, route.bufferedBytesMax ?? 1_048_576, (drained) =>
      route.drain?.(drained)
    )
    this.sockets.add(socket)
    const heard = (): void => {
      socket.lastHeardMs = Date.now()
    }
    let tooBig = false
    ws.on("pong", (payload: Buffer) => {
      heard()
      route.pong?.(socket, payload.toString("latin1"))
    })
    ws.on("ping", heard)
    ws.on("error", () => {})
    ws.on("message", (message: Buffer, isBinary) => {
      heard()
      if (tooBig) return
      if (message.length > route.messageBytesMax) {
        tooBig = true
        return ws.close(1009, "message too big")
      }
      route.message(socket, message, !isBinary)
    })
    ws.on("close", (code) => {
      this.sockets.delete(socket)
      route.close(socket, tooBig ? 1009 : code)
    })
    route.open(socket)
  }

  ping(): void {
    const silent = Date.now() - this.limits.socketIdleMs
    for (const socket of this.sockets)
      if (socket.lastHeardMs < silent) socket.terminate()
      else socket.ws.ping()
  }
}

const socketServerOf = ({ messageBytesMax }: SocketRoute<any>): WebSocketServer =>
  new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    handleProtocols: () => false,
    maxPayload: 2 * messageBytesMax + 65_536
  })

export const bind: Bind = async (options) => {
  const { tls } = options
  const node = new Node(options)
  const http = {
    maxHeaderSize: 2 * (node.limits.headerBytesMax + node.limits.targetBytesMax),
    requestTimeout: 0,
    headersTimeout: 15_000
  }
  const server: HttpServer =
    tls === undefined
      ? createServer(http)
      : createTlsServer({ ...http, cert: readFileSync(tls.certFile), key: readFileSync(tls.keyFile) })
  let servers: ReadonlyMap<SocketRoute<any>, WebSocketServer> = new Map()
  let connections = 0
  server.on("connection", (wire) => {
    connections++
    wire.once("close", () => connections--)
  })
  server.on("request", (message, reply) => node.request(message, reply))
  server.on("upgrade", (message, wire, head) => node.upgrade(servers, message, wire, head))
  server.on("clientError", (cause: NodeJS.ErrnoException, wire) => {
    if (!wire.writable) return
    const status = cause.code === "HPE_HEADER_OVERFLOW" ? 431 : 400
    wire.end(
      `HTTP/1.1 ${status} ${reasonOf(status)}\r\nX-Trace-ID: ${traceId()}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`
    )
  })
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) =>
      reject(new Error(`cannot listen on ${options.host}:${options.port}: ${cause.message}`))
    )
    server.listen(options.port, options.host, resolve)
  })
  const pinging = setInterval(() => node.ping(), Math.max(1_000, node.limits.socketIdleMs / 3))
  pinging.unref()
  const drained = async (withinMs: number): Promise<void> => {
    node.draining = true
    const closed = new Promise<void>((resolve) => {
      server.close(() => resolve())
    })
    server.closeIdleConnections()
    for (const socket of node.sockets) socket.close(1001, "server is going away")
    const until = Date.now() + withinMs
    while ((node.inFlight > 0 || node.sockets.size > 0) && Date.now() < until)
      await new Promise((resolve) => setTimeout(resolve, 10))
    clearInterval(pinging)
    await node.answering.interrupt()
    for (const socket of node.sockets) socket.terminate()
    server.closeAllConnections()
    await closed
  }
  let draining: Promise<void> | undefined
  return {
    adapter: "node",
    port: (server.address() as AddressInfo).port,
    load: () => ({ connections, sockets: node.sockets.size, requests: node.inFlight }),
    serve: (services) => {
      node.table = new RouteTable(services)
      servers = new Map(node.table.sockets.map((route) => [route, socketServerOf(route)]))
    },
    drain: (withinMs) => (draining ??= drained(withinMs))
  }
}

export const listen = listenBy(bind)
