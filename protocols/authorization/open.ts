/** Opens the authorization server over a store. Signing keys are loaded, pending revocations are resumed and
 *  the seed is written before the first answer; a sweeper then runs until the server is closed.
 *  Source: docs/spec/authorization.md, sections 1.2, 19.2 and 19.3. */
import { lookup } from "node:dns/promises"
import { randomToken, type Sealer } from "../../storage/seal.ts"
import type { Store } from "../../storage/store.ts"
import type { ActorSystem } from "../../runtime/registry.ts"
import type { Service } from "../../runtime/http.ts"
import type { Metrics } from "../../runtime/metrics.ts"
import { administration } from "./administration.ts"
import { Audit } from "./audit.ts"
import type { AuthContext } from "./auth-context.ts"
import { CachedTables } from "./cached-tables.ts"
import { browserRoutes } from "./browser/browser.ts"
import { DpopVerifier } from "./token/dpop.ts"
import { Families } from "./token/families.ts"
import type { RevocationIntents } from "./token/pending-revocations.ts"
import { RefreshGrace } from "./token/refresh-grace.ts"
import { RefreshTokenCodec } from "./token/refresh-token-codec.ts"
import { Limits } from "./rate-limit.ts"
import { upstreamServices } from "./upstream/upstream-services.ts"
import { passwordsOf } from "./passwords.ts"
import { register, registrationRule, UnusedClients } from "./client/register.ts"
import { authorization } from "./routes.ts"
import { ProofIds, Requests, UsedStates } from "./records.ts"
import { seedRows, type SeedInput } from "./seed.ts"
import type { AuthServices } from "./services.ts"
import { BrowserSessions } from "./browser/sessions.ts"
import { isLocalIssuer, type Settings } from "./settings.ts"
import { Sweeper } from "./sweeper.ts"
import { SigningKeyRing } from "./token/signing-keys.ts"

export interface AuthorizationDeps {
  readonly store: Store
  readonly actors: ActorSystem
  readonly seal: Sealer
  readonly settings: Settings
  readonly revocationIntents: RevocationIntents
  readonly clock: () => number
  readonly log?: AuthContext["log"]
  readonly metrics?: Metrics
  readonly lookup?: AuthContext["lookup"]
  readonly version?: string
  readonly grantable?: AuthServices["grantable"]
  readonly seed?: SeedInput
  /** Services that a test replaces with its own. */
  readonly instead?: Partial<Pick<AuthServices, "documents" | "idps" | "vault">>
}

export interface OpenAuthorization {
  readonly service: Service
  readonly services: AuthServices
  readonly sessions: BrowserSessions
  sweep(): Promise<void>
  close(): Promise<void>
}

export const openAuthorization = async (deps: AuthorizationDeps): Promise<OpenAuthorization> => {
  const { store, actors, seal, settings, clock, log = () => {} } = deps
  const books = new CachedTables(store, clock, rowLimitsOf(settings))
  books.countRows()
  const authority: AuthContext = {
    settings,
    books,
    actors,
    seal,
    audit: new Audit(
      books,
      (cause) => log("error", "audit rows could not be kept", { cause }),
      settings.auditFailuresPerHour
    ),
    nowMs: clock,
    newToken: randomToken,
    local: isLocalIssuer(settings.issuer),
    lookup: deps.lookup ?? ((host) => lookup(host, { all: true })),
    log
  }
  const sessions = new BrowserSessions(authority)
  const keys = new SigningKeyRing(authority)
  const families = new Families(authority, deps.revocationIntents)
  const outside = upstreamServices(authority)
  const services: AuthServices = {
    ...authority,
    keys,
    families,
    refreshTokens: new RefreshTokenCodec(authority),
    refreshGrace: new RefreshGrace(settings.refreshGraceMs, clock),
    limits: new Limits(authority),
    proofs: new DpopVerifier(authority),
    passwords: passwordsOf(settings.hashConcurrency),
    documents: outside.documents,
    idps: outside.idps,
    vault: outside.tokenBroker,
    grantable: deps.grantable,
    ...deps.instead
  }
  if (deps.metrics !== undefined) publish(deps.metrics, services)
  await keys.load()
  await families.resume()
  const seeded =
    deps.seed === undefined
      ? undefined
      : await seedRows(authority, deps.seed, { hashPassword: services.passwords.hash })
  if (seeded !== undefined && seeded.faults.length > 0)
    throw new Error(`seeds:\n  ${seeded.faults.join("\n  ")}`)
  const unused = new UnusedClients(authority)
  const sweeper = new Sweeper(
    [() => services.limits.sweep(), () => books.sweep(), () => unused.sweep(), () => keys.age()],
    (cause) => log("error", "the sweep failed", { cause })
  )
  sweeper.start()
  // The rule is the one that an administrator set last, whatever is configured.
  if (registrationRule(authority).mode === "open" && !authority.local)
    log("warn", "anyone may register clients (dcr.mode is open)", { issuer: settings.issuer })
  return {
    service: authorization(services, sessions, {
      register: register(authority, {
        limited: ({ client }) => services.limits.registration(client) ?? unused.refusal,
        registered: () => unused.registered()
      }),
      browser: browserRoutes(services, sessions, outside),
      admin: administration(services, outside, deps.version ?? "", clock())
    }),
    services,
    sessions,
    sweep: () => sweeper.sweep(),
    close: async () => {
      await sweeper.stop()
      services.passwords.close()
      families.close()
      await authority.audit
        .settle()
        .catch((cause: unknown) => log("error", "the last audit rows could not be kept", { cause }))
    }
  }
}

/** Limits on what strangers can write, by table. */
const rowLimitsOf = ({ pending, dpop }: Settings) => ({
  [Requests.name]: { rowsMax: pending.requestsMax, rowsPerSourceMax: pending.requestsPerSourceMax },
  [UsedStates.name]: { rowsMax: pending.statesMax },
  [ProofIds.name]: { rowsMax: dpop.proofsMax }
})

/** Actions and outcomes are words of ours, so each may be a series. */
const families = {
  events: { name: "authorization_events_total", help: "What was audited, by action." },
  proofs: { name: "authorization_dpop_proofs_total", help: "DPoP proofs by outcome." },
  failures: {
    name: "refresh_revocation_failures_total",
    help: "Token families that could not be revoked in the store."
  }
}

const publish = (metrics: Metrics, { audit, families: tokens, proofs }: AuthServices): void =>
  metrics.onScrape(() => {
    for (const [action, count] of audit.counts) metrics.counter(families.events, { action }).value = count
    for (const [outcome, count] of proofs.counts) metrics.counter(families.proofs, { outcome }).value = count
    metrics.counter(families.failures).value = tokens.failures
  })
