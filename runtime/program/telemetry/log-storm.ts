/** Lets only so many log lines of one sort through, so that a storm of failures cannot fill a disk, and says
 *  how many it held back. Source: docs/operations.md, "Logs". */

/** Runs `work` once after `ms`; what it schedules must not keep the process alive. */
export type Later = (work: () => void, ms: number) => void

const laterByTimer: Later = (work, ms) => {
  setTimeout(work, ms).unref()
}

const windowMs = 10_000
const linesPerWindow = 20
const sortsMax = 1_000

/** The sort of every line that comes when `sortsMax` sorts are counted already. */
const otherSorts = "(other)"

interface Sort {
  lines: number
  suppressed: number
}

export class LogStorm {
  private readonly later: Later
  private readonly report: (sort: string, suppressed: number) => void
  private sorts = new Map<string, Sort>()

  constructor(report: (sort: string, suppressed: number) => void, later: Later = laterByTimer) {
    this.report = report
    this.later = later
  }

  /** Returns whether a line of this sort may be written now. */
  admits(sort: string): boolean {
    const counted = this.sorts.get(sort) ?? this.begin(sort)
    if (counted.lines < linesPerWindow) {
      counted.lines++
      return true
    }
    counted.suppressed++
    return false
  }

  private begin(sort: string): Sort {
    // The window opens with its first line, so a quiet process has no timer.
    if (this.sorts.size === 0) this.later(() => this.flush(), windowMs)
    const name = this.sorts.size < sortsMax ? sort : otherSorts
    const existing = this.sorts.get(name)
    if (existing !== undefined) return existing
    const created = { lines: 0, suppressed: 0 }
    this.sorts.set(name, created)
    return created
  }

  /** Ends the window, and reports what it held back. */
  flush(): void {
    const ended = this.sorts
    this.sorts = new Map()
    for (const [sort, { suppressed }] of ended) if (suppressed > 0) this.report(sort, suppressed)
  }
}
