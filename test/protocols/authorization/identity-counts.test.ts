/** Bounded counts of strangers. Source: docs/spec/authorization.md, section 3.5. */
import { describe, expect, it } from "vitest"
import { CallCounts, FailureCounts, identityOf } from "../../../protocols/authorization/identity-counts.ts"

const windowMs = 2_000
const startMs = 1_000_000
const identitiesMax = 3

const clock = () => {
  const time = { nowMs: startMs }
  return { time, nowMs: () => time.nowMs }
}

describe("calls of a source", () => {
  const opened = (limit = 2) => {
    const { time, nowMs } = clock()
    return { time, calls: new CallCounts({ limit, windowMs }, identitiesMax, nowMs) }
  }
  it("as many as the limit are permitted, then the source waits for the window's end", () => {
    const { time, calls } = opened()
    time.nowMs += 500
    expect([calls.take("a"), calls.take("a"), calls.take("a"), calls.take("b")]).toEqual([0, 0, 1_500, 0])
    time.nowMs = startMs + windowMs
    expect(calls.take("a")).toBe(0)
  })
  it("a clock that steps back by a window stays in the window it was in", () => {
    const { time, calls } = opened(1)
    calls.take("a")
    time.nowMs -= windowMs
    expect(calls.take("a")).toBe(2 * windowMs)
    time.nowMs -= 1
    expect(calls.take("a")).toBe(0)
  })
  it("A-2: the number of sources is bounded, and the oldest that may still call makes room", () => {
    const { calls } = opened()
    calls.take("spent")
    calls.take("spent")
    for (let i = 0; i < 1_000; i++) expect(calls.take(`source ${i}`)).toBe(0)
    expect(calls.size).toBe(identitiesMax)
    expect(calls.take("spent")).toBe(windowMs)
    expect(calls.take("source 999")).toBe(0)
    expect(calls.take("source 999")).toBe(windowMs)
  })
  it("A-2: where all sources have used up their calls, a newcomer is refused", () => {
    const { calls } = opened(1)
    for (const source of ["a", "b", "c"]) expect(calls.take(source)).toBe(0)
    expect(calls.take("d")).toBe(windowMs)
    expect(calls.size).toBe(identitiesMax)
  })
  it("A-2: a window that has ended is dropped without a call", () => {
    const { time, calls } = opened()
    calls.take("a")
    time.nowMs += windowMs
    calls.sweep()
    expect(calls.size).toBe(0)
  })
})

describe("failures of an identity", () => {
  const rule = { max: 3, windowMs: 60_000, lockMs: 900_000 }
  const opened = () => {
    const { time, nowMs } = clock()
    return { time, failures: new FailureCounts(rule, identitiesMax, nowMs) }
  }
  const lock = (failures: FailureCounts, identity: string): void => {
    for (let i = 0; i < rule.max; i++) failures.fail(identity)
  }
  it("the last of the limit locks, for the length of a lock", () => {
    const { time, failures } = opened()
    expect([1, 2, 3].map(() => failures.fail("a"))).toEqual([false, false, true])
    expect(failures.retryAfterMs("a")).toBe(rule.lockMs)
    time.nowMs += rule.lockMs - 1
    expect([failures.retryAfterMs("a"), failures.fail("a"), failures.retryAfterMs("a")]).toEqual([1, true, 1])
    time.nowMs += 1
    expect([failures.retryAfterMs("a"), failures.fail("a")]).toEqual([0, false])
  })
  it("failures count within a window that begins with the first of them", () => {
    const { time, failures } = opened()
    failures.fail("a")
    time.nowMs += rule.windowMs - 1
    failures.fail("a")
    time.nowMs += 1
    expect([failures.fail("a"), failures.fail("a")]).toEqual([false, false])
    expect(failures.fail("a")).toBe(true)
  })
  it("A-2: the number of identities is bounded: the oldest that is not locked makes room", () => {
    const { failures } = opened()
    lock(failures, "locked")
    for (let i = 0; i < 1_000; i++) failures.fail(`identity ${i}`)
    expect(failures.size).toBe(identitiesMax)
    expect(failures.retryAfterMs("locked")).toBe(rule.lockMs)
    failures.fail("identity 999")
    expect(failures.fail("identity 999")).toBe(true)
    expect([failures.fail("identity 998"), failures.fail("identity 998")]).toEqual([false, true])
  })
  it("A-2: where all are locked, a newcomer's failure is refused and not counted", () => {
    const { time, failures } = opened()
    for (const identity of ["a", "b", "c"]) lock(failures, identity)
    expect(failures.fail("d")).toBe(true)
    expect([failures.size, failures.retryAfterMs("d")]).toEqual([identitiesMax, 0])
    time.nowMs += rule.lockMs
    expect(failures.fail("d")).toBe(false)
  })
  it("A-2: windows and locks that have ended leave the table", () => {
    const { time, failures } = opened()
    failures.fail("a")
    lock(failures, "b")
    time.nowMs += rule.windowMs
    failures.sweep()
    expect([failures.size, failures.anyLocked]).toEqual([1, true])
    time.nowMs += rule.lockMs
    failures.sweep()
    expect([failures.size, failures.anyLocked]).toEqual([0, false])
  })
})

it("A-2: an identity has one length, whatever was written", () => {
  expect(identityOf("192.0.2.7", "a")).toHaveLength(22)
  expect(identityOf("192.0.2.7", "x".repeat(1_800))).toHaveLength(22)
  expect(identityOf("192.0.2.7", "a")).not.toBe(identityOf("192.0.2.8", "a"))
})
