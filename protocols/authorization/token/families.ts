/** Refresh-token families as the endpoints use them: queries to their actors, and revocation that holds even
 *  when the store refuses to write. A family revoked here stays revoked: in memory at once, and after a
 *  restart through the intent recorded beside the store.
 *  Source: docs/spec/authorization.md, sections 8.4 and 8.5. */
import {
  RefreshFamily,
  type Family,
  type FamilyCommands,
  type FamilyPayload
} from "../../../actors/refresh-family.ts"
import type { Answer } from "../../../runtime/registry.ts"
import type { Write } from "../../../storage/store.ts"
import { askMaybeSync } from "../../shared/maybe-promise.ts"
import type { AuthContext } from "../auth-context.ts"
import { familyHasEnded } from "./liveness.ts"
import { PendingRevocations, type RevocationIntents } from "./pending-revocations.ts"
import { type Problem, unavailable } from "../problems.ts"

const retryMsMin = 1_000
const retryMsMax = 60_000

/** A family that was revoked here is `Ended`, even while its actor still answers otherwise. */
export class Families {
  private readonly authority: AuthContext
  private readonly pending: PendingRevocations
  private readonly retries = new Set<NodeJS.Timeout>()

  /** Counts revocations that could not be written to the store, for /metrics. */
  failures = 0

  constructor(authority: AuthContext, intents: RevocationIntents) {
    this.authority = authority
    this.pending = new PendingRevocations(intents)
  }

  hasEnded(familyId: string): boolean {
    return this.pending.has(familyId) || familyHasEnded(this.authority, familyId)
  }

  ask<C extends keyof FamilyCommands & string>(
    familyId: string,
    command: C,
    payload: FamilyPayload<C>
  ): Promise<Answer<FamilyCommands[C]>> {
    const family = this.authority.actors.ref(RefreshFamily, familyId)
    return new Promise((resolve) => family.askNow(command, payload, resolve))
  }

  inspect(familyId: string): Family | Problem | Promise<Family | Problem> {
    const family = this.authority.actors.ref(RefreshFamily, familyId)
    return askMaybeSync((done) =>
      family.askNow("Inspect", {}, (answer) =>
        done("reply" in answer ? this.asEnded(familyId, answer.reply) : unavailable(undefined, 1, answer))
      )
    )
  }

  private asEnded(familyId: string, family: Family): Family {
    if (family._tag !== "Active" || !this.hasEnded(familyId)) return family
    const { grant, currentGeneration } = family
    return { _tag: "Ended", grant, currentGeneration }
  }

  /** Ends a family together with the rows of `rows`. When the store cannot write this, the family has ended
   *  all the same, now and after a restart, and the write is tried again. */
  async revoke(familyId: string, because: string, rows: ReadonlyArray<Write> = []): Promise<void> {
    const isNew = this.pending.add(familyId)
    const answer = await this.ask(familyId, "Revoke", { because, rows })
    if (!("reply" in answer)) return this.retryLater(familyId, because, retryMsMin)
    // A family that had ended before has written nothing.
    if (answer.reply) this.authority.books.written(rows)
    else if (rows.length > 0) await this.authority.books.write(rows)
    if (isNew) this.pending.settle(familyId)
  }

  /** Ends a family of which a superseded token was presented: first in memory, then in the store. */
  async revokeReused(familyId: string, presentedGeneration: number): Promise<void> {
    this.pending.add(familyId)
    const answer = await this.ask(familyId, "Rotate", {
      presentedGeneration,
      graceMs: 0,
      expiresMs: 0,
      rows: []
    })
    if ("refuse" in answer) this.pending.settle(familyId)
    else this.retryLater(familyId, "reuse", retryMsMin)
  }

  private retryLater(familyId: string, because: string, waitMs: number): void {
    const { audit, log } = this.authority
    this.failures++
    try {
      this.pending.record(familyId)
    } catch (cause) {
      log("error", "a revocation intent could not be written", { familyId, cause })
    }
    log("error", "a token family could not be revoked in the store", { familyId })
    audit.later("family.revocation_failed", { detail: { family_id: familyId } })
    const retry = async (): Promise<void> => {
      const answer = await this.ask(familyId, "Revoke", { because, rows: [] })
      if ("reply" in answer) this.pending.settle(familyId)
      else this.retryLater(familyId, because, Math.min(2 * waitMs, retryMsMax))
    }
    const timer = setTimeout(() => {
      this.retries.delete(timer)
      void retry()
    }, waitMs).unref()
    this.retries.add(timer)
  }

  /** Gives up the retries of this process; the next start repeats them from their intents. */
  close(): void {
    for (const timer of this.retries) clearTimeout(timer)
    this.retries.clear()
  }

  /** Writes to the store the revocations that an earlier process could not; called at start, before the first
   *  answer. */
  async resume(): Promise<void> {
    const familyIds = this.pending.restore()
    const answers = await Promise.all(
      familyIds.map((familyId) => this.ask(familyId, "Revoke", { because: "reuse", rows: [] }))
    )
    if (answers.every((answer) => "reply" in answer)) return this.pending.settleAll()
    for (const [index, answer] of answers.entries())
      if (!("reply" in answer)) this.retryLater(familyIds[index]!, "reuse", retryMsMin)
  }
}
