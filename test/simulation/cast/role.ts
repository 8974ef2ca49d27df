/** A role is one kind of actor in a simulation: its definition, the services of its activities, and what its
 *  clients say to it, mostly what is valid in its phase, so that it really moves. */
import type { Context } from "effect"
import type { AnyDefinition } from "../../../runtime/actor.ts"
import type { ActorSystem } from "../../../runtime/registry.ts"
import type { Tagged } from "../books.ts"
import type { Random } from "../random.ts"
import type { Time } from "../loop.ts"
import type { Work } from "../work.ts"

/** What a client knows when it chooses its words. */
export interface Situation {
  readonly id: string
  readonly state: Tagged
  readonly nowMs: number
  readonly random: Random
}

export interface Message {
  readonly command: string
  readonly payload: Record<string, unknown>
}

/** What the services of activities are made of. */
export interface Surroundings {
  readonly work: Work
  readonly time: Time
  readonly system: () => ActorSystem
}

export interface Role {
  readonly definition: AnyDefinition
  readonly say: (situation: Situation) => Message
  /** Adds the services that the role's activities need. */
  readonly services?: (surroundings: Surroundings) => Context.Context<never>
}

export const say = (command: string, payload: Record<string, unknown> = {}): Message => ({ command, payload })

/** Chooses among words by weight. */
export const oneOf = (
  random: Random,
  words: ReadonlyArray<readonly [weight: number, word: () => Message]>
): Message => {
  let at = random.next() * words.reduce((sum, [weight]) => sum + weight, 0)
  for (const [weight, word] of words) {
    at -= weight
    if (at < 0) return word()
  }
  return words[0]![1]()
}

/** A few names, so that clients meet at them. */
export const nameAmong = (random: Random, what: string, count: number): string =>
  `${what}${random.int(count)}`
