/** Usage counters, exact in memory, where quotas are checked. Bookings are written in batches, one counter
 *  write per key and commit, at most `behindMs` ms after the answer; with 0 the answer waits for the commit,
 *  which cost 23 instead of 15 µs of CPU per request and the latency of a flush. Guarantee: an account or key
 *  never exceeds its limit, however many requests run concurrently. A crash loses at most the bookings of the
 *  last `behindMs`, in the client's favour.
 *  Source: docs/spec/translation.md, sections 6.1, 15.5, 19.7. */
import { documentCounts, usedCount } from "../../../actors/document-job.ts"
import type { Key as RowKey, Store, StorageFault, Write } from "../../../storage/store.ts"
import type { KeyInUse } from "./keys.ts"
import { periodOf } from "./records.ts"
import type { Refusal } from "../problems.ts"

export const units = ["translate", "document", "write", "speechToTextMs", "speechToSpeechMs"] as const
export type Unit = (typeof units)[number]

/** Groups of units that share one limit. */
export type Quota = "characters" | "speechToTextMs" | "speechToSpeechMs"

const quotaOf = (unit: Unit): Quota =>
  unit === "speechToTextMs" || unit === "speechToSpeechMs" ? unit : "characters"

export const usageTable = "translation-usage"
export const dayOf = (atMs: number): number => Math.floor(atMs / 86_400_000)

/** Keys of the durable counters. Days are counted from 1970-01-01 UTC. */
export const accountCounter = (accountId: string, startMs: number, unit: Unit): RowKey => [
  "account",
  accountId,
  startMs,
  unit
]

export const keyCounter = (accountId: string, keyId: string, startMs: number, unit: Unit): RowKey => [
  "key",
  accountId,
  keyId,
  startMs,
  unit
]

export const dayCounter = (accountId: string, keyId: string, day: number, unit: Unit): RowKey => [
  "day",
  accountId,
  day,
  keyId,
  unit
]

export const tagCounter = (accountId: string, tag: string, day: number, unit: Unit): RowKey => [
  "tag",
  accountId,
  tag,
  day,
  unit
]

/** Table of the reporting tags that an account has used; its rows have no content. */
export const tagsTable = "translation-tags"

type Counts = Record<Unit, number>

/** Usage of one account or key in one period. */
interface Meter {
  readonly startMs: number
  readonly endMs: number
  readonly used: Counts
  readonly reserved: Record<Quota, number>
  /** The batch that contains its last booking. */
  lastBatch: Batch | undefined
}

export type QuotaExceeded = Extract<Refusal, { readonly _tag: "QuotaExceeded" }>
const accountExceeded: QuotaExceeded = { _tag: "QuotaExceeded", owner: "account" }
const keyExceeded: QuotaExceeded = { _tag: "QuotaExceeded", owner: "key" }

export const usedOf = (meter: { readonly used: Readonly<Counts> }, quota: Quota): number =>
  quota === "characters" ? meter.used.translate + meter.used.document + meter.used.write : meter.used[quota]

const metersMax = 50_000
const forgetLooksMax = 100
const behindMsDefault = 250
const noBytes = new Uint8Array(0)

/** An amount reserved against the quotas until it is booked or released, once. */
export interface Reservation {
  /** Books `amount`, which is at most the reserved amount and by default all of it. With `behindMs` 0 the
   *  returned promise resolves when the booking is on disk, and rejects, with nothing counted, when the write
   *  failed. */
  book(amount?: number, tag?: string): Promise<void> | undefined
  /** Books like `book`, but returns the rows for the caller's own commit; `undo` reverts it when that commit
   *  fails. Returns undefined when the reservation has been settled before. */
  bill(tag: string | null): Bill | undefined
  release(): void
}

/** Rows of one booking. A row with `amount` null has no content. */
export interface Bill {
  readonly rows: ReadonlyArray<{
    readonly table: string
    readonly key: ReadonlyArray<string | number>
    readonly amount: number | null
  }>
  readonly undo: () => void
}

/** Bookings of one key on one day since the last commit. */
interface Tally {
  readonly accountId: string
  readonly keyId: string
  readonly startMs: number
  readonly day: number
  readonly amounts: Counts
}

interface Batch {
  committed: boolean
  readonly tallies: Map<string, Tally>
  readonly tags: Map<
    string,
    {
      readonly accountId: string
      readonly tag: string
      readonly day: number
      readonly unit: Unit
      amount: number
    }
  >
  /** Reverts the bookings whose answers wait for the commit. */
  readonly undo: Array<() => void>
  readonly settled: Promise<void>
  readonly resolve: () => void
  readonly reject: (fault: StorageFault) => void
}

export class Usage {
  private readonly store: Store
  private readonly nowMs: () => number
  private readonly accounts = new Map<string, Meter>()
  private readonly keys = new Map<string, Meter>()
  private readonly behindMs: number
  private batch: Batch | undefined = undefined
  private flushing = false

  constructor(store: Store, nowMs: () => number, behindMs = behindMsDefault) {
    this.store = store
    this.nowMs = nowMs
    this.behindMs = behindMs
  }

  /** Reads the current period of the account and of the key. */
  read(using: KeyInUse): { readonly account: Meter; readonly key: Meter } {
    const { account, key } = using
    return {
      account: this.meter(this.accounts, account.accountId, account.createdMs, (startMs, unit) =>
        accountCounter(account.accountId, startMs, unit)
      ),
      key: this.meter(this.keys, key.keyId, account.createdMs, (startMs, unit) =>
        keyCounter(key.accountId, key.keyId, startMs, unit)
      )
    }
  }

  /** Number of documents that the account has uploaded in the period. */
  documents(accountId: string, startMs: number): number {
    return this.store.counter(documentCounts, usedCount(accountId, startMs))
  }

  private meter(
    meters: Map<string, Meter>,
    id: string,
    createdMs: number,
    keyOf: (startMs: number, unit: Unit) => RowKey
  ): Meter {
    const nowMs = this.nowMs()
    const existing = meters.get(id)
    if (existing !== undefined && nowMs < existing.endMs && nowMs >= existing.startMs) return existing
    const { startMs, endMs } = periodOf(createdMs, nowMs)
    const used = {} as Counts
    for (const unit of units) used[unit] = this.store.counter(usageTable, keyOf(startMs, unit))
    const meter: Meter = {
      startMs,
      endMs,
      used,
      reserved: { characters: 0, speechToTextMs: 0, speechToSpeechMs: 0 },
      lastBatch: undefined
    }
    if (existing === undefined && meters.size >= metersMax) this.forgetOne(meters)
    meters.set(id, meter)
    return meter
  }

  /** Evicts one of the oldest meters whose counts are all on disk; it is read from there when needed
   *  again. */
  private forgetOne(meters: Map<string, Meter>): void {
    let examined = 0
    for (const [id, { reserved, lastBatch: within }] of meters) {
      if (++examined > forgetLooksMax) return
      if (
        within?.committed !== false &&
        reserved.characters + reserved.speechToTextMs + reserved.speechToSpeechMs === 0
      ) {
        meters.delete(id)
        return
      }
    }
  }

  /** Reserves the amount, or returns the quota, of the account or the key, that it would exceed. */
  reserve(using: KeyInUse, unit: Unit, amount: number): Reservation | QuotaExceeded {
    const { account, key } = this.read(using)
    const quota = quotaOf(unit)
    const accountMax = using.account.limits[quota]
    const keyMax = using.key.limits[quota]
    if (
      amount > 0 &&
      accountMax !== null &&
      usedOf(account, quota) + account.reserved[quota] + amount > accountMax
    )
      return accountExceeded
    if (amount > 0 && keyMax !== null && usedOf(key, quota) + key.reserved[quota] + amount > keyMax)
      return keyExceeded
    account.reserved[quota] += amount
    key.reserved[quota] += amount
    let open = true
    const release = (): boolean => {
      if (!open) return false
      open = false
      account.reserved[quota] -= amount
      key.reserved[quota] -= amount
      return true
    }
    return {
      release: () => {
        release()
      },
      bill: (tag) => {
        if (!release()) return undefined
        account.used[unit] += amount
        key.used[unit] += amount
        const {
          account: { accountId },
          key: { keyId }
        } = using
        const day = dayOf(this.nowMs())
        const { startMs } = key
        const counted = (key: RowKey) => ({ table: usageTable, key, amount })
        return {
          rows:
            amount === 0
              ? []
              : [
                  counted(accountCounter(accountId, startMs, unit)),
                  counted(keyCounter(accountId, keyId, startMs, unit)),
                  counted(dayCounter(accountId, keyId, day, unit)),
                  ...(tag === null
                    ? []
                    : [
                        counted(tagCounter(accountId, tag, day, unit)),
                        { table: tagsTable, key: [accountId, tag], amount: null }
                      ])
                ],
          undo: () => {
            account.used[unit] -= amount
            key.used[unit] -= amount
          }
        }
      },
      book: (booked = amount, tag) => {
        if (!release() || booked === 0) return undefined
        account.used[unit] += booked
        key.used[unit] += booked
        const batch = this.openBatch()
        const day = dayOf(this.nowMs())
        account.lastBatch = key.lastBatch = batch
        this.tally(batch, using, key.startMs, day).amounts[unit] += booked
        if (tag !== undefined) addTagUsage(batch, using.account.accountId, tag, day, unit, booked)
        if (this.behindMs > 0) return undefined
        batch.undo.push(() => {
          account.used[unit] -= booked
          key.used[unit] -= booked
        })
        return batch.settled
      }
    }
  }

  private tally(
    batch: Batch,
    { account: { accountId }, key: { keyId } }: KeyInUse,
    startMs: number,
    day: number
  ): Tally {
    const existing = batch.tallies.get(keyId)
    if (existing !== undefined && existing.day === day && existing.startMs === startMs) return existing
    const tally: Tally = {
      accountId,
      keyId,
      startMs,
      day,
      amounts: { translate: 0, document: 0, write: 0, speechToTextMs: 0, speechToSpeechMs: 0 }
    }
    // The batch still has counts of an earlier day or period.
    if (existing !== undefined) batch.tallies.set(`${keyId} ${existing.startMs} ${existing.day}`, existing)
    batch.tallies.set(keyId, tally)
    return tally
  }

  private openBatch(): Batch {
    if (this.batch !== undefined) return this.batch
    this.batch = emptyBatch()
    if (!this.flushing) this.schedule()
    return this.batch
  }

  private schedule(): void {
    if (this.behindMs === 0) setImmediate(() => this.flush())
    else setTimeout(() => this.flush(), this.behindMs).unref()
  }

  private flush(): void {
    const batch = this.batch
    if (batch === undefined || this.flushing) return
    this.batch = undefined
    this.flushing = true
    const conflict = this.store.commit(writesOf(batch), (fault) => {
      this.flushing = false
      if (fault === undefined) {
        batch.committed = true
        batch.resolve()
      } else this.rollBack(batch, fault)
      if (this.batch !== undefined) this.schedule()
    })
    if (conflict !== undefined) throw conflict // a counter cannot fall below zero by additions: our defect
  }

  /** Rejects the bookings that wait for the commit; those already answered are counted again in the next
   *  one. */
  private rollBack(batch: Batch, fault: StorageFault): void {
    for (const undo of batch.undo) undo()
    if (this.behindMs > 0) {
      const next = (this.batch ??= emptyBatch())
      for (const [name, { accountId, keyId, startMs, day, amounts }] of batch.tallies) {
        const existing = next.tallies.get(name)
        if (existing !== undefined && existing.day === day && existing.startMs === startMs)
          for (const unit of units) existing.amounts[unit] += amounts[unit]
        else
          next.tallies.set(existing === undefined ? name : `${keyId} ${startMs} ${day}`, {
            accountId,
            keyId,
            startMs,
            day,
            amounts
          })
      }
      for (const { accountId, tag, day, unit, amount } of batch.tags.values())
        addTagUsage(next, accountId, tag, day, unit, amount)
    }
    batch.reject(fault)
  }

  /** Resolves when all bookings are on disk, and rejects when a write failed. It is called at shutdown. */
  async settled(): Promise<void> {
    if (this.flushing) await this.store.flushed()
    const batch = this.batch
    if (batch !== undefined) {
      this.flush()
      await batch.settled
    }
    await this.store.flushed()
  }
}

const emptyBatch = (): Batch => {
  let resolve!: () => void
  let reject!: (fault: StorageFault) => void
  const settled = new Promise<void>((yes, no) => {
    resolve = yes
    reject = no
  })
  settled.catch(() => {}) // each booker hears it; an abandoned one must not end the process
  return { committed: false, tallies: new Map(), tags: new Map(), undo: [], settled, resolve, reject }
}

const addTagUsage = (
  { tags }: Batch,
  accountId: string,
  tag: string,
  day: number,
  unit: Unit,
  amount: number
): void => {
  const name = `${accountId} ${tag} ${day} ${unit}`
  const existing = tags.get(name)
  if (existing === undefined) tags.set(name, { accountId, tag, day, unit, amount })
  else existing.amount += amount
}

const writesOf = ({ tallies, tags }: Batch): ReadonlyArray<Write> => {
  const writes: Array<Write> = []
  const add = (key: RowKey, amount: number): void => {
    writes.push({ _tag: "add", table: usageTable, key, amount })
  }
  for (const { accountId, keyId, startMs, day, amounts } of tallies.values())
    for (const unit of units) {
      const amount = amounts[unit]
      if (amount === 0) continue
      add(accountCounter(accountId, startMs, unit), amount)
      add(keyCounter(accountId, keyId, startMs, unit), amount)
      add(dayCounter(accountId, keyId, day, unit), amount)
    }
  for (const { accountId, tag, day, unit, amount } of tags.values()) {
    add(tagCounter(accountId, tag, day, unit), amount)
    writes.push({ _tag: "put", table: tagsTable, key: [accountId, tag], value: noBytes })
  }
  return writes
}
