/** Assembles every part of this service that makes outbound requests. Client documents, identity providers
 *  and operators' upstreams each have their own outbound limits, so that a flood of client documents cannot
 *  starve the others.
 *  Source: docs/spec/authorization.md, section 11.2. */
import type { Route } from "../../../runtime/http.ts"
import type { AuthContext } from "../auth-context.ts"
import { ClientDocuments } from "../client/client-documents.ts"
import { connectRoutes, type ConnectDependencies } from "./connect.ts"
import { federationRoutes, type FederationDependencies } from "./federation.ts"
import { IdentityProviders } from "./identity-providers.ts"
import type { Environment } from "./providers.ts"
import { SafeFetch, upstreamLimits } from "./safe-fetch.ts"
import { UpstreamTokenBroker } from "./token-broker.ts"

export interface UpstreamServices {
  readonly documents: ClientDocuments
  readonly idps: IdentityProviders
  readonly tokenBroker: UpstreamTokenBroker
  /** Returns the routes below `/connect`, `/connections` and `/oidc`; the caller supplies their pages and
   *  sessions. */
  routes(
    ports: Omit<ConnectDependencies, "vault" | "fetcher" | "environment"> &
      Omit<FederationDependencies, "fetcher">
  ): ReadonlyArray<Route>
}

export const upstreamServices = (
  authority: AuthContext,
  environment: Environment = process.env
): UpstreamServices => {
  const fetcher = new SafeFetch(authority.lookup, upstreamLimits)
  const vault = new UpstreamTokenBroker(authority, fetcher, environment)
  return {
    documents: new ClientDocuments(authority, new SafeFetch(authority.lookup)),
    idps: new IdentityProviders(authority, new SafeFetch(authority.lookup)),
    tokenBroker: vault,
    routes: (ports) => [
      ...connectRoutes(authority, { ...ports, vault, fetcher, environment }),
      ...federationRoutes(authority, { ...ports, fetcher })
    ]
  }
}
