/** One voice translation job: waits for its file, is worked off, and is gone when its results are fetched or
 *  its time is over. Guarantee: what was answered survives a crash, work cut short begins anew by itself, its
 *  files never outlive it. What the work is comes from outside (VoiceJobWork). Source: translation sections
 *  13 and 17. */
import { Context, Effect, Schema, Stream } from "effect"
import { command, defineActor, persist, refuse, reply } from "../runtime/actor.ts"
import { table } from "../storage/store.ts"
import { Garbage } from "./garbage.ts"

const Target = Schema.Struct({ language: Schema.String, type: Schema.String })

export const Job = Schema.Struct({
  accountId: Schema.String,
  keyId: Schema.String,
  name: Schema.String,
  contentType: Schema.String,
  contentLength: Schema.Int,
  sourceLanguage: Schema.NullOr(Schema.String),
  targets: Schema.Array(Target),
  createdMs: Schema.Int,
  updatedMs: Schema.Int
})

export type Job = typeof Job.Type

/** `blob` "": it failed, by `message`. */
export const Result = Schema.Struct({
  blob: Schema.String,
  bytes: Schema.Int,
  message: Schema.String,
  fetched: Schema.Boolean
})

export type Result = typeof Result.Type

/** [accountId, jobId] → bytes of its file: jobs that wait or are worked on. */
export const OpenVoiceJobs = table("translation-voice-jobs-open", Schema.Int)

export const uploadWithinMs = 300_000
export const fetchWithinMs = 3_600_000

const State = Schema.TaggedUnion({
  Absent: {},
  Waiting: { job: Job },
  Processing: { job: Job, blob: Schema.String, uploadedMs: Schema.Int },
  Done: {
    job: Job,
    uploadedMs: Schema.Int,
    results: Schema.Array(Result),
    audioMs: Schema.Int,
    billed: Schema.Boolean
  },
  Gone: {}
})

type State = typeof State.Type

const View = Schema.TaggedUnion({
  Waiting: { job: Job },
  Processing: { job: Job, blob: Schema.String, uploadedMs: Schema.Int },
  Done: {
    job: Job,
    uploadedMs: Schema.Int,
    results: Schema.Array(Result),
    audioMs: Schema.Int,
    billed: Schema.Boolean
  }
})

export type VoiceJobView = typeof View.Type
type Done = Extract<State, { _tag: "Done" }>
const Unknown = Schema.TaggedStruct("JobUnknown", {})
const Settled = Schema.TaggedStruct("JobSettled", {})
const unknown = () => refuse({ _tag: "JobUnknown" })
const settled = () => refuse({ _tag: "JobSettled" })
const done = () => reply(undefined)

export interface VoiceJobPort {
  /** May begin anew at any time. One result per target. Fails with a text for the customer when there is none
   *  for any. */
  readonly run: (
    job: Job,
    blob: string,
    jobId: string
  ) => Effect.Effect<
    { readonly results: ReadonlyArray<Result>; readonly audioMs: number },
    { readonly message: string }
  >
  readonly bill: (job: Job, audioMs: number) => Effect.Effect<void>
  readonly clean: Effect.Effect<void>
}

export class VoiceJobWork extends Context.Service<VoiceJobWork, VoiceJobPort>()("actors/VoiceJobWork") {}

const endsAt = (state: State): number | undefined =>
  state._tag === "Waiting"
    ? state.job.createdMs + uploadWithinMs
    : state._tag === "Done"
      ? state.uploadedMs + fetchWithinMs
      : undefined

const failed = (message: string): Result => ({ blob: "", bytes: 0, message, fetched: false })

const gone = ({ results }: Done) =>
  persist({ _tag: "Ended" })
    .with(...results.flatMap(({ blob }) => (blob === "" ? [] : [Garbage.put(["blob", blob], true)])))
    .reply(undefined)

export const VoiceJob = defineActor("voice-job", {
  state: State,
  event: Schema.TaggedUnion({
    Created: { job: Job },
    Uploaded: { blob: Schema.String, atMs: Schema.Int },
    Completed: { results: Schema.Array(Result), audioMs: Schema.Int, atMs: Schema.Int },
    Fetched: { index: Schema.Int, atMs: Schema.Int },
    Billed: {},
    Ended: {}
  }),
  commands: {
    Create: command({ job: Job }, { reply: Schema.Void }),
    Read: command({}, { reply: View, refusal: Unknown }),
    Upload: command(
      { blob: Schema.String },
      { reply: Schema.Void, refusal: Schema.Union([Unknown, Settled]) }
    ),
    Complete: command({ results: Schema.Array(Result), audioMs: Schema.Int }, { reply: Schema.Void }),
    Fetch: command({ index: Schema.Int }, { reply: Schema.Void }),
    Bill: command({}, { reply: Schema.Void }),
    Expire: command({}, { reply: Schema.Void })
  },
  keep: "journal",
  mailbox: { capacity: 64 },
  restart: { times: 3, within: "1 minute" },
  passivateAfter: "1 minute",
  expiresAt: endsAt,
  endsIn: ["Gone"],
  resume: ["Processing"]
}).behaves<VoiceJobWork>({
  initial: { _tag: "Absent" },
  on: {
    Absent: {
      Create: (_, { job }, { id }) =>
        persist({ _tag: "Created", job })
          .with(OpenVoiceJobs.put([job.accountId, id], job.contentLength))
          .reply(undefined),
      Read: unknown,
      Upload: unknown,
      Complete: done,
      Fetch: done,
      Bill: done,
      Expire: done
    },
    Waiting: {
      Create: done,
      Read: (state) => reply(state),
      Upload: (state, { blob }, { nowMs }) =>
        nowMs >= endsAt(state)!
          ? settled()
          : persist({ _tag: "Uploaded", blob, atMs: nowMs }).reply(undefined),
      Complete: done,
      Fetch: done,
      Bill: done,
      Expire: (state, _, { id, nowMs }) =>
        nowMs < endsAt(state)!
          ? reply(undefined)
          : persist({
              _tag: "Completed",
              results: state.job.targets.map(() => failed("The file was not uploaded in time.")),
              audioMs: 0,
              atMs: nowMs
            })
              .with(OpenVoiceJobs.delete([state.job.accountId, id]))
              .reply(undefined)
    },
    Processing: {
      Create: done,
      Read: (state) => reply(state),
      Upload: settled,
      Complete: ({ job, blob }, { results, audioMs }, { id, nowMs }) =>
        persist({ _tag: "Completed", results, audioMs, atMs: nowMs })
          .with(OpenVoiceJobs.delete([job.accountId, id]), Garbage.put(["blob", blob], true))
          .reply(undefined),
      Fetch: done,
      Bill: done,
      Expire: done
    },
    Done: {
      Create: done,
      Read: (state) => reply(state),
      Upload: settled,
      Complete: done,
      Fetch: (state, { index }, { nowMs }) => {
        const results = state.results.map((result, i) =>
          i === index ? { ...result, fetched: true } : result
        )
        return results.every(({ blob, fetched }) => blob === "" || fetched) && state.billed
          ? gone(state)
          : persist({ _tag: "Fetched", index, atMs: nowMs }).reply(undefined)
      },
      Bill: (state) =>
        state.results.some(({ blob }) => blob !== "") &&
        state.results.every(({ blob, fetched }) => blob === "" || fetched)
          ? gone(state)
          : persist({ _tag: "Billed" }).reply(undefined),
      Expire: (state, _, { nowMs }) => (nowMs < endsAt(state)! ? reply(undefined) : gone(state))
    },
    Gone: {
      Create: done,
      Read: unknown,
      Upload: unknown,
      Complete: done,
      Fetch: done,
      Bill: done,
      Expire: done
    }
  },
  evolve: {
    Created: (_, { job }) => ({ _tag: "Waiting", job }),
    Uploaded: (state, { blob, atMs }) =>
      state._tag === "Waiting"
        ? { _tag: "Processing", job: { ...state.job, updatedMs: atMs }, blob, uploadedMs: atMs }
        : state,
    Completed: (state, { results, audioMs, atMs }) =>
      "job" in state
        ? {
            _tag: "Done",
            job: { ...state.job, updatedMs: atMs },
            uploadedMs: state._tag === "Processing" ? state.uploadedMs : atMs,
            results,
            audioMs,
            billed: audioMs === 0
          }
        : state,
    Fetched: (state, { index, atMs }) =>
      state._tag === "Done"
        ? {
            ...state,
            job: { ...state.job, updatedMs: atMs },
            results: state.results.map((result, i) => (i === index ? { ...result, fetched: true } : result))
          }
        : state,
    Billed: (state) => (state._tag === "Done" ? { ...state, billed: true } : state),
    Ended: () => ({ _tag: "Gone" })
  },
  activity: {
    Processing: ({ job, blob }, { id }) =>
      Stream.unwrap(
        Effect.map(VoiceJobWork, ({ run }) =>
          Stream.fromEffect(
            Effect.match(run(job, blob, id), {
              onSuccess: ({ results, audioMs }) => ({ _tag: "Complete" as const, results, audioMs }),
              onFailure: ({ message }) => ({
                _tag: "Complete" as const,
                results: job.targets.map(() => failed(message)),
                audioMs: 0
              })
            })
          )
        )
      ),
    Done: ({ job, audioMs, billed }) =>
      Stream.unwrap(
        Effect.map(VoiceJobWork, ({ bill, clean }) =>
          billed
            ? Stream.fromEffectDrain(clean)
            : Stream.fromEffect(
                Effect.as(Effect.andThen(clean, bill(job, audioMs)), { _tag: "Bill" as const })
              )
        )
      )
  }
})
