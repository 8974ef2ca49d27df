/** What activities run into: the outcome of each piece of work is chosen by the seed, the actor and how often
 *  it has worked, so that a step that is left out changes no other's. */
import { Effect } from "effect"
import type { Model } from "./model.ts"
import { hashText, Random } from "./random.ts"

/** Probabilities of what work comes to; the rest succeeds. */
export interface WorkOdds {
  readonly dies: number
  readonly hangs: number
  readonly fails: number
  readonly bursts: number
}

export type WorkOutcome = "done" | "dies" | "hangs" | "fails" | "bursts"

export class Work {
  private readonly seed: number
  private readonly odds: WorkOdds
  private readonly model: Model
  private readonly counts = new Map<string, number>()

  /** Set at the end of a run: from then on all work succeeds at once. */
  calm = false

  constructor(seed: number, odds: WorkOdds, model: Model) {
    this.seed = seed
    this.odds = odds
    this.model = model
  }

  /** A new random sequence for each call with a name. */
  draw(name: string): Random {
    const count = (this.counts.get(name) ?? 0) + 1
    this.counts.set(name, count)
    return new Random(hashText(`${name} ${count}`, this.seed))
  }

  /** Chooses what becomes of the next piece of work. */
  next(kind: string, id: string): { readonly outcome: WorkOutcome; readonly random: Random } {
    const random = this.draw(`${kind}/${id}`)
    const at = random.next()
    const { dies, hangs, fails, bursts } = this.odds
    const outcome = this.calm ? "done" : chosen(at, { dies, hangs, fails, bursts })
    if (outcome === "dies") this.model.count("activity died")
    if (outcome === "hangs") this.model.count("activity hung")
    if (outcome === "fails") this.model.count("activity failed")
    if (outcome === "bursts") this.model.count("activity burst")
    return { outcome, random }
  }

  /** Work for a port: it takes a while, and then succeeds, fails with `failure`, dies, or never ends. */
  perform<A, E>(kind: string, id: string, result: () => A, failure: () => E): Effect.Effect<A, E> {
    return Effect.suspend(() => {
      const { outcome, random } = this.next(kind, id)
      const pause = this.calm || random.chance(0.4) ? Effect.void : Effect.sleep(random.int(400))
      if (outcome === "hangs") return Effect.never
      if (outcome === "dies") return Effect.andThen(pause, Effect.die(new Error("a bug of the work")))
      if (outcome === "fails")
        return Effect.andThen(
          pause,
          Effect.suspend(() => Effect.fail(failure()))
        )
      return Effect.andThen(pause, Effect.sync(result))
    })
  }
}

const chosen = (at: number, odds: WorkOdds): WorkOutcome => {
  let bound = 0
  for (const outcome of ["dies", "hangs", "fails", "bursts"] as const) {
    bound += odds[outcome]
    if (at < bound) return outcome
  }
  return "done"
}
