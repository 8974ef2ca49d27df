/** The connections to one origin: a call takes the one that became idle last, or opens another. It is
 *  guaranteed that no connection is used after the time that the server said, and that `close` leaves
 *  none. Source: RFC 9112. */
import type { Deadline, Deadlines } from "./deadlines.ts"
import {
  Http1Connection,
  type ConnectionOwner,
  type Exchange,
  type ResponseHandler
} from "./http1-connection.ts"
import { keepAliveMsDefault } from "./http1-head.ts"

export interface Http1PoolOptions {
  readonly url: URL
  readonly connectMs: number
  readonly deadlines: Deadlines
}

export class Http1Pool implements ConnectionOwner {
  readonly host: string
  readonly port: number
  readonly secure: boolean
  readonly connectMs: number
  readonly deadlines: Deadlines

  tlsSession: Buffer | undefined = undefined

  /** The connection that became idle last is the first to be used again. */
  private readonly idle: Array<Http1Connection> = []

  private readonly all = new Set<Http1Connection>()
  private sweepDeadline: Deadline | undefined = undefined

  constructor({ url, connectMs, deadlines }: Http1PoolOptions) {
    this.secure = url.protocol === "https:"
    const defaultPort = this.secure ? 443 : 80
    this.host = url.hostname.replace(/^\[|\]$/g, "")
    this.port = url.port === "" ? defaultPort : Number(url.port)
    this.connectMs = connectMs
    this.deadlines = deadlines
  }

  /** Sends `request`, head and body as they go out; `isAscii` says that every character of it is one byte. */
  call(request: string, isAscii: boolean, handler: ResponseHandler): Exchange {
    const connection = this.takeIdle() ?? new Http1Connection(this)
    this.all.add(connection)
    connection.send(request, isAscii, handler)
    return connection
  }

  private takeIdle(): Http1Connection | undefined {
    if (this.idle.length === 0) return undefined
    const nowMs = this.closeExpired()
    let connection = this.idle.pop()
    for (; connection !== undefined && connection.idleUntilMs <= nowMs; connection = this.idle.pop())
      connection.destroy()
    return connection
  }

  /** Closes connections that have been idle for too long, and returns the time. */
  private closeExpired(): number {
    const nowMs = this.deadlines.clock.monotonicMs()
    while (this.idle.length > 0 && this.idle[0]!.idleUntilMs <= nowMs) this.idle[0]!.destroy()
    return nowMs
  }

  release(connection: Http1Connection, keepAliveMs: number): void {
    connection.idleUntilMs = this.deadlines.clock.monotonicMs() + keepAliveMs
    this.idle.push(connection)
    this.sweepDeadline ??= this.deadlines.start(keepAliveMsDefault, this.sweep)
  }

  distrustIdle(): void {
    for (const connection of this.idle.slice()) connection.destroy()
  }

  /** Closes what has expired where no calls do it. */
  private readonly sweep = (): void => {
    this.closeExpired()
    this.sweepDeadline =
      this.idle.length === 0 ? undefined : this.deadlines.start(keepAliveMsDefault, this.sweep)
  }

  forget(connection: Http1Connection): void {
    this.all.delete(connection)
    const index = this.idle.indexOf(connection)
    if (index >= 0) this.idle.splice(index, 1)
  }

  close(): void {
    this.sweepDeadline?.stop()
    this.sweepDeadline = undefined
    for (const connection of this.all) connection.destroy()
  }
}
