/** Whose document is next. Source: docs/spec/documents.md, section 10. */
import { expect, it } from "vitest"
import { FairScheduler } from "../../../actors/documents/fair-scheduler.ts"

const opened = (atOnce: number, perAccount: number) => {
  const scheduler = new FairScheduler({ atOnce, perAccount, nowMs: () => 0 })
  const started: Array<string> = []
  const enter = (...ids: ReadonlyArray<string>): void => {
    for (const id of ids) scheduler.enter(id, id[0]!, () => started.push(id))
  }
  return { scheduler, started, enter }
}

it("so many documents run at once, and so many of one account", () => {
  const { scheduler, started, enter } = opened(4, 2)
  enter("a1", "a2", "a3", "b1", "c1", "d1")
  expect(started).toEqual(["a1", "a2", "b1", "c1"])
  scheduler.leave("b1")
  expect(started.slice(4)).toEqual(["d1"])
  scheduler.leave("c1")
  expect(started.slice(5)).toEqual([])
  scheduler.leave("a1")
  expect(started.slice(5)).toEqual(["a3"])
})

it("the account with the fewest is next, then the order of arrival; who leaves the queue is not called", () => {
  const { scheduler, started, enter } = opened(2, 2)
  enter("a1", "a2", "a3", "b1", "b2", "c1")
  scheduler.leave("b1")
  scheduler.leave("a1")
  expect(started.slice(2)).toEqual(["b2"])
  scheduler.leave("a2")
  expect(started.slice(3)).toEqual(["a3"])
})
