/** Counts of strangers: calls by source, and failures by what was tried. Each table holds a bounded number of
 *  identities, a few hundred bytes each. At the bound the oldest that is not locked makes room; locked ones
 *  stay, and where all are locked a newcomer is refused rather than counted. They are plain tables rather than
 *  actors, because each call is judged in one turn and anybody may invent an identity (an idle actor costs ten
 *  times as much). A crash forgives.
 *  Source: docs/spec/authorization.md, section 3.5. */
import { hash } from "node:crypto"
import { flatText } from "../shared/flat-text.ts"

/** Combines what a stranger wrote into a key of fixed length, because a client id may be of 1,800 bytes. */
export const identityOf = (source: string, name: string): string =>
  hash("sha256", `${source} ${name}`, "buffer").toString("base64url", 0, 16)

const takeOldest = (identities: Map<string, unknown>): boolean => {
  for (const oldest of identities.keys()) return identities.delete(oldest)
  return false
}

export interface CallRule {
  readonly limit: number
  readonly windowMs: number
}

/** Counts the calls of each source in windows [k·windowMs, (k+1)·windowMs). All windows end together, so that
 *  the table begins anew with each. */
export class CallCounts {
  private readonly rule: CallRule
  private readonly sourcesMax: number
  private readonly nowMs: () => number
  private startMs = 0

  /** Sources that may still call, with their calls so far. */
  private calls = new Map<string, number>()

  /** Sources that have used up their calls. */
  private spent = new Map<string, true>()

  constructor(rule: CallRule, sourcesMax: number, nowMs: () => number) {
    this.rule = rule
    this.sourcesMax = sourcesMax
    this.nowMs = nowMs
  }

  get size(): number {
    return this.calls.size + this.spent.size
  }

  /** Charges one call; returns 0 when it is permitted, and otherwise how many ms the source must wait. */
  take(source: string): number {
    const { limit, windowMs } = this.rule
    const nowMs = this.nowMs()
    this.turnTo(nowMs)
    const waitMs = this.startMs + windowMs - nowMs
    if (this.spent.has(source)) return waitMs
    const before = this.calls.get(source)
    if (before === undefined && this.size >= this.sourcesMax && !takeOldest(this.calls)) return waitMs
    const calls = (before ?? 0) + 1
    if (calls < limit) this.calls.set(before === undefined ? flatText(source) : source, calls)
    else {
      this.calls.delete(source)
      this.spent.set(flatText(source), true)
    }
    return 0
  }

  /** Drops a window that has ended. */
  sweep(): void {
    this.turnTo(this.nowMs())
  }

  /** A clock that steps back by a window or less stays in the window it was in. */
  private turnTo(nowMs: number): void {
    const { windowMs } = this.rule
    const startMs = nowMs - (nowMs % windowMs)
    if (startMs === this.startMs || (startMs < this.startMs && this.startMs <= startMs + windowMs)) return
    this.startMs = startMs
    if (this.size === 0) return
    this.calls = new Map()
    this.spent = new Map()
  }
}

export interface FailureRule {
  /** So many failures within `windowMs` lock for `lockMs`. */
  readonly max: number
  readonly windowMs: number
  readonly lockMs: number
}

interface Failures {
  sinceMs: number
  count: number
}

/** Counts the failures of each identity, and locks out those that fail too often. */
export class FailureCounts {
  private readonly rule: FailureRule
  private readonly identitiesMax: number
  private readonly nowMs: () => number

  /** In the order in which their windows began, which is the order in which they end. */
  private readonly counting = new Map<string, Failures>()

  /** The ends of locks in epoch ms, earliest first. */
  private readonly locked = new Map<string, number>()

  constructor(rule: FailureRule, identitiesMax: number, nowMs: () => number) {
    this.rule = rule
    this.identitiesMax = identitiesMax
    this.nowMs = nowMs
  }

  get size(): number {
    return this.counting.size + this.locked.size
  }

  /** True while anybody is locked out, so that a caller may spare itself the identity. */
  get anyLocked(): boolean {
    return this.locked.size > 0
  }

  /** Returns how many ms the identity must wait, 0 when it may try now. */
  retryAfterMs(identity: string): number {
    return Math.max(0, (this.locked.get(identity) ?? 0) - this.nowMs())
  }

  /** Reports a failure; returns whether the identity is locked out now. */
  fail(identity: string): boolean {
    const { max, lockMs } = this.rule
    this.sweep()
    if (this.locked.has(identity)) return true
    const nowMs = this.nowMs()
    let failures = this.counting.get(identity)
    if (failures === undefined) {
      if (this.size >= this.identitiesMax && !takeOldest(this.counting)) return true
      failures = { sinceMs: nowMs, count: 0 }
      this.counting.set(identity, failures)
    }
    failures.count++
    if (failures.count < max) return false
    this.counting.delete(identity)
    this.locked.set(identity, nowMs + lockMs)
    return true
  }

  /** Forgets the windows and locks that have ended. Each leaves once, so that its cost belongs to the failure
   *  that began it. */
  sweep(): void {
    const nowMs = this.nowMs()
    for (const [identity, { sinceMs }] of this.counting) {
      if (nowMs - sinceMs < this.rule.windowMs) break
      this.counting.delete(identity)
    }
    for (const [identity, untilMs] of this.locked) {
      if (nowMs < untilMs) break
      this.locked.delete(identity)
    }
  }
}
