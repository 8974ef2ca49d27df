/** The state of a round trip: whose it is, how long it is good, and that it is good once. Source:
 *  docs/spec/authorization.md, sections 7.9 and 12.2. */
import { expect, it } from "vitest"
import { SealedStates, type Stamped } from "../../../../protocols/authorization/upstream/sealed-state.ts"
import { heldStore, turned, World } from "./outside.ts"

interface Trip extends Stamped {
  readonly user: string
}

const maxAgeMs = 600_000

const opened = (world = new World()) => {
  const states = new SealedStates<Trip>(world.authority, "federation", maxAgeMs)
  const trip: Trip = { atMs: world.nowMs, user: "u1" }
  return { world, states, trip, state: states.seal(trip) }
}

it("a state opens until its age is reached, and not when it was changed", () => {
  const { world, states, trip, state } = opened()
  expect(states.open(state)).toEqual(trip)
  expect(states.open(`${state.slice(0, -4)}AAAA`)).toBeUndefined()
  expect(states.open(undefined)).toBeUndefined()
  world.nowMs += maxAgeMs
  expect(states.open(state)).toEqual(trip)
  world.nowMs += 1
  expect(states.open(state)).toBeUndefined()
})

it("the state of one kind of trip is none of another", () => {
  const { world, state } = opened()
  expect(new SealedStates<Trip>(world.authority, "connect", maxAgeMs).open(state)).toBeUndefined()
})

it("a state is spent once, in whatever text it comes", async () => {
  const { states, trip, state } = opened()
  expect(await Promise.all([states.spend(state, trip), states.spend(state, trip)])).toEqual([true, false])
  expect(await states.spend(state, trip)).toBe(false)
  expect(await states.spend(`${state}=`, trip)).toBe(false)
})

it("a state is spent when that is on disk", async () => {
  const { store, hold, waiting, settle } = heldStore()
  const { states, trip, state } = opened(new World({}, undefined, store))
  hold()
  let spent = false
  const spending = states.spend(state, trip).then((first) => {
    spent = first
  })
  await waiting
  for (let turns = 0; turns < 5; turns++) await turned()
  expect(spent).toBe(false)
  settle()
  await spending
  expect(spent).toBe(true)
})
