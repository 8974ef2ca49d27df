/** The work of a document job, where its actor interrupts it. */
import { Effect, Fiber, Stream } from "effect"
import { expect, it } from "vitest"
import { translateDocument } from "../../../actors/documents/activity.ts"
import { FairScheduler } from "../../../actors/documents/fair-scheduler.ts"
import type { DocumentMeta } from "../../../actors/documents/meta.ts"
import { DocumentWork, type DocumentPort } from "../../../actors/documents/ports.ts"

it("a document that is removed while it waits for its turn stops waiting at once (simulation, seed 409)", () =>
  Effect.runPromise(
    Effect.gen(function* () {
      const scheduler = new FairScheduler({ atOnce: 1, perAccount: 1, nowMs: () => 0 })
      const admitted: Array<string> = []
      scheduler.enter("running", "account", () => admitted.push("running"))
      const port = { scheduler, keyring: { get: () => ({}) } } as unknown as DocumentPort
      const waiting = translateDocument("waiting", { accountId: "account" } as DocumentMeta)
      const work = Effect.provideService(Stream.runDrain(waiting), DocumentWork, port)

      const fiber = yield* Effect.forkChild(work, { startImmediately: true })
      scheduler.enter("next", "account", () => admitted.push("next"))
      yield* Fiber.interrupt(fiber)
      scheduler.leave("running")

      expect(admitted).toEqual(["running", "next"])
    })
  ))
