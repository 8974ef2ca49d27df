/** The transport over uWebSockets.js. The library's request is invalid when its callback returns, and a
 *  chunk's buffer with it, so both are copied once on arrival. Every response leaves in one cork. On the hot
 *  path (bench/http-json) a request that is answered in the turn of its last byte needs no promise, no
 *  AbortController and no timer. The library reads heads and chunks laxly and says nothing of the latter, so
 *  the connection of a chunked request ends with its answer, and nothing behind it is worked on. Three things
 *  are left to the library: it writes Date; it answers a head that it cannot parse in its own words; and it cuts
 *  a connection on which another request arrives before the current one is answered, unless both happen in one
 *  turn (no client in use pipelines that way). Source: docs/http.md; docs/architecture.md, "Transport". */
import { METHODS } from "node:http"
import { type AddressInfo, createServer } from "node:net"
import type uWS from "uWebSockets.js"
import {
  type Answer,
  type Header,
  type Response,
  type Route,
  type SocketRoute,
  type Streaming
} from "../http.ts"
import { IndexedSet } from "../indexed-set.ts"
import {
  asksForSocket,
  BodyStream,
  discardBytesMax,
  fieldText,
  handshakeFault,
  type Head,
  limitsOf,
  lingerQuietMs,
  Pace,
  Proxies,
  type Refusal,
  refusal as refusalOf,
  statusLine,
  type Limits
} from "./exchange.ts"
import { Answering } from "./answering.ts"
import { RouteTable } from "./route-table.ts"
import { type Bind, listenBy, type ListenOptions, opening } from "./server.ts"
import { Arrivals } from "./uws-arrivals.ts"
import { Exchange, ResponseStream } from "./uws-exchange.ts"
import { loadLibrary } from "./uws-library.ts"
import { type SocketData, UwsSocket } from "./uws-socket.ts"

/** The other adapter's parser reads no others. */
const methods = new Set(METHODS)

const printable = /^[!-~]*$/

const linesOf = (fields: ReadonlyArray<Header>): string => {
  let lines = ""
  for (const [name, value] of fields) lines += `\r\n${name}: ${fieldText(value)}`
  return lines
}

/** Whatever is in the same packet behind the last request of a connection then cuts it, instead of being worked
 *  on. */
const deferred = (exchange: Exchange, next: () => void): void => {
  setImmediate(() => {
    if (!exchange.aborted) next()
  })
}

/** Says how one request's body is read. `isLast`: its connection ends with its answer. */
interface BodyReading {
  readonly bytesMax: number
  readonly isLast: boolean
  readonly proceed: () => void
  /** Answers a body that exceeds `bytesMax`. */
  readonly exceed: () => void
}

class Node {
  readonly proxies: Proxies
  readonly secure: boolean
  table = new RouteTable([opening])
  readonly limits: Limits
  readonly sockets = new Set<UwsSocket<unknown>>()

  /** Holds the exchanges whose body is still arriving, or whose rest is discarded, for the time-out sweep. */
  readonly watched = new IndexedSet<Exchange>()

  private readonly arrivals = new Arrivals()

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
    app.filter((res, change) => {
      this.connections += Number(change)
      // Before the handshake of TLS nothing can be sent.
      if (Number(change) > 0 && !this.secure) this.arrivals.opened(res)
    })
  }

  serve(table: RouteTable): void {
    this.table = table
    for (const route of table.sockets) this.socket(route)
  }

  private request(res: uWS.HttpResponse, req: uWS.HttpRequest): void {
    this.arrivals.requested(res)
    const exchange = new Exchange(this, res, req)
    this.inFlight++
    res.onAborted(() => {
      this.watched.delete(exchange)
      if (!exchange.answered) this.inFlight--
      exchange.abort()
    })
    const match = this.table.match(exchange.method, exchange.path)
    exchange.params = match.params
    exchange.service = match.service
    const head = exchange.headers.inspect()
    const { route } = match
    const fault =
      this.faultOf(exchange, head) ?? (route === undefined ? this.unroutable(exchange) : undefined)
    if (fault !== undefined) return this.refuseHead(exchange, fault, head)
    exchange.closes = head.chunked
    const refusal = route?.admit?.(exchange)
    const proceed = (): void => {
      if (refusal !== undefined) this.answer(exchange, refusal)
      else if (route !== undefined) this.handle(exchange, route)
      else
        this.answer(
          exchange,
          match.service.refused(match.allow === undefined ? 404 : 405, exchange, match.allow)
        )
    }
    const isLast = head.chunked || head.closes
    if (!head.chunked && head.length === 0) return isLast ? deferred(exchange, proceed) : proceed()
    const bytesMax = refusal !== undefined ? discardBytesMax : (route?.body?.bytesMax ?? discardBytesMax)
    const exceed = (): void =>
      refusal === undefined ? this.refuse(exchange, 413) : this.answerLingering(exchange, refusal)
    if (!head.chunked && head.length > bytesMax) return exceed()
    const reading: BodyReading = { bytesMax, isLast, proceed, exceed }
    if (route?.body?.as === "stream" && refusal === undefined) this.readStream(exchange, reading)
    else this.readWhole(exchange, reading, route?.body !== undefined && refusal === undefined)
  }

  private faultOf({ path, query }: Exchange, head: Head): Refusal | undefined {
    if (path.length + query.length > this.limits.targetBytesMax) return 414
    if (head.bytes > this.limits.headerBytesMax) return 431
    if (head.fault !== undefined) return head.fault
    if (!printable.test(path) || !printable.test(query)) return 400
    return this.draining ? 503 : undefined
  }

  private unroutable({ method, path, headers }: Exchange): 400 | undefined {
    // The library looks for the handler of an upgrade only where the key has the right length.
    const isHandshake = asksForSocket(headers) && this.table.sockets.some((socket) => socket.path === path)
    return isHandshake || !methods.has(method) ? 400 : undefined
  }

  private readWhole(
    exchange: Exchange,
    { bytesMax, isLast, proceed, exceed }: BodyReading,
    keep: boolean
  ): void {
    let parts: Array<Uint8Array> | undefined
    let bytes = 0
    exchange.onData((chunk, isEnd) => {
      bytes += chunk.byteLength
      if (bytes > bytesMax) {
        return exceed()
      }
      if (isEnd) {
        this.arrived(exchange)
        if (keep)
          exchange.body =
            parts === undefined
              ? Buffer.from(new Uint8Array(chunk))
              : Buffer.concat([...parts, new Uint8Array(chunk)])
        return isLast ? deferred(exchange, proceed) : proceed()
      }
      if (keep) (parts ??= []).push(new Uint8Array(chunk.slice(0)))
      this.awaitBody(exchange, chunk.byteLength)
    })
    this.awaitBody(exchange, 0)
  }

  private readStream(exchange: Exchange, { bytesMax, isLast, proceed }: BodyReading): void {
    const body = (exchange.bodyStream = new BodyStream(
      () => exchange.pause(),
      () => exchange.resume()
    ))
    let bytes = 0
    exchange.onData((chunk, isEnd) => {
      bytes += chunk.byteLength
      if (bytes > bytesMax) {
        this.watched.delete(exchange)
        return body.fail("too-large")
      }
      if (chunk.byteLength > 0) body.push(new Uint8Array(chunk.slice(0)))
      if (!isEnd) return this.awaitBody(exchange, chunk.byteLength)
      this.arrived(exchange)
      if (isLast) deferred(exchange, () => body.end())
      else body.end()
    })
    this.awaitBody(exchange, 0)
    proceed()
  }

  private awaitBody(exchange: Exchange, bytes: number): void {
    const now = performance.now()
    exchange.pace ??= new Pace(this.limits.bodyBytesMin, now)
    exchange.pace.arrived(bytes, now)
    exchange.arriving = true
    this.watched.add(exchange)
  }

  private arrived(exchange: Exchange): void {
    exchange.arriving = false
    this.watched.delete(exchange)
  }

  /** Refuses the heads and bodies that are overdue, and closes what was refused. */
  sweep(): void {
    const now = performance.now()
    const { bodyTimeoutMs, headerTimeoutMs, lingerMs } = this.limits
    this.arrivals.sweep(headerTimeoutMs)
    this.watched.forEach((exchange) => {
      if (exchange.lingering) {
        const quiet = now - exchange.heardMs >= Math.min(lingerQuietMs, lingerMs)
        return quiet || now - exchange.answeredMs >= lingerMs ? exchange.close() : exchange.renew()
      }
      if (!exchange.pace!.overdue(bodyTimeoutMs, now)) return exchange.renew()
      this.watched.delete(exchange)
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

  /** Sends a refusal of the transport itself. The connection is closed when a body may still be on its way.
   *  `now`: what is behind the request may be another one in disguise. */
  private refuse(exchange: Exchange, status: Refusal, now = false): void {
    const response = refusalOf(exchange.service!, status, exchange)
    if (status === 500) this.answer(exchange, response)
    else this.answerLingering(exchange, response, now)
  }

  private refuseHead(exchange: Exchange, fault: Refusal, head: Head): void {
    if (!head.isLengthMalformed) return this.refuse(exchange, fault, fault === 400)
    setImmediate(() => this.refuse(exchange, fault))
  }

  private answerLingering(exchange: Exchange, response: Response, now = false): void {
    const { body } = response
    if (exchange.aborted || exchange.answered || typeof body === "function")
      return this.answer(exchange, response, true)
    exchange.answered = true
    this.inFlight--
    this.watched.delete(exchange)
    exchange.endLingering(statusLine(response.status), this.fields(exchange, response), body, now)
  }

  private answer(exchange: Exchange, response: Response, close = response.close ?? false): void {
    if (exchange.aborted || exchange.answered) return
    const { status, body } = response
    if (typeof body === "function") return this.stream(exchange, response, body)
    // Nothing bounds the rest of a chunked body but its connection's end.
    if (response.close === true || (exchange.closes && exchange.arriving))
      return this.answerLingering(exchange, response)
    exchange.answered = true
    this.inFlight--
    this.watched.delete(exchange)
    const closes = close || exchange.closes || this.draining
    exchange.end(statusLine(status), this.fields(exchange, response), body, closes)
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
    return fields
  }

  private stream(exchange: Exchange, response: Response, body: Streaming): void {
    const stream = new ResponseStream(exchange, () => {
      this.inFlight--
      this.watched.delete(exchange)
    })
    exchange.answered = true
    exchange.onWritable(() => stream.writable())
    const closes = exchange.closes || this.draining ? "\r\nConnection: close" : ""
    exchange.begin(statusLine(response.status), this.fields(exchange, response) + closes)
    exchange.abort = ((before) => () => {
      stream.markEnded()
      before.call(exchange)
    })(exchange.abort)
    if (exchange.method === "HEAD") {
      stream.markEnded()
      exchange.finish()
      return
    }
    this.answering.stream(exchange, body, stream, () => stream.cut())
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
        this.arrivals.requested(res)
        const exchange = new Exchange(this, res, req)
        exchange.service = this.table.serviceOf(exchange.path)
        res.onAborted(() => {
          this.watched.delete(exchange)
          exchange.abort()
        })
        this.inFlight++
        const head = exchange.headers.inspect()
        const fault = this.faultOf(exchange, head)
        if (fault !== undefined) return this.refuseHead(exchange, fault, head)
        // The library looks at nothing but the key's length.
        if (!asksForSocket(exchange.headers))
          return this.answer(exchange, exchange.service.refused(404, exchange))
        const wrong = handshakeFault(exchange)
        if (wrong !== undefined) return this.refuse(exchange, wrong)
        let verdict: { readonly accept: unknown } | Response
        try {
          verdict = route.upgrade(exchange)
        } catch {
          return this.refuse(exchange, 500)
        }
        if (!("accept" in verdict)) return this.answerLingering(exchange, verdict)
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

/** Chooses a free port; 0 where that fails, which leaves the choice to the library. On a port of its own choice the
 *  library does not set SO_REUSEADDR, and a later start on the same number would be refused while connections of
 *  this one wait (TIME-WAIT). */
const freePort = (host: string): Promise<number> =>
  new Promise((resolve) => {
    const probe = createServer()
    probe.once("error", () => resolve(0))
    probe.listen(0, host, () => {
      const { port } = probe.address() as AddressInfo
      probe.close(() => resolve(port))
    })
  })

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
  const listenOn = (port: number): Promise<uWS.us_listen_socket | false> =>
    new Promise((resolve) => {
      ;(app as any).listen(options.host, port, LIBUS_LISTEN_EXCLUSIVE_PORT, resolve)
    })
  let token: uWS.us_listen_socket | false = false
  // Somebody else may take a free port before we do.
  if (options.port > 0) token = await listenOn(options.port)
  else for (let i = 0; i < 3 && token === false; i++) token = await listenOn(await freePort(options.host))
  if (token === false)
    throw new Error(
      `cannot listen on ${options.host}:${options.port}: the port is in use or the address is not this machine's`
    )
  const { bodyTimeoutMs, headerTimeoutMs, lingerMs } = node.limits
  const sweep = setInterval(() => node.sweep(), Math.min(1_000, bodyTimeoutMs, headerTimeoutMs, lingerMs))
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
