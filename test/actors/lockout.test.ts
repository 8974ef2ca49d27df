/** The lockout's rules as a table: every phase and command, what is decided, and the fold. Source:
 *  docs/spec/authorization.md, section 3.5. */
import { describe, expect, it } from "vitest"
import { Lockout } from "../../actors/lockout.ts"

const { on, evolve, initial } = Lockout

type Counting = Parameters<typeof on.Counting.Fail>[0]
type Locked = Parameters<typeof on.Locked.Fail>[0]
type State = Counting | Locked
type Command = keyof typeof on.Counting

const max = 3
const windowMs = 60_000
const lockMs = 900_000
const sinceMs = 1_000_000
const untilMs = 2_000_000
const fail = { max, windowMs, lockMs }

const counting = (failures: number): Counting => ({ _tag: "Counting", sinceMs, failures })
const locked: Locked = { _tag: "Locked", untilMs }
const cleared = { _tag: "Counted", sinceMs: 0, failures: 0 }

const decide = (state: State, command: Command, nowMs: number, payload: object = {}) =>
  (on as any)[state._tag][command](state, payload, { id: "lock", nowMs, fresh: () => "" })

describe("Counting", () => {
  it.each([0, 1, max - 1])("Check after %i failures: free to try, nothing kept", (failures) => {
    expect(decide(counting(failures), "Check", sinceMs)).toMatchObject({
      events: [],
      answer: { reply: undefined }
    })
  })
  type Row = readonly [name: string, failures: number, nowMs: number, event: object, lockedNow: boolean]
  const lastOfWindow = sinceMs + windowMs - 1
  const nextWindow = sinceMs + windowMs
  it.each<Row>([
    ["the first of a window", 0, sinceMs, { _tag: "Counted", sinceMs, failures: 1 }, false],
    ["one less than the last", max - 2, sinceMs, { _tag: "Counted", sinceMs, failures: max - 1 }, false],
    ["the last", max - 1, sinceMs, { _tag: "Locked", untilMs: sinceMs + lockMs }, true],
    ["one more than the last", max, sinceMs, { _tag: "Locked", untilMs: sinceMs + lockMs }, true],
    [
      "the last, a millisecond before the window ends",
      max - 1,
      lastOfWindow,
      { _tag: "Locked", untilMs: lastOfWindow + lockMs },
      true
    ],
    [
      "the last, when the window ends: the first of the next",
      max - 1,
      nextWindow,
      { _tag: "Counted", sinceMs: nextWindow, failures: 1 },
      false
    ]
  ])("Fail, %s", (_, failures, nowMs, event, lockedNow) => {
    expect(decide(counting(failures), "Fail", nowMs, fail)).toMatchObject({
      events: [event],
      answer: { reply: lockedNow }
    })
  })
  it("Fail, where one failure locks", () => {
    expect(decide(initial, "Fail", sinceMs, { ...fail, max: 1 })).toMatchObject({
      events: [{ _tag: "Locked", untilMs: sinceMs + lockMs }],
      answer: { reply: true }
    })
  })
  it("Clear: forgets the failures", () => {
    expect(decide(counting(2), "Clear", sinceMs)).toMatchObject({
      events: [cleared],
      answer: { reply: undefined }
    })
  })
})

describe("Locked", () => {
  it.each([
    ["long before the end", untilMs - lockMs, lockMs],
    ["a millisecond before the end", untilMs - 1, 1]
  ])("Check, %s: refused, with the time to wait", (_, nowMs, retryAfterMs) => {
    expect(decide(locked, "Check", nowMs)).toMatchObject({
      events: [],
      answer: { refuse: { _tag: "LockedOut", retryAfterMs } }
    })
  })
  it.each([
    ["at the end", untilMs],
    ["after the end", untilMs + 1]
  ])("Check, %s: free to try, counted anew", (_, nowMs) => {
    expect(decide(locked, "Check", nowMs)).toMatchObject({ events: [cleared], answer: { reply: undefined } })
  })
  it("Fail, a millisecond before the end: still locked, and no longer than before", () => {
    expect(decide(locked, "Fail", untilMs - 1, fail)).toMatchObject({ events: [], answer: { reply: true } })
  })
  it("Fail, at the end: the first of a new window", () => {
    expect(decide(locked, "Fail", untilMs, fail)).toMatchObject({
      events: [{ _tag: "Counted", sinceMs: untilMs, failures: 1 }],
      answer: { reply: false }
    })
  })
  it("Clear: unlocks", () => {
    expect(decide(locked, "Clear", untilMs - 1)).toMatchObject({
      events: [cleared],
      answer: { reply: undefined }
    })
  })
})

describe("the fold", () => {
  it("counting and locked replace one another", () => {
    const counted = evolve.Counted(locked, { _tag: "Counted", sinceMs, failures: 2 })
    expect(counted).toEqual(counting(2))
    expect(evolve.Locked(counting(2), { _tag: "Locked", untilMs })).toEqual(locked)
  })
  it("nobody has failed at first", () =>
    expect(initial).toEqual({ _tag: "Counting", sinceMs: 0, failures: 0 }))
})
