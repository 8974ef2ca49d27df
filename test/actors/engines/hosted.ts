/** An actor system that hosts engines, over memory, for tests of what it supervises. Its clock stands still
 *  unless told otherwise. */
import { Context, Effect } from "effect"
import { EngineProcess, EngineStarts, type EngineStartMap } from "../../../actors/engines/engine-process.ts"
import { ActorSystem } from "../../../runtime/registry.ts"
import { openMemory } from "../../../storage/memory.ts"

export interface Hosted {
  readonly system: ActorSystem
  readonly starts: EngineStartMap
  advance(ms: number): void
  close(): Promise<void>
}

/** `real`: the clock of the machine, ticking by itself. */
export const hosted = (clock: "real" | "still"): Hosted => {
  let nowMs = 1_000_000
  const system = new ActorSystem({ store: openMemory(), nowMs: clock === "real" ? Date.now : () => nowMs })
  const starts: EngineStartMap = new Map()
  system.host(EngineProcess, Context.make(EngineStarts, starts))
  const timer = clock === "real" ? setInterval(() => system.tick(), 10) : undefined
  return {
    system,
    starts,
    advance: (ms) => {
      nowMs += ms
      system.tick()
    },
    close: async () => {
      clearInterval(timer)
      await Effect.runPromise(system.stop)
    }
  }
}
