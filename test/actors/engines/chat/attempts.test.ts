/** Attempts for a client that leaves. Source: docs/spec/chat.md, section 14. */
import { Context } from "effect"
import { expect, it } from "vitest"
import { breakerPolicy, CircuitBreaker } from "../../../../actors/circuit-breaker.ts"
import { Aborter } from "../../../../actors/engines/chat/abort.ts"
import { attempt, type RetrySink } from "../../../../actors/engines/chat/attempts.ts"
import { Deadlines } from "../../../../actors/engines/chat/deadlines.ts"
import { UpstreamFault, type ChatModel, type ModelRequest } from "../../../../actors/engines/chat/model.ts"
import type { UpstreamRecord } from "../../../../actors/engines/chat/upstream-record.ts"
import { Upstream, Upstreams } from "../../../../actors/engines/chat/upstreams.ts"
import { ActorSystem } from "../../../../runtime/registry.ts"
import { openMemory } from "../../../../storage/memory.ts"

type Generate = (signal: Aborter) => Promise<void>

const unavailable = () => new UpstreamFault({ reason: "unavailable", detail: "no server" })

/** Two model servers, `first` and its fallback `second`, over a clock that the test sets. */
const opened = (generate: Generate, record: Partial<UpstreamRecord> = {}) => {
  const clock = { nowMs: 1_000_000 }
  const nowMs = () => clock.nowMs
  const system = new ActorSystem({ store: openMemory(), nowMs })
  system.host(CircuitBreaker, Context.empty())
  const deadlines = new Deadlines(system)
  const asked: Array<string> = []
  const upstreamOf = (id: string, more: Partial<UpstreamRecord>) =>
    new Upstream(
      {
        id,
        kind: "openai-chat",
        models: ["m"],
        max_concurrency: 1,
        queue: 1,
        queue_timeout_ms: 60_000,
        retries: 0,
        fallbacks: [],
        aliases: {},
        ...more
      } as unknown as UpstreamRecord,
      {
        generate: (_: ModelRequest, __: unknown, signal: Aborter) => {
          asked.push(id)
          return generate(signal)
        }
      } as unknown as ChatModel,
      system,
      deadlines
    )
  const first = upstreamOf("first", record)
  const upstreams = new Upstreams([first, upstreamOf("second", {})], { cacheMs: 60_000, nowMs, deadlines })
  const client = new Aborter()
  const sink = { firstEventSent: false, reset: () => {} } as unknown as RetrySink
  const caller = { signal: client, attempted: () => {} }
  const answer = (): Promise<string> =>
    attempt({ upstream: first, model: "m" }, () => ({}) as ModelRequest, sink, caller, true, {
      upstreams,
      deadlines,
      nowMs,
      backoffMs: 1_000
    }).then(
      () => "answered",
      (fault: UpstreamFault) => fault.reason
    )
  return { clock, first, asked, client, answer }
}

const turn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve)
  })

it("a call that fails once its client has left is not given to a fallback", async () => {
  const { asked, client, answer } = opened(
    async () => {
      client.abort()
      throw unavailable()
    },
    { fallbacks: ["second/m"] }
  )
  await answer()
  expect(asked).toEqual(["first"])
})

it("a fallback is asked for a client that stays", async () => {
  let failures = 0
  const { asked, answer } = opened(
    async () => {
      if (failures++ === 0) throw unavailable()
    },
    { fallbacks: ["second/m"] }
  )
  expect([await answer(), asked]).toEqual(["answered", ["first", "second"]])
})

it("a client that leaves during the pause before a retry is waited for no longer", async () => {
  const { asked, client, answer } = opened(() => Promise.reject(unavailable()), { retries: 2 })
  let outcome = "pauses"
  void answer().then((reason) => {
    outcome = reason
  })
  await turn()
  expect(outcome).toBe("pauses")
  client.abort()
  await turn()
  expect([outcome, asked]).toEqual(["aborted", ["first"]])
})

it("a probe whose client leaves the queue lets the next call probe", async () => {
  const { clock, first, asked, client, answer } = opened(() => Promise.resolve())
  for (let failure = 0; failure < breakerPolicy.failuresMax; failure++)
    first.breaker.askNow("Failed", breakerPolicy, () => {})
  clock.nowMs += breakerPolicy.openMs
  expect(first.gate.enter(new Aborter())).toBeUndefined()
  const probe = answer()
  await turn()
  expect([first.gate.queued, asked]).toEqual([1, []])
  client.abort()
  expect(await probe).toBe("aborted")
  let next: unknown
  first.breaker.askNow("Acquire", {}, (outcome) => {
    next = outcome
  })
  expect(next).toEqual({ reply: undefined })
})

it("stale connections cost no try, no wait and nothing at the breaker, up to two in one turn", async () => {
  let stale = 0
  const { asked, answer } = opened(async () => {
    if (stale-- > 0) throw new UpstreamFault({ reason: "unavailable", detail: "it ended", isStale: true })
  })
  stale = 2
  expect([await answer(), asked.length]).toEqual(["answered", 3])
  for (let turns = 0; turns < breakerPolicy.failuresMax; turns++) {
    stale = 3
    expect(await answer()).toBe("unavailable")
  }
  expect(await answer()).toBe("answered")
})
