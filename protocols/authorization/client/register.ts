/** POST /oauth/register: a client registers itself, as far as the mode allows, and is durable before it
 *  receives its id. Clients that registered themselves and never received a code are removed later.
 *  Source: docs/spec/authorization.md, section 10; RFC 7591. */
import { json, type Request, type Response } from "../../../runtime/http.ts"
import type { AuthContext } from "../auth-context.ts"
import { newClient, readClientMetadata, registeredBody } from "./client-metadata.ts"
import { Fields } from "../fields.ts"
import { type Problem, problemOf, quoted, unavailable } from "../problems.ts"
import { Clients, SettingRows } from "../records.ts"
import type { Settings } from "../settings.ts"
import { isWireFault, readJson } from "../wire.ts"

type Mode = Settings["registration"]["mode"]
export const registrationModes: ReadonlyArray<Mode> = ["open", "approved_redirects", "admin_only"]

export interface RegistrationRule {
  readonly mode: Mode
  readonly approvedRedirects: ReadonlyArray<string>
}

export const registrationRow = ["dcr"] as const

/** Returns the rule that an administrator set last, or else the configured one. */
export const registrationRule = ({
  books,
  settings
}: Pick<AuthContext, "books" | "settings">): RegistrationRule =>
  (SettingRows.get(books.store, registrationRow)?.value as RegistrationRule | undefined) ?? {
    mode: settings.registration.mode,
    approvedRedirects: settings.registration.approvedRedirects
  }

export interface RegisterPorts {
  /** Checks the rate limit of the source, after the mode and before the body is read. */
  readonly limited?: (request: Request) => Problem | undefined | Promise<Problem | undefined>
  /** Hears of each client that was registered. */
  readonly registered?: () => void
}

const userGrants = new Set(["authorization_code", "refresh_token"])

export const register =
  (authority: AuthContext, ports: RegisterPorts = {}) =>
  async (request: Request): Promise<Response | Problem> => {
    const { settings, books, audit } = authority
    if (registrationRule(authority).mode === "admin_only")
      return problemOf("access_denied", "clients are registered by an administrator here")
    const limited = await ports.limited?.(request)
    if (limited !== undefined) return limited
    const members = readJson(request.headers.get("content-type"), request.body)
    if (isWireFault(members)) return problemOf("invalid_request", members.detail)
    const fields = new Fields(members, "invalid_client_metadata")
    const metadata = readClientMetadata(fields, settings)
    if (fields.problem !== undefined) return fields.problem
    const { mode, approvedRedirects } = registrationRule(authority)
    if (mode === "approved_redirects") {
      const other = metadata.redirectUris.find((uri) => !approvedRedirects.includes(uri))
      if (other !== undefined)
        return problemOf(
          "invalid_redirect_uri",
          `redirect_uris holds ${quoted(other)}, which is not approved here`
        )
      if (metadata.redirectUris.length === 0)
        return problemOf("invalid_redirect_uri", "redirect_uris must name an approved URI")
    }
    const scopes = metadata.grantTypes.every((grant) => userGrants.has(grant))
      ? settings.defaultClientScope.split(" ").filter((scope) => scope !== "")
      : []
    const { client, secret } = newClient(authority, metadata, { clientId: books.id(), source: "dcr", scopes })
    const stored = books.write([
      Clients.put([client.clientId], client, "absent"),
      ...audit.strangerEvent("client.registered", {
        clientId: client.clientId,
        ip: request.client,
        traceId: request.traceId,
        detail: { method: client.authMethod, agent: String(client.agent) }
      })
    ])
    ports.registered?.()
    await stored
    return json(201, registeredBody(client, secret), [
      ["Cache-Control", "no-store"],
      ["Pragma", "no-cache"]
    ])
  }

const examinedPerSweep = 500

/** Under pressure an unused client stays for an hour, which is enough to register and sign in. */
const pressedMs = 3_600_000
const pressedAt = 0.9
const retryAfterSeconds = 60

/** Clients that registered themselves and never received a code. They leave when they are old enough, one slice
 *  of the table per sweep; their number is bounded, and it is counted on the way through the table. */
export class UnusedClients {
  private readonly authority: AuthContext
  private after: string | undefined
  private seen = 0
  private count = 0

  constructor(authority: AuthContext) {
    this.authority = authority
  }

  /** Refuses a registration while there are too many. */
  get refusal(): Problem | undefined {
    return this.count >= this.authority.settings.registration.unusedMax
      ? unavailable("too many clients have registered lately; try again later", retryAfterSeconds)
      : undefined
  }

  registered(): void {
    this.count++
  }

  /** Returns how long an unused client may stay. */
  private get retainedMs(): number {
    const { unusedMs, unusedMax } = this.authority.settings.registration
    if (unusedMs === 0) return Infinity
    return this.count >= pressedAt * unusedMax ? Math.min(unusedMs, pressedMs) : unusedMs
  }

  /** Removes the unused clients of one slice, and continues behind it at the next call. */
  async sweep(): Promise<void> {
    const { books, audit } = this.authority
    const { after } = this
    const beforeMs = books.nowMs() - this.retainedMs
    const rows = Clients.range(books.store, {
      limit: examinedPerSweep,
      ...(after === undefined ? {} : { after: [after] })
    })
    const unused = rows.filter(({ value }) => value.source === "dcr" && !value.used)
    const removable = unused.filter(({ value }) => value.status === "active" && value.issuedMs < beforeMs)
    this.seen += unused.length - removable.length
    this.after = rows.at(-1)?.value.clientId
    if (rows.length < examinedPerSweep) {
      this.count = this.seen
      this.seen = 0
      this.after = undefined
    }
    if (removable.length > 0)
      await books.write(
        removable.flatMap(({ key, value }) => [
          Clients.delete(key),
          ...audit.strangerEvent("client.deleted", { clientId: value.clientId, detail: { reason: "unused" } })
        ])
      )
  }
}
