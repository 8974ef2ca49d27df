/** Sends streams of requests in an open loop: each is due at its moment, over whichever of a bounded number of
 *  connections is free; what finds none free is counted and left out. */
import type { Stream } from "./requests.ts"
import { Tally, type TallyReport } from "./tally.ts"
import { Wire } from "./wire.ts"

const connectionsMax = 200
const tickMs = 10
/** A process that was stopped for long does not make up for all of it. */
const burstMs = 1_000

export class Flood {
  private readonly tally = new Tally()
  private readonly idle: Array<Wire> = []
  private readonly wires = new Set<Wire>()
  private readonly timer: ReturnType<typeof setInterval>
  private readonly port: number

  constructor(port: number, streams: ReadonlyArray<Stream>) {
    this.port = port
    const due = streams.map(() => performance.now())
    this.timer = setInterval(() => {
      const nowMs = performance.now()
      for (const [i, { perSecond, next }] of streams.entries()) {
        due[i] = Math.max(due[i]!, nowMs - burstMs)
        for (; due[i]! <= nowMs; due[i]! += 1_000 / perSecond) this.send(next)
      }
    }, tickMs)
  }

  report(): TallyReport {
    return this.tally.report()
  }

  close(): void {
    clearInterval(this.timer)
    for (const wire of this.wires) wire.close()
  }

  private send(next: Stream["next"]): void {
    const wire = this.idle.pop() ?? this.opened()
    if (wire === undefined) {
      this.tally.unsent++
      return
    }
    const ask = next()
    this.tally.sent++
    void wire.ask(ask).then((answer) => {
      this.tally.count(answer, ask.path)
      this.idle.push(wire)
    })
  }

  private opened(): Wire | undefined {
    if (this.wires.size >= connectionsMax) return undefined
    const wire = new Wire({ port: this.port })
    this.wires.add(wire)
    return wire
  }
}
