/** The messages which wait behind a cell's first: (command, payload, answer) triples in chunks borrowed from a pool while a second
 *  message waits and given back when drained, so that an idle actor owns no buffer and a burst copies nothing. Source: effect4 section 3.1. */
import type { Done } from "./cell.ts"

const slotsPerChunk = 3 * 64
const chunksPooledMax = 4096

interface Chunk { readonly slots: Array<unknown>; next: Chunk | undefined }
const chunks: Array<Chunk> = []
const backlogs: Array<Backlog> = []
const borrowChunk = (): Chunk => chunks.pop() ?? { slots: Array.from<unknown>({ length: slotsPerChunk }).fill(undefined), next: undefined }

export class Backlog {
  private head: Chunk = borrowChunk()
  private tail: Chunk = this.head
  private readAt = 0
  private writeAt = 0
  /** Messages waiting. */
  length = 0

  static borrow(): Backlog { return backlogs.pop() ?? new Backlog() }
  static giveBack(backlog: Backlog): void { if (backlogs.length < chunksPooledMax) backlogs.push(backlog) }

  push(command: string, payload: unknown, done: Done | undefined): void {
    if (this.writeAt === slotsPerChunk) {
      this.tail = this.tail.next = borrowChunk()
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
  /** Hands the oldest message to `into.first…`. */
  shift(into: { firstCommand: string | undefined; firstPayload: unknown; firstDone: Done | undefined }): void {
    const { slots } = this.head
    const at = this.readAt
    into.firstCommand = slots[at] as string
    into.firstPayload = slots[at + 1]
    into.firstDone = slots[at + 2] as Done | undefined
    slots[at] = slots[at + 1] = slots[at + 2] = undefined
    this.readAt = at + 3
    if (--this.length === 0) this.readAt = this.writeAt = 0
    else if (this.readAt === slotsPerChunk) {
      const drained = this.head
      this.head = drained.next!
      this.readAt = 0
      drained.next = undefined
      if (chunks.length < chunksPooledMax) chunks.push(drained)
    }
  }
}
