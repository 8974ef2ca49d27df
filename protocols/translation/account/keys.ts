/** Keys in use: finds the key and account of an Authorization header. A key is read from storage once and
 *  then found by the presented header, because this runs for every request. Guarantee: a change made here,
 *  deactivation included, applies to the next request. The map is indexed by a seeded hash of the whole
 *  header, so timing reveals nothing about part of a key.
 *  Source: docs/spec/translation.md, section 1.3. */
import { committed, type Store } from "../../../storage/store.ts"
import { Accounts, KeyHashes, Keys, type Account, type HashKey, type Key } from "./records.ts"

/** One key with its account. All requests of a key share one object while it is in memory. */
export interface KeyInUse {
  key: Key
  readonly account: Account
  /** Number of requests in progress. */
  inFlight: number
}

const inMemoryMax = 10_000
const scheme = /^deepl-auth-key[ \t]+(\S{1,200})[ \t]*$/i

export class KeyRing {
  private readonly store: Store
  private readonly hashKey: HashKey
  private readonly byHeader = new Map<string, KeyInUse>()
  private readonly byId = new Map<string, KeyInUse>()

  constructor(store: Store, hashKey: HashKey) {
    this.store = store
    this.hashKey = hashKey
  }

  /** Returns undefined when the header is missing or malformed, or its key unknown or deactivated; callers
   *  cannot distinguish these. */
  find(authorization: string | undefined): KeyInUse | undefined {
    if (authorization === undefined) return undefined
    const using = this.byHeader.get(authorization) ?? this.load(authorization)
    return using === undefined || using.key.deactivatedMs !== null ? undefined : using
  }

  private load(authorization: string): KeyInUse | undefined {
    const secret = scheme.exec(authorization)?.[1]
    if (secret === undefined) return undefined
    const found = KeyHashes.get(this.store, [this.hashKey(secret)])
    const using = found === undefined ? undefined : this.byKeyId(found.accountId, found.keyId)
    if (using === undefined) return undefined
    if (this.byHeader.size >= inMemoryMax) this.byHeader.delete(this.byHeader.keys().next().value!)
    this.byHeader.set(authorization, using)
    return using
  }

  byKeyId(accountId: string, keyId: string): KeyInUse | undefined {
    const existing = this.byId.get(keyId)
    if (existing !== undefined) return existing.account.accountId === accountId ? existing : undefined
    const key = Keys.get(this.store, [accountId, keyId])
    const account = Accounts.get(this.store, [accountId])
    if (key === undefined || account === undefined) return undefined
    if (this.byId.size >= inMemoryMax) this.forgetIdle()
    const using: KeyInUse = { key, account, inFlight: 0 }
    this.byId.set(keyId, using)
    return using
  }

  /** Evicts idle keys, oldest first. A key's headers are evicted with it, because two objects for one key
   *  would count separately. */
  private forgetIdle(): void {
    const leaving = new Set<KeyInUse>()
    for (const [keyId, using] of this.byId) {
      if (leaving.size >= inMemoryMax / 10) break
      if (using.inFlight === 0) {
        this.byId.delete(keyId)
        leaving.add(using)
      }
    }
    for (const [header, using] of this.byHeader) if (leaving.has(using)) this.byHeader.delete(header)
  }

  /** Lists all keys of an account, oldest first. */
  list(accountId: string): ReadonlyArray<Key> {
    return Keys.range(this.store, { prefix: [accountId], limit: 1_000 })
      .map(({ value }) => value)
      .sort((a, b) => a.createdMs - b.createdMs)
  }

  /** Stores the key that `change` returns; concurrent requests already see the new one. Resolves with
   *  undefined when there is no such key. */
  async change(accountId: string, keyId: string, change: (key: Key) => Key): Promise<Key | undefined> {
    const using = this.byKeyId(accountId, keyId)
    if (using === undefined) return undefined
    const before = using.key
    const after = change(before)
    if (after === before) return before
    using.key = after
    try {
      await committed(this.store, [Keys.put([accountId, keyId], after, "present")])
    } catch (fault) {
      if (using.key === after) using.key = before
      throw fault
    }
    return after
  }

  /** Deactivates a key immediately and permanently. Repeating the call changes nothing. */
  deactivate(accountId: string, keyId: string, nowMs: number): Promise<Key | undefined> {
    return this.change(accountId, keyId, (key) =>
      key.deactivatedMs === null ? { ...key, deactivatedMs: nowMs } : key
    )
  }
}
