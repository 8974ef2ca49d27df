/** The rules of a subscription's deliveries as a table (docs/spec/store.md, section 9.2), and the fold. */
import { describe, expect, it } from "vitest"
import { webhookDelivery } from "../../actors/webhook-delivery.ts"
import type { Write } from "../../storage/store.ts"
import { actorId, describeRules, done, quiet, rulesOf, type Tagged } from "./rules.ts"

const rowOf = (...key: ReadonlyArray<string | number>): Write => ({ _tag: "delete", table: "outbox", key })

const delivery = webhookDelivery({
  waitsMs: [30_000, 300_000],
  done: (subscription, seq) => [rowOf("done", subscription, seq)],
  aside: (subscription, seq, why, atMs) => [rowOf("aside", subscription, seq, why, atMs)]
})

const { fold } = rulesOf(delivery)
const idle = { _tag: "Idle" }
const sending = (after: number, seq = 0, attempts = 0, woken = false): Tagged => ({
  _tag: "Sending",
  after,
  seq,
  attempts,
  woken
})
const resting = (after: number, seq = 0, attempts = 0, untilMs = 0): Tagged => ({
  _tag: "Resting",
  after,
  seq,
  attempts,
  untilMs
})

const failure = (title: string, state: Tagged, untilMs: number) => ({
  title,
  state,
  command: "Failed",
  payload: { seq: 5, why: "no" },
  nowMs: 1_000,
  decides: { ...done, events: [{ _tag: "Failed", seq: 5, untilMs }] }
})

describeRules(delivery, [
  { title: "begins", state: idle, command: "Wake", decides: { ...done, events: [{ _tag: "Woken" }] } },
  ...quiet(idle, ["Delivered", "Failed", "Rested", "Emptied"]),

  {
    title: "an entry came meanwhile",
    state: sending(4),
    command: "Wake",
    decides: { ...done, events: [{ _tag: "Woken" }] }
  },
  { title: "knows that already", state: sending(4, 0, 0, true), command: "Wake", decides: done },
  {
    title: "the entry leaves the outbox in the same commit",
    state: sending(4),
    command: "Delivered",
    payload: { seq: 5 },
    decides: { ...done, events: [{ _tag: "Delivered", seq: 5 }], rows: [rowOf("done", actorId, 5)] }
  },
  failure("the first attempt: it waits", sending(4), 31_000),
  failure("the second attempt: it waits longer", sending(4, 5, 1), 301_000),
  failure("attempts of another entry do not count", sending(4, 3, 2), 31_000),
  {
    title: "the attempt after the last wait: it is put aside with its reason",
    state: sending(4, 5, 2),
    command: "Failed",
    payload: { seq: 5, why: "no" },
    nowMs: 1_000,
    decides: {
      ...done,
      events: [{ _tag: "PutAside", seq: 5 }],
      rows: [rowOf("aside", actorId, 5, "no", 1_000)]
    }
  },
  ...quiet(sending(4), ["Rested"]),
  {
    title: "nothing is left",
    state: sending(4),
    command: "Emptied",
    decides: { ...done, events: [{ _tag: "Emptied" }] }
  },
  {
    title: "nothing is left, but an entry came meanwhile: it looks again",
    state: sending(4, 0, 0, true),
    command: "Emptied",
    decides: { ...done, events: [{ _tag: "Rested" }] }
  },

  ...quiet(resting(4, 5, 1, 9_000), ["Wake", "Delivered", "Failed", "Emptied"]),
  {
    title: "the wait is over",
    state: resting(4, 5, 1, 9_000),
    command: "Rested",
    decides: { ...done, events: [{ _tag: "Rested" }] }
  }
])

describe("the fold", () => {
  it.each<[string, Tagged, Tagged, Tagged]>([
    ["woken from idle: from the outbox's start", idle, { _tag: "Woken" }, sending(0)],
    ["woken while sending", sending(4, 5, 1), { _tag: "Woken" }, sending(4, 5, 1, true)],
    ["woken while resting", resting(4, 5, 1, 9), { _tag: "Woken" }, resting(4, 5, 1, 9)],
    ["delivered: the next", sending(4, 5, 1, true), { _tag: "Delivered", seq: 5 }, sending(5, 0, 0, true)],
    ["failed first", sending(4, 3, 2), { _tag: "Failed", seq: 5, untilMs: 9 }, resting(4, 5, 1, 9)],
    ["failed again", sending(4, 5, 1), { _tag: "Failed", seq: 5, untilMs: 9 }, resting(4, 5, 2, 9)],
    ["put aside: the next, at once", sending(4, 5, 2), { _tag: "PutAside", seq: 5 }, resting(5)],
    ["the wait is over: the same entry", resting(4, 5, 1, 9), { _tag: "Rested" }, sending(4, 5, 1)],
    ["looks again, without a wait", sending(4, 5, 1, true), { _tag: "Rested" }, resting(4)],
    ["rested while idle", idle, { _tag: "Rested" }, idle],
    ["emptied", sending(4), { _tag: "Emptied" }, idle]
  ])("%s", (_, state, event, after) => expect(fold(state, event)).toEqual(after))
  it("events that come late change nothing", () => {
    for (const state of [idle, resting(4, 5, 1, 9)])
      for (const event of [
        { _tag: "Delivered", seq: 5 },
        { _tag: "Failed", seq: 5, untilMs: 1 },
        { _tag: "PutAside", seq: 5 }
      ])
        expect(fold(state, event)).toEqual(state)
  })
  it("starts idle, and goes on by itself after a restart", () => {
    const { initial, resume, keep } = delivery
    expect({ initial, resume, keep }).toEqual({
      initial: idle,
      resume: ["Sending", "Resting"],
      keep: "snapshot"
    })
  })
})
