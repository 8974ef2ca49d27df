/** What every file of this service is given: one value, made in routes.ts. */
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
  /** 32 random bytes, base64url. */
  readonly newToken: () => string
  /** The issuer is on this machine. */
  readonly local: boolean
  /** Of outbound requests; tests bring their own. */
  readonly lookup: (host: string) => Promise<ReadonlyArray<LookupAddress>>
  readonly log: (
    level: "info" | "warn" | "error",
    message: string,
    fields?: Readonly<Record<string, unknown>>
  ) => void
}

/** How the store finds what it must not hold: codes, cookies, states, request ids. */
export const hashOf = (
  { seal }: Pick<AuthContext, "seal">,
  secret: string,
  purpose: "code" | "session" | "request" | "state" | "idempotency" | "proof"
): string => seal.hash(secret, `authorization ${purpose}`)
