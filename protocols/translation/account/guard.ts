/** Before any endpoint: key of the right role, scope, how many at once, rate. In that order, each with its
 *  own refusal.
 *  Source: translation sections 1.3, 2.3 "order of checks", 2.5 "general request rate". */
import { RateWindow } from "../../../actors/rate-window.ts"
import type { Handler, Request, Response } from "../../../runtime/http.ts"
import type { ActorSystem, Ref } from "../../../runtime/registry.ts"
import type { KeyInUse, KeyRing } from "./keys.ts"
import { problem } from "../problems.ts"

export interface Limits {
  /** Per key: `calls` in each window; 100 a second with bursts of 200 is 200 in 2 s. */
  readonly calls: number
  readonly windowMs: number
  readonly inFlight: number
}

export const limitsDefault: Limits = { calls: 200, windowMs: 2_000, inFlight: 64 }

export type Guarded = (request: Request, using: KeyInUse) => Response | Promise<Response>

/** `scope` undefined: not reachable with a scoped key. */
export type Guard = (scope: string | undefined, handle: Guarded) => Handler

const busy = { _tag: "Limited", retryAfterMs: 1_000 } as const

export const guardOf = (
  ring: KeyRing,
  actors: ActorSystem,
  limits: Limits = limitsDefault,
  role: KeyInUse["key"]["role"] = "developer"
): Guard => {
  const windows = new WeakMap<KeyInUse, Ref<typeof RateWindow>>()
  const windowOf = (using: KeyInUse): Ref<typeof RateWindow> => {
    let window = windows.get(using)
    if (window === undefined)
      windows.set(using, (window = actors.ref(RateWindow, `translation/${using.key.keyId}`)))
    return window
  }
  const call = { cost: 1, limit: limits.calls, windowMs: limits.windowMs }

  const counted = (
    using: KeyInUse,
    handle: () => Response | Promise<Response>
  ): Response | Promise<Response> => {
    if (using.inFlight >= limits.inFlight) return problem(busy)
    using.inFlight++
    let pending = false
    try {
      const response = handle()
      if (!(response instanceof Promise)) return response
      pending = true
      return response.finally(() => {
        using.inFlight--
      })
    } finally {
      if (!pending) using.inFlight--
    }
  }

  return (scope, handle) => (request) => {
    const using = ring.find(request.headers.get("authorization"))
    if (using === undefined || using.key.role !== role) return problem({ _tag: "Forbidden" })
    const { scopes } = using.key
    if (scopes !== null && (scope === undefined || !scopes.includes(scope)))
      return problem(scope === undefined ? { _tag: "Forbidden" } : { _tag: "MissingScopes", scopes: [scope] })
    let answered: Response | Promise<Response> | undefined
    let later: ((response: Response | Promise<Response>) => void) | undefined
    windowOf(using).askNow("Take", call, (answer) => {
      const response =
        "reply" in answer
          ? counted(using, () => handle(request, using))
          : problem("refuse" in answer ? answer.refuse : { _tag: "Overloaded" })
      if (later === undefined) answered = response
      else later(response)
    })
    return (
      answered ??
      new Promise((resolve) => {
        later = resolve
      })
    )
  }
}
