/** The actor that every kernel bench drives, and a system in memory that hosts it. */
import { Context, Schema } from "effect"
import { RateWindow } from "../../../actors/rate-window.ts"
import { command, defineActor, persist } from "../../../runtime/actor.ts"
import { ActorSystem } from "../../../runtime/registry.ts"
import { openMemory } from "../../../storage/memory.ts"

export const counter = (keep: "memory" | "journal") =>
  defineActor("counter", {
    state: Schema.TaggedUnion({ On: { n: Schema.Int } }),
    event: Schema.TaggedUnion({ Added: { pad: Schema.String } }),
    commands: { Add: command({ pad: Schema.String }, { reply: Schema.Int }) },
    keep,
    snapshotEvery: 1_000,
    mailbox: { capacity: 10_000_000 },
    restart: { times: 3, within: "1 minute" },
    passivateAfter: "1 hour"
  }).behaves({
    initial: { _tag: "On", n: 0 },
    on: { On: { Add: ({ n }, { pad }) => persist({ _tag: "Added", pad }).reply(n + 1) } },
    evolve: { Added: ({ n }) => ({ _tag: "On", n: n + 1 }) }
  })

export const Counter = counter("memory")

export const memorySystem = (): ActorSystem => {
  const system = new ActorSystem({ store: openMemory(), nowMs: Date.now, residentMax: 1_000_000 })
  system.host(Counter, Context.empty())
  system.host(RateWindow, Context.empty())
  return system
}

/** A message whose content does not matter. */
export const payload = { pad: "" }
