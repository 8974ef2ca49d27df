/** The server that the memory crash test kills: real store, transport and jobs. node main.mjs FOLDER; says
 *  "PORT KEY". */
import { Context } from "effect"
import { RateWindow } from "../../../../actors/rate-window.ts"
import { Accounts, createAccount, createKey } from "../../../../protocols/translation/account/records.ts"
import { translation } from "../../../../protocols/translation/routes.ts"
import { ActorSystem } from "../../../../runtime/registry.ts"
import { listenWith } from "../../../../runtime/transport/listen.ts"
import { openLmdb } from "../../../../storage/lmdb.ts"
import { sealer } from "../../../../storage/seal.ts"
import { scripted } from "../harness.ts"

const hashKey = (secret: string): string => sealer(new Uint8Array(32)).hash(secret, "test")
const store = await openLmdb({ folder: process.argv[2]! })
const system = new ActorSystem({ store, nowMs: Date.now })
setInterval(() => system.tick(), 10)
system.host(RateWindow, Context.empty())

const account =
  Accounts.range(store, { limit: 1 })[0]?.value ??
  (await createAccount(store, { tier: "paid", nowMs: Date.now() }))

const { secret } = await createKey(store, hashKey, account, { nowMs: Date.now() })

const service = translation({
  store,
  actors: system,
  engines: scripted().engines,
  hashKey,
  clock: Date.now,
  limits: { calls: 1_000_000, windowMs: 1_000, inFlight: 64 }
})

const server = await listenWith("auto", () => {}, [service], { host: "127.0.0.1", port: 0 })
system.resume()
console.log(`${server.port} ${secret}`)
process.stdin.on("data", () => console.log(`memory ${Math.round(process.memoryUsage().rss / 1_048_576)}`))
