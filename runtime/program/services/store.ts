/** Starts the store in this process, from its configuration; the first start creates a demo shop. Part of the
 *  composition root. */
import { createHash } from "node:crypto"
import { Context } from "effect"
import { Deliveries } from "../../../actors/webhook-delivery.ts"
import { areasOfScope, isScope } from "../../../protocols/store/access/scopes.ts"
import { demoProducts } from "../../../protocols/store/resources/all.ts"
import type { AppTokens } from "../../../protocols/store/access/app-tokens.ts"
import type { FieldCipher } from "../../../protocols/store/engine/resource.ts"
import { openStore, type OpenStore } from "../../../protocols/store/service.ts"
import { randomToken, sealer, type Sealer } from "../../../storage/seal.ts"
import type { Store } from "../../../storage/store.ts"
import { ConfigFault, type Config } from "../config/config.ts"
import type { ActorSystem } from "../../registry.ts"

/** The secrets of the demo shop that a first start creates; they are printed once. */
export interface DemoStore {
  readonly storeToken: string
  readonly storeUser: string
  readonly storePassword: string
}

export interface StartedStore {
  readonly open: OpenStore
  readonly demo: DemoStore | undefined
}

export interface StoreParts {
  readonly config: Config
  readonly store: Store
  readonly system: ActorSystem
  readonly seal: Sealer
  /** True when the server listens on a loopback address, which only this machine can reach. */
  readonly loopback: boolean
  /** Issues the tokens of apps by the authorization server; without it the store issues its own. */
  readonly tokens?: AppTokens
  /** The user of the authorization server who is the demo shop's admin. */
  readonly subject?: string | undefined
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
          "store.data_key (STORE_DATA_KEY): wants 32 bytes as base64; several, the newest first, separated by commas"
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
  await demoProducts(engine)
  const scopes = ["catalog", "people", "orders", "custom_fields", "settings", "system", "import"]
  const { app } = await apps.create({ name: "Demo app", scopes })
  const { token } = await apps.createToken(app.appId, { scopes, label: "demo" })
  const password = randomToken().slice(0, 20)
  await staff.add({ username: adminUser, password, ...(subject === undefined ? {} : { subject }) })
  return { storeToken: token, storeUser: adminUser, storePassword: password }
}

/** Returns those scopes of the store's resource whose areas the user holds. */
export const grantableBy = (
  { staff }: OpenStore,
  subject: string,
  scopes: ReadonlyArray<string>
): ReadonlyArray<string> => {
  const areas = staff.bySubject(subject)?.areas
  return areas === undefined
    ? []
    : scopes.filter((scope) => isScope(scope) && areasOfScope[scope].some((area) => areas.has(area)))
}

export const startStore = async ({
  config,
  store,
  system,
  seal,
  loopback,
  tokens,
  subject
}: StoreParts): Promise<StartedStore> => {
  const open = openStore({
    store,
    actors: system,
    clock: system.nowMs,
    secrets: { hash: (text, purpose) => seal.hash(text, purpose), random: randomToken },
    cipher: fieldCipherOf(config.storeDataKey, seal),
    ...(tokens === undefined ? {} : { tokens }),
    ...(config.storeDomain === undefined ? {} : { domain: config.storeDomain }),
    hosts: config.publicBase === undefined ? [] : [new URL(config.publicBase).hostname],
    plainLoopback: config.tlsCert === undefined && loopback,
    plan: () => config.storePlan,
    headerPrefix: config.storeHeaderPrefix,
    retryAfter: config.storeRetryAfter,
    cacheTtlMs: config.storeCacheTtlS * 1_000,
    bodyBytesMax: config.storeMaxBodyBytes,
    zone: config.storeTimeZone,
    webhooks: { privateTargets: config.storeWebhookPrivateTargets }
  })
  system.host(open.delivery, Context.make(Deliveries, open.webhooks))
  const first = await open.begin()
  if (first && config.storeAdminPassword !== undefined) {
    await open.staff.add({ username: adminUser, password: config.storeAdminPassword })
    return { open, demo: undefined }
  }
  return { open, demo: first && loopback ? await demoOf(open, subject) : undefined }
}
