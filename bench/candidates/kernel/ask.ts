/** Measures asks of one actor, one after the other (`ask`) or a thousand at once (`ask-1000`). */
import { Deferred, Effect, Queue } from "effect"
import { createRequire } from "node:module"
import { Counter, memorySystem, payload } from "./counter.ts"
import { FloorActor, FloorSystem } from "./floor-actors.ts"
import { inThousands, sequential, type Work } from "./work.ts"

const require = createRequire(import.meta.url)

/** Each entry creates an actor and returns the function that asks it. */
const askers: Readonly<Record<string, () => () => Promise<unknown>>> = {
  floor: () => {
    const actor = new FloorActor(new FloorSystem())
    return () =>
      new Promise((answer) => {
        actor.tell({ answer })
      })
  },
  troupe: () => {
    const ref = memorySystem().ref(Counter, "a")
    return () =>
      new Promise((answer) => {
        ref.askNow("Add", payload, answer)
      })
  },
  xstate: () => {
    const { createActor, fromTransition } = require("xstate")
    const actor = createActor(
      fromTransition(
        (state: { n: number }, event: any) => {
          event.answer?.(state.n)
          return { n: state.n + 1 }
        },
        { n: 0 }
      )
    ).start()
    return () =>
      new Promise((answer) => {
        actor.send({ type: "add", answer })
      })
  },
  nact: () => {
    const { start, spawn, query, dispatch } = require("nact")
    const actor = spawn(
      start(),
      (n = 0, message: { sender: unknown }) => {
        dispatch(message.sender, n)
        return n + 1
      },
      "a"
    )
    return () => query(actor, (sender: unknown) => ({ sender }), 10_000)
  }
}

/** A fiber takes from a queue, and an ask waits for its deferred. */
const effectAsk: Work = (n) =>
  Effect.runPromise(
    Effect.gen(function* () {
      const queue = yield* Queue.unbounded<Deferred.Deferred<number>>()
      yield* Effect.forkChild(
        Effect.gen(function* () {
          for (let state = 0; ; state++) yield* Deferred.succeed(yield* Queue.take(queue), state)
        })
      )
      for (let i = 0; i < n; i++) {
        const answer = yield* Deferred.make<number>()
        yield* Queue.offer(queue, answer)
        yield* Deferred.await(answer)
      }
      return n
    })
  )

const repeatedBy =
  (repeat: (ask: () => Promise<unknown>) => Work) =>
  (candidate: string): Work | undefined => {
    const asker = askers[candidate]
    return asker === undefined ? undefined : repeat(asker())
  }

export const ask = (candidate: string): Work | undefined =>
  candidate === "effect" ? effectAsk : repeatedBy(sequential)(candidate)

export const askThousand = repeatedBy(inThousands)
