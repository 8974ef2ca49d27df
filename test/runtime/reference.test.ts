/** An ask whose asker leaves. */
import { Effect, Fiber } from "effect"
import { expect, it } from "vitest"
import { Clocked, timersOf, turns } from "./clocked.ts"
import { Journaled } from "./counter.ts"

it("an ask holds its deadline until it is answered, or its asker leaves", async () => {
  const world = new Clocked(Journaled)
  world.held.auto = false
  const asking = (by: number) => Effect.runFork(world.system.ref(Journaled, "a").ask("Add", { by }))
  const [answered, interrupted] = [asking(1), asking(2)]
  await turns()
  expect(timersOf(world)).toBe(2)
  await Effect.runPromise(Fiber.interrupt(interrupted))
  expect(timersOf(world)).toBe(1)
  world.held.flush()
  expect(await Effect.runPromise(Fiber.join(answered))).toBe(1)
  expect(timersOf(world)).toBe(0)
})
