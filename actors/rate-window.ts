/** Counts one caller's calls in a fixed, aligned window [k·windowMs, (k+1)·windowMs): at most `limit` of them
 *  are charged, the rest are refused. It serves both "50 calls per 10 s" and "100 a second, burst 200" (200
 *  per 2 s). After a crash the window starts empty, unless the caller passes what it had seen. A clock that
 *  steps back by a window or less stays in the window it was in. It is one record without timer or promise
 *  (bench/rate-window). Source: docs/spec/store.md, section 4.2; docs/spec/translation.md, section 2.5. */
import { Schema } from "effect"
import { command, defineActor, type Decision } from "../runtime/actor.ts"

/** `startMs` is when the window that was last used began, in epoch ms; `charged` is what it has been
 *  charged. */
const counted = { startMs: Schema.Finite, charged: Schema.Finite }

export const Taken = Schema.Struct({
  /** The cost charged to the window so far, this call included. */
  charged: Schema.Finite,
  remaining: Schema.Finite,
  /** Time until the window ends, in ms. */
  resetMs: Schema.Finite
})

export const Limited = Schema.TaggedStruct("Limited", { retryAfterMs: Schema.Finite })

/** `lastSeen` is the count that the caller has seen before, with its window. The greater count wins, so that
 *  an actor that lost its memory grants nothing extra. */
const Take = Schema.Struct({
  cost: Schema.Finite,
  limit: Schema.Finite,
  windowMs: Schema.Finite,
  lastSeen: Schema.optionalKey(Schema.Struct(counted))
})

type Counted = { readonly _tag: "Counted"; readonly startMs: number; readonly charged: number }
const nothing: ReadonlyArray<never> = []

/** The decision is written out rather than built: this runs once per request. */
const take = (
  window: Counted,
  call: typeof Take.Type,
  nowMs: number
): Decision<Counted, typeof Taken.Type, typeof Limited.Type> => {
  let startMs = nowMs - (nowMs % call.windowMs)
  let last: { readonly startMs: number; readonly charged: number } = window
  if (
    call.lastSeen !== undefined &&
    (call.lastSeen.startMs > last.startMs ||
      (call.lastSeen.startMs === last.startMs && call.lastSeen.charged > last.charged))
  )
    last = call.lastSeen
  if (last.startMs > startMs && last.startMs <= startMs + call.windowMs) startMs = last.startMs
  const charged = (last.startMs === startMs ? last.charged : 0) + call.cost
  const resetMs = startMs + call.windowMs - nowMs
  return charged > call.limit
    ? {
        events: nothing,
        rows: nothing,
        otherwise: undefined,
        answer: { refuse: { _tag: "Limited", retryAfterMs: resetMs } }
      }
    : {
        events: [{ _tag: "Counted", startMs, charged }],
        rows: nothing,
        otherwise: undefined,
        answer: { reply: { charged, remaining: call.limit - charged, resetMs } }
      }
}

export const RateWindow = defineActor("rate-window", {
  state: Schema.TaggedUnion({ Counted: counted }),
  event: Schema.TaggedUnion({ Counted: counted }),
  commands: { Take: command(Take.fields, { reply: Taken, refusal: Limited }) },
  keep: "memory",
  mailbox: { capacity: 1_024 },
  restart: { times: 3, within: "1 minute" },
  passivateAfter: "1 minute"
}).behaves({
  initial: { _tag: "Counted", startMs: 0, charged: 0 },
  on: { Counted: { Take: (window, call, { nowMs }) => take(window, call, nowMs) } },
  evolve: { Counted: (_, counted) => counted }
})
