import { Effect, Exit, Fiber, Result } from "effect"
import { expect, it } from "vitest"
import { places, Pool, type Lease, type PoolClock, type PoolOptions } from "../../../actors/engines/pool.ts"
import { Timers } from "../../../runtime/timers.ts"

class Clock implements PoolClock {
  private atMs = 1_000_000
  readonly monotonicMs = () => this.atMs
  readonly timers = new Timers(this.monotonicMs)

  advance(ms: number): void {
    this.atMs += ms
    this.timers.tick()
  }
}

const pool = (size: number, options: Partial<PoolOptions<number>> = {}): Pool<number> =>
  new Pool({ id: "p", resources: places(size), clock: new Clock(), ...options })

/** Takes for an account and notes its name when the lease comes; whoever waits is in line at once. */
const waiter = (of: Pool<number>, account: string, told: Array<string>, urgent = false) =>
  Effect.runFork(Effect.tap(of.take({ account, urgent }), () => Effect.sync(() => told.push(account))))

const leaseOf = (of: Pool<number>, account = "a"): Lease<number> => Effect.runSync(of.take({ account }))

it("a free place that nobody waits for is lent in the same turn", () => {
  const one = pool(1)
  const answer = Effect.runSync(one.use({ account: "a" }, (place) => Effect.succeed([place, one.used])))
  expect([answer, one.used]).toEqual([[0, 1], 0])
})

it("waiters are served round robin by account, each account's in order", () => {
  const one = pool(1)
  const told: Array<string> = []
  let lease = leaseOf(one)
  const waiting = ["loud", "loud", "loud", "quiet", "other", "quiet"].map((account) =>
    waiter(one, account, told)
  )
  expect([told, one.waiting]).toEqual([[], 6])
  for (const fiber of ["loud", "quiet", "other", "loud", "quiet", "loud"].map(() => waiting)) {
    lease.release()
    const next = fiber
      .map((each) => each.pollUnsafe())
      .flatMap((exit) =>
        exit !== undefined && Exit.isSuccess(exit) && !exit.value.ended ? [exit.value] : []
      )
    lease = next[0]!
  }
  expect(told).toEqual(["loud", "quiet", "other", "loud", "quiet", "loud"])
})

it("a full queue: the account with most waiters loses its newest, and cannot push others out", async () => {
  const one = pool(1, { waitersMax: 4 })
  leaseOf(one)
  const told: Array<string> = []
  const hostile = Array.from({ length: 4 }, () => waiter(one, "hostile", told))
  const refused = await Effect.runPromise(Effect.result(one.take({ account: "hostile" })))
  expect(refused).toMatchObject({ failure: { reason: "overloaded", engine: "p" } })
  const quiet = waiter(one, "quiet", told)
  expect(Exit.isFailure(await Effect.runPromise(Fiber.await(hostile[3]!)))).toBe(true)
  expect([one.waiting, quiet.pollUnsafe()]).toEqual([4, undefined])
})

it("who is interrupted while waiting leaves the queue; while working, frees its place at once", async () => {
  const one = pool(1)
  const working = Effect.runFork(one.use({ account: "a" }, () => Effect.never))
  const waiting = Effect.runFork(one.use({ account: "b" }, () => Effect.never))
  expect([one.used, one.waiting]).toEqual([1, 1])
  await Effect.runPromise(Fiber.interrupt(waiting))
  expect([one.used, one.waiting]).toEqual([1, 0])
  await Effect.runPromise(Fiber.interrupt(working))
  expect([one.used, one.waiting]).toEqual([0, 0])
})

it("a lease that is released twice does not end the next one of its owner", () => {
  const one = pool(1)
  const first = one.tryTake({ account: "a", owner: "o" })!
  first.release()
  const second = one.tryTake({ account: "a", owner: "o" })!
  first.release()
  expect([one.held("o"), second.ended, one.used]).toEqual([second, false, 1])
})

it("a deadline frees what it held, and whoever waits has it", async () => {
  const one = pool(1)
  const told: Array<string> = []
  const slow = Effect.runPromise(
    Effect.result(
      Effect.timeoutOrElse(
        one.use({ account: "a" }, () => Effect.never),
        { duration: 1, orElse: () => Effect.fail("late") }
      )
    )
  )
  waiter(one, "b", told)
  expect(Result.isFailure(await slow)).toBe(true)
  expect(told).toEqual(["b"])
})

it("a lease ends when its time is up, unless it is renewed; its listeners hear it once", () => {
  const clock = new Clock()
  const one = pool(1, { clock })
  const lease = leaseOf(one)
  let ends = 0
  lease.onEnd(() => ends++)
  lease.renew(1_000)
  clock.advance(900)
  lease.renew(1_000)
  clock.advance(900)
  expect([lease.ended, ends, one.used]).toEqual([false, 0, 1])
  clock.advance(200)
  expect([lease.ended, ends, one.used]).toEqual([true, 1, 0])
  lease.release()
  lease.onEnd(() => ends++)
  expect([ends, one.used]).toEqual([2, 0])
})

it("a lease is cut short by a shorter renewal", () => {
  const clock = new Clock()
  const lease = leaseOf(pool(1, { clock }))
  lease.renew(60_000)
  lease.renew(1_000)
  clock.advance(1_100)
  expect(lease.ended).toBe(true)
})

it("an owner has one lease, however often it asks", () => {
  const two = pool(2)
  const lease = two.tryTake({ account: "a", owner: "session" })
  expect(two.tryTake({ account: "a", owner: "session" })).toBe(lease)
  expect([two.used, two.held("session")]).toEqual([1, lease])
  lease!.release()
  expect(two.held("session")).toBeUndefined()
})

it("who lost a lease and returns goes before those that are new; nobody overtakes a waiter", () => {
  const one = pool(1)
  const lease = leaseOf(one)
  const told: Array<string> = []
  waiter(one, "new", told)
  waiter(one, "returning", told, true)
  expect([lease.contended, one.tryTake({ account: "x" })]).toEqual([true, undefined])
  lease.release()
  expect(told).toEqual(["returning"])
  expect(one.tryTake({ account: "x" })).toBeUndefined()
})

it("a lease that ends while its resource is in use: the next has it when that use is over", () => {
  const one = pool(1)
  const lease = leaseOf(one)
  const told: Array<string> = []
  lease.enter()
  waiter(one, "next", told)
  lease.release()
  expect([lease.ended, told]).toEqual([true, []])
  lease.leave()
  expect(told).toEqual(["next"])
})

it("whoever stops as soon as its lease ends gives the resource back once", () => {
  const two = pool(2)
  const lease = leaseOf(two)
  lease.enter()
  lease.onEnd(() => lease.leave())
  lease.release()
  expect([two.used, two.size]).toEqual([0, 2])
})

it("each resource is announced when it is lent, so that it can start", () => {
  const lent: Array<number> = []
  const two = pool(2, { onLend: (place) => lent.push(place) })
  leaseOf(two).release()
  leaseOf(two)
  expect(lent).toEqual([0, 1])
})

it("a lost resource is not lent; when none is left, those that wait are told", async () => {
  const lost = new Set([0])
  const two = pool(2, { usable: (place) => !lost.has(place), prefer: (place) => place === 0 })
  const lease = leaseOf(two)
  expect([lease.resource, two.size]).toEqual([1, 1])
  const waiting = Effect.runPromise(Effect.result(two.take({ account: "b" })))
  lost.add(1)
  lease.release()
  expect(await waiting).toMatchObject({ failure: { reason: "unavailable" } })
  expect(await Effect.runPromise(Effect.result(two.take({ account: "b" })))).toMatchObject({
    failure: { reason: "unavailable" }
  })
})

it("ten thousand that wait and answer in the turn of their lease do not exhaust the stack", async () => {
  const one = pool(1, { waitersMax: 10_000 })
  const lease = leaseOf(one)
  let answers = 0
  const all = Array.from({ length: 10_000 }, (_, i) =>
    Effect.runFork(one.use({ account: `a${i % 7}` }, () => Effect.sync(() => answers++)))
  )
  lease.release()
  for (const fiber of all) await Effect.runPromise(Fiber.await(fiber))
  expect([answers, one.used, one.waiting]).toEqual([10_000, 0, 0])
})
