/** Apps of the console, and the admin tokens that never expire: made once, shown once, kept as hashes, dead
 *  at the next request once revoked. Source: store sections 3.2, 3.7. */
import { Schema } from "effect"
import { committed, table, type Store } from "../../../storage/store.ts"
import { isScope, type Scope } from "./access.ts"
import type { AppTokens, Secrets } from "./app-tokens.ts"
import type { FieldFault } from "../engine/fields.ts"
import { fieldsRefused, Refused } from "../problems.ts"

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

/** [app id] */
const Apps = table("store-apps", App)

const AdminToken = Schema.Struct({
  id: Schema.Finite,
  appId: Schema.String,
  scopes: Schema.Array(Schema.String),
  label: Schema.String,
  createdMs: Schema.Finite
})

export type AdminToken = typeof AdminToken.Type

/** [hash] */
const AdminTokens = table("store-admin-tokens", AdminToken)

/** [app id, id] */
const AdminTokenHashes = table("store-admin-token-hashes", Schema.Struct({ hash: Schema.String }))

export const adminTokenPrefix = "sat_"
const appsMax = 200
const tokensMax = 200
const urisMax = 20

const textFault = (field: string, message: string): FieldFault => ({ field, code: "invalid_value", message })

const isRedirect = (text: string): boolean => {
  if (!URL.canParse(text)) return false
  const { protocol, hostname, hash } = new URL(text)
  return (
    hash === "" &&
    (protocol === "https:" ||
      (protocol === "http:" && ["localhost", "127.0.0.1", "[::1]"].includes(hostname)))
  )
}

const isOrigin = (text: string): boolean => URL.canParse(text) && new URL(text).origin === text
type Given = Readonly<Record<string, unknown>>

const listOf = (
  given: Given,
  name: string,
  faults: Array<FieldFault>,
  fits: (text: string) => boolean,
  max: number
): ReadonlyArray<string> => {
  const value = given[name] ?? []
  if (
    Array.isArray(value) &&
    value.length <= max &&
    value.every((part): part is string => typeof part === "string" && part.length <= 2_000 && fits(part))
  )
    return [...new Set(value)]
  faults.push(textFault(name, "is no list of acceptable values"))
  return []
}

/** Throws Refused (400). */
export const decodeApp = (given: Given): Omit<App, "appId" | "createdMs" | "suspended"> => {
  const faults: Array<FieldFault> = []
  const { name, kind = "custom", run_without_user: runWithoutUser = false } = given
  if (typeof name !== "string" || name.trim() === "" || name.length > 255 || name.includes("\0"))
    faults.push(
      typeof name === "string"
        ? textFault("name", "must have 1 to 255 characters")
        : { field: "name", code: "required", message: "is required" }
    )
  if (kind !== "custom" && kind !== "installed") faults.push(textFault("kind", "must be custom or installed"))
  if (typeof runWithoutUser !== "boolean") faults.push(textFault("run_without_user", "must be true or false"))
  const scopes = listOf(given, "scopes", faults, isScope, 20)
  const redirectUris = listOf(given, "redirect_uris", faults, isRedirect, urisMax)
  const allowedOrigins = listOf(given, "allowed_origins", faults, isOrigin, urisMax)
  if (faults.length > 0) throw fieldsRefused(400, faults)
  return {
    name: name as string,
    kind: kind as App["kind"],
    runWithoutUser: runWithoutUser as boolean,
    scopes,
    redirectUris,
    allowedOrigins
  }
}

const decodeToken = (given: Given): { readonly scopes: ReadonlyArray<Scope>; readonly label: string } => {
  const faults: Array<FieldFault> = []
  const scopes = listOf(given, "scopes", faults, isScope, 20) as ReadonlyArray<Scope>
  const { label = "" } = given
  if (scopes.length === 0 && faults.length === 0)
    faults.push({ field: "scopes", code: "required", message: "are required" })
  if (scopes.includes("decrypt")) faults.push(textFault("scopes", "of an admin token cannot hold decrypt"))
  if (typeof label !== "string" || label.length > 255)
    faults.push(textFault("label", "must have at most 255 characters"))
  if (faults.length > 0) throw fieldsRefused(400, faults)
  return { scopes, label: label as string }
}

const registration = ({ appId, name, redirectUris, scopes, runWithoutUser }: App) => ({
  appId,
  name,
  redirectUris,
  scopes: scopes as ReadonlyArray<Scope>,
  runWithoutUser
})

export class AppRegistry {
  readonly tokens: AppTokens
  private readonly store: Store
  private readonly secrets: Secrets
  private readonly clock: () => number

  /** Heard after every change, so that nothing remembered outlives it. */
  changed: () => void = () => {}

  constructor(store: Store, tokens: AppTokens, secrets: Secrets, clock: () => number) {
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

  private known(appId: string): App {
    const app = this.get(appId)
    if (app === undefined) throw new Refused(404, "there is no such app")
    return app
  }

  private async keep(...writes: Parameters<typeof committed>[1]): Promise<void> {
    await committed(this.store, writes)
    this.changed()
  }

  async create(given: Given): Promise<{ readonly app: App; readonly secret: string }> {
    const decoded = decodeApp(given)
    if (this.list().length >= appsMax) throw new Refused(409, `there are at most ${appsMax} apps`)
    const app: App = {
      ...decoded,
      appId: `app_${this.secrets.random().slice(0, 22)}`,
      suspended: false,
      createdMs: this.clock()
    }
    const { secret } = await this.tokens.register(registration(app))
    await this.keep(Apps.put([app.appId], app, "absent"))
    return { app, secret }
  }

  async change(appId: string, given: Given): Promise<App> {
    const before = this.known(appId)
    const whole = {
      name: before.name,
      kind: before.kind,
      scopes: before.scopes,
      redirect_uris: before.redirectUris,
      run_without_user: before.runWithoutUser,
      allowed_origins: before.allowedOrigins,
      ...given
    }
    const app: App = {
      ...before,
      ...decodeApp(whole),
      suspended: typeof given["suspended"] === "boolean" ? given["suspended"] : before.suspended
    }
    await this.tokens.change(registration(app))
    await this.keep(Apps.put([appId], app, "present"))
    return app
  }

  async rotate(appId: string): Promise<string> {
    this.known(appId)
    return (await this.tokens.rotate(appId)).secret
  }

  /** The app is gone for every check before its tokens are revoked at the authorization server. */
  async remove(appId: string): Promise<void> {
    this.known(appId)
    await this.keep(
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
    this.known(appId)
    return AdminTokenHashes.range(this.store, { prefix: [appId], limit: tokensMax }).flatMap(
      ({ value }) => AdminTokens.get(this.store, [value.hash]) ?? []
    )
  }

  async createToken(
    appId: string,
    given: Given
  ): Promise<{ readonly token: string; readonly about: AdminToken }> {
    this.known(appId)
    const { scopes, label } = decodeToken(given)
    if (this.listTokens(appId).length >= tokensMax)
      throw new Refused(409, `an app has at most ${tokensMax} tokens`)
    const token = adminTokenPrefix + this.secrets.random()
    const hash = this.hash(token)
    const id = this.store.counter("store-admin-token-ids", []) + 1
    const about: AdminToken = { id, appId, scopes, label, createdMs: this.clock() }
    await this.keep(
      { _tag: "add", table: "store-admin-token-ids", key: [], amount: 1 },
      AdminTokens.put([hash], about, "absent"),
      AdminTokenHashes.put([appId, id], { hash }, "absent")
    )
    return { token, about }
  }

  async revokeToken(appId: string, id: number): Promise<void> {
    this.known(appId)
    const row = AdminTokenHashes.get(this.store, [appId, id])
    if (row === undefined) throw new Refused(404, "there is no such token")
    await this.keep(AdminTokenHashes.delete([appId, id]), AdminTokens.delete([row.hash]))
  }

  /** Found by hash, so nothing secret is compared. */
  findAdminToken(token: string): AdminToken | undefined {
    return token.startsWith(adminTokenPrefix) && token.length === 47
      ? AdminTokens.get(this.store, [this.hash(token)])
      : undefined
  }
}
