/** The server that the document crash test kills: real store, transport and threads, an engine that takes its
 *  time and counts what it is asked. node main.mjs FOLDER KEY-OR-"" ; says "PORT KEY". The scripted engine
 *  translates by upper case. */
import { Context, Effect } from "effect"
import { RateWindow } from "../../../../actors/rate-window.ts"
import { KeyRing } from "../../../../protocols/translation/account/keys.ts"
import { Accounts, createAccount, createKey } from "../../../../protocols/translation/account/records.ts"
import { translation } from "../../../../protocols/translation/routes.ts"
import { Usage } from "../../../../protocols/translation/account/usage.ts"
import { ActorSystem } from "../../../../runtime/registry.ts"
import { documentService } from "../../../../runtime/program/services/documents.ts"
import { listenWith } from "../../../../runtime/transport/listen.ts"
import { openLmdb } from "../../../../storage/lmdb.ts"
import { sealer } from "../../../../storage/seal.ts"
import { scripted } from "../harness.ts"

const hash = (secret: string): string => sealer(new Uint8Array(32)).hash(secret, "test")
const store = await openLmdb({ folder: process.argv[2]! })

/** The parent moves time: an hour without the key must not take an hour. */
let skewMs = 0

process.stdin.on("data", (data) => {
  skewMs += Number(String(data).trim())
})

const clock = (): number => Date.now() + skewMs
const system = new ActorSystem({ store, nowMs: clock })
setInterval(() => system.tick(), 10)
const { engines } = scripted({ change: (text) => text.toUpperCase() })

const slow = {
  ...engines,
  translator: {
    ...engines.translator,
    translate: (request: Parameters<typeof engines.translator.translate>[0]) =>
      Effect.delay(
        Effect.tap(engines.translator.translate(request), () =>
          Effect.sync(() => console.log(`batch ${request.segments.length}`))
        ),
        "20 millis"
      )
  }
}

system.host(RateWindow, Context.empty())
const ring = new KeyRing(store, hash)
const usage = new Usage(store, clock)
const documents = await documentService({ store, actors: system, engines: slow, usage, ring, clock })

const account =
  Accounts.range(store, { limit: 1 })[0]?.value ??
  (await createAccount(store, { tier: "paid", nowMs: clock() }))

const secret =
  process.argv[3] !== ""
    ? process.argv[3]!
    : (await createKey(store, hash, account, { nowMs: clock() })).secret

const server = await listenWith(
  "auto",
  () => {},
  [translation({ store, actors: system, engines: slow, hashKey: hash, clock, ring, usage, documents })],
  { host: "127.0.0.1", port: 0 }
)

system.resume()
console.log(`${server.port} ${secret}`)
