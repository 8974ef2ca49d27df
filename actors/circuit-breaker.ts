/** Keeps callers away from an upstream that fails: closed, open for a while after so many failures in a row,
 *  then one probe decides. Nothing is stored: a restart of the process starts closed.
 *  Source: docs/spec/chat.md, section 14, breaker. */
import { Schema } from "effect"
import { command, defineActor, persist, refuse, reply, type Facts } from "../runtime/actor.ts"

const policy = { failuresMax: Schema.Finite, withinMs: Schema.Finite, openMs: Schema.Finite }

/** So many failures in so much time open the breaker, for so long. */
export interface BreakerPolicy {
  readonly failuresMax: number
  readonly withinMs: number
  readonly openMs: number
}

export const breakerPolicy: BreakerPolicy = { failuresMax: 5, withinMs: 30_000, openMs: 15_000 }

/** A probe whose outcome is not reported in this time gives its place to another. */
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
    /** The call told nothing about the upstream: its caller has aborted it. */
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
      // The next caller probes.
      Release: (_, __, { nowMs }) => open(nowMs)
    }
  },
  evolve: {
    Closed: (_, { failures, firstMs }) => ({ _tag: "Closed", failures, firstMs }),
    Opened: (_, { untilMs }) => ({ _tag: "Open", untilMs }),
    Probed: (_, { sinceMs }) => ({ _tag: "Probing", sinceMs })
  }
})
