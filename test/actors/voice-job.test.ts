/** The voice job's rules as a table (docs/spec/translation.md, sections 13 and 17), the fold and the expiry. */
import { describe, expect, it } from "vitest"
import { Garbage } from "../../actors/garbage.ts"
import { OpenVoiceJobs, VoiceJob, type Job, type Result } from "../../actors/voice-job.ts"
import { actorId, describeRules, done, quiet, refuses, replies, rulesOf } from "./rules.ts"

const { fold } = rulesOf(VoiceJob)
const uploadMs = 300_000
const fetchMs = 3_600_000

const job: Job = {
  accountId: "acc",
  keyId: "key",
  name: "speech.wav",
  contentType: "audio/wav",
  contentLength: 4_321,
  sourceLanguage: null,
  targets: [
    { language: "de", type: "text" },
    { language: "fr", type: "text" }
  ],
  createdMs: 1_000,
  updatedMs: 1_000
}

const result = (blob: string, fetched = false): Result => ({ blob, bytes: 9, message: "", fetched })
const failure = (message: string): Result => ({ blob: "", bytes: 0, message, fetched: false })
const absent = { _tag: "Absent" }
const waiting = { _tag: "Waiting", job }
const uploaded = { ...job, updatedMs: 2_000 }
const processing = { _tag: "Processing", job: uploaded, blob: "file", uploadedMs: 2_000 }

const ended = (results: ReadonlyArray<Result>, billed: boolean) => ({
  _tag: "Done",
  job: { ...job, updatedMs: 3_000 },
  uploadedMs: 2_000,
  results,
  audioMs: 500,
  billed
})

const fresh = ended([result("a"), result("b")], true)
const halfFetched = ended([result("a", true), result("b")], true)
const removed = { _tag: "Gone" }
const unknown = refuses({ _tag: "JobUnknown" })
const settled = refuses({ _tag: "JobSettled" })
const untimely = "The file was not uploaded in time."
const garbage = (blob: string) => Garbage.put(["blob", blob], true)
const ends = { ...done, events: [{ _tag: "Ended" }], rows: [garbage("a"), garbage("b")] }
const fetched = (index: number) => ({ _tag: "Fetched", index, atMs: 4_000 })

describeRules(VoiceJob, [
  {
    title: "is created, and open with its bytes",
    state: absent,
    command: "Create",
    payload: { job },
    decides: {
      ...done,
      events: [{ _tag: "Created", job }],
      rows: [OpenVoiceJobs.put(["acc", actorId], 4_321)]
    }
  },
  ...quiet(absent, ["Complete", "Fetch", "Bill", "Expire"], { Read: unknown, Upload: unknown }),

  ...quiet(waiting, ["Create", "Complete", "Fetch", "Bill"], { Read: replies(waiting) }),
  {
    title: "at the last moment",
    state: waiting,
    command: "Upload",
    payload: { blob: "file" },
    nowMs: uploadMs + 999,
    decides: { ...done, events: [{ _tag: "Uploaded", blob: "file", atMs: uploadMs + 999 }] }
  },
  {
    title: "too late",
    state: waiting,
    command: "Upload",
    payload: { blob: "file" },
    nowMs: uploadMs + 1_000,
    decides: settled
  },
  { title: "before its time", state: waiting, command: "Expire", nowMs: uploadMs + 999, decides: done },
  {
    title: "fails for every target, and is open no more",
    state: waiting,
    command: "Expire",
    nowMs: uploadMs + 1_000,
    decides: {
      ...done,
      events: [
        {
          _tag: "Completed",
          results: [failure(untimely), failure(untimely)],
          audioMs: 0,
          atMs: uploadMs + 1_000
        }
      ],
      rows: [OpenVoiceJobs.delete(["acc", actorId])]
    }
  },

  ...quiet(processing, ["Create", "Fetch", "Bill", "Expire"], { Read: replies(processing), Upload: settled }),
  {
    title: "its file is garbage, and it is open no more",
    state: processing,
    command: "Complete",
    payload: { results: [result("a")], audioMs: 500 },
    nowMs: 3_000,
    decides: {
      ...done,
      events: [{ _tag: "Completed", results: [result("a")], audioMs: 500, atMs: 3_000 }],
      rows: [OpenVoiceJobs.delete(["acc", actorId]), garbage("file")]
    }
  },

  ...quiet(fresh, ["Create", "Complete"], { Read: replies(fresh), Upload: settled }),
  {
    title: "one of two",
    state: fresh,
    command: "Fetch",
    payload: { index: 0 },
    nowMs: 4_000,
    decides: { ...done, events: [fetched(0)] }
  },
  {
    title: "the one that was fetched already",
    state: halfFetched,
    command: "Fetch",
    payload: { index: 0 },
    nowMs: 4_000,
    decides: { ...done, events: [fetched(0)] }
  },
  { title: "the last ends it", state: halfFetched, command: "Fetch", payload: { index: 1 }, decides: ends },
  {
    title: "the last, before the bill is written: it stays",
    state: { ...halfFetched, billed: false },
    command: "Fetch",
    payload: { index: 1 },
    nowMs: 4_000,
    decides: { ...done, events: [fetched(1)] }
  },
  {
    title: "the last that has a result",
    state: ended([failure("no"), result("b")], true),
    command: "Fetch",
    payload: { index: 1 },
    decides: { ...ends, rows: [garbage("b")] }
  },
  {
    title: "nothing was fetched yet",
    state: { ...fresh, billed: false },
    command: "Bill",
    decides: { ...done, events: [{ _tag: "Billed" }] }
  },
  {
    title: "one of two was fetched",
    state: { ...halfFetched, billed: false },
    command: "Bill",
    decides: { ...done, events: [{ _tag: "Billed" }] }
  },
  {
    title: "everything was fetched meanwhile",
    state: ended([result("a", true), result("b", true)], false),
    command: "Bill",
    decides: ends
  },
  {
    title: "everything that has a result was fetched meanwhile",
    state: ended([failure("no"), result("b", true)], false),
    command: "Bill",
    decides: { ...ends, rows: [garbage("b")] }
  },
  {
    title: "nothing has a result: its reason can still be read",
    state: ended([failure("no"), failure("no")], false),
    command: "Bill",
    decides: { ...done, events: [{ _tag: "Billed" }] }
  },
  {
    title: "before its hour is over",
    state: fresh,
    command: "Expire",
    nowMs: fetchMs + 1_999,
    decides: done
  },
  { title: "at the end of its hour", state: fresh, command: "Expire", nowMs: fetchMs + 2_000, decides: ends },
  ...quiet(removed, ["Create", "Complete", "Fetch", "Bill", "Expire"], { Read: unknown, Upload: unknown })
])

describe("the fold", () => {
  const completed = { _tag: "Completed", results: [result("a"), result("b")], audioMs: 500, atMs: 3_000 }
  it("from its creation to its end", () => {
    expect(VoiceJob.initial).toEqual(absent)
    expect(fold(absent, { _tag: "Created", job })).toEqual(waiting)
    expect(fold(waiting, { _tag: "Uploaded", blob: "file", atMs: 2_000 })).toEqual(processing)
    expect(fold(processing, completed)).toEqual({ ...fresh, billed: false })
    expect(fold({ ...fresh, billed: false }, { _tag: "Billed" })).toEqual(fresh)
    expect(fold(fresh, { _tag: "Fetched", index: 0, atMs: 4_000 })).toEqual({
      ...halfFetched,
      job: { ...job, updatedMs: 4_000 }
    })
    expect(fold(fresh, { _tag: "Ended" })).toEqual(removed)
  })
  it("without audio there is nothing to bill; without a file its hour begins with its end", () => {
    expect(fold(processing, { ...completed, audioMs: 0 })).toMatchObject({ billed: true })
    expect(fold(waiting, { ...completed, audioMs: 0 })).toMatchObject({ uploadedMs: 3_000, billed: true })
  })
  it("events that come late change nothing", () => {
    for (const state of [absent, removed]) {
      expect(fold(state, completed)).toEqual(state)
      for (const event of [{ _tag: "Billed" }, fetched(0)]) expect(fold(state, event)).toEqual(state)
    }
    for (const state of [processing, fresh, removed])
      expect(fold(state, { _tag: "Uploaded", blob: "late", atMs: 9 })).toEqual(state)
  })
})

it("expires five minutes after its creation without a file, an hour after its file with results", () => {
  const { expiresAt, endsIn, resume } = VoiceJob
  const expiries = [absent, waiting, processing, fresh, removed].map((state) => expiresAt!(state as never))
  expect(expiries).toEqual([undefined, uploadMs + 1_000, undefined, fetchMs + 2_000, undefined])
  expect({ endsIn, resume }).toEqual({ endsIn: ["Gone"], resume: ["Processing"] })
})
