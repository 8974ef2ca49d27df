import { Effect, Fiber } from "effect"
import { describe, expect, it } from "vitest"
import { LanePipe } from "../../runtime/lane.ts"

const run = <A>(body: Effect.Effect<A>): Promise<A> => Effect.runPromise(body)
const started = <A>(effect: Effect.Effect<A>) => Effect.forkChild(effect, { startImmediately: true })

describe("a lane", () => {
  it("refuses at its capacity and takes again after a take", () => {
    const lane = new LanePipe<number>(2)
    expect([lane.offer(1), lane.offer(2), lane.offer(3)]).toEqual([true, true, false])
    expect(lane.takeNow()).toEqual([1, 2])
    expect(lane.offer(4)).toBe(true)
  })
  it("put waits for room and keeps order among waiting producers", () =>
    run(
      Effect.gen(function* () {
        const lane = new LanePipe<number>(1)
        yield* lane.put(1)
        const producers = [yield* started(lane.put(2)), yield* started(lane.put(3))]
        const heard: Array<number> = []
        while (heard.length < 3) heard.push(...(yield* lane.take())!)
        for (const producer of producers) yield* Fiber.join(producer)
        expect(heard).toEqual([1, 2, 3])
      })
    ))
  it("take waits until enough weight has gathered: the consumer is woken per update, not per chunk", () =>
    run(
      Effect.gen(function* () {
        const lane = new LanePipe<string>(100)
        const taking = yield* started(lane.take(200))
        for (const chunk of ["a", "b", "c"]) lane.offer(chunk, 60)
        expect(taking.pollUnsafe()).toBeUndefined()
        lane.offer("d", 60)
        expect(yield* Fiber.join(taking)).toEqual(["a", "b", "c", "d"])
      })
    ))
  it("a full lane is enough, whatever it weighs", () =>
    run(
      Effect.gen(function* () {
        const lane = new LanePipe<number>(2)
        const taking = yield* started(lane.take(1_000))
        lane.offer(1)
        lane.offer(2)
        expect(yield* Fiber.join(taking)).toEqual([1, 2])
      })
    ))
  it("end: what is there comes first, then the end; nothing more is taken in", () =>
    run(
      Effect.gen(function* () {
        const lane = new LanePipe<number>(4)
        lane.offer(1)
        lane.end()
        expect(lane.offer(2)).toBe(false)
        yield* lane.put(3)
        expect(yield* lane.take(100)).toEqual([1])
        expect(yield* lane.take()).toBeUndefined()
      })
    ))
  it("an interrupted take takes nothing", () =>
    run(
      Effect.gen(function* () {
        const lane = new LanePipe<number>(4)
        const taking = yield* started(lane.take())
        yield* Fiber.interrupt(taking)
        lane.offer(1)
        expect(lane.takeNow()).toEqual([1])
      })
    ))
  it("an interrupted put puts nothing", () =>
    run(
      Effect.gen(function* () {
        const lane = new LanePipe<number>(1)
        lane.offer(1)
        const putting = yield* started(lane.put(2))
        yield* Fiber.interrupt(putting)
        // A lane that is full for long must not gather those who have given up.
        const { producers } = lane as unknown as { readonly producers: ReadonlyArray<unknown> }
        expect(producers).toEqual([])
        expect(lane.takeNow()).toEqual([1])
        yield* Effect.yieldNow
        expect(lane.depth).toBe(0)
      })
    ))
  it("onReadable is called when an empty lane gets an item, and at the end", () => {
    const lane = new LanePipe<number>(4)
    let calls = 0
    lane.onReadable(() => {
      calls++
    })
    lane.offer(1)
    lane.offer(2)
    expect(calls).toBe(1)
    lane.takeNow()
    lane.offer(3)
    lane.end()
    expect(calls).toBe(3)
  })
})
