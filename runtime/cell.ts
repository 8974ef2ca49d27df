/** A cell is one live actor: its mailbox, its state, its unflushed commits, and the activity of its phase. It
 *  handles one command at a time, in order of arrival: a rule decides, events are folded into the state,
 *  storage commits, the answer leaves. Guarantee: an answer leaves only after everything it depends on is
 *  flushed, and so does every later answer of the same actor; meanwhile the commands behind it are already
 *  being decided. The inner loop is plain synchronous code with no Effect in it, because that is what makes
 *  it fast (bench/tell, bench/ask). Source: docs/architecture.md, "The kernel". */
import { Cause, Effect, Exit, Fiber, Stream } from "effect"
import type { Decision, Facts } from "./actor.ts"
import type { StorageFault, Write } from "../storage/store.ts"
import type { Kind } from "./kind.ts"
import { LanePipe } from "./lane.ts"
import { Backlog, type Done, type Outcome } from "./mailbox.ts"
import { cellBudget, type Runnable } from "./run-queue.ts"
import { CrashRecord, MailboxFull, Unavailable } from "./supervisor.ts"

type Tagged = { readonly _tag: string }
type Rule = (state: unknown, payload: unknown, facts: Facts) => Decision<Tagged, unknown, unknown>

/** Describes a commit that storage has accepted but not yet flushed, and holds the answers that wait for
 *  it. */
interface PendingCommit {
  readonly answers: Array<Done | Outcome>
  enteredState: Tagged | undefined
}

/** Holds what only a few cells need; it is created on demand, so that an idle cell stays small. */
interface Extension {
  pendingCommits: Array<PendingCommit>
  /** Counts storage faults: a commit of an earlier generation was lost, and its callback is ignored. */
  generation: number
  lanes: Record<string, LanePipe<unknown>> | undefined
  fiber: Fiber.Fiber<void> | undefined
  /** The phase whose activity is running, waits for its backoff, or has ended; undefined when the phase has
   *  none. */
  activityPhase: string | undefined
  /** Counts the requested starts of activities. A delayed start whose number is no longer the newest does
   *  nothing. */
  starts: number
  backingOff: boolean
  crashes: CrashRecord | undefined
  expiresAtMs: number | undefined
}

const IDLE = 0
const QUEUED = 1
const RUNNING = 2
const FAILED = 4
const STOPPED = 8

/** Limits how deep asks may nest when actors answer each other within one turn; a deeper ask goes through the
 *  run queue, so that the stack stays bounded. */
const inlineDepthMax = 32

let inlineDepth = 0

export class Cell implements Runnable {
  readonly kind: Kind
  readonly id: string
  state: Tagged
  next: Runnable | undefined = undefined
  firstCommand: string | undefined = undefined
  firstPayload: unknown = undefined
  firstDone: Done | undefined = undefined

  /** The sweep in which the last message was handled: a coarse clock that costs nothing to read. */
  lastActiveSweep: number

  private status = IDLE
  private seq: number
  private rules: Record<string, Rule>
  private backlog: Backlog | undefined = undefined
  private extension: Extension | undefined = undefined

  constructor(kind: Kind, id: string) {
    this.kind = kind
    this.id = id
    this.lastActiveSweep = kind.system.sweeps
    this.state = kind.definition.initial
    this.seq = 0
    this.rules = kind.rulesOf(this.state)
    this.restore()
  }

  /** Starts the activity of the current phase. The registry calls this once it has stored the cell, because
   *  an activity may ask for its own address. */
  start(): void {
    if (this.kind.hasActivity && !this.failed) this.startActivity(this.state)
  }

  get stopped(): boolean {
    return (this.status & STOPPED) !== 0
  }

  get failed(): boolean {
    return (this.status & FAILED) !== 0
  }

  get depth(): number {
    return (this.firstCommand === undefined ? 0 : 1) + (this.backlog?.length ?? 0)
  }

  get crashes(): CrashRecord | undefined {
    return this.extension?.crashes
  }

  get working(): boolean {
    return this.extension?.fiber !== undefined
  }

  get idle(): boolean {
    const ext = this.extension
    return (
      this.status === IDLE &&
      this.firstCommand === undefined &&
      (ext === undefined ||
        (ext.pendingCommits.length === 0 &&
          ext.fiber === undefined &&
          !ext.backingOff &&
          (ext.lanes === undefined || Object.values(ext.lanes).every((lane) => lane.depth === 0))))
    )
  }

  /** Handles the command in this very turn when the cell is idle; otherwise queues it. `done` is then called
   *  at once unless an answer has to wait for the disk. */
  ask(command: string, payload: unknown, done: Done): void {
    if (this.status === IDLE && this.firstCommand === undefined && inlineDepth < inlineDepthMax) {
      this.lastActiveSweep = this.kind.system.sweeps
      this.status = RUNNING
      inlineDepth++
      this.handle(command, payload, done)
      inlineDepth--
      this.settle()
    } else this.queue(command, payload, done)
  }

  /** Queues a command without an answer. Returns false when the mailbox is full, or the actor has failed or
   *  stopped. */
  tell(command: string, payload: unknown): boolean {
    return this.queue(command, payload, undefined)
  }

  private queue(command: string, payload: unknown, done: Done | undefined): boolean {
    if ((this.status & (FAILED | STOPPED)) !== 0) {
      done?.({
        fault: new Unavailable({
          kind: this.kind.name,
          id: this.id,
          reason: this.failed ? "failed" : "stopped"
        })
      })
      return false
    }
    if (this.firstCommand === undefined) {
      this.firstCommand = command
      this.firstPayload = payload
      this.firstDone = done
    } else {
      const backlog = (this.backlog ??= Backlog.borrow())
      if (backlog.length + 1 >= this.kind.mailboxCapacity) {
        this.kind.counts.refused++
        done?.({
          fault: new MailboxFull({ kind: this.kind.name, id: this.id, capacity: this.kind.mailboxCapacity })
        })
        return false
      }
      backlog.push(command, payload, done)
    }
    if (this.status === IDLE) {
      this.status = QUEUED
      this.kind.system.runQueue.enqueue(this)
    }
    return true
  }

  run(): number {
    if ((this.status & (FAILED | STOPPED)) !== 0) return 1
    this.status = RUNNING
    this.lastActiveSweep = this.kind.system.sweeps
    let handled = 0
    while (this.firstCommand !== undefined && handled < cellBudget) {
      const command: string = this.firstCommand
      const payload = this.firstPayload
      const done = this.firstDone
      if (this.backlog !== undefined && this.backlog.length > 0) this.backlog.shift(this)
      else {
        this.firstCommand = undefined
        this.firstPayload = undefined
        this.firstDone = undefined
      }
      handled++
      this.handle(command, payload, done)
      if (this.status !== RUNNING) return handled
    }
    this.settle()
    return handled
  }

  private settle(): void {
    if (this.status !== RUNNING) return
    if (this.firstCommand !== undefined) {
      this.status = QUEUED
      this.kind.system.runQueue.enqueue(this)
      return
    }
    this.status = IDLE
    if (this.backlog !== undefined) {
      Backlog.giveBackToPool(this.backlog)
      this.backlog = undefined
    }
  }

  private handle(command: string, payload: unknown, done: Done | undefined): void {
    const kind = this.kind
    kind.counts.handled++
    let decision: Decision<Tagged, unknown, unknown>
    try {
      const facts = kind.factsFor(this.id)
      const rule = this.rules[command]
      if (rule === undefined) throw new Error(`no command ${command} in phase ${this.state._tag}`)
      decision = rule(this.state, payload, facts)
      if (decision.events.length > 0 || decision.rows.length > 0) {
        if (!kind.durable && decision.rows.length === 0) this.fold(decision.events)
        else return this.persist(decision, done)
      }
    } catch (defect) {
      return this.defect(defect, done)
    }
    if (done !== undefined) this.answer(decision.answer, done)
  }

  /** Applies the events of an actor that is not durable: the state changes at once, and nothing is
   *  written. */
  private fold(events: ReadonlyArray<Tagged>): void {
    const before = this.state
    let state = before
    for (let i = 0; i < events.length; i++) state = this.kind.evolve(state, events[i]!)
    if (this.setState(state) && this.kind.hasActivity) this.startActivity(state)
    if (state !== before && this.kind.endsIn?.has(state._tag) === true) this.end()
  }

  /** Replaces the state and returns true when its phase differs from the one before. */
  private setState(state: Tagged): boolean {
    const changed = state._tag !== this.state._tag
    this.state = state
    if (changed) this.rules = this.kind.rulesOf(state)
    return changed
  }

  private persist(decision: Decision<Tagged, unknown, unknown>, done: Done | undefined): void {
    const kind = this.kind
    const { events } = decision
    let state = this.state
    for (let i = 0; i < events.length; i++) state = kind.evolve(state, events[i]!)
    const ends = kind.endsIn?.has(state._tag) === true
    const ext = this.ensureExtension()
    const writes: Array<Write> = decision.rows.length === 0 ? [] : [...decision.rows]
    const seq = this.seq + events.length
    if (ends) writes.push({ _tag: "forget", kind: kind.name, id: this.id })
    else if (kind.durable && events.length > 0) {
      kind.write(writes, this.id, this.seq, events, state)
      if (kind.expiresAt !== undefined) {
        const atMs = kind.expiresAt(state)
        if (atMs !== ext.expiresAtMs) {
          writes.push({ _tag: "expire", kind: kind.name, id: this.id, atMs })
          ext.expiresAtMs = atMs
        }
      }
    }
    const flight: PendingCommit = {
      answers: [],
      enteredState: state._tag !== this.state._tag ? state : undefined
    }
    const { generation } = ext
    const conflict = kind.system.store.commit(writes, (fault) => this.flushed(generation, fault))
    if (conflict !== undefined) {
      if (
        conflict.reason !== "sequence" &&
        conflict.index < decision.rows.length &&
        decision.otherwise !== undefined
      ) {
        if (done !== undefined) this.answer(decision.otherwise.answer, done)
        return
      }
      throw new Error(
        `${kind.name}: a row's condition did not hold (${conflict.reason}) and the rule says no answer for that`
      )
    }
    ext.pendingCommits.push(flight)
    this.seq = seq
    this.setState(state)
    if (done !== undefined) flight.answers.push(done, decision.answer)
    if (ends) this.end()
  }

  private answer(outcome: Outcome, done: Done): void {
    const flights = this.extension?.pendingCommits
    if (flights === undefined || flights.length === 0) this.tellOutcome(done, outcome)
    else flights[flights.length - 1]!.answers.push(done, outcome)
  }

  /** Calls `done`. A callback that throws is a bug of its owner, so it is logged and must not stop the run
   *  queue. */
  private tellOutcome(done: Done, outcome: Outcome): void {
    try {
      done(outcome)
    } catch (defect) {
      this.kind.system.log("error", "an answer's callback threw", {
        actor: this.kind.name,
        fault: String(defect)
      })
    }
  }

  /** Is called by storage when the oldest pending commit is flushed, or was lost to a fault. A fault loses
   *  every pending commit of this actor: their askers get `Unavailable`, and the state is loaded again from
   *  disk. */
  private flushed(generation: number, fault: StorageFault | undefined): void {
    const ext = this.extension!
    if (ext.generation !== generation) return
    if (fault === undefined) {
      const flight = ext.pendingCommits.shift()!
      const { answers: held } = flight
      for (let i = 0; i < held.length; i += 2) this.tellOutcome(held[i] as Done, held[i + 1] as Outcome)
      if (flight.enteredState !== undefined && this.kind.hasActivity && !this.stopped)
        this.startActivity(flight.enteredState)
      return
    }
    const lost = ext.pendingCommits
    ext.pendingCommits = []
    ext.generation++
    const unavailable = { fault: new Unavailable({ kind: this.kind.name, id: this.id, reason: "storage" }) }
    for (const { answers: held } of lost)
      for (let i = 0; i < held.length; i += 2) this.tellOutcome(held[i] as Done, unavailable)
    this.kind.system.log("error", "storage lost a commit", { actor: this.kind.name, reason: fault.reason })
    this.reload()
  }

  /** Answers a command whose rule threw with `Unavailable`, and loads the state again from storage. Other
   *  actors are not affected. */
  private defect(defect: unknown, done: Done | undefined): void {
    if (done !== undefined)
      this.tellOutcome(done, {
        fault: new Unavailable({ kind: this.kind.name, id: this.id, reason: "defect" })
      })
    this.crash(defect)
  }

  private crash(defect: unknown): void {
    const ext = this.ensureExtension()
    const system = this.kind.system
    const fault = defect instanceof Error ? `${defect.name}: ${defect.message}` : String(defect)
    this.kind.counts.restarts++
    const crashes = (ext.crashes ??= new CrashRecord())
    const backoffMs = crashes.record(fault, system, this.kind.intensity)
    system.log("warn", "actor crashed", { actor: this.kind.name, fault, failed: backoffMs === undefined })
    if (backoffMs === undefined) return this.fail()
    this.reload(backoffMs)
  }

  /** Loads the stored state (the initial one for an actor that is not durable) and starts its phase's
   *  activity again after `restMs`. */
  private reload(restMs?: number): void {
    if (this.restore() && this.kind.hasActivity) this.startActivity(this.state, restMs ?? 0)
  }

  /** Loads the stored state. Returns false when it cannot be read: the actor is then marked failed rather
   *  than run with a state that it never had. */
  private restore(): boolean {
    try {
      const { state, seq } = this.kind.load(this.id)
      this.state = state
      this.seq = seq
      this.rules = this.kind.rulesOf(state)
      const expiresAtMs = seq > 0 ? this.kind.expiresAt?.(state) : undefined
      if (expiresAtMs !== undefined) this.ensureExtension().expiresAtMs = expiresAtMs
      else if (this.extension !== undefined) this.extension.expiresAtMs = undefined
      if (this.extension !== undefined)
        for (const flight of this.extension.pendingCommits) flight.enteredState = undefined
      return true
    } catch (defect) {
      const crashes = (this.ensureExtension().crashes ??= new CrashRecord())
      crashes.lastFault = `cannot load: ${String(defect)}`
      this.fail()
      return false
    }
  }

  private fail(): void {
    this.status = FAILED
    this.kind.counts.failures++
    this.dropMailbox("failed")
    this.stopActivity()
    this.kind.system.failed(this)
  }

  private dropMailbox(reason: "failed" | "stopped"): void {
    const fault = { fault: new Unavailable({ kind: this.kind.name, id: this.id, reason }) }
    while (this.firstCommand !== undefined) {
      const done = this.firstDone
      if (this.backlog !== undefined && this.backlog.length > 0) this.backlog.shift(this)
      else this.firstCommand = undefined
      if (done !== undefined) this.tellOutcome(done, fault)
    }
  }

  /** Restarts the actor at an operator's request (console or CLI): its crash record is cleared, its state is
   *  loaded again. */
  restart(): void {
    if (this.stopped) return
    this.extension?.crashes?.reset()
    this.status = this.status === FAILED ? IDLE : this.status
    if (this.extension !== undefined) this.extension.activityPhase = undefined
    this.reload()
  }

  /** Ends the actor for good: its address is free at once, and pending answers still leave when they are
   *  flushed. */
  private end(): void {
    this.kind.system.ended(this)
    this.release("stopped")
  }

  /** Removes the cell from memory. Nothing stored is changed. */
  release(reason: "failed" | "stopped"): void {
    this.dropMailbox(reason)
    this.status = STOPPED
    this.stopActivity()
    if (this.extension?.lanes !== undefined)
      for (const lane of Object.values(this.extension.lanes)) lane.end()
  }

  get laneDepths(): Record<string, number> {
    return Object.fromEntries(
      Object.entries(this.extension?.lanes ?? {}).map(([name, lane]) => [name, lane.depth])
    )
  }

  lanes(): Record<string, LanePipe<unknown>> {
    const ext = this.ensureExtension()
    return (ext.lanes ??= Object.fromEntries(
      Object.entries(this.kind.lanes).map(([name, { capacity }]) => [name, new LanePipe(capacity)])
    ))
  }

  /** Starts the activity of the state's phase after `restMs`, once the previous activity has ended. */
  private startActivity(state: Tagged, restMs = 0): void {
    const ext = this.ensureExtension()
    const { system } = this.kind
    const before = ext.fiber
    if (ext.activityPhase === state._tag && before !== undefined && restMs === 0) return
    const activity = this.kind.activityOf(state)
    const turn = ++ext.starts
    ext.activityPhase = activity === undefined ? undefined : state._tag
    ext.backingOff = restMs > 0 && activity !== undefined
    const start = (): void => {
      if (ext.starts !== turn || this.stopped || this.failed || activity === undefined) return
      ext.backingOff = false
      const work = Effect.suspend(() =>
        Stream.runForEach(
          activity(this.state._tag === state._tag ? this.state : state, {
            id: this.id,
            lanes: this.lanes()
          }) as Stream.Stream<Tagged>,
          ({ _tag, ...payload }) => this.tellSelf(_tag, payload)
        )
      )
      const fiber = this.kind.fork(work)
      ext.fiber = fiber
      fiber.addObserver((exit) => {
        if (ext.fiber === fiber) ext.fiber = undefined
        if (Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause) && !this.stopped)
          this.crash(Cause.squash(exit.cause))
      })
    }
    const begin = restMs > 0 ? () => system.timers.schedule(system.nowMs() + restMs, start) : start
    if (before === undefined) begin()
    else {
      before.addObserver(begin)
      before.interruptUnsafe()
    }
  }

  private stopActivity(): void {
    const ext = this.extension
    if (ext === undefined) return
    ext.starts++
    ext.backingOff = false
    ext.activityPhase = undefined
    ext.fiber?.interruptUnsafe()
  }

  /** Sends an activity's command to its own actor and completes when it is decided and durable, so that the
   *  activity cannot run ahead of the disk. */
  private tellSelf(command: string, payload: unknown): Effect.Effect<void> {
    return Effect.callback((resume) => {
      this.ask(command, payload, () => resume(Effect.void))
    })
  }

  /** Completes when the running activity has ended; a clean shutdown waits for it. */
  get activityEnded(): Effect.Effect<void> {
    const fiber = this.extension?.fiber
    return fiber === undefined ? Effect.void : Effect.asVoid(Fiber.await(fiber))
  }

  private ensureExtension(): Extension {
    return (this.extension ??= {
      pendingCommits: [],
      generation: 0,
      lanes: undefined,
      fiber: undefined,
      activityPhase: undefined,
      starts: 0,
      backingOff: false,
      crashes: undefined,
      expiresAtMs: undefined
    })
  }
}
