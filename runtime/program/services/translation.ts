/** Starts translation in this process: keys, usage, customers' resources, voice, documents, and the service
 *  that uses them. A first start creates an account. Part of the composition root. */
import { Context } from "effect"
import { VoiceSession } from "../../../actors/voice-session.ts"
import { VoiceEngines } from "../../../actors/voice/session-types.ts"
import type { Engines } from "../../../actors/engines/ports.ts"
import { TranslationCache } from "../../../protocols/translation/text/cache.ts"
import type { DocumentDeps } from "../../../protocols/translation/documents/routes.ts"
import { KeyRing } from "../../../protocols/translation/account/keys.ts"
import { Accounts, createAccount, createKey, Keys } from "../../../protocols/translation/account/records.ts"
import { createResources, type Resources } from "../../../protocols/translation/resources.ts"
import { translation } from "../../../protocols/translation/routes.ts"
import { testMode } from "../../../protocols/translation/test-mode/test-mode.ts"
import { Usage } from "../../../protocols/translation/account/usage.ts"
import { voiceAids } from "../../../protocols/translation/voice/customizations.ts"
import { Voice } from "../../../protocols/translation/voice/voice.ts"
import { randomToken, type Sealer } from "../../../storage/seal.ts"
import type { Store } from "../../../storage/store.ts"
import type { Config } from "../config/config.ts"
import type { Service } from "../../http.ts"
import type { Log } from "../../kind.ts"
import type { Operations } from "../operations.ts"
import type { ActorSystem } from "../../registry.ts"
import { documentCustomizations, documentService } from "./documents.ts"

export interface TranslationParts {
  readonly config: Config
  readonly store: Store
  readonly system: ActorSystem
  readonly engines: Engines
  readonly seal: Sealer
  readonly log: Log
}

export interface DemoTranslation {
  readonly accountId: string
  readonly developerKey: string
  readonly adminKey: string
}

export interface StartedTranslation {
  readonly service: Service
  /** Manages the API keys of the local account. */
  readonly keys: (accountId: string | undefined) => Operations["keys"]
  close(): void
  settled(): Promise<void>
}

const hashKeyOf =
  (seal: Sealer) =>
  (secret: string): string =>
    seal.hash(secret, "translation key")

/** Creates the demo account; resolves with undefined when there are accounts already. */
export const createDemoTranslation = async (
  store: Store,
  seal: Sealer
): Promise<DemoTranslation | undefined> => {
  if (Accounts.range(store, { limit: 1 }).length > 0) return undefined
  const nowMs = Date.now()
  const account = await createAccount(store, { tier: "paid", nowMs })
  const hashKey = hashKeyOf(seal)
  const developer = await createKey(store, hashKey, account, { label: "demo", nowMs })
  const admin = await createKey(store, hashKey, account, { role: "admin", label: "demo admin", nowMs })
  return { accountId: account.accountId, developerKey: developer.secret, adminKey: admin.secret }
}

export const startTranslation = async ({
  config,
  store,
  system,
  engines,
  seal,
  log
}: TranslationParts): Promise<StartedTranslation> => {
  const hashKey = hashKeyOf(seal)
  const clock = system.nowMs
  const ring = new KeyRing(store, hashKey)
  const usage = new Usage(store, clock)
  const { publicBase } = config
  system.host(
    VoiceSession,
    Context.make(VoiceEngines, { ...engines, customizations: voiceAids(store, engines.translator) })
  )
  const voice = new Voice({
    store,
    actors: system,
    engines,
    usage,
    ring,
    clock,
    hashToken: (token) => seal.hash(token, "voice token"),
    newToken: randomToken,
    ...(publicBase === undefined ? {} : { publicBase })
  })
  const documentsOver = (
    documentEngines: Engines,
    documentResources: Resources,
    before?: NonNullable<DocumentDeps["before"]>
  ) =>
    documentService({
      store,
      actors: system,
      engines: documentEngines,
      usage,
      ring,
      clock,
      log,
      ...documentCustomizations(documentResources),
      ...(before === undefined ? {} : { before })
    })
  const make = async (): Promise<Service> => {
    const customerResources = createResources({
      store,
      actors: system,
      engines,
      usage,
      ring,
      clock,
      hashKey,
      publicBase
    })
    return translation({
      store,
      actors: system,
      engines,
      hashKey,
      clock,
      ring,
      usage,
      cache: new TranslationCache(),
      resources: customerResources,
      voice,
      documents: await documentsOver(engines, customerResources),
      publicBase,
      limits: { calls: config.rateCalls, windowMs: config.rateWindowMs, inFlight: config.callsInFlight },
      corsOrigins: config.corsOrigins
    })
  }
  return {
    service: config.testMode
      ? (
          await testMode({
            store,
            actors: system,
            hashKey,
            clock,
            ring,
            usage,
            publicBase,
            documents: documentsOver
          })
        ).service
      : await make(),
    keys: (accountId) => ({
      list: () => (accountId === undefined ? [] : ring.list(accountId)),
      create: async (label) => {
        const account = accountId === undefined ? undefined : Accounts.get(store, [accountId])
        if (account === undefined) throw new Error("there is no local account")
        const { key, secret } = await createKey(store, hashKey, account, {
          nowMs: Date.now(),
          ...(label === undefined ? {} : { label })
        })
        return { ...key, key: secret }
      },
      deactivate: (keyId) =>
        accountId === undefined || Keys.get(store, [accountId, keyId]) === undefined
          ? Promise.resolve(undefined)
          : ring.deactivate(accountId, keyId, Date.now())
    }),
    close: () => voice.close(),
    settled: () => usage.settled()
  }
}
