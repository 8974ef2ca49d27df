/** Apps of the console, and the admin tokens that never expire. Guarantee: a token is displayed once, stored
 *  as a hash, and refused from the next request on once revoked.
 *  Source: docs/spec/store.md, sections 3.2, 3.7. */
import { Schema } from "effect"
import { committed, table, type Store } from "../../../storage/store.ts"
import { loopbackNames } from "./loopback.ts"
import { isScope, type Scope } from "./scopes.ts"
import type { AppTokens, Secrets } from "./app-tokens.ts"
import type { FieldFault } from "../engine/fields.ts"
import { refuseFields, conflict, notFound } from "../problems.ts"
import type { JsonObject } from "../wire.ts"

const App = Schema.Struct({
  appId: Schema.String,
  name: Schema.String,
  kind: Schema.Literals(["custom", "installed"]),
  scopes: Schema.Array(Schema.String),
  redirectUris: Schema.Array(Schema.String),
  runWithoutUser: Schema.Boolean,
  allowedOrigins: Schema.Array(Schema.String),
  suspended: Schema.Boolean,
  createdMs: Schema.Finite
})

export type App = typeof App.Type

/** Apps by [app id]. */
const Apps = table("store-apps", App)

const AdminToken = Schema.Struct({
  id: Schema.Finite,
  appId: Schema.String,
  scopes: Schema.Array(Schema.String),
  label: Schema.String,
  createdMs: Schema.Finite
})

export type AdminToken = typeof AdminToken.Type

/** Admin tokens by [hash]. */
const AdminTokens = table("store-admin-tokens", AdminToken)

/** Hashes of admin tokens by [app id, id]. */
const AdminTokenHashes = table("store-admin-token-hashes", Schema.Struct({ hash: Schema.String }))

export const adminTokenPrefix = "sat_"
const appsMax = 200
const tokensMax = 200
const urisMax = 20
const textLengthMax = 2_000

const textFault = (field: string, message: string): FieldFault => ({ field, code: "invalid_value", message })

const isRedirect = (text: string): boolean => {
  if (!URL.canParse(text)) return false
  const { protocol, hostname, hash } = new URL(text)
  return hash === "" && (protocol === "https:" || (protocol === "http:" && loopbackNames.includes(hostname)))
}

const isOrigin = (text: string): boolean => URL.canParse(text) && new URL(text).origin === text

/** A member that is a list of texts. */
interface ListRule {
  readonly name: string
  readonly accepts: (text: string) => boolean
  readonly max: number
}

const scopesRule: ListRule = { name: "scopes", accepts: isScope, max: 20 }
const redirectUrisRule: ListRule = { name: "redirect_uris", accepts: isRedirect, max: urisMax }
const allowedOriginsRule: ListRule = { name: "allowed_origins", accepts: isOrigin, max: urisMax }

const listIn = (
  input: JsonObject,
  { name, accepts, max }: ListRule,
  faults: Array<FieldFault>
): ReadonlyArray<string> => {
  const value = input[name] ?? []
  const isAccepted = (part: unknown): part is string =>
    typeof part === "string" && part.length <= textLengthMax && accepts(part)
  if (Array.isArray(value) && value.length <= max && value.every(isAccepted)) return [...new Set(value)]
  faults.push(textFault(name, "is no list of acceptable values"))
  return []
}

const isName = (name: string): boolean => name.trim() !== "" && name.length <= 255 && !name.includes("\0")

const nameFault = (name: unknown): FieldFault | undefined => {
  if (typeof name !== "string") return { field: "name", code: "required", message: "is required" }
  return isName(name) ? undefined : textFault("name", "must have 1 to 255 characters")
}

type AppSettings = Omit<App, "appId" | "createdMs" | "suspended">

/** Decodes the settings of an app; throws Refusal (400). */
export const decodeApp = (input: JsonObject): AppSettings => {
  const faults: Array<FieldFault> = []
  const { name, kind = "custom", run_without_user: runWithoutUser = false } = input
  const wrongName = nameFault(name)
  if (wrongName !== undefined) faults.push(wrongName)
  if (kind !== "custom" && kind !== "installed") faults.push(textFault("kind", "must be custom or installed"))
  if (typeof runWithoutUser !== "boolean") faults.push(textFault("run_without_user", "must be true or false"))
  const scopes = listIn(input, scopesRule, faults)
  const redirectUris = listIn(input, redirectUrisRule, faults)
  const allowedOrigins = listIn(input, allowedOriginsRule, faults)
  if (faults.length > 0) throw refuseFields("invalid", faults)
  return {
    name: name as string,
    kind: kind as App["kind"],
    runWithoutUser: runWithoutUser as boolean,
    scopes,
    redirectUris,
    allowedOrigins
  }
}

interface TokenSettings {
  readonly scopes: ReadonlyArray<Scope>
  readonly label: string
}

const decodeToken = (input: JsonObject): TokenSettings => {
  const faults: Array<FieldFault> = []
  const scopes = listIn(input, scopesRule, faults) as ReadonlyArray<Scope>
  const { label = "" } = input
  if (scopes.length === 0 && faults.length === 0)
    faults.push({ field: "scopes", code: "required", message: "are required" })
  if (scopes.includes("decrypt")) faults.push(textFault("scopes", "of an admin token cannot hold decrypt"))
  if (typeof label !== "string" || label.length > 255)
    faults.push(textFault("label", "must have at most 255 characters"))
  if (faults.length > 0) throw refuseFields("invalid", faults)
  return { scopes, label: label as string }
}

const registration = ({ appId, name, redirectUris, scopes, runWithoutUser }: App) => ({
  appId,
  name,
  redirectUris,
  scopes: scopes as ReadonlyArray<Scope>,
  runWithoutUser
})

export interface AppRegistryParts {
  readonly store: Store
  readonly tokens: AppTokens
  readonly secrets: Secrets
  readonly clock: () => number
}

/** A new app, with the secret that is displayed only this once. */
export interface CreatedApp {
  readonly app: App
  readonly secret: string
}

/** A new admin token: its stored record, and the token itself, which is displayed only this once. */
export interface CreatedToken {
  readonly token: string
  readonly adminToken: AdminToken
}

export class AppRegistry {
  readonly tokens: AppTokens
  private readonly store: Store
  private readonly secrets: Secrets
  private readonly clock: () => number

  /** Called after every change, so that nothing cached outlives it. */
  onChange: () => void = () => {}

  constructor({ store, tokens, secrets, clock }: AppRegistryParts) {
    this.store = store
    this.tokens = tokens
    this.secrets = secrets
    this.clock = clock
  }

  get(appId: string): App | undefined {
    return Apps.get(this.store, [appId])
  }

  list(): ReadonlyArray<App> {
    return Apps.range(this.store, { limit: appsMax }).map(({ value }) => value)
  }

  /** Returns the app; throws Refusal (404) when there is none. */
  private existing(appId: string): App {
    const app = this.get(appId)
    if (app === undefined) throw notFound("there is no such app")
    return app
  }

  private async commit(...writes: Parameters<typeof committed>[1]): Promise<void> {
    await committed(this.store, writes)
    this.onChange()
  }

  async create(input: JsonObject): Promise<CreatedApp> {
    const decoded = decodeApp(input)
    if (this.list().length >= appsMax) throw conflict(`there are at most ${appsMax} apps`)
    const app: App = {
      ...decoded,
      appId: `app_${this.secrets.random().slice(0, 22)}`,
      suspended: false,
      createdMs: this.clock()
    }
    const { secret } = await this.tokens.register(registration(app))
    await this.commit(Apps.put([app.appId], app, "absent"))
    return { app, secret }
  }

  async change(appId: string, changes: JsonObject): Promise<App> {
    const before = this.existing(appId)
    const merged = {
      name: before.name,
      kind: before.kind,
      scopes: before.scopes,
      redirect_uris: before.redirectUris,
      run_without_user: before.runWithoutUser,
      allowed_origins: before.allowedOrigins,
      ...changes
    }
    const app: App = {
      ...before,
      ...decodeApp(merged),
      suspended: typeof changes["suspended"] === "boolean" ? changes["suspended"] : before.suspended
    }
    await this.tokens.change(registration(app))
    await this.commit(Apps.put([appId], app, "present"))
    return app
  }

  async rotate(appId: string): Promise<string> {
    this.existing(appId)
    return (await this.tokens.rotate(appId)).secret
  }

  /** Deletes the app for every check, then revokes its tokens at the authorization server. */
  async remove(appId: string): Promise<void> {
    this.existing(appId)
    await this.commit(
      Apps.delete([appId]),
      ...AdminTokenHashes.range(this.store, { prefix: [appId], limit: tokensMax }).flatMap(
        ({ key, value }) => [AdminTokenHashes.delete(key), AdminTokens.delete([value.hash])]
      )
    )
    await this.tokens.remove(appId)
  }

  private hash(token: string): string {
    return this.secrets.hash(token, "store admin token")
  }

  listTokens(appId: string): ReadonlyArray<AdminToken> {
    this.existing(appId)
    return AdminTokenHashes.range(this.store, { prefix: [appId], limit: tokensMax }).flatMap(
      ({ value }) => AdminTokens.get(this.store, [value.hash]) ?? []
    )
  }

  async createToken(appId: string, input: JsonObject): Promise<CreatedToken> {
    this.existing(appId)
    const { scopes, label } = decodeToken(input)
    if (this.listTokens(appId).length >= tokensMax) throw conflict(`an app has at most ${tokensMax} tokens`)
    const token = adminTokenPrefix + this.secrets.random()
    const hash = this.hash(token)
    const id = this.store.counter("store-admin-token-ids", []) + 1
    const adminToken: AdminToken = { id, appId, scopes, label, createdMs: this.clock() }
    await this.commit(
      { _tag: "add", table: "store-admin-token-ids", key: [], amount: 1 },
      AdminTokens.put([hash], adminToken, "absent"),
      AdminTokenHashes.put([appId, id], { hash }, "absent")
    )
    return { token, adminToken }
  }

  async revokeToken(appId: string, id: number): Promise<void> {
    this.existing(appId)
    const row = AdminTokenHashes.get(this.store, [appId, id])
    if (row === undefined) throw notFound("there is no such token")
    await this.commit(AdminTokenHashes.delete([appId, id]), AdminTokens.delete([row.hash]))
  }

  /** Finds a token by its hash, so nothing secret is compared. */
  findAdminToken(token: string): AdminToken | undefined {
    return token.startsWith(adminTokenPrefix) && token.length === 47
      ? AdminTokens.get(this.store, [this.hash(token)])
      : undefined
  }
}
