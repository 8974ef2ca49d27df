/** The document job's rules as a table (docs/spec/documents.md, sections 9 and 10), the fold and the expiry. */
import { describe, expect, it } from "vitest"
import { DocumentJob, Documents, interruptedText } from "../../actors/document-job.ts"
import type { DocumentMeta } from "../../actors/documents/meta.ts"
import type { Write } from "../../storage/store.ts"
import { actorId, describeRules, done, quiet, refuses, replies, rulesOf, type Tagged } from "./rules.ts"

const { fold } = rulesOf(DocumentJob)
const hourMs = 3_600_000
const dayMs = 86_400_000

const meta: DocumentMeta = {
  accountId: "acc",
  keyId: "key",
  format: "docx",
  extension: "docx",
  convertTo: null,
  sealedName: "name",
  check: "check",
  sourceBytes: 9,
  source: null,
  target: "de",
  options: { formality: "default", glossaryIds: [], styleId: null, memoryId: null, memoryThreshold: 75 },
  watermark: false,
  tag: null,
  charactersMax: 1_000,
  periodMs: 7
}

const absent = { _tag: "Absent" }
const queued = { _tag: "Translating", meta, begun: false }
const translating = { _tag: "Translating", meta, begun: true }
const locked = { _tag: "Locked", meta, atMs: 1_000 }
const finished = { _tag: "Done", meta, atMs: 1_000, billed: 50_000, resultBytes: 9 }
const failed = { _tag: "Failed", meta, atMs: 1_000, text: "no" }
const leaving = { _tag: "Leaving", meta }
const removed = { _tag: "Gone" }
const unknown = replies({ _tag: "Unknown" })
const notDownloaded = replies(false)

const add = (key: ReadonlyArray<string | number>, amount: number): Write => ({
  _tag: "add",
  table: "document-counts",
  key,
  amount
})

const notUsed = add(["used", "acc", 7], -1)
const leavingRows = [Documents.delete(["acc", actorId]), add(["open", "acc"], -1)]
const leaves = { ...done, events: [{ _tag: "Left" }], rows: leavingRows }
const inert = ["Receive", "Begin", "Lock", "Unlock", "Finish", "Fail"]

const received = (documentsMax: number | null) => ({
  title: documentsMax === null ? "any number in its period" : "so many in its period, else refused",
  state: absent,
  command: "Receive",
  payload: { meta, documentsMax },
  nowMs: 1_000,
  decides: {
    ...done,
    events: [{ _tag: "Received", meta }],
    rows: [
      Documents.put(["acc", actorId], { check: "check", receivedMs: 1_000 }, "absent"),
      add(["open", "acc"], 1),
      { ...add(["used", "acc", 7], 1), ...(documentsMax === null ? {} : { max: documentsMax }) } as Write
    ],
    otherwise: refuses({ _tag: "DocumentsUsedUp" }).answer
  }
})

const fails = (state: Tagged) => ({
  title: "does not count as used",
  state,
  command: "Fail",
  payload: { text: "no" },
  nowMs: 1_000,
  decides: { ...done, events: [{ _tag: "Failed", text: "no", atMs: 1_000 }], rows: [notUsed] }
})

const removes = (state: Tagged) => ({
  title: "cannot be asked for any more",
  state,
  command: "Remove",
  nowMs: 2_000,
  decides: leaves
})

const expires = (state: Tagged, forMs: number, decides: ReturnType<typeof replies>) => [
  { title: "a ms before its time", state, command: "Expire", nowMs: 999 + forMs, decides: done },
  { title: "at its time", state, command: "Expire", nowMs: 1_000 + forMs, decides }
]

describeRules(DocumentJob, [
  received(null),
  received(0),
  received(20),
  ...quiet(absent, ["Begin", "Lock", "Unlock", "Finish", "Fail", "Remove", "Expire"], {
    Inspect: unknown,
    Downloaded: notDownloaded
  }),

  ...quiet(queued, ["Receive"], { Inspect: replies({ _tag: "Queued" }) }),
  { title: "its turn", state: queued, command: "Begin", decides: { ...done, events: [{ _tag: "Begun" }] } },
  ...quiet(translating, ["Begin", "Unlock", "Expire"], {
    Inspect: replies({ _tag: "Translating" }),
    Downloaded: notDownloaded
  }),
  {
    title: "without its key",
    state: translating,
    command: "Lock",
    nowMs: 1_000,
    decides: { ...done, events: [{ _tag: "Locked", atMs: 1_000 }] }
  },
  {
    title: "with its result",
    state: translating,
    command: "Finish",
    payload: { billed: 50_000, resultBytes: 9 },
    nowMs: 1_000,
    decides: { ...done, events: [{ _tag: "Finished", atMs: 1_000, billed: 50_000, resultBytes: 9 }] }
  },
  fails(translating),
  removes(translating),

  ...quiet(locked, ["Receive", "Begin", "Lock", "Finish"], {
    Inspect: replies({ _tag: "Locked" }),
    Downloaded: notDownloaded
  }),
  {
    title: "its key is here again",
    state: locked,
    command: "Unlock",
    decides: { ...done, events: [{ _tag: "Unlocked" }] }
  },
  fails(locked),
  removes(locked),
  ...expires(locked, hourMs, {
    ...done,
    events: [{ _tag: "Failed", text: interruptedText, atMs: 1_000 + hourMs }],
    rows: [notUsed]
  }),

  ...quiet(finished, inert, { Inspect: replies({ _tag: "Done", billed: 50_000, resultBytes: 9, meta }) }),
  {
    title: "the bill is written with the end, once",
    state: finished,
    command: "Downloaded",
    payload: {
      bill: [
        { table: "usage", key: ["acc", 1], amount: 50_000 },
        { table: "usage-keys", key: ["acc", "key"], amount: null }
      ]
    },
    decides: {
      ...replies(true),
      events: [{ _tag: "Left" }],
      rows: [
        ...leavingRows,
        { _tag: "add", table: "usage", key: ["acc", 1], amount: 50_000 },
        { _tag: "put", table: "usage-keys", key: ["acc", "key"], value: new Uint8Array(0) }
      ]
    }
  },
  removes(finished),
  ...expires(finished, dayMs, leaves),

  ...quiet(failed, inert, { Inspect: replies({ _tag: "Failed", text: "no" }), Downloaded: notDownloaded }),
  removes(failed),
  ...expires(failed, dayMs, leaves),

  ...quiet(leaving, [...inert, "Expire"], { Inspect: unknown, Downloaded: notDownloaded }),
  {
    title: "its bytes are removed",
    state: leaving,
    command: "Remove",
    decides: { ...done, events: [{ _tag: "Removed" }] }
  },
  ...quiet(removed, [...inert, "Remove", "Expire"], { Inspect: unknown, Downloaded: notDownloaded })
])

describe("the fold", () => {
  it.each<[string, Tagged, Tagged, Tagged]>([
    ["received", absent, { _tag: "Received", meta }, queued],
    ["its turn", queued, { _tag: "Begun" }, translating],
    ["locked", translating, { _tag: "Locked", atMs: 1_000 }, locked],
    ["unlocked: it waits for a turn again", locked, { _tag: "Unlocked" }, queued],
    ["finished", translating, { _tag: "Finished", atMs: 1_000, billed: 50_000, resultBytes: 9 }, finished],
    ["failed", translating, { _tag: "Failed", atMs: 1_000, text: "no" }, failed],
    ["failed without its key", locked, { _tag: "Failed", atMs: 1_000, text: "no" }, failed],
    ["downloaded", finished, { _tag: "Left" }, leaving],
    ["removed", leaving, { _tag: "Removed" }, removed],
    ["a turn that comes late", locked, { _tag: "Begun" }, locked]
  ])("%s", (_, state, event, after) => expect(fold(state, event)).toEqual(after))
  it("a job that was never received has nothing to fold", () => {
    for (const event of [{ _tag: "Unlocked" }, { _tag: "Left" }, { _tag: "Locked", atMs: 1 }])
      expect(() => fold(absent, event)).toThrow("no document in phase Absent")
  })
})

it("expires an hour after its key is missed, a day after its end", () => {
  const { expiresAt, endsIn, resume, initial } = DocumentJob
  const states = [locked, finished, failed, absent, queued, leaving, removed]
  expect(states.map((state) => expiresAt!(state as never))).toEqual([
    1_000 + hourMs,
    1_000 + dayMs,
    1_000 + dayMs,
    undefined,
    undefined,
    undefined,
    undefined
  ])
  expect({ initial, endsIn, resume }).toEqual({
    initial: absent,
    endsIn: ["Gone"],
    resume: ["Translating", "Leaving"]
  })
})
