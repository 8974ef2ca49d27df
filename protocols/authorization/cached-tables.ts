/** The store as this service uses it: a cache of decoded rows for the small tables, writes with an expiry
 *  time and their removal, and ceilings on rows that strangers can make. Guarantee: this process is the only
 *  writer and every write of these tables passes through here, so a cached row is never stale.
 *  Source: docs/spec/authorization.md, sections 19.1 and 19.2. */
import { randomFillSync } from "node:crypto"
import type { Conflict, Key, Store, Table, Write } from "../../storage/store.ts"
import { flatText } from "../shared/flat-text.ts"
import {
  AssertionIds,
  AuditEvents,
  Clients,
  Codes,
  Consents,
  Expiries,
  Idempotency,
  Issuances,
  ProofIds,
  Prompts,
  Providers,
  Requests,
  Resources,
  Sessions,
  UsedStates,
  Users,
  type Resource
} from "./records.ts"
import { RowCeiling, type RowLimits } from "./row-ceiling.ts"

const keptTables = new Set([
  Clients.name,
  Users.name,
  Resources.name,
  Consents.name,
  Providers.name,
  Issuances.name
])

const expiringTables = new Map(
  [AssertionIds, Codes, Idempotency, ProofIds, Prompts, Requests, Sessions, UsedStates].map((table) => [
    table.name,
    table as Pick<Table<{ readonly expiresMs: number }>, "get">
  ])
)

const keptMax = 20_000
export const resourcesMax = 10_000
const sweptPerSlice = 250
const rowsPerPage = 500

/** A parent row must outlive the tokens exchanged from it; the longest token lives one day. */
const issuanceKeptMs = 8 * 86_400_000

const auditKeptMs = 90 * 86_400_000

const random = Buffer.alloc(10 * 256)
let drawn = random.length
let lastMs = 0
let sequence = 0
let timeMs = 0
let time = ""

/** Generates a UUID version 7 (RFC 9562 section 5.7). Later ids sort after earlier ones, also within one
 *  millisecond. */
export const uuid7 = (nowMs: number): string => {
  if (drawn === random.length) {
    randomFillSync(random)
    drawn = 0
  }
  if (nowMs > lastMs) {
    lastMs = nowMs
    sequence = random.readUInt16BE(drawn) & 0x7ff
  } else if (++sequence > 0xfff) {
    lastMs++
    sequence = 0
  }
  if (timeMs !== lastMs) {
    timeMs = lastMs
    const digits = lastMs.toString(16).padStart(12, "0")
    time = `${digits.slice(0, 8)}-${digits.slice(8)}-7`
  }
  const tail = random.toString("hex", drawn + 2, drawn + 10)
  drawn += 10
  return `${time}${sequence.toString(16).padStart(3, "0")}-${"89ab"[parseInt(tail[0]!, 16) & 3]}${tail.slice(1, 4)}-${tail.slice(4)}`
}

export class CachedTables {
  readonly store: Store
  readonly nowMs: () => number

  /** Rows by table. Each table has its own limit, so that none evicts the rows of another. */
  private readonly cached = new Map<string, Map<string, unknown>>()

  private resourceList: ReadonlyArray<Resource> | undefined

  /** Ceilings by table. */
  private readonly ceilings: ReadonlyMap<string, RowCeiling>

  private mustCount = true

  constructor(store: Store, nowMs: () => number, limits: Readonly<Record<string, RowLimits>> = {}) {
    this.store = store
    this.nowMs = nowMs
    this.ceilings = new Map(
      Object.entries(limits).map(([table, rowLimits]) => [table, new RowCeiling(rowLimits)])
    )
  }

  ceiling(table: Pick<Table<unknown>, "name">): RowCeiling | undefined {
    return this.ceilings.get(table.name)
  }

  /** Counts the rows of the tables that have a ceiling; called at start, and after a commit was lost. */
  countRows(): void {
    this.mustCount = false
    for (const [table, ceiling] of this.ceilings) {
      let rows = 0
      let after: Key | undefined
      do {
        const page = this.store.range(table, {
          limit: rowsPerPage,
          ...(after === undefined ? {} : { after })
        })
        rows += page.length
        after = page.length < rowsPerPage ? undefined : page.at(-1)!.key
      } while (after !== undefined)
      ceiling.begin(rows)
    }
  }

  id(): string {
    return uuid7(this.nowMs())
  }

  get<A>(table: Table<A>, key: Key): A | undefined {
    if (!keptTables.has(table.name)) return table.get(this.store, key)
    let rows = this.cached.get(table.name)
    if (rows === undefined) this.cached.set(table.name, (rows = new Map()))
    const address = addressOf(key)
    const existing = rows.get(address)
    if (existing !== undefined) return existing as A
    const row = table.get(this.store, key)
    // An absent row is not remembered: strangers would fill the cache with names that they invent.
    if (row === undefined) return undefined
    if (rows.size >= keptMax) rows.delete(rows.keys().next().value!)
    rows.set(flatText(address), row)
    return row
  }

  /** The number of rows that memory holds. */
  get cachedRows(): number {
    let rows = 0
    for (const table of this.cached.values()) rows += table.size
    return rows
  }

  /** Reads a whole table, page by page. */
  *rows<A>(table: Table<A>): Generator<{ readonly key: Key; readonly value: A }> {
    for (let after: Key | undefined; ;) {
      const page = table.range(this.store, { limit: rowsPerPage, ...(after === undefined ? {} : { after }) })
      yield* page
      if (page.length < rowsPerPage) return
      after = page.at(-1)!.key
    }
  }

  resources(): ReadonlyArray<Resource> {
    return (this.resourceList ??= Resources.range(this.store, { limit: resourcesMax }).map(
      ({ value }) => value
    ))
  }

  /** Returns the Conflict at once, or a promise that resolves when the writes are durable and rejects with
   *  StorageFault. */
  commit(writes: ReadonlyArray<Write>): Conflict | Promise<void> {
    let conflict: Conflict | undefined
    const durable = new Promise<void>((resolve, reject) => {
      conflict = this.store.commit(writes, (fault) => {
        if (fault === undefined) return resolve()
        this.forgetAll()
        reject(fault)
      })
    })
    if (conflict !== undefined) return conflict
    this.written(writes)
    return durable
  }

  /** Like `commit`, but rejects with the Conflict too. */
  write(writes: ReadonlyArray<Write>): Promise<void> {
    const outcome = this.commit(writes)
    return outcome instanceof Promise ? outcome : Promise.reject(outcome)
  }

  /** Invalidates the cached rows of writes that an actor committed with its events. */
  written(writes: ReadonlyArray<Write>): void {
    for (const write of writes) {
      if (write._tag !== "put" && write._tag !== "delete") continue
      const ceiling = this.ceilings.get(write.table)
      if (ceiling !== undefined && write._tag === "delete") ceiling.removed(addressOf(write.key))
      else if (ceiling !== undefined && write.when === "absent") ceiling.added()
      if (!keptTables.has(write.table)) continue
      this.cached.get(write.table)?.delete(addressOf(write.key))
      if (write.table === Resources.name) this.resourceList = undefined
    }
  }

  private forgetAll(): void {
    this.mustCount = true
    this.cached.clear()
    this.resourceList = undefined
  }

  /** Writes a row, and the time from which the sweeper may remove it. */
  expiring<A>(table: Table<A>, key: Key, value: A, atMs: number, when?: "absent"): ReadonlyArray<Write> {
    return [table.put(key, value, when), Expiries.put([atMs, table.name, ...key], {})]
  }

  /** Ends a row before its time, if it is still as it was read. */
  ended<A extends { readonly expiresMs: number }>(table: Table<A>, key: Key, value: A): ReadonlyArray<Write> {
    return [table.delete(key, table.unchanged(value)), Expiries.delete([value.expiresMs, table.name, ...key])]
  }

  /** Removes one slice of expired rows, and resolves to true when there may be more. */
  async sweep(): Promise<boolean> {
    if (this.mustCount) this.countRows()
    const nowMs = this.nowMs()
    const writes: Array<Write> = []
    let hasMore = this.sweepExpired(nowMs, writes)
    if (sweepOld(this.store, Issuances, nowMs - issuanceKeptMs, writes)) hasMore = true
    if (sweepOld(this.store, AuditEvents, nowMs - auditKeptMs, writes)) hasMore = true
    if (writes.length > 0) await this.write(writes)
    return hasMore
  }

  private sweepExpired(nowMs: number, writes: Array<Write>): boolean {
    const due = Expiries.range(this.store, { limit: sweptPerSlice })
    for (const { key } of due) {
      const [atMs, name, ...rest] = key as [number, string, ...Array<string | number>]
      if (atMs > nowMs) return false
      // A row that was written again since has a later expiry.
      const row = expiringTables.get(name)?.get(this.store, rest)
      if (row !== undefined && row.expiresMs <= nowMs) writes.push({ _tag: "delete", table: name, key: rest })
      writes.push(Expiries.delete(key))
    }
    return due.length === sweptPerSlice
  }
}

/** Removes rows of a table whose ids were made before `beforeMs`; returns true when there may be more. */
const sweepOld = (
  store: Store,
  { name }: Pick<Table<unknown>, "name">,
  beforeMs: number,
  writes: Array<Write>
): boolean => {
  const oldest = store.range(name, { limit: sweptPerSlice })
  for (const { key } of oldest) {
    if (timeOf(String(key[0])) > beforeMs) return false
    writes.push({ _tag: "delete", table: name, key })
  }
  return oldest.length === sweptPerSlice
}

const addressOf = (key: Key): string => (key.length === 1 ? String(key[0]) : key.join("\0"))

/** Returns the creation time of a UUIDv7 in epoch milliseconds. */
export const timeOf = (uuid: string): number => parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16)
