/** Starts a node from its configuration (store, actors, engines, services, listener) and stops it. Part of
 *  the composition root. Source: docs/architecture.md, "How a process starts and stops". */
import { defined } from "../defined.ts"
import { statSync } from "node:fs"
import { createServer } from "node:net"
import { join } from "node:path"
import { Context, Effect, Exit, Scope } from "effect"
import { EngineProcess, EngineStarts } from "../../actors/engines/engine-process.ts"
import { RateWindow } from "../../actors/rate-window.ts"
import { isLoopbackHost } from "../../protocols/shared/addresses.ts"
import { openLmdb } from "../../storage/lmdb.ts"
import { openMemory } from "../../storage/memory.ts"
import { equalSecrets, masterKey, randomToken, sealer } from "../../storage/seal.ts"
import type { Config } from "./config/config.ts"
import { buildEngines } from "./engines.ts"
import { readLocalSecrets, writeLocalSecrets, type LocalSecrets } from "./local-secrets.ts"
import { operations } from "./operations.ts"
import { Actors } from "../registry.ts"
import { startAuthorization } from "./services/authorization.ts"
import { chatService } from "./services/chat.ts"
import { grantableBy, startStore, type StartedStore } from "./services/store.ts"
import { appTokensOf, storeSlug } from "./services/store-authorization.ts"
import { createDemoTranslation, startTranslation } from "./services/translation.ts"
import { ResponseCounter } from "./telemetry.ts"
import { Exchanges } from "./telemetry/exchanges.ts"
import { logger } from "./telemetry/logger.ts"
import { startTestProxy } from "./test-proxy.ts"
import { listenWith } from "../transport/listen.ts"

export interface RunningNode {
  readonly url: string
  readonly port: number
  /** The secrets that this start created; undefined when it created none. */
  readonly createdSecrets: LocalSecrets | undefined
  /** Lines that tell a person which optional parts are missing. */
  readonly notes: ReadonlyArray<string>
  /** Starts in the background what would otherwise slow the first request down. */
  warm(): Promise<void>
  stop(): Promise<void>
}

/** Finds a free port in advance, because the issuer must be known before there is a listener. */
const freePort = (host: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const probe = createServer()
      .once("error", reject)
      .listen(0, host, () => {
        const { port } = probe.address() as { readonly port: number }
        probe.close(() => resolve(port))
      })
  })

export const startNode = async (config: Config): Promise<RunningNode> => {
  const log = logger(config.logLevel)
  const scope = Effect.runSync(Scope.make())
  const seal = sealer(masterKey(config.data, config.masterKey))
  const port = config.port === 0 ? await freePort(config.host) : config.port
  const store = config.testMode
    ? openMemory()
    : await openLmdb({ folder: config.data, durability: config.durability })
  try {
    const system = await Effect.runPromise(
      Scope.provide(scope)(Actors.make({ store, log, residentMax: config.residentActorsMax }))
    )
    const starts = new Map()
    system.host(EngineProcess, Context.make(EngineStarts, starts))
    system.host(RateWindow, Context.empty())
    const engines = buildEngines(config, system, starts)

    // Demo accounts and keys are created only on a machine that serves nobody else, and each only once.
    const local =
      !config.testMode &&
      isLoopbackHost(
        config.publicBase === undefined ? config.host.toLowerCase() : new URL(config.publicBase).hostname
      )
    let secrets = config.testMode ? undefined : readLocalSecrets(config.data, seal)
    let createdSecrets: LocalSecrets | undefined
    const keep = (more: Partial<LocalSecrets> | undefined): void => {
      if (more === undefined || (secrets === undefined && more.accountId === undefined)) return
      createdSecrets = secrets = { ...(secrets ?? { operatorToken: randomToken() }), ...more } as LocalSecrets
      writeLocalSecrets(config.data, seal, secrets)
    }
    if (local && secrets === undefined) keep(await createDemoTranslation(store, seal))
    const translation = await startTranslation({ config, store, system, engines, seal, log })
    const authorization = await startAuthorization({
      config,
      store,
      system,
      seal,
      log,
      port,
      storedSecrets: secrets,
      mayCreateDemo: local && secrets !== undefined,
      // This is called only after listening has begun, when the store is open.
      grantable: (resource, userId, scopes) =>
        resource === storeSlug ? grantableBy(shop.open, userId, scopes) : scopes
    })
    keep(authorization?.demo)
    const tokens =
      authorization === undefined
        ? undefined
        : await appTokensOf(
            authorization.open,
            config.storeDomain === undefined
              ? `${authorization.issuer}/api/v1/`
              : `https://${config.storeDomain}/api/v1/`
          )
    const shop: StartedStore = await startStore(
      defined({ config, store, system, seal, loopback: local, subject: secrets?.oauthUserId, tokens })
    )
    keep(shop.demo)
    const chat = chatService(config, {
      store,
      actors: system,
      engines,
      log,
      storeBytes: () => (config.testMode ? 0 : statSync(join(config.data, "store.lmdb")).size)
    })

    const answers = new ResponseCounter()
    const exchanges = new Exchanges({ log, countsOf: answers.countsOf })
    let adapter = ""
    const services = [
      operations({
        actors: system,
        answers,
        adapter: () => adapter,
        engines: () =>
          engines.all().map(({ port, info, readiness }) => {
            const is = readiness()
            return { port, ...info, ready: is.ready, ...(is.ready ? {} : { reason: is.reason }) }
          }),
        isOperator: (token) => secrets !== undefined && equalSecrets(token, secrets.operatorToken),
        keys: translation.keys(secrets?.accountId),
        backup: (folder) => store.backup(folder),
        check: () => store.check(),
        probes: {
          ...chat.probes,
          metrics: () => `${chat.probes.metrics()}${authorization?.open.metrics() ?? ""}`
        }
      }),
      translation.service,
      chat.service,
      shop.open.service,
      ...(authorization === undefined ? [] : [authorization.open.service])
    ]
    const server = await listenWith(
      config.adapter,
      (line) => log("warn", line),
      services.map((service) => exchanges.instrument(service)),
      {
        host: config.host,
        port,
        trustedProxies: config.trustedProxies,
        ...(config.tlsCert === undefined || config.tlsKey === undefined
          ? {}
          : { tls: { certFile: config.tlsCert, keyFile: config.tlsKey } })
      }
    )
    adapter = server.adapter
    const proxy = config.testMode ? await startTestProxy(config.host, config.testProxyPort) : undefined
    if (proxy !== undefined)
      log("warn", "test mode: any key is accepted, nothing is kept", { proxyPort: proxy.port })
    system.resume()
    await chat.resume()
    const url =
      config.publicBase ??
      `${config.tlsCert === undefined ? "http" : "https"}://${isLoopbackHost(config.host.toLowerCase()) ? "localhost" : config.host}:${server.port}`
    log("info", "listening", { url, adapter })
    const translator = engines.translator.readiness()
    let stopping: Promise<void> | undefined
    return {
      url,
      port: server.port,
      createdSecrets: createdSecrets,
      notes: [
        ...(translator.ready ? [] : [`translation has no engine yet: ${translator.reason}`]),
        ...(authorization !== undefined || config["authorization.enabled"] === "off"
          ? []
          : [
              "the authorization server is off: set SERVICE_SERVER_ISSUER, SERVICE_ADMIN_API_KEY, SERVICE_SESSION_SECRET and SERVICE_SESSION_SECURE for a public address"
            ])
      ],
      warm: async () => {
        await Promise.all([engines.warm(), shop.open.warm()])
      },
      stop: () =>
        (stopping ??= (async () => {
          await chat.drain()
          await proxy?.close()
          await server.drain(config.drainMs)
          chat.close()
          translation.close()
          await authorization?.open.close()
          await shop.open.settled()
          await translation
            .settled()
            .catch((cause: unknown) => log("error", "usage of the last moments could not be kept", { cause }))
          await Effect.runPromise(Scope.close(scope, Exit.void))
          await store.close()
          log("info", "stopped")
        })())
    }
  } catch (cause) {
    await Effect.runPromise(Scope.close(scope, Exit.void))
    await store.close()
    throw cause
  }
}
