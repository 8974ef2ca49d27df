/** What must not compile: `tsc` is the test (each expectation below fails the type check when the error goes away). */
import { Schema } from "effect"
import { expect, it } from "vitest"
import { command, defineActor, persist, refuse, reply } from "../../runtime/actor.ts"

const Shut = Schema.TaggedStruct("IsShut", {})
const door = defineActor("door", {
  state: Schema.TaggedUnion({ Open: {}, Closed: {} }),
  event: Schema.TaggedUnion({ Moved: {} }),
  commands: { Push: command({}, { reply: Schema.Void, refusal: Shut }), Look: command({}, { reply: Schema.String }) },
  keep: "memory", mailbox: { capacity: 1 }, restart: { times: 1, within: "1 minute" }, passivateAfter: "1 minute"
})
const evolve = { Moved: () => ({ _tag: "Open" as const }) }
const push = () => persist({ _tag: "Moved" }).reply(undefined)
const look = () => reply("a door")

it("a whole table of rules compiles", () => {
  expect(door.behaves({ initial: { _tag: "Closed" }, on: { Open: { Push: push, Look: look }, Closed: { Push: () => refuse({ _tag: "IsShut" }), Look: look } }, evolve }).kind).toBe("door")
})
it("a missing transition cell, an undeclared event, an undeclared refusal do not compile", () => {
  // @ts-expect-error Closed has no cell for Look
  door.behaves({ initial: { _tag: "Closed" }, on: { Open: { Push: push, Look: look }, Closed: { Push: push } }, evolve })
  // @ts-expect-error no event Painted is declared
  door.behaves({ initial: { _tag: "Closed" }, on: { Open: { Push: () => persist({ _tag: "Painted" }).reply(undefined), Look: look }, Closed: { Push: push, Look: look } }, evolve })
  // @ts-expect-error Push does not declare the refusal IsGone
  door.behaves({ initial: { _tag: "Closed" }, on: { Open: { Push: () => refuse({ _tag: "IsGone" }), Look: look }, Closed: { Push: push, Look: look } }, evolve })
  // @ts-expect-error Look declares no refusal at all
  door.behaves({ initial: { _tag: "Closed" }, on: { Open: { Push: push, Look: () => refuse({ _tag: "IsShut" }) }, Closed: { Push: push, Look: look } }, evolve })
  // @ts-expect-error the fold has no case for Moved
  door.behaves({ initial: { _tag: "Closed" }, on: { Open: { Push: push, Look: look }, Closed: { Push: push, Look: look } }, evolve: {} })
  expect(true).toBe(true)
})
