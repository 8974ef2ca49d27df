/** One administrator's request on its way: what an action is given, and what it answers. An action decides;
 *  the route commits its writes, its audit event and the memory of its Idempotency-Key as one, and only then
 *  the answer leaves. Source: authorization section 16, rules 1 to 6. */
import type { Request } from "../../../runtime/http.ts"
import type { Write } from "../../../storage/store.ts"
import type { AuthContext } from "../auth-context.ts"
import { Fields } from "../fields.ts"
import { type Problem, problemOf, quoted } from "../problems.ts"
import type { BrokerGrant, Idp, Issuance, Provider, SigningKey } from "../records.ts"
import type { Form, Members } from "../wire.ts"

export interface CreatedKey {
  readonly kid: string
  readonly alg: SigningKey["algorithm"]
}

/** What the rest of the service does for its administrators. */
export interface AdminPorts {
  readonly version: string
  readonly startedMs: number
  /** Subsystem → "ok", or what is wrong with it. */
  readonly subsystems: () => Readonly<Record<string, string>>
  readonly isLive: (issuance: Issuance) => boolean
  readonly isFamilyLive: (familyId: string) => boolean | Promise<boolean>
  readonly live: {
    /** A live issuance or family. */
    ofClient(clientId: string): boolean
  }
  /** undefined: too many are waiting. */
  readonly hashPassword: (password: string) => Promise<string> | undefined
  /** `also`: writes for the transaction that makes the key. Durable when it resolves; rejects with the
   *  store's Conflict when one of them does not hold. */
  readonly rotateKey: (
    algorithm: SigningKey["algorithm"] | undefined,
    also: (created: CreatedKey) => ReadonlyArray<Write>
  ) => Promise<CreatedKey>
  readonly idpKeys: {
    /** Fetches now; how many keys can be used. Rejects when they cannot be had. */
    refresh(idp: Idp): Promise<number>
    fetchedMs(idpId: string): number | undefined
    /** The IdP changed or went. */
    forget(idpId: string): void
  }
  /** Best effort, after the grant is gone from the books: `grant` still holds the sealed credential. Also the
   *  moment to drop what is kept of it in memory. */
  readonly revokeUpstream: (grant: BrokerGrant, provider: Provider | undefined) => void
  /** Wrong keys of one source. */
  readonly adminFailures: {
    /** 0: free to try. */
    retryAfterMs(source: string): number
    count(source: string): void
  }
}

export interface AdminCall {
  readonly authority: AuthContext
  readonly ports: AdminPorts
  readonly request: Request
  /** Percent-decoded parts of the path. */
  readonly params: Readonly<Record<string, string>>
  readonly query: Form
  /** The JSON body; no members when there was none. */
  readonly members: Members
}

export interface Audited {
  readonly action: string
  readonly clientId?: string
  readonly detail?: Readonly<Record<string, string | number | undefined>>
}

export interface Answer {
  readonly status: 200 | 201 | 204
  readonly body?: Readonly<Record<string, unknown>>
  /** None: nothing changed. */
  readonly writes?: ReadonlyArray<Write>
  readonly audit?: Audited
  /** Once durable. */
  readonly after?: () => void
  /** Commits by itself, `also` with it, and answers what it became. */
  readonly perform?: (also: (answer: Answer) => ReadonlyArray<Write>) => Promise<Answer>
}

export type Outcome = Answer | Problem

/** What reads rows in order to change them runs in the turn of its commit, so that nothing comes between. An
 *  action that must wait first (a hash, a long table) gives that part back as a function. */
export type Decision = () => Outcome

export type Action = (call: AdminCall) => Outcome | Promise<Outcome | Decision>

export const ok = (body: Readonly<Record<string, unknown>>): Answer => ({ status: 200, body })
export const noContent: Answer = { status: 204 }
export const missing = (what: string): Problem => problemOf("not_found", `there is no such ${what}`)
export const conflict = (why: string): Problem => problemOf("conflict", why)
export const invalid = (why: string): Problem => problemOf("invalid_request", why)

export const fieldsOf = ({ members }: Pick<AdminCall, "members">, allowed: ReadonlyArray<string>): Fields =>
  new Fields(members, "invalid_request", allowed)

const idBytesMax = 1_800

/** What cannot be a key of the store names nothing. */
export const canBeKey = (id: string): boolean =>
  id !== "" && !id.includes("\0") && id.isWellFormed() && Buffer.byteLength(id) <= idBytesMax

export const idOf = ({ params }: AdminCall, name = "id"): string => {
  const id = params[name] ?? ""
  return canBeKey(id) ? id : ""
}

export const timeText = (ms: number): string => new Date(ms).toISOString()

export const timesOf = ({
  createdMs,
  updatedMs
}: {
  readonly createdMs: number
  readonly updatedMs: number
}) => ({ created_at: timeText(createdMs), updated_at: timeText(updatedMs) })

const unitsMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/** Go style: `90s`, `1h30m`. */
export const durationMs = (text: string): number | undefined => {
  if (text.length > 32 || !/^(?:\d+(?:ms|s|m|h))+$/.test(text)) return undefined
  let total = 0
  for (const [, count, unit] of text.matchAll(/(\d+)(ms|s|m|h)/g)) total += Number(count) * unitsMs[unit!]!
  return Number.isSafeInteger(total) ? total : undefined
}

/** RFC 3339, or a duration back from now. */
export const readTime = (call: AdminCall, name: string): number | undefined | Problem => {
  const text = call.query.get(name)
  if (text === undefined) return undefined
  const backMs = durationMs(text)
  if (backMs !== undefined) return call.authority.nowMs() - backMs
  const atMs = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)$/.test(text)
    ? Date.parse(text)
    : Number.NaN
  return Number.isNaN(atMs) ? invalid(`${name} is no RFC 3339 time: ${quoted(text)}`) : atMs
}

export const readCount = (
  call: AdminCall,
  name: string,
  min: number,
  max: number,
  initial: number
): number | Problem => {
  const text = call.query.get(name)
  if (text === undefined) return initial
  const count = /^\d{1,9}$/.test(text) ? Number(text) : -1
  return count >= min && count <= max ? count : invalid(`${name} must be an integer from ${min} to ${max}`)
}
