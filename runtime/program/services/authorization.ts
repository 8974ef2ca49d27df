/** Starts the authorization server in this process, from its configuration. Part of the composition root. */
import { Context } from "effect"
import { join } from "node:path"
import { Lockout } from "../../../actors/lockout.ts"
import { RefreshFamily } from "../../../actors/refresh-family.ts"
import { openAuthorization, type OpenAuthorization } from "../../../protocols/authorization/open.ts"
import type { SeedInput } from "../../../protocols/authorization/seed.ts"
import { isLocalIssuer, settingsFaults, settingsOf } from "../../../protocols/authorization/settings.ts"
import { revocationIntentsInFile } from "../../../protocols/authorization/token/pending-revocations.ts"
import { randomToken, type Sealer } from "../../../storage/seal.ts"
import type { Store } from "../../../storage/store.ts"
import type { Log } from "../../kind.ts"
import type { ActorSystem } from "../../registry.ts"
import { ConfigFault, type Config } from "../config/config.ts"
import { createDemoAuthorization, type DemoAuthorization } from "./authorization-demo.ts"
import { authorizationSettings } from "./authorization-settings.ts"

type SeedKey = Extract<keyof Config, `seed.${string}`>

export interface AuthorizationParts {
  readonly config: Config
  readonly store: Store
  readonly system: ActorSystem
  readonly seal: Sealer
  readonly log: Log
  readonly port: number
  /** The secrets that an earlier start created and stored. */
  readonly storedSecrets: Partial<DemoAuthorization> | undefined
  /** True when this start may create demo secrets and print them. */
  readonly mayCreateDemo: boolean
  readonly grantable: NonNullable<OpenAuthorization["services"]["grantable"]>
}

export interface StartedAuthorization {
  readonly open: OpenAuthorization
  readonly issuer: string
  readonly demo: DemoAuthorization | undefined
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

/** Starts the server. Resolves with undefined when it is switched off, or not configured for an issuer that
 *  others can reach. */
export const startAuthorization = async ({
  config,
  store,
  system,
  seal,
  log,
  port,
  storedSecrets,
  mayCreateDemo,
  grantable
}: AuthorizationParts): Promise<StartedAuthorization | undefined> => {
  const issuer = issuerOf(config, port)
  if (isSwitchedOff(config, issuer)) return undefined

  // The admin API is never open: where no key is printed for anybody, nobody has one.
  const localKey = storedSecrets?.oauthAdminKey ?? randomToken()
  const adminKey = config["admin.api_key"] ?? (isLocalIssuer(issuer) ? localKey : "")
  const settings = settingsOf(authorizationSettings(config, issuer, adminKey))
  const faults = settingsFaults(settings)
  if (faults.length > 0) throw new ConfigFault(faults)
  if (settings.registration.mode === "open" && !isLocalIssuer(issuer))
    log("warn", "anyone may register clients (dcr.mode is open)")

  system.host(RefreshFamily, Context.empty())
  system.host(Lockout, Context.empty())
  const open = await openAuthorization({
    store,
    actors: system,
    seal,
    settings,
    revocationIntents: revocationIntentsInFile(join(config.data, "revocation-intents")),
    clock: system.nowMs,
    log,
    grantable,
    seed: seedOf(config)
  })

  const isFirst = mayCreateDemo && storedSecrets?.oauthClientId === undefined
  return { open, issuer, demo: isFirst ? await createDemoAuthorization(open, localKey) : undefined }
}
