/** Client secrets: 32 random bytes, known to the client alone; kept as HMAC-SHA-256 under the pepper. Source:
 *  authorization section 2.1. */
import { createHmac } from "node:crypto"
import { equalSecrets } from "../../../storage/seal.ts"
import type { AuthContext } from "../auth-context.ts"
import type { Client } from "../records.ts"
import type { Settings } from "../settings.ts"

type Peppered = Pick<AuthContext, "settings">

/** As bytes: a key as text is read anew for each hash, which costs as much as the hash. */
const peppers = new WeakMap<Settings, Buffer>()

const pepperOf = (settings: Settings): Buffer => {
  const cached = peppers.get(settings) ?? Buffer.from(settings.clientSecretPepper)
  peppers.set(settings, cached)
  return cached
}

export const secretHashOf = ({ settings }: Peppered, secret: string): string =>
  createHmac("sha256", pepperOf(settings)).update(secret).digest("base64url")

/** Equal length of the true hashes, so that an unknown client costs what a known one does. */
const nobody = "\0".repeat(43)

/** Against the current secret and, while it is kept, the one before; `client` undefined: the same work, never
 *  true. */
export const secretMatches = (
  authority: Peppered & Pick<AuthContext, "nowMs">,
  client: Client | undefined,
  secret: string
): boolean => {
  const hash = secretHashOf(authority, secret)
  const current = equalSecrets(client?.secretHash ?? nobody, hash)
  const previous =
    equalSecrets(client?.previousHash ?? nobody, hash) && client!.previousUntilMs > authority.nowMs()
  return current || previous
}
