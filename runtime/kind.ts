/** A kind is a definition prepared to run: durations are converted to ms, codecs are compiled, and events and
 *  snapshots can be written and loaded. There is one per kind of actor. Source: docs/architecture.md, "The
 *  kernel". */
import { type Context, Duration, Effect, type Fiber } from "effect"
import { packing, type Store, type Write } from "../storage/store.ts"
import type { AnyDefinition, Facts, Lane } from "./actor.ts"
import { LanePipe } from "./lane.ts"
import type { Done, Outcome } from "./mailbox.ts"
import type { RunQueue } from "./run-queue.ts"
import { DeadLetters, KindHealth, type DeadLetterReason, type Intensity } from "./supervisor.ts"
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
  /** The most cells that stay in memory. */
  readonly residentMax: number
  /** Counts the sweeps so far; it is the coarse clock of passivation. */
  readonly sweeps: number
  /** Wall time, epoch ms: what is stored and what rules see. */
  nowMs(): number
  /** Monotonic time in ms since any moment: what durations are measured by. */
  monotonicMs(): number
  /** A random number in 0 ≤ n < 1, for jitter. */
  random(): number
  /** A new random id (UUID v4). */
  newId(): string
  failed(cell: Resident): void
  ended(cell: Resident): void
  /** Removes a cell whose actor has ended from memory. */
  leave(cell: Resident): void
}

const snapshotEveryDefault = 100
const backoffMsDefault = 50

export class Kind {
  readonly name: string
  readonly definition: AnyDefinition
  readonly system: Host
  readonly counts = {
    handled: 0,
    refused: 0,
    restarts: 0,
    failures: 0,
    activations: 0,
    passivations: 0,
    deadLetters: 0
  }
  readonly health = new KindHealth()
  readonly deadLetters = new DeadLetters()
  readonly durable: boolean
  readonly mailboxCapacity: number
  readonly passivateAfterMs: number
  /** The most cells of this kind that stay in memory; Infinity when only the system's limit counts. */
  readonly residentMax: number
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
  /** One object for each depth of nested decisions, because a rule may ask its own kind. */
  private readonly facts: Array<DecisionFacts> = []

  constructor(definition: AnyDefinition, context: Context.Context<any>, system: Host) {
    this.name = definition.kind
    this.definition = definition
    this.system = system
    this.durable = definition.keep !== "memory"
    this.mailboxCapacity = definition.mailbox.capacity
    this.passivateAfterMs = Duration.toMillis(definition.passivateAfter)
    this.residentMax = definition.residentMax ?? (this.durable ? Infinity : system.residentMax / 4)
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

  /** Lanes for somebody whose actor cannot be in memory: they take nothing and yield nothing. */
  endedLanes(): Record<string, LanePipe<unknown>> {
    const lanes = Object.fromEntries(
      Object.entries(this.lanes).map(([name, { capacity }]) => [name, new LanePipe(capacity)])
    )
    for (const lane of Object.values(lanes)) lane.end()
    return lanes
  }

  /** `depth` counts the decisions that are under way around this one. */
  factsFor(id: string, depth: number): Facts {
    return (this.facts[depth] ??= new DecisionFacts(this.system)).now(id)
  }

  /** Calls `done`. A callback that throws is a bug of its owner, so it is logged and must not stop the run
   *  queue, nor surprise whoever asked. */
  tellOutcome(done: Done, outcome: Outcome): void {
    try {
      done(outcome)
    } catch (defect) {
      this.system.log("error", "an answer's callback threw", { actor: this.name, fault: String(defect) })
    }
  }

  /** Counts and samples what reached nobody. */
  deadLetter(id: string, name: string, reason: DeadLetterReason, count = 1): void {
    this.counts.deadLetters += count
    const { system } = this
    const letter = { kind: this.name, id, name, reason, atMs: system.nowMs() }
    const since = this.deadLetters.add(letter, system.monotonicMs())
    if (since !== undefined)
      system.log("warn", "commands reached nobody", { actor: this.name, name, reason, count: since })
  }
}

/** Serves all decisions of a kind at one depth with one object, which is safe because rules are pure and never
 *  hold on to it. The clock is read at most once per decision, and only if a rule asks for it. */
class DecisionFacts implements Facts {
  id = ""
  private at = 0
  private readonly host: Host

  constructor(host: Host) {
    this.host = host
  }

  now(id: string): this {
    this.id = id
    this.at = 0
    return this
  }

  get nowMs(): number {
    return this.at === 0 ? (this.at = this.host.nowMs()) : this.at
  }

  readonly newId = (): string => this.host.newId()
}
