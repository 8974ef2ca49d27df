/** Decides whose turn it is: so many documents at once, so many of one account, the account with the fewest
 *  first and in order of arrival otherwise. It also knows how far each document is.
 *  Source: docs/spec/documents.md, section 10. */

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

/** The rate in characters a second, until an engine's own can be measured. */
const rateDefault = 500

/** Below this, a measured rate says nothing. */
const measuredSecondsMin = 0.5

export interface SchedulerOptions {
  /** How many documents run at once, and how many of them may be one account's. */
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

  /** `resume` is called once, when the document's turn has come: maybe at once. */
  enter(id: string, accountId: string, resume: () => void): void {
    this.waiting.push({ id, accountId, resume })
    this.admit()
  }

  /** The document's turn is over, or it does not want one any more. Twice does no harm. */
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

  /** The account with the fewest running goes first, so that one with many documents does not hold up the
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

  /** `done` of `total` characters come from an earlier run, and count as done at the default rate. */
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

  /** At least 1, and never more than twice the estimate before. */
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
