import { Cause, Effect, Exit, Fiber } from "effect"
import { expect, it } from "vitest"
import { storing } from "../../../runtime/program/storing.ts"
import { StorageFault } from "../../../storage/store.ts"

it("an interruption aborts the operation and waits until it has let go", async () => {
  const heard: Array<string> = []
  let letGo = (): void => {}
  const held = new Promise<void>((resolve) => {
    letGo = resolve
  })
  const fiber = Effect.runFork(
    storing(async (signal) => {
      signal.addEventListener("abort", () => heard.push("aborted"))
      await held
      heard.push("let go")
      throw signal.reason
    })
  )
  const interrupted = Effect.runPromise(Fiber.interrupt(fiber)).then(() => heard.push("interrupted"))
  await new Promise((resolve) => setTimeout(resolve, 0))
  expect(heard).toEqual(["aborted"])
  letGo()
  await interrupted
  expect(heard).toEqual(["aborted", "let go", "interrupted"])
})

it("a storage fault is the operation's error, anything else a defect", async () => {
  const fault = new StorageFault({ reason: "full", detail: "no room" })
  expect(await Effect.runPromise(Effect.flip(storing(() => Promise.reject(fault))))).toBe(fault)
  const exit = await Effect.runPromiseExit(storing(() => Promise.reject(new TypeError("ours"))))
  expect(Exit.isFailure(exit) && Cause.hasDies(exit.cause)).toBe(true)
  expect(await Effect.runPromise(storing(async () => 5))).toBe(5)
})
