/** Keeps callers away from an upstream that fails: closed, open for a while after so many failures in a row,
 *  then one probe decides. Nothing is kept: a restart starts closed. Source: chat section 14, breaker. */
import { Schema } from "effect"
import { command, defineActor, persist, refuse, reply } from "../runtime/actor.ts"

const policy = { failuresMax: Schema.Finite, withinMs: Schema.Finite, openMs: Schema.Finite }

export interface BreakerPolicy {
  readonly failuresMax: number
  readonly withinMs: number
  readonly openMs: number
}

export const breakerPolicy: BreakerPolicy = { failuresMax: 5, withinMs: 30_000, openMs: 15_000 }

/** A probe that was never reported on does not keep the gate shut. */
const probeMsMax = 600_000

const State = Schema.TaggedUnion({
  Closed: { failures: Schema.Finite, firstMs: Schema.Finite },
  Open: { untilMs: Schema.Finite },
  Probing: { sinceMs: Schema.Finite }
})

const CircuitOpen = Schema.TaggedStruct("CircuitOpen", {})
const done = () => reply(undefined)
const closed = { _tag: "Closed", failures: 0, firstMs: 0 } as const

export const CircuitBreaker = defineActor("circuit-breaker", {
  state: State,
  event: Schema.TaggedUnion({
    Closed: { failures: Schema.Finite, firstMs: Schema.Finite },
    Opened: { untilMs: Schema.Finite },
    Probed: { sinceMs: Schema.Finite }
  }),
  commands: {
    /** Asked before a call. */
    Acquire: command({}, { reply: Schema.Void, refusal: CircuitOpen }),
    Succeeded: command({}, { reply: Schema.Void }),
    Failed: command(policy, { reply: Schema.Void }),
    /** The call told nothing about the upstream (its caller went). */
    Release: command({}, { reply: Schema.Void })
  },
  keep: "memory",
  mailbox: { capacity: 4_096 },
  restart: { times: 3, within: "1 minute" },
  passivateAfter: "1 hour"
}).behaves({
  initial: closed,
  on: {
    Closed: {
      Acquire: done,
      Succeeded: ({ failures }) => (failures === 0 ? reply(undefined) : persist(closed).reply(undefined)),
      Failed: ({ failures, firstMs }, { failuresMax, withinMs, openMs }, { nowMs }) => {
        const inTime = failures > 0 && nowMs - firstMs <= withinMs
        const next = inTime ? failures + 1 : 1
        return (
          next >= failuresMax
            ? persist({ _tag: "Opened", untilMs: nowMs + openMs })
            : persist({ _tag: "Closed", failures: next, firstMs: inTime ? firstMs : nowMs })
        ).reply(undefined)
      },
      Release: done
    },
    Open: {
      Acquire: ({ untilMs }, _, { nowMs }) =>
        nowMs < untilMs
          ? refuse({ _tag: "CircuitOpen" })
          : persist({ _tag: "Probed", sinceMs: nowMs }).reply(undefined),
      Succeeded: done,
      Failed: done,
      Release: done
    },
    Probing: {
      Acquire: ({ sinceMs }, _, { nowMs }) =>
        nowMs - sinceMs < probeMsMax
          ? refuse({ _tag: "CircuitOpen" })
          : persist({ _tag: "Probed", sinceMs: nowMs }).reply(undefined),
      Succeeded: () => persist(closed).reply(undefined),
      Failed: (_, { openMs }, { nowMs }) =>
        persist({ _tag: "Opened", untilMs: nowMs + openMs }).reply(undefined),
      Release: (_, __, { nowMs }) => persist({ _tag: "Opened", untilMs: nowMs }).reply(undefined)
    }
  },
  evolve: {
    Closed: (_, { failures, firstMs }) => ({ _tag: "Closed", failures, firstMs }),
    Opened: (_, { untilMs }) => ({ _tag: "Open", untilMs }),
    Probed: (_, { sinceMs }) => ({ _tag: "Probing", sinceMs })
  }
})
