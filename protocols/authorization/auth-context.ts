/** The dependencies that every file of this service receives: one value, created in open.ts. */
import type { LookupAddress } from "node:dns"
import type { ActorSystem } from "../../runtime/registry.ts"
import type { Sealer } from "../../storage/seal.ts"
import type { Audit } from "./audit.ts"
import type { CachedTables } from "./cached-tables.ts"
import type { Settings } from "./settings.ts"

export interface AuthContext {
  readonly settings: Settings
  readonly books: CachedTables
  readonly actors: ActorSystem
  readonly seal: Sealer
  readonly audit: Audit
  readonly nowMs: () => number
  /** Returns 32 random bytes as base64url. */
  readonly newToken: () => string
  /** True when the issuer's host is this machine. */
  readonly local: boolean
  /** Resolves hosts of outbound requests; tests supply their own. */
  readonly lookup: (host: string) => Promise<ReadonlyArray<LookupAddress>>
  readonly log: (
    level: "info" | "warn" | "error",
    message: string,
    fields?: Readonly<Record<string, unknown>>
  ) => void
}

/** Keyed hash by which the store finds a secret that it must not hold: a code, cookie, state or request id.
 *  Source: docs/spec/authorization.md, section 2.4. */
export const hashOf = (
  { seal }: Pick<AuthContext, "seal">,
  secret: string,
  purpose: "code" | "session" | "request" | "state" | "idempotency" | "proof"
): string => seal.hash(secret, `authorization ${purpose}`)
