/** One job of a translation memory: an import that waits for its file and reads it, or an export that writes
 *  one. It guarantees that an answer the job has given survives a crash, that interrupted work restarts by
 *  itself, and that a memory exists only once it is complete. The work itself is passed in (MemoryPort).
 *  Source: docs/spec/translation.md, sections 9.5–9.8 and 17. */
import { Context, Effect, Schema, Stream } from "effect"
import { command, defineActor, persist, refuse, reply, type Facts } from "../runtime/actor.ts"
import { table } from "../storage/store.ts"
import { Garbage } from "./garbage.ts"

export const Memory = Schema.Struct({
  memoryId: Schema.String,
  accountId: Schema.String,
  name: Schema.String,
  source: Schema.String,
  targets: Schema.Array(Schema.String),
  segments: Schema.Int,
  createdMs: Schema.Int,
  updatedMs: Schema.Int
})

export type Memory = typeof Memory.Type

/** [accountId, memoryId] */
export const Memories = table("translation-memories", Memory)

/** [memoryId] → the job of its newest export */
export const MemoryExports = table("translation-memory-exports", Schema.String)

export const uploadWithinMs = 3_600_000
export const downloadWithinMs = 3_600_000
export const recordRetentionMs = 7 * 86_400_000

export const exportBlob = (jobId: string): string => `tmx-${jobId}`

const Job = Schema.Struct({
  accountId: Schema.String,
  operation: Schema.Literals(["import", "export"]),
  /** The memory that an import creates and an export reads. */
  memoryId: Schema.String,
  name: Schema.NullOr(Schema.String),
  fileName: Schema.String,
  contentType: Schema.String,
  contentLength: Schema.Int,
  createdMs: Schema.Int,
  updatedMs: Schema.Int
})

export type Job = typeof Job.Type
const withJob = { job: Job }

const State = Schema.TaggedUnion({
  Absent: {},
  Awaiting: withJob,
  Importing: { ...withJob, blob: Schema.String },
  Exporting: withJob,
  Imported: { ...withJob, skipped: Schema.Int },
  Exported: { ...withJob, blob: Schema.String, expiresMs: Schema.Int, fetched: Schema.Boolean },
  Failed: { ...withJob, message: Schema.String },
  Expired: withJob,
  Forgotten: {}
})

type State = typeof State.Type
type Awaiting = Extract<State, { _tag: "Awaiting" }>
type Importing = Extract<State, { _tag: "Importing" }>
type Exporting = Extract<State, { _tag: "Exporting" }>
type Exported = Extract<State, { _tag: "Exported" }>
export type MemoryJobView = Exclude<State, { _tag: "Absent" } | { _tag: "Forgotten" }>

const View = Schema.TaggedUnion({
  Awaiting: withJob,
  Importing: { ...withJob, blob: Schema.String },
  Exporting: withJob,
  Imported: { ...withJob, skipped: Schema.Int },
  Exported: { ...withJob, blob: Schema.String, expiresMs: Schema.Int, fetched: Schema.Boolean },
  Failed: { ...withJob, message: Schema.String },
  Expired: withJob
})

const JobUnknown = Schema.TaggedStruct("JobUnknown", {})
const JobSettled = Schema.TaggedStruct("JobSettled", { phase: Schema.String })
const unknown = () => refuse({ _tag: "JobUnknown" })
const done = () => reply(undefined)
const settled = (state: { readonly _tag: string }) => refuse({ _tag: "JobSettled", phase: state._tag })
const view = (state: MemoryJobView) => reply(state)

interface Failure {
  readonly message: string
}

interface ExportRequest {
  readonly job: Job
  readonly after: string | null
}

export interface Imported {
  readonly memory: Memory
  readonly skipped: number
}

/** The work may be restarted at any time. Its effects fail with a text for the customer, and die when the
 *  next try may succeed. */
export interface MemoryPort {
  readonly read: (job: Job, blob: string) => Effect.Effect<Imported, { readonly message: string }>
  readonly write: (
    job: Job,
    jobId: string
  ) => Effect.Effect<{ readonly blob: string }, { readonly message: string }>
  /** Removes garbage; it runs after the end of every job. */
  readonly clean: Effect.Effect<void>
}

export class MemoryWork extends Context.Service<MemoryWork, MemoryPort>()("actors/MemoryWork") {}

const uploadUntilMs = ({ job }: Awaiting): number => job.createdMs + uploadWithinMs

const expiresAt = (state: State): number | undefined => {
  switch (state._tag) {
    case "Awaiting":
      return uploadUntilMs(state)
    case "Exported":
      return state.expiresMs
    case "Imported":
    case "Failed":
    case "Expired":
      return state.job.updatedMs + recordRetentionMs
    default:
      return undefined
  }
}

const forget = persist({ _tag: "Forgotten" }).reply(undefined)

/** Removes the record of a job a week after its end. */
const expireRecord = (state: State, _: unknown, { nowMs }: Facts) =>
  nowMs >= (expiresAt(state) ?? Infinity) ? forget : reply(undefined)

/** Starts an export. The memory must still exist, and `after` must be its newest export: of two concurrent
 *  requests, one is refused. */
const startExport = (_: unknown, { job, after }: ExportRequest, { id }: Facts) =>
  persist({ _tag: "ExportBegun", job })
    .with(
      Memories.check([job.accountId, job.memoryId], "present"),
      MemoryExports.put([job.memoryId], id, after === null ? "absent" : MemoryExports.unchanged(after))
    )
    .otherwise(refuse({ _tag: "JobSettled", phase: "Exporting" }))
    .reply(undefined)

const upload = (state: Awaiting, { blob }: { readonly blob: string }, { nowMs }: Facts) =>
  nowMs >= uploadUntilMs(state)
    ? refuse({ _tag: "JobSettled", phase: "Expired" })
    : persist({ _tag: "Uploaded", blob, atMs: nowMs }).reply(undefined)

const expireAwaiting = (state: Awaiting, _: unknown, { nowMs }: Facts) =>
  nowMs >= uploadUntilMs(state)
    ? persist({ _tag: "Expired", atMs: nowMs }).reply(undefined)
    : reply(undefined)

/** Creates the memory in the commit that ends its import. */
const completeImport = ({ blob }: Importing, { memory, skipped }: Imported, { nowMs }: Facts) =>
  persist({ _tag: "ReadWhole", skipped, atMs: nowMs })
    .with(Memories.put([memory.accountId, memory.memoryId], memory), Garbage.put(["blob", blob], true))
    .reply(undefined)

const failImport = ({ blob, job }: Importing, { message }: Failure, { nowMs }: Facts) =>
  persist({ _tag: "Broken", message, atMs: nowMs })
    .with(Garbage.put(["blob", blob], true), Garbage.put(["memory", job.memoryId], true))
    .reply(undefined)

/** Finishes an export, unless its memory was deleted meanwhile. */
const finishExport = ({ job }: Exporting, { blob }: { readonly blob: string }, { nowMs }: Facts) =>
  persist({ _tag: "Written", blob, atMs: nowMs })
    .with(Memories.check([job.accountId, job.memoryId], "present"))
    .otherwise(reply(undefined))
    .reply(undefined)

const failExport = ({ job }: Exporting, { message }: Failure, { id, nowMs }: Facts) =>
  persist({ _tag: "Broken", message, atMs: nowMs })
    .with(MemoryExports.delete([job.memoryId]), Garbage.put(["blob", exportBlob(id)], true))
    .reply(undefined)

const fetch = ({ fetched }: Exported, _: unknown, { nowMs }: Facts) =>
  fetched ? reply(undefined) : persist({ _tag: "Fetched", atMs: nowMs }).reply(undefined)

const expireExported = ({ expiresMs, blob }: Exported, _: unknown, { nowMs }: Facts) =>
  nowMs < expiresMs
    ? reply(undefined)
    : persist({ _tag: "Expired", atMs: nowMs })
        .with(Garbage.put(["blob", blob], true))
        .reply(undefined)

const cleaning = () => Stream.unwrap(Effect.map(MemoryWork, ({ clean }) => Stream.fromEffectDrain(clean)))

export const MemoryJob = defineActor("memory-job", {
  state: State,
  event: Schema.TaggedUnion({
    Declared: withJob,
    ExportBegun: withJob,
    Uploaded: { blob: Schema.String, atMs: Schema.Int },
    ReadWhole: { skipped: Schema.Int, atMs: Schema.Int },
    Written: { blob: Schema.String, atMs: Schema.Int },
    Fetched: { atMs: Schema.Int },
    Broken: { message: Schema.String, atMs: Schema.Int },
    Expired: { atMs: Schema.Int },
    Forgotten: {}
  }),
  commands: {
    Declare: command(withJob, { reply: Schema.Void }),
    /** Requests an export. It is refused when `after`, the export that the caller has seen, is no longer the
     *  newest. */
    Export: command(
      { ...withJob, after: Schema.NullOr(Schema.String) },
      { reply: Schema.Void, refusal: JobSettled }
    ),
    Read: command({}, { reply: View, refusal: JobUnknown }),
    Upload: command(
      { blob: Schema.String },
      { reply: Schema.Void, refusal: Schema.Union([JobUnknown, JobSettled]) }
    ),
    Complete: command({ memory: Memory, skipped: Schema.Int }, { reply: Schema.Void }),
    Finish: command({ blob: Schema.String }, { reply: Schema.Void }),
    Fail: command({ message: Schema.String }, { reply: Schema.Void }),
    Fetch: command({}, { reply: Schema.Void }),
    Expire: command({}, { reply: Schema.Void })
  },
  keep: "journal",
  mailbox: { capacity: 64 },
  restart: { times: 3, within: "1 minute" },
  passivateAfter: "1 minute",
  expiresAt,
  endsIn: ["Forgotten"],
  resume: ["Importing", "Exporting"]
}).behaves<MemoryWork>({
  initial: { _tag: "Absent" },
  on: {
    Absent: {
      Declare: (_, { job }) => persist({ _tag: "Declared", job }).reply(undefined),
      Export: startExport,
      Read: unknown,
      Upload: unknown,
      Complete: done,
      Finish: done,
      Fail: done,
      Fetch: done,
      Expire: done
    },
    Awaiting: {
      Declare: done,
      Export: settled,
      Read: view,
      Upload: upload,
      Complete: done,
      Finish: done,
      Fail: done,
      Fetch: done,
      Expire: expireAwaiting
    },
    Importing: {
      Declare: done,
      Export: settled,
      Read: view,
      Upload: settled,
      Complete: completeImport,
      Finish: done,
      Fail: failImport,
      Fetch: done,
      Expire: done
    },
    Exporting: {
      Declare: done,
      Export: settled,
      Read: view,
      Upload: settled,
      Complete: done,
      Finish: finishExport,
      Fail: failExport,
      Fetch: done,
      Expire: done
    },
    Imported: {
      Declare: done,
      Export: settled,
      Read: view,
      Upload: settled,
      Complete: done,
      Finish: done,
      Fail: done,
      Fetch: done,
      Expire: expireRecord
    },
    Exported: {
      Declare: done,
      Export: settled,
      Read: view,
      Upload: settled,
      Complete: done,
      Finish: done,
      Fail: done,
      Fetch: fetch,
      Expire: expireExported
    },
    Failed: {
      Declare: done,
      Export: settled,
      Read: view,
      Upload: settled,
      Complete: done,
      Finish: done,
      Fail: done,
      Fetch: done,
      Expire: expireRecord
    },
    Expired: {
      Declare: done,
      Export: settled,
      Read: view,
      Upload: settled,
      Complete: done,
      Finish: done,
      Fail: done,
      Fetch: done,
      Expire: expireRecord
    },
    Forgotten: {
      Declare: done,
      Export: settled,
      Read: unknown,
      Upload: unknown,
      Complete: done,
      Finish: done,
      Fail: done,
      Fetch: done,
      Expire: done
    }
  },
  evolve: {
    Declared: (_, { job }) => ({ _tag: "Awaiting", job }),
    ExportBegun: (_, { job }) => ({ _tag: "Exporting", job }),
    Uploaded: (state, { blob, atMs }) =>
      state._tag === "Awaiting" ? { _tag: "Importing", job: { ...state.job, updatedMs: atMs }, blob } : state,
    ReadWhole: (state, { skipped, atMs }) =>
      state._tag === "Importing"
        ? { _tag: "Imported", job: { ...state.job, updatedMs: atMs }, skipped }
        : state,
    Written: (state, { blob, atMs }) =>
      state._tag === "Exporting"
        ? {
            _tag: "Exported",
            job: { ...state.job, updatedMs: atMs },
            blob,
            expiresMs: atMs + downloadWithinMs,
            fetched: false
          }
        : state,
    Fetched: (state, { atMs }) =>
      state._tag === "Exported" ? { ...state, fetched: true, job: { ...state.job, updatedMs: atMs } } : state,
    Broken: (state, { message, atMs }) =>
      "job" in state ? { _tag: "Failed", job: { ...state.job, updatedMs: atMs }, message } : state,
    Expired: (state, { atMs }) =>
      "job" in state ? { _tag: "Expired", job: { ...state.job, updatedMs: atMs } } : state,
    Forgotten: () => ({ _tag: "Forgotten" })
  },
  activity: {
    Importing: ({ job, blob }) =>
      Stream.unwrap(
        Effect.map(MemoryWork, ({ read }) =>
          Stream.fromEffect(
            Effect.match(read(job, blob), {
              onSuccess: ({ memory, skipped }) => ({ _tag: "Complete" as const, memory, skipped }),
              onFailure: ({ message }) => ({ _tag: "Fail" as const, message })
            })
          )
        )
      ),
    Exporting: ({ job }, { id }) =>
      Stream.unwrap(
        Effect.map(MemoryWork, ({ write }) =>
          Stream.fromEffect(
            Effect.match(write(job, id), {
              onSuccess: ({ blob }) => ({ _tag: "Finish" as const, blob }),
              onFailure: ({ message }) => ({ _tag: "Fail" as const, message })
            })
          )
        )
      ),
    Imported: cleaning,
    Failed: cleaning,
    Expired: cleaning
  }
})
