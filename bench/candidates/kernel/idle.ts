/** Measures the memory of an idle actor: the heap before and after a number of them were created. */
import { Effect, Queue } from "effect"
import { createRequire } from "node:module"
import { Counter, memorySystem, payload } from "./counter.ts"
import { FloorActor, FloorSystem } from "./floor-actors.ts"
import { nextTurn } from "./work.ts"

const require = createRequire(import.meta.url)

/** Creates the i-th actor, and retains whatever would otherwise be collected. */
type Spawn = (i: number) => void

/** Each entry is created before the heap is first measured. */
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
    // This is read after the measurement, so that nothing retained was collected before it.
    held: held.length
  }
}
