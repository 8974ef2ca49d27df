/** HTTP as values: what a protocol sees of a request and gives back. Both transports (runtime/transport)
 *  speak it.
 *  Source: docs/architecture.md, "Transport". */

/** Case-insensitive look-up of request headers; a repeated header's values are joined by ", ". Names are
 *  given in lower case. */
export interface Headers {
  get(name: string): string | undefined
  entries(): Iterable<readonly [string, string]>
}

export interface Request {
  readonly method: string
  /** Path as sent, still percent-encoded, a doubled slash at its start collapsed. */
  readonly path: string
  /** Raw query without "?"; "" when there is none. */
  readonly query: string
  /** Percent-decoded values of the `:name` parts of the route's path. */
  readonly params: Readonly<Record<string, string>>
  readonly headers: Headers
  /** Peer address, or the one a trusted proxy forwarded. */
  readonly client: string
  /** `https` or `http`, as the client saw it (trusted proxies' X-Forwarded-Proto). */
  readonly scheme: "http" | "https"
  /** 32 lower-case hex digits, sent back as X-Trace-ID. */
  readonly traceId: string
  /** The whole body of a route with `body.as: "buffer"`; empty otherwise. */
  readonly body: Uint8Array
  /** The body of a route with `body.as: "stream"`, by demand; throws BodyFault when it breaks the route's
   *  limit or the client goes. */
  readonly stream: AsyncIterable<Uint8Array>
  /** Aborted when the client goes before the response is complete. Made on first use. */
  readonly signal: AbortSignal
  /** The same event at less cost, for one listener; called at once when the client has left already. */
  onAborted(listener: () => void): void
}

/** Why a streamed body ended early. */
export class BodyFault extends Error {
  readonly reason: "too-large" | "aborted" | "timeout"

  constructor(reason: "too-large" | "aborted" | "timeout") {
    super(`request body: ${reason}`)
    this.name = "BodyFault"
    this.reason = reason
  }
}

/** Where a streamed response goes. After `signal` aborts, writes do nothing. */
export interface Sink {
  /** False: taken, but the peer is behind; await `drained` before writing more. Chunks written in one turn
   *  leave in one cork. */
  write(chunk: Uint8Array | string): boolean
  /** As `write`, and it leaves at once, after what was written before: for a chunk that is all there is for
   *  now. */
  send(chunk: Uint8Array | string): boolean
  drained(): Promise<void>
  /** Completes the response. Resolves true once the transport has handed the last byte to the operating
   *  system, false when the client went first. */
  end(): Promise<boolean>
  readonly signal: AbortSignal
}

export type Header = readonly [name: string, value: string]

export interface Response {
  readonly status: number
  readonly headers?: ReadonlyArray<Header>
  /** More headers, one list for many answers: the transport puts it together once. */
  readonly always?: ReadonlyArray<Header>
  /** A function streams: it is called once, and the response ends when its promise has resolved (or by
   *  `sink.end`); a throw cuts the connection. */
  readonly body?: string | Uint8Array | ((sink: Sink) => Promise<void> | void) | undefined
  /** The connection ends with this response: a body nobody reads may still be on its way. */
  readonly close?: boolean | undefined
}

export type Handler = (request: Request) => Response | Promise<Response>

/** One row of the static route table. `path`: literal parts, `:name` parts, or a last part `*`. */
export interface Route {
  readonly method: string
  readonly path: string
  /** Absent: the body is read and discarded (up to 64 KiB). Over `bytesMax`: 413 through `refused`, before
   *  reading when Content-Length says so. */
  readonly body?: { readonly as: "buffer" | "stream"; readonly bytesMax: number }
  /** Asked before the body is read: an answer refuses the request. A small body is then read and thrown away,
   *  a larger one cut with the connection. */
  readonly admit?: (request: Request) => Response | undefined
  readonly handle: Handler
}

/** A group of routes that one service owns: how it words what the transport must refuse by itself. */
export interface Service {
  readonly name: string
  /** Paths that begin with one of these and match no route are this service's 404 and 405. */
  readonly prefixes: ReadonlyArray<string>
  readonly routes: ReadonlyArray<Route>
  readonly sockets?: ReadonlyArray<SocketRoute<any>>
  /** Words a refusal of the transport. `allow` comes with 405 and lists the methods. 500: a handler threw;
   *  503: draining. */
  readonly refused: (
    status: 400 | 404 | 405 | 408 | 413 | 414 | 431 | 500 | 503,
    request: Pick<Request, "method" | "path" | "traceId"> & Partial<Pick<Request, "headers">>,
    allow?: string
  ) => Response
}

/** One open WebSocket. */
export interface Socket<Data> {
  readonly data: Data
  /** "sent"; "buffered": taken, the peer is behind, wait for `drain`; "dropped": over the limit or closed,
   *  not taken. String = TEXT frame. */
  send(message: string | Uint8Array): "sent" | "buffered" | "dropped"
  /** Bytes taken but not yet handed to the operating system. */
  readonly bufferedBytes: number
  /** Several sends inside `write` leave in one system call. */
  cork(write: () => void): void
  /** A ping whose payload comes back with the peer's pong (RFC 6455 5.5.3): then it has read everything sent
   *  before. */
  ping(payload: string): void
  /** Closing handshake. */
  close(code: number, reason: string): void
  /** Drops the connection. */
  terminate(): void
}

export interface SocketRoute<Data> {
  readonly path: string
  /** Whole-message limit; above it the transport closes with 1009. */
  readonly messageBytesMax: number
  /** Above this many buffered bytes `send` answers "dropped". Default 1 MiB. */
  readonly bufferedBytesMax?: number
  /** Accepts with the socket's data, or refuses with a response. Synchronous: a token check, nothing that
   *  waits. */
  upgrade(request: Request): { readonly accept: Data } | Response
  open(socket: Socket<Data>): void
  /** `message` is valid only during the call: copy what you keep. */
  message(socket: Socket<Data>, message: Uint8Array, isText: boolean): void
  drain?(socket: Socket<Data>): void
  /** Of our own pings and the transport's; `payload` tells which. */
  pong?(socket: Socket<Data>, payload: string): void
  /** Once, however it ended; 1006 when there was no close frame. */
  close(socket: Socket<Data>, code: number): void
}

/** A JSON response; `Cache-Control` and the like are the caller's. */
export const json = (
  status: number,
  value: unknown,
  headers: ReadonlyArray<readonly [string, string]> = []
): Response => ({
  status,
  headers: [["Content-Type", "application/json"], ...headers],
  body: JSON.stringify(value)
})
