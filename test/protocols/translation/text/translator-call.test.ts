/** Whoever does not wait any longer interrupts the engine. Source: docs/spec/translation.md, sections 2.3 and
 *  2.4. */
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { expect, it } from "vitest"
import type { TranslateRequest, Translator } from "../../../../actors/engines/ports.ts"
import { callTranslator } from "../../../../protocols/translation/text/translator-call.ts"

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

it("an interruption, because the client went, interrupts the engine", async () => {
  const { engine, translator } = silent()
  const call = Effect.runFork(callTranslator(translator, request))
  expect(engine).toEqual({ started: 1, interrupted: 0 })
  await Effect.runPromise(Fiber.interrupt(call))
  expect(engine).toEqual({ started: 1, interrupted: 1 })
})

it("the time limit interrupts the engine", () =>
  Effect.runPromise(
    Effect.gen(function* () {
      const { engine, translator } = silent()
      const call = yield* Effect.forkChild(Effect.flip(callTranslator(translator, request)))
      yield* TestClock.adjust(4_499)
      expect(engine.interrupted).toBe(0)
      yield* TestClock.adjust(1)
      expect(engine.interrupted).toBe(1)
      expect(yield* Fiber.join(call)).toMatchObject({ reason: "timeout" })
    }).pipe(Effect.provide(TestClock.layer()))
  ))

it("an answer that is there is returned as it is", () => {
  const answer = Effect.succeed({ segments: [], engine: "ready" })
  const translator = { translate: () => answer } as unknown as Translator
  expect(callTranslator(translator, request)).toBe(answer)
})
