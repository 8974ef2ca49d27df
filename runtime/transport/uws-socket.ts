/** One WebSocket over uWebSockets.js. Guarantee: a message that would exceed the limit of buffered bytes is
 *  not sent, and `send` says so; after the close every call does nothing. */
import type uWS from "uWebSockets.js"
import type { Socket } from "../http.ts"

export class UwsSocket<Data> implements Socket<Data> {
  closed = false
  readonly data: Data
  private readonly ws: uWS.WebSocket<SocketData>
  private readonly bufferedBytesMax: number

  constructor(ws: uWS.WebSocket<SocketData>, data: Data, bufferedBytesMax: number) {
    this.ws = ws
    this.data = data
    this.bufferedBytesMax = bufferedBytesMax
  }

  get bufferedBytes(): number {
    return this.closed ? 0 : this.ws.getBufferedAmount()
  }

  send(message: string | Uint8Array): "sent" | "buffered" | "dropped" {
    if (this.closed || this.ws.getBufferedAmount() > this.bufferedBytesMax) return "dropped"
    const status = this.ws.send(message as string, typeof message !== "string")
    if (status === 1) return "sent"
    return status === 0 ? "buffered" : "dropped"
  }

  cork(write: () => void): void {
    if (!this.closed) this.ws.cork(write)
  }

  ping(payload: string): void {
    if (!this.closed) this.ws.ping(payload)
  }

  close(code: number, reason: string): void {
    if (!this.closed) this.ws.end(code, reason)
  }

  terminate(): void {
    if (!this.closed) this.ws.close()
  }
}

export interface SocketData {
  accepted: unknown
  socket: UwsSocket<unknown> | undefined
}
