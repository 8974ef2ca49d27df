/** An actor system whose store and two clocks are the test's; commands are asked without a fiber. */
import { Context } from "effect"
import type { AnyDefinition } from "../../runtime/actor.ts"
import { ActorSystem } from "../../runtime/registry.ts"
import { HeldStore } from "./held-store.ts"

export const turn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve)
  })

/** Several turns of the event loop: fibers that were interrupted have ended. */
export const turns = async (): Promise<void> => {
  for (let count = 0; count < 5; count++) await turn()
}

export class Clocked {
  readonly held = new HeldStore()
  readonly system: ActorSystem
  wallMs = 10_000_000
  monotonicMs = 500

  constructor(...definitions: ReadonlyArray<AnyDefinition>) {
    this.system = new ActorSystem({
      store: this.held.store,
      nowMs: () => this.wallMs,
      monotonicMs: () => this.monotonicMs,
      random: () => 0.5
    })
    for (const definition of definitions)
      this.system.host(definition, Context.empty() as Context.Context<any>)
  }

  advance(ms: number): void {
    this.wallMs += ms
    this.monotonicMs += ms
    this.system.tick()
  }

  /** Asks, and returns what is heard: a reply, a refusal's tag or a fault's reason, in order. */
  ask(definition: AnyDefinition, id: string, command: string, payload: object = {}): { heard: unknown } {
    const answer = { heard: "nothing" as unknown }
    const ref = this.system.ref(definition, id) as unknown as {
      askNow(command: string, payload: object, done: (outcome: any) => void): void
    }
    ref.askNow(command, payload, (outcome) => {
      answer.heard = outcome.fault?.reason ?? outcome.refuse?._tag ?? outcome.reply
    })
    return answer
  }
}

/** How many timers wait. */
export const timersOf = ({ system }: Clocked): number => {
  const { buckets } = system.timers as unknown as {
    readonly buckets: ReadonlyMap<number, ReadonlySet<unknown>>
  }
  return [...buckets.values()].reduce((sum, { size }) => sum + size, 0)
}
