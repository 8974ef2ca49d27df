/** Which cells run next: an intrusive linked list, drained in one microtask; after a slice the rest waits for
 *  the next event-loop turn, so that sockets and disk callbacks are served. Plain synchronous code
 *  (bench/tell). */

/** Messages one cell handles before others get their turn. */
export const cellBudget = 64

/** Messages handled before the event loop gets its turn. */
const sliceBudget = 4096

export interface Runnable {
  next: Runnable | undefined
  /** Handles waiting messages, at most `cellBudget`; returns how many. */
  run(): number
}

export class RunQueue {
  private head: Runnable | undefined
  private tail: Runnable | undefined
  private scheduled = false
  private readonly drainBound = (): void => this.drain()

  enqueue(cell: Runnable): void {
    if (this.tail === undefined) this.head = cell
    else this.tail.next = cell
    this.tail = cell
    if (!this.scheduled) {
      this.scheduled = true
      queueMicrotask(this.drainBound)
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
    else setImmediate(this.drainBound)
  }
}
