/** One voice translation job: it waits for its file, is processed, and ends when its results are fetched or
 *  its time is up. It guarantees that an answer the job has given survives a crash, that interrupted work
 *  restarts by itself, and that its files never outlive it. The work itself is passed in (VoiceJobPort).
 *  Source: docs/spec/translation.md, sections 13 and 17. */
import { Context, Effect, Schema, Stream } from "effect"
import { command, defineActor, persist, refuse, reply, type Facts } from "../runtime/actor.ts"
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

/** The result of one target. Where it failed `blob` is "", and `message` says why. */
export const Result = Schema.Struct({
  blob: Schema.String,
  bytes: Schema.Int,
  message: Schema.String,
  fetched: Schema.Boolean
})

export type Result = typeof Result.Type

/** [accountId, jobId] → bytes of its file. The row exists while the job waits or is being processed. */
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
type Waiting = Extract<State, { _tag: "Waiting" }>
type Processing = Extract<State, { _tag: "Processing" }>
type Done = Extract<State, { _tag: "Done" }>
const JobUnknown = Schema.TaggedStruct("JobUnknown", {})
const JobSettled = Schema.TaggedStruct("JobSettled", {})
const unknown = () => refuse({ _tag: "JobUnknown" })
const settled = () => refuse({ _tag: "JobSettled" })
const done = () => reply(undefined)
const view = (state: VoiceJobView) => reply(state)

export interface VoiceJobOutcome {
  readonly results: ReadonlyArray<Result>
  readonly audioMs: number
}

export interface VoiceJobPort {
  /** Answers one result per target; it may be restarted at any time. It fails with a text for the customer
   *  when no target has a result. */
  readonly run: (
    job: Job,
    blob: string,
    jobId: string
  ) => Effect.Effect<VoiceJobOutcome, { readonly message: string }>
  readonly bill: (job: Job, audioMs: number) => Effect.Effect<void>
  /** Removes garbage. */
  readonly clean: Effect.Effect<void>
}

export class VoiceJobWork extends Context.Service<VoiceJobWork, VoiceJobPort>()("actors/VoiceJobWork") {}

const uploadUntilMs = ({ job }: Waiting): number => job.createdMs + uploadWithinMs
const fetchUntilMs = ({ uploadedMs }: Done): number => uploadedMs + fetchWithinMs

const expiresAt = (state: State): number | undefined => {
  switch (state._tag) {
    case "Waiting":
      return uploadUntilMs(state)
    case "Done":
      return fetchUntilMs(state)
    default:
      return undefined
  }
}

const failed = (message: string): Result => ({ blob: "", bytes: 0, message, fetched: false })

/** A result that failed has nothing to fetch. */
const allFetched = (results: ReadonlyArray<Result>): boolean =>
  results.every(({ blob, fetched }) => blob === "" || fetched)

const markFetched = (results: ReadonlyArray<Result>, index: number): ReadonlyArray<Result> =>
  results.map((result, i) => (i === index ? { ...result, fetched: true } : result))

const create = (_: unknown, { job }: { readonly job: Job }, { id }: Facts) =>
  persist({ _tag: "Created", job })
    .with(OpenVoiceJobs.put([job.accountId, id], job.contentLength))
    .reply(undefined)

const upload = (state: Waiting, { blob }: { readonly blob: string }, { nowMs }: Facts) =>
  nowMs >= uploadUntilMs(state)
    ? settled()
    : persist({ _tag: "Uploaded", blob, atMs: nowMs }).reply(undefined)

const expireWaiting = (state: Waiting, _: unknown, { id, nowMs }: Facts) => {
  if (nowMs < uploadUntilMs(state)) return reply(undefined)
  const results = state.job.targets.map(() => failed("The file was not uploaded in time."))
  return persist({ _tag: "Completed", results, audioMs: 0, atMs: nowMs })
    .with(OpenVoiceJobs.delete([state.job.accountId, id]))
    .reply(undefined)
}

const complete = ({ job, blob }: Processing, { results, audioMs }: VoiceJobOutcome, { id, nowMs }: Facts) =>
  persist({ _tag: "Completed", results, audioMs, atMs: nowMs })
    .with(OpenVoiceJobs.delete([job.accountId, id]), Garbage.put(["blob", blob], true))
    .reply(undefined)

const end = ({ results }: Done) =>
  persist({ _tag: "Ended" })
    .with(...results.flatMap(({ blob }) => (blob === "" ? [] : [Garbage.put(["blob", blob], true)])))
    .reply(undefined)

/** The job ends with the last fetch, but not before its bill is written. */
const fetch = (state: Done, { index }: { readonly index: number }, { nowMs }: Facts) =>
  allFetched(markFetched(state.results, index)) && state.billed
    ? end(state)
    : persist({ _tag: "Fetched", index, atMs: nowMs }).reply(undefined)

/** Records that the bill is written, and ends the job when everything has been fetched meanwhile. A job that
 *  failed as a whole stays, so that its reason can be read. */
const bill = (state: Done) =>
  state.results.some(({ blob }) => blob !== "") && allFetched(state.results)
    ? end(state)
    : persist({ _tag: "Billed" }).reply(undefined)

const expireDone = (state: Done, _: unknown, { nowMs }: Facts) =>
  nowMs < fetchUntilMs(state) ? reply(undefined) : end(state)

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
    Read: command({}, { reply: View, refusal: JobUnknown }),
    Upload: command(
      { blob: Schema.String },
      { reply: Schema.Void, refusal: Schema.Union([JobUnknown, JobSettled]) }
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
  expiresAt,
  endsIn: ["Gone"],
  resume: ["Processing"]
}).behaves<VoiceJobWork>({
  initial: { _tag: "Absent" },
  on: {
    Absent: {
      Create: create,
      Read: unknown,
      Upload: unknown,
      Complete: done,
      Fetch: done,
      Bill: done,
      Expire: done
    },
    Waiting: {
      Create: done,
      Read: view,
      Upload: upload,
      Complete: done,
      Fetch: done,
      Bill: done,
      Expire: expireWaiting
    },
    Processing: {
      Create: done,
      Read: view,
      Upload: settled,
      Complete: complete,
      Fetch: done,
      Bill: done,
      Expire: done
    },
    Done: {
      Create: done,
      Read: view,
      Upload: settled,
      Complete: done,
      Fetch: fetch,
      Bill: bill,
      Expire: expireDone
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
        ? { ...state, job: { ...state.job, updatedMs: atMs }, results: markFetched(state.results, index) }
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
        Effect.map(VoiceJobWork, (port) => {
          if (billed) return Stream.fromEffectDrain(port.clean)
          const cleanedAndBilled = Effect.andThen(port.clean, port.bill(job, audioMs))
          return Stream.fromEffect(Effect.as(cleanedAndBilled, { _tag: "Bill" as const }))
        })
      )
  }
})
