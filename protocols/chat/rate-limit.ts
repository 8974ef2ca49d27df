/** Decides 429. Chat has two: a session with too many concurrent turns (`session_busy`), and a model
 *  server's own 429 that persists after the retries (`rate_limit_exceeded`). Chat counts no requests per key;
 *  a server that is full as a whole answers 503 (turn/turn.ts).
 *  Source: docs/spec/chat.md, sections 2, 5 and 14. */
import type { UpstreamFault } from "../../actors/engines/chat/model.ts"
import { Refusal, type Problem } from "./problems.ts"

/** Counts the turns under way of each session. The counts live in memory: a turn dies with its process. */
export class SessionTurnLimit {
  private readonly running = new Map<string, number>()
  private readonly turnsMax: number

  constructor(turnsMax: number) {
    this.turnsMax = turnsMax
  }

  /** Counts a turn in, or refuses it. Whoever entered leaves. */
  enter(sessionId: string): void {
    const count = this.count(sessionId)
    if (count >= this.turnsMax) throw new Refusal({ _tag: "SessionBusy" })
    this.running.set(sessionId, count + 1)
  }

  leave(sessionId: string): void {
    const count = (this.running.get(sessionId) ?? 1) - 1
    if (count === 0) this.running.delete(sessionId)
    else this.running.set(sessionId, count)
  }

  /** How many turns of the session are under way. */
  count(sessionId: string): number {
    return this.running.get(sessionId) ?? 0
  }
}

/** A model server's 429, with its `Retry-After` passed on. */
export const upstreamRateLimit = ({ retryAfterMs }: UpstreamFault): Problem => ({
  _tag: "UpstreamRateLimited",
  retryAfterMs
})
