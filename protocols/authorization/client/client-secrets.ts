/** Client secrets: 32 random bytes, stored only as HMAC-SHA-256 under the pepper, so that the client alone
 *  knows them.
 *  Source: docs/spec/authorization.md, section 2.1. */
import { createHmac } from "node:crypto"
import { equalSecrets } from "../../../storage/seal.ts"
import type { AuthContext } from "../auth-context.ts"
import type { Client } from "../records.ts"
import type { Settings } from "../settings.ts"

type Peppered = Pick<AuthContext, "settings">

/** Peppers as bytes. A key passed as text is encoded again for each hash, which costs as much as the hash
 *  itself. */
const peppers = new WeakMap<Settings, Buffer>()

const pepperOf = (settings: Settings): Buffer => {
  const cached = peppers.get(settings) ?? Buffer.from(settings.clientSecretPepper)
  peppers.set(settings, cached)
  return cached
}

export const secretHashOf = ({ settings }: Peppered, secret: string): string =>
  createHmac("sha256", pepperOf(settings)).update(secret).digest("base64url")

/** A placeholder as long as a real hash, so that an unknown client costs the same time as a known one. */
const nobody = "\0".repeat(43)

/** Compares the secret with the current one and, until its expiry, with the previous one. An undefined
 *  `client` costs the same work and never matches. */
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
