/** Keys of the enterprise's identity providers. A disabled one has none from the next request on. Source:
 *  authorization section 13.2. */
import type { KeyObject } from "node:crypto"
import type { AuthContext } from "../auth-context.ts"
import type { Idp } from "../records.ts"
import { RemoteKeys, type KeyHeader } from "./remote-keys.ts"
import type { SafeFetch } from "./safe-fetch.ts"

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

  /** ES256, RS256 and PS256. Undefined: unknown, unfit, or the provider cannot be reached and nothing usable
   *  is kept. */
  async keyFor(idp: Idp, header: KeyHeader): Promise<KeyObject | undefined> {
    return idp.enabled ? this.keys.keyFor(idp, header) : undefined
  }

  /** For the administrator; rejects with FetchFault. */
  refresh(idp: Idp): Promise<number> {
    return this.keys.refresh(idp)
  }

  /** False: audited as `jwks_fetch_failed` when there was no key. */
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
