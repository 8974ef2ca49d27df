/** Work that many may wait for and that runs once: one flight at a time by name. Guarantee: who joins a flight and
 *  is interrupted leaves it at once; with `withLastWaiter` the flight itself is interrupted when the last of its
 *  waiters goes, otherwise it goes on to its end. */
import { Effect, Fiber } from "effect"

interface Flight<A, E> {
  readonly fiber: Fiber.Fiber<A, E>
  waiters: number
}

export class Flights<A, E = never> {
  private readonly flights = new Map<string, Flight<A, E>>()
  private readonly withLastWaiter: boolean

  constructor({ withLastWaiter }: { readonly withLastWaiter: boolean }) {
    this.withLastWaiter = withLastWaiter
  }

  has(name: string): boolean {
    return this.flights.has(name)
  }

  /** Waits for the flight of this name; begins it with `run` when there is none. */
  join(name: string, run: () => Effect.Effect<A, E>): Effect.Effect<A, E> {
    return Effect.suspend(() => {
      const flight = this.flights.get(name) ?? this.begun(name, run())
      flight.waiters++
      const left = Effect.sync(() => {
        flight.waiters--
        if (flight.waiters > 0 || !this.withLastWaiter || this.flights.get(name) !== flight) return
        this.flights.delete(name)
        flight.fiber.interruptUnsafe()
      })
      return Effect.ensuring(Fiber.join(flight.fiber), left)
    })
  }

  private begun(name: string, work: Effect.Effect<A, E>): Flight<A, E> {
    const flight: Flight<A, E> = { fiber: Effect.runFork(work), waiters: 0 }
    this.flights.set(name, flight)
    flight.fiber.addObserver(() => {
      if (this.flights.get(name) === flight) this.flights.delete(name)
    })
    return flight
  }
}
