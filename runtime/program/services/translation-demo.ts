/** The demo account of a first start, with a developer key and an admin key. Part of the composition root. */
import { Accounts, createAccount, createKey } from "../../../protocols/translation/account/records.ts"
import type { Sealer } from "../../../storage/seal.ts"
import type { Store } from "../../../storage/store.ts"

export interface DemoTranslation {
  readonly accountId: string
  readonly developerKey: string
  readonly adminKey: string
}

export const hashKeyOf =
  (seal: Sealer) =>
  (secret: string): string =>
    seal.hash(secret, "translation key")

/** Creates the demo account; resolves with undefined when there are accounts already. */
export const createDemoTranslation = async (
  store: Store,
  seal: Sealer
): Promise<DemoTranslation | undefined> => {
  if (Accounts.range(store, { limit: 1 }).length > 0) return undefined
  const nowMs = Date.now()
  const account = await createAccount(store, { tier: "paid", nowMs })
  const hashKey = hashKeyOf(seal)
  const developer = await createKey(store, hashKey, account, { label: "demo", nowMs })
  const admin = await createKey(store, hashKey, account, { role: "admin", label: "demo admin", nowMs })
  return { accountId: account.accountId, developerKey: developer.secret, adminKey: admin.secret }
}
