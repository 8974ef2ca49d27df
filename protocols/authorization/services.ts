/** What the endpoints are given beyond the authority: its keys, its limits, and the parts that talk to the outside. */
import type { KeyObject } from "node:crypto"
import type { Authority } from "./authority.ts"
import type { Families } from "./families.ts"
import type { Limits } from "./limits.ts"
import type { Passwords } from "./passwords.ts"
import type { Problem } from "./problems.ts"
import type { Client, Idp, Provider } from "./records.ts"
import type { SigningKeyRing } from "./signing-keys.ts"

export interface Upstream { readonly accessToken: string; readonly expiresMs: number | undefined }
export interface Services extends Authority {
  readonly keys: SigningKeyRing
  readonly families: Families
  readonly limits: Limits
  readonly passwords: Passwords
  readonly documents: { resolve(url: string, ip?: string): Promise<Client | Problem> }
  readonly idps: { keyFor(idp: Idp, header: Readonly<Record<string, unknown>>): Promise<KeyObject | undefined> }
  readonly vault: { upstreamToken(userId: string, provider: Provider): Promise<Upstream | Problem> }
}
