/** The services that the endpoints need beyond the AuthContext: keys, limits, and the parts that make
 *  outbound requests. */
import type { KeyObject } from "node:crypto"
import type { Later } from "../../runtime/http.ts"
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
  readonly documents: { resolve(url: string, ip?: string): Later<Client | Problem> }
  readonly idps: {
    keyFor(
      idp: Idp,
      header: { readonly alg: string; readonly kid?: string | undefined }
    ): Later<KeyObject | undefined>
    /** False when no usable keys are cached, because they could not be fetched. */
    hasKeys?(idpId: string): boolean
  }
  /** Returns those of a resource's scopes that this user may grant, which the resource decides. When absent,
   *  a user may grant all scopes.
   *  Source: docs/spec/store.md, section 3.3, item 5. */
  readonly grantable?:
    | ((resourceSlug: string, userId: string, scopes: ReadonlyArray<string>) => ReadonlyArray<string>)
    | undefined
  readonly vault: Pick<UpstreamTokenBroker, "upstreamToken">
}
