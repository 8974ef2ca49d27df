/** One connection of the node adapter. Guarantee: its requests are worked on one after the other, and nothing
 *  behind a refused one is; a refusal that closes the connection can be read, because what the client still
 *  sends is taken and discarded for a bounded time (RFC 9112, section 9.6). Source: docs/http.md. */
import type { Socket } from "node:net"
import type { Duplex } from "node:stream"
import { lingerBytesMax, lingerQuietMs } from "./exchange.ts"
import type { Exchange } from "./node-exchange.ts"

/** The most requests that wait behind the one that is worked on. */
const waitingMax = 32

export class Wire {
  /** What is worked on. */
  exchange: Exchange | undefined = undefined
  /** Nothing that arrives from now on is worked on. */
  closing = false
  private readonly waiting: Array<() => void> = []
  private readonly socket: Socket

  constructor(socket: Socket) {
    this.socket = socket
  }

  /** Begins a request when those before it are answered. */
  enter(begin: () => void): void {
    if (this.closing) return
    if (this.exchange === undefined) return begin()
    if (this.waiting.push(begin) > waitingMax) this.socket.destroy()
  }

  /** The request that was worked on is over. */
  leave(): void {
    this.exchange = undefined
    if (!this.closing && !this.socket.destroyed) this.waiting.shift()?.()
  }

  /** Runs something in place of the requests to come, when those before it are answered. */
  last(run: () => void): void {
    this.enter(() => {
      this.closing = true
      run()
    })
  }

  /** Makes the end of the present answer a lingering close. */
  lingers(lingerMs: number): void {
    this.closing = true
    this.socket.destroySoon = () => linger(this.socket, lingerMs)
  }
}

/** Ends our side, then reads and discards until the client ends its own, is silent, or has had enough. */
export const linger = (socket: Duplex, lingerMs: number): void => {
  const until = performance.now() + lingerMs
  let bytes = 0
  let quiet = false
  const check = (): void => {
    if (quiet || performance.now() >= until) socket.destroy()
    quiet = true
  }
  const timer = setInterval(check, Math.min(lingerQuietMs, lingerMs)).unref()
  socket.once("close", () => clearInterval(timer))
  socket.on("data", (chunk: Uint8Array) => {
    quiet = false
    bytes += chunk.length
    if (bytes > lingerBytesMax) socket.destroy()
  })
  socket.end()
  socket.resume()
  // node:http stops the handle beneath the stream for a body that nobody reads, of which the stream knows nothing.
  socket._read(0)
}
