/** Runs one authorization server candidate, which prints its port and the client's Authorization header when
 *  it listens. All use one client, Basic authentication and ES256; GET /seed?of=KIND&n=N answers what
 *  load-oauth needs. node server-oauth.js floor|oidc jwt|opaque, or troupe full|relaxed */
import { floor } from "../candidates/oauth/floor.ts"
import { oidcProvider } from "../candidates/oauth/oidc-provider.ts"
import { troupe } from "../candidates/oauth/troupe.ts"

const [, , kind, variant] = process.argv

if (kind === "floor") floor(variant)
else if (kind === "oidc") await oidcProvider(variant)
else await troupe(variant === "relaxed" ? "relaxed" : "full")
