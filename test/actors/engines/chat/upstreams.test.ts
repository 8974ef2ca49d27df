/** The permits of a model server and the queue for them. Source: docs/spec/chat.md, section 14. */
import { expect, it } from "vitest"
import { Aborter } from "../../../../actors/engines/chat/abort.ts"
import { Deadlines } from "../../../../actors/engines/chat/deadlines.ts"
import { Gate } from "../../../../actors/engines/chat/upstreams.ts"
import { Timers } from "../../../../runtime/timers.ts"

const waitMs = 1_000

const opened = (max: number, queue: number) => {
  const clock = { nowMs: 0 }
  const timers = new Timers(() => clock.nowMs)
  const deadlines = new Deadlines({ monotonicMs: () => clock.nowMs, timers })
  const gate = new Gate({ max, queue, waitMs }, deadlines)
  const advance = (ms: number): void => {
    for (const endMs = clock.nowMs + ms; clock.nowMs < endMs;) {
      clock.nowMs += 50
      timers.tick()
    }
  }
  /** What becomes of a caller: "in", or the reason of its refusal. */
  const enter = (signal = new Aborter()) => {
    const caller = { signal, outcome: "waits" }
    const admission = gate.enter(signal)
    if (admission === undefined) caller.outcome = "in"
    else
      admission.then(
        () => {
          caller.outcome = "in"
        },
        (fault: { readonly reason: string }) => {
          caller.outcome = fault.reason
        }
      )
    return caller
  }
  return { gate, advance, enter }
}

const settled = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve)
  })

it("so many are in, so many wait, the next is refused; whoever leaves lets the first in", async () => {
  const { gate, enter } = opened(2, 2)
  const callers = Array.from({ length: 5 }, () => enter())
  await settled()
  const outcomes = () => callers.map(({ outcome }) => outcome)
  expect(outcomes()).toEqual(["in", "in", "waits", "waits", "queue-full"])
  expect([gate.running, gate.queued]).toEqual([2, 2])
  gate.leave()
  await settled()
  expect(outcomes()).toEqual(["in", "in", "in", "waits", "queue-full"])
  expect([gate.running, gate.queued]).toEqual([2, 1])
  gate.leave()
  gate.leave()
  gate.leave()
  expect([gate.running, gate.queued]).toEqual([0, 0])
})

it("a caller that goes, or has gone, leaves the queue at once", async () => {
  const { gate, enter } = opened(1, 2)
  enter()
  const waiting = enter()
  const left = new Aborter()
  left.abort()
  const late = enter(left)
  await settled()
  expect([waiting.outcome, late.outcome, gate.queued]).toEqual(["waits", "aborted", 1])
  waiting.signal.abort()
  await settled()
  expect([waiting.outcome, gate.queued]).toEqual(["aborted", 0])
  gate.leave()
  expect(gate.running).toBe(0)
})

it("a caller waits so long, then it is refused", async () => {
  const { gate, advance, enter } = opened(1, 2)
  enter()
  const waiting = enter()
  advance(waitMs - 50)
  await settled()
  expect(waiting.outcome).toBe("waits")
  advance(150)
  await settled()
  expect([waiting.outcome, gate.queued]).toEqual(["queue-full", 0])
})
