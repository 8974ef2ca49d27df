/** Rate limits by source address, and lockouts after repeated failures. Each window and each lock is an
 *  actor.
 *  Source: docs/spec/authorization.md, section 3.5. */
import { Lockout } from "../../actors/lockout.ts"
import { RateWindow } from "../../actors/rate-window.ts"
import { sourceOf } from "../shared/addresses.ts"
import { askMaybeSync } from "../shared/maybe-promise.ts"
import type { AuthContext } from "./auth-context.ts"
import { type Problem, slowDown } from "./problems.ts"

const bucket = (callsPerSecond: number, burst: number) => ({
  cost: 1,
  limit: burst,
  windowMs: Math.max(1, Math.round((burst / callsPerSecond) * 1_000))
})

export class Limits {
  private readonly authority: AuthContext

  constructor(authority: AuthContext) {
    this.authority = authority
  }

  private taken(
    name: string,
    call: { readonly cost: number; readonly limit: number; readonly windowMs: number }
  ): Problem | undefined | Promise<Problem | undefined> {
    if (!this.authority.settings.rate.enabled) return undefined
    return askMaybeSync((done) =>
      this.authority.actors
        .ref(RateWindow, `authorization/${name}`)
        .askNow("Take", call, (answer) =>
          done(
            "reply" in answer ? undefined : slowDown("refuse" in answer ? answer.refuse.retryAfterMs : 1_000)
          )
        )
    )
  }

  /** Counts one public request of the source. */
  call(ip: string): Problem | undefined | Promise<Problem | undefined> {
    const { callsPerSecond, burst } = this.authority.settings.rate
    return this.taken(`call/${sourceOf(ip)}`, bucket(callsPerSecond, burst))
  }

  registration(ip: string): Problem | undefined | Promise<Problem | undefined> {
    const { callsPerSecond, burst } = this.authority.settings.registration
    return this.taken(`register/${sourceOf(ip)}`, bucket(callsPerSecond, burst))
  }

  private lock(name: string) {
    return this.authority.actors.ref(Lockout, `authorization/${name}`)
  }

  private check(name: string): Problem | undefined | Promise<Problem | undefined> {
    return askMaybeSync((done) =>
      this.lock(name).askNow("Check", {}, (answer) =>
        done("refuse" in answer ? slowDown(answer.refuse.retryAfterMs) : undefined)
      )
    )
  }

  private fail(name: string, max: number, windowMs: number, lockMs: number): Promise<boolean> {
    return max === 0
      ? Promise.resolve(false)
      : new Promise((resolve) =>
          this.lock(name).askNow("Fail", { max, windowMs, lockMs }, (answer) =>
            resolve("reply" in answer && answer.reply)
          )
        )
  }

  async loginAllowed(ip: string, email: string): Promise<Problem | undefined> {
    const source = sourceOf(ip)
    return (
      (await this.check(`login/${source}`)) ?? (await this.check(`login/${source}/${email.toLowerCase()}`))
    )
  }

  /** Counts a failed login, and resolves to true when this failure caused a lockout. */
  async loginFailed(ip: string, email: string): Promise<boolean> {
    const source = sourceOf(ip)
    const { failuresMax, sourceFailuresMax, failureWindowMs, lockMs } = this.authority.settings.rate
    const [all, one] = await Promise.all([
      this.fail(`login/${source}`, sourceFailuresMax, failureWindowMs, lockMs),
      this.fail(`login/${source}/${email.toLowerCase()}`, failuresMax, failureWindowMs, lockMs)
    ])
    return all || one
  }

  loginSucceeded(ip: string, email: string): void {
    this.lock(`login/${sourceOf(ip)}/${email.toLowerCase()}`).tell("Clear", {})
  }

  clientAllowed(ip: string, clientId: string): Problem | undefined | Promise<Problem | undefined> {
    return this.check(`client/${sourceOf(ip)}/${clientId}`)
  }

  async clientFailed(ip: string, clientId: string): Promise<void> {
    if (this.authority.settings.rate.enabled)
      await this.fail(`client/${sourceOf(ip)}/${clientId}`, 20, 60_000, 60_000)
  }

  /** Returns how many ms the source must wait, 0 when it may try now. Locks are in memory, so the answer
   *  comes in the same turn. */
  adminRetryAfterMs(ip: string): number {
    let waitMs = 0
    this.lock(`admin/${sourceOf(ip)}`).askNow("Check", {}, (answer) => {
      if ("refuse" in answer) waitMs = answer.refuse.retryAfterMs
    })
    return waitMs
  }

  adminFailed(ip: string): void {
    if (this.authority.settings.rate.enabled) void this.fail(`admin/${sourceOf(ip)}`, 10, 60_000, 60_000)
  }
}
