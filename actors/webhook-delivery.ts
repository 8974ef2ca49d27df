/** The deliveries of one subscription: in the order of the outbox, one at a time, each at least once. A
 *  failed delivery is retried after growing waits and finally set aside; one slow target delays no other. It
 *  continues by itself after a restart of the process. The state is stored, so its names must not change.
 *  Source: docs/spec/store.md, section 9.2. */
import { Context, Effect, Schema, Stream } from "effect"
import { command, defineActor, persist, reply } from "../runtime/actor.ts"
import type { Write } from "../storage/store.ts"

/** The outcome of one attempt. */
export type Attempt = { readonly delivered: true } | { readonly delivered: false; readonly why: string }

export interface DeliveryPort {
  /** Returns the first entry of the subscription's outbox after `seq`; undefined when nothing waits. */
  readonly next: (subscription: string, after: number) => number | undefined
  /** Makes one attempt and never fails. The `last` one tries the fallback target too. */
  readonly attempt: (subscription: string, seq: number, last: boolean) => Effect.Effect<Attempt>
  /** Returns the writes that remove the entry from the outbox. */
  readonly done: (subscription: string, seq: number) => ReadonlyArray<Write>
  /** Returns the writes that set the entry aside, and count it. */
  readonly aside: (subscription: string, seq: number, why: string, atMs: number) => ReadonlyArray<Write>
  /** The waits before the second, third … attempt, in ms. An entry that fails after the last one is set
   *  aside. */
  readonly waitsMs: ReadonlyArray<number>
  /** The clock by which waits end. */
  readonly nowMs: () => number
}

export class Deliveries extends Context.Service<Deliveries, DeliveryPort>()("actors/Deliveries") {}

const State = Schema.TaggedUnion({
  Idle: {},
  /** `attempts` of the entry `seq` have failed so far. `woken` becomes true when an entry is added
   *  meanwhile. */
  Sending: { after: Schema.Int, seq: Schema.Int, attempts: Schema.Int, woken: Schema.Boolean },
  Resting: { after: Schema.Int, seq: Schema.Int, attempts: Schema.Int, untilMs: Schema.Int }
})

type State = typeof State.Type
type Sending = Extract<State, { _tag: "Sending" }>

/** The entry after `after` is next, and has not been tried. */
const startAfter = (after: number): State => ({ _tag: "Sending", after, seq: 0, attempts: 0, woken: false })

/** Counts the failed attempts of the entry, this one included. */
const failedAttempts = (state: Sending, seq: number): number => (state.seq === seq ? state.attempts : 0) + 1
const done = () => reply(undefined)
const entry = { seq: Schema.Int }

type AttemptOutcome =
  | { readonly _tag: "Emptied" }
  | { readonly _tag: "Delivered"; readonly seq: number }
  | { readonly _tag: "Failed"; readonly seq: number; readonly why: string }

/** A position in the outbox; `ended` is true when nothing is left, or an entry has failed. */
interface Position {
  readonly after: number
  readonly ended: boolean
}

/** Attempts entry after entry, until nothing is left or one fails. */
const deliverAll = (
  port: DeliveryPort,
  id: string,
  state: { readonly after: number; readonly seq: number; readonly attempts: number }
): Stream.Stream<AttemptOutcome> =>
  Stream.unfold(
    { after: state.after, ended: false },
    ({ after, ended }: Position): Effect.Effect<readonly [AttemptOutcome, Position] | undefined> => {
      if (ended) return Effect.succeed(undefined)
      const seq = port.next(id, after)
      if (seq === undefined) return Effect.succeed([{ _tag: "Emptied" }, { after, ended: true }])
      const attempts = state.seq === seq ? state.attempts : 0
      const last = attempts >= port.waitsMs.length
      return Effect.map(port.attempt(id, seq, last), (result) =>
        result.delivered
          ? [
              { _tag: "Delivered", seq },
              { after: seq, ended: false }
            ]
          : [
              { _tag: "Failed", seq, why: result.why },
              { after, ended: true }
            ]
      )
    }
  )

/** `port` is bound here because rules are pure: they only write the rows that it names. */
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
      /** Reports that an entry has been put into the outbox. */
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
          const waitMs = port.waitsMs[failedAttempts(state, seq) - 1]
          if (waitMs !== undefined)
            return persist({ _tag: "Failed", seq, untilMs: nowMs + waitMs }).reply(undefined)
          return persist({ _tag: "PutAside", seq })
            .with(...port.aside(id, seq, why, nowMs))
            .reply(undefined)
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
      Woken: (state) => {
        if (state._tag === "Idle") return startAfter(0)
        return state._tag === "Sending" ? { ...state, woken: true } : state
      },
      Delivered: (state, { seq }) =>
        state._tag === "Sending" ? { ...state, after: seq, seq: 0, attempts: 0 } : state,
      Failed: (state, { seq, untilMs }) =>
        state._tag === "Sending"
          ? { _tag: "Resting", after: state.after, seq, attempts: failedAttempts(state, seq), untilMs }
          : state,
      PutAside: (state, { seq }) =>
        state._tag === "Sending" ? { _tag: "Resting", after: seq, seq: 0, attempts: 0, untilMs: 0 } : state,
      // An entry was added during the last look: it looks again, by a wait of zero length.
      Rested: (state) => {
        if (state._tag === "Resting")
          return {
            _tag: "Sending",
            after: state.after,
            seq: state.seq,
            attempts: state.attempts,
            woken: false
          }
        if (state._tag === "Sending")
          return { _tag: "Resting", after: state.after, seq: 0, attempts: 0, untilMs: 0 }
        return state
      },
      Emptied: () => ({ _tag: "Idle" })
    },
    activity: {
      Sending: (state, { id }) =>
        Stream.unwrap(Effect.map(Deliveries, (delivery) => deliverAll(delivery, id, state))),
      Resting: ({ untilMs }) =>
        Stream.fromEffect(
          Effect.flatMap(Deliveries, ({ nowMs }) =>
            Effect.as(Effect.sleep(Math.max(0, untilMs - nowMs())), { _tag: "Rested" as const })
          )
        )
    }
  })
