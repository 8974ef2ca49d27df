/** Opens translation in this process: keys, usage, customers' resources, voice, documents, and the service
 *  that uses them. A first start creates an account. Part of the composition root. */
import { Context, Effect, Layer } from "effect"
import { VoiceSession } from "../../../actors/voice-session.ts"
import { VoiceEngines } from "../../../actors/voice/session-types.ts"
import type { Engines } from "../../../actors/engines/ports.ts"
import { TranslationCache } from "../../../protocols/translation/text/cache.ts"
import type { DocumentDeps } from "../../../protocols/translation/documents/routes.ts"
import { KeyRing } from "../../../protocols/translation/account/keys.ts"
import { Accounts, createKey, Keys } from "../../../protocols/translation/account/records.ts"
import { createResources, type Resources } from "../../../protocols/translation/resources.ts"
import { translation } from "../../../protocols/translation/routes.ts"
import { testMode } from "../../../protocols/translation/test-mode/test-mode.ts"
import { Usage } from "../../../protocols/translation/account/usage.ts"
import { voiceAids } from "../../../protocols/translation/voice/customizations.ts"
import { Voice } from "../../../protocols/translation/voice/voice.ts"
import { randomToken } from "../../../storage/seal.ts"
import type { Store } from "../../../storage/store.ts"
import type { Service } from "../../http.ts"
import { Actors } from "../../registry.ts"
import { EnginePorts } from "../engines.ts"
import { FirstStart } from "../first-start.ts"
import type { Operations } from "../operations.ts"
import { Configuration, Logging, opening, Sealing, step, Storage } from "../parts.ts"
import { documentCustomizations, documentService } from "./documents.ts"
import { hashKeyOf } from "./translation-demo.ts"

export interface StartedTranslation {
  readonly service: Service
  /** Manages the API keys of the local account. */
  readonly keys: Operations["keys"]
}

/** The accounts' keys and what was used under them. What is counted behind the answers is written at the end. */
export class Accounting extends Context.Service<
  Accounting,
  { readonly ring: KeyRing; readonly usage: Usage }
>()("program/Accounting") {
  static readonly layer = Layer.effect(Accounting)(
    Effect.gen(function* () {
      const store = yield* Storage
      const seal = yield* Sealing
      const log = yield* Logging
      const { nowMs } = yield* Actors
      return yield* opening(
        "accounts",
        () => ({ ring: new KeyRing(store, hashKeyOf(seal)), usage: new Usage(store, nowMs) }),
        ({ usage }) =>
          usage
            .settled()
            .catch((cause: unknown) => log("error", "usage of the last moments could not be kept", { cause }))
      )
    })
  )
}

/** Manages the API keys of one account. */
const keysOf = (
  store: Store,
  ring: KeyRing,
  hashKey: (secret: string) => string,
  accountId: string | undefined
): Operations["keys"] => ({
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
})

export class Translation extends Context.Service<Translation, StartedTranslation>()("program/Translation") {
  static readonly layer = Layer.effect(Translation)(
    Effect.gen(function* () {
      const config = yield* Configuration
      const store = yield* Storage
      const actors = yield* Actors
      const engines = yield* EnginePorts
      const seal = yield* Sealing
      const log = yield* Logging
      const { ring, usage } = yield* Accounting
      const first = yield* FirstStart
      const hashKey = hashKeyOf(seal)
      const clock = actors.nowMs
      const publicBase = config.publicBase
      actors.host(
        VoiceSession,
        Context.make(VoiceEngines, { ...engines, customizations: voiceAids(store, engines.translator) })
      )
      const voice = yield* opening(
        "voice",
        () =>
          new Voice({
            store,
            actors,
            engines,
            usage,
            ring,
            clock,
            log,
            hashToken: (token) => seal.hash(token, "voice token"),
            newToken: randomToken,
            ...(publicBase === undefined ? {} : { publicBase })
          }),
        (opened) => opened.close()
      )
      const documents = (
        documentEngines: Engines,
        resources: Resources,
        before?: NonNullable<DocumentDeps["before"]>
      ) =>
        documentService({
          store,
          actors,
          engines: documentEngines,
          usage,
          ring,
          clock,
          log,
          ...documentCustomizations(resources),
          ...(before === undefined ? {} : { before })
        })
      const configured = async (): Promise<Service> => {
        const resources = createResources({ store, actors, engines, usage, ring, clock, hashKey, publicBase })
        return translation({
          store,
          actors,
          engines,
          hashKey,
          clock,
          ring,
          usage,
          cache: new TranslationCache(),
          resources,
          voice,
          documents: await documents(engines, resources),
          publicBase,
          limits: { calls: config.rateCalls, windowMs: config.rateWindowMs, inFlight: config.callsInFlight },
          corsOrigins: config.corsOrigins
        })
      }
      const service = yield* step("translation", async () =>
        config.testMode
          ? (await testMode({ store, actors, hashKey, clock, ring, usage, publicBase, documents })).service
          : configured()
      )
      return { service, keys: keysOf(store, ring, hashKey, first.current?.accountId) }
    })
  )
}
