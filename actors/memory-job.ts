/** One job of a translation memory: an import that waits for its file and reads it, or an export that writes
 *  one. Guarantee: what a job has answered survives a crash, work cut short begins anew by itself, and a
 *  memory exists only once it is whole. What the work is comes from outside (MemoryWork). Source: translation
 *  sections 9.5–9.8 and 17. */
import { Context, Effect, Schema, Stream } from "effect"
import { command, defineActor, persist, refuse, reply } from "../runtime/actor.ts"
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

/** [memoryId] → its newest export's job */
export const MemoryExports = table("translation-memory-exports", Schema.String)

export const uploadWithinMs = 3_600_000
export const downloadWithinMs = 3_600_000
export const recordRetentionMs = 7 * 86_400_000

export const exportBlob = (jobId: string): string => `tmx-${jobId}`

const Job = Schema.Struct({
  accountId: Schema.String,
  operation: Schema.Literals(["import", "export"]),
  /** Made by an import, read by an export. */
  memoryId: Schema.String,
  name: Schema.NullOr(Schema.String),
  fileName: Schema.String,
  contentType: Schema.String,
  contentLength: Schema.Int,
  createdMs: Schema.Int,
  updatedMs: Schema.Int
})

export type Job = typeof Job.Type
const of = { job: Job }

const State = Schema.TaggedUnion({
  Absent: {},
  Awaiting: of,
  Importing: { ...of, blob: Schema.String },
  Exporting: of,
  Imported: { ...of, skipped: Schema.Int },
  Exported: { ...of, blob: Schema.String, expiresMs: Schema.Int, fetched: Schema.Boolean },
  Failed: { ...of, message: Schema.String },
  Expired: of,
  Forgotten: {}
})

type State = typeof State.Type
export type MemoryJobView = Exclude<State, { _tag: "Absent" } | { _tag: "Forgotten" }>

const View = Schema.TaggedUnion({
  Awaiting: of,
  Importing: { ...of, blob: Schema.String },
  Exporting: of,
  Imported: { ...of, skipped: Schema.Int },
  Exported: { ...of, blob: Schema.String, expiresMs: Schema.Int, fetched: Schema.Boolean },
  Failed: { ...of, message: Schema.String },
  Expired: of
})

const Unknown = Schema.TaggedStruct("JobUnknown", {})
const Settled = Schema.TaggedStruct("JobSettled", { phase: Schema.String })
const unknown = () => refuse({ _tag: "JobUnknown" })
const done = () => reply(undefined)
const settled = (state: { readonly _tag: string }) => refuse({ _tag: "JobSettled", phase: state._tag })
const view = (state: MemoryJobView) => reply(state)

export interface Imported {
  readonly memory: Memory
  readonly skipped: number
}

/** Reading and writing the file: may begin anew at any time. Fails with a text for the customer; dies when it
 *  may work the next time. */
export interface MemoryPort {
  readonly read: (job: Job, blob: string) => Effect.Effect<Imported, { readonly message: string }>
  readonly write: (
    job: Job,
    jobId: string
  ) => Effect.Effect<{ readonly blob: string }, { readonly message: string }>
  /** Removes garbage; started after every job's end. */
  readonly clean: Effect.Effect<void>
}

export class MemoryWork extends Context.Service<MemoryWork, MemoryPort>()("actors/MemoryWork") {}

const endsAt = (state: State): number | undefined => {
  switch (state._tag) {
    case "Awaiting":
      return state.job.createdMs + uploadWithinMs
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

const later = (state: State, _: unknown, { nowMs }: { readonly nowMs: number }) =>
  nowMs >= (endsAt(state) ?? Infinity) ? forget : reply(undefined)

const cleaning = () => Stream.unwrap(Effect.map(MemoryWork, ({ clean }) => Stream.fromEffectDrain(clean)))

export const MemoryJob = defineActor("memory-job", {
  state: State,
  event: Schema.TaggedUnion({
    Declared: of,
    ExportBegun: of,
    Uploaded: { blob: Schema.String, atMs: Schema.Int },
    ReadWhole: { skipped: Schema.Int, atMs: Schema.Int },
    Written: { blob: Schema.String, atMs: Schema.Int },
    Fetched: { atMs: Schema.Int },
    Broken: { message: Schema.String, atMs: Schema.Int },
    Expired: { atMs: Schema.Int },
    Forgotten: {}
  }),
  commands: {
    Declare: command(of, { reply: Schema.Void }),
    /** Refused while the memory's last export, `after`, is not the newest any more. */
    Export: command({ ...of, after: Schema.NullOr(Schema.String) }, { reply: Schema.Void, refusal: Settled }),
    Read: command({}, { reply: View, refusal: Unknown }),
    Upload: command(
      { blob: Schema.String },
      { reply: Schema.Void, refusal: Schema.Union([Unknown, Settled]) }
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
  expiresAt: endsAt,
  endsIn: ["Forgotten"],
  resume: ["Importing", "Exporting"]
}).behaves<MemoryWork>({
  initial: { _tag: "Absent" },
  on: {
    Absent: {
      Declare: (_, { job }) => persist({ _tag: "Declared", job }).reply(undefined),
      Export: (_, { job, after }, { id }) =>
        persist({ _tag: "ExportBegun", job })
          .with(
            Memories.check([job.accountId, job.memoryId], "present"),
            MemoryExports.put([job.memoryId], id, after === null ? "absent" : MemoryExports.unchanged(after))
          )
          .otherwise(refuse({ _tag: "JobSettled", phase: "Exporting" }))
          .reply(undefined),
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
      Upload: (state, { blob }, { nowMs }) =>
        nowMs >= endsAt(state)!
          ? refuse({ _tag: "JobSettled", phase: "Expired" })
          : persist({ _tag: "Uploaded", blob, atMs: nowMs }).reply(undefined),
      Complete: done,
      Finish: done,
      Fail: done,
      Fetch: done,
      Expire: (state, _, { nowMs }) =>
        nowMs >= endsAt(state)!
          ? persist({ _tag: "Expired", atMs: nowMs }).reply(undefined)
          : reply(undefined)
    },
    Importing: {
      Declare: done,
      Export: settled,
      Read: view,
      Upload: settled,
      Complete: ({ blob }, { memory, skipped }, { nowMs }) =>
        persist({ _tag: "ReadWhole", skipped, atMs: nowMs })
          .with(Memories.put([memory.accountId, memory.memoryId], memory), Garbage.put(["blob", blob], true))
          .reply(undefined),
      Finish: done,
      Fail: ({ blob, job }, { message }, { nowMs }) =>
        persist({ _tag: "Broken", message, atMs: nowMs })
          .with(Garbage.put(["blob", blob], true), Garbage.put(["memory", job.memoryId], true))
          .reply(undefined),
      Fetch: done,
      Expire: done
    },
    Exporting: {
      Declare: done,
      Export: settled,
      Read: view,
      Upload: settled,
      Complete: done,
      Finish: ({ job }, { blob }, { nowMs }) =>
        persist({ _tag: "Written", blob, atMs: nowMs })
          .with(Memories.check([job.accountId, job.memoryId], "present"))
          .otherwise(reply(undefined))
          .reply(undefined),
      Fail: ({ job }, { message }, { id, nowMs }) =>
        persist({ _tag: "Broken", message, atMs: nowMs })
          .with(MemoryExports.delete([job.memoryId]), Garbage.put(["blob", exportBlob(id)], true))
          .reply(undefined),
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
      Expire: later
    },
    Exported: {
      Declare: done,
      Export: settled,
      Read: view,
      Upload: settled,
      Complete: done,
      Finish: done,
      Fail: done,
      Fetch: ({ fetched }, _, { nowMs }) =>
        fetched ? reply(undefined) : persist({ _tag: "Fetched", atMs: nowMs }).reply(undefined),
      Expire: (state, _, { nowMs }) =>
        nowMs < state.expiresMs
          ? reply(undefined)
          : persist({ _tag: "Expired", atMs: nowMs })
              .with(Garbage.put(["blob", state.blob], true))
              .reply(undefined)
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
      Expire: later
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
      Expire: later
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
