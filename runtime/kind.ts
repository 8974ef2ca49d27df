/** A kind is a definition prepared to run: durations are converted to ms, codecs are compiled, and events and
 *  snapshots can be written and loaded. There is one per kind of actor. Source: docs/architecture.md, "The
 *  kernel". */
import { type Context, Duration, Effect, type Fiber } from "effect"
import { packing, type Store, type Write } from "../storage/store.ts"
import type { AnyDefinition, Facts, Lane } from "./actor.ts"
import type { RunQueue } from "./run-queue.ts"
import type { Intensity } from "./supervisor.ts"
import type { Timers } from "./timers.ts"

type Tagged = { readonly _tag: string }

export type Log = (
  level: "debug" | "info" | "warn" | "error",
  message: string,
  fields?: Record<string, unknown>
) => void

/** The part of a live actor that its kind and the host need to know. */
export interface Resident {
  readonly kind: Kind
  readonly id: string
}

/** Gives a cell what it needs from the actor system. */
export interface Host {
  readonly store: Store
  readonly runQueue: RunQueue
  readonly timers: Timers
  readonly log: Log
  /** Counts the sweeps so far; it is the coarse clock of passivation. */
  readonly sweeps: number
  nowMs(): number
  /** A random number in 0 ≤ n < 1, for jitter. */
  random(): number
  /** A new random id (UUID v4). */
  newId(): string
  failed(cell: Resident): void
  ended(cell: Resident): void
}

const snapshotEveryDefault = 100
const backoffMsDefault = 50

export class Kind {
  readonly name: string
  readonly definition: AnyDefinition
  readonly system: Host
  readonly counts = { handled: 0, refused: 0, restarts: 0, failures: 0, activations: 0, passivations: 0 }
  readonly durable: boolean
  readonly mailboxCapacity: number
  readonly passivateAfterMs: number
  readonly intensity: Intensity
  readonly hasActivity: boolean
  readonly lanes: Record<string, Lane<any, any>>
  readonly expiresAt: ((state: any) => number | undefined) | undefined
  readonly endsIn: ReadonlySet<string> | undefined

  readonly write: (
    writes: Array<Write>,
    id: string,
    seq: number,
    events: ReadonlyArray<Tagged>,
    state: Tagged
  ) => void

  readonly load: (id: string) => { readonly state: Tagged; readonly seq: number }
  readonly fork: (work: Effect.Effect<void, never, any>) => Fiber.Fiber<void>
  readonly unpackEvent: (bytes: Uint8Array) => unknown
  private readonly facts = new DecisionFacts()

  constructor(definition: AnyDefinition, context: Context.Context<any>, system: Host) {
    this.name = definition.kind
    this.definition = definition
    this.system = system
    this.durable = definition.keep !== "memory"
    this.mailboxCapacity = definition.mailbox.capacity
    this.passivateAfterMs = Duration.toMillis(definition.passivateAfter)
    const { times, within, backoff } = definition.restart
    this.intensity = {
      times,
      withinMs: Duration.toMillis(within),
      backoffMs: backoff === undefined ? backoffMsDefault : Duration.toMillis(backoff)
    }
    this.hasActivity = definition.activity !== undefined
    this.lanes = definition.lanes ?? {}
    this.expiresAt = definition.expiresAt
    this.endsIn = definition.endsIn === undefined ? undefined : new Set(definition.endsIn)
    this.fork = Effect.runForkWith(context)

    const { version } = definition
    const events = packing<Tagged>(definition.event, version?.event, version?.upcastEvent)
    const states = packing<Tagged>(definition.state, version?.state, version?.upcastState)
    const { name: kind } = this
    const snapshotEvery = definition.snapshotEvery ?? snapshotEveryDefault
    this.unpackEvent = events.unpack
    this.write =
      definition.keep === "journal"
        ? (writes, id, seq, facts, state) => {
            writes.push({
              _tag: "append",
              kind,
              id,
              seq: seq + 1,
              events: facts.length === 1 ? [events.pack(facts[0]!)] : facts.map(events.pack)
            })
            const last = seq + facts.length
            if (Math.floor(last / snapshotEvery) > Math.floor(seq / snapshotEvery))
              writes.push({ _tag: "snapshot", kind, id, seq: last, state: states.pack(state) })
          }
        : (writes, id, seq, facts, state) => {
            writes.push({ _tag: "snapshot", kind, id, seq: seq + facts.length, state: states.pack(state) })
          }
    this.load = this.durable
      ? (id) => {
          const snapshot = system.store.readSnapshot(kind, id)
          let state: Tagged = snapshot === undefined ? definition.initial : states.unpack(snapshot.state)
          let seq = snapshot?.seq ?? 0
          if (definition.keep === "journal") {
            for (const entry of system.store.readJournal(kind, id, seq)) {
              state = this.evolve(state, events.unpack(entry.event))
              seq = entry.seq
            }
          }
          return { state, seq }
        }
      : () => ({ state: definition.initial, seq: 0 })
  }

  rulesOf(state: Tagged): Record<string, any> {
    return this.definition.on[state._tag]!
  }

  evolve(state: Tagged, event: Tagged): Tagged {
    return this.definition.evolve[event._tag]!(state, event)
  }

  activityOf(state: Tagged): any {
    return this.definition.activity?.[state._tag]
  }

  factsFor(id: string): Facts {
    return this.facts.now(id, this.system)
  }
}

/** Serves all decisions of a kind with one object, which is safe because rules are pure and never hold on to
 *  it. The clock is read at most once per decision, and only if a rule asks for it. */
class DecisionFacts implements Facts {
  id = ""
  private at = 0
  private host: Host | undefined

  now(id: string, host: Host): this {
    this.id = id
    this.at = 0
    this.host = host
    return this
  }

  get nowMs(): number {
    return this.at === 0 ? (this.at = this.host!.nowMs()) : this.at
  }

  readonly newId = (): string => this.host!.newId()
}
