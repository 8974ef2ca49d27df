/** The transport's contract. Two adapters pass one test-suite: uws.ts (uWebSockets.js, the default) and
 *  node.ts (node:http + ws). The transport owns limits, slow-client time-outs, aborts, corking,
 *  back-pressure, TLS, trusted proxies, drain, Date and trace ids. */
import type { Service } from "../http.ts"

export interface ListenOptions {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly tls?: { readonly certFile: string; readonly keyFile: string }
  /** Addresses or CIDR ranges whose X-Forwarded-For and X-Forwarded-Proto are believed. */
  readonly trustedProxies?: ReadonlyArray<string>
  /** Default 16384; above it 431. */
  readonly headerBytesMax?: number
  /** Request target; default 8192; above it 414. */
  readonly targetBytesMax?: number
  /** The whole body must arrive within this time of its headers, unless bytes keep coming (each chunk renews
   *  it); default 30000; 408. */
  readonly bodyTimeoutMs?: number
  /** WebSocket pings go out so often that a peer silent for this long is dropped; default 60000. */
  readonly socketIdleMs?: number
}

export interface Server {
  readonly adapter: "uws" | "node"
  readonly port: number
  /** Stops accepting, lets requests in flight finish, closes WebSockets with 1001, resolves when all are gone
   *  or after `withinMs`. */
  drain(withinMs: number): Promise<void>
}

export type Listen = (services: ReadonlyArray<Service>, options: ListenOptions) => Promise<Server>
