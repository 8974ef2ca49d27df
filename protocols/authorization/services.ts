/** What the endpoints are given beyond the authority: its keys, its limits, and the parts that talk to the
 *  outside. */
import type { KeyObject } from "node:crypto"
import type { AuthContext } from "./auth-context.ts"
import type { DpopVerifier } from "./token/dpop.ts"
import type { Families } from "./token/families.ts"
import type { RefreshGrace } from "./token/refresh-grace.ts"
import type { RefreshTokenCodec } from "./token/refresh-token-codec.ts"
import type { Limits } from "./rate-limit.ts"
import type { Passwords } from "./passwords.ts"
import type { Problem } from "./problems.ts"
import type { Client, Idp } from "./records.ts"
import type { SigningKeyRing } from "./token/signing-keys.ts"
import type { UpstreamTokenBroker } from "./upstream/token-broker.ts"

export interface AuthServices extends AuthContext {
  readonly keys: SigningKeyRing
  readonly families: Families
  readonly refreshTokens: RefreshTokenCodec
  readonly refreshGrace: RefreshGrace
  readonly limits: Limits
  readonly proofs: DpopVerifier
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
  readonly vault: Pick<UpstreamTokenBroker, "upstreamToken">
}
