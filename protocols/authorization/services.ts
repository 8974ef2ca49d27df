/** What the endpoints are given beyond the authority: its keys, its limits, and the parts that talk to the
 *  outside. */
import type { KeyObject } from "node:crypto"
import type { Authority } from "./authority.ts"
import type { Proofs } from "./token/dpop.ts"
import type { Families } from "./token/families.ts"
import type { Limits } from "./limits.ts"
import type { Passwords } from "./passwords.ts"
import type { Problem } from "./problems.ts"
import type { Client, Idp } from "./records.ts"
import type { SigningKeyRing } from "./token/signing-keys.ts"
import type { Vault } from "./upstream/vault.ts"

export interface Services extends Authority {
  readonly keys: SigningKeyRing
  readonly families: Families
  readonly limits: Limits
  readonly proofs: Proofs
  readonly passwords: Passwords
  readonly documents: { resolve(url: string, ip?: string): Promise<Client | Problem> }
  readonly idps: {
    keyFor(
      idp: Idp,
      header: { readonly alg: string; readonly kid?: string | undefined }
    ): Promise<KeyObject | undefined>
    /** False: nothing could be fetched. */
    hasKeys?(idpId: string): boolean
  }
  /** What of a resource's scopes this user can give away; the resource says (store section 3.3.5). Absent:
   *  all. */
  readonly grantable?:
    | ((resourceSlug: string, userId: string, scopes: ReadonlyArray<string>) => ReadonlyArray<string>)
    | undefined
  readonly vault: Pick<Vault, "upstreamToken">
}
