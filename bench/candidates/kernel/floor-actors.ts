/** The hand-written floor of the kernel: every actor has a mailbox, there is one run queue, and an ask is a
 *  resolver in the message. */

export class FloorSystem {
  private queue: Array<FloorActor> = []
  private on = false

  push(actor: FloorActor): void {
    this.queue.push(actor)
    if (!this.on) {
      this.on = true
      queueMicrotask(() => this.drain())
    }
  }

  private drain(): void {
    let budget = 4_096
    for (let i = 0; i < this.queue.length; i++) {
      const actor = this.queue[i]!
      let handled = 0
      while (actor.head < actor.box.length && handled++ < 64) {
        const message = actor.box[actor.head]!
        actor.box[actor.head++] = undefined
        actor.handle(message)
      }
      if (actor.head === actor.box.length) {
        actor.box.length = 0
        actor.head = 0
        actor.scheduled = false
      } else this.queue.push(actor)
      budget -= handled
      if (budget < 0) {
        this.queue = this.queue.slice(i + 1)
        if (this.queue.length > 0) setImmediate(() => this.drain())
        else this.on = false
        return
      }
    }
    this.queue.length = 0
    this.on = false
  }
}

export interface FloorMessage {
  readonly answer?: (n: number) => void
}

export class FloorActor {
  box: Array<FloorMessage | undefined> = []
  head = 0
  scheduled = false
  state = { n: 0 }
  private readonly floor: FloorSystem

  constructor(floor: FloorSystem) {
    this.floor = floor
  }

  handle(message: FloorMessage): void {
    this.state = { n: this.state.n + 1 }
    message.answer?.(this.state.n)
  }

  tell(message: FloorMessage): void {
    this.box.push(message)
    if (!this.scheduled) {
      this.scheduled = true
      this.floor.push(this)
    }
  }
}

export const emptyMessage: FloorMessage = {}
