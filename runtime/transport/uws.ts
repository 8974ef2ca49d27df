/** The transport over uWebSockets.js. The library's request is invalid when its callback returns, and a
 *  chunk's buffer with it, so both are copied once on arrival. Every response leaves in one cork. On the hot
 *  path (bench/http-json) a request that is answered in the turn of its last byte needs no promise, no
 *  AbortController and no timer. Three things are left to the library: it writes Date; it answers a head that
 *  it cannot parse with a 400 of its own, or cuts the connection; and it cuts a connection on which another
 *  request arrives before the current one is answered, unless both happen in one turn (no client in use
 *  pipelines that way). Source: docs/architecture.md, "Transport". */
import type uWS from "uWebSockets.js"
import { type Answer, type Header, type Response, type Route, type Sink, type SocketRoute } from "../http.ts"
import { IndexedSet } from "../indexed-set.ts"
import {
  BodyStream,
  discardBytesMax,
  fieldText,
  limitsOf,
  Proxies,
  statusLine,
  type Limits
} from "./exchange.ts"
import { Answering } from "./answering.ts"
import { RouteTable } from "./route-table.ts"
import { type Bind, listenBy, type ListenOptions, opening } from "./server.ts"
import { Exchange, ResponseStream } from "./uws-exchange.ts"
import { loadLibrary } from "./uws-library.ts"
import { type SocketData, UwsSocket } from "./uws-socket.ts"

const linesOf = (fields: ReadonlyArray<Header>): string => {
  let lines = ""
  for (const [name, value] of fields) lines += `\r\n${name}: ${fieldText(value)}`
  return lines
}

class Node {
  readonly proxies: Proxies
  readonly secure: boolean
  table = new RouteTable([opening])
  readonly limits: Limits
  readonly sockets = new Set<UwsSocket<unknown>>()

  /** Holds the exchanges whose body is still arriving, for the time-out sweep. */
  readonly reading = new IndexedSet<Exchange>()

  /** Brings the answers of handlers to their exchanges. */
  readonly answering: Answering<Exchange>

  inFlight = 0
  connections = 0
  draining = false
  private readonly always = new WeakMap<ReadonlyArray<Header>, string>()
  private readonly app: uWS.TemplatedApp

  constructor(app: uWS.TemplatedApp, options: ListenOptions) {
    this.app = app
    this.limits = limitsOf(options)
    this.proxies = new Proxies(options.trustedProxies)
    this.secure = options.tls !== undefined
    this.answering = new Answering(
      options.context,
      (exchange, response) => this.answer(exchange, response),
      (exchange, status) => this.refuse(exchange, status)
    )
    app.any("/*", (res, req) => this.request(res, req))
    // It is called with 1 for each connection that opens and with -1 for each that closes, but not for one that
    // closes as a WebSocket.
    app.filter((_, change) => {
      this.connections += Number(change)
    })
  }

  serve(table: RouteTable): void {
    this.table = table
    for (const route of table.sockets) this.socket(route)
  }

  private request(res: uWS.HttpResponse, req: uWS.HttpRequest): void {
    const exchange = new Exchange(this, res, req)
    this.inFlight++
    res.onAborted(() => {
      this.reading.delete(exchange)
      if (!exchange.answered) this.inFlight--
      exchange.abort()
    })
    const match = this.table.match(exchange.method, exchange.path)
    exchange.params = match.params
    exchange.service = match.service
    const { headers } = exchange
    const chunked = headers.get("transfer-encoding") !== undefined
    const length = chunked ? undefined : Number(headers.get("content-length") ?? 0)
    if (exchange.path.length + exchange.query.length > this.limits.targetBytesMax)
      return this.refuse(exchange, 414)
    if (headers.bytes > this.limits.headerBytesMax) return this.refuse(exchange, 431)
    if (length !== undefined && !Number.isSafeInteger(length)) return this.refuse(exchange, 400)
    if (this.draining) return this.refuse(exchange, 503)
    const { route } = match
    const refusal = route?.admit?.(exchange)
    const bytesMax = refusal !== undefined ? discardBytesMax : (route?.body?.bytesMax ?? discardBytesMax)
    if (length !== undefined && length > bytesMax)
      return refusal === undefined ? this.refuse(exchange, 413) : this.answer(exchange, refusal, true)
    const proceed = (): void => {
      if (refusal !== undefined) this.answer(exchange, refusal)
      else if (route !== undefined) this.handle(exchange, route)
      else
        this.answer(
          exchange,
          match.service.refused(match.allow === undefined ? 404 : 405, exchange, match.allow)
        )
    }
    if (length === 0) return proceed()
    if (route?.body?.as === "stream" && refusal === undefined) this.readStream(exchange, bytesMax, proceed)
    else this.readWhole(exchange, bytesMax, route?.body !== undefined && refusal === undefined, proceed)
  }

  // It has four parameters instead of an object, because it is called for every request (bench/http-json).
  private readWhole(exchange: Exchange, bytesMax: number, keep: boolean, proceed: () => void): void {
    let parts: Array<Uint8Array> | undefined
    let bytes = 0
    exchange.onData((chunk, isLast) => {
      bytes += chunk.byteLength
      if (bytes > bytesMax) {
        this.reading.delete(exchange)
        return this.refuse(exchange, 413)
      }
      if (isLast) {
        this.reading.delete(exchange)
        if (keep)
          exchange.body =
            parts === undefined
              ? Buffer.from(new Uint8Array(chunk))
              : Buffer.concat([...parts, new Uint8Array(chunk)])
        return proceed()
      }
      if (keep) (parts ??= []).push(new Uint8Array(chunk.slice(0)))
      exchange.lastByteMs = Date.now()
      this.reading.add(exchange)
    })
    exchange.lastByteMs = Date.now()
    this.reading.add(exchange)
  }

  private readStream(exchange: Exchange, bytesMax: number, proceed: () => void): void {
    const body = (exchange.bodyStream = new BodyStream(
      () => exchange.pause(),
      () => exchange.resume()
    ))
    let bytes = 0
    exchange.onData((chunk, isLast) => {
      bytes += chunk.byteLength
      if (bytes > bytesMax) {
        this.reading.delete(exchange)
        return body.fail("too-large")
      }
      if (chunk.byteLength > 0) body.push(new Uint8Array(chunk.slice(0)))
      exchange.lastByteMs = Date.now()
      if (isLast) {
        this.reading.delete(exchange)
        body.end()
      }
    })
    exchange.lastByteMs = Date.now()
    this.reading.add(exchange)
    proceed()
  }

  /** Refuses the bodies whose next byte is overdue; it runs once a second. */
  sweep(): void {
    const overdue = Date.now() - this.limits.bodyTimeoutMs
    this.reading.forEach((exchange) => {
      if (exchange.lastByteMs > overdue) return
      this.reading.delete(exchange)
      if (exchange.bodyStream !== undefined) exchange.bodyStream.fail("timeout")
      else this.refuse(exchange, 408)
    })
  }

  private handle(exchange: Exchange, route: Route): void {
    let answer: Answer
    try {
      answer = route.handle(exchange)
    } catch (defect) {
      return this.answering.failed(exchange, defect)
    }
    if ("status" in answer) this.answer(exchange, answer)
    else this.answering.settle(exchange, answer)
  }

  /** Sends a refusal of the transport itself. The connection is closed when a body may still be on its
   *  way. */
  private refuse(exchange: Exchange, status: 400 | 404 | 405 | 408 | 413 | 414 | 431 | 500 | 503): void {
    const response = exchange.service!.refused(status, exchange)
    this.answer(exchange, response, status !== 500)
  }

  private answer(exchange: Exchange, response: Response, close = response.close ?? false): void {
    if (exchange.aborted || exchange.answered) return
    exchange.answered = true
    const { status, body } = response
    if (typeof body === "function") return this.stream(exchange, response, body)
    this.inFlight--
    this.reading.delete(exchange)
    exchange.end(statusLine(status), this.fields(exchange, response), body, close || this.draining)
  }

  /** Returns the response's head behind the status line: the trace id, and further lines. */
  private fields({ traceId }: Exchange, { headers, always }: Response): string {
    let fields = traceId
    if (headers !== undefined) fields += linesOf(headers)
    if (always !== undefined) {
      let lines = this.always.get(always)
      if (lines === undefined) this.always.set(always, (lines = linesOf(always)))
      fields += lines
    }
    if (this.draining) fields += "\r\nConnection: close"
    return fields
  }

  private stream(exchange: Exchange, response: Response, body: (sink: Sink) => Promise<void> | void): void {
    const stream = new ResponseStream(exchange, () => {
      this.inFlight--
      this.reading.delete(exchange)
    })
    exchange.onWritable(() => stream.writable())
    exchange.begin(statusLine(response.status), this.fields(exchange, response))
    exchange.abort = ((before) => () => {
      stream.markEnded()
      before.call(exchange)
    })(exchange.abort)
    if (exchange.method === "HEAD") {
      stream.markEnded()
      exchange.finish()
      return
    }
    Promise.resolve()
      .then(() => body(stream))
      .then(
        () => stream.end(),
        () => stream.cut()
      )
  }

  private socket(route: SocketRoute<any>): void {
    const bufferedBytesMax = route.bufferedBytesMax ?? 1_048_576
    this.app.ws<SocketData>(route.path, {
      compression: 0,
      maxPayloadLength: 2 * route.messageBytesMax + 65_536,
      maxBackpressure: 2 * bufferedBytesMax + 4 * 1_048_576,
      idleTimeout: Math.max(8, Math.round(this.limits.socketIdleMs / 1_000)),
      sendPingsAutomatically: true,
      upgrade: (res, req, context) => {
        const exchange = new Exchange(this, res, req)
        exchange.service = this.table.serviceOf(exchange.path)
        res.onAborted(() => exchange.abort())
        this.inFlight++
        if (this.draining) return this.refuse(exchange, 503)
        let verdict: { readonly accept: unknown } | Response
        try {
          verdict = route.upgrade(exchange)
        } catch {
          return this.refuse(exchange, 500)
        }
        if (!("accept" in verdict)) return this.answer(exchange, verdict, true)
        this.inFlight--
        const { accept } = verdict
        const key = req.getHeader("sec-websocket-key")
        const extensions = req.getHeader("sec-websocket-extensions")
        exchange.upgrade<SocketData>({ accepted: accept, socket: undefined }, key, extensions, context)
      },
      open: (ws) => {
        const held = ws.getUserData()
        held.socket = new UwsSocket(ws, held.accepted, bufferedBytesMax)
        this.sockets.add(held.socket)
        route.open(held.socket)
      },
      message: (ws, message, isBinary) => {
        if (message.byteLength > route.messageBytesMax) {
          ws.end(1009, "message too big")
          return
        }
        route.message(ws.getUserData().socket!, new Uint8Array(message), !isBinary)
      },
      ...(route.pong === undefined
        ? {}
        : {
            pong: (ws: uWS.WebSocket<SocketData>, payload: ArrayBuffer) => {
              route.pong!(ws.getUserData().socket!, Buffer.from(payload).toString("latin1"))
            }
          }),
      drain: (ws) => {
        route.drain?.(ws.getUserData().socket!)
      },
      close: (ws, code) => {
        const socket = ws.getUserData().socket!
        socket.closed = true
        this.connections--
        this.sockets.delete(socket)
        route.close(socket, code === 1005 ? 1005 : code)
      }
    })
  }
}

export const bind: Bind = async (options) => {
  const library = loadLibrary(options.cacheFolder)
  const { tls } = options
  const app =
    tls === undefined
      ? library.App()
      : library.SSLApp({ cert_file_name: tls.certFile, key_file_name: tls.keyFile })
  const node = new Node(app, options)
  // The typings lack both the constant and the form with a host; without it two processes would share the
  // port silently.
  const { LIBUS_LISTEN_EXCLUSIVE_PORT } = library as unknown as { LIBUS_LISTEN_EXCLUSIVE_PORT: number }
  const token = await new Promise<uWS.us_listen_socket | false>((resolve) => {
    ;(app as any).listen(options.host, options.port, LIBUS_LISTEN_EXCLUSIVE_PORT, resolve)
  })
  if (token === false)
    throw new Error(
      `cannot listen on ${options.host}:${options.port}: the port is in use or the address is not this machine's`
    )
  const sweep = setInterval(() => node.sweep(), Math.min(1_000, node.limits.bodyTimeoutMs))
  sweep.unref()
  const drained = async (withinMs: number): Promise<void> => {
    node.draining = true
    library.us_listen_socket_close(token)
    const until = Date.now() + withinMs
    for (const socket of node.sockets) socket.close(1001, "server is going away")
    while ((node.inFlight > 0 || node.sockets.size > 0) && Date.now() < until)
      await new Promise((resolve) => setTimeout(resolve, 10))
    clearInterval(sweep)
    await node.answering.interrupt()
    // What was answered last leaves the library with the turn.
    await new Promise((resolve) => setImmediate(resolve))
    app.close()
  }
  let draining: Promise<void> | undefined
  return {
    adapter: "uws",
    port: library.us_socket_local_port(token),
    load: () => ({ connections: node.connections, sockets: node.sockets.size, requests: node.inFlight }),
    serve: (services) => node.serve(new RouteTable(services)),
    drain: (withinMs) => (draining ??= drained(withinMs))
  }
}

export const listen = listenBy(bind)
