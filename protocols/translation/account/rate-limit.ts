/** How often and how many at once: each key has a rate window, which is an actor, and a count of the calls
 *  that are under way. Whatever is over either limit is refused with 429; everything else of this service
 *  that answers 429 says so by the same refusal, `Limited`.
 *  Source: docs/spec/translation.md, section 2.5 "general request rate". */
import { RateWindow } from "../../../actors/rate-window.ts"
import { Effect } from "effect"
import { askLater, type Answer, type Response } from "../../../runtime/http.ts"
import type { ActorSystem, Ref } from "../../../runtime/registry.ts"
import { problem } from "../problems.ts"
import type { KeyInUse } from "./keys.ts"

export interface Limits {
  /** Calls of one key in each window; 100 a second with bursts of 200 is 200 in 2 s. */
  readonly calls: number
  readonly windowMs: number
  /** Calls of one key that may be under way at once. */
  readonly inFlight: number
}

export const limitsDefault: Limits = { calls: 200, windowMs: 2_000, inFlight: 64 }

const tooManyAtOnce = { _tag: "Limited", retryAfterMs: 1_000 } as const

/** Runs a call when its key's window and its count of calls under way allow it. */
export class RateLimiter {
  private readonly windows = new WeakMap<KeyInUse, Ref<typeof RateWindow>>()
  private readonly actors: ActorSystem
  private readonly inFlightMax: number
  private readonly call: { readonly cost: number; readonly limit: number; readonly windowMs: number }

  constructor(actors: ActorSystem, { calls, windowMs, inFlight }: Limits) {
    this.actors = actors
    this.inFlightMax = inFlight
    this.call = { cost: 1, limit: calls, windowMs }
  }

  /** The window answers in the caller's own turn when it is idle, so that most calls allocate no promise. */
  run(using: KeyInUse, handle: () => Answer): Answer {
    return askLater<Response>((done) =>
      this.windowOf(using).askNow("Take", this.call, (answer) => {
        if ("reply" in answer) done(() => this.counted(using, handle))
        else done(() => problem("refuse" in answer ? answer.refuse : { _tag: "Overloaded", cause: answer }))
      })
    )
  }

  private windowOf(using: KeyInUse): Ref<typeof RateWindow> {
    let window = this.windows.get(using)
    if (window === undefined)
      this.windows.set(using, (window = this.actors.ref(RateWindow, `translation/${using.key.keyId}`)))
    return window
  }

  private counted(using: KeyInUse, handle: () => Answer): Answer {
    if (using.inFlight >= this.inFlightMax) return problem(tooManyAtOnce)
    using.inFlight++
    const leave = (): void => {
      using.inFlight--
    }
    let answer: Answer
    try {
      answer = handle()
    } catch (defect) {
      leave()
      throw defect
    }
    if (Effect.isEffect(answer)) return Effect.ensuring(answer, Effect.sync(leave))
    if (answer instanceof Promise) return answer.finally(leave)
    leave()
    return answer
  }
}
