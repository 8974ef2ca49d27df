/** What an actor without work holds: the heap before and after so many were made. */
import { Effect, Queue } from "effect"
import { createRequire } from "node:module"
import { Counter, memorySystem, payload } from "./counter.ts"
import { FloorActor, FloorSystem } from "./floor-actors.ts"
import { nextTurn } from "./work.ts"

const require = createRequire(import.meta.url)

/** Makes the i-th actor, and holds what else would be collected. */
type Spawn = (i: number) => void

/** Each is made before the first measurement of the heap. */
const spawners: Readonly<Record<string, (held: Array<unknown>) => Spawn>> = {
  floor: (held) => {
    const floor = new FloorSystem()
    return () => {
      held.push(new FloorActor(floor))
    }
  },
  troupe: (held) => {
    const system = memorySystem()
    held.push(system)
    return (i) => {
      system.ref(Counter, `actor-${i}`).askNow("Add", payload, () => {})
    }
  },
  nact: (held) => {
    const { spawn, start } = require("nact")
    return (i) => {
      held.push(spawn((held[0] ??= start()), (n = 0) => n, `b${i}`))
    }
  },
  effect: (held) => () => {
    const queue = Effect.runSync(Queue.unbounded<number>())
    held.push(queue, Effect.runFork(Effect.forever(Queue.take(queue))))
  }
}

const heapBytes = (): number => {
  const gc = globalThis.gc!
  gc()
  gc()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

export const idle = async (candidate: string, actors: number): Promise<Record<string, unknown>> => {
  const held: Array<unknown> = []
  const spawn = spawners[candidate]!(held)
  const beforeBytes = heapBytes()
  const startedMs = performance.now()
  for (let i = 0; i < actors; i++) spawn(i)
  const spawnMs = performance.now() - startedMs
  await nextTurn()
  return {
    value: (heapBytes() - beforeBytes) / actors,
    extra: `${Math.round(actors / spawnMs)}k spawned a second`,
    // Read after the measurement, so that nothing held was collected before it.
    held: held.length
  }
}
