import { Context, Effect, Exit, Fiber, type Scope } from "effect"
import { TestClock } from "effect/testing"
import { describe, expect, it } from "vitest"
import type { AnyDefinition } from "../../runtime/actor.ts"
import { Actors, type ActorSystem, type SystemOptions } from "../../runtime/registry.ts"
import { Echo, Forgetful, Journaled, Names, Snapshotted } from "./counter.ts"
import { HeldStore } from "./held-store.ts"

const run = <A>(
  body: (system: ActorSystem, held: HeldStore) => Effect.Effect<A, unknown, Scope.Scope>,
  options: Partial<SystemOptions> = {},
  held = new HeldStore()
): Promise<A> =>
  Effect.runPromise(
    Effect.scoped(
      Effect.gen(function* () {
        const system = yield* Actors.make({ store: held.store, ...options })
        for (const definition of [Journaled, Snapshotted, Forgetful, Echo] as ReadonlyArray<AnyDefinition>)
          system.host(definition, Context.empty() as Context.Context<any>)
        return yield* body(system, held)
      })
    ).pipe(Effect.provide(TestClock.layer())) as Effect.Effect<A>
  )

const turn = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))

const faultOf = <A, E>(effect: Effect.Effect<A, E>) =>
  Effect.map(Effect.exit(effect), (exit) =>
    Exit.isFailure(exit)
      ? (exit.cause.reasons[0] as { error?: { _tag: string; reason?: string } }).error
      : undefined
  )

describe("turns", () => {
  it("an idle actor answers in the caller's own turn", () =>
    run((system) =>
      Effect.sync(() => {
        const heard: Array<unknown> = []
        const ref = system.ref(Forgetful, "a")
        ref.askNow("Add", { by: 2 }, (answer) => heard.push(answer))
        ref.askNow("Get", {}, (answer) => heard.push(answer))
        expect(heard).toEqual([{ reply: 2 }, { reply: 2 }])
      })
    ))
  it("commands are handled one at a time in order of arrival, tells before the asks behind them", () =>
    run((system) =>
      Effect.gen(function* () {
        const ref = system.ref(Forgetful, "a")
        expect(ref.tell("Add", { by: 1 })).toBe(true)
        expect(ref.tell("Fill", {})).toBe(true)
        expect(ref.tell("Add", { by: 5 })).toBe(true)
        expect(yield* ref.ask("Get", {})).toBe(1)
      })
    ))
  it("a full mailbox refuses, and says so to an asker", () =>
    run((system) =>
      Effect.gen(function* () {
        const ref = system.ref(Forgetful, "a")
        for (let i = 0; i < 8; i++) expect(ref.tell("Add", { by: 1 })).toBe(true)
        expect(ref.tell("Add", { by: 1 })).toBe(false)
        expect(yield* faultOf(ref.ask("Get", {}))).toMatchObject({ _tag: "MailboxFull", capacity: 8 })
        yield* turn
        expect(yield* ref.ask("Get", {})).toBe(8)
      })
    ))
  it("a busy actor does not starve the event loop or its neighbours", () =>
    run((system) =>
      Effect.gen(function* () {
        const busy = system.ref(Forgetful, "busy")
        let going = true
        let asked = 0
        const again = (): void => {
          asked++
          if (going) {
            busy.tell("Get", {})
            busy.askNow("Get", {}, again)
          }
        }
        busy.tell("Get", {})
        busy.askNow("Get", {}, again)
        yield* turn
        expect(yield* system.ref(Forgetful, "other").ask("Add", { by: 1 })).toBe(1)
        yield* turn
        going = false
        expect(asked).toBeGreaterThan(100)
      })
    ))
  it("a callback that throws harms nobody", () =>
    run((system) =>
      Effect.gen(function* () {
        const ref = system.ref(Forgetful, "a")
        ref.tell("Get", {})
        ref.askNow("Get", {}, () => {
          throw new Error("the caller's bug")
        })
        yield* turn
        expect(yield* ref.ask("Add", { by: 1 })).toBe(1)
      })
    ))
})

describe("commit before answer, pipelined", () => {
  it("answers leave after the flush, in order, while later commands are decided on the new state", () =>
    run((system, held) =>
      Effect.gen(function* () {
        held.auto = false
        const heard: Array<unknown> = []
        const ref = system.ref(Journaled, "a")
        for (const by of [1, 2]) ref.askNow("Add", { by }, (answer) => heard.push(answer))
        ref.askNow("Get", {}, (answer) => heard.push(answer))
        expect(heard).toEqual([])
        expect(held.pending).toBe(2)
        held.flush(1)
        expect(heard).toEqual([{ reply: 1 }])
        held.flush()
        expect(heard).toEqual([{ reply: 1 }, { reply: 3 }, { reply: 3 }])
        yield* Effect.void
      })
    ))
  it("a commit that fails fails every answer that depended on it, and the actor is what is on disk", () =>
    run((system, held) =>
      Effect.gen(function* () {
        const ref = system.ref(Journaled, "a")
        yield* ref.ask("Add", { by: 7 })
        held.auto = false
        const heard: Array<any> = []
        ref.askNow("Add", { by: 1 }, (answer) => heard.push(answer))
        ref.askNow("Get", {}, (answer) => heard.push(answer))
        held.fail()
        yield* turn
        expect(heard.map(({ fault }) => fault?.reason)).toEqual(["storage", "storage"])
        held.auto = true
        expect(yield* ref.ask("Add", { by: 1 })).toBe(8)
      })
    ))
  it("events and rows are one step: a row's condition that fails keeps nothing and answers otherwise", () =>
    run((system, held) =>
      Effect.gen(function* () {
        const first = system.ref(Journaled, "a")
        const second = system.ref(Journaled, "b")
        yield* first.ask("Claim", { name: "x" })
        expect(Names.get(held.store, ["x"])).toBe("taken")
        expect(yield* faultOf(second.ask("Claim", { name: "x" }))).toEqual({ _tag: "NameTaken" })
        expect(yield* second.ask("Get", {})).toBe(0)
        expect(yield* first.ask("Get", {})).toBe(100)
        expect(yield* faultOf(second.ask("Seize", { name: "x" }))).toMatchObject({
          _tag: "Unavailable",
          reason: "defect"
        })
        expect(yield* second.ask("Get", {})).toBe(0)
      })
    ))
})

describe("keep", () => {
  for (const definition of [Journaled, Snapshotted]) {
    it(`${definition.keep}: what comes back after passivation and after a restart equals what was live`, async () => {
      const held = new HeldStore()
      await run(
        (system) =>
          Effect.gen(function* () {
            const ref = system.ref(definition, "a")
            for (let by = 1; by <= 10; by++) yield* ref.ask("Add", { by })
            yield* TestClock.adjust("20 seconds")
            expect(system.residents).toBe(0)
            expect(yield* ref.ask("Get", {})).toBe(55)
            yield* ref.ask("Fill", {})
          }),
        {},
        held
      )
      await run(
        (system) =>
          Effect.gen(function* () {
            expect(yield* system.ref(definition, "a").ask("Get", {})).toBe(55)
            expect(yield* faultOf(system.ref(definition, "a").ask("Add", { by: 1 }))).toEqual({
              _tag: "IsFull"
            })
          }),
        {},
        held
      )
    })
  }
  it("journal: a snapshot every N events truncates what it covers", () =>
    run((system, held) =>
      Effect.gen(function* () {
        for (let by = 1; by <= 10; by++) yield* system.ref(Journaled, "a").ask("Add", { by })
        expect(held.store.readSnapshot("journaled", "a")?.seq).toBe(8)
        expect(system.journal("journaled", "a")).toEqual([
          { seq: 9, event: { _tag: "Added", by: 9 } },
          { seq: 10, event: { _tag: "Added", by: 10 } }
        ])
      })
    ))
  it("memory: passivation forgets", () =>
    run((system) =>
      Effect.gen(function* () {
        yield* system.ref(Forgetful, "a").ask("Add", { by: 1 })
        yield* TestClock.adjust("20 seconds")
        expect(yield* system.ref(Forgetful, "a").ask("Get", {})).toBe(0)
      })
    ))
  it("an actor whose journal cannot be read is failed, not empty", () =>
    run((system, held) =>
      Effect.gen(function* () {
        held.store.commit(
          [{ _tag: "append", kind: "journaled", id: "bad", seq: 1, events: [new Uint8Array([1, 2, 3])] }],
          () => {}
        )
        expect(yield* faultOf(system.ref(Journaled, "bad").ask("Get", {}))).toMatchObject({
          _tag: "Unavailable",
          reason: "failed"
        })
        expect(yield* system.ref(Journaled, "good").ask("Get", {})).toBe(0)
      })
    ))
})

describe("supervision", () => {
  it("a defect answers its asker, reloads the actor, and its neighbours notice nothing", () =>
    run((system) =>
      Effect.gen(function* () {
        const ref = system.ref(Journaled, "a")
        const neighbour = system.ref(Journaled, "b")
        yield* ref.ask("Add", { by: 3 })
        yield* neighbour.ask("Add", { by: 4 })
        expect(yield* faultOf(ref.ask("Break", {}))).toMatchObject({ _tag: "Unavailable", reason: "defect" })
        expect(yield* ref.ask("Add", { by: 1 })).toBe(4)
        expect(yield* neighbour.ask("Get", {})).toBe(4)
        expect(system.inspect("journaled", "a")).toMatchObject({
          restarts: 1,
          lastFault: "Error: a bug",
          status: "idle"
        })
      })
    ))
  it("beyond the restart intensity it is failed, visibly, until restarted by hand", () =>
    run((system) =>
      Effect.gen(function* () {
        const ref = system.ref(Journaled, "a")
        const endings: Array<string> = []
        system.watch("journaled", "a", (ending) => endings.push(ending))
        yield* ref.ask("Add", { by: 3 })
        for (let i = 0; i < 3; i++) yield* faultOf(ref.ask("Break", {}))
        expect(yield* faultOf(ref.ask("Get", {}))).toMatchObject({ _tag: "Unavailable", reason: "failed" })
        expect(ref.tell("Get", {})).toBe(false)
        expect(system.overview().find(({ kind }) => kind === "journaled")).toMatchObject({
          failed: 1,
          restarts: 3
        })
        expect(endings).toEqual(["failed"])
        expect(system.restart("journaled", "a")).toBe(true)
        expect(yield* ref.ask("Get", {})).toBe(3)
      })
    ))
  it("crashes spread wider than the intensity's window are forgiven", () =>
    run((system) =>
      Effect.gen(function* () {
        const ref = system.ref(Journaled, "a")
        for (let i = 0; i < 6; i++) {
          yield* faultOf(ref.ask("Break", {}))
          yield* TestClock.adjust("40 seconds")
        }
        expect(yield* ref.ask("Get", {})).toBe(0)
      })
    ))
})

describe("activities and lanes", () => {
  it("an activity starts when its phase is durable, works through lanes, and stops when the phase is left", () =>
    run((system, held) =>
      Effect.gen(function* () {
        const ref = system.ref(Echo, "a")
        held.auto = false
        ref.lanes.words.offer("early")
        ref.tell("Open", { forMs: 60_000 })
        yield* turn
        expect(ref.lanes.words.depth).toBe(1)
        held.auto = true
        held.flush()
        expect(yield* ref.lanes.echoes.take()).toEqual(["EARLY"])
        yield* turn
        expect(yield* ref.ask("Count", {})).toBe(1)
        yield* ref.ask("Shut", {})
        yield* turn
        ref.lanes.words.offer("late")
        yield* turn
        expect(ref.lanes.echoes.depth).toBe(0)
      })
    ))
  it("a full lane in refuses; a full lane out makes the activity wait; nothing is lost or reordered", () =>
    run((system) =>
      Effect.gen(function* () {
        const ref = system.ref(Echo, "a")
        yield* ref.ask("Open", { forMs: 60_000 })
        const words = Array.from({ length: 40 }, (_, i) => `w${i}`)
        let sent = 0
        const heard: Array<string> = []
        while (heard.length < words.length) {
          while (sent < words.length && ref.lanes.words.offer(words[sent]!)) sent++
          yield* turn
          expect(ref.lanes.words.depth).toBeLessThanOrEqual(4)
          expect(ref.lanes.echoes.depth).toBeLessThanOrEqual(4)
          heard.push(...ref.lanes.echoes.takeNow())
        }
        expect(heard).toEqual(words.map((word) => word.toUpperCase()))
      })
    ))
  it("a defect of an activity: the phase is entered again after the backoff, what waits in its lanes survives", () =>
    run((system) =>
      Effect.gen(function* () {
        const ref = system.ref(Echo, "a")
        yield* ref.ask("Open", { forMs: 600_000 })
        ref.lanes.words.offer("crash")
        yield* turn
        ref.lanes.words.offer("after")
        yield* turn
        expect(ref.lanes.echoes.depth).toBe(0)
        expect(system.inspect("echo", "a")).toMatchObject({ restarts: 1, phase: "Open" })
        yield* TestClock.adjust("2 seconds")
        yield* turn
        expect(ref.lanes.echoes.takeNow()).toEqual(["AFTER"])
      })
    ))
  it("an actor at work is not passivated", () =>
    run((system) =>
      Effect.gen(function* () {
        yield* system.ref(Echo, "a").ask("Open", { forMs: 600_000 })
        yield* TestClock.adjust("1 minute")
        expect(system.inspect("echo", "a")).toMatchObject({ status: "working" })
      })
    ))
  it("resume: after a start of the process, kept work goes on without anybody asking", async () => {
    const held = new HeldStore()
    await run((system) => system.ref(Echo, "a").ask("Open", { forMs: 600_000 }), {}, held)
    await run(
      (system) =>
        Effect.gen(function* () {
          expect(system.residents).toBe(0)
          expect(system.resume()).toBe(1)
          yield* turn
          expect(system.inspect("echo", "a")).toMatchObject({ status: "working", phase: "Open" })
        }),
      {},
      held
    )
  })
})

describe("time", () => {
  it("expiry is a time in the state: the sweeper tells Expire, in memory or not, and an actor that ends is forgotten", () =>
    run((system, held) =>
      Effect.gen(function* () {
        const ref = system.ref(Echo, "a")
        const endings: Array<string> = []
        system.watch("echo", "a", (ending) => endings.push(ending))
        yield* ref.ask("Open", { forMs: 30_000 })
        yield* TestClock.adjust("29 seconds")
        expect(endings).toEqual([])
        yield* TestClock.adjust("2 seconds")
        yield* turn
        expect(endings).toEqual(["ended"])
        expect(held.store.readSnapshot("echo", "a")).toBeUndefined()
        expect(yield* ref.ask("Count", {})).toBe(-1)
      })
    ))
  it("an ask has a deadline, and a late answer is dropped", () =>
    run((system, held) =>
      Effect.gen(function* () {
        held.auto = false
        const asking = yield* Effect.forkChild(
          faultOf(system.ref(Journaled, "a").ask("Add", { by: 1 }, 1_000)),
          { startImmediately: true }
        )
        yield* TestClock.adjust("1100 millis")
        expect(yield* Fiber.join(asking)).toMatchObject({ _tag: "AskTimeout", afterMs: 1_000 })
        held.flush()
        expect(yield* system.ref(Journaled, "a").ask("Get", {})).toBe(1)
      })
    ))
  it("the residency limit: idle actors leave, least recently used first, and come back by fold", () =>
    run(
      (system) =>
        Effect.gen(function* () {
          for (let i = 0; i < 10; i++) {
            yield* system.ref(Journaled, `k${i}`).ask("Add", { by: i })
            yield* TestClock.adjust("1 second")
          }
          yield* system.ref(Journaled, "k10").ask("Add", { by: 10 })
          expect(system.residents).toBe(10)
          expect(system.inspect("journaled", "k0")).toBeUndefined()
          expect(yield* system.ref(Journaled, "k0").ask("Get", {})).toBe(0)
          expect(yield* system.ref(Journaled, "k9").ask("Get", {})).toBe(9)
        }),
      { residentMax: 10 }
    ))
  it("a stopped system answers so", () =>
    run((system) =>
      Effect.gen(function* () {
        const ref = system.ref(Journaled, "a")
        yield* ref.ask("Add", { by: 1 })
        yield* system.stop
        expect(yield* faultOf(ref.ask("Get", {}))).toMatchObject({ _tag: "Unavailable", reason: "stopped" })
      })
    ))
})

it("strict: a message that would not survive the wire is found out", () =>
  run(
    (system) =>
      Effect.gen(function* () {
        expect(yield* system.ref(Forgetful, "a").ask("Add", { by: 1 })).toBe(1)
        expect(() => system.ref(Forgetful, "a").tell("Add", { by: 1.5 })).toThrow()
      }),
    { strict: true }
  ))
