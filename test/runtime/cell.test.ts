/** A cell between its commits. */
import { expect, it } from "vitest"
import { cellBudget } from "../../runtime/run-queue.ts"
import { Clocked, turn, turns } from "./clocked.ts"
import { Echo, Forgetful, Journaled } from "./counter.ts"

it("a commit that storage has refused leaves no gap: the actor's next one is accepted", () => {
  const world = new Clocked(Journaled)
  world.ask(Journaled, "a", "Claim", { name: "x" })
  const refused = world.ask(Journaled, "b", "Claim", { name: "x" })
  const next = world.ask(Journaled, "b", "Add", { by: 1 })
  world.held.flush()
  expect([refused.heard, next.heard]).toEqual(["NameTaken", 1])
})

it("what is decided after a loss stays, though other lost commits are told later", async () => {
  const world = new Clocked(Journaled)
  const { held } = world
  held.auto = false
  const first = world.ask(Journaled, "a", "Add", { by: 1 })
  const between = { answer: { heard: undefined as unknown } }
  held.store.commit([], () => {
    between.answer = world.ask(Journaled, "a", "Add", { by: 10 })
  })
  const second = world.ask(Journaled, "a", "Add", { by: 2 })
  held.fail()
  await turn()
  expect([first.heard, second.heard, between.answer.heard]).toEqual(["storage", "storage", "nothing"])
  held.flush()
  expect(between.answer.heard).toBe(10)
  const sum = world.ask(Journaled, "a", "Get")
  expect(sum.heard).toBe(10)
})

it("a cell hands over after its budget: a neighbour does not wait for a long mailbox", async () => {
  const world = new Clocked(Forgetful)
  const order: Array<string> = []
  const note = (id: string) => () => order.push(id)
  const [busy, neighbour] = ["busy", "neighbour"].map((id) => world.system.ref(Forgetful, id))
  // An ask within an ask is queued, and each handled one queues the next: the mailbox is never empty.
  const again = (left: number): void => {
    if (left > 0) busy!.askNow("Add", { by: 1 }, () => (note("busy")(), again(left - 1)))
  }
  busy!.tell("Add", { by: 1 })
  again(2 * cellBudget)
  neighbour!.tell("Add", { by: 1 })
  neighbour!.askNow("Get", {}, note("neighbour"))
  await turns()
  expect(order).toHaveLength(2 * cellBudget + 1)
  expect(order.indexOf("neighbour")).toBeLessThanOrEqual(cellBudget)
})

it("an actor that has left memory still knows its time of expiry: leaving the phase clears it", async () => {
  const world = new Clocked(Echo)
  world.ask(Echo, "a", "Open", { forMs: 600_000 })
  await turn()
  const expiries = () => world.held.store.expired(Infinity, 9).length
  expect(expiries()).toBe(1)
  // As after a start of the process: another system over the same store.
  const later = new Clocked(Echo)
  Object.assign(later.system, { store: world.held.store })
  later.ask(Echo, "a", "Shut")
  world.held.flush()
  expect(expiries()).toBe(0)
})
