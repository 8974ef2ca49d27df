/** The queue of inspections: two at once; who does not wait any longer leaves it, or ends its thread. */
import { Deferred, Effect, Fiber } from "effect"
import { expect, it } from "vitest"
import { DocumentThreads } from "../../../../protocols/translation/documents/threads.ts"

it("an interrupted inspection gives its place up, a waiting one leaves the queue; neither is logged", () =>
  Effect.runPromise(
    Effect.gen(function* () {
      const lines: Array<string> = []
      const threads = new DocumentThreads((_, message) => lines.push(message))
      const reading: Array<string> = []
      const inspect = (name: string, begun?: Deferred.Deferred<void>) => {
        const read = (): Promise<Buffer> => {
          reading.push(name)
          if (begun !== undefined) Deferred.doneUnsafe(begun, Effect.void)
          return new Promise(() => {})
        }
        return Effect.forkChild(threads.inspect(read, "txt", "en", "de"), { startImmediately: true })
      }
      const first = yield* inspect("first")
      const second = yield* inspect("second")
      const waiting = yield* inspect("waiting")
      const begun = yield* Deferred.make<void>()
      const last = yield* inspect("last", begun)
      expect(reading).toEqual(["first", "second"])
      yield* Fiber.interrupt(waiting)
      yield* Fiber.interrupt(first)
      yield* Deferred.await(begun)
      expect(reading).toEqual(["first", "second", "last"])
      yield* Fiber.interruptAll([second, last])
      expect(lines).toEqual([])
    })
  ))
