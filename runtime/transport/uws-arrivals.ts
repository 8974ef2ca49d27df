/** The connections of the uws adapter whose first request has not arrived. The library closes them without a
 *  word when their head is late, or is one that its parser waits on for ever; here they get a 408 before.
 *  Guarantee: a connection is answered here only while it is certain that it is open and has sent no request.
 *  The library does not say which connection a request came on, so with a request every waiting connection of
 *  the same address is let go of, and left to the library. Source: docs/http.md. */
import type uWS from "uWebSockets.js"
import { statusLine, traceId } from "./exchange.ts"

interface Arrival {
  readonly res: uWS.HttpResponse
  readonly sinceMs: number
}

const addressOf = (res: uWS.HttpResponse): string => Buffer.from(res.getRemoteAddress()).toString("latin1")

export class Arrivals {
  private readonly waiting = new Map<string, Set<Arrival>>()

  opened(res: uWS.HttpResponse): void {
    const address = addressOf(res)
    const arrival = { res, sinceMs: performance.now() }
    let arrivals = this.waiting.get(address)
    if (arrivals === undefined) this.waiting.set(address, (arrivals = new Set()))
    arrivals.add(arrival)
    // A request replaces this listener, and then the whole address has left already.
    res.onAborted(() => this.remove(address, arrival))
  }

  requested(res: uWS.HttpResponse): void {
    if (this.waiting.size > 0) this.waiting.delete(addressOf(res))
  }

  private remove(address: string, arrival: Arrival): void {
    const arrivals = this.waiting.get(address)
    arrivals?.delete(arrival)
    if (arrivals?.size === 0) this.waiting.delete(address)
  }

  /** Refuses the connections that are overdue. */
  sweep(withinMs: number): void {
    const overdue = performance.now() - withinMs
    for (const [address, arrivals] of this.waiting)
      for (const arrival of arrivals) {
        if (arrival.sinceMs > overdue) break
        this.remove(address, arrival)
        const { res } = arrival
        res.cork(() => {
          res.writeStatus(statusLine(408))
          res.writeHeader("X-Trace-ID", traceId())
          res.end("", true)
        })
      }
  }
}
