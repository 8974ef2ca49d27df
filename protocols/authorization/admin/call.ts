/** One administrator's request: what an action receives and what it answers. An action only decides. The
 *  route commits its writes, its audit event and the Idempotency-Key record in one transaction, and answers
 *  after that.
 *  Source: docs/spec/authorization.md, section 16, rules 1 to 6. */
import type { Effect } from "effect"
import type { Request } from "../../../runtime/http.ts"
import type { Write } from "../../../storage/store.ts"
import type { AuthContext } from "../auth-context.ts"
import { canBeKey, Fields } from "../fields.ts"
import type { Passwords } from "../passwords.ts"
import { type Problem, problemOf, quoted } from "../problems.ts"
import type { BrokerGrant, Idp, Issuance, Provider, SigningKey } from "../records.ts"
import type { FetchFault } from "../upstream/safe-fetch.ts"
import type { Form, Members } from "../wire.ts"

export interface CreatedKey {
  readonly kid: string
  readonly alg: SigningKey["algorithm"]
}

export interface WithdrawnKey {
  readonly kid: string
  /** The key that signs instead; undefined when the withdrawn one was not the key that signs. */
  readonly successor: string | undefined
}

/** What the admin API needs from the rest of the service. */
export interface AdminPorts {
  readonly version: string
  readonly startedMs: number
  /** Maps each subsystem to "ok", or to a description of its fault. */
  readonly subsystems: () => Readonly<Record<string, string>>
  readonly isLive: (issuance: Issuance) => boolean
  readonly isFamilyLive: (familyId: string) => boolean | Promise<boolean>
  readonly live: {
    /** True when the client has a live issuance or refresh-token family. */
    ofClient(clientId: string): boolean
  }
  readonly hashPassword: Passwords["hash"]
  /** Commits the writes of `also` in the transaction that creates the key. Resolves when the key is durable,
   *  and rejects with the store's Conflict when a condition of those writes fails. */
  readonly rotateKey: (
    algorithm: SigningKey["algorithm"] | undefined,
    also: (created: CreatedKey) => ReadonlyArray<Write>
  ) => Promise<CreatedKey>
  /** Withdraws a signing key, and commits the writes of `also` in the same transaction. Resolves to undefined
   *  when there is no such key. */
  readonly withdrawKey: (
    kid: string,
    also: (withdrawn: WithdrawnKey) => ReadonlyArray<Write>
  ) => Promise<WithdrawnKey | undefined>
  readonly idpKeys: {
    /** Fetches the keys now and returns the number of usable ones. */
    refresh(idp: Idp): Effect.Effect<number, FetchFault>
    fetchedMs(idpId: string): number | undefined
    /** Drops the cached keys of an IdP that was changed or deleted. */
    forget(idpId: string): void
  }
  /** Asks the upstream to revoke the grant, without waiting for the result, and drops what memory caches of
   *  it. Called after the grant was removed from the store; `grant` still holds the sealed credential. */
  readonly revokeUpstream: (grant: BrokerGrant, provider: Provider | undefined) => void
  /** Counts wrong admin keys by source address. */
  readonly adminFailures: {
    /** Returns 0 when the source may try now. */
    retryAfterMs(source: string): number
    /** Returns whether the source is locked out now. */
    count(source: string): boolean
  }
}

export interface AdminCall {
  readonly authority: AuthContext
  readonly ports: AdminPorts
  readonly request: Request
  /** Path parameters, percent-decoded. */
  readonly params: Readonly<Record<string, string>>
  readonly query: Form
  /** Members of the JSON body; empty when the request had no body. */
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
  /** Writes to commit; absent when nothing changed. */
  readonly writes?: ReadonlyArray<Write>
  readonly audit?: Audited
  /** Runs after the writes are durable. */
  readonly after?: () => void
  /** Commits its own writes together with those of `also`, and returns the resulting answer. */
  readonly perform?: (also: (answer: Answer) => ReadonlyArray<Write>) => Promise<Answer | Problem>
}

export type Outcome = Answer | Problem

/** The part of an action that reads rows in order to change them. It runs in the same turn as the commit, so
 *  that no other request comes between. An action that must wait first (for a hash or a long table) returns
 *  this part as a function. */
export type Decision = () => Outcome

export type Action = (call: AdminCall) => Outcome | Promise<Outcome | Decision> | Waiting

/** An action that stops with its client. It ends before anything is written. */
export type Waiting = Effect.Effect<Outcome | Decision>

export const ok = (body: Readonly<Record<string, unknown>>): Answer => ({ status: 200, body })
export const noContent: Answer = { status: 204 }
export const missing = (what: string): Problem => problemOf("not_found", `there is no such ${what}`)
export const conflict = (why: string): Problem => problemOf("conflict", why)
export const invalid = (why: string): Problem => problemOf("invalid_request", why)

export const fieldsOf = ({ members }: Pick<AdminCall, "members">, allowed: ReadonlyArray<string>): Fields =>
  new Fields(members, "invalid_request", allowed)

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

/** Reads a duration in Go's notation, such as `90s` or `1h30m`, into milliseconds. */
export const durationMs = (text: string): number | undefined => {
  if (text.length > 32 || !/^(?:\d+(?:ms|s|m|h))+$/.test(text)) return undefined
  let total = 0
  for (const [, count, unit] of text.matchAll(/(\d+)(ms|s|m|h)/g)) total += Number(count) * unitsMs[unit!]!
  return Number.isSafeInteger(total) ? total : undefined
}

/** Reads an RFC 3339 time, or a duration that is subtracted from now, into epoch milliseconds. */
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
