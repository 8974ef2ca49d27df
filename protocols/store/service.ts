/** The store put together: engine, ways in, webhooks, console, routes; over a store, an actor system and
 *  whoever checks apps' tokens.
 *  Source: store section 1. */
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
import { Guard, type Plan } from "./access/guard.ts"
import { firstBoot, resources } from "./resources/all.ts"
import { webhooksResource } from "./resources/webhooks.ts"
import { store as routes } from "./routes.ts"
import { Staff } from "./access/staff.ts"
import { Webhooks, type WebhookOptions } from "./calls/webhooks.ts"
import { Windows } from "./access/windows.ts"
import { Zone } from "./wire.ts"

export interface StoreOptions {
  readonly store: Store
  readonly actors: ActorSystem
  readonly clock: () => number
  readonly secrets: Secrets
  readonly vault: FieldCipher
  /** Own opaque tokens when absent. */
  readonly tokens?: AppTokens
  /** Without it only loopback names are this store. */
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
  readonly windows: Windows
  readonly tokens: AppTokens
  /** The delivery actor; host it with `webhooks` as its Deliveries, then call `begin`. */
  readonly delivery: ReturnType<typeof webhookDelivery>
  /** Makes a first boot's records; true when this was one. */
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

export const loopbackNames = ["localhost", "127.0.0.1", "[::1]"]

export const openStore = (options: StoreOptions): OpenStore => {
  const { store, actors, clock, secrets, domain, headerPrefix = "X-STORE" } = options
  const privateTargets = options.webhooks?.privateTargets ?? false
  const engine = new Engine(store, [...resources, webhooksResource(privateTargets, secrets.random)], {
    zone: new Zone(options.zone ?? "UTC"),
    vault: options.vault,
    clock
  })
  const tokens =
    options.tokens ?? new OwnAppTokens(store, secrets, clock, `https://${domain ?? "localhost"}/api/v1/`)
  const apps = new AppRegistry(store, tokens, secrets, clock)
  const staff = new Staff(engine, secrets)
  const windows = new Windows(store, actors, clock)
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
  const guard = new Guard(windows, apps, staff, {
    headerPrefix,
    plan: options.plan ?? (() => "gold"),
    hosts: [...(domain === undefined ? loopbackNames : [domain]), ...(options.hosts ?? [])],
    plainLoopback: options.plainLoopback,
    retryAfter: options.retryAfter ?? "date",
    clock,
    ...(options.callsMax === undefined ? {} : { callsMax: options.callsMax })
  })
  const service = routes({
    engine,
    guard,
    endpoints: storeEndpoints(store),
    validation: webhooks,
    console: consoleRoutes({ engine, guard, apps, staff, webhooks }),
    origin: domain === undefined ? undefined : `https://${domain}`,
    cacheTtlMs: options.cacheTtlMs ?? 60_000,
    bodyBytesMax: options.bodyBytesMax ?? 2 * 1_048_576
  })
  return {
    service,
    engine,
    apps,
    staff,
    webhooks,
    windows,
    tokens,
    delivery,
    begin: async () => {
      const first = await firstBoot(engine)
      webhooks.wakeAll()
      return first
    },
    settled: () => windows.settled(),
    warm: async () => {
      await engine
        .columnsOf("products")
        .ready(warmColumns)
        ?.catch(() => {
          /* the process stops; or else the first list tells */
        })
    }
  }
}
