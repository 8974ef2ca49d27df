/** The floor of the gateways: an HTTP/1.1 client by hand over node:net, whose bytes go into uWebSockets.js
 *  unread. It understands no more of HTTP than the scripted model server uses. */
import net from "node:net"
import type uWS from "uWebSockets.js"
import { announce, collectBody, eventStream, json } from "./shared.ts"
import { loadLibrary } from "../../../runtime/transport/uws-library.ts"

type UpstreamSocket = net.Socket & { receive?: (data: Buffer) => void }

const headerEnd = "\r\n\r\n"

/** Pools sockets to the model server, which are reused when their answer has ended. */
export class UpstreamSockets {
  private readonly idle: Array<UpstreamSocket> = []
  private readonly port: number

  constructor(port: number) {
    this.port = port
  }

  open(): UpstreamSocket {
    const pooled = this.idle.pop()
    if (pooled !== undefined && !pooled.destroyed) return pooled
    const socket: UpstreamSocket = net.connect(this.port, "127.0.0.1")
    socket.setNoDelay(true)
    socket.on("data", (data) => socket.receive?.(data))
    socket.on("error", () => {})
    return socket
  }

  release(socket: UpstreamSocket): void {
    this.idle.push(socket)
  }
}

/** Relays one answer: first its header, then either a whole body or chunks, which are sent on as they
 *  arrive. */
export class Relay {
  /** True when the client has disconnected, or the answer is complete. */
  ended = false
  private head = true
  private chunked = false
  /** How many bytes of the whole body are missing. */
  private missing = 0
  /** How many bytes of the current chunk are missing, its line end included. */
  private chunkLeft = 0
  /** Bytes that cannot be interpreted before more arrive. */
  private rest: Buffer | undefined
  private readonly parts: Array<Buffer> = []
  private readonly res: uWS.HttpResponse
  private readonly onEnd: () => void

  constructor(res: uWS.HttpResponse, onEnd: () => void) {
    this.res = res
    this.onEnd = onEnd
  }

  receive(received: Buffer): void {
    const data = this.rest === undefined ? received : Buffer.concat([this.rest, received])
    this.rest = undefined
    if (this.ended) return
    const start = this.head ? this.readHead(data) : 0
    if (start === undefined) return
    if (this.chunked) this.res.cork(() => this.relayChunks(data, start))
    else this.collect(data.subarray(start))
  }

  /** Returns the index where the body begins, or undefined while the header is incomplete. */
  private readHead(data: Buffer): number | undefined {
    const end = data.indexOf(headerEnd)
    if (end < 0) {
      this.rest = data
      return undefined
    }
    const text = data.toString("latin1", 0, end).toLowerCase()
    this.head = false
    this.chunked = text.includes("transfer-encoding: chunked")
    this.missing = Number(/content-length: (\d+)/.exec(text)?.[1] ?? 0)
    if (this.chunked)
      this.res.cork(() => {
        this.res.writeHeader("content-type", eventStream).write("")
      })
    return end + headerEnd.length
  }

  private collect(part: Buffer): void {
    this.parts.push(part)
    this.missing -= part.length
    if (this.missing > 0) return
    this.res.cork(() => {
      this.res.writeHeader("content-type", json).end(Buffer.concat(this.parts))
    })
    this.end()
  }

  private relayChunks(data: Buffer, start: number): void {
    let at = start
    while (at < data.length) {
      if (this.chunkLeft > 0) {
        const size = Math.min(this.chunkLeft, data.length - at)
        const bytes = Math.max(0, Math.min(size, this.chunkLeft - 2))
        if (bytes > 0) this.res.write(data.subarray(at, at + bytes))
        at += size
        this.chunkLeft -= size
        continue
      }
      const line = data.indexOf("\r\n", at)
      if (line < 0) {
        this.rest = data.subarray(at)
        return
      }
      this.chunkLeft = parseInt(data.toString("latin1", at, line), 16) + 2
      at = line + 2
      if (this.chunkLeft === 2) {
        this.end()
        this.res.end()
        return
      }
    }
  }

  private end(): void {
    this.ended = true
    this.onEnd()
  }
}

export const rawPipe = (upstreamPort: string): void => {
  const { App, us_socket_local_port } = loadLibrary()
  const sockets = new UpstreamSockets(Number(upstreamPort))
  App()
    .post("/*", (res, req) => {
      const path = req.getUrl()
      let socket: UpstreamSocket | undefined
      const relay = new Relay(res, () => sockets.release(socket!))
      res.onAborted(() => {
        relay.ended = true
        socket?.destroy()
      })
      collectBody(res, (body) => {
        socket = sockets.open()
        socket.receive = (data) => relay.receive(data)
        socket.write(
          `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: ${json}\r\ncontent-length: ${body.length}\r\n\r\n`
        )
        socket.write(body)
      })
    })
    .listen("127.0.0.1", 0, (token) => announce(us_socket_local_port(token as never)))
}
