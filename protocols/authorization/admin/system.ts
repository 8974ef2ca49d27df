/** /admin/keys, settings, audit, auth, stats, system: the server's description of itself, without its
 *  secrets.
 *  Source: docs/spec/authorization.md, sections 15.2, 16.7 and 21. */
import type { Key } from "../../../storage/store.ts"
import { isProblem, quoted } from "../problems.ts"
import {
  AuditEvents,
  BrokerGrants,
  Clients,
  Issuances,
  SettingRows,
  SigningKeys,
  Users,
  type AuditEvent,
  type SigningKey
} from "../records.ts"
import { redirectUriFault } from "../redirect-uris.ts"
import { registrationModes, registrationRow, registrationRule } from "../client/register.ts"
import {
  fieldsOf,
  idOf,
  invalid,
  missing,
  ok,
  readCount,
  readTime,
  timeText,
  type Answer,
  type AdminCall,
  type Outcome
} from "./call.ts"
import { countOf, matching, rowsOf } from "./lists.ts"

const order: ReadonlyArray<SigningKey["status"]> = ["active", "pending", "retiring", "retired"]

export const listKeys = ({ authority }: AdminCall): Outcome =>
  ok({
    keys: Array.from(authority.books.rows(SigningKeys))
      .map(({ value }) => value)
      .sort((a, b) => order.indexOf(a.status) - order.indexOf(b.status) || b.createdMs - a.createdMs)
      .map((key) => ({
        kid: key.kid,
        alg: key.algorithm,
        use: "sig",
        status: key.status,
        created_at: timeText(key.createdMs),
        activated_at: key.activatedMs === null ? null : timeText(key.activatedMs)
      }))
  })

export const rotateKey = (call: AdminCall): Outcome => {
  const fields = fieldsOf(call, ["alg"])
  const alg = fields.choice("alg", ["ES256", "RS256"])
  if (fields.problem !== undefined) return fields.problem
  return {
    status: 200,
    perform: async (also) => {
      let answer: Answer = { status: 200 }
      await call.ports.rotateKey(alg, (created) =>
        also(
          (answer = {
            status: 200,
            body: { kid: created.kid, alg: created.alg },
            audit: { action: "key.rotated", detail: { kid: created.kid, alg: created.alg } }
          })
        )
      )
      return answer
    }
  }
}

/** Tokens of a withdrawn key stop verifying at once. An operator uses it when the key is compromised. */
export const withdrawKey = (call: AdminCall): Outcome => {
  const { problem } = fieldsOf(call, [])
  if (problem !== undefined) return problem
  return {
    status: 200,
    perform: async (also) => {
      let answer: Answer | undefined
      await call.ports.withdrawKey(idOf(call), ({ kid, successor }) =>
        also(
          (answer = {
            status: 200,
            body: { kid, status: "retired", successor: successor ?? null },
            audit: { action: "key.withdrawn", detail: { kid, successor } }
          })
        )
      )
      return answer ?? missing("signing key")
    }
  }
}

export const getRegistration = ({ authority }: AdminCall): Outcome => {
  const { mode, approvedRedirects } = registrationRule(authority)
  return ok({ mode, approved_redirects: approvedRedirects })
}

const approvedMax = 1_000

export const patchRegistration = (call: AdminCall): Outcome => {
  const before = registrationRule(call.authority)
  const fields = fieldsOf(call, ["mode", "approved_redirects"])
  const mode = fields.choice("mode", registrationModes) ?? before.mode
  const approvedRedirects =
    fields.strings("approved_redirects", { itemsMax: approvedMax }) ?? before.approvedRedirects
  for (const uri of approvedRedirects) {
    const fault = redirectUriFault(uri)
    if (fault !== undefined) fields.refuse("approved_redirects", `holds ${quoted(uri)}, which ${fault}`)
  }
  if (mode === "approved_redirects" && approvedRedirects.length === 0)
    fields.refuse("approved_redirects", "must name a URI in mode approved_redirects")
  return (
    fields.problem ?? {
      status: 200,
      body: { mode, approved_redirects: approvedRedirects },
      writes: [SettingRows.put(registrationRow, { value: { mode, approvedRedirects } })],
      audit: { action: "dcr.mode_updated", detail: { mode, before: before.mode } }
    }
  )
}

const eventView = (event: AuditEvent) => ({
  id: event.id,
  action: event.action,
  actor_id: event.actorId,
  client_id: event.clientId,
  ip: event.ip,
  detail: event.detail,
  trace_id: event.traceId,
  created_at: timeText(event.createdMs)
})

/** Ids can be ahead of the clock after it was set back, by at most this many milliseconds. Rows read because
 *  of this margin are filtered by their own time. */
const clockSlackMs = 3_600_000

/** Returns a key that sorts before every id created at `atMs`. */
const firstIdOf = (atMs: number): Key => {
  const time = Math.max(0, Math.floor(atMs)).toString(16).padStart(12, "0")
  return [`${time.slice(0, 8)}-${time.slice(8)}-7`]
}

export const listAudit = async (call: AdminCall): Promise<Outcome> => {
  const { settings, nowMs } = call.authority
  const since = readTime(call, "since")
  const until = readTime(call, "until")
  const limit = readCount(call, "limit", 1, 1_000, 100)
  const offset = readCount(call, "offset", 0, 100_000, 0)
  for (const read of [since, until, limit, offset]) if (isProblem(read)) return read
  const sinceMs = (since as number | undefined) ?? nowMs() - settings.auditLookbackMs
  const untilMs = until as number | undefined
  if (sinceMs < nowMs() - settings.auditLookbackMsMax) return invalid("since lies too far back")
  const matches = matching<AuditEvent>(call, {
    action: (row) => row.action,
    actor_id: (row) => row.actorId,
    client_id: (row) => row.clientId
  })
  const events: Array<unknown> = []
  let skip = offset as number
  for await (const { value } of rowsOf(call, AuditEvents, {
    reverse: true,
    ...(untilMs === undefined ? {} : { after: firstIdOf(untilMs + clockSlackMs) })
  })) {
    if (value.createdMs < sinceMs || events.length === limit) break
    if (!matches(value) || (untilMs !== undefined && value.createdMs > untilMs)) continue
    if (skip > 0) skip--
    else events.push(eventView(value))
  }
  return ok({ events })
}

export const verifyKey = (call: AdminCall): Outcome =>
  fieldsOf(call, []).problem ?? ok({ valid: true, version: call.ports.version })

const dayMs = 86_400_000

export const stats = async (call: AdminCall): Promise<Outcome> => {
  const dayAgoMs = call.authority.nowMs() - dayMs
  let active = 0
  let revoked = 0
  let connections = 0
  for await (const { value } of rowsOf(call, Issuances)) {
    if (value.revokedMs !== null) revoked++
    else if (value.issuedMs >= dayAgoMs && call.ports.isLive(value)) active++
  }
  for await (const { value } of rowsOf(call, BrokerGrants)) if (value.revokedMs === null) connections++
  return ok({
    clients: await countOf(call, Clients),
    users: await countOf(call, Users),
    active_tokens_24h: active,
    revoked_tokens: revoked,
    connections
  })
}

export const status = ({ authority, ports }: AdminCall): Outcome => {
  const subsystems = ports.subsystems()
  return ok({
    status: Object.values(subsystems).every((word) => word === "ok") ? "ok" : "degraded",
    version: ports.version,
    uptime_seconds: Math.floor((authority.nowMs() - ports.startedMs) / 1_000),
    started_at: timeText(ports.startedMs),
    subsystems
  })
}

const secrets = new Set(["adminApiKey", "clientSecretPepper", "secret", "clientSecret"])
const snake = (name: string): string => name.replace(/[A-Z]/g, (upper) => `_${upper.toLowerCase()}`)

/** Replaces each secret by whether it is set. */
const maskSecrets = (settings: object): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(settings).map(([name, value]: [string, unknown]) =>
      secrets.has(name)
        ? [`${snake(name)}_set`, value !== ""]
        : [
            snake(name),
            typeof value === "object" && value !== null && !Array.isArray(value) ? maskSecrets(value) : value
          ]
    )
  )

/** Shows the settings in force, including what an administrator has changed since the start. */
export const config = ({ authority }: AdminCall): Outcome =>
  ok(
    maskSecrets({
      ...authority.settings,
      registration: { ...authority.settings.registration, ...registrationRule(authority) }
    })
  )
