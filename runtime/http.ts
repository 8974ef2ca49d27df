/** HTTP as values: these types are what a protocol receives of a request and returns as a response. Both
 *  transports (runtime/transport) implement them. Source: docs/architecture.md, "Transport". */
import { Effect } from "effect"

/** Looks up request headers, whose names are in lower case; the values of a repeated header are joined by ",
 *  ". */
export interface Headers {
  get(name: string): string | undefined
  entries(): Iterable<readonly [string, string]>
}

export interface Request {
  readonly method: string
  /** The path as sent, still percent-encoded; a doubled slash at its start is collapsed. */
  readonly path: string
  /** The raw query without "?"; "" when there is none. */
  readonly query: string
  /** Percent-decoded values of the `:name` parts of the route's path. */
  readonly params: Readonly<Record<string, string>>
  readonly headers: Headers
  /** Peer address, or the one a trusted proxy forwarded. */
  readonly client: string
  /** `https` or `http`, as the client saw it (trusted proxies' X-Forwarded-Proto). */
  readonly scheme: "http" | "https"
  /** The trace id: 32 lower-case hex digits, which the response returns as X-Trace-ID. */
  readonly traceId: string
  /** The whole body of a route with `body.as: "buffer"`; empty otherwise. */
  readonly body: Uint8Array
  /** The body of a route with `body.as: "stream"`, read on demand; it throws BodyFault when it exceeds the
   *  route's limit, arrives too slowly, or the client disconnects. */
  readonly stream: AsyncIterable<Uint8Array>
  /** Is aborted when the client disconnects before the response is complete. It is created on first use. */
  readonly signal: AbortSignal
  /** Reports the same event at less cost, to one listener, which is called at once when the client has
   *  disconnected already. */
  onAborted(listener: () => void): void
}

/** Says why a streamed body ended early. */
export class BodyFault extends Error {
  readonly reason: "too-large" | "aborted" | "timeout"

  constructor(reason: "too-large" | "aborted" | "timeout") {
    super(`request body: ${reason}`)
    this.name = "BodyFault"
    this.reason = reason
  }
}

/** A streamed response is written here. After `signal` aborts, writes do nothing. */
export interface Sink {
  /** Accepts the chunk, and returns false when the peer reads too slowly: the caller should then await
   *  `drained` before it writes more. Chunks written in one turn leave in one cork. */
  write(chunk: Uint8Array | string): boolean
  /** Works like `write`, but the chunk leaves at once, after everything written before it. It suits a chunk
   *  that no other will follow soon. */
  send(chunk: Uint8Array | string): boolean
  drained(): Promise<void>
  /** Completes the response. It resolves with true once the transport has handed the last byte to the
   *  operating system, with false when the client disconnected first. */
  end(): Promise<boolean>
  readonly signal: AbortSignal
}

/** Writes a streamed body: it is called once, and the response ends when what it returns has ended (or by
 *  `sink.end`); a failure cuts the connection. An Effect is run like a handler's: it is interrupted when the
 *  client goes or when the drain is over. One that returns at once starts no fiber. */
export type Streaming = (sink: Sink) => Later<void> | void

export type Header = readonly [name: string, value: string]

export interface Response {
  readonly status: number
  readonly headers?: ReadonlyArray<Header>
  /** Adds headers from a list that many responses share: the transport formats it only once. */
  readonly always?: ReadonlyArray<Header>
  readonly body?: string | Uint8Array | Streaming | undefined
  /** Closes the connection after this response, because a body that nobody reads may still be on its way. */
  readonly close?: boolean | undefined
  /** Says why a 5xx answer was given: an exception or the value of a fault. The transport never sends it; it
   *  reaches the log together with the trace id. */
  readonly cause?: unknown
}

/** A value that is available now, or that something waits for, which may fail with `E`. */
export type Later<A, E = never> = A | Promise<A> | Effect.Effect<A, E>

/** What a handler returns. A request that waits, holds something or must stop with its client is an Effect:
 *  the transport runs it once, and interrupts it when the client goes or when the drain is over. A defect is
 *  answered by the service's 500. A plain response starts no fiber. */
export type Answer = Later<Response>

export type Handler = (request: Request) => Answer

export const effectOf = <A, E = never>(value: Later<A, E>): Effect.Effect<A, E> => {
  if (Effect.isEffect(value)) return value as Effect.Effect<A, E>
  return value instanceof Promise ? Effect.promise(() => value) : Effect.succeed(value)
}

/** Changes a value, now or when it is there. */
export const mapLater = <A, B, E = never>(value: Later<A, E>, change: (value: A) => B): Later<B, E> => {
  if (value instanceof Promise) return value.then(change)
  return Effect.isEffect(value) ? Effect.map(value as Effect.Effect<A, E>, change) : change(value)
}

/** Goes on with a value, now or when it is there. */
export const flatMapLater = <A, B, E = never>(
  value: Later<A, E>,
  next: (value: A) => Later<B, E>
): Later<B, E> =>
  value instanceof Promise || Effect.isEffect(value)
    ? Effect.flatMap(effectOf<A, E>(value as Later<A, E>), (there) => effectOf<B, E>(next(there)))
    : next(value)

/** Goes on with a value by what may return a promise. A value that is there, or a promise, starts no fiber. */
export const chainLater = <A, B>(value: Later<A>, next: (value: A) => B | Promise<B>): Later<B> =>
  value instanceof Promise ? value.then(next) : flatMapLater<A, B>(value, next)

/** Goes on with what `ask` answers: within this turn when it answers now, otherwise as an Effect that waits for
 *  it. `next` runs outside of the callback that brought the answer, so it may throw. */
export const askLater = <A, E = never>(
  ask: (done: (next: () => Later<A, E>) => void) => void
): Later<A, E> => {
  let now: (() => Later<A, E>) | undefined
  let arrived: (() => void) | undefined
  ask((next) => {
    now = next
    arrived?.()
  })
  if (now !== undefined) return now()
  const waiting = Effect.callback<void>((resume) => {
    arrived = () => resume(Effect.void)
    if (now !== undefined) arrived()
  })
  return Effect.flatMap(waiting, () => effectOf<A, E>(now!()))
}

/** One row of the static route table. `path`: literal parts, `:name` parts, or a last part `*`. */
export interface Route {
  readonly method: string
  readonly path: string
  /** Says how the body is read. Without it the body is read and discarded (up to 64 KiB). A body over
   *  `bytesMax` is refused with 413 through `refused`, before it is read when Content-Length already says
   *  so. */
  readonly body?: { readonly as: "buffer" | "stream"; readonly bytesMax: number }
  /** Is called before the body is read; a returned response refuses the request. A small body is then read
   *  and discarded, a larger one is cut off with the connection. */
  readonly admit?: (request: Request) => Response | undefined
  readonly handle: Handler
}

/** A group of routes that one service owns, and how that service words the refusals that the transport makes
 *  on its own. */
export interface Service {
  readonly name: string
  /** Lists path prefixes: the service words the 404 or 405 for a path that begins with one of them and
   *  matches no route. */
  readonly prefixes: ReadonlyArray<string>
  readonly routes: ReadonlyArray<Route>
  readonly sockets?: ReadonlyArray<SocketRoute<any>>
  /** Words a refusal of the transport. `allow` comes with 405 and lists the methods. 500 means that a handler
   *  threw, 503 that the server is draining, and 507 that a handler's write met a full disk: its answer is a
   *  503 too, which clients know. */
  readonly refused: (
    status: 400 | 404 | 405 | 408 | 413 | 414 | 431 | 500 | 503 | 507,
    request: Pick<Request, "method" | "path" | "traceId"> & Partial<Pick<Request, "headers">>,
    allow?: string
  ) => Response
}

/** One open WebSocket. */
export interface Socket<Data> {
  readonly data: Data
  /** Sends a TEXT frame for a string and a BINARY frame for bytes. "buffered" means accepted, but the peer
   *  reads slowly, so wait for `drain`; "dropped" means not accepted, because the limit is exceeded or the
   *  socket is closed. */
  send(message: string | Uint8Array): "sent" | "buffered" | "dropped"
  /** Bytes accepted but not yet handed to the operating system. */
  readonly bufferedBytes: number
  /** Makes several sends inside `write` leave in one system call. */
  cork(write: () => void): void
  /** Sends a ping whose payload comes back with the peer's pong (RFC 6455, section 5.5.3); the pong proves
   *  that the peer has read everything sent before. */
  ping(payload: string): void
  /** Starts the closing handshake. */
  close(code: number, reason: string): void
  /** Drops the connection. */
  terminate(): void
}

export interface SocketRoute<Data> {
  readonly path: string
  /** Limits a whole message in bytes; above it the transport closes the socket with 1009. */
  readonly messageBytesMax: number
  /** Limits the buffered bytes, above which `send` returns "dropped". Default: 1 MiB. */
  readonly bufferedBytesMax?: number
  /** Accepts the upgrade with the socket's data, or refuses it with a response. It is synchronous: it may
   *  check a token, but must not wait for anything. */
  upgrade(request: Request): { readonly accept: Data } | Response
  open(socket: Socket<Data>): void
  /** Receives a message, which is valid only during the call: copy what has to outlive it. */
  message(socket: Socket<Data>, message: Uint8Array, isText: boolean): void
  drain?(socket: Socket<Data>): void
  /** Receives the pongs to our own pings and to the transport's; `payload` tells them apart. */
  pong?(socket: Socket<Data>, payload: string): void
  /** Is called once, however the socket ended; the code is 1006 when there was no close frame. */
  close(socket: Socket<Data>, code: number): void
}

/** Makes a JSON response; the caller adds `Cache-Control` and other headers. */
export const json = (
  status: number,
  value: unknown,
  headers: ReadonlyArray<readonly [string, string]> = []
): Response => ({
  status,
  headers: [["Content-Type", "application/json"], ...headers],
  body: JSON.stringify(value)
})
