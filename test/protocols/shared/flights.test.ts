/** One flight for all who wait, and when it ends. */
import { Effect, Exit, Fiber } from "effect"
import { expect, it } from "vitest"
import { Flights } from "../../../protocols/shared/flights.ts"

const opened = (withLastWaiter: boolean) => {
  const flights = new Flights<string>({ withLastWaiter })
  const seen = { begun: 0, interrupted: 0 }
  let land: (value: string) => void = () => {}
  const join = () =>
    Effect.runFork(
      flights.join("a", () =>
        Effect.callback<string>((resume) => {
          seen.begun++
          land = (value) => resume(Effect.succeed(value))
          return Effect.sync(() => void seen.interrupted++)
        })
      )
    )
  const interrupted = (fiber: Fiber.Fiber<string>) => Effect.runPromise(Fiber.interrupt(fiber))
  return { flights, seen, join, interrupted, land: (value: string) => land(value) }
}

it("runs once for all who wait, and anew for who comes later", async () => {
  const { flights, seen, join, land } = opened(true)
  const waiters = [join(), join(), join()]
  expect(flights.has("a")).toBe(true)
  land("first")
  expect(await Promise.all(waiters.map((one) => Effect.runPromise(Fiber.join(one))))).toEqual(
    Array(3).fill("first")
  )
  expect([seen.begun, flights.has("a")]).toEqual([1, false])
  const later = join()
  land("second")
  expect(await Effect.runPromise(Fiber.join(later))).toBe("second")
  expect(seen).toEqual({ begun: 2, interrupted: 0 })
})

it("stops with the last of its waiters, not with the first", async () => {
  const { flights, seen, join, interrupted, land } = opened(true)
  const [first, second] = [join(), join()]
  await interrupted(first)
  expect(seen.interrupted).toBe(0)
  await interrupted(second)
  expect([seen.interrupted, flights.has("a")]).toEqual([1, false])
  const again = join()
  land("again")
  expect(await Effect.runPromise(Fiber.join(again))).toBe("again")
})

it("goes on to its end without waiters where it should", async () => {
  const { flights, seen, join, interrupted, land } = opened(false)
  await interrupted(join())
  expect([seen.interrupted, flights.has("a")]).toEqual([0, true])
  const later = join()
  land("landed")
  expect(await Effect.runPromise(Fiber.join(later))).toBe("landed")
  expect(seen.begun).toBe(1)
})

it("a failure is everybody's, and is not remembered", async () => {
  const flights = new Flights<string, string>({ withLastWaiter: true })
  const outcomes = await Promise.all(
    [1, 2].map(() => Effect.runPromiseExit(flights.join("a", () => Effect.delay(Effect.fail("no"), 0))))
  )
  expect(outcomes.map((exit) => Exit.isFailure(exit))).toEqual([true, true])
  expect(flights.has("a")).toBe(false)
})
