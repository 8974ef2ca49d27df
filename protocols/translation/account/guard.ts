/** The checks before every endpoint: a key of the right role, its scope, concurrent requests, and request
 *  rate. They run in this order, each with its own refusal.
 *  Source: docs/spec/translation.md, sections 1.3 and 2.3 "order of checks". */
import type { Answer, Handler, Request } from "../../../runtime/http.ts"
import type { ActorSystem } from "../../../runtime/registry.ts"
import type { KeyInUse, KeyRing } from "./keys.ts"
import { problem } from "../problems.ts"
import { limitsDefault, RateLimiter, type Limits } from "./rate-limit.ts"

export type Guarded = (request: Request, using: KeyInUse) => Answer

/** Wraps a handler in the checks. Where `scope` is undefined, a key with scopes is refused. */
export type Guard = (scope: string | undefined, handle: Guarded) => Handler

export const guardOf = (
  ring: KeyRing,
  actors: ActorSystem,
  limits: Limits = limitsDefault,
  role: KeyInUse["key"]["role"] = "developer"
): Guard => {
  const limiter = new RateLimiter(actors, limits)
  return (scope, handle) => (request) => {
    const using = ring.find(request.headers.get("authorization"))
    if (using === undefined || using.key.role !== role) return problem({ _tag: "Forbidden" })
    const { scopes } = using.key
    if (scopes !== null && (scope === undefined || !scopes.includes(scope)))
      return problem(scope === undefined ? { _tag: "Forbidden" } : { _tag: "MissingScopes", scopes: [scope] })
    return limiter.run(using, () => handle(request, using))
  }
}
