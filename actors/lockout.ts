/** Counts how often a caller has failed at something, and until when the caller is locked out. The state is
 *  in memory only: a crash forgives. Source: docs/spec/authorization.md, section 3.5. */
import { Schema } from "effect"
import { command, defineActor, persist, refuse, reply } from "../runtime/actor.ts"

const counting = { sinceMs: Schema.Finite, failures: Schema.Finite }
export const LockedOut = Schema.TaggedStruct("LockedOut", { retryAfterMs: Schema.Finite })

export const Lockout = defineActor("lockout", {
  state: Schema.TaggedUnion({ Counting: counting, Locked: { untilMs: Schema.Finite } }),
  event: Schema.TaggedUnion({ Counted: counting, Locked: { untilMs: Schema.Finite } }),
  commands: {
    Check: command({}, { reply: Schema.Void, refusal: LockedOut }),
    /** Reports a failure. `max` failures within `windowMs` lock for `lockMs`; the reply tells whether this
     *  one did. */
    Fail: command(
      { max: Schema.Finite, windowMs: Schema.Finite, lockMs: Schema.Finite },
      { reply: Schema.Boolean }
    ),
    Clear: command({}, { reply: Schema.Void })
  },
  keep: "memory",
  mailbox: { capacity: 1_024 },
  restart: { times: 3, within: "1 minute" },
  // This is longer than any lock, because passivation erases a memory actor.
  passivateAfter: "1 day"
}).behaves({
  initial: { _tag: "Counting", sinceMs: 0, failures: 0 },
  on: {
    Counting: {
      Check: () => reply(undefined),
      Fail: ({ sinceMs, failures }, { max, windowMs, lockMs }, { nowMs }) => {
        const fresh = nowMs - sinceMs >= windowMs
        const now = { sinceMs: fresh ? nowMs : sinceMs, failures: (fresh ? 0 : failures) + 1 }
        return now.failures >= max
          ? persist({ _tag: "Locked", untilMs: nowMs + lockMs }).reply(true)
          : persist({ _tag: "Counted", ...now }).reply(false)
      },
      Clear: () => persist({ _tag: "Counted", sinceMs: 0, failures: 0 }).reply(undefined)
    },
    Locked: {
      Check: ({ untilMs }, _, { nowMs }) =>
        nowMs < untilMs
          ? refuse({ _tag: "LockedOut", retryAfterMs: untilMs - nowMs })
          : persist({ _tag: "Counted", sinceMs: 0, failures: 0 }).reply(undefined),
      Fail: ({ untilMs }, _, { nowMs }) =>
        nowMs < untilMs
          ? reply(true)
          : persist({ _tag: "Counted", sinceMs: nowMs, failures: 1 }).reply(false),
      Clear: () => persist({ _tag: "Counted", sinceMs: 0, failures: 0 }).reply(undefined)
    }
  },
  evolve: { Counted: (_, counted) => ({ ...counted, _tag: "Counting" }), Locked: (_, locked) => locked }
})
