/** Composes the store: engine, access, webhooks, console and routes, over a database, an actor system and a
 *  verifier of app tokens.
 *  Source: docs/spec/store.md, section 1. */
import { Effect } from "effect"
import type { ActorSystem } from "../../runtime/registry.ts"
import type { Service } from "../../runtime/http.ts"
import type { Store } from "../../storage/store.ts"
import { webhookDelivery } from "../../actors/webhook-delivery.ts"
import { OwnAppTokens, type AppTokens, type Secrets } from "./access/app-tokens.ts"
import { AppRegistry } from "./access/apps.ts"
import { consoleRoutes } from "./console/routes.ts"
import { Engine } from "./engine/engine.ts"
import type { FieldCipher } from "./engine/resource.ts"
import { storeEndpoints } from "./calls/endpoints.ts"
import { Guard } from "./access/guard.ts"
import { loopbackNames } from "./access/loopback.ts"
import { RateLimiter, type Plan } from "./access/rate-limit.ts"
import { firstBoot, resources } from "./resources/all.ts"
import { webhooksResource } from "./resources/webhooks.ts"
import { storeService } from "./routes.ts"
import { Staff } from "./access/staff.ts"
import { Webhooks, type WebhookOptions } from "./calls/webhooks.ts"
import { Zone } from "./wire.ts"

export interface StoreOptions {
  readonly store: Store
  readonly actors: ActorSystem
  readonly clock: () => number
  readonly secrets: Secrets
  readonly cipher: FieldCipher
  /** Logs defects of the program. */
  /** The store's own opaque tokens when absent. */
  readonly tokens?: AppTokens
  /** The name of this store; when absent only loopback names are. */
  readonly domain?: string
  readonly hosts?: ReadonlyArray<string>
  readonly plainLoopback: boolean
  readonly plan?: () => Plan
  readonly headerPrefix?: string
  readonly retryAfter?: "date" | "seconds"
  readonly cacheTtlMs?: number
  readonly bodyBytesMax?: number
  readonly zone?: string
  readonly callsMax?: number
  readonly webhooks?: Partial<Pick<WebhookOptions, "privateTargets" | "waitsMs" | "lookup" | "replyMs">>
}

export interface OpenStore {
  readonly service: Service
  readonly engine: Engine
  readonly apps: AppRegistry
  readonly staff: Staff
  readonly webhooks: Webhooks
  readonly rateLimiter: RateLimiter
  readonly tokens: AppTokens
  /** The delivery actor: to be hosted with `webhooks` as its Deliveries, before `begin` is called. */
  readonly delivery: ReturnType<typeof webhookDelivery>
  /** Creates the records of a first boot; true when this was one. */
  readonly begin: () => Promise<boolean>
  readonly settled: () => Promise<void>
  /** Reads, in the background, the columns that lists of products are mostly asked by. */
  readonly warm: () => Promise<void>
}

const warmColumns = [
  "item_name",
  "item_number",
  "price",
  "product_status_id",
  "primary_category_id",
  "updated_at"
]

const bodyBytesMaxDefault = 2 * 1_048_576
const cacheTtlMsDefault = 60_000

export const openStore = (options: StoreOptions): OpenStore => {
  const { store, actors, clock, secrets, domain, headerPrefix = "X-STORE" } = options
  const privateTargets = options.webhooks?.privateTargets ?? false
  const engine = new Engine(store, [...resources, webhooksResource(privateTargets, secrets.random)], {
    zone: new Zone(options.zone ?? "UTC"),
    cipher: options.cipher,
    clock
  })
  const resource = `https://${domain ?? "localhost"}/api/v1/`
  const tokens = options.tokens ?? new OwnAppTokens({ store, secrets, clock, resource })
  const apps = new AppRegistry({ store, tokens, secrets, clock })
  const staff = new Staff(engine, secrets)
  const rateLimiter = new RateLimiter({
    store,
    actors,
    clock,
    plan: options.plan ?? (() => "gold"),
    headerPrefix,
    retryAfter: options.retryAfter ?? "date",
    callsMax: options.callsMax
  })
  const webhooks: Webhooks = new Webhooks(engine, {
    headerPrefix,
    ...options.webhooks,
    privateTargets,
    wake: (subscription) => {
      actors.ref(delivery, subscription).tell("Wake", {})
    }
  })
  const delivery = webhookDelivery(webhooks)
  engine.outbox = webhooks
  const hosts = [...(domain === undefined ? loopbackNames : [domain]), ...(options.hosts ?? [])]
  const guard = new Guard(
    { rateLimiter, apps, staff },
    { headerPrefix, hosts, plainLoopback: options.plainLoopback }
  )
  const service = storeService({
    engine,
    guard,
    endpoints: storeEndpoints(store),
    validation: webhooks.replies,
    console: consoleRoutes({ engine, guard, apps, staff, webhooks }),
    origin: domain === undefined ? undefined : `https://${domain}`,
    cacheTtlMs: options.cacheTtlMs ?? cacheTtlMsDefault,
    bodyBytesMax: options.bodyBytesMax ?? bodyBytesMaxDefault
  })
  return {
    service,
    engine,
    apps,
    staff,
    webhooks,
    rateLimiter,
    tokens,
    delivery,
    begin: async () => {
      const isFirst = await Effect.runPromise(firstBoot(engine))
      webhooks.wakeAll()
      return isFirst
    },
    settled: () => rateLimiter.settled(),
    warm: () => warm(engine)
  }
}

const warm = async (engine: Engine): Promise<void> => {
  const columns = engine.columnsOf("products")
  // On a fault either the process stops, or the first list reports it.
  await Effect.runPromise(Effect.ignoreCause(columns.ready(warmColumns) ?? Effect.void))
}
