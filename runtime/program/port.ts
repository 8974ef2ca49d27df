/** The node's port. A fixed one is bound last, when everything behind it is open. Port 0 is bound before its
 *  number is needed, answers 503 until then, and is served last all the same. Part of the composition root. */
import { Context, Effect, Layer, type Scope } from "effect"
import { bindWith } from "../transport/listen.ts"
import type { Server } from "../transport/server.ts"
import { openCacheFolder } from "./cache-folder.ts"
import type { Config } from "./config/config.ts"
import { Configuration, Logging, opening, type StartFault } from "./parts.ts"

/** Binds the configured port; the listener is drained and closed with the scope. */
export const bound = (config: Config): Effect.Effect<Server, StartFault, Scope.Scope | Logging> =>
  Effect.gen(function* () {
    const log = yield* Logging
    const options = {
      context: yield* Effect.context<never>(),
      host: config.host,
      port: config.port,
      trustedProxies: config.trustedProxies,
      cacheFolder: openCacheFolder(config),
      ...(config.tlsCert === undefined || config.tlsKey === undefined
        ? {}
        : { tls: { certFile: config.tlsCert, keyFile: config.tlsKey } })
    }
    return yield* opening(
      "listener",
      () => bindWith(config.adapter, (line) => log("warn", line), options),
      (server) => server.drain(config.drainMs)
    )
  })

/** The port's number, which the issuer's address contains, and its listener where it is bound already. */
export class Port extends Context.Service<
  Port,
  { readonly port: number; readonly server: Server | undefined }
>()("program/Port") {
  static readonly layer = Layer.effect(Port)(
    Effect.gen(function* () {
      const config = yield* Configuration
      if (config.port !== 0) return { port: config.port, server: undefined }
      const server = yield* bound(config)
      return { port: server.port, server }
    })
  )
}
