/** One subscription's deliveries: in the order of the outbox, one at a time, each at least once. What failed
 *  waits, longer each time, and is at last put aside; one slow target delays nobody else. It goes on by
 *  itself after a restart of the process.
 *  Source: store section 9.2. */
import { Context, Effect, Schema, Stream } from "effect"
import { command, defineActor, persist, reply } from "../runtime/actor.ts"
import type { Write } from "../storage/store.ts"

/** What became of one attempt. */
export type Attempt = { readonly delivered: true } | { readonly delivered: false; readonly why: string }

export interface DeliveryPort {
  /** The first entry of the subscription's outbox after `seq`; undefined: nothing is waiting. */
  readonly next: (subscription: string, after: number) => number | undefined
  /** One attempt; never fails. `last`: the fallback target is tried too. */
  readonly attempt: (subscription: string, seq: number, last: boolean) => Effect.Effect<Attempt>
  /** Rows that take the entry out of the outbox. */
  readonly done: (subscription: string, seq: number) => ReadonlyArray<Write>
  /** Rows that put it aside, counted. */
  readonly aside: (subscription: string, seq: number, why: string, atMs: number) => ReadonlyArray<Write>
  /** Waits before the second, third … attempt; after the last of them it is put aside. */
  readonly waitsMs: ReadonlyArray<number>
  /** The clock by which rests end. */
  readonly nowMs: () => number
}

export class Deliveries extends Context.Service<Deliveries, DeliveryPort>()("actors/Deliveries") {}

const State = Schema.TaggedUnion({
  Idle: {},
  /** `attempts` of the entry `seq` have failed so far; `woken`: an entry came while it looked. */
  Sending: { after: Schema.Int, seq: Schema.Int, attempts: Schema.Int, woken: Schema.Boolean },
  Resting: { after: Schema.Int, seq: Schema.Int, attempts: Schema.Int, untilMs: Schema.Int }
})

type State = typeof State.Type
const fresh = (after: number): State => ({ _tag: "Sending", after, seq: 0, attempts: 0, woken: false })
const done = () => reply(undefined)
const entry = { seq: Schema.Int }

type AttemptOutcome =
  | { readonly _tag: "Emptied" }
  | { readonly _tag: "Delivered"; readonly seq: number }
  | { readonly _tag: "Failed"; readonly seq: number; readonly why: string }

/** Entry after entry, until nothing is left or one fails. */
const sending = (
  outside: DeliveryPort,
  id: string,
  state: { readonly after: number; readonly seq: number; readonly attempts: number }
): Stream.Stream<AttemptOutcome> =>
  Stream.unfold(
    { after: state.after, over: false },
    ({
      after,
      over
    }): Effect.Effect<
      readonly [AttemptOutcome, { readonly after: number; readonly over: boolean }] | undefined
    > => {
      if (over) return Effect.succeed(undefined)
      const seq = outside.next(id, after)
      if (seq === undefined) return Effect.succeed([{ _tag: "Emptied" }, { after, over: true }])
      const attempts = state.seq === seq ? state.attempts : 0
      return Effect.map(outside.attempt(id, seq, attempts >= outside.waitsMs.length), (result) =>
        result.delivered
          ? [
              { _tag: "Delivered", seq },
              { after: seq, over: false }
            ]
          : [
              { _tag: "Failed", seq, why: result.why },
              { after, over: true }
            ]
      )
    }
  )

/** `port` is bound here because rules are pure: they only write the rows it names. */
export const webhookDelivery = (port: Pick<DeliveryPort, "done" | "aside" | "waitsMs">) =>
  defineActor("webhook-delivery", {
    state: State,
    event: Schema.TaggedUnion({
      Woken: {},
      Delivered: entry,
      Failed: { ...entry, untilMs: Schema.Int },
      PutAside: entry,
      Rested: {},
      Emptied: {}
    }),
    commands: {
      /** An entry has been put into the outbox. */
      Wake: command({}, { reply: Schema.Void }),
      Delivered: command(entry, { reply: Schema.Void }),
      Failed: command({ ...entry, why: Schema.String }, { reply: Schema.Void }),
      Rested: command({}, { reply: Schema.Void }),
      Emptied: command({}, { reply: Schema.Void })
    },
    keep: "snapshot",
    mailbox: { capacity: 1_024 },
    restart: { times: 10, within: "1 minute" },
    passivateAfter: "1 minute",
    resume: ["Sending", "Resting"]
  }).behaves<Deliveries>({
    initial: { _tag: "Idle" },
    on: {
      Idle: {
        Wake: () => persist({ _tag: "Woken" }).reply(undefined),
        Delivered: done,
        Failed: done,
        Rested: done,
        Emptied: done
      },
      Sending: {
        Wake: ({ woken }) => (woken ? reply(undefined) : persist({ _tag: "Woken" }).reply(undefined)),
        Delivered: (_, { seq }, { id }) =>
          persist({ _tag: "Delivered", seq })
            .with(...port.done(id, seq))
            .reply(undefined),
        Failed: (state, { seq, why }, { id, nowMs }) => {
          const attempts = (state.seq === seq ? state.attempts : 0) + 1
          const waitMs = port.waitsMs[attempts - 1]
          return waitMs === undefined
            ? persist({ _tag: "PutAside", seq })
                .with(...port.aside(id, seq, why, nowMs))
                .reply(undefined)
            : persist({ _tag: "Failed", seq, untilMs: nowMs + waitMs }).reply(undefined)
        },
        Rested: done,
        Emptied: ({ woken }) => persist({ _tag: woken ? "Rested" : "Emptied" }).reply(undefined)
      },
      Resting: {
        Wake: done,
        Delivered: done,
        Failed: done,
        Rested: () => persist({ _tag: "Rested" }).reply(undefined),
        Emptied: done
      }
    },
    evolve: {
      Woken: (state) =>
        state._tag === "Idle" ? fresh(0) : state._tag === "Sending" ? { ...state, woken: true } : state,
      Delivered: (state, { seq }) =>
        state._tag === "Sending" ? { ...state, after: seq, seq: 0, attempts: 0 } : state,
      Failed: (state, { seq, untilMs }) =>
        state._tag === "Sending"
          ? {
              _tag: "Resting",
              after: state.after,
              seq,
              attempts: (state.seq === seq ? state.attempts : 0) + 1,
              untilMs
            }
          : state,
      PutAside: (state, { seq }) =>
        state._tag === "Sending" ? { _tag: "Resting", after: seq, seq: 0, attempts: 0, untilMs: 0 } : state,
      // Something came while it looked for the last time: it looks again, by way of a rest of no length.
      Rested: (state) =>
        state._tag === "Resting"
          ? { _tag: "Sending", after: state.after, seq: state.seq, attempts: state.attempts, woken: false }
          : state._tag === "Sending"
            ? { _tag: "Resting", after: state.after, seq: 0, attempts: 0, untilMs: 0 }
            : state,
      Emptied: () => ({ _tag: "Idle" })
    },
    activity: {
      Sending: (state, { id }) =>
        Stream.unwrap(Effect.map(Deliveries, (outside) => sending(outside, id, state))),
      Resting: ({ untilMs }) =>
        Stream.fromEffect(
          Effect.flatMap(Deliveries, ({ nowMs }) =>
            Effect.as(Effect.sleep(Math.max(0, untilMs - nowMs())), { _tag: "Rested" as const })
          )
        )
    }
  })
