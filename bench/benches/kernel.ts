/** Measures actors and storage in one process: messages, asks, idle actors, limits, durability, recovery.
 *  Each has a hand-written floor (bench/programs/micro.ts). */
import type { Bench } from "../rounds.ts"
import { programBench } from "./single.ts"

interface Micro {
  readonly unit: string
  readonly rate?: boolean
  readonly operations: number
  readonly peers?: ReadonlyArray<string>
}

const micro = (title: string, { operations, peers = [], ...figure }: Micro): Bench =>
  programBench({
    ...figure,
    title,
    program: "micro",
    candidates: ["floor", "troupe", ...peers],
    args: (name, smoke) => [title, name, smoke ? Math.ceil(operations / 100) : operations]
  })

const cpu = "ns CPU"

const durable = (width: number, operations: number): Bench =>
  micro(`durable-${width}`, { unit: "asks/s", rate: true, operations })

const lazy = "first answer (lazy)"
const eager = "all in memory (eager)"

const recovery = programBench({
  title: "recovery",
  unit: "ms",
  rounds: 1,
  program: "recovery",
  candidates: [lazy, eager],
  compared: [lazy, eager],
  args: (name, smoke) => [name === lazy ? "lazy" : "eager", smoke ? 2_000 : 1_000_000]
})

export const kernelBenches: Record<string, Bench> = {
  tell: micro("tell", { unit: cpu, operations: 600_000, peers: ["xstate", "effect", "nact"] }),
  "tell-1000": micro("tell-1000", { unit: cpu, operations: 600_000 }),
  ask: micro("ask", { unit: cpu, operations: 200_000, peers: ["xstate", "effect", "nact"] }),
  "ask-1000": micro("ask-1000", { unit: cpu, operations: 200_000 }),
  idle: micro("idle", { unit: "bytes/actor", operations: 100_000, peers: ["effect", "nact"] }),
  "rate-window": micro("rate-window", { unit: cpu, operations: 1_000_000, peers: ["flexible"] }),
  "durable-1": durable(1, 2_000),
  "durable-64": durable(64, 40_000),
  "durable-512": durable(512, 60_000),
  recovery
}
