/** The authorization server in this process: from configuration to a service; its first start makes a demo
 *  resource, client and user; the store's port to it. Part of the composition root. */
import { Context } from "effect"
import { join } from "node:path"
import { Lockout } from "../../../actors/lockout.ts"
import { RefreshFamily } from "../../../actors/refresh-family.ts"
import { secretHashOf } from "../../../protocols/authorization/client/client-secrets.ts"
import { revocationIntentsInFile } from "../../../protocols/authorization/token/pending-revocations.ts"
import { openAuthorization, type OpenAuthorization } from "../../../protocols/authorization/open.ts"
import {
  Clients,
  Resources,
  UniqueNames,
  UserEmails,
  Users,
  type Client
} from "../../../protocols/authorization/records.ts"
import type { SeedGiven } from "../../../protocols/authorization/seed.ts"
import { isLocalIssuer, settingsFaults, settingsOf } from "../../../protocols/authorization/settings.ts"
import { ownToken } from "../../../protocols/authorization/token/tokens.ts"
import { audienceName, uniqueName } from "../../../protocols/authorization/client/unique-names.ts"
import { scopes as storeScopes } from "../../../protocols/store/access/access.ts"
import type { AppRegistration, AppTokens } from "../../../protocols/store/access/app-tokens.ts"
import { randomToken, type Sealer } from "../../../storage/seal.ts"
import type { Store } from "../../../storage/store.ts"
import { ConfigFault, type Config } from "../config/config.ts"
import { authorizationSettings } from "./authorization-settings.ts"
import type { Log } from "../../kind.ts"
import type { ActorSystem } from "../../registry.ts"

/** What a first start made: shown once. */
export interface DemoAuthorization {
  readonly oauthAdminKey: string
  readonly oauthClientId: string
  readonly oauthClientSecret: string
  readonly oauthUser: string
  readonly oauthPassword: string
  readonly oauthUserId: string
}

export interface AuthorizationParts {
  readonly config: Config
  readonly store: Store
  readonly system: ActorSystem
  readonly seal: Sealer
  readonly log: Log
  readonly port: number
  /** Of an earlier start. */
  readonly known: Partial<DemoAuthorization> | undefined
  /** Secrets may be made and shown. */
  readonly loopback: boolean
  readonly grantable: NonNullable<OpenAuthorization["services"]["grantable"]>
}

export interface StartedAuthorization {
  readonly open: OpenAuthorization
  readonly issuer: string
  readonly demo: DemoAuthorization | undefined
}

export const storeSlug = "store"
const demoUser = "demo@localhost"
const demoGrants = ["client_credentials", "urn:ietf:params:oauth:grant-type:token-exchange"]

/** undefined: switched off, or not configured for an issuer that others can reach. */
export const startAuthorization = async ({
  config,
  store,
  system,
  seal,
  log,
  port,
  known,
  loopback,
  grantable
}: AuthorizationParts): Promise<StartedAuthorization | undefined> => {
  const enabled = config["authorization.enabled"]
  const configured = config["server.issuer"]
  const issuer =
    configured ??
    config.publicBase?.replace(/\/+$/, "") ??
    `${config.tlsCert === undefined ? "http" : "https"}://localhost:${port}`
  if (enabled === "off" || (enabled === "auto" && configured === undefined && !isLocalIssuer(issuer)))
    return undefined
  // Never open: where nobody is shown a key, nobody has one.
  const madeKey = known?.oauthAdminKey ?? randomToken()
  const settings = settingsOf(
    authorizationSettings(config, issuer, config["admin.api_key"] ?? (isLocalIssuer(issuer) ? madeKey : ""))
  )
  const faults = settingsFaults(settings)
  if (faults.length > 0) throw new ConfigFault(faults)
  if (settings.registration.mode === "open" && !isLocalIssuer(issuer))
    log("warn", "anyone may register clients (dcr.mode is open)")
  const rows = (
    name: "seed.resources" | "seed.clients" | "seed.users" | "seed.broker_providers" | "seed.idps"
  ) => (config[name] ?? []) as NonNullable<SeedGiven["clients"]>
  for (const definition of [RefreshFamily, Lockout] as const)
    system.host(definition as typeof RefreshFamily, Context.empty())
  const open = await openAuthorization({
    store,
    actors: system,
    seal,
    settings,
    revocationIntents: revocationIntentsInFile(join(config.data, "revocation-intents")),
    clock: system.nowMs,
    log,
    grantable,
    seed: {
      resources: rows("seed.resources"),
      clients: rows("seed.clients"),
      users: rows("seed.users"),
      brokerProviders: rows("seed.broker_providers"),
      idps: rows("seed.idps")
    }
  })
  const first = loopback && known?.oauthClientId === undefined
  return { open, issuer, demo: first ? await demoOf(open, madeKey) : undefined }
}

const newClient = (
  open: OpenAuthorization,
  clientId: string,
  secret: string,
  given: Partial<Client>
): Client => {
  const { services } = open
  const nowMs = services.nowMs()
  return {
    clientId,
    secretHash: secretHashOf(services, secret),
    previousHash: null,
    previousUntilMs: 0,
    redirectUris: [],
    clientName: clientId,
    authMethod: "client_secret_basic",
    grantTypes: [],
    responseTypes: [],
    applicationType: "web",
    scopes: [],
    agent: false,
    agentDescription: "",
    status: "active",
    source: "admin",
    documentUrl: "",
    issuedMs: nowMs,
    updatedMs: nowMs,
    used: true,
    ...given
  }
}

const demoOf = async (open: OpenAuthorization, oauthAdminKey: string): Promise<DemoAuthorization> => {
  const {
    services: { books, passwords, settings }
  } = open
  const nowMs = books.nowMs()
  const secret = randomToken()
  const password = randomToken().slice(0, 20)
  const userId = books.id()
  const client = newClient(open, books.id(), secret, {
    clientName: "Demo client",
    grantTypes: ["authorization_code", "refresh_token", ...demoGrants],
    responseTypes: ["code"],
    redirectUris: [`${settings.issuer}/connections`],
    scopes: ["demo:read", "demo:write"]
  })
  const resource = {
    id: books.id(),
    slug: "demo",
    uri: `${settings.issuer}/demo`,
    backend: "mint" as const,
    providerId: "",
    displayName: "Demo",
    exchangeClients: [],
    runtimeClients: [],
    returnUrls: [],
    scopes: ["demo:read", "demo:write"].map((name) => ({ name, description: "", upstream: [] })),
    createdMs: nowMs,
    updatedMs: nowMs
  }
  await books.write([
    Clients.put([client.clientId], client),
    Resources.put([resource.id], resource),
    UniqueNames.put(uniqueName("resource-slug", "demo"), { id: resource.id }),
    UniqueNames.put(audienceName(settings.issuer, resource), { id: resource.id }),
    Users.put([userId], {
      id: userId,
      email: demoUser,
      name: "Demo",
      role: "admin",
      passwordHash: await passwords.hash(password)!,
      federated: null,
      status: "active",
      epoch: 0,
      lastLoginMs: null,
      createdMs: nowMs,
      updatedMs: nowMs
    }),
    UserEmails.put([demoUser], { id: userId })
  ])
  return {
    oauthAdminKey,
    oauthClientId: client.clientId,
    oauthClientSecret: secret,
    oauthUser: demoUser,
    oauthPassword: password,
    oauthUserId: userId
  }
}

/** The store's apps are clients of the authorization server, its tokens are our access tokens for the store's
 *  resource. Source: store section 3.3. */
export const storeTokens = async (open: OpenAuthorization, resourceUri: string): Promise<AppTokens> => {
  const { services } = open
  const { books, proofs, settings } = services
  const slug = storeSlug
  if (!books.resources().some((resource) => resource.slug === slug)) {
    const nowMs = books.nowMs()
    const row = {
      id: books.id(),
      slug,
      uri: resourceUri,
      backend: "mint" as const,
      providerId: "",
      displayName: "Store",
      exchangeClients: [],
      runtimeClients: ["store-resource-server"],
      returnUrls: [],
      scopes: Object.entries(storeScopes).map(([name, description]) => ({ name, description, upstream: [] })),
      createdMs: nowMs,
      updatedMs: nowMs
    }
    await books.write([
      Resources.put([row.id], row),
      UniqueNames.put(uniqueName("resource-slug", slug), { id: row.id }),
      UniqueNames.put(audienceName(settings.issuer, row), { id: row.id })
    ])
  }
  const audience = books.resources().find((resource) => resource.slug === slug)!.uri
  const described = ({ name, redirectUris, scopes, runWithoutUser }: AppRegistration): Partial<Client> => ({
    clientName: name,
    redirectUris,
    scopes,
    grantTypes: ["authorization_code", "refresh_token", ...(runWithoutUser ? ["client_credentials"] : [])],
    responseTypes: ["code"]
  })
  const changed = async (appId: string, change: Partial<Client>): Promise<void> => {
    const client = books.get(Clients, [appId])
    if (client === undefined) throw new Error("the app is no client of the authorization server")
    await books.write([Clients.put([appId], { ...client, ...change, updatedMs: books.nowMs() })])
  }
  return {
    verify: (token, { method, url, proof }) => {
      const own = ownToken(services, token)
      if (own === undefined || own.claims["aud"] !== audience) return undefined
      if (own.issuance.jkt !== "" && proofs.check(proof, method, url, token) !== own.issuance.jkt)
        return undefined
      return {
        appId: own.issuance.clientId,
        subject: own.issuance.userId === "" ? undefined : own.issuance.userId,
        scopes: own.issuance.scopes
      }
    },
    register: async (app) => {
      const secret = randomToken()
      await books.write([
        Clients.put([app.appId], newClient(open, app.appId, secret, described(app)), "absent")
      ])
      return { secret }
    },
    change: (app) => changed(app.appId, described(app)),
    rotate: async (appId) => {
      const secret = randomToken()
      await changed(appId, {
        secretHash: secretHashOf(services, secret),
        previousHash: null,
        previousUntilMs: 0
      })
      return { secret }
    },
    remove: (appId) => books.write([Clients.delete([appId])])
  }
}
