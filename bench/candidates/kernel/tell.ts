/** Measures messages without an answer, to one actor (`tell`) or to a thousand in turn (`tell-1000`). A round
 *  ends when the last message is handled. */
import { Effect, Queue } from "effect"
import { createRequire } from "node:module"
import { Counter, memorySystem, payload } from "./counter.ts"
import { emptyMessage, FloorActor, FloorSystem } from "./floor-actors.ts"
import { nextTurn, type Work } from "./work.ts"

const require = createRequire(import.meta.url)

const toOne: Readonly<Record<string, () => Work>> = {
  floor: () => {
    const actor = new FloorActor(new FloorSystem())
    return async (n) => {
      const until = actor.state.n + n
      for (let i = 0; i < n; i++) actor.tell(emptyMessage)
      while (actor.state.n < until) await nextTurn()
      return n
    }
  },
  troupe: () => {
    const system = memorySystem()
    const ref = system.ref(Counter, "a")
    let sent = 0
    return async (n) => {
      for (let i = 0; i < n; i++) ref.tell("Add", payload)
      sent += n
      while ((system.inspect("counter", "a")!.state as { n: number }).n < sent) await nextTurn()
      return n
    }
  },
  xstate: () => {
    const { createActor, fromTransition } = require("xstate")
    const actor = createActor(
      fromTransition((state: { n: number }) => ({ n: state.n + 1 }), { n: 0 })
    ).start()
    const event = { type: "add" }
    return async (n) => {
      for (let i = 0; i < n; i++) actor.send(event)
      return n
    }
  },
  effect: () => (n) =>
    Effect.runPromise(
      Effect.gen(function* () {
        const queue = yield* Queue.unbounded<number>()
        const fiber = yield* Effect.forkChild(
          Effect.gen(function* () {
            let state = 0
            while (state < n) {
              yield* Queue.take(queue)
              state++
            }
            return state
          })
        )
        for (let i = 0; i < n; i++) Queue.offerUnsafe(queue, 1)
        return yield* Effect.flatten(
          Effect.map(Effect.succeed(fiber), (f) =>
            Effect.promise(
              () =>
                new Promise<number>((done) => {
                  f.addObserver(() => done(n))
                })
            )
          )
        )
      })
    ),
  nact: () => {
    const { start, spawn, dispatch } = require("nact")
    let handled = 0
    const actor = spawn(
      start(),
      (n = 0) => {
        handled++
        return n + 1
      },
      "a"
    )
    return async (n) => {
      const until = handled + n
      for (let i = 0; i < n; i++) dispatch(actor, emptyMessage)
      while (handled < until) await nextTurn()
      return n
    }
  }
}

const toThousand: Readonly<Record<string, () => Work>> = {
  floor: () => {
    const floor = new FloorSystem()
    const actors = Array.from({ length: 1_000 }, () => new FloorActor(floor))
    return async (n) => {
      for (let i = 0; i < n; i++) actors[i % 1_000]!.tell(emptyMessage)
      while (actors.at(-1)!.box.length > 0) await nextTurn()
      return n
    }
  },
  troupe: () => {
    const system = memorySystem()
    const refs = Array.from({ length: 1_000 }, (_, i) => system.ref(Counter, `a${i}`))
    return async (n) => {
      for (let i = 0; i < n; i++) refs[i % 1_000]!.tell("Add", payload)
      while (system.inspect("counter", "a999")!.mailbox > 0) await nextTurn()
      return n
    }
  }
}

export const tell = (candidate: string): Work | undefined => toOne[candidate]?.()

export const tellThousand = (candidate: string): Work | undefined => toThousand[candidate]?.()
