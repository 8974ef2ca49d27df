/** Counts how often a caller has failed at something that takes time to judge, and until when the caller is locked
 *  out. Attempts that are being judged count as failures until they are settled, so that no more than the limit
 *  are ever judged. The state is in memory only: a crash forgives.
 *  Source: docs/spec/authorization.md, section 3.5. */
import { Schema } from "effect"
import { command, defineActor, persist, refuse, reply } from "../runtime/actor.ts"

const counting = {
  sinceMs: Schema.Finite,
  failures: Schema.Finite,
  /** How many attempts are being judged. */
  pending: Schema.Finite
}
export const LockedOut = Schema.TaggedStruct("LockedOut", { retryAfterMs: Schema.Finite })

const none = { sinceMs: 0, failures: 0, pending: 0 }

/** How soon it pays to ask again while the last permitted attempts are being judged. */
const judgedSoonMs = 1_000

export const Lockout = defineActor("lockout", {
  state: Schema.TaggedUnion({ Counting: counting, Locked: { untilMs: Schema.Finite } }),
  event: Schema.TaggedUnion({ Counted: counting, Locked: { untilMs: Schema.Finite } }),
  commands: {
    /** Reserves an attempt; its outcome is reported by `Settle`. */
    Reserve: command(
      { max: Schema.Finite, windowMs: Schema.Finite },
      { reply: Schema.Void, refusal: LockedOut }
    ),
    /** Settles a reserved attempt. `max` failures within `windowMs` lock for `lockMs`; the reply tells whether
     *  this one did. */
    Settle: command(
      { failed: Schema.Boolean, max: Schema.Finite, windowMs: Schema.Finite, lockMs: Schema.Finite },
      { reply: Schema.Boolean }
    ),
    Clear: command({}, { reply: Schema.Void })
  },
  keep: "memory",
  mailbox: { capacity: 1_024 },
  restart: { times: 3, within: "1 minute" },
  // This is longer than any lock, because passivation erases a memory actor.
  passivateAfter: "1 day",
  // Anybody can fail to sign in under a name of their own.
  residentMax: 20_000
}).behaves({
  initial: { ...none, _tag: "Counting" },
  on: {
    Counting: {
      Reserve: ({ sinceMs, failures, pending }, { max, windowMs }, { nowMs }) => {
        const recent = nowMs - sinceMs >= windowMs ? 0 : failures
        return recent + pending >= max
          ? refuse({ _tag: "LockedOut", retryAfterMs: judgedSoonMs })
          : persist({ _tag: "Counted", sinceMs, failures, pending: pending + 1 }).reply(undefined)
      },
      Settle: (state, { failed, max, windowMs, lockMs }, { nowMs }) => {
        const pending = Math.max(0, state.pending - 1)
        if (!failed) return persist({ ...state, _tag: "Counted", pending }).reply(false)
        const fresh = nowMs - state.sinceMs >= windowMs
        const sinceMs = fresh ? nowMs : state.sinceMs
        const failures = (fresh ? 0 : state.failures) + 1
        return failures >= max
          ? persist({ _tag: "Locked", untilMs: nowMs + lockMs }).reply(true)
          : persist({ _tag: "Counted", sinceMs, failures, pending }).reply(false)
      },
      Clear: ({ pending }) => persist({ ...none, _tag: "Counted", pending }).reply(undefined)
    },
    Locked: {
      Reserve: ({ untilMs }, _, { nowMs }) =>
        nowMs < untilMs
          ? refuse({ _tag: "LockedOut", retryAfterMs: untilMs - nowMs })
          : persist({ ...none, _tag: "Counted", pending: 1 }).reply(undefined),
      Settle: ({ untilMs }, { failed }, { nowMs }) => {
        if (!failed || nowMs < untilMs) return reply(failed)
        return persist({ ...none, _tag: "Counted", sinceMs: nowMs, failures: 1 }).reply(false)
      },
      Clear: () => persist({ ...none, _tag: "Counted" }).reply(undefined)
    }
  },
  evolve: { Counted: (_, counted) => ({ ...counted, _tag: "Counting" }), Locked: (_, locked) => locked }
})

/** Returns the definition for counts that are over after `windowMs` and locks of `lockMs`: who has failed leaves
 *  memory then, and not after a day. */
export const lockoutFor = ({
  windowMs,
  lockMs
}: {
  readonly windowMs: number
  readonly lockMs: number
}): typeof Lockout => ({ ...Lockout, passivateAfter: Math.max(windowMs, lockMs) })
