/** What must go on: queued commands are run, deadlines are met, the sweep goes on, expiry is delivered; and
 *  what must be true of every actor that is at rest. It looks at a process from outside, by what the system
 *  tells an operator. */
import { isDeepStrictEqual } from "node:util"
import { Schema } from "effect"
import { packing, type Packing, type Store } from "../../storage/store.ts"
import type { AnyDefinition } from "../../runtime/actor.ts"
import type { ActorSystem } from "../../runtime/registry.ts"
import { expiryOf, hasActivity, nameOf, type Ledger, type Tagged } from "./books.ts"
import { json, type Model } from "./model.ts"
import type { Loop, Time } from "./loop.ts"

/** Slack for a deadline: it fires in the first tick of 50 ms after it. */
const tickSlackMs = 150

/** The sweep runs every second. */
const sweepMissedMs = 10_000
const sweepsMissedMax = 3
const overdueSweepsMax = 3

/** A queue of a simulation is much shorter than what the kernel handles in one turn. */
const queuedTurnsMax = 3

export class Liveness {
  private readonly model: Model
  private readonly time: Time
  private readonly residentMax: number
  private sweptAtMs: number
  private waitsWithoutSweep = 0
  private queuedTurns = new Map<string, number>()

  constructor(model: Model, time: Time, residentMax: number | undefined) {
    this.model = model
    this.time = time
    this.residentMax = residentMax ?? Infinity
    this.sweptAtMs = time.monotonicMs
  }

  /** The kernel turns to the expiry index, or the process has started. */
  sweepAttempted(): void {
    this.sweptAtMs = this.time.monotonicMs
    this.waitsWithoutSweep = 0
  }

  /** The kernel reads the expiry index, and every actor that is due gets a command. */
  swept(system: ActorSystem): void {
    const isFull = system.residents >= this.residentMax
    for (const ledger of this.model.ledgers.values()) {
      const atMs = expiryOf(ledger)
      if (atMs === undefined || atMs > this.time.wallMs || ledger.pending > 0) continue
      const status = statusOf(system, ledger)
      if (status === "failed" || (status === undefined && isFull)) ledger.overdueSweeps = 0
      else ledger.overdueSweeps++
      if (ledger.overdueSweeps <= overdueSweepsMax) continue
      this.model.violate(
        "expiry is delivered",
        `${nameOf(ledger)} was due at ${atMs}, it is ${this.time.wallMs}, and ${overdueSweepsMax} sweeps brought nothing`
      )
    }
  }

  /** Some time has passed, and the loop has come to rest since. */
  waited(): void {
    const nowMs = this.time.monotonicMs
    for (const ask of this.model.asks)
      if (ask.deadlineMs !== undefined && nowMs > ask.deadlineMs + tickSlackMs)
        this.model.violate(
          "deadlines are met",
          `ask ${ask.number} (${nameOf(ask.ledger)} ${ask.command}) was due at ${ask.deadlineMs}, and it is ${nowMs}`
        )
    if (nowMs - this.sweptAtMs > 1_100) this.waitsWithoutSweep++
    if (this.waitsWithoutSweep > sweepsMissedMax && nowMs - this.sweptAtMs > sweepMissedMs)
      this.model.violate("the sweep goes on", `there was none for ${nowMs - this.sweptAtMs} ms`)
  }

  /** The event loop has turned once more: a queued actor is run within a few turns. */
  turned(system: ActorSystem, kinds: Iterable<string>): void {
    const queued = new Map<string, number>()
    for (const kind of kinds)
      for (const { id, mailbox, status } of system.list(kind, 1_000))
        if (mailbox > 0 && status !== "failed") {
          const name = `${kind}/${id}`
          const turns = (this.queuedTurns.get(name) ?? 0) + 1
          queued.set(name, turns)
          if (turns > queuedTurnsMax) this.model.violate("nobody starves", `${name} waits for ${turns} turns`)
        }
    this.queuedTurns = queued
  }

  /** Nothing is scheduled: nobody may have a command in its mailbox. */
  nobodyStarves(system: ActorSystem, kinds: Iterable<string>): void {
    this.queuedTurns.clear()
    for (const kind of kinds)
      for (const { id, mailbox, status } of system.list(kind, 1_000)) {
        const ledger = this.model.ledgers.get(`${kind}/${id}`)
        if (mailbox > 0 && status !== "failed" && (ledger === undefined || ledger.pending === 0))
          this.model.violate(
            "nobody starves",
            `${kind}/${id} has ${mailbox} commands, and nothing will run them`
          )
      }
  }

  /** Every live actor holds the fold of what is stored, once nothing of it is on its way. */
  memoryIsDisk(system: ActorSystem): void {
    for (const ledger of this.model.ledgers.values()) {
      if (ledger.pending > 0 || !ledger.durable) continue
      const view = system.inspect(ledger.kind, ledger.id)
      if (view === undefined || view.status === "failed" || view.status === "busy") continue
      const expected = Schema.encodeSync(ledger.definition.state)(ledger.stored)
      if (!isDeepStrictEqual(view.state, expected))
        this.model.violate(
          "memory is the fold of disk",
          `${nameOf(ledger)} holds ${json(view.state)}, and stored is ${json(expected)}`
        )
    }
  }

  /** At the end, everybody has been answered and told, and all work that has to be done has begun. */
  nobodyIsForgotten(system: ActorSystem): void {
    for (const ledger of this.model.ledgers.values()) {
      if (!ledger.owesActivity || !hasActivity(ledger, ledger.toldPhase)) continue
      if (ledger.workingPhase === ledger.toldPhase) continue
      const status = statusOf(system, ledger)
      // At the limit of residents a failed job may be evicted; it works again when it is asked, or after a start.
      const mayBeAway = !resumes(ledger) || this.residentMax < Infinity
      if (status === "failed" || (status === undefined && mayBeAway)) continue
      this.model.violate(
        "activities run",
        `${nameOf(ledger)} is in ${ledger.toldPhase}, and nothing works for it`
      )
    }
    for (const ask of this.model.asks)
      this.model.violate(
        "answered in the end",
        `ask ${ask.number} (${nameOf(ask.ledger)} ${ask.command}) never was`
      )
    for (const { ledger, told, removed, endsBefore } of this.model.watches)
      if (told === 0 && !removed && ledger.ends > endsBefore)
        this.model.violate(
          "watchers told once",
          `nobody told the watcher of ${nameOf(ledger)} that it has ended`
        )
  }
}

const statusOf = (system: ActorSystem, { kind, id }: Ledger): string | undefined =>
  system.list(kind, 1_000).find((view) => view.id === id)?.status

const resumes = ({ definition, stored }: Ledger): boolean => definition.resume?.includes(stored._tag) === true

interface Packings {
  readonly event: Packing<Tagged>
  readonly state: Packing<Tagged>
}

const packings = new WeakMap<AnyDefinition, Packings>()

const packingsOf = (definition: AnyDefinition): Packings => {
  const existing = packings.get(definition)
  if (existing !== undefined) return existing
  const { event, state, version } = definition
  const created = {
    event: packing<Tagged>(event, version?.event, version?.upcastEvent),
    state: packing<Tagged>(state, version?.state, version?.upcastState)
  }
  packings.set(definition, created)
  return created
}

interface Loaded {
  readonly state: Tagged
  readonly seq: number
}

/** Reads an actor from disk without the kernel; throws what the codecs and the fold throw. */
const loadFrom = (store: Store, { definition, kind, id }: Ledger): Loaded => {
  const { event, state: packedState } = packingsOf(definition)
  const snapshot = store.readSnapshot(kind, id)
  let state = snapshot === undefined ? (definition.initial as Tagged) : packedState.unpack(snapshot.state)
  let seq = snapshot?.seq ?? 0
  for (const entry of store.readJournal(kind, id, seq)) {
    if (entry.seq !== seq + 1) throw new Error(`event ${entry.seq} follows event ${seq}`)
    const fact = event.unpack(entry.event)
    state = definition.evolve[fact._tag]!(state, fact)
    seq = entry.seq
  }
  return { state, seq }
}

/** Reads every actor from disk, and compares it with what was durable. */
export const diskIsTrue = (model: Model, store: Store): void => {
  for (const ledger of model.ledgers.values()) {
    if (!ledger.durable) continue
    const durable = `durable was ${json(ledger.stored)} (${ledger.storedSeq})`
    try {
      const { state, seq } = loadFrom(store, ledger)
      if (seq !== ledger.storedSeq || !isDeepStrictEqual(state, ledger.stored))
        model.violate(
          "nothing durable lost",
          `${nameOf(ledger)} on disk is ${json(state)} (${seq}), and ${durable}`
        )
    } catch (fault) {
      model.violate(
        "nothing durable lost",
        `${nameOf(ledger)} cannot be read (${String(fault)}), and ${durable}`
      )
    }
  }
}

/** Runs until the loop rests. */
export const settleLoop = (loop: Loop): void => {
  for (let turns = 0; turns < 100 && !loop.quiet; turns++) loop.runTurn()
}
