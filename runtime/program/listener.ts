/** The node's listener, which is opened last and closed first, and the operational endpoints, which know every
 *  service. Part of the composition root. */
import { Context, Effect, Layer } from "effect"
import { isLoopbackHost } from "../../protocols/shared/addresses.ts"
import { equalSecrets } from "../../storage/seal.ts"
import { Actors } from "../registry.ts"
import type { Server } from "../transport/server.ts"
import { listenAddressOf, splitServices } from "./admin-listener.ts"
import type { Config } from "./config/config.ts"
import { EnginePorts, type BuiltEngines } from "./engines.ts"
import { FirstStart } from "./first-start.ts"
import { operations, type EngineView } from "./operations.ts"
import { Configuration, Logging, opening, step, Storage } from "./parts.ts"
import { bound, Port } from "./port.ts"
import { Authorization } from "./services/authorization.ts"
import { Chat } from "./services/chat.ts"
import { Shop } from "./services/store.ts"
import { Translation } from "./services/translation.ts"
import { storing } from "./storing.ts"
import { Telemetry } from "./telemetry/telemetry.ts"
import { startTestProxy } from "./test-proxy.ts"

const viewsOf = (engines: BuiltEngines): ReadonlyArray<EngineView> =>
  engines.all().map(({ port, info, readiness }) => {
    const is = readiness()
    return { port, ...info, ready: is.ready, ...(is.ready ? {} : { reason: is.reason }) }
  })

const urlOf = ({ publicBase, tlsCert, host }: Config, port: number): string => {
  if (publicBase !== undefined) return publicBase
  const name = isLoopbackHost(host.toLowerCase()) ? "localhost" : host
  return `${tlsCert === undefined ? "http" : "https"}://${name}:${port}`
}

/** Continues what the previous process left unfinished. It precedes the listener: a node that cannot resume
 *  accepts nobody (G-6). */
export const resumedLayer = Layer.effectDiscard(
  Effect.gen(function* () {
    const actors = yield* Actors
    const chat = yield* Chat
    yield* step("actors", () => void actors.resume())
    yield* step("chat", () => chat.resume())
  })
)

export interface Listening {
  readonly url: string
  readonly server: Server
}

export class Listener extends Context.Service<Listener, Listening>()("program/Listener") {
  static readonly layer = Layer.effect(Listener)(
    Effect.gen(function* () {
      const config = yield* Configuration
      const actors = yield* Actors
      const engines = yield* EnginePorts
      const secrets = yield* FirstStart
      const log = yield* Logging
      const store = yield* Storage
      const port = yield* Port
      const translation = yield* Translation
      const authorization = yield* Authorization
      const shop = yield* Shop
      const chat = yield* Chat
      const telemetry = yield* Telemetry
      let adapter = ""
      const services = [
        operations({
          actors,
          metrics: telemetry.metrics,
          adapter: () => adapter,
          engines: () => viewsOf(engines),
          isOperator: (token) =>
            secrets.current !== undefined && equalSecrets(token, secrets.current.operatorToken),
          keys: translation.keys,
          backup: (folder) => storing((signal) => store.backup(folder, signal)),
          check: () => storing((signal) => store.check(signal)),
          probes: chat.probes
        }),
        translation.service,
        chat.service,
        shop.service,
        ...(authorization === undefined ? [] : [authorization.open.service])
      ].map(telemetry.instrument)

      // Before the public one: a node whose operators cannot reach it serves nobody.
      const adminAddress = listenAddressOf(config["admin.address"] ?? "")
      const { open, operators } =
        adminAddress === undefined ? { open: services, operators: [] } : splitServices(services)
      const adminServer = adminAddress && (yield* bound({ ...config, ...adminAddress }))
      const server = port.server ?? (yield* bound(config))
      adapter = server.adapter
      telemetry.observe({ actors, engines, server })
      // A reserved port is closed with its own part, which is after the services: requests must end before.
      if (port.server !== undefined)
        yield* Effect.addFinalizer(() => Effect.promise(() => server.drain(config.drainMs)))
      yield* step("admin listener", () => adminServer?.serve(operators))
      yield* step("listener", () => server.serve(open))
      const url = urlOf(config, server.port)
      const admin = adminServer && { admin: `${adminAddress!.host}:${adminServer.port}` }
      log("info", "listening", { url, adapter, ...admin })
      return { url, server }
    })
  )
}

/** Test mode's forward proxy. */
export const proxyLayer = Layer.effectDiscard(
  Effect.gen(function* () {
    const config = yield* Configuration
    const log = yield* Logging
    if (!config.testMode) return
    const proxy = yield* opening(
      "test proxy",
      () => startTestProxy(config.host, config.testProxyPort),
      (opened) => opened.close()
    )
    log("warn", "test mode: any key is accepted, nothing is kept", { proxyPort: proxy.port })
  })
)

/** Lets chat's turns end before the listener drains: they answer their clients meanwhile. */
export const drainingLayer = Layer.effectDiscard(
  Effect.flatMap(Chat, (chat) => Effect.addFinalizer(() => Effect.promise(() => chat.drain())))
)
