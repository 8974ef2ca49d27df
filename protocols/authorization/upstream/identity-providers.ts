/** The keys of the enterprise's identity providers. A disabled provider has no keys from the next request on.
 *  Source: docs/spec/authorization.md, section 13.2. */
import type { KeyObject } from "node:crypto"
import type { Effect } from "effect"
import type { Later } from "../../../runtime/http.ts"
import type { AuthContext } from "../auth-context.ts"
import type { Idp } from "../records.ts"
import { RemoteKeys, type KeyHeader } from "./remote-keys.ts"
import type { FetchFault, SafeFetch } from "./safe-fetch.ts"

const timeoutMs = 10_000

export class IdentityProviders {
  private readonly keys: RemoteKeys

  constructor({ settings: { xaa }, nowMs }: Pick<AuthContext, "settings" | "nowMs">, fetcher: SafeFetch) {
    this.keys = new RemoteKeys(
      fetcher,
      { keptMs: xaa.jwksCacheMs, timeoutMs, allowPrivateAddresses: xaa.allowPrivateAddresses },
      nowMs
    )
  }

  /** Returns a key for ES256, RS256 or PS256. Undefined when the key is unknown or unfit, or when the
   *  provider is unreachable and no usable key is cached. */
  keyFor(idp: Idp, header: KeyHeader): Later<KeyObject | undefined> {
    return idp.enabled ? this.keys.keyFor(idp, header) : undefined
  }

  /** Fetches the keys when an administrator asks. */
  refresh(idp: Idp): Effect.Effect<number, FetchFault> {
    return this.keys.refresh(idp)
  }

  /** False when no usable key is cached; the missing key is then audited as `jwks_fetch_failed`. */
  hasKeys(idpId: string): boolean {
    return this.keys.hasKeys(idpId)
  }

  forget(idpId: string): void {
    this.keys.forget(idpId)
  }

  fetchedMs(idpId: string): number | undefined {
    return this.keys.fetchedMs(idpId)
  }
}
