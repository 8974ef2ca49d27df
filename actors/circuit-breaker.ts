/** Keeps callers away from an upstream that fails: the breaker is closed, opens for a while after a number of
 *  failures in a row, then lets one probe decide. Nothing is stored: after a restart of the process it is
 *  closed. Source: docs/spec/chat.md, section 14. */
import { Schema } from "effect"
import { command, defineActor, persist, refuse, reply, type Facts } from "../runtime/actor.ts"

const policy = { failuresMax: Schema.Finite, withinMs: Schema.Finite, openMs: Schema.Finite }

/** Sets how many failures within how much time open the breaker, and for how long. */
export interface BreakerPolicy {
  readonly failuresMax: number
  readonly withinMs: number
  readonly openMs: number
}

export const breakerPolicy: BreakerPolicy = { failuresMax: 5, withinMs: 30_000, openMs: 15_000 }

/** After this time in ms, a probe whose outcome was not reported is replaced by another. */
const probeMsMax = 600_000

const State = Schema.TaggedUnion({
  Closed: { failures: Schema.Finite, firstMs: Schema.Finite },
  Open: { untilMs: Schema.Finite },
  Probing: { sinceMs: Schema.Finite }
})

type Closed = Extract<typeof State.Type, { _tag: "Closed" }>

const CircuitOpen = Schema.TaggedStruct("CircuitOpen", {})
const done = () => reply(undefined)
const closed = { _tag: "Closed", failures: 0, firstMs: 0 } as const
const circuitOpen = () => refuse({ _tag: "CircuitOpen" })
const open = (untilMs: number) => persist({ _tag: "Opened", untilMs }).reply(undefined)
const probe = (nowMs: number) => persist({ _tag: "Probed", sinceMs: nowMs }).reply(undefined)

/** Failures count together while the first of them is at most `withinMs` old. */
const countFailure = (
  { failures, firstMs }: Closed,
  { failuresMax, withinMs, openMs }: BreakerPolicy,
  { nowMs }: Facts
) => {
  const inTime = failures > 0 && nowMs - firstMs <= withinMs
  const count = inTime ? failures + 1 : 1
  return count >= failuresMax
    ? open(nowMs + openMs)
    : persist({ _tag: "Closed", failures: count, firstMs: inTime ? firstMs : nowMs }).reply(undefined)
}

export const CircuitBreaker = defineActor("circuit-breaker", {
  state: State,
  event: Schema.TaggedUnion({
    Closed: { failures: Schema.Finite, firstMs: Schema.Finite },
    Opened: { untilMs: Schema.Finite },
    Probed: { sinceMs: Schema.Finite }
  }),
  commands: {
    /** A caller asks this before its call, and reports with one of the others after it. */
    Acquire: command({}, { reply: Schema.Void, refusal: CircuitOpen }),
    Succeeded: command({}, { reply: Schema.Void }),
    Failed: command(policy, { reply: Schema.Void }),
    /** Reports that the call proved nothing about the upstream, because its caller aborted it. */
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
      Failed: countFailure,
      Release: done
    },
    Open: {
      Acquire: ({ untilMs }, _, { nowMs }) => (nowMs < untilMs ? circuitOpen() : probe(nowMs)),
      Succeeded: done,
      Failed: done,
      Release: done
    },
    Probing: {
      Acquire: ({ sinceMs }, _, { nowMs }) => (nowMs - sinceMs < probeMsMax ? circuitOpen() : probe(nowMs)),
      Succeeded: () => persist(closed).reply(undefined),
      Failed: (_, { openMs }, { nowMs }) => open(nowMs + openMs),
      // The next caller becomes the probe.
      Release: (_, __, { nowMs }) => open(nowMs)
    }
  },
  evolve: {
    Closed: (_, { failures, firstMs }) => ({ _tag: "Closed", failures, firstMs }),
    Opened: (_, { untilMs }) => ({ _tag: "Open", untilMs }),
    Probed: (_, { sinceMs }) => ({ _tag: "Probing", sinceMs })
  }
})
