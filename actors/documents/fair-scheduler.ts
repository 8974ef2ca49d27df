/** Decides which document is translated next: it limits how many run at once and how many of them belong to
 *  one account, prefers the account with the fewest, and otherwise follows the order of arrival. It also
 *  knows the progress of each document. Source: docs/spec/documents.md, section 10. */

interface Waiting {
  readonly id: string
  readonly accountId: string
  readonly resume: () => void
}

/** Both counts are billed characters. */
interface Progress {
  done: number
  readonly total: number
  readonly startedMs: number
  lastEstimateSeconds: number
}

/** The assumed rate in characters per second, until an engine's own rate can be measured. */
const rateDefault = 500

/** A rate measured over fewer seconds than this is ignored. */
const measuredSecondsMin = 0.5

export interface SchedulerOptions {
  /** How many documents run at once; the second limit is how many of them may belong to one account. */
  readonly atOnce: number
  readonly perAccount: number
  readonly nowMs: () => number
}

export class FairScheduler {
  private readonly running = new Map<string, string>()
  private readonly waiting: Array<Waiting> = []
  private readonly progress = new Map<string, Progress>()
  private readonly atOnce: number
  private readonly perAccount: number
  private readonly nowMs: () => number

  constructor({ atOnce, perAccount, nowMs }: SchedulerOptions) {
    this.atOnce = atOnce
    this.perAccount = perAccount
    this.nowMs = nowMs
  }

  /** Enters the queue. `resume` is called once, when the document's turn has come, which may be at once. */
  enter(id: string, accountId: string, resume: () => void): void {
    this.waiting.push({ id, accountId, resume })
    this.admit()
  }

  /** Ends the document's turn, or removes it from the queue. A second call does no harm. */
  leave(id: string): void {
    this.running.delete(id)
    this.progress.delete(id)
    const index = this.waiting.findIndex((waiting) => waiting.id === id)
    if (index >= 0) this.waiting.splice(index, 1)
    this.admit()
  }

  private admit(): void {
    while (this.running.size < this.atOnce) {
      const next = this.nextIndex()
      if (next === undefined) return
      const [admitted] = this.waiting.splice(next, 1)
      this.running.set(admitted!.id, admitted!.accountId)
      admitted!.resume()
    }
  }

  /** Chooses the account with the fewest running documents, so that one with many does not delay the
   *  others. */
  private nextIndex(): number | undefined {
    const counts = new Map<string, number>()
    for (const account of this.running.values()) counts.set(account, (counts.get(account) ?? 0) + 1)

    let next: number | undefined
    let fewest = this.perAccount
    for (const [index, { accountId }] of this.waiting.entries()) {
      const count = counts.get(accountId) ?? 0
      if (count >= fewest) continue
      next = index
      fewest = count
    }
    return next
  }

  /** Starts the progress of a document. `done` of its `total` characters come from an earlier run and count
   *  as done at the default rate. */
  begin(id: string, total: number, done: number): void {
    this.progress.set(id, {
      total,
      done,
      startedMs: this.nowMs() - (done / rateDefault) * 1_000,
      lastEstimateSeconds: Infinity
    })
  }

  advance(id: string, characters: number): void {
    const progress = this.progress.get(id)
    if (progress !== undefined) progress.done += characters
  }

  /** Estimates the seconds that remain: at least 1, and never more than twice the previous estimate. */
  secondsRemaining(id: string): number {
    const progress = this.progress.get(id)
    if (progress === undefined) return 1
    const seconds = (this.nowMs() - progress.startedMs) / 1_000
    const measured = progress.done > 0 && seconds > measuredSecondsMin
    const rate = measured ? progress.done / seconds : rateDefault
    const estimate = Math.ceil((progress.total - progress.done) / rate)
    progress.lastEstimateSeconds = Math.max(1, Math.min(estimate, progress.lastEstimateSeconds * 2))
    return progress.lastEstimateSeconds
  }
}
