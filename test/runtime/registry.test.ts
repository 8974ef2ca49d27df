/** The end of an actor system. */
import { Effect } from "effect"
import { expect, it } from "vitest"
import { Clocked } from "./clocked.ts"
import { Journaled } from "./counter.ts"

it("stopping waits until everything that was accepted is on disk", async () => {
  const world = new Clocked(Journaled)
  world.held.auto = false
  const answer = world.ask(Journaled, "a", "Add", { by: 1 })
  expect(world.held.pending).toBe(1)
  await Effect.runPromise(world.system.stop)
  expect([world.held.pending, answer.heard]).toEqual([0, 1])
})
