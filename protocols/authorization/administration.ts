/** Connects the admin API (admin/) to the rest of the service.
 *  Source: docs/spec/authorization.md, section 16. */
import type { Route } from "../../runtime/http.ts"
import type { AdminPorts } from "./admin/call.ts"
import { adminRoutes } from "./admin/routes.ts"
import { isLive } from "./token/liveness.ts"
import type { UpstreamServices } from "./upstream/upstream-services.ts"
import { Issuances } from "./records.ts"
import type { AuthServices } from "./services.ts"

const scannedMax = 100_000

export const administration = (
  services: AuthServices,
  outside: UpstreamServices,
  version: string,
  startedMs: number
): ReadonlyArray<Route> => {
  const { families, keys, limits, passwords } = services
  const live = (clientId: string): boolean =>
    Issuances.range(services.books.store, { limit: scannedMax, reverse: true }).some(
      ({ value }) =>
        value.clientId === clientId &&
        // A live family has issued a token within the lifetime of its refresh token, and issuances are
        // retained longer than that.
        (isLive(services, families, value) ||
          (value.familyId !== "" && value.revokedMs === null && !families.hasEnded(value.familyId)))
    )
  const ports: AdminPorts = {
    version,
    startedMs,
    subsystems: () => ({ store: "ok", keys: keys.ready ? "ok" : "no signing key" }),
    isLive: (issuance) => isLive(services, families, issuance),
    isFamilyLive: async (familyId) => {
      const family = await families.inspect(familyId)
      return family._tag === "Active"
    },
    live: { ofClient: live },
    hashPassword: passwords.hash,
    rotateKey: async (algorithm, also) => {
      const alg = algorithm ?? services.settings.signing.algorithm
      const row = await keys.rotate(alg, (kid) => also({ kid, alg }))
      return { kid: row.kid, alg: row.algorithm }
    },
    withdrawKey: (kid, also) => keys.withdraw(kid, also),
    idpKeys: {
      refresh: (idp) => outside.idps.refresh(idp),
      fetchedMs: (idpId) => outside.idps.fetchedMs(idpId),
      forget: (idpId) => outside.idps.forget(idpId)
    },
    revokeUpstream: (grant, provider) => {
      if (provider !== undefined) outside.tokenBroker.revokeUpstream(grant, provider)
    },
    adminFailures: {
      retryAfterMs: (source) => limits.adminRetryAfterMs(source),
      count: (source) => limits.adminFailed(source)
    }
  }
  return adminRoutes(services, ports)
}
