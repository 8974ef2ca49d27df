/** Opens the authorization server in this process, from its configuration. Part of the composition root. */
import { Context, Effect, Layer } from "effect"
import { join } from "node:path"
import { lockoutFor } from "../../../actors/lockout.ts"
import { RefreshFamily } from "../../../actors/refresh-family.ts"
import { openAuthorization, type OpenAuthorization } from "../../../protocols/authorization/open.ts"
import type { SeedInput } from "../../../protocols/authorization/seed.ts"
import {
  isLocalIssuer,
  settingsFaults,
  settingsOf,
  type Settings
} from "../../../protocols/authorization/settings.ts"
import { revocationIntentsInFile } from "../../../protocols/authorization/token/pending-revocations.ts"
import { randomToken } from "../../../storage/seal.ts"
import { Actors } from "../../registry.ts"
import { Telemetry } from "../telemetry/telemetry.ts"
import { ConfigFault, type Config } from "../config/config.ts"
import { FirstStart } from "../first-start.ts"
import { Configuration, Logging, opening, Sealing, step, Storage } from "../parts.ts"
import { Port } from "../port.ts"
import { createDemoAuthorization } from "./authorization-demo.ts"
import { authorizationSettings } from "./authorization-settings.ts"
import { storeSlug } from "./store-authorization.ts"

type Scopes = ReadonlyArray<string>
type SeedKey = Extract<keyof Config, `seed.${string}`>

export interface StartedAuthorization {
  readonly open: OpenAuthorization
  readonly issuer: string
  /** Sets who says which scopes of the store a user may grant. Until then nobody may grant any. */
  readonly grantStoreBy: (grantable: (userId: string, scopes: Scopes) => Scopes) => void
}

const issuerOf = (config: Config, port: number): string => {
  const scheme = config.tlsCert === undefined ? "http" : "https"
  return config["server.issuer"] ?? config.publicBase?.replace(/\/+$/, "") ?? `${scheme}://localhost:${port}`
}

const isSwitchedOff = (config: Config, issuer: string): boolean => {
  const enabled = config["authorization.enabled"]
  if (enabled === "auto") return config["server.issuer"] === undefined && !isLocalIssuer(issuer)
  return enabled === "off"
}

/** Reads the seed from the configuration: bodies of the admin API, which the seed validates itself. */
const seedOf = (config: Config): SeedInput => {
  const rows = (name: SeedKey) => (config[name] ?? []) as NonNullable<SeedInput["clients"]>
  return {
    resources: rows("seed.resources"),
    clients: rows("seed.clients"),
    users: rows("seed.users"),
    brokerProviders: rows("seed.broker_providers"),
    idps: rows("seed.idps")
  }
}

/** Reads the settings; throws a ConfigFault, which names every fault. */
const checkedSettings = (config: Config, issuer: string, localKey: string): Settings => {
  // The admin API is never open: where no key is printed for anybody, nobody has one.
  const adminKey = config["admin.api_key"] ?? (isLocalIssuer(issuer) ? localKey : "")
  const settings = settingsOf(authorizationSettings(config, issuer, adminKey))
  const faults = settingsFaults(settings)
  if (faults.length > 0) throw new ConfigFault(faults)
  return settings
}

const opened = Effect.gen(function* () {
  const config = yield* Configuration
  const store = yield* Storage
  const actors = yield* Actors
  const seal = yield* Sealing
  const log = yield* Logging
  const { metrics } = yield* Telemetry
  const secrets = yield* FirstStart
  const { port } = yield* Port
  const issuer = issuerOf(config, port)
  if (isSwitchedOff(config, issuer)) return undefined

  const localKey = secrets.current?.oauthAdminKey ?? randomToken()
  let storeGrantable = (_userId: string, _scopes: Scopes): Scopes => []
  const open = yield* opening(
    "authorization",
    () => {
      const settings = checkedSettings(config, issuer, localKey)
      actors.host(RefreshFamily, Context.empty())
      const { failureWindowMs: windowMs, lockMs } = settings.rate
      actors.host(lockoutFor({ windowMs, lockMs }), Context.empty())
      return openAuthorization({
        store,
        actors,
        seal,
        settings,
        revocationIntents: revocationIntentsInFile(join(config.data, "revocation-intents")),
        clock: actors.nowMs,
        log,
        metrics,
        grantable: (resource, userId, scopes) =>
          resource === storeSlug ? storeGrantable(userId, scopes) : scopes,
        seed: seedOf(config)
      })
    },
    (server) => server.close()
  )
  const { current } = secrets
  if (secrets.isLocal && current !== undefined && current.oauthClientId === undefined)
    yield* step("authorization demo", async () => secrets.keep(await createDemoAuthorization(open, localKey)))
  const grantStoreBy: StartedAuthorization["grantStoreBy"] = (grantable) => {
    storeGrantable = grantable
  }
  return { open, issuer, grantStoreBy }
})

/** Undefined when the server is switched off, or not configured for an issuer that others can reach. */
export class Authorization extends Context.Service<Authorization, StartedAuthorization | undefined>()(
  "program/Authorization"
) {
  static readonly layer = Layer.effect(Authorization)(opened)
}
