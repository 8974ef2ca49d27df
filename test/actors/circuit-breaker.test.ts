/** The breaker's rules as a table (docs/spec/chat.md, section 14), and the fold. */
import { describe, expect, it } from "vitest"
import { breakerPolicy, CircuitBreaker } from "../../actors/circuit-breaker.ts"
import { describeRules, done, refuses, rulesOf, type Row, type Tagged } from "./rules.ts"

const { fold } = rulesOf(CircuitBreaker)
const policy = { failuresMax: 5, withinMs: 30_000, openMs: 15_000 }
const circuitOpen = refuses({ _tag: "CircuitOpen" })
const closed = (failures: number, firstMs: number) => ({ _tag: "Closed", failures, firstMs })
const open = { _tag: "Open", untilMs: 1_000 }
const probing = { _tag: "Probing", sinceMs: 1_000 }
const decides = (event: Tagged) => ({ ...done, events: [event] })

const failed = (title: string, state: Tagged, nowMs: number, event: Tagged): Row => ({
  title,
  state,
  command: "Failed",
  payload: policy,
  nowMs,
  decides: decides(event)
})

describeRules(CircuitBreaker, [
  { title: "passes", state: closed(4, 0), command: "Acquire", nowMs: 1, decides: done },
  { title: "nothing to forget", state: closed(0, 0), command: "Succeeded", nowMs: 1, decides: done },
  {
    title: "one success forgets the failures",
    state: closed(1, 7),
    command: "Succeeded",
    nowMs: 8,
    decides: decides(closed(0, 0))
  },
  { title: "tells nothing", state: closed(4, 0), command: "Release", nowMs: 1, decides: done },
  failed("the first is counted from now", closed(0, 0), 1_000, closed(1, 1_000)),
  failed("the second counts with the first", closed(1, 1_000), 2_000, closed(2, 1_000)),
  failed("the fourth does not open yet", closed(3, 1_000), 2_000, closed(4, 1_000)),
  failed("the fifth opens", closed(4, 0), 1_000, { _tag: "Opened", untilMs: 16_000 }),
  failed("the fifth opens at the last moment", closed(4, 1_000), 31_000, { _tag: "Opened", untilMs: 46_000 }),
  failed("a moment later it is a first one", closed(4, 1_000), 31_001, closed(1, 31_001)),
  {
    title: "a policy of one failure opens at once",
    state: closed(0, 0),
    command: "Failed",
    payload: { ...policy, failuresMax: 1 },
    nowMs: 1_000,
    decides: decides({ _tag: "Opened", untilMs: 16_000 })
  },

  { title: "refuses until its time", state: open, command: "Acquire", nowMs: 999, decides: circuitOpen },
  {
    title: "the first caller at its time probes",
    state: open,
    command: "Acquire",
    nowMs: 1_000,
    decides: decides({ _tag: "Probed", sinceMs: 1_000 })
  },
  { title: "a late report changes nothing", state: open, command: "Succeeded", nowMs: 1, decides: done },
  {
    title: "a late report changes nothing",
    state: open,
    command: "Failed",
    payload: policy,
    nowMs: 1,
    decides: done
  },
  { title: "a late report changes nothing", state: open, command: "Release", nowMs: 1, decides: done },

  {
    title: "refuses while the probe is out",
    state: probing,
    command: "Acquire",
    nowMs: 600_999,
    decides: circuitOpen
  },
  {
    title: "a probe that is not reported on gives its place to another",
    state: probing,
    command: "Acquire",
    nowMs: 601_000,
    decides: decides({ _tag: "Probed", sinceMs: 601_000 })
  },
  {
    title: "the probe closes it",
    state: probing,
    command: "Succeeded",
    nowMs: 2_000,
    decides: decides(closed(0, 0))
  },
  failed("the probe opens it again", probing, 2_000, { _tag: "Opened", untilMs: 17_000 }),
  {
    title: "an aborted probe lets the next caller probe",
    state: probing,
    command: "Release",
    nowMs: 2_000,
    decides: decides({ _tag: "Opened", untilMs: 2_000 })
  }
])

describe("the fold", () => {
  it.each([
    [closed(2, 7), closed(2, 7)],
    [
      { _tag: "Opened", untilMs: 9 },
      { _tag: "Open", untilMs: 9 }
    ],
    [
      { _tag: "Probed", sinceMs: 9 },
      { _tag: "Probing", sinceMs: 9 }
    ]
  ])("%j → %j", (event, state) => {
    for (const before of [closed(4, 1), open, probing]) expect(fold(before, event)).toEqual(state)
  })
  it("starts closed, stores nothing, and has the specification's policy", () => {
    expect(CircuitBreaker.initial).toEqual(closed(0, 0))
    expect(CircuitBreaker.keep).toBe("memory")
    expect(breakerPolicy).toEqual(policy)
  })
})
