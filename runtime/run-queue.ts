/** The run queue decides which cell runs next. It is an intrusive linked list, drained in one microtask;
 *  after a slice, the rest waits for the next event-loop turn, so that sockets and disk callbacks are served.
 *  It is plain synchronous code (bench/tell). */

/** The most messages that one cell handles before other cells get their turn. */
export const cellBudget = 64

/** The most messages handled before the event loop gets its turn. */
const sliceBudget = 4096

export interface Runnable {
  next: Runnable | undefined
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
  private head: Runnable | undefined
  private tail: Runnable | undefined
  private scheduled = false
  private readonly drainBound = (): void => this.drain()

  constructor(scheduler: Scheduler = eventLoop) {
    this.scheduler = scheduler
  }

  enqueue(cell: Runnable): void {
    if (this.tail === undefined) this.head = cell
    else this.tail.next = cell
    this.tail = cell
    if (!this.scheduled) {
      this.scheduled = true
      this.scheduler.soon(this.drainBound)
    }
  }

  private drain(): void {
    let budget = sliceBudget
    while (this.head !== undefined && budget > 0) {
      const cell = this.head
      this.head = cell.next
      if (this.head === undefined) this.tail = undefined
      cell.next = undefined
      budget -= cell.run()
    }
    if (this.head === undefined) this.scheduled = false
    else this.scheduler.later(this.drainBound)
  }
}
