/** Opens the store in this process, from its configuration; the first start creates a demo shop. Part of the
 *  composition root. */
import { createHash } from "node:crypto"
import { Context, Effect, Layer } from "effect"
import { Deliveries } from "../../../actors/webhook-delivery.ts"
import { areasOfScope, isScope } from "../../../protocols/store/access/scopes.ts"
import { demoProducts } from "../../../protocols/store/resources/all.ts"
import type { FieldCipher } from "../../../protocols/store/engine/resource.ts"
import { openStore, type OpenStore } from "../../../protocols/store/service.ts"
import { randomToken, sealer, type Sealer } from "../../../storage/seal.ts"
import { Actors } from "../../registry.ts"
import { ConfigFault } from "../config/config.ts"
import { FirstStart } from "../first-start.ts"
import { Configuration, opening, Sealing, step, Storage } from "../parts.ts"
import { Authorization } from "./authorization.ts"
import { appTokensOf } from "./store-authorization.ts"

/** The secrets of the demo shop that a first start creates; they are printed once. */
export interface DemoStore {
  readonly storeToken: string
  readonly storeUser: string
  readonly storePassword: string
}

const keyIdBytes = 4
const adminUser = "admin"

/** Makes the cipher of encrypted fields. The newest key comes first, and a sealed value begins with the id of
 *  its key, so that keys can be rotated. */
const fieldCipherOf = (configured: string | undefined, seal: Sealer): FieldCipher => {
  const keys = (configured ?? "")
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .map((part) => {
      const key = Buffer.from(part, "base64")
      if (key.length !== 32)
        throw new ConfigFault([
          "store.data_key: wants 32 bytes as base64; several, the newest first, separated by commas"
        ])
      return { id: createHash("sha256").update(key).digest().subarray(0, keyIdBytes), sealer: sealer(key) }
    })
  keys.push({ id: Buffer.alloc(keyIdBytes), sealer: seal })
  return {
    seal: (plain, address) =>
      Buffer.concat([
        keys[0]!.id,
        keys[0]!.sealer.seal(new TextEncoder().encode(plain), "store field", address)
      ]),
    open: (sealed, address) => {
      const id = Buffer.from(sealed.buffer, sealed.byteOffset, keyIdBytes)
      const key = keys.find((candidate) => candidate.id.equals(id))
      if (key === undefined) throw new Error("a field is sealed under a key that is not configured")
      return new TextDecoder().decode(key.sealer.open(sealed.subarray(keyIdBytes), "store field", address))
    }
  }
}

const demoOf = async (
  { apps, staff, engine }: OpenStore,
  subject: string | undefined
): Promise<DemoStore> => {
  await Effect.runPromise(demoProducts(engine))
  const scopes = ["catalog", "people", "orders", "custom_fields", "settings", "system", "import"]
  const { app } = await apps.create({ name: "Demo app", scopes })
  const { token } = await apps.createToken(app.appId, { scopes, label: "demo" })
  const password = randomToken().slice(0, 20)
  await staff.add({ username: adminUser, password, ...(subject === undefined ? {} : { subject }) })
  return { storeToken: token, storeUser: adminUser, storePassword: password }
}

/** Returns those scopes of the store's resource whose areas the user holds. */
const grantableBy = (
  { staff }: OpenStore,
  subject: string,
  scopes: ReadonlyArray<string>
): ReadonlyArray<string> => {
  const areas = staff.bySubject(subject)?.areas
  return areas === undefined
    ? []
    : scopes.filter((scope) => isScope(scope) && areasOfScope[scope].some((area) => areas.has(area)))
}

const opened = Effect.gen(function* () {
  const config = yield* Configuration
  const store = yield* Storage
  const actors = yield* Actors
  const seal = yield* Sealing
  const secrets = yield* FirstStart
  const authorization = yield* Authorization
  // Apps get their tokens from the authorization server; without it the store issues its own.
  const tokens =
    authorization === undefined
      ? undefined
      : yield* step("store resource", () => {
          const base =
            config.storeDomain === undefined ? authorization.issuer : `https://${config.storeDomain}`
          return appTokensOf(authorization.open, `${base}/api/v1/`)
        })
  const open = yield* opening(
    "store",
    () =>
      openStore({
        store,
        actors,
        clock: actors.nowMs,
        secrets: { hash: (text, purpose) => seal.hash(text, purpose), random: randomToken },
        cipher: fieldCipherOf(config.storeDataKey, seal),
        ...(tokens === undefined ? {} : { tokens }),
        ...(config.storeDomain === undefined ? {} : { domain: config.storeDomain }),
        hosts: config.publicBase === undefined ? [] : [new URL(config.publicBase).hostname],
        plainLoopback: config.tlsCert === undefined && secrets.isLocal,
        plan: () => config.storePlan,
        headerPrefix: config.storeHeaderPrefix,
        retryAfter: config.storeRetryAfter,
        cacheTtlMs: config.storeCacheTtlS * 1_000,
        bodyBytesMax: config.storeMaxBodyBytes,
        zone: config.storeTimeZone,
        webhooks: { privateTargets: config.storeWebhookPrivateTargets }
      }),
    async (shop) => {
      await shop.settled()
      shop.staff.close()
    }
  )
  authorization?.grantStoreBy((userId, scopes) => grantableBy(open, userId, scopes))
  actors.host(open.delivery, Context.make(Deliveries, open.webhooks))
  yield* step("store records", async () => {
    const isFirst = await open.begin()
    if (isFirst && config.storeAdminPassword !== undefined)
      await open.staff.add({ username: adminUser, password: config.storeAdminPassword })
    else if (isFirst && secrets.isLocal) secrets.keep(await demoOf(open, secrets.current?.oauthUserId))
  })
  return open
})

export class Shop extends Context.Service<Shop, OpenStore>()("program/Shop") {
  static readonly layer = Layer.effect(Shop)(opened)
}
