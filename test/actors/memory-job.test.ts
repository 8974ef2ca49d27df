/** The memory job's rules as a table (docs/spec/translation.md, sections 9.5–9.8 and 17), the fold and the
 *  expiry. */
import { describe, expect, it } from "vitest"
import { Garbage } from "../../actors/garbage.ts"
import { Memories, MemoryExports, MemoryJob, type Job, type Memory } from "../../actors/memory-job.ts"
import { actorId, describeRules, done, quiet, refuses, replies, rulesOf, type Tagged } from "./rules.ts"

const { fold } = rulesOf(MemoryJob)
const hourMs = 3_600_000
const weekMs = 7 * 86_400_000

const job: Job = {
  accountId: "acc",
  operation: "import",
  memoryId: "mem",
  name: "words",
  fileName: "words.tmx",
  contentType: "application/xml",
  contentLength: 9,
  createdMs: 1_000,
  updatedMs: 1_000
}

const memory: Memory = {
  memoryId: "mem",
  accountId: "acc",
  name: "words",
  source: "en",
  targets: ["de"],
  segments: 3,
  createdMs: 1_000,
  updatedMs: 1_000
}

const updated = { ...job, updatedMs: 2_000 }
const absent = { _tag: "Absent" }
const awaiting = { _tag: "Awaiting", job }
const importing = { _tag: "Importing", job: updated, blob: "file" }
const exporting = { _tag: "Exporting", job }
const imported = { _tag: "Imported", job: updated, skipped: 2 }
const exported = { _tag: "Exported", job: updated, blob: "tmx", expiresMs: 2_000 + hourMs, fetched: false }
const failed = { _tag: "Failed", job: updated, message: "no" }
const expired = { _tag: "Expired", job: updated }
const forgotten = { _tag: "Forgotten" }
const unknown = refuses({ _tag: "JobUnknown" })
const settled = (phase: string) => refuses({ _tag: "JobSettled", phase })
const garbage = (kind: "blob" | "memory", id: string) => Garbage.put([kind, id], true)
const inMemory = Memories.check(["acc", "mem"], "present")

/** The cells of a phase in which nothing is under way, but for Expire. */
const settledPhase = (state: Tagged) =>
  quiet(state, ["Declare", "Complete", "Finish", "Fail", "Fetch"], {
    Export: settled(state._tag),
    Read: replies(state),
    Upload: settled(state._tag)
  })

const weekOver = (state: Tagged) => [
  { title: "before its week is over", state, command: "Expire", nowMs: weekMs + 1_999, decides: done },
  {
    title: "at the end of its week",
    state,
    command: "Expire",
    nowMs: weekMs + 2_000,
    decides: { ...done, events: [{ _tag: "Forgotten" }] }
  }
]

const startsExport = (
  after: string | null,
  condition: "absent" | ReturnType<typeof MemoryExports.unchanged>
) => ({
  title: after === null ? "the memory's first" : "after the newest, as long as it is the newest",
  state: absent,
  command: "Export",
  payload: { job, after },
  decides: {
    ...done,
    events: [{ _tag: "ExportBegun", job }],
    rows: [inMemory, MemoryExports.put(["mem"], actorId, condition)],
    otherwise: settled("Exporting").answer
  }
})

describeRules(MemoryJob, [
  {
    title: "an import waits for its file",
    state: absent,
    command: "Declare",
    payload: { job },
    decides: { ...done, events: [{ _tag: "Declared", job }] }
  },
  startsExport(null, "absent"),
  startsExport("older", MemoryExports.unchanged("older")),
  ...quiet(absent, ["Complete", "Finish", "Fail", "Fetch", "Expire"], { Read: unknown, Upload: unknown }),

  ...quiet(awaiting, ["Declare", "Complete", "Finish", "Fail", "Fetch"], {
    Export: settled("Awaiting"),
    Read: replies(awaiting)
  }),
  {
    title: "at the last moment",
    state: awaiting,
    command: "Upload",
    payload: { blob: "file" },
    nowMs: hourMs + 999,
    decides: { ...done, events: [{ _tag: "Uploaded", blob: "file", atMs: hourMs + 999 }] }
  },
  {
    title: "too late",
    state: awaiting,
    command: "Upload",
    payload: { blob: "file" },
    nowMs: hourMs + 1_000,
    decides: settled("Expired")
  },
  {
    title: "before its hour is over",
    state: awaiting,
    command: "Expire",
    nowMs: hourMs + 999,
    decides: done
  },
  {
    title: "at the end of its hour",
    state: awaiting,
    command: "Expire",
    nowMs: hourMs + 1_000,
    decides: { ...done, events: [{ _tag: "Expired", atMs: hourMs + 1_000 }] }
  },

  ...quiet(importing, ["Declare", "Finish", "Fetch", "Expire"], {
    Export: settled("Importing"),
    Read: replies(importing),
    Upload: settled("Importing")
  }),
  {
    title: "the memory appears, the file is garbage",
    state: importing,
    command: "Complete",
    payload: { memory, skipped: 2 },
    nowMs: 2_000,
    decides: {
      ...done,
      events: [{ _tag: "ReadWhole", skipped: 2, atMs: 2_000 }],
      rows: [Memories.put(["acc", "mem"], memory), garbage("blob", "file")]
    }
  },
  {
    title: "file and half a memory are garbage",
    state: importing,
    command: "Fail",
    payload: { message: "no" },
    nowMs: 2_000,
    decides: {
      ...done,
      events: [{ _tag: "Broken", message: "no", atMs: 2_000 }],
      rows: [garbage("blob", "file"), garbage("memory", "mem")]
    }
  },

  ...quiet(exporting, ["Declare", "Complete", "Fetch", "Expire"], {
    Export: settled("Exporting"),
    Read: replies(exporting),
    Upload: settled("Exporting")
  }),
  {
    title: "only while the memory exists",
    state: exporting,
    command: "Finish",
    payload: { blob: "tmx" },
    nowMs: 2_000,
    decides: {
      ...done,
      events: [{ _tag: "Written", blob: "tmx", atMs: 2_000 }],
      rows: [inMemory],
      otherwise: done.answer
    }
  },
  {
    title: "the memory may be exported anew, the file is garbage",
    state: exporting,
    command: "Fail",
    payload: { message: "no" },
    nowMs: 2_000,
    decides: {
      ...done,
      events: [{ _tag: "Broken", message: "no", atMs: 2_000 }],
      rows: [MemoryExports.delete(["mem"]), garbage("blob", `tmx-${actorId}`)]
    }
  },

  ...settledPhase(imported),
  ...weekOver(imported),
  ...settledPhase(failed),
  ...weekOver(failed),
  ...settledPhase(expired),
  ...weekOver(expired),

  ...settledPhase({ ...exported, fetched: true }),
  {
    title: "is noted",
    state: exported,
    command: "Fetch",
    nowMs: 3_000,
    decides: { ...done, events: [{ _tag: "Fetched", atMs: 3_000 }] }
  },
  {
    title: "before its hour is over",
    state: exported,
    command: "Expire",
    nowMs: hourMs + 1_999,
    decides: done
  },
  {
    title: "at the end of its hour, with its file",
    state: exported,
    command: "Expire",
    nowMs: hourMs + 2_000,
    decides: { ...done, events: [{ _tag: "Expired", atMs: hourMs + 2_000 }], rows: [garbage("blob", "tmx")] }
  },

  ...quiet(forgotten, ["Declare", "Complete", "Finish", "Fail", "Fetch", "Expire"], {
    Export: settled("Forgotten"),
    Read: unknown,
    Upload: unknown
  })
])

describe("the fold", () => {
  it.each<[string, Tagged, Tagged, Tagged]>([
    ["declared", absent, { _tag: "Declared", job }, awaiting],
    ["an export", absent, { _tag: "ExportBegun", job }, exporting],
    ["uploaded", awaiting, { _tag: "Uploaded", blob: "file", atMs: 2_000 }, importing],
    ["imported", importing, { _tag: "ReadWhole", skipped: 2, atMs: 2_000 }, imported],
    ["exported: an hour from now", exporting, { _tag: "Written", blob: "tmx", atMs: 2_000 }, exported],
    [
      "fetched",
      exported,
      { _tag: "Fetched", atMs: 3_000 },
      { ...exported, fetched: true, job: { ...job, updatedMs: 3_000 } }
    ],
    ["an import fails", { ...importing, job }, { _tag: "Broken", message: "no", atMs: 2_000 }, failed],
    ["an export fails", exporting, { _tag: "Broken", message: "no", atMs: 2_000 }, failed],
    ["not uploaded", awaiting, { _tag: "Expired", atMs: 2_000 }, expired],
    ["not downloaded", { ...exported, job }, { _tag: "Expired", atMs: 2_000 }, expired],
    ["forgotten", expired, { _tag: "Forgotten" }, forgotten]
  ])("%s", (_, state, event, after) => expect(fold(state, event)).toEqual(after))
  it("events that come late change nothing", () => {
    for (const state of [absent, imported, failed, expired, forgotten])
      for (const event of [
        { _tag: "Uploaded", blob: "late", atMs: 9 },
        { _tag: "ReadWhole", skipped: 9, atMs: 9 },
        { _tag: "Written", blob: "late", atMs: 9 },
        { _tag: "Fetched", atMs: 9 }
      ])
        expect(fold(state, event)).toEqual(state)
    for (const state of [absent, forgotten])
      for (const event of [
        { _tag: "Broken", message: "late", atMs: 9 },
        { _tag: "Expired", atMs: 9 }
      ])
        expect(fold(state, event)).toEqual(state)
  })
})

it("expires an hour after its declaration or its file, a week after its end", () => {
  const { expiresAt, endsIn, resume, initial } = MemoryJob
  const states = [awaiting, exported, imported, failed, expired, absent, importing, exporting, forgotten]
  expect(states.map((state) => expiresAt!(state as never))).toEqual([
    hourMs + 1_000,
    hourMs + 2_000,
    ...[imported, failed, expired].map(() => weekMs + 2_000),
    ...[absent, importing, exporting, forgotten].map(() => undefined)
  ])
  expect({ initial, endsIn, resume }).toEqual({
    initial: absent,
    endsIn: ["Forgotten"],
    resume: ["Importing", "Exporting"]
  })
})
