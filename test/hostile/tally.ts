/** What a load process counts and reports: answers by status, cut connections, and every 5xx with the id
 *  under which the log must have it. */
import { traceIdOf, type Answer } from "./wire.ts"

/** What an overloaded program may say to anybody. */
export const turnedAway = Symbol("turned away")

/** What was wrong with an answer; undefined when it was right. */
export type Verdict = string | typeof turnedAway | undefined

export interface Failure {
  readonly status: number
  readonly traceId: string
  readonly path: string
}

export interface TallyReport {
  readonly sent: number
  /** Requests that found no free connection. */
  readonly unsent: number
  /** Connections that ended without an answer. */
  readonly cut: number
  readonly statuses: Readonly<Record<string, number>>
  readonly failures: ReadonlyArray<Failure>
}

export class Tally {
  sent = 0
  unsent = 0
  cut = 0
  private readonly statuses: Record<string, number> = {}
  private failures: Array<Failure> = []

  count(answer: Answer | undefined, path: string): void {
    if (answer === undefined) {
      this.cut++
      return
    }
    const { status } = answer
    this.statuses[status] = (this.statuses[status] ?? 0) + 1
    if (status >= 500) this.failures.push({ status, traceId: traceIdOf(answer.head), path })
  }

  /** Returns the counts so far, and the failures since the last report. */
  report(): TallyReport {
    const { sent, unsent, cut, statuses, failures } = this
    this.failures = []
    return { sent, unsent, cut, statuses: { ...statuses }, failures }
  }
}
