/** The translation service itself: real routes, kernel, transport and store over engines that do nothing. */
import { Context, Effect } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { RateWindow } from "../../../actors/rate-window.ts"
import { VoiceSession } from "../../../actors/voice-session.ts"
import { VoiceEngines } from "../../../actors/voice/session-types.ts"
import { KeyRing } from "../../../protocols/translation/account/keys.ts"
import { createAccount, createKey } from "../../../protocols/translation/account/records.ts"
import { Usage } from "../../../protocols/translation/account/usage.ts"
import { translation } from "../../../protocols/translation/routes.ts"
import { TranslationCache } from "../../../protocols/translation/text/cache.ts"
import { Voice } from "../../../protocols/translation/voice/voice.ts"
import { Actors } from "../../../runtime/registry.ts"
import { listenWith } from "../../../runtime/transport/listen.ts"
import { openLmdb } from "../../../storage/lmdb.ts"
import { announce } from "./announce.ts"
import { stubEngines } from "./stub-engines.ts"

export interface VoiceSessions {
  readonly chunkBytes: number
  /** How many sessions to create; the token of the i-th is `t` followed by i. */
  readonly sessions: number
}

/** A session that recognizes English and translates nothing. */
const sessionConfig = {
  contentType: "audio/pcm;encoding=s16le;rate=16000",
  format: "json",
  sourceLanguage: "en",
  fixed: true,
  targets: [],
  mediaTargets: [],
  mediaType: "audio/webm",
  voice: null,
  formality: "default",
  tag: null
} as const

const hash = (text: string): string => text
const limits = { calls: 10_000_000, windowMs: 1_000, inFlight: 10_000 }

const serve = ({ chunkBytes, sessions }: VoiceSessions, folder: string) =>
  Effect.gen(function* () {
    const store = yield* Effect.promise(() => openLmdb({ folder }))
    const system = yield* Actors.make({ store })
    const engines = stubEngines(chunkBytes / 2)
    system.host(RateWindow, Context.empty())
    system.host(VoiceSession, Context.make(VoiceEngines, engines))

    const ring = new KeyRing(store, hash)
    const usage = new Usage(store, system.nowMs)
    const voice = new Voice({
      store,
      actors: system,
      engines,
      usage,
      ring,
      hashToken: hash,
      newToken: () => "",
      clock: system.nowMs
    })
    const account = yield* Effect.promise(() => createAccount(store, { tier: "paid", nowMs: Date.now() }))
    const { key, secret } = yield* Effect.promise(() =>
      createKey(store, hash, account, { nowMs: Date.now() })
    )

    const owner = { accountId: account.accountId, keyId: key.keyId }
    for (let i = 0; i < sessions; i++)
      yield* system
        .ref(VoiceSession, `session-${i}`)
        .ask("Create", { token: `t${i}`, config: { ...owner, ...sessionConfig } })

    const service = translation({
      store,
      actors: system,
      engines,
      hashKey: hash,
      clock: system.nowMs,
      ring,
      usage,
      voice,
      cache: new TranslationCache(),
      limits
    })
    const server = yield* Effect.promise(() =>
      listenWith("uws", () => {}, [service], { host: "127.0.0.1", port: 0 })
    )
    announce(server.port, secret)
    yield* Effect.never
  })

export const troupe = async (sessions: VoiceSessions): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-bench-"))
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }))
  process.on("SIGTERM", () => process.exit(0))
  await Effect.runPromise(Effect.scoped(serve(sessions, folder)))
}
