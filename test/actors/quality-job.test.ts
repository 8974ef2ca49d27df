/** The quality job's rules as a table (docs/spec/translation.md, sections 14 and 17), the fold and the expiry. */
import { describe, expect, it } from "vitest"
import { Garbage } from "../../actors/garbage.ts"
import { QualityJob } from "../../actors/quality-job.ts"
import { describeRules, done, quiet, refuses, replies, rulesOf } from "./rules.ts"

const { fold } = rulesOf(QualityJob)
const dayMs = 86_400_000
const job = { accountId: "acc", source: "en", target: "de", blob: "segments" }
const absent = { _tag: "Absent" }
const processing = { _tag: "Processing", ...job }
const evaluated = { _tag: "Done", ...job, blob: "report", endedMs: 1_000 }
const broken = { _tag: "Failed", ...job, endedMs: 1_000, message: "no" }
const removed = { _tag: "Gone" }
const unknown = refuses({ _tag: "JobUnknown" })

const expiry = (state: typeof evaluated | typeof broken) =>
  [
    { title: "a ms before its day is over", state, command: "Expire", nowMs: dayMs + 999, decides: done },
    {
      title: "at the end of its day, with its blob",
      state,
      command: "Expire",
      nowMs: dayMs + 1_000,
      decides: { ...done, events: [{ _tag: "Ended" }], rows: [Garbage.put(["blob", state.blob], true)] }
    }
  ] as const

describeRules(QualityJob, [
  {
    title: "is accepted",
    state: absent,
    command: "Accept",
    payload: job,
    decides: { ...done, events: [{ _tag: "Accepted", ...job }] }
  },
  ...quiet(absent, ["Complete", "Fail", "Expire"], { Read: unknown }),

  ...quiet(processing, ["Accept", "Expire"], { Read: replies(processing) }),
  {
    title: "the segments are garbage",
    state: processing,
    command: "Complete",
    payload: { report: "report" },
    nowMs: 1_000,
    decides: {
      ...done,
      events: [{ _tag: "Evaluated", report: "report", atMs: 1_000 }],
      rows: [Garbage.put(["blob", "segments"], true)]
    }
  },
  {
    title: "the segments stay until its day is over",
    state: processing,
    command: "Fail",
    payload: { message: "no" },
    nowMs: 1_000,
    decides: { ...done, events: [{ _tag: "Broken", message: "no", atMs: 1_000 }] }
  },

  ...quiet(evaluated, ["Accept", "Complete", "Fail"], { Read: replies(evaluated) }),
  ...expiry(evaluated),
  ...quiet(broken, ["Accept", "Complete", "Fail"], { Read: replies(broken) }),
  ...expiry(broken),
  ...quiet(removed, ["Accept", "Complete", "Fail", "Expire"], { Read: unknown })
])

describe("the fold", () => {
  it("from its acceptance to its end", () => {
    expect(QualityJob.initial).toEqual(absent)
    expect(fold(absent, { _tag: "Accepted", ...job })).toEqual(processing)
    expect(fold(processing, { _tag: "Evaluated", report: "report", atMs: 1_000 })).toEqual(evaluated)
    expect(fold(processing, { _tag: "Broken", message: "no", atMs: 1_000 })).toEqual(broken)
    expect(fold(evaluated, { _tag: "Ended" })).toEqual(removed)
  })
  it("events that come late change nothing", () => {
    for (const state of [absent, evaluated, broken, removed]) {
      expect(fold(state, { _tag: "Evaluated", report: "late", atMs: 9 })).toEqual(state)
      expect(fold(state, { _tag: "Broken", message: "late", atMs: 9 })).toEqual(state)
    }
  })
})

it("expires a day after its end, and only then", () => {
  const { expiresAt, endsIn, resume } = QualityJob
  expect([evaluated, broken].map((state) => expiresAt!(state as never))).toEqual([
    dayMs + 1_000,
    dayMs + 1_000
  ])
  expect([absent, processing, removed].map((state) => expiresAt!(state as never))).toEqual([
    undefined,
    undefined,
    undefined
  ])
  expect({ endsIn, resume }).toEqual({ endsIn: ["Gone"], resume: ["Processing"] })
})
