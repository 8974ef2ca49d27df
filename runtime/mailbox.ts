/** The messages which wait behind a cell's first: a power-of-two ring of (command, payload, answer) triples, borrowed from a pool
 *  while a second message waits and given back when drained, so that an idle actor owns no buffer. Source: effect4 section 3.1. */
import type { Done } from "./cell.ts"

const ringsPooledMax = 4096
const slotsKeptMax = 3 * 1024
const pool: Array<Ring> = []

export class Ring {
  private slots: Array<unknown> = Array.from({ length: 3 * 16 })
  private head = 0
  /** Messages waiting. */
  length = 0

  static borrow(): Ring { return pool.pop() ?? new Ring() }
  static giveBack(ring: Ring): void { if (ring.slots.length <= slotsKeptMax && pool.length < ringsPooledMax) pool.push(ring) }

  push(command: string, payload: unknown, done: Done | undefined): void {
    if (3 * this.length === this.slots.length) this.grow()
    const size = this.slots.length
    let at = this.head + 3 * this.length
    if (at >= size) at -= size
    this.slots[at] = command
    this.slots[at + 1] = payload
    this.slots[at + 2] = done
    this.length++
  }
  /** Hands the oldest message to `into.first…`. */
  shift(into: { firstCommand: string | undefined; firstPayload: unknown; firstDone: Done | undefined }): void {
    const { slots, head } = this
    into.firstCommand = slots[head] as string
    into.firstPayload = slots[head + 1]
    into.firstDone = slots[head + 2] as Done | undefined
    slots[head] = slots[head + 1] = slots[head + 2] = undefined
    this.head = head + 3 === slots.length ? 0 : head + 3
    this.length--
  }
  private grow(): void {
    const old = this.slots
    const grown: Array<unknown> = Array.from({ length: old.length * 2 })
    for (let i = 0; i < old.length; i++) grown[i] = old[(this.head + i) % old.length]
    this.slots = grown
    this.head = 0
  }
}
