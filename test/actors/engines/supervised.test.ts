import { Deferred, Effect, Exit, Fiber, Result } from "effect"
import { afterEach, describe, expect, it } from "vitest"
import { EngineFault } from "../../../actors/engines/ports.ts"
import { supervise, type Start } from "../../../actors/engines/engine-process.ts"
import { hosted, type Hosted } from "./hosted.ts"

const fault = (reason: EngineFault["reason"], detail = "as asked") =>
  new EngineFault({ reason, engine: "fake", detail })

/** A process whose life the test holds. */
interface Fake {
  readonly n: number
  readonly ask: Effect.Effect<number, EngineFault>
  answer(): void
  die(): void
  ended: boolean
}

const fakes = (
  behaves: {
    readonly starts?: (n: number) => Effect.Effect<void, EngineFault>
    readonly answers?: boolean
  } = {}
) => {
  const all: Array<Fake> = []
  const begin: Start<Fake> = Effect.gen(function* () {
    const n = all.length + 1
    const death = Deferred.makeUnsafe<never, EngineFault>()
    let waiting: Array<Deferred.Deferred<number, EngineFault>> = []
    const settle = (exit: Exit.Exit<number, EngineFault>): void => {
      const now = waiting
      waiting = []
      for (const one of now) Deferred.doneUnsafe(one, exit)
    }
    const fake: Fake = {
      n,
      ended: false,
      ask: Effect.suspend(() => {
        if (fake.ended) return Effect.fail(fault("crashed"))
        if (behaves.answers !== false) return Effect.succeed(n)
        const one = Deferred.makeUnsafe<number, EngineFault>()
        waiting.push(one)
        return Deferred.await(one)
      }),
      answer: () => settle(Exit.succeed(n)),
      die: () => {
        fake.ended = true
        settle(Exit.fail(fault("crashed")))
        Deferred.doneUnsafe(death, Exit.fail(fault("crashed")))
      }
    }
    all.push(
      yield* Effect.acquireRelease(Effect.succeed(fake), () =>
        Effect.sync(() => {
          fake.ended = true
          settle(Exit.fail(fault("crashed")))
        })
      )
    )
    yield* behaves.starts?.(n) ?? Effect.void
    return { handle: fake, death: Deferred.await(death) }
  })
  return { all, begin }
}

const turns = async (count = 20): Promise<void> => {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve))
}

const reasonOf = <A>(result: Result.Result<A, EngineFault>): string =>
  Result.isFailure(result) ? result.failure.reason : `answered ${String(result.success)}`

let host: Hosted

const supervised = (behaves?: Parameters<typeof fakes>[0]) => {
  host = hosted("still")
  const { all, begin } = fakes(behaves)
  return { all, engine: supervise({ system: host.system, starts: host.starts, id: "fake", start: begin }) }
}

afterEach(() => host.close())
const ask = (fake: Fake) => fake.ask

describe("an engine's process", () => {
  it("starts at the first use, and 250 callers of a cold one are all answered by one start", async () => {
    const { all, engine } = supervised()
    expect(all).toHaveLength(0)
    expect(engine.readiness()).toEqual({ ready: false, reason: "not started yet" })
    expect(
      new Set(
        await Effect.runPromise(
          Effect.all(
            Array.from({ length: 250 }, () => engine.use(ask)),
            { concurrency: "unbounded" }
          )
        )
      )
    ).toEqual(new Set([1]))
    expect(engine.readiness()).toEqual({ ready: true })
  })
  it("refuses the 257th caller who waits for its start, and forgets those who go", async () => {
    const { engine } = supervised({ starts: () => Effect.never })
    const waiting = Array.from({ length: 256 }, () => Effect.runFork(engine.use(ask)))
    expect(reasonOf(await Effect.runPromise(Effect.result(engine.use(ask))))).toBe("overloaded")
    await Effect.runPromise(Fiber.interruptAll(waiting))
    expect(engine.busy()).toBe(false)
    expect(reasonOf(await Effect.runPromise(Effect.result(engine.use(ask, 1))))).toBe("timeout")
  })
  it("dies under a request: it starts again, and the request is answered by the new one", async () => {
    const { all, engine } = supervised({ answers: false })
    const answer = Effect.runPromise(engine.use(ask))
    await turns()
    all[0]!.die()
    await turns()
    expect(all).toHaveLength(1)
    host.advance(1_000)
    await turns()
    all[1]!.answer()
    expect(await answer).toBe(2)
  })
  it("dies under a request twice: the request fails, crashed", async () => {
    const { all, engine } = supervised({ answers: false })
    const answer = Effect.runPromise(Effect.result(engine.use(ask)))
    await turns()
    all[0]!.die()
    await turns()
    host.advance(1_000)
    await turns()
    all[1]!.die()
    expect(reasonOf(await answer)).toBe("crashed")
  })
  it("crashes more than 5 times within a minute: it is given up, whoever waits hears so, and a restart by hand revives it", async () => {
    let broken = true
    const { all, engine } = supervised({
      starts: () =>
        Effect.suspend(() => (broken ? Effect.fail(fault("crashed", "bad weights")) : Effect.void))
    })
    const answer = Effect.runPromise(Effect.result(engine.use(ask)))
    for (let i = 0; i < 6; i++) {
      await turns()
      host.advance(5_000)
    }
    const result = await answer
    expect(result).toMatchObject({
      failure: { reason: "unavailable", detail: "failed too often: bad weights" }
    })
    expect(all).toHaveLength(6)
    expect(engine.lost()).toBe(true)
    expect(reasonOf(await Effect.runPromise(Effect.result(engine.use(ask))))).toBe("unavailable")
    broken = false
    expect(host.system.restart("engine", "fake")).toBe(true)
    await turns()
    expect(engine.lost()).toBe(false)
    expect(await Effect.runPromise(engine.use(ask))).toBe(7)
  })
  it("misses something: it says so, and is not tried again", async () => {
    const { all, engine } = supervised({ starts: () => Effect.fail(fault("unavailable", "no model file")) })
    for (let i = 0; i < 3; i++)
      expect(reasonOf(await Effect.runPromise(Effect.result(engine.use(ask))))).toBe("unavailable")
    host.advance(60_000)
    await turns()
    expect(all).toHaveLength(1)
    expect(engine.readiness()).toEqual({ ready: false, reason: "no model file" })
  })
  it("misses a deadline and answers nobody for 2 s more: it is ended and started again", async () => {
    const { all, engine } = supervised({ answers: false })
    expect(reasonOf(await Effect.runPromise(Effect.result(engine.use(ask, 5))))).toBe("timeout")
    host.advance(1_900)
    await turns()
    expect(all[0]!.ended).toBe(false)
    host.advance(200)
    await turns()
    expect(all[0]!.ended).toBe(true)
    host.advance(1_000)
    await turns()
    expect(all).toHaveLength(2)
  })
  it("T-1: its users go after they have waited in vain, and nobody is answered for 2 s more: it starts again, and never counts as crashed", async () => {
    const { all, engine } = supervised({ answers: false })
    for (let round = 1; round <= 8; round++) {
      const user = Effect.runFork(engine.use(ask))
      await turns()
      host.advance(2_500)
      await Effect.runPromise(Fiber.interrupt(user))
      host.advance(1_900)
      await turns()
      expect([all.length, all.at(-1)!.ended]).toEqual([round, false])
      host.advance(200)
      await turns()
      expect([all.length, all[round - 1]!.ended]).toEqual([round + 1, true])
    }
    expect([engine.lost(), engine.readiness()]).toEqual([false, { ready: true }])
  })
  it("misses a deadline but goes on answering others: it lives", async () => {
    const { all, engine } = supervised({ answers: false })
    expect(reasonOf(await Effect.runPromise(Effect.result(engine.use(ask, 5))))).toBe("timeout")
    const other = Effect.runPromise(engine.use(ask))
    await turns()
    all[0]!.answer()
    await other
    host.advance(3_000)
    await turns()
    expect(all[0]!.ended).toBe(false)
  })
  it("is left by a user who goes: nothing happens to it", async () => {
    const { all, engine } = supervised({ answers: false })
    const user = Effect.runFork(engine.use(ask))
    await turns()
    expect(engine.busy()).toBe(true)
    await Effect.runPromise(Fiber.interrupt(user))
    host.advance(60_000)
    await turns()
    expect([engine.busy(), all[0]!.ended, all.length]).toEqual([false, false, 1])
  })
  it("is stopped and used again: a new one answers; the system's stop ends it", async () => {
    const { all, engine } = supervised()
    await Effect.runPromise(engine.use(ask))
    engine.stop()
    await turns()
    expect(all[0]!.ended).toBe(true)
    expect(await Effect.runPromise(engine.use(ask))).toBe(2)
    await Effect.runPromise(host.system.stop)
    expect(all[1]!.ended).toBe(true)
  })
})
