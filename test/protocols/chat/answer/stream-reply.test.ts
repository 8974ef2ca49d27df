/** What feeds a streamed answer ends with its client. Source: docs/spec/chat.md, section 17.1. */
import { Effect, Fiber } from "effect"
import { expect, it } from "vitest"
import { Deadlines } from "../../../../actors/engines/chat/deadlines.ts"
import { StreamReply } from "../../../../protocols/chat/answer/stream-reply.ts"
import type { Sink, Streaming } from "../../../../runtime/http.ts"

const open = async (onBody?: () => () => void) => {
  const deadlines = new Deadlines({ monotonicMs: () => 0, timers: { after: () => {} } })
  const reply = new StreamReply({
    deadlines,
    commitMs: 1_000,
    keepAliveMs: 1_000,
    headers: () => [],
    onStalled: () => {},
    onBackpressure: () => {},
    ...(onBody === undefined ? {} : { onBody })
  })
  reply.sendHeaders()
  const { body } = await reply.response
  const sent: Array<string> = []
  const write = (chunk: Uint8Array | string): boolean => {
    sent.push(String(chunk))
    return true
  }
  const sink: Sink = {
    write,
    send: write,
    drained: () => Promise.resolve(),
    end: () => Promise.resolve(true),
    signal: new AbortController().signal
  }
  return { deadlines, reply, sent, writing: (body as Streaming)(sink) }
}

it("a client that goes ends what feeds its answer, and its timers", async () => {
  let fed = true
  const { deadlines, reply, sent, writing } = await open(() => () => {
    fed = false
    reply.abandon()
  })
  expect(Effect.isEffect(writing)).toBe(true)
  const fiber = Effect.runFork(writing as Effect.Effect<void>)
  reply.write("first")
  expect([sent, fed, deadlines.size]).toEqual([["first"], true, 1])
  await Effect.runPromise(Fiber.interrupt(fiber))
  expect([fed, deadlines.size]).toEqual([false, 0])
})

it("an answer that is sent to its end was not abandoned", async () => {
  let isAbandoned = false
  const { reply, writing } = await open(() => () => {
    isAbandoned = true
  })
  const ended = Effect.runPromise(writing as Effect.Effect<void>)
  reply.end()
  await ended
  expect(isAbandoned).toBe(false)
})

it("the relay of a turn, which hears of its client itself, starts no fiber", async () => {
  const { reply, writing } = await open()
  expect(writing).toBeInstanceOf(Promise)
  reply.end()
  await writing
})
