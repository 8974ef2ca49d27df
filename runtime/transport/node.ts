/** The transport over node:http and ws, which is used where the native library cannot load. It behaves the
 *  same at about three times the cost. Source: docs/architecture.md, "Transport". */
import { createServer, type IncomingMessage, type Server as HttpServer, type ServerResponse } from "node:http"
import { createServer as createTlsServer } from "node:https"
import { readFileSync } from "node:fs"
import type { AddressInfo, Socket as TcpSocket } from "node:net"
import type { Duplex } from "node:stream"
import { WebSocketServer, type WebSocket } from "ws"
import {
  type Answer,
  type BodyFault,
  type Header,
  type Response,
  type Route,
  type Sink,
  type SocketRoute
} from "../http.ts"
import {
  BodyStream,
  byteLengthOf,
  discardBytesMax,
  fieldText,
  handshakeFault,
  type Head,
  limitsOf,
  Pace,
  Proxies,
  reasonOf,
  type Refusal,
  refusal as refusalOf,
  traceId,
  type Limits
} from "./exchange.ts"
import { Answering } from "./answering.ts"
import { Exchange, NodeSocket } from "./node-exchange.ts"
import { linger, Wire } from "./node-wire.ts"
import { RouteTable } from "./route-table.ts"
import { type Bind, listenBy, type ListenOptions, opening } from "./server.ts"

/** Converts a header to what node:http accepts: it throws at characters of more than one byte. */
const latin1Header = ([name, value]: Header): Header => [name, fieldText(value).replace(/[^\t -\xff]/g, "?")]

/** Says how one request's body is read. When `as` is undefined it is discarded. */
interface BodyReading {
  readonly message: IncomingMessage
  readonly reply: ServerResponse
  readonly bytesMax: number
  readonly as: "buffer" | "stream" | undefined
  readonly proceed: () => void
  /** Answers a body that exceeds `bytesMax`. */
  readonly exceed: () => void
}

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
  private readonly wires = new WeakMap<Duplex, Wire>()

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

  private wireOf(socket: TcpSocket): Wire {
    let wire = this.wires.get(socket)
    if (wire === undefined) this.wires.set(socket, (wire = new Wire(socket)))
    return wire
  }

  request(message: IncomingMessage, reply: ServerResponse): void {
    const wire = this.wireOf(message.socket)
    wire.enter(() => this.begin(wire, message, reply))
  }

  private begin(wire: Wire, message: IncomingMessage, reply: ServerResponse): void {
    const exchange = new Exchange(this, message)
    wire.exchange = exchange
    this.inFlight++
    reply.on("close", () => {
      this.inFlight--
      if (reply.writableFinished) exchange.bodyStream?.abandon()
      else exchange.abort()
      wire.leave()
    })
    const match = this.table.match(exchange.method, exchange.path)
    exchange.params = match.params
    const refuse = (status: Refusal): void =>
      this.answer(exchange, reply, refusalOf(match.service, status, exchange), status !== 500)
    exchange.reply = reply
    exchange.refuse = refuse
    const head = exchange.headers.inspect()
    const fault = this.faultOf(message, exchange, head)
    if (fault !== undefined) return refuse(fault)
    const { route } = match
    const refusal = route?.admit?.(exchange)
    const bytesMax = refusal !== undefined ? discardBytesMax : (route?.body?.bytesMax ?? discardBytesMax)
    const exceed = (): void =>
      refusal === undefined ? refuse(413) : this.answer(exchange, reply, refusal, true)
    if (!head.chunked && head.length > bytesMax) return exceed()
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
    if (!head.chunked && head.length === 0) return proceed()
    const body = refusal === undefined ? route?.body : undefined
    this.read(exchange, { message, reply, bytesMax, as: body?.as, proceed, exceed })
  }

  private faultOf(message: IncomingMessage, exchange: Exchange, head: Head): Refusal | undefined {
    if (message.httpVersion !== "1.1") return 505
    if (exchange.path.length + exchange.query.length > this.limits.targetBytesMax) return 414
    if (head.bytes > this.limits.headerBytesMax) return 431
    return head.fault ?? (this.draining ? 503 : undefined)
  }

  private read(exchange: Exchange, { message, reply, bytesMax, as, proceed, exceed }: BodyReading): void {
    const { bodyTimeoutMs, bodyBytesMin } = this.limits
    const pace = new Pace(bodyBytesMin, performance.now())
    const stream =
      as === "stream"
        ? new BodyStream(
            () => {
              pace.pause()
              message.pause()
            },
            () => {
              pace.resume(performance.now())
              message.resume()
            }
          )
        : undefined
    exchange.bodyStream = stream
    const parts: Array<Uint8Array> = []
    let bytes = 0
    let stopped = false
    const stop = (reason: BodyFault["reason"], refuse: () => void): void => {
      stopped = true
      clearInterval(timer)
      // Behind its answer a body is only discarded: what is too much or too slow of it is cut.
      if (reply.writableFinished) message.socket.destroy()
      else if (stream !== undefined) stream.fail(reason)
      else refuse()
    }
    const timer = setInterval(
      () => {
        if (pace.overdue(bodyTimeoutMs, performance.now())) stop("timeout", () => exchange.refuse(408))
      },
      Math.min(1_000, bodyTimeoutMs / 2)
      // A message that is answered does not hear of its connection's end, so its timer must not hold the process.
    ).unref()

    message.on("data", (chunk: Uint8Array) => {
      if (stopped) return
      pace.arrived(chunk.length, performance.now())
      bytes += chunk.length
      if (bytes > bytesMax) return stop("too-large", exceed)
      if (stream !== undefined) stream.push(chunk)
      else if (as === "buffer") parts.push(chunk)
    })
    message.on("end", () => {
      clearInterval(timer)
      if (stopped) return
      if (stream !== undefined) return stream.end()
      if (as === "buffer") exchange.body = parts.length === 1 ? parts[0]! : Buffer.concat(parts)
      proceed()
    })
    message.on("close", () => {
      clearInterval(timer)
      if (!message.complete && !reply.writableFinished) exchange.abort()
    })
    if (stream !== undefined) proceed()
  }

  /** Answers what the parser could not read. A request that is worked on, and whose body it was, is refused;
   *  one whose body is whole is answered first. */
  unreadable(cause: NodeJS.ErrnoException, socket: TcpSocket): void {
    if (!socket.writable) return
    const wire = this.wireOf(socket)
    const { exchange } = wire
    if (exchange?.reply !== undefined && !exchange.reply.req.complete && !exchange.answered) {
      exchange.refuse(400)
      return exchange.abort()
    }
    // A connection without a byte was opened in advance and is not waiting for an answer.
    if (socket.bytesRead === 0) return void socket.destroy()
    wire.last(() => this.refuseRaw(socket, statusOf(cause)))
  }

  private refuseRaw(socket: Duplex, status: Refusal): void {
    socket.write(
      `HTTP/1.1 ${status} ${reasonOf(status)}\r\nX-Trace-ID: ${traceId()}\r\nDate: ${new Date().toUTCString()}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`
    )
    linger(socket, this.limits.lingerMs)
  }

  /** There are no tunnels. */
  connect(socket: TcpSocket): void {
    this.wireOf(socket).last(() => this.refuseRaw(socket, 400))
  }

  /** Drops a connection that has been quiet for too long, unless we are the one who owes something. */
  quiet(socket: TcpSocket): void {
    if (this.wires.get(socket)?.exchange === undefined || socket.writableLength > 0) socket.destroy()
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
    if (close) this.wireOf(reply.req.socket).lingers(this.limits.lingerMs)
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
    this.answering.stream(exchange, body, sink, () => {
      if (ended === undefined) reply.destroy()
    })
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
      wire.write(
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
      linger(wire, this.limits.lingerMs)
    }
    const fault = this.faultOf(message, exchange, exchange.headers.inspect())
    if (fault !== undefined) return refuse(refusalOf(service, fault, exchange))
    if (route === undefined) return refuse(service.refused(404, exchange))
    const wrong = handshakeFault(exchange)
    if (wrong !== undefined) return refuse(refusalOf(service, wrong, exchange))
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

const statuses: Readonly<Record<string, Refusal>> = {
  HPE_HEADER_OVERFLOW: 431,
  HPE_INVALID_VERSION: 505,
  HPE_PAUSED_H2_UPGRADE: 505,
  ERR_HTTP_REQUEST_TIMEOUT: 408
}

const statusOf = ({ code }: NodeJS.ErrnoException): Refusal => statuses[code ?? ""] ?? 400

/** Gives a connection back to the parser, with a request whose offer of another protocol is declined: some
 *  clients offer HTTP/2 with every request. node:http would leave the connection to us. */
const decline = (server: HttpServer, message: IncomingMessage, wire: Duplex, head: Buffer): void => {
  const { method, url, httpVersion, rawHeaders } = message
  let text = `${method} ${url} HTTP/${httpVersion}\r\n`
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!
    const value = rawHeaders[i + 1]!
    if (!/^(?:upgrade|connection|http2-settings)$/i.test(name)) text += `${name}: ${value}\r\n`
    else if (/\bclose\b/i.test(value)) text += "Connection: close\r\n"
  }
  wire.unshift(Buffer.concat([Buffer.from(`${text}\r\n`, "latin1"), head]))
  server.emit("secure" in wire || "encrypted" in wire ? "secureConnection" : "connection", wire)
}

export const bind: Bind = async (options) => {
  const { tls } = options
  const node = new Node(options)
  const { headerBytesMax, targetBytesMax, headerTimeoutMs, answerTimeoutMs } = node.limits
  const http = {
    maxHeaderSize: 2 * (headerBytesMax + targetBytesMax),
    requestTimeout: 0,
    requireHostHeader: false,
    headersTimeout: headerTimeoutMs,
    connectionsCheckingInterval: Math.min(1_000, headerTimeoutMs / 2)
  }
  const server: HttpServer =
    tls === undefined
      ? createServer(http)
      : createTlsServer({ ...http, cert: readFileSync(tls.certFile), key: readFileSync(tls.keyFile) })
  let servers: ReadonlyMap<SocketRoute<any>, WebSocketServer> = new Map()
  let connections = 0
  const counted = new WeakSet<Duplex>()
  server.on("connection", (wire) => {
    if (counted.has(wire)) return
    counted.add(wire)
    connections++
    wire.once("close", () => connections--)
  })
  server.timeout = answerTimeoutMs
  server.on("timeout", (wire) => node.quiet(wire))
  server.on("request", (message, reply) => node.request(message, reply))
  server.on("checkExpectation", (message, reply) => node.request(message, reply))
  server.on("connect", (_, wire) => node.connect(wire as TcpSocket))
  server.on("upgrade", (message, wire, head) => {
    if (message.headers.upgrade?.toLowerCase() === "websocket") node.upgrade(servers, message, wire, head)
    else decline(server, message, wire, head)
  })
  server.on("clientError", (cause: NodeJS.ErrnoException, wire) => node.unreadable(cause, wire as TcpSocket))
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
