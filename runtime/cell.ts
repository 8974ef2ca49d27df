/** A cell is one live actor: its mailbox, its state, its unflushed commits, and the activity of its phase. It
 *  handles one command at a time, in order of arrival: a rule decides, events are folded into the state,
 *  storage commits, the answer leaves. Guarantee: every command is answered exactly once; an answer leaves
 *  only after everything it depends on is flushed, and so does every later answer of the same actor;
 *  meanwhile the commands behind it are already being decided. The inner loop is plain synchronous code with
 *  no Effect in it, because that is what makes it fast (bench/tell, bench/ask). Source:
 *  docs/architecture.md, "The life of a cell". */
import { Effect } from "effect"
import { PhaseActivity, type Performer } from "./activity.ts"
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
  /** The state whose phase this commit enters, when it enters one. */
  enteredState: Tagged | undefined
  /** True when this commit ends the actor: what is decided behind it is decided in the initial state. */
  readonly ends: boolean
}

/** Holds what only a few cells need; it is created on demand, so that an idle cell stays small. */
interface Extension {
  pendingCommits: Array<PendingCommit>
  /** Counts storage faults: a commit of an earlier generation was lost, and its callback is ignored. */
  generation: number
  lanes: Record<string, LanePipe<unknown>> | undefined
  activity: PhaseActivity | undefined
  crashes: CrashRecord | undefined
  /** True while a flush, or a loss, is told: the actor must not leave memory before its phase is entered. */
  isSettling: boolean
  /** The time of expiry that storage has accepted. */
  expiresAtMs: number | undefined
  /** True from the actor's end until the cell leaves memory, which it does as soon as it is idle. */
  hasEnded: boolean
}

// Drawn in docs/architecture.md, "The life of a cell".
const IDLE = 0
const QUEUED = 1
const RUNNING = 2
const FAILED = 4
const STOPPED = 8

/** Limits how deep asks may nest when actors answer each other within one turn; a deeper ask goes through the
 *  run queue, so that the stack stays bounded. */
const inlineDepthMax = 32

let inlineDepth = 0

export class Cell implements Runnable, Performer {
  readonly kind: Kind
  readonly id: string
  state: Tagged
  next: Runnable | undefined = undefined
  inRunQueue = false
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
  }

  /** Loads the stored state and starts the activity of its phase. The registry calls this once it has stored
   *  the cell, because an activity may ask for its own address. */
  start(): void {
    this.reload()
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
    return this.extension?.activity?.isRunning === true
  }

  /** True when it may leave memory: nothing is queued, unflushed or running. */
  get idle(): boolean {
    const ext = this.extension
    return (
      this.status === IDLE &&
      this.firstCommand === undefined &&
      (ext === undefined ||
        (ext.pendingCommits.length === 0 && !ext.isSettling && ext.activity?.isPending !== true))
    )
  }

  /** True when it may be evicted: it is idle, or failed with nothing of it on its way to the disk. */
  get evictable(): boolean {
    const ext = this.extension
    return this.idle || (this.failed && ext!.pendingCommits.length === 0 && !ext!.isSettling)
  }

  /** True when it may leave memory only because it rests: it would neither run a finished activity a second
   *  time nor be forgiven its crashes when it came back. */
  get mayPassivate(): boolean {
    const ext = this.extension
    if (ext === undefined) return this.idle
    const { system, intensity } = this.kind
    return (
      this.idle &&
      ext.activity?.hasFinished !== true &&
      ext.crashes?.counts(system.monotonicMs(), intensity) !== true
    )
  }

  /** Handles the command in this very turn when the cell is idle; otherwise queues it. `done` is then called
   *  at once unless an answer has to wait for the disk. */
  ask(command: string, payload: unknown, done: Done): void {
    if (this.status === IDLE && this.firstCommand === undefined && inlineDepth < inlineDepthMax) {
      this.lastActiveSweep = this.kind.system.sweeps
      this.status = RUNNING
      inlineDepth++
      try {
        this.handle(command, payload, done)
      } finally {
        inlineDepth--
      }
      this.settle()
    } else this.queue(command, payload, done, this.kind.mailboxCapacity)
  }

  /** Queues a command without an answer. Returns false when the mailbox is full, or the actor has failed or
   *  stopped. */
  tell(command: string, payload: unknown): boolean {
    return this.queue(command, payload, undefined, this.kind.mailboxCapacity)
  }

  askSelf(command: string, payload: unknown, done: Done): void {
    // While the actor's end is on its way to the disk, its activity belongs to a state that is over: it waits,
    // and is interrupted after the flush.
    if (this.extension?.pendingCommits.some(({ ends }) => ends) === true)
      return done(this.unavailable("storage"))
    if (this.status === IDLE) this.ask(command, payload, done)
    else this.queue(command, payload, done, Infinity)
  }

  private queue(command: string, payload: unknown, done: Done | undefined, capacity: number): boolean {
    if ((this.status & (FAILED | STOPPED)) !== 0) {
      this.decline(command, done, this.failed ? "failed" : "stopped")
      return false
    }
    if (this.firstCommand === undefined) {
      this.firstCommand = command
      this.firstPayload = payload
      this.firstDone = done
    } else {
      const backlog = (this.backlog ??= Backlog.borrow())
      if (backlog.length + 1 >= capacity) return this.refuse(command, done, capacity)
      backlog.push(command, payload, done)
    }
    if (this.status === IDLE) {
      this.status = QUEUED
      this.kind.system.runQueue.enqueue(this)
    }
    return true
  }

  /** Answers a command for which the mailbox has no room. */
  private refuse(command: string, done: Done | undefined, capacity: number): false {
    const { kind, id } = this
    kind.counts.refused++
    if (done === undefined) kind.deadLetter(id, command, "full")
    else kind.tellOutcome(done, { fault: new MailboxFull({ kind: kind.name, id, capacity }) })
    return false
  }

  run(): number {
    if (this.status !== QUEUED) return 1
    this.status = RUNNING
    this.lastActiveSweep = this.kind.system.sweeps
    let handled = 0
    while (this.firstCommand !== undefined && handled < cellBudget) {
      const command: string = this.firstCommand
      const payload = this.firstPayload
      const done = this.firstDone
      this.shift()
      handled++
      this.handle(command, payload, done)
      if (this.status !== RUNNING) return handled
    }
    this.settle()
    return handled
  }

  /** Removes the oldest command of the mailbox. */
  private shift(): void {
    if (this.backlog !== undefined && this.backlog.length > 0) this.backlog.shift(this)
    else {
      this.firstCommand = undefined
      this.firstPayload = undefined
      this.firstDone = undefined
    }
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
    if (this.extension?.hasEnded === true) this.leaveAfterEnd()
  }

  private handle(command: string, payload: unknown, done: Done | undefined): void {
    const kind = this.kind
    kind.counts.handled++
    let decision: Decision<Tagged, unknown, unknown>
    try {
      const facts = kind.factsFor(this.id, inlineDepth)
      const rule = this.rules[command]
      if (rule === undefined) throw this.noRule(command)
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

  // What is rare stands in functions of its own: the compiler joins the short ones on the way of a message
  // (bench/tell).
  private noRule(command: string): Error {
    return new Error(`no command ${command} in phase ${this.state._tag}`)
  }

  /** Applies the events of an actor that is not durable: the state changes at once, and nothing is
   *  written. */
  private fold(events: ReadonlyArray<Tagged>): void {
    const kind = this.kind
    let state = this.state
    for (let i = 0; i < events.length; i++) state = kind.evolve(state, events[i]!)
    if (kind.endsIn !== undefined && kind.endsIn.has(state._tag)) this.endInMemory()
    else if (this.setState(state)) this.enterPhase(state)
  }

  private endInMemory(): void {
    this.setState(this.kind.definition.initial)
    this.endForGood()
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
    let seq = this.seq + events.length
    let { expiresAtMs } = ext
    if (ends) {
      writes.push({ _tag: "forget", kind: kind.name, id: this.id })
      state = kind.definition.initial
      seq = 0
      expiresAtMs = undefined
    } else if (kind.durable && events.length > 0) {
      kind.write(writes, this.id, this.seq, events, state)
      if (kind.expiresAt !== undefined) {
        expiresAtMs = kind.expiresAt(state)
        if (expiresAtMs !== ext.expiresAtMs)
          writes.push({ _tag: "expire", kind: kind.name, id: this.id, atMs: expiresAtMs })
      }
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
    // Nothing of the cell changes before storage has accepted the commit.
    this.seq = seq
    ext.expiresAtMs = expiresAtMs
    const enters = this.setState(state) || ends
    ext.pendingCommits.push({
      answers: done === undefined ? [] : [done, decision.answer],
      enteredState: enters ? state : undefined,
      ends
    })
  }

  private answer(outcome: Outcome, done: Done): void {
    const pending = this.extension?.pendingCommits
    if (pending === undefined || pending.length === 0) this.kind.tellOutcome(done, outcome)
    else pending[pending.length - 1]!.answers.push(done, outcome)
  }

  private tellAll(answers: ReadonlyArray<Done | Outcome>, instead?: Outcome): void {
    for (let i = 0; i < answers.length; i += 2)
      this.kind.tellOutcome(answers[i] as Done, instead ?? (answers[i + 1] as Outcome))
  }

  private unavailable(reason: Unavailable["reason"]): Outcome {
    return { fault: new Unavailable({ kind: this.kind.name, id: this.id, reason }) }
  }

  /** Answers a command that is not handled, or counts it as a dead letter when nobody asked. */
  private decline(command: string, done: Done | undefined, reason: Unavailable["reason"]): void {
    if (done === undefined) this.kind.deadLetter(this.id, command, reason)
    else this.kind.tellOutcome(done, this.unavailable(reason))
  }

  /** Is called by storage when the oldest pending commit is flushed, or was lost to a fault. */
  private flushed(generation: number, fault: StorageFault | undefined): void {
    const ext = this.extension!
    if (ext.generation !== generation) return
    if (fault !== undefined) return this.lose(ext, fault)
    const { answers, enteredState, ends } = ext.pendingCommits.shift()!
    ext.isSettling = true
    if (ends) this.endForGood()
    this.tellAll(answers)
    if (enteredState !== undefined) this.enterPhase(enteredState)
    ext.isSettling = false
    if (ext.hasEnded) this.leaveAfterEnd()
  }

  /** Takes back every pending commit: the state is loaded again from disk, and then the askers hear
   *  `Unavailable`. They hear it in a later turn, because the fault may have struck other actors which storage
   *  tells after this one: nobody may ask an actor that has not heard of its loss. */
  private lose(ext: Extension, fault: StorageFault): void {
    const lost = ext.pendingCommits
    ext.pendingCommits = []
    ext.generation++
    ext.isSettling = true
    const { system, name } = this.kind
    // That the disk is full is said once, by the store.
    const level = fault.reason === "full" ? "debug" : "error"
    system.log(level, "storage lost a commit", { actor: name, id: this.id, reason: fault.reason })
    const isReadable = this.failed || this.restore()
    system.runQueue.soon(() => {
      const unavailable = this.unavailable("storage")
      for (const { answers } of lost) this.tellAll(answers, unavailable)
      ext.isSettling = false
      if (isReadable) this.continueActivity()
      else this.announceFailure()
    })
  }

  /** Loads the state again from storage after a rule threw, and answers its command with `Unavailable`. Other
   *  actors are not affected. */
  private defect(defect: unknown, done: Done | undefined): void {
    this.crash(defect)
    if (done !== undefined) this.kind.tellOutcome(done, this.unavailable("defect"))
  }

  crash(defect: unknown): void {
    if (this.stopped || this.failed) return
    const ext = this.ensureExtension()
    const { system, name, counts, intensity } = this.kind
    const fault = defect instanceof Error ? `${defect.name}: ${defect.message}` : String(defect)
    counts.restarts++
    const crashes = (ext.crashes ??= new CrashRecord())
    const restMs = crashes.record(fault, system, intensity)
    system.log("warn", "actor crashed", { actor: name, id: this.id, fault, failed: restMs === undefined })
    if (restMs === undefined) {
      this.status = FAILED
      return this.announceFailure()
    }
    // What has finished in a phase that is still the actor's has nothing to do again.
    if (ext.activity !== undefined && !(ext.activity.hasFinished && this.kind.durable))
      ext.activity.stopFor(restMs)
    this.reload()
  }

  private reload(): void {
    if (this.restore()) this.continueActivity()
    else this.announceFailure()
  }

  /** Loads the stored state (the initial one for an actor that is not durable). Returns false when it cannot
   *  be read: the actor is then failed rather than run with a state that it never had. */
  private restore(): boolean {
    const { kind } = this
    try {
      const { state, seq } = kind.load(this.id)
      this.state = state
      this.seq = seq
      this.rules = kind.rulesOf(state)
      const expiresAtMs = seq > 0 ? kind.expiresAt?.(state) : undefined
      if (expiresAtMs !== undefined) this.ensureExtension().expiresAtMs = expiresAtMs
      else if (this.extension !== undefined) this.extension.expiresAtMs = undefined
      return true
    } catch (defect) {
      const crashes = (this.ensureExtension().crashes ??= new CrashRecord())
      crashes.lastFault = `cannot load: ${String(defect)}`
      kind.system.log("error", "an actor cannot be read; it is failed", {
        actor: kind.name,
        id: this.id,
        fault: String(defect)
      })
      this.status = FAILED
      return false
    }
  }

  /** Starts the activity of the present phase: at once when the phase is durable, otherwise with the flush of
   *  the newest commit. */
  private continueActivity(): void {
    if (!this.kind.hasActivity) return
    const pending = this.extension?.pendingCommits
    if (pending === undefined || pending.length === 0) return this.enterPhase(this.state)
    // Phases on the way there were never the actor's for longer than a moment; but the one before them is left,
    // so what has finished in it begins anew when the actor comes back to it.
    if (pending.some(({ enteredState }) => enteredState !== undefined)) this.extension!.activity?.stop()
    for (const commit of pending) commit.enteredState = undefined
    pending[pending.length - 1]!.enteredState = this.state
  }

  private enterPhase(state: Tagged): void {
    if (this.kind.hasActivity && !this.stopped && !this.failed) this.activity().enter(state)
  }

  private activity(): PhaseActivity {
    const ext = this.ensureExtension()
    return (ext.activity ??= new PhaseActivity(this))
  }

  /** Stops what a failed actor has under way, and tells everybody who waits for it. */
  private announceFailure(): void {
    this.kind.counts.failures++
    this.extension?.activity?.stop()
    this.dropMailbox("failed")
    this.kind.system.failed(this)
  }

  private dropMailbox(reason: "failed" | "stopped"): void {
    while (this.firstCommand !== undefined) {
      const command = this.firstCommand
      const done = this.firstDone
      this.shift()
      this.decline(command, done, reason)
    }
  }

  /** Restarts the actor at an operator's request (console or CLI): its crash record is cleared, its state is
   *  loaded again. */
  restart(): void {
    if (this.stopped) return
    if (this.failed) this.status = IDLE
    this.extension?.crashes?.reset()
    this.extension?.activity?.stop()
    this.reload()
  }

  /** Is called when the actor's end is certain: its watchers hear of it, and its lanes end. */
  private endForGood(): void {
    const ext = this.ensureExtension()
    ext.hasEnded = true
    ext.activity?.stop()
    this.endLanes()
    this.kind.system.ended(this)
  }

  /** Leaves memory unless the address was used again since the end. */
  private leaveAfterEnd(): void {
    const ext = this.extension!
    if (ext.pendingCommits.length > 0 || !(this.idle || this.failed)) return
    if (this.seq === 0 && this.state === this.kind.definition.initial) this.kind.system.leave(this)
    else ext.hasEnded = false
  }

  /** Removes the cell from memory. Nothing stored is changed. */
  release(): void {
    this.status = STOPPED
    this.extension?.activity?.stop()
    this.dropMailbox("stopped")
    this.endLanes()
  }

  private endLanes(): void {
    const lanes = this.extension?.lanes
    if (lanes === undefined) return
    this.extension!.lanes = undefined
    for (const [name, lane] of Object.entries(lanes)) {
      // A consumer outside still takes what waits for it; an activity does not come back.
      if (this.kind.lanes[name]!.direction === "in" && lane.depth > 0)
        this.kind.deadLetter(this.id, name, "unread", lane.depth)
      lane.end()
    }
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

  /** Completes when the running activity has ended; a clean shutdown waits for it. */
  get activityEnded(): Effect.Effect<void> {
    return this.extension?.activity?.ended ?? Effect.void
  }

  private ensureExtension(): Extension {
    return (this.extension ??= {
      pendingCommits: [],
      generation: 0,
      lanes: undefined,
      activity: undefined,
      crashes: undefined,
      isSettling: false,
      expiresAtMs: undefined,
      hasEnded: false
    })
  }
}
