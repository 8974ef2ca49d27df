/** The backlog holds the messages that wait behind a cell's first one, as (command, payload, answer) triples
 *  in chunks. The first chunk comes from a pool and returns to it when it is drained, so that an idle actor
 *  owns no buffer. Further chunks double in size, so that a burst copies nothing and soon leaves the young
 *  generation alone (bench/tell). */
import type { AskFault } from "./supervisor.ts"

export type Outcome =
  | { readonly reply: unknown }
  | { readonly refuse: unknown }
  | { readonly fault: AskFault }

/** Is called exactly once, with the outcome of a command. */
export type Done = (outcome: Outcome) => void

const slotsFirst = 3 * 64
const slotsMax = 3 * 16_384
const pooledMax = 4096

class Chunk {
  readonly slots: Array<unknown>
  next: Chunk | undefined = undefined

  constructor(size: number) {
    this.slots = new Array<unknown>(size).fill(undefined)
  }
}

const pool: Array<Backlog> = []

export class Backlog {
  private head = new Chunk(slotsFirst)
  private tail = this.head
  private readAt = 0
  private writeAt = 0

  /** Messages waiting. */
  length = 0

  static borrow(): Backlog {
    return pool.pop() ?? new Backlog()
  }

  /** Returns a backlog to the pool; the caller must have emptied it. */
  static giveBackToPool(backlog: Backlog): void {
    if (pool.length < pooledMax && backlog.head.slots.length === slotsFirst) pool.push(backlog)
  }

  push(command: string, payload: unknown, done: Done | undefined): void {
    if (this.writeAt === this.tail.slots.length) {
      this.tail = this.tail.next = new Chunk(Math.min(2 * this.tail.slots.length, slotsMax))
      this.writeAt = 0
    }
    const { slots } = this.tail
    const at = this.writeAt
    slots[at] = command
    slots[at + 1] = payload
    slots[at + 2] = done
    this.writeAt = at + 3
    this.length++
  }

  /** Moves the oldest message into the `first…` members of `into`. */
  shift(into: {
    firstCommand: string | undefined
    firstPayload: unknown
    firstDone: Done | undefined
  }): void {
    const { slots } = this.head
    const at = this.readAt
    into.firstCommand = slots[at] as string
    into.firstPayload = slots[at + 1]
    into.firstDone = slots[at + 2] as Done | undefined
    slots[at + 1] = slots[at + 2] = undefined
    this.readAt = at + 3
    if (--this.length === 0) this.readAt = this.writeAt = 0
    else if (this.readAt === slots.length) {
      this.head = this.head.next!
      this.readAt = 0
    }
  }
}
