/** POST /oauth/register: a client registers itself, as far as the mode allows, and is durable before it
 *  receives its id. Clients that registered themselves and never received a code are removed later.
 *  Source: docs/spec/authorization.md, section 10; RFC 7591. */
import { json, type Request, type Response } from "../../../runtime/http.ts"
import type { AuthContext } from "../auth-context.ts"
import { newClient, readClientMetadata, registeredBody } from "./client-metadata.ts"
import { Fields } from "../fields.ts"
import { type Problem, problemOf, quoted } from "../problems.ts"
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
    await books.write([
      Clients.put([client.clientId], client, "absent"),
      audit.event("client.registered", {
        clientId: client.clientId,
        ip: request.client,
        traceId: request.traceId,
        detail: { method: client.authMethod, agent: String(client.agent) }
      })
    ])
    return json(201, registeredBody(client, secret), [
      ["Cache-Control", "no-store"],
      ["Pragma", "no-cache"]
    ])
  }

const examinedPerRound = 500

/** Removes unused clients, one batch of rows per call, and continues through the table at the next call. A
 *  client is unused when it registered itself, is old enough and never received a code. */
export const unusedClients = ({ settings, books, audit }: AuthContext): (() => Promise<number>) => {
  let after: string | undefined
  return async () => {
    const { unusedMs } = settings.registration
    const beforeMs = books.nowMs() - unusedMs
    if (unusedMs === 0) return 0
    const rows = Clients.range(books.store, {
      limit: examinedPerRound,
      ...(after === undefined ? {} : { after: [after] })
    })
    after = rows.length < examinedPerRound ? undefined : rows.at(-1)!.value.clientId
    const unused = rows.filter(
      ({ value }) =>
        value.source === "dcr" && !value.used && value.status === "active" && value.issuedMs < beforeMs
    )
    if (unused.length > 0)
      await books.write(
        unused.flatMap(({ key, value }) => [
          Clients.delete(key),
          audit.event("client.deleted", { clientId: value.clientId, detail: { reason: "unused" } })
        ])
      )
    return unused.length
  }
}
