/** What has been used: exact in memory, where quotas are checked, and durable before the answer leaves. All bookings of a turn, and all
 *  that come while a flush runs, go to disk as one commit, so a thousand small requests cost a handful of counter writes.
 *  Guarantee: account and key never pass their limit, whatever runs at once. Source: translation 6.1, 15.5, 19.7. */
import type { Key as RowKey, Store, StorageFault, Write } from "../../storage/store.ts"
import type { KeyInUse } from "./keys.ts"
import { periodOf } from "./records.ts"

export const units = ["translate", "document", "write", "speechToTextMs", "speechToSpeechMs"] as const
export type Unit = typeof units[number]
/** What a limit counts together. */
export type Quota = "characters" | "speechToTextMs" | "speechToSpeechMs"
const quotaOf = (unit: Unit): Quota => unit === "speechToTextMs" || unit === "speechToSpeechMs" ? unit : "characters"

export const usageTable = "translation-usage"
export const dayOf = (atMs: number): number => Math.floor(atMs / 86_400_000)
/** Counter keys. Days are counted from 1970-01-01 UTC. */
export const accountCounter = (accountId: string, startMs: number, unit: Unit): RowKey => ["account", accountId, startMs, unit]
export const keyCounter = (accountId: string, keyId: string, startMs: number, unit: Unit): RowKey => ["key", accountId, keyId, startMs, unit]
export const dayCounter = (accountId: string, keyId: string, day: number, unit: Unit): RowKey => ["day", accountId, day, keyId, unit]
export const tagCounter = (accountId: string, tag: string, day: number, unit: Unit): RowKey => ["tag", accountId, tag, day, unit]
/** Rows, without content, that say which tags an account has used. */
export const tagsTable = "translation-tags"

type Counts = Record<Unit, number>
/** One account's or key's period. */
interface Meter { readonly startMs: number; readonly endMs: number; readonly used: Counts; readonly reserved: Record<Quota, number> }
export const usedOf = (meter: { readonly used: Readonly<Counts> }, quota: Quota): number =>
  quota === "characters" ? meter.used.translate + meter.used.document + meter.used.write : meter.used[quota]

const metersMax = 50_000
const noBytes = new Uint8Array(0)

/** Set aside until it is booked or released, once. */
export interface Reservation {
  /** Books `amount` (at most what was reserved, default all of it); resolves when it is on disk, rejects when it could not be kept. */
  book(amount?: number, tag?: string): Promise<void>
  release(): void
}
interface Batch { readonly amounts: Map<string, { readonly key: RowKey; amount: number }>; readonly tags: Map<string, RowKey>
  readonly undo: Array<() => void>; readonly settled: Promise<void>; readonly resolve: () => void; readonly reject: (fault: StorageFault) => void }

export class Usage {
  private readonly store: Store
  private readonly nowMs: () => number
  private readonly accounts = new Map<string, Meter>()
  private readonly keys = new Map<string, Meter>()
  private batch: Batch | undefined = undefined
  private flushing = false

  constructor(store: Store, nowMs: () => number) {
    this.store = store
    this.nowMs = nowMs
  }

  /** The account's and the key's current period. */
  read(using: KeyInUse): { readonly account: Readonly<Meter>; readonly key: Readonly<Meter> } {
    const { account, key } = using
    return {
      account: this.meter(this.accounts, account.accountId, account.createdMs, (startMs, unit) => accountCounter(account.accountId, startMs, unit)),
      key: this.meter(this.keys, key.keyId, account.createdMs, (startMs, unit) => keyCounter(key.accountId, key.keyId, startMs, unit))
    }
  }
  private meter(meters: Map<string, Meter>, id: string, createdMs: number, keyOf: (startMs: number, unit: Unit) => RowKey): Meter {
    const nowMs = this.nowMs()
    const known = meters.get(id)
    if (known !== undefined && nowMs < known.endMs && nowMs >= known.startMs) return known
    const { startMs, endMs } = periodOf(createdMs, nowMs)
    const used = {} as Counts
    for (const unit of units) used[unit] = this.store.counter(usageTable, keyOf(startMs, unit))
    const made: Meter = { startMs, endMs, used, reserved: { characters: 0, speechToTextMs: 0, speechToSpeechMs: 0 } }
    if (known === undefined && meters.size >= metersMax) this.forgetOne(meters)
    meters.set(id, made)
    return made
  }
  /** The oldest whose numbers are all on disk: what has left memory is counted again from there. */
  private forgetOne(meters: Map<string, Meter>): void {
    if (this.batch !== undefined || this.flushing) return
    for (const [id, { reserved }] of meters) {
      if (reserved.characters + reserved.speechToTextMs + reserved.speechToSpeechMs === 0) { meters.delete(id); return }
    }
  }

  /** "account" or "key": whose quota it would pass; then nothing is set aside. */
  reserve(using: KeyInUse, unit: Unit, amount: number): Reservation | "account" | "key" {
    const { account, key } = this.read(using), quota = quotaOf(unit)
    const accountMax = using.account.limits[quota], keyMax = using.key.limits[quota]
    if (amount > 0 && accountMax !== null && usedOf(account, quota) + account.reserved[quota] + amount > accountMax) return "account"
    if (amount > 0 && keyMax !== null && usedOf(key, quota) + key.reserved[quota] + amount > keyMax) return "key"
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
      release: () => { release() },
      book: (booked = amount, tag) => {
        if (!release() || booked === 0) return Promise.resolve()
        account.used[unit] += booked
        key.used[unit] += booked
        const { accountId } = using.account, { keyId } = using.key, day = dayOf(this.nowMs())
        const batch = this.gather()
        add(batch, accountCounter(accountId, account.startMs, unit), booked)
        add(batch, keyCounter(accountId, keyId, key.startMs, unit), booked)
        add(batch, dayCounter(accountId, keyId, day, unit), booked)
        if (tag !== undefined) {
          add(batch, tagCounter(accountId, tag, day, unit), booked)
          batch.tags.set(`${accountId}\0${tag}`, [accountId, tag])
        }
        batch.undo.push(() => { account.used[unit] -= booked; key.used[unit] -= booked })
        return batch.settled
      }
    }
  }

  private gather(): Batch {
    if (this.batch !== undefined) return this.batch
    let resolve!: () => void, reject!: (fault: StorageFault) => void
    const settled = new Promise<void>((yes, no) => { resolve = yes; reject = no })
    settled.catch(() => {})                                             // each booker hears it; an abandoned one must not end the process
    this.batch = { amounts: new Map(), tags: new Map(), undo: [], settled, resolve, reject }
    if (!this.flushing) setImmediate(() => this.flush())
    return this.batch
  }
  private flush(): void {
    const batch = this.batch
    if (batch === undefined) return
    this.batch = undefined
    this.flushing = true
    const writes: Array<Write> = []
    for (const { key, amount } of batch.amounts.values()) writes.push({ op: "add", table: usageTable, key, amount })
    for (const key of batch.tags.values()) writes.push({ op: "put", table: tagsTable, key, value: noBytes })
    const conflict = this.store.commit(writes, (fault) => {
      this.flushing = false
      if (fault === undefined) batch.resolve()
      else { for (const undo of batch.undo) undo(); batch.reject(fault) }
      if (this.batch !== undefined) this.flush()
    })
    if (conflict !== undefined) throw conflict                          // a counter cannot fall below zero by additions: our defect
  }
}

const add = (batch: Batch, key: RowKey, amount: number): void => {
  const name = key.join("\0"), known = batch.amounts.get(name)
  if (known === undefined) batch.amounts.set(name, { key, amount })
  else known.amount += amount
}
