/** One quality evaluation: it is accepted with its segments in a file, evaluated, and stored for a day. It
 *  guarantees that an accepted job survives a crash and is started again. The evaluation itself is passed in
 *  (QualityPort). Source: docs/spec/translation.md, sections 14 and 17. */
import { Context, Effect, Schema, Stream } from "effect"
import { command, defineActor, persist, refuse, reply, type Facts } from "../runtime/actor.ts"
import { Garbage } from "./garbage.ts"

/** How long a report, or the reason why there is none, is stored, in ms. */
export const retentionMs = 86_400_000

const job = {
  accountId: Schema.String,
  source: Schema.String,
  target: Schema.String,
  /** The id of the blob that holds the segments, and after the evaluation the report. */
  blob: Schema.String
}

const State = Schema.TaggedUnion({
  Absent: {},
  Processing: job,
  Done: { ...job, endedMs: Schema.Int },
  Failed: { ...job, endedMs: Schema.Int, message: Schema.String },
  Gone: {}
})

type State = typeof State.Type
type Processing = Extract<State, { _tag: "Processing" }>
type Ended = Extract<State, { _tag: "Done" | "Failed" }>

const View = Schema.TaggedUnion({
  Processing: job,
  Done: { ...job, endedMs: Schema.Int },
  Failed: { ...job, endedMs: Schema.Int, message: Schema.String }
})

export type QualityView = typeof View.Type
const JobUnknown = Schema.TaggedStruct("JobUnknown", {})
const unknown = () => refuse({ _tag: "JobUnknown" })
const done = () => reply(undefined)
const view = (state: QualityView) => reply(state)

export interface QualityPort {
  /** Reads the segments from `blob` and answers the id of the blob that holds the report. It may be
   *  restarted. */
  readonly evaluate: (
    job: { readonly source: string; readonly target: string; readonly blob: string },
    jobId: string
  ) => Effect.Effect<string, { readonly message: string }>
  readonly clean: Effect.Effect<void>
}

export class QualityWork extends Context.Service<QualityWork, QualityPort>()("actors/QualityWork") {}

const expiresAt = (state: State): number | undefined =>
  state._tag === "Done" || state._tag === "Failed" ? state.endedMs + retentionMs : undefined

const complete = ({ blob }: Processing, { report }: { readonly report: string }, { nowMs }: Facts) =>
  persist({ _tag: "Evaluated", report, atMs: nowMs })
    .with(Garbage.put(["blob", blob], true))
    .reply(undefined)

const fail = (_: unknown, { message }: { readonly message: string }, { nowMs }: Facts) =>
  persist({ _tag: "Broken", message, atMs: nowMs }).reply(undefined)

const expire = ({ blob, endedMs }: Ended, _: unknown, { nowMs }: Facts) => {
  if (nowMs < endedMs + retentionMs) return reply(undefined)
  return persist({ _tag: "Ended" })
    .with(Garbage.put(["blob", blob], true))
    .reply(undefined)
}

const cleaning = () => Stream.unwrap(Effect.map(QualityWork, ({ clean }) => Stream.fromEffectDrain(clean)))

export const QualityJob = defineActor("quality-job", {
  state: State,
  event: Schema.TaggedUnion({
    Accepted: job,
    Evaluated: { report: Schema.String, atMs: Schema.Int },
    Broken: { message: Schema.String, atMs: Schema.Int },
    Ended: {}
  }),
  commands: {
    Accept: command(job, { reply: Schema.Void }),
    Read: command({}, { reply: View, refusal: JobUnknown }),
    Complete: command({ report: Schema.String }, { reply: Schema.Void }),
    Fail: command({ message: Schema.String }, { reply: Schema.Void }),
    Expire: command({}, { reply: Schema.Void })
  },
  keep: "journal",
  mailbox: { capacity: 16 },
  restart: { times: 3, within: "1 minute" },
  passivateAfter: "1 minute",
  expiresAt,
  endsIn: ["Gone"],
  resume: ["Processing"]
}).behaves<QualityWork>({
  initial: { _tag: "Absent" },
  on: {
    Absent: {
      Accept: (_, accepted) => persist({ _tag: "Accepted", ...accepted }).reply(undefined),
      Read: unknown,
      Complete: done,
      Fail: done,
      Expire: done
    },
    Processing: { Accept: done, Read: view, Complete: complete, Fail: fail, Expire: done },
    Done: { Accept: done, Read: view, Complete: done, Fail: done, Expire: expire },
    Failed: { Accept: done, Read: view, Complete: done, Fail: done, Expire: expire },
    Gone: { Accept: done, Read: unknown, Complete: done, Fail: done, Expire: done }
  },
  evolve: {
    Accepted: (_, { accountId, source, target, blob }) => ({
      _tag: "Processing",
      accountId,
      source,
      target,
      blob
    }),
    Evaluated: (state, { report, atMs }) =>
      state._tag === "Processing" ? { ...state, _tag: "Done", blob: report, endedMs: atMs } : state,
    Broken: (state, { message, atMs }) =>
      state._tag === "Processing" ? { ...state, _tag: "Failed", message, endedMs: atMs } : state,
    Ended: () => ({ _tag: "Gone" })
  },
  activity: {
    Processing: ({ source, target, blob }, { id }) =>
      Stream.unwrap(
        Effect.map(QualityWork, ({ evaluate }) =>
          Stream.fromEffect(
            Effect.match(evaluate({ source, target, blob }, id), {
              onSuccess: (report) => ({ _tag: "Complete" as const, report }),
              onFailure: ({ message }) => ({ _tag: "Fail" as const, message })
            })
          )
        )
      ),
    Done: cleaning
  }
})
