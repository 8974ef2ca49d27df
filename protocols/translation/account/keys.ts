/** Keys in use: from an Authorization header to its key and account. Found once in storage, then by the
 *  presented header, because this runs for every request. A change made here is seen by the next request,
 *  deactivation included. The map is found by a seeded hash of the whole header, so its timing tells nothing
 *  of a part of a key. Source: translation 1.3. */
import { committed, type Store } from "../../../storage/store.ts"
import { Accounts, KeyHashes, Keys, type Account, type HashKey, type Key } from "./records.ts"

/** One key as requests see it: the same object for every request of the key while it is in memory. */
export interface KeyInUse {
  key: Key
  readonly account: Account
  /** Requests being worked on now. */
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

  /** undefined: missing, malformed, unknown or deactivated; which of them is not told apart. */
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

  /** Oldest first. Headers go with their keys: no two objects may stand for one key. */
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

  /** All keys of an account, oldest first. */
  list(accountId: string): ReadonlyArray<Key> {
    return Keys.range(this.store, { prefix: [accountId], limit: 1_000 })
      .map(({ value }) => value)
      .sort((a, b) => a.createdMs - b.createdMs)
  }

  /** Keeps what `change` makes of a key; the requests that come meanwhile already see it. undefined: no such
   *  key. */
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

  /** At once and for good; again: unchanged. */
  deactivate(accountId: string, keyId: string, nowMs: number): Promise<Key | undefined> {
    return this.change(accountId, keyId, (key) =>
      key.deactivatedMs === null ? { ...key, deactivatedMs: nowMs } : key
    )
  }
}
