/** The kernel's faults K-1 to K-11, each of them seen once: a test a class, which fails without its mend. */
import { Context, Effect, Exit, Fiber, Schema, type Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { describe, expect, it } from "vitest"
import { command, defineActor, persist, reply, type AnyDefinition } from "../../runtime/actor.ts"
import { LanePipe } from "../../runtime/lane.ts"
import { Actors, ActorSystem, type SystemOptions } from "../../runtime/registry.ts"
import { RunQueue } from "../../runtime/run-queue.ts"
import { DeadLetters, KindHealth } from "../../runtime/supervisor.ts"
import { Timers } from "../../runtime/timers.ts"
import type { Store } from "../../storage/store.ts"
import { Echo, Forgetful, Journaled, Names, Snapshotted } from "./counter.ts"
import { HeldStore } from "./held-store.ts"

const turn = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

interface Logged {
  readonly level: string
  readonly message: string
  readonly fields: Record<string, unknown> | undefined
}

interface World {
  readonly system: ActorSystem
  readonly held: HeldStore
  readonly logged: Array<Logged>
}

const run = <A>(
  body: (world: World) => Effect.Effect<A, unknown, Scope.Scope>,
  {
    held = new HeldStore(),
    store = held.store,
    definitions = [],
    ...options
  }: Partial<SystemOptions> & {
    readonly held?: HeldStore
    readonly definitions?: ReadonlyArray<AnyDefinition>
  } = {}
): Promise<A> => {
  const logged: Array<Logged> = []
  return Effect.runPromise(
    Effect.scoped(
      Effect.gen(function* () {
        const system = yield* Actors.make({
          store,
          log: (level, message, fields) => logged.push({ level, message, fields }),
          ...options
        })
        for (const definition of [Journaled, Snapshotted, Forgetful, Echo, ...definitions])
          system.host(definition as AnyDefinition, Context.empty() as Context.Context<any>)
        return yield* body({ system, held, logged })
      })
    ).pipe(Effect.provide(TestClock.layer())) as Effect.Effect<A>
  )
}

const faultOf = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.map(Effect.exit(effect), (exit) =>
    Exit.isFailure(exit)
      ? (exit.cause.reasons[0] as { error?: { _tag: string; reason?: string } }).error
      : undefined
  )

const reasonsOf = (heard: ReadonlyArray<any>): ReadonlyArray<unknown> =>
  heard.map((answer) => answer.fault?.reason ?? answer.reply)

/** An actor that writes its sum down, ends, expires, and does its work in an activity. */
const phases = {
  state: Schema.TaggedUnion({ Idle: {}, Busy: { sum: Schema.Int }, Over: {} }),
  event: Schema.TaggedUnion({ Begun: {}, Added: { by: Schema.Int }, Ended: {} }),
  commands: {
    Begin: command({}, { reply: Schema.Void }),
    Add: command({ by: Schema.Int }, { reply: Schema.Int }),
    Sum: command({}, { reply: Schema.Int }),
    Break: command({}, { reply: Schema.Void }),
    End: command({}, { reply: Schema.Void })
  },
  mailbox: { capacity: 4 },
  restart: { times: 3, within: "1 minute" as const, backoff: "1 second" as const },
  passivateAfter: "10 seconds" as const,
  endsIn: ["Over" as const]
}

type PhasesState = (typeof phases.state)["Type"]

const broken = (): never => {
  throw new Error("a bug")
}

const phasesRules = {
  initial: { _tag: "Idle" as const },
  on: {
    Idle: {
      Begin: () => persist({ _tag: "Begun" }).reply(undefined),
      Add: () => reply(-1),
      Sum: () => reply(-1),
      Break: broken,
      End: () => reply(undefined)
    },
    Busy: {
      Begin: () => reply(undefined),
      Add: ({ sum }: { readonly sum: number }, { by }: { readonly by: number }) =>
        persist({ _tag: "Added", by }).reply(sum + by),
      Sum: ({ sum }: { readonly sum: number }) => reply(sum),
      Break: broken,
      End: () => persist({ _tag: "Ended" }).reply(undefined)
    },
    Over: {
      Begin: () => reply(undefined),
      Add: () => reply(-2),
      Sum: () => reply(-2),
      Break: broken,
      End: () => reply(undefined)
    }
  },
  evolve: {
    Begun: (): PhasesState => ({ _tag: "Busy", sum: 0 }),
    Added: (state: PhasesState, { by }: { readonly by: number }): PhasesState =>
      state._tag === "Busy" ? { ...state, sum: state.sum + by } : state,
    Ended: (): PhasesState => ({ _tag: "Over" })
  }
}

/** A worker whose activity is the test's own stream. */
const worker = (activity: () => Stream.Stream<{ readonly _tag: "Add"; readonly by: number }>) =>
  defineActor("worker", { ...phases, keep: "snapshot" }).behaves({
    ...phasesRules,
    activity: { Busy: activity }
  })

const plain = defineActor("plain", { ...phases, keep: "snapshot" }).behaves(phasesRules)

describe("K-1: what stumbles does not stop time", () => {
  it("a store that throws in the sweep: deadlines, passivation and later sweeps go on, and the log says so", () => {
    const held = new HeldStore()
    let throws = true
    const store: Store = {
      ...held.store,
      expired: (...words) => {
        if (throws) throw new Error("the disk stumbled")
        return held.store.expired(...words)
      }
    }
    return run(
      ({ system, logged }) =>
        Effect.gen(function* () {
          yield* system.ref(Echo, "a").ask("Open", { forMs: 30_000 })
          yield* system.ref(Journaled, "b").ask("Get", {})
          yield* TestClock.adjust("40 seconds")
          expect(system.inspect("journaled", "b")).toBeUndefined()
          expect(system.stumbles["expiry"]).toBeGreaterThan(10)
          const lines = logged.filter(({ message }) => message === "the actor system stumbled")
          expect(lines.length).toBeLessThan(10)
          expect(lines[0]?.fields).toMatchObject({ part: "expiry", fault: "Error: the disk stumbled" })
          throws = false
          yield* TestClock.adjust("2 seconds")
          yield* turn
          expect(yield* system.ref(Echo, "a").ask("Count", {})).toBe(-1)
        }),
      { held, store }
    )
  })
  it("a timer that throws does not hold up the others", () => {
    const defects: Array<unknown> = []
    let nowMs = 0
    const timers = new Timers(
      () => nowMs,
      (defect) => defects.push(defect)
    )
    const fired: Array<number> = []
    timers.after(100, () => broken())
    timers.after(100, () => fired.push(1))
    timers.after(150, () => fired.push(2))
    nowMs = 200
    timers.tick()
    expect([fired, defects.length]).toEqual([[1, 2], 1])
  })
})

describe("K-7: nobody leaves memory with something on its way", () => {
  it("an answer whose callback needs room does not evict the actor before its phase is entered", () =>
    run(
      ({ system, held }) =>
        Effect.gen(function* () {
          held.auto = false
          const other = system.ref(Journaled, "b")
          system.ref(Echo, "a").askNow("Open", { forMs: 1_000 }, () => other.askNow("Get", {}, () => {}))
          held.flush()
          expect(system.list("echo", 1)).toMatchObject([{ id: "a", status: "working" }])
          yield* Effect.void
        }),
      { residentMax: 1 }
    ))
  it("a failed actor whose commit is not flushed stays until it is", () =>
    run(
      ({ system, held }) =>
        Effect.gen(function* () {
          held.auto = false
          const heard: Array<any> = []
          const failing = system.ref(Journaled, "a")
          failing.askNow("Add", { by: 1 }, () => {})
          for (let i = 0; i < 3; i++) failing.askNow("Break", {}, () => {})
          const get = () => system.ref(Journaled, "b").askNow("Get", {}, (answer) => heard.push(answer))
          get()
          held.flush()
          get()
          expect(reasonsOf(heard)).toEqual(["capacity", 0])
          yield* Effect.void
        }),
      { residentMax: 1 }
    ))
})

describe("K-2: watchers and callbacks cannot hurt the queue", () => {
  it("a watcher that throws on 'failed' leaves the run queue to the others", () =>
    run(({ system, logged }) =>
      Effect.gen(function* () {
        const heard: Array<string> = []
        system.watch("forgetful", "a", broken)
        system.watch("forgetful", "a", (ending) => heard.push(ending))
        const ref = system.ref(Forgetful, "a")
        for (let i = 0; i < 3; i++) ref.tell("Break", {})
        yield* turn
        expect(heard).toEqual(["failed"])
        const other = system.ref(Forgetful, "b")
        other.tell("Add", { by: 2 })
        other.tell("Add", { by: 2 })
        yield* turn
        expect(yield* other.ask("Get", {})).toBe(4)
        expect(logged.some(({ fields }) => fields?.["part"] === "watchers")).toBe(true)
      })
    ))
  it("40 watchers that throw inline: nothing escapes askNow, and idle actors still answer in the caller's turn", () =>
    run(({ system }) =>
      Effect.sync(() => {
        for (let i = 0; i < 40; i++) {
          system.watch("forgetful", `x${i}`, broken)
          for (let k = 0; k < 3; k++) system.ref(Forgetful, `x${i}`).askNow("Break", {}, () => {})
        }
        const heard: Array<unknown> = []
        system.ref(Forgetful, "y").askNow("Add", { by: 2 }, (answer) => heard.push(answer))
        expect(heard).toEqual([{ reply: 2 }])
      })
    ))
  it("a watcher that throws on 'ended': the End is answered once", () =>
    run(
      ({ system }) =>
        Effect.gen(function* () {
          const ref = system.ref(plain, "a")
          yield* ref.ask("Begin", {})
          system.watch("plain", "a", broken)
          const heard: Array<unknown> = []
          ref.askNow("End", {}, (answer) => heard.push(answer))
          yield* turn
          expect(heard).toEqual([{ reply: undefined }])
        }),
      { definitions: [plain] }
    ))
  it("a callback that throws does not reach whoever asks a system that has stopped, or is full", () =>
    run(
      ({ system, logged }) =>
        Effect.gen(function* () {
          const [a, b] = [system.ref(Forgetful, "a"), system.ref(Forgetful, "b")]
          a.tell("Get", {})
          b.askNow("Get", {}, broken)
          yield* system.stop
          a.askNow("Get", {}, broken)
          expect(logged.filter(({ message }) => message === "an answer's callback threw")).toHaveLength(2)
        }),
      { residentMax: 1 }
    ))
  it("a watcher that was told and then stops watching leaves those who watch now", () =>
    run(({ system }) =>
      Effect.sync(() => {
        const heard: Array<string> = []
        const ref = system.ref(Forgetful, "a")
        const fail = (): void => {
          for (let i = 0; i < 3; i++) ref.askNow("Break", {}, () => {})
        }
        const stopWatching = system.watch("forgetful", "a", (ending) => heard.push(`first ${ending}`))
        fail()
        system.restart("forgetful", "a")
        system.watch("forgetful", "a", (ending) => heard.push(`second ${ending}`))
        stopWatching()
        fail()
        expect(heard).toEqual(["first failed", "second failed"])
      })
    ))
  it("a cell that throws does not stop the run queue, and nobody stands in it twice", () => {
    let ran = 0
    const work: Array<() => void> = []
    const queue = new RunQueue({ soon: (next) => work.push(next), later: (next) => work.push(next) })
    const bad = { next: undefined, inRunQueue: false, run: broken }
    const good = { next: undefined, inRunQueue: false, run: () => ++ran }
    queue.enqueue(bad)
    queue.enqueue(good)
    queue.enqueue(good)
    while (work.length > 0) work.shift()!()
    queue.enqueue(good)
    while (work.length > 0) work.shift()!()
    expect(ran).toBe(2)
  })
})

describe("K-3: an end that is lost never happened", () => {
  it("a read behind an unflushed End waits for it; when it is lost, it and everybody else finds the actor as it was", () =>
    run(
      ({ system, held }) =>
        Effect.gen(function* () {
          const ref = system.ref(plain, "a")
          yield* ref.ask("Begin", {})
          yield* ref.ask("Add", { by: 500 })
          const endings: Array<string> = []
          system.watch("plain", "a", (ending) => endings.push(ending))
          held.auto = false
          const heard: Array<unknown> = []
          ref.askNow("End", {}, (answer) => heard.push(answer))
          ref.askNow("Sum", {}, (answer) => heard.push(answer))
          system.ref(plain, "a").askNow("Sum", {}, (answer) => heard.push(answer))
          expect([heard, endings]).toEqual([[], []])
          held.fail()
          yield* turn
          expect(reasonsOf(heard)).toEqual(["storage", "storage", "storage"])
          expect(endings).toEqual([])
          held.auto = true
          expect(yield* system.ref(plain, "a").ask("Add", { by: 1 })).toBe(501)
          expect(yield* ref.ask("Sum", {})).toBe(501)
        }),
      { definitions: [plain] }
    ))
  it("behind an End the address is free: the next incarnation is decided at once, and durable in order", () =>
    run(
      ({ system, held }) =>
        Effect.gen(function* () {
          const ref = system.ref(plain, "a")
          yield* ref.ask("Begin", {})
          yield* ref.ask("Add", { by: 7 })
          const endings: Array<string> = []
          system.watch("plain", "a", (ending) => endings.push(ending))
          held.auto = false
          const heard: Array<unknown> = []
          for (const name of ["End", "Begin", "Sum"] as const)
            ref.askNow(name, {}, (answer: unknown) => heard.push(answer))
          held.flush(1)
          expect([reasonsOf(heard), endings]).toEqual([[undefined], ["ended"]])
          held.flush()
          expect(reasonsOf(heard)).toEqual([undefined, undefined, 0])
          held.auto = true
          expect(yield* system.ref(plain, "a").ask("Add", { by: 1 })).toBe(1)
          yield* ref.ask("End", {})
          yield* turn
          expect(system.residents).toBe(0)
        }),
      { definitions: [plain] }
    ))
})

describe("K-4: who hears of a loss finds what is on disk", () => {
  it("a retry from the fault's callback, of this actor and of another that lost a commit too, sees the stored state", () =>
    run(({ system, held }) =>
      Effect.gen(function* () {
        const first = system.ref(Snapshotted, "a")
        const second = system.ref(Snapshotted, "b")
        for (const ref of [first, second]) yield* ref.ask("Add", { by: 1 })
        held.auto = false
        const heard: Array<unknown> = []
        const retried: Array<unknown> = []
        first.askNow("Add", { by: 10 }, (answer) => {
          heard.push(answer)
          for (const ref of [first, second]) ref.askNow("Get", {}, (again) => retried.push(again))
          second.askNow("Add", { by: 5 }, (again) => retried.push(again))
        })
        second.askNow("Add", { by: 10 }, (answer) => heard.push(answer))
        held.fail()
        yield* turn
        held.flush()
        expect(reasonsOf(heard)).toEqual(["storage", "storage"])
        expect(reasonsOf(retried)).toEqual([1, 1, 6])
      })
    ))
  it("a retry from a defect's callback sees the reloaded state", () =>
    run(({ system }) =>
      Effect.gen(function* () {
        const ref = system.ref(Forgetful, "a")
        yield* ref.ask("Add", { by: 3 })
        const heard: Array<unknown> = []
        ref.askNow("Break", {}, () => ref.askNow("Add", { by: 1 }, (answer) => heard.push(answer)))
        yield* turn
        expect(reasonsOf(heard)).toEqual([1])
        expect(yield* ref.ask("Get", {})).toBe(1)
      })
    ))
})

describe("K-5: what an activity tells its actor is handled", () => {
  it("a full mailbox does not drop it", () => {
    const adds = 50
    const busy = worker(() => Stream.map(Stream.range(1, adds), () => ({ _tag: "Add" as const, by: 1 })))
    return run(
      ({ system, held }) =>
        Effect.gen(function* () {
          const ref = system.ref(busy, "a")
          yield* ref.ask("Begin", {})
          for (let i = 0; i < 3 * adds; i++) {
            while (ref.tell("Sum", {}));
            yield* turn
          }
          expect(yield* ref.ask("Sum", {})).toBe(adds)
          expect(held.pending).toBe(0)
        }),
      { definitions: [busy] }
    )
  })
  it("a storage fault does not lose it: it is told again until it is durable, in order", () => {
    const bits = worker(() =>
      Stream.map(Stream.fromIterable([1, 10, 100]), (by) => ({ _tag: "Add" as const, by }))
    )
    return run(
      ({ system, held }) =>
        Effect.gen(function* () {
          const ref = system.ref(bits, "a")
          yield* ref.ask("Begin", {})
          held.auto = false
          yield* turn
          for (let i = 0; i < 3; i++) {
            held.fail()
            yield* turn
            yield* TestClock.adjust("1 second")
          }
          held.auto = true
          held.flush()
          for (let i = 0; i < 4; i++) yield* turn
          expect(yield* ref.ask("Sum", {})).toBe(111)
        }),
      { definitions: [bits] }
    )
  })
})

const Due = defineActor("due", {
  ...phases,
  commands: {
    ...phases.commands,
    Put: command({ name: Schema.String, atMs: Schema.Int }, { reply: Schema.Boolean }),
    Expire: command({}, { reply: Schema.Void })
  },
  state: Schema.TaggedUnion({ Idle: {}, Busy: { sum: Schema.Int }, Over: {} }),
  keep: "snapshot",
  expiresAt: (state) => (state._tag === "Busy" ? state.sum : undefined)
}).behaves({
  initial: { _tag: "Idle" },
  on: {
    Idle: {
      ...phasesRules.on.Idle,
      Put: (_, { name, atMs }) =>
        persist({ _tag: "Begun" }, { _tag: "Added", by: atMs })
          .with(Names.put([name], "taken", "absent"))
          .otherwise(reply(false))
          .reply(true),
      Expire: () => reply(undefined)
    },
    Busy: {
      ...phasesRules.on.Busy,
      Put: () => reply(false),
      Expire: () => persist({ _tag: "Ended" }).reply(undefined)
    },
    Over: { ...phasesRules.on.Over, Put: () => reply(false), Expire: () => reply(undefined) }
  },
  evolve: phasesRules.evolve
})

it("K-6: a time of expiry that a refused commit would have set is set by the next commit with the same time", () =>
  run(
    ({ system }) =>
      Effect.gen(function* () {
        yield* system.ref(Due, "a").ask("Put", { name: "x", atMs: 5_000 })
        const ref = system.ref(Due, "b")
        expect(yield* ref.ask("Put", { name: "x", atMs: 5_000 })).toBe(false)
        expect(yield* ref.ask("Put", { name: "y", atMs: 5_000 })).toBe(true)
        yield* TestClock.adjust("7 seconds")
        yield* turn
        for (const id of ["a", "b"]) expect(yield* system.ref(Due, id).ask("Sum", {})).toBe(-1)
      }),
    { definitions: [Due] }
  ))

describe("K-7: one place in the queue, and no activity ahead of the disk", () => {
  it("an actor that fails and is restarted while it is queued does not cut off its neighbour", () =>
    run(({ system }) =>
      Effect.gen(function* () {
        const ref = system.ref(Forgetful, "a")
        const neighbour = system.ref(Forgetful, "b")
        for (let i = 0; i < 3; i++) ref.askNow("Break", {}, () => {})
        expect(system.restart("forgetful", "a")).toBe(true)
        // Queued, failed in the queue, restarted, queued again, with a neighbour behind it.
        for (let i = 0; i < 3; i++) ref.tell("Break", {})
        neighbour.tell("Add", { by: 1 })
        let restarts = 0
        system.watch("forgetful", "a", () => {
          restarts++
          system.restart("forgetful", "a")
          ref.tell("Add", { by: 1 })
        })
        yield* turn
        neighbour.tell("Add", { by: 1 })
        yield* turn
        expect(yield* neighbour.ask("Get", {})).toBe(2)
        expect(yield* ref.ask("Get", {})).toBe(1)
        expect(restarts).toBe(1)
      })
    ))
  it("a defect while the phase is still on its way to the disk: its activity waits for the flush, and never runs when it is lost", () => {
    const starts: Array<number> = []
    const counted = worker(() => {
      starts.push(1)
      return Stream.never
    })
    return run(
      ({ system, held }) =>
        Effect.gen(function* () {
          const ref = system.ref(counted, "a")
          held.auto = false
          ref.tell("Begin", {})
          ref.tell("Break", {})
          yield* turn
          yield* TestClock.adjust("3 seconds")
          expect(starts.length).toBe(0)
          held.fail()
          yield* turn
          yield* TestClock.adjust("3 seconds")
          expect(starts.length).toBe(0)
          ref.tell("Begin", {})
          ref.tell("Break", {})
          yield* turn
          held.flush()
          yield* TestClock.adjust("5 seconds")
          yield* turn
          expect(starts.length).toBe(1)
        }),
      { definitions: [counted] }
    )
  })
})

describe("K-8: durations are monotonic", () => {
  it("the wall clock set back by an hour delays no deadline and no passivation", () => {
    const held = new HeldStore()
    const clock = { wallMs: 10_000_000, monotonicMs: 500 }
    const system = new ActorSystem({
      store: held.store,
      nowMs: () => clock.wallMs,
      monotonicMs: () => clock.monotonicMs
    })
    system.host(Journaled, Context.empty())
    const advance = (ms: number): void => {
      clock.wallMs += ms
      clock.monotonicMs += ms
      system.tick()
    }
    return Effect.runPromise(
      Effect.gen(function* () {
        yield* system.ref(Journaled, "idle").ask("Get", {})
        held.auto = false
        clock.wallMs -= 3_600_000
        const asking = yield* Effect.forkChild(
          faultOf(system.ref(Journaled, "a").ask("Add", { by: 1 }, 1_000)),
          { startImmediately: true }
        )
        advance(1_100)
        expect(yield* Fiber.join(asking)).toMatchObject({ _tag: "AskTimeout" })
        for (let i = 0; i < 15; i++) advance(1_000)
        expect(system.inspect("journaled", "idle")).toBeUndefined()
      })
    )
  })
})

it("K-9: actors that cannot expire do not hold up those behind them", () =>
  run(
    ({ system, held }) =>
      Effect.gen(function* () {
        const stuck = 1_500
        const ids = Array.from({ length: stuck }, (_, i) => `stuck${i}`)
        const unreadable = new Uint8Array([0xc1])
        held.store.commit(
          ids.flatMap((id) => [
            { _tag: "snapshot", kind: "due", id, seq: 1, state: unreadable } as const,
            { _tag: "expire", kind: "due", id, atMs: 1_000 } as const
          ]),
          () => {}
        )
        yield* turn
        yield* system.ref(Due, "z").ask("Put", { name: "z", atMs: 2_000 })
        yield* TestClock.adjust("8 seconds")
        yield* turn
        expect(held.store.readSnapshot("due", "z")).toBeUndefined()
        expect(system.overview().find(({ kind }) => kind === "due")).toMatchObject({
          failed: stuck,
          degraded: true
        })
      }),
    { definitions: [Due] }
  ))

describe("K-10: actors that live only in memory have a limit", () => {
  it("3,000 of them at a limit of 1,000: the least recently used leave first", () =>
    run(
      ({ system }) =>
        Effect.gen(function* () {
          for (let i = 0; i < 3_000; i++) {
            yield* system.ref(Forgetful, `m${i}`).ask("Add", { by: 1 })
            if (i % 1_000 === 999) yield* TestClock.adjust("1 second")
          }
          expect(system.residents).toBeLessThanOrEqual(1_000)
          expect(yield* system.ref(Forgetful, "m2999").ask("Get", {})).toBe(1)
        }),
      { residentMax: 1_000 }
    ))
  it("when every resident is at work, the next one is told so", () =>
    run(
      ({ system, held }) =>
        Effect.gen(function* () {
          held.auto = false
          for (let i = 0; i < 4; i++) system.ref(Journaled, `k${i}`).tell("Add", { by: 1 })
          yield* turn
          const ref = system.ref(Journaled, "one-more")
          expect(yield* faultOf(ref.ask("Get", {}))).toMatchObject({
            _tag: "Unavailable",
            reason: "capacity"
          })
          expect(ref.tell("Get", {})).toBe(false)
          held.flush()
          expect(yield* ref.ask("Get", {})).toBe(0)
        }),
      { residentMax: 4 }
    ))
})

const Nested = (inner: () => void) =>
  defineActor("nested", {
    ...phases,
    commands: { Who: command({ nest: Schema.Boolean }, { reply: Schema.String }) },
    keep: "memory"
  }).behaves({
    initial: { _tag: "Idle" },
    on: {
      Idle: {
        Who: (_, { nest }, facts) => {
          if (nest) inner()
          return reply(facts.id)
        }
      },
      Busy: { Who: () => reply("") },
      Over: { Who: () => reply("") }
    },
    evolve: phasesRules.evolve
  })

describe("K-11", () => {
  it("a rule that asks its own kind still sees its own id", () => {
    let world: ActorSystem | undefined
    const definition: ReturnType<typeof Nested> = Nested(() =>
      world!.ref(definition, "inner").askNow("Who", { nest: false }, () => {})
    )
    return run(
      ({ system }) =>
        Effect.gen(function* () {
          world = system
          expect(yield* system.ref(definition, "outer").ask("Who", { nest: true })).toBe("outer")
        }),
      { definitions: [definition] }
    )
  })
  it("a retry at once on an actor that ends or stops does not loop", () =>
    run(
      ({ system }) =>
        Effect.gen(function* () {
          const ref = system.ref(Forgetful, "a")
          let tries = 0
          const again = (answer: object): void => {
            if ("fault" in answer && ++tries < 100) ref.askNow("Get", {}, again)
          }
          ref.tell("Get", {})
          ref.askNow("Get", {}, again)
          yield* system.stop
          expect(tries).toBe(100)
        }),
      {}
    ))
  it("a finished activity is not run again by passivation, by a read or by a lost commit", () => {
    let starts = 0
    const once = worker(() => {
      starts++
      return Stream.make({ _tag: "Add" as const, by: 5 })
    })
    return run(
      ({ system, held }) =>
        Effect.gen(function* () {
          const ref = system.ref(once, "a")
          yield* ref.ask("Begin", {})
          yield* turn
          expect(yield* ref.ask("Sum", {})).toBe(5)
          yield* TestClock.adjust("1 minute")
          expect(yield* system.ref(once, "a").ask("Sum", {})).toBe(5)
          held.auto = false
          ref.tell("Add", { by: 1 })
          yield* turn
          held.fail()
          held.auto = true
          yield* turn
          yield* faultOf(ref.ask("Break", {}))
          yield* TestClock.adjust("5 seconds")
          expect(yield* ref.ask("Sum", {})).toBe(5)
          expect(starts).toBe(1)
        }),
      { definitions: [once] }
    )
  })
  it("passivation does not forgive crashes: three within a minute fail the actor, at rest between them or not", () =>
    run(({ system }) =>
      Effect.gen(function* () {
        const ref = system.ref(Journaled, "a")
        for (let i = 0; i < 3; i++) {
          yield* faultOf(ref.ask("Break", {}))
          yield* TestClock.adjust("15 seconds")
        }
        expect(yield* faultOf(ref.ask("Get", {}))).toMatchObject({ reason: "failed" })
        yield* system.ref(Journaled, "b").ask("Get", {})
        yield* faultOf(system.ref(Journaled, "b").ask("Break", {}))
        yield* TestClock.adjust("2 minutes")
        expect(system.inspect("journaled", "b")).toBeUndefined()
      })
    ))
  it("a rest after a crash is its phase's: who leaves the phase works in the next one at once", () => {
    const starts: Array<string> = []
    const restless = defineActor("restless", { ...phases, keep: "snapshot", endsIn: [] }).behaves({
      ...phasesRules,
      activity: {
        Busy: () => {
          starts.push("Busy")
          return Stream.fromEffect(Effect.die(new Error("a bug")))
        },
        Over: () => {
          starts.push("Over")
          return Stream.never
        }
      }
    })
    return run(
      ({ system }) =>
        Effect.gen(function* () {
          const ref = system.ref(restless, "a")
          yield* ref.ask("Begin", {})
          yield* turn
          expect(starts).toEqual(["Busy"])
          yield* ref.ask("End", {})
          yield* turn
          expect(starts).toEqual(["Busy", "Over"])
        }),
      { definitions: [restless] }
    )
  })
  it("a phase that is left and entered again on the way to the disk begins its finished activity anew, though a rule crashes", () => {
    let starts = 0
    const twice = defineActor("twice", { ...phases, keep: "snapshot", endsIn: [] }).behaves({
      ...phasesRules,
      on: {
        ...phasesRules.on,
        Over: { ...phasesRules.on.Over, Begin: () => persist({ _tag: "Begun" }).reply(undefined) }
      },
      activity: {
        Busy: () => {
          starts++
          return Stream.empty
        }
      }
    })
    return run(
      ({ system, held }) =>
        Effect.gen(function* () {
          const ref = system.ref(twice, "a")
          yield* ref.ask("Begin", {})
          yield* turn
          expect(starts).toBe(1)
          held.auto = false
          for (const name of ["End", "Begin", "Break"] as const) ref.tell(name, {})
          yield* turn
          held.flush()
          yield* TestClock.adjust("5 seconds")
          yield* turn
          expect(starts).toBe(2)
        }),
      { definitions: [twice] }
    )
  })
  it("a settled ask holds nothing in the timers", () => {
    let nowMs = 0
    const timers = new Timers(() => nowMs)
    let fired = 0
    const timer = timers.after(5_000, () => fired++)
    timer.cancel()
    nowMs = 10_000
    timers.tick()
    expect(fired).toBe(0)
  })
  it("an item that nobody takes does not keep its actor in memory, and is counted", () =>
    run(({ system }) =>
      Effect.gen(function* () {
        system.ref(Echo, "a").lanes.words.offer("unheard")
        yield* TestClock.adjust("15 seconds")
        expect(system.residents).toBe(0)
        expect(system.deadLetters).toMatchObject([{ kind: "echo", name: "words", reason: "unread" }])
      })
    ))
  it("a second consumer displaces the first, which hears the end", () =>
    Effect.runPromise(
      Effect.gen(function* () {
        const pipe = new LanePipe<number>(4)
        const first = yield* Effect.forkChild(pipe.take(), { startImmediately: true })
        const second = yield* Effect.forkChild(pipe.take(), { startImmediately: true })
        expect(yield* Fiber.join(first)).toBeUndefined()
        pipe.offer(1)
        expect(yield* Fiber.join(second)).toEqual([1])
      })
    ))
  it("dead letters are counted and sampled; one line in ten seconds is logged", () =>
    run(({ system, logged }) =>
      Effect.gen(function* () {
        const ref = system.ref(Forgetful, "a")
        for (let i = 0; i < 3; i++) yield* faultOf(ref.ask("Break", {}))
        for (let i = 0; i < 100; i++) ref.tell("Get", {})
        expect(system.overview().find(({ kind }) => kind === "forgetful")).toMatchObject({ deadLetters: 100 })
        expect(system.deadLetters.length).toBe(32)
        expect(logged.filter(({ message }) => message === "commands reached nobody").length).toBe(1)
        const letters = new DeadLetters()
        const letter = { kind: "k", id: "i", name: "n", reason: "full" as const, atMs: 0 }
        expect([0, 5_000, 10_000].map((atMs) => letters.add(letter, atMs))).toEqual([1, undefined, 2])
      })
    ))
  it("failures of one kind escalate: it is degraded until a minute has passed without so many", () => {
    const health = new KindHealth()
    expect([0, 1, 2, 3].map((atMs) => health.record(atMs))).toEqual([false, false, false, false])
    expect(health.isDegraded(3)).toBe(false)
    expect([health.record(4), health.record(5)]).toEqual([true, false])
    expect([health.isDegraded(60_004), health.isDegraded(60_005)]).toEqual([true, false])
  })
})

it("G-6: an actor that cannot be read is failed and named, and those behind it are resumed", () => {
  const held = new HeldStore()
  held.store.commit(
    [{ _tag: "snapshot", kind: "echo", id: "a", seq: 1, state: new Uint8Array([0xc1]) }],
    () => {}
  )
  return run(
    ({ system, logged }) =>
      Effect.gen(function* () {
        yield* system.ref(Echo, "b").ask("Open", { forMs: 600_000 })
        yield* turn
        expect(system.resume()).toBe(2)
        expect(system.inspect("echo", "b")).toMatchObject({ status: "working" })
        expect(yield* faultOf(system.ref(Echo, "a").ask("Count", {}))).toMatchObject({ reason: "failed" })
        expect(logged.find(({ message }) => message.includes("cannot be read"))?.fields).toMatchObject({
          actor: "echo",
          id: "a"
        })
      }),
    { held }
  )
})
