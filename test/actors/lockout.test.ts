/** The lockout's rules as a table: every phase and command, what is decided, and the fold. Source:
 *  docs/spec/authorization.md, section 3.5. */
import { describe, expect, it } from "vitest"
import { Lockout } from "../../actors/lockout.ts"

const { on, evolve, initial } = Lockout

type Counting = Parameters<typeof on.Counting.Settle>[0]
type Locked = Parameters<typeof on.Locked.Settle>[0]
type State = Counting | Locked
type Command = keyof typeof on.Counting

const max = 3
const windowMs = 60_000
const lockMs = 900_000
const sinceMs = 1_000_000
const untilMs = 2_000_000
const fail = { failed: true, max, windowMs, lockMs }

const counting = (failures: number, pending = 0): Counting => ({
  _tag: "Counting",
  sinceMs,
  failures,
  pending
})
const locked: Locked = { _tag: "Locked", untilMs }
const cleared = { _tag: "Counted", sinceMs: 0, failures: 0, pending: 0 }

const decide = (state: State, command: Command, nowMs: number, payload: object = {}) =>
  (on as any)[state._tag][command](state, payload, { id: "lock", nowMs, fresh: () => "" })

describe("Counting", () => {
  type Row = readonly [name: string, failures: number, nowMs: number, event: object, lockedNow: boolean]
  const lastOfWindow = sinceMs + windowMs - 1
  const nextWindow = sinceMs + windowMs
  it.each<Row>([
    ["the first of a window", 0, sinceMs, { _tag: "Counted", sinceMs, failures: 1, pending: 0 }, false],
    [
      "one less than the last",
      max - 2,
      sinceMs,
      { _tag: "Counted", sinceMs, failures: max - 1, pending: 0 },
      false
    ],
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
      { _tag: "Counted", sinceMs: nextWindow, failures: 1, pending: 0 },
      false
    ]
  ])("Settle of a failure, %s", (_, failures, nowMs, event, lockedNow) => {
    expect(decide(counting(failures), "Settle", nowMs, fail)).toMatchObject({
      events: [event],
      answer: { reply: lockedNow }
    })
  })
  it("Settle of a failure, where one locks", () => {
    expect(decide(initial, "Settle", sinceMs, { ...fail, max: 1 })).toMatchObject({
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

describe("A-4: an attempt that takes time", () => {
  const reserve = { max, windowMs }
  type Reserved = readonly [name: string, state: State, nowMs: number, pending: number | undefined]
  it.each<Reserved>([
    ["the first", counting(0), sinceMs, 1],
    ["the last but one in its place", counting(1, 1), sinceMs, 2],
    ["one too many beside failures", counting(1, 2), sinceMs, undefined],
    ["one too many beside others", counting(0, max), sinceMs, undefined],
    ["when the failures are of an earlier window", counting(2, 1), sinceMs + windowMs, 2],
    [
      "when others of an earlier window are still being judged",
      counting(0, max),
      sinceMs + windowMs,
      undefined
    ],
    ["while locked", locked, untilMs - 1, undefined],
    ["when the lock ends", locked, untilMs, 1]
  ])("Reserve, %s", (_, state, nowMs, pending) => {
    const decision = decide(state, "Reserve", nowMs, reserve)
    if (pending === undefined) expect(decision).toMatchObject({ events: [], answer: { refuse: {} } })
    else expect(decision).toMatchObject({ events: [{ pending }], answer: { reply: undefined } })
  })
  const settle = (state: State, failed: boolean) => decide(state, "Settle", sinceMs, { ...fail, failed })
  it("Settle counts a failure and locks at the last, or gives the attempt back", () => {
    expect(settle(counting(1, 2), true)).toMatchObject({
      events: [{ _tag: "Counted", failures: 2, pending: 1 }],
      answer: { reply: false }
    })
    expect(settle(counting(max - 1, 1), true)).toMatchObject({
      events: [{ _tag: "Locked", untilMs: sinceMs + lockMs }],
      answer: { reply: true }
    })
    expect(settle(counting(1, 2), false)).toMatchObject({
      events: [{ _tag: "Counted", failures: 1, pending: 1 }],
      answer: { reply: false }
    })
  })
  it("Settle after a crash, which forgot the attempt, counts none below zero", () =>
    expect(settle(initial, false)).toMatchObject({ events: [{ failures: 0, pending: 0 }] }))
  it("Clear forgives failures, not attempts", () =>
    expect(decide(counting(2, 1), "Clear", sinceMs)).toMatchObject({ events: [{ failures: 0, pending: 1 }] }))
})

describe("Locked", () => {
  it.each([
    ["long before the end", untilMs - lockMs, lockMs],
    ["a millisecond before the end", untilMs - 1, 1]
  ])("Reserve, %s: refused, with the time to wait", (_, nowMs, retryAfterMs) => {
    expect(decide(locked, "Reserve", nowMs, fail)).toMatchObject({
      events: [],
      answer: { refuse: { _tag: "LockedOut", retryAfterMs } }
    })
  })
  it.each([
    ["at the end", untilMs],
    ["after the end", untilMs + 1]
  ])("Reserve, %s: free to try, counted anew", (_, nowMs) => {
    expect(decide(locked, "Reserve", nowMs, fail)).toMatchObject({
      events: [{ ...cleared, pending: 1 }],
      answer: { reply: undefined }
    })
  })
  it("Settle, a millisecond before the end: still locked, and no longer than before", () => {
    expect(decide(locked, "Settle", untilMs - 1, fail)).toMatchObject({ events: [], answer: { reply: true } })
  })
  it("Settle, at the end: the first of a new window", () => {
    expect(decide(locked, "Settle", untilMs, fail)).toMatchObject({
      events: [{ _tag: "Counted", sinceMs: untilMs, failures: 1, pending: 0 }],
      answer: { reply: false }
    })
  })
  it("Settle of a success unlocks nobody", () => {
    expect(decide(locked, "Settle", untilMs - 1, { ...fail, failed: false })).toMatchObject({
      events: [],
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
    const counted = evolve.Counted(locked, { _tag: "Counted", sinceMs, failures: 2, pending: 0 })
    expect(counted).toEqual(counting(2))
    expect(evolve.Locked(counting(2), { _tag: "Locked", untilMs })).toEqual(locked)
  })
  it("nobody has failed at first", () =>
    expect(initial).toEqual({ _tag: "Counting", sinceMs: 0, failures: 0, pending: 0 }))
})
