/** One quality evaluation: accepted with its segments in a file, evaluated, kept a day. Guarantee: an
 *  accepted job survives a crash and is begun anew. What evaluating is comes from outside (QualityWork).
 *  Source: translation sections 14 and 17. */
import { Context, Effect, Schema, Stream } from "effect"
import { command, defineActor, persist, refuse, reply } from "../runtime/actor.ts"
import { Garbage } from "./garbage.ts"

export const retentionMs = 86_400_000

const of = {
  accountId: Schema.String,
  source: Schema.String,
  target: Schema.String,
  /** Segments, then the report. */
  blob: Schema.String
}

const State = Schema.TaggedUnion({
  Absent: {},
  Processing: of,
  Done: { ...of, endedMs: Schema.Int },
  Failed: { ...of, endedMs: Schema.Int, message: Schema.String },
  Gone: {}
})

type State = typeof State.Type

const View = Schema.TaggedUnion({
  Processing: of,
  Done: { ...of, endedMs: Schema.Int },
  Failed: { ...of, endedMs: Schema.Int, message: Schema.String }
})

export type QualityView = typeof View.Type
const Unknown = Schema.TaggedStruct("JobUnknown", {})
const unknown = () => refuse({ _tag: "JobUnknown" })
const done = () => reply(undefined)

export interface QualityPort {
  /** Reads the segments from `blob`, answers the blob that holds the report. May begin anew. */
  readonly evaluate: (
    job: { readonly source: string; readonly target: string; readonly blob: string },
    jobId: string
  ) => Effect.Effect<string, { readonly message: string }>
  readonly clean: Effect.Effect<void>
}

export class QualityWork extends Context.Service<QualityWork, QualityPort>()("actors/QualityWork") {}

const expiry = (state: State): number | undefined =>
  state._tag === "Done" || state._tag === "Failed" ? state.endedMs + retentionMs : undefined

const end = (
  state: { readonly blob: string; readonly endedMs: number },
  _: unknown,
  { nowMs }: { readonly nowMs: number }
) =>
  nowMs < state.endedMs + retentionMs
    ? reply(undefined)
    : persist({ _tag: "Ended" })
        .with(Garbage.put(["blob", state.blob], true))
        .reply(undefined)

const cleaning = () => Stream.unwrap(Effect.map(QualityWork, ({ clean }) => Stream.fromEffectDrain(clean)))

export const QualityJob = defineActor("quality-job", {
  state: State,
  event: Schema.TaggedUnion({
    Accepted: of,
    Evaluated: { report: Schema.String, atMs: Schema.Int },
    Broken: { message: Schema.String, atMs: Schema.Int },
    Ended: {}
  }),
  commands: {
    Accept: command(of, { reply: Schema.Void }),
    Read: command({}, { reply: View, refusal: Unknown }),
    Complete: command({ report: Schema.String }, { reply: Schema.Void }),
    Fail: command({ message: Schema.String }, { reply: Schema.Void }),
    Expire: command({}, { reply: Schema.Void })
  },
  keep: "journal",
  mailbox: { capacity: 16 },
  restart: { times: 3, within: "1 minute" },
  passivateAfter: "1 minute",
  expiresAt: expiry,
  endsIn: ["Gone"],
  resume: ["Processing"]
}).behaves<QualityWork>({
  initial: { _tag: "Absent" },
  on: {
    Absent: {
      Accept: (_, job) => persist({ _tag: "Accepted", ...job }).reply(undefined),
      Read: unknown,
      Complete: done,
      Fail: done,
      Expire: done
    },
    Processing: {
      Accept: done,
      Read: (state) => reply(state),
      Complete: ({ blob }, { report }, { nowMs }) =>
        persist({ _tag: "Evaluated", report, atMs: nowMs })
          .with(Garbage.put(["blob", blob], true))
          .reply(undefined),
      Fail: (_, { message }, { nowMs }) => persist({ _tag: "Broken", message, atMs: nowMs }).reply(undefined),
      Expire: done
    },
    Done: { Accept: done, Read: (state) => reply(state), Complete: done, Fail: done, Expire: end },
    Failed: { Accept: done, Read: (state) => reply(state), Complete: done, Fail: done, Expire: end },
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
