/** Accounts and keys as durable records. The secret of a key is returned once, at its creation; only a keyed
 *  hash of it is stored.
 *  Source: docs/spec/translation.md, sections 1.3, 15.1, 19.6. */
import { Schema } from "effect"
import { randomUUID } from "node:crypto"
import { committed, table, type Store } from "../../../storage/store.ts"

/** A limit; null means unlimited. */
const limit = Schema.NullOr(Schema.Int)

export const SpeechLimits = { characters: limit, speechToTextMs: limit, speechToSpeechMs: limit }

export const Account = Schema.Struct({
  accountId: Schema.String,
  tier: Schema.Literals(["free", "paid"]),
  /** Creation time in epoch ms. Billing periods are calendar months counted from it. */
  createdMs: Schema.Int,
  limits: Schema.Struct({ ...SpeechLimits, documents: limit, teamDocuments: limit })
})

export type Account = typeof Account.Type

export const Key = Schema.Struct({
  accountId: Schema.String,
  keyId: Schema.String,
  role: Schema.Literals(["developer", "admin"]),
  label: Schema.String,
  createdMs: Schema.Int,
  deactivatedMs: Schema.NullOr(Schema.Int),
  limits: Schema.Struct(SpeechLimits),
  /** Scopes of the key; null means unrestricted. */
  scopes: Schema.NullOr(Schema.Array(Schema.String)),
  /** The secret's first four characters, ****, and its last four. */
  masked: Schema.String
})

export type Key = typeof Key.Type

/** Accounts by [accountId]. */
export const Accounts = table("translation-accounts", Account)

/** Keys by [accountId, keyId]. */
export const Keys = table("translation-keys", Key)

/** Key ids by [keyed hash of the secret]. */
export const KeyHashes = table(
  "translation-key-hashes",
  Schema.Struct({ accountId: Schema.String, keyId: Schema.String })
)

export type HashKey = (secret: string) => string
export const labelDefault = "DeepL API Key"
const unlimited = { characters: null, speechToTextMs: null, speechToSpeechMs: null }

export interface NewAccount {
  readonly accountId?: string
  readonly tier: Account["tier"]
  readonly nowMs: number
  readonly limits?: Partial<Account["limits"]>
}

/** Creates an account. Rejects with Conflict when the id exists, and with StorageFault when the write
 *  failed. */
export const createAccount = async (
  store: Store,
  { accountId = randomUUID(), tier, nowMs, limits }: NewAccount
): Promise<Account> => {
  const account: Account = {
    accountId,
    tier,
    createdMs: nowMs,
    limits: { ...unlimited, documents: null, teamDocuments: null, ...limits }
  }
  await committed(store, [Accounts.put([accountId], account, "absent")])
  return account
}

export interface NewKey {
  readonly role?: Key["role"]
  readonly label?: string
  readonly nowMs: number
  readonly limits?: Partial<Key["limits"]>
  readonly scopes?: ReadonlyArray<string>
}

/** Suffix of a secret, from which client libraries choose the API host. */
const secretSuffix = (role: Key["role"], tier: Account["tier"]): string => {
  if (role === "admin") return ":adm"
  return tier === "free" ? ":fx" : ""
}

/** Creates a key. The returned secret is stored nowhere. */
export const createKey = async (
  store: Store,
  hashKey: HashKey,
  account: Account,
  options: NewKey
): Promise<{ readonly key: Key; readonly secret: string }> => {
  const role = options.role ?? "developer"
  const secret = `${randomUUID()}${secretSuffix(role, account.tier)}`
  const key: Key = {
    accountId: account.accountId,
    keyId: randomUUID(),
    role,
    label: options.label === undefined || options.label === "" ? labelDefault : options.label,
    createdMs: options.nowMs,
    deactivatedMs: null,
    limits: { ...unlimited, ...options.limits },
    scopes: options.scopes ?? null,
    masked: `${secret.slice(0, 4)}****${secret.slice(-4)}`
  }
  await committed(store, [
    Accounts.check([account.accountId], "present"),
    Keys.put([account.accountId, key.keyId], key, "absent"),
    KeyHashes.put([hashKey(secret)], { accountId: account.accountId, keyId: key.keyId }, "absent")
  ])
  return { key, secret }
}

/** Returns the billing period that contains `nowMs`: calendar months from the creation time, with the day
 *  limited to the length of the month (UTC). */
export const periodOf = (
  createdMs: number,
  nowMs: number
): { readonly startMs: number; readonly endMs: number } => {
  const created = new Date(createdMs)
  const now = new Date(nowMs)
  const at = (months: number): number => {
    const moved = new Date(createdMs)
    moved.setUTCDate(1)
    moved.setUTCMonth(created.getUTCMonth() + months)
    moved.setUTCDate(
      Math.min(
        created.getUTCDate(),
        new Date(Date.UTC(moved.getUTCFullYear(), moved.getUTCMonth() + 1, 0)).getUTCDate()
      )
    )
    return moved.getTime()
  }
  let months =
    (now.getUTCFullYear() - created.getUTCFullYear()) * 12 + now.getUTCMonth() - created.getUTCMonth()
  if (at(months) > nowMs) months--
  return { startMs: at(months), endMs: at(months + 1) }
}
