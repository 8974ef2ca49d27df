/** The run queue decides which cell runs next. It is an intrusive linked list, drained in one microtask;
 *  after a slice, the rest waits for the next event-loop turn, so that sockets and disk callbacks are served.
 *  It is plain synchronous code (bench/tell). Guarantee: a cell stands in the queue at most once, and one
 *  that throws does not hold up those behind it. */

/** The most messages that one cell handles before other cells get their turn. */
export const cellBudget = 64

/** The most messages handled before the event loop gets its turn. */
const sliceBudget = 4096

export interface Runnable {
  next: Runnable | undefined
  /** True while it stands in the queue; the queue alone sets it. */
  inRunQueue: boolean
  /** Handles at most `cellBudget` waiting messages and returns how many it handled. */
  run(): number
}

/** How the kernel puts work off: to the end of the running turn, and to a later turn of the event loop. The
 *  simulation supplies its own, so that a run can be repeated. */
export interface Scheduler {
  readonly soon: (work: () => void) => void
  readonly later: (work: () => void) => void
}

export const eventLoop: Scheduler = { soon: queueMicrotask, later: setImmediate }

export class RunQueue {
  private readonly scheduler: Scheduler
  private readonly onDefect: (defect: unknown) => void
  private head: Runnable | undefined
  private tail: Runnable | undefined
  private scheduled = false
  private readonly drainBound = (): void => this.drain()

  /** `onDefect` hears of a cell that threw, which is a bug of the kernel. */
  constructor(scheduler: Scheduler = eventLoop, onDefect: (defect: unknown) => void = () => {}) {
    this.scheduler = scheduler
    this.onDefect = onDefect
  }

  enqueue(cell: Runnable): void {
    if (cell.inRunQueue) return
    cell.inRunQueue = true
    if (this.tail === undefined) this.head = cell
    else this.tail.next = cell
    this.tail = cell
    if (!this.scheduled) {
      this.scheduled = true
      this.scheduler.soon(this.drainBound)
    }
  }

  /** Calls `work` at the end of the running turn. */
  soon(work: () => void): void {
    this.scheduler.soon(() => {
      try {
        work()
      } catch (defect) {
        this.onDefect(defect)
      }
    })
  }

  private drain(): void {
    let budget = sliceBudget
    while (this.head !== undefined && budget > 0) {
      const cell = this.head
      this.head = cell.next
      if (this.head === undefined) this.tail = undefined
      cell.next = undefined
      cell.inRunQueue = false
      try {
        budget -= cell.run()
      } catch (defect) {
        budget--
        this.onDefect(defect)
      }
    }
    if (this.head === undefined) this.scheduled = false
    else this.scheduler.later(this.drainBound)
  }
}
