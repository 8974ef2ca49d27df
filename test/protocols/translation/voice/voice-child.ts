/** The server that the voice crash test kills: real store, transport and voice, a scripted ear, a clock fifty
 *  times as fast. node main.mjs FOLDER; says "PORT KEY". */
import { Context } from "effect"
import { RateWindow } from "../../../../actors/rate-window.ts"
import { VoiceSession } from "../../../../actors/voice-session.ts"
import { VoiceEngines } from "../../../../actors/voice/session-types.ts"
import { KeyRing } from "../../../../protocols/translation/account/keys.ts"
import { Accounts, createAccount, createKey } from "../../../../protocols/translation/account/records.ts"
import { translation } from "../../../../protocols/translation/routes.ts"
import { Usage } from "../../../../protocols/translation/account/usage.ts"
import { Voice } from "../../../../protocols/translation/voice/voice.ts"
import { ActorSystem } from "../../../../runtime/registry.ts"
import { listenWith } from "../../../../runtime/transport/listen.ts"
import { openLmdb } from "../../../../storage/lmdb.ts"
import { randomToken, sealer } from "../../../../storage/seal.ts"
import { voiceEngines } from "./voice-world.ts"

const hash = (secret: string): string => sealer(new Uint8Array(32)).hash(secret, "test")
const store = await openLmdb({ folder: process.argv[2]! })
const clock = (): number => Date.now() * 50
const system = new ActorSystem({ store, nowMs: clock })
setInterval(() => system.tick(), 10)
const engines = voiceEngines({ hearing: { partials: true } })
system.host(RateWindow, Context.empty())
system.host(VoiceSession, Context.make(VoiceEngines, engines))
const ring = new KeyRing(store, hash)
const usage = new Usage(store, clock)

const voice = new Voice({
  store,
  actors: system,
  engines,
  usage,
  ring,
  hashToken: hash,
  newToken: randomToken,
  clock
})

const account =
  Accounts.range(store, { limit: 1 })[0]?.value ??
  (await createAccount(store, { tier: "paid", nowMs: clock() }))

const { secret } = await createKey(store, hash, account, { nowMs: clock() })

const server = await listenWith(
  "auto",
  () => {},
  [translation({ store, actors: system, engines, hashKey: hash, clock, ring, usage, voice })],
  { host: "127.0.0.1", port: 0 }
)

console.log(`${server.port} ${secret}`)
