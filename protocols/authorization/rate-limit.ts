/** Rate limits by source address, and lockouts after repeated failures. What is judged in one turn is counted in
 *  bounded tables; a sign-in, whose password takes time to judge, has an actor.
 *  Source: docs/spec/authorization.md, section 3.5. */
import { Lockout } from "../../actors/lockout.ts"
import { sourceOf } from "../shared/addresses.ts"
import type { AuthContext } from "./auth-context.ts"
import { CallCounts, FailureCounts, identityOf, type CallRule } from "./identity-counts.ts"
import { type Problem, slowDown } from "./problems.ts"

const ruleOf = ({
  callsPerSecond,
  burst
}: {
  readonly callsPerSecond: number
  readonly burst: number
}): CallRule => ({ limit: burst, windowMs: Math.max(1, Math.round((burst / callsPerSecond) * 1_000)) })

const clientFailures = { max: 20, windowMs: 60_000, lockMs: 60_000 }
const adminFailures = { max: 10, windowMs: 60_000, lockMs: 60_000 }

/** An attempt to sign in that is being judged. */
export interface LoginReservation {
  /** Reports the outcome, once; resolves to true when it caused a lockout. "unjudged": the password was never
   *  compared. */
  settle(outcome: "failed" | "succeeded" | "unjudged"): Promise<boolean>
}

export class Limits {
  private readonly authority: AuthContext
  private readonly calls: CallCounts
  private readonly registrations: CallCounts
  private readonly registrationsInHour: CallCounts
  private readonly clients: FailureCounts
  private readonly administrators: FailureCounts

  constructor(authority: AuthContext) {
    const { rate, registration } = authority.settings
    const { identitiesMax } = rate
    const { nowMs } = authority
    this.authority = authority
    this.calls = new CallCounts(ruleOf(rate), identitiesMax, nowMs)
    this.registrations = new CallCounts(ruleOf(registration), identitiesMax, nowMs)
    this.registrationsInHour = new CallCounts(
      { limit: registration.perHourMax, windowMs: 3_600_000 },
      identitiesMax,
      nowMs
    )
    this.clients = new FailureCounts(clientFailures, identitiesMax, nowMs)
    this.administrators = new FailureCounts(adminFailures, identitiesMax, nowMs)
  }

  /** The number of sources and identities that are counted, by table. */
  get tracked(): Readonly<Record<string, number>> {
    return {
      calls: this.calls.size,
      registrations: this.registrations.size,
      registrationsInHour: this.registrationsInHour.size,
      clients: this.clients.size,
      administrators: this.administrators.size
    }
  }

  /** Forgets the windows and locks that have ended. */
  sweep(): void {
    for (const counts of [
      this.calls,
      this.registrations,
      this.registrationsInHour,
      this.clients,
      this.administrators
    ])
      counts.sweep()
  }

  private charged(counts: CallCounts, ip: string): Problem | undefined {
    if (!this.authority.settings.rate.enabled) return undefined
    const waitMs = counts.take(sourceOf(ip))
    return waitMs === 0 ? undefined : slowDown(waitMs)
  }

  /** Counts one public request of the source. */
  call(ip: string): Problem | undefined {
    return this.charged(this.calls, ip)
  }

  registration(ip: string): Problem | undefined {
    return this.charged(this.registrations, ip) ?? this.charged(this.registrationsInHour, ip)
  }

  private lock(name: string) {
    return this.authority.actors.ref(Lockout, `authorization/${name}`)
  }

  /** Reserves one attempt to sign in, before its password is hashed: as many attempts as may fail are judged at
   *  once, and no more. */
  async reserveLogin(ip: string, email: string): Promise<LoginReservation | Problem> {
    const source = sourceOf(ip)
    const { failuresMax, sourceFailuresMax } = this.authority.settings.rate
    const all = `login/${source}`
    const one = `login/${source}/${email.toLowerCase()}`
    const refusedAll = await this.reserve(all, sourceFailuresMax)
    if (refusedAll !== undefined) return refusedAll
    const refusedOne = await this.reserve(one, failuresMax)
    if (refusedOne !== undefined) {
      await this.settle(all, sourceFailuresMax, false)
      return refusedOne
    }
    return {
      settle: async (outcome) => {
        const failed = outcome === "failed"
        const locked = await Promise.all([
          this.settle(all, sourceFailuresMax, failed),
          this.settle(one, failuresMax, failed)
        ])
        if (outcome === "succeeded") this.lock(one).tell("Clear", {})
        return locked.includes(true)
      }
    }
  }

  private async reserve(name: string, max: number): Promise<Problem | undefined> {
    if (max === 0) return undefined
    const windowMs = this.authority.settings.rate.failureWindowMs
    return new Promise((resolve) =>
      this.lock(name).askNow("Reserve", { max, windowMs }, (answer) => {
        if ("reply" in answer) resolve(undefined)
        else resolve(slowDown("refuse" in answer ? answer.refuse.retryAfterMs : 1_000))
      })
    )
  }

  private async settle(name: string, max: number, failed: boolean): Promise<boolean> {
    if (max === 0) return false
    const { failureWindowMs: windowMs, lockMs } = this.authority.settings.rate
    return new Promise((resolve) =>
      this.lock(name).askNow("Settle", { max, windowMs, lockMs, failed }, (answer) =>
        resolve("reply" in answer && answer.reply)
      )
    )
  }

  clientAllowed(ip: string, clientId: string): Problem | undefined {
    if (!this.clients.anyLocked) return undefined
    const waitMs = this.clients.retryAfterMs(identityOf(sourceOf(ip), clientId))
    return waitMs === 0 ? undefined : slowDown(waitMs)
  }

  /** Counts a client that could not prove who it is, and returns whether it is locked out now. */
  clientFailed(ip: string, clientId: string): boolean {
    return this.authority.settings.rate.enabled && this.clients.fail(identityOf(sourceOf(ip), clientId))
  }

  /** Returns how many ms the source must wait, 0 when it may try now. */
  adminRetryAfterMs(ip: string): number {
    return this.administrators.anyLocked
      ? this.administrators.retryAfterMs(identityOf(sourceOf(ip), "admin"))
      : 0
  }

  /** Counts a wrong admin key, and returns whether the source is locked out now. */
  adminFailed(ip: string): boolean {
    return this.authority.settings.rate.enabled && this.administrators.fail(identityOf(sourceOf(ip), "admin"))
  }
}
