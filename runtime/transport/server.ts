/** The transport's contract. Two adapters pass one test-suite: uws.ts (uWebSockets.js, the default) and
 *  node.ts (node:http and ws). The transport is responsible for limits, time-outs of slow clients, aborts,
 *  corking, back-pressure, TLS, trusted proxies, draining, Date and trace ids. Source: docs/architecture.md,
 *  "Transport". */
import type { Context } from "effect"
import type { Service } from "../http.ts"

export interface ListenOptions {
  readonly host: string
  /** The port to listen on; 0 chooses any free one. */
  readonly port: number
  readonly tls?: { readonly certFile: string; readonly keyFile: string }
  /** Addresses or CIDR ranges whose X-Forwarded-For and X-Forwarded-Proto are trusted. */
  readonly trustedProxies?: ReadonlyArray<string>
  /** Limits the request head in bytes; above it the answer is 431. Default: 16384. */
  readonly headerBytesMax?: number
  /** Limits the request target in bytes; above it the answer is 414. Default: 8192. */
  readonly targetBytesMax?: number
  /** Limits how long a connection's first request head may take, in ms; when it is over the answer is 408. uws:
   *  the library closes a connection without a whole head after 28 to 32 s by itself. Default: 15000. */
  readonly headerTimeoutMs?: number
  /** Limits how long a body may take, in ms, to bring what `bodyBytesPerSecondMin` asks of that time; when it
   *  has not the answer is 408. Default: 30000. */
  readonly bodyTimeoutMs?: number
  /** The least pace of a body. Default: 1024. */
  readonly bodyBytesPerSecondMin?: number
  /** A client that takes nothing of its answer for this long, in ms, is cut off. uws: the library does so after
   *  28 to 32 s. Default: 30000. */
  readonly answerTimeoutMs?: number
  /** Limits how long, in ms, the rest of a refused request is read and discarded, so that the client can read
   *  the refusal. Default: 30000. */
  readonly lingerMs?: number
  /** A WebSocket whose peer is silent for this long, in ms, is dropped; pings are sent often enough to tell.
   *  Default: 60000. */
  readonly socketIdleMs?: number
  /** Holds a rewritten copy of uWebSockets.js where the C library needs one. Default: a folder beside the
   *  installed packages. */
  readonly cacheFolder?: string
  /** The services (log, tracer) with which the Effects of handlers run. */
  readonly context?: Context.Context<never>
}

/** What a server is busy with. */
export interface ServerLoad {
  /** Open TCP connections, WebSockets among them. */
  readonly connections: number
  readonly sockets: number
  /** Requests whose answer has not left yet. */
  readonly requests: number
}

export interface Server {
  readonly adapter: "uws" | "node"
  readonly port: number
  load(): ServerLoad
  /** Begins to serve; until then every request is answered with 503. It is called once. */
  serve(services: ReadonlyArray<Service>): void
  /** Stops accepting, lets the requests in flight finish, and closes WebSockets with 1001. Requests that run
   *  as Effects are interrupted after `withinMs`. It resolves when all of them have ended, or soon after; a
   *  repeated call waits for the first. */
  drain(withinMs: number): Promise<void>
}

/** Takes the port. */
export type Bind = (options: ListenOptions) => Promise<Server>

export type Listen = (services: ReadonlyArray<Service>, options: ListenOptions) => Promise<Server>

/** Takes a port and serves at once. */
export const listenBy =
  (bind: Bind): Listen =>
  async (services, options) => {
    const server = await bind(options)
    server.serve(services)
    return server
  }

/** Words the answers between the binding of the port and `serve`. */
export const opening: Service = {
  name: "opening",
  prefixes: [],
  routes: [],
  refused: () => ({ status: 503, headers: [["Retry-After", "1"]] })
}
