/** Whoever does not wait any longer interrupts the engine. Source: docs/spec/translation.md, sections 2.3 and
 *  2.4. */
import { Effect } from "effect"
import { afterEach, expect, it, vi } from "vitest"
import type { TranslateRequest, Translator } from "../../../../actors/engines/ports.ts"
import { callTranslator } from "../../../../protocols/translation/text/translator-call.ts"

afterEach(() => {
  vi.useRealTimers()
})

/** An engine that never answers and notes that it was interrupted. */
const silent = () => {
  const engine = { started: 0, interrupted: 0 }
  const translator = {
    info: { id: "silent" },
    translate: () =>
      Effect.callback(() => {
        engine.started++
        return Effect.sync(() => {
          engine.interrupted++
        })
      })
  } as unknown as Translator
  return { engine, translator }
}

const request = {} as TranslateRequest

it("a client that disconnects interrupts the engine", async () => {
  const { engine, translator } = silent()
  const client = new AbortController()
  const answer = callTranslator(translator, request, client)
  expect(engine).toEqual({ started: 1, interrupted: 0 })
  client.abort()
  expect(engine.interrupted).toBe(1)
  expect(await answer).toMatchObject({ reason: "unavailable" })
})

it("a client that has disconnected before the engine could answer interrupts it too", async () => {
  const { engine, translator } = silent()
  const client = new AbortController()
  client.abort()
  expect(await callTranslator(translator, request, client)).toMatchObject({ reason: "unavailable" })
  expect(engine).toEqual({ started: 1, interrupted: 1 })
})

it("the time limit interrupts the engine", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] })
  const { engine, translator } = silent()
  const answer = callTranslator(translator, request, new AbortController())
  vi.advanceTimersByTime(4_499)
  expect(engine.interrupted).toBe(0)
  vi.advanceTimersByTime(1)
  expect(engine.interrupted).toBe(1)
  expect(await answer).toMatchObject({ reason: "timeout" })
})
