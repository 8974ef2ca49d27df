/** A running node, from configuration: store, actors, engines, services, listener; and how it stops. Part of the composition root. */
import { Context, Effect, Exit, Scope } from "effect"
import { EngineProcess, EngineStarts } from "../actors/engines/process.ts"
import { RateWindow } from "../actors/rate-window.ts"
import { VoiceEngines, VoiceSession } from "../actors/voice-session.ts"
import { TranslationCache } from "../protocols/translation/cache.ts"
import { KeyRing } from "../protocols/translation/keys.ts"
import { Accounts, createAccount, createKey, Keys } from "../protocols/translation/records.ts"
import { translation } from "../protocols/translation/routes.ts"
import { Usage } from "../protocols/translation/usage.ts"
import { Voice } from "../protocols/translation/voice.ts"
import { openLmdb } from "../storage/lmdb.ts"
import { equalSecrets, masterKey, randomToken, sealer } from "../storage/seal.ts"
import type { Store } from "../storage/store.ts"
import type { Config } from "./config.ts"
import { buildEngines } from "./engines.ts"
import { readLocalSecrets, writeLocalSecrets, type LocalSecrets } from "./local-secrets.ts"
import { operations } from "./operations.ts"
import { Actors } from "./registry.ts"
import { startStore } from "./services/store.ts"
import { Answers, logger } from "./telemetry.ts"
import { listenWith } from "./transport/listen.ts"

export interface RunningNode {
  readonly url: string
  readonly port: number
  /** What a first start has made; undefined later. */ readonly made: LocalSecrets | undefined
  /** Lines about what is missing, for a person. */ readonly notes: ReadonlyArray<string>
  /** Starts in the background what would be slow at the first request. */ warm(): Promise<void>
  stop(): Promise<void>
}
const loopback = /^(?:localhost|127(?:\.\d+){3}|\[?::1\]?)$/i

/** A first start makes a demo account and its keys, on a machine that only serves itself. */
const firstStart = async (store: Store, config: Config, seal: ReturnType<typeof sealer>, hashKey: (secret: string) => string): Promise<LocalSecrets | undefined> => {
  const host = config.publicBase === undefined ? config.host : new URL(config.publicBase).hostname
  if (!loopback.test(host) || readLocalSecrets(config.data, seal) !== undefined || Accounts.range(store, { limit: 1 }).length > 0) return undefined
  const nowMs = Date.now()
  const account = await createAccount(store, { tier: "paid", nowMs })
  const developer = await createKey(store, hashKey, account, { label: "demo", nowMs })
  const admin = await createKey(store, hashKey, account, { role: "admin", label: "demo admin", nowMs })
  const made: LocalSecrets = { accountId: account.accountId, developerKey: developer.secret, adminKey: admin.secret, operatorToken: randomToken() }
  writeLocalSecrets(config.data, seal, made)
  return made
}

export const startNode = async (config: Config): Promise<RunningNode> => {
  const log = logger(config.logLevel)
  const scope = Effect.runSync(Scope.make())
  const seal = sealer(masterKey(config.data, config.masterKey))
  const hashKey = (secret: string): string => seal.hash(secret, "translation key")
  const store = await openLmdb({ folder: config.data, durability: config.durability })
  try {
    const system = await Effect.runPromise(Scope.provide(scope)(Actors.make({ store, log, residentMax: config.residentActorsMax })))
    const starts = new Map()
    system.host(EngineProcess, Context.make(EngineStarts, starts))
    system.host(RateWindow, Context.empty())
    const engines = buildEngines(config, system, starts)
    system.host(VoiceSession, Context.make(VoiceEngines, engines))

    let made = await firstStart(store, config, seal, hashKey)
    let secrets = made ?? readLocalSecrets(config.data, seal)
    const shop = await startStore({ config, store, system, seal, loopback: loopback.test(config.publicBase === undefined ? config.host : new URL(config.publicBase).hostname) })
    if (shop.demo !== undefined && secrets !== undefined) {
      secrets = { ...secrets, ...shop.demo }
      if (made !== undefined) made = secrets
      writeLocalSecrets(config.data, seal, secrets)
    }
    const ring = new KeyRing(store, hashKey), usage = new Usage(store, system.nowMs)
    const voice = new Voice({
      store, actors: system, engines, usage, ring, clock: system.nowMs, hashToken: (token) => seal.hash(token, "voice token"), newToken: randomToken,
      ...(config.publicBase === undefined ? {} : { publicBase: config.publicBase })
    })
    const answers = new Answers()
    let adapter = ""
    const services = [
      operations({
        actors: system, answers, adapter: () => adapter,
        engines: () => engines.all().map(({ port, info, readiness }) => { const is = readiness(); return { port, ...info, ready: is.ready, ...(is.ready ? {} : { reason: is.reason }) } }),
        isOperator: (token) => secrets !== undefined && equalSecrets(token, secrets.operatorToken),
        keys: {
          list: () => secrets === undefined ? [] : ring.list(secrets.accountId),
          create: async (label) => {
            const account = secrets === undefined ? undefined : Accounts.get(store, [secrets.accountId])
            if (account === undefined) throw new Error("there is no local account")
            const { key, secret } = await createKey(store, hashKey, account, { nowMs: Date.now(), ...(label === undefined ? {} : { label }) })
            return { ...key, key: secret }
          },
          deactivate: (keyId) => secrets === undefined || Keys.get(store, [secrets.accountId, keyId]) === undefined ? Promise.resolve(undefined)
            : ring.deactivate(secrets.accountId, keyId, Date.now())
        },
        backup: (folder) => store.backup(folder),
        check: () => store.check()
      }),
      translation({
        store, actors: system, engines, hashKey, clock: system.nowMs, ring, usage, cache: new TranslationCache(),
        limits: { calls: config.rateCalls, windowMs: config.rateWindowMs, inFlight: config.callsInFlight }, corsOrigins: config.corsOrigins, voice
      }),
      shop.open.service
    ]
    const server = await listenWith(config.adapter, (line) => log("warn", line), services.map((service) => answers.counting(service)), {
      host: config.host, port: config.port, trustedProxies: config.trustedProxies,
      ...(config.tlsCert === undefined || config.tlsKey === undefined ? {} : { tls: { certFile: config.tlsCert, keyFile: config.tlsKey } })
    })
    adapter = server.adapter
    system.resume()
    const url = config.publicBase ?? `${config.tlsCert === undefined ? "http" : "https"}://${loopback.test(config.host) ? "localhost" : config.host}:${server.port}`
    log("info", "listening", { url, adapter })
    const translator = engines.translator.readiness()
    let stopping: Promise<void> | undefined
    return {
      url, port: server.port, made,
      notes: translator.ready ? [] : [`translation has no engine yet: ${translator.reason}`],
      warm: async () => { await Promise.all([engines.warm(), shop.open.warm()]) },
      stop: () => stopping ??= (async () => {
        await server.drain(config.drainMs)
        voice.close()
        await shop.open.settled()
        await usage.settled().catch((cause: unknown) => log("error", "usage of the last moments could not be kept", { cause: String(cause) }))
        await Effect.runPromise(Scope.close(scope, Exit.void))
        await store.close()
        log("info", "stopped")
      })()
    }
  } catch (cause) {
    await Effect.runPromise(Scope.close(scope, Exit.void))
    await store.close()
    throw cause
  }
}
