/** The model: it hears every decision, commit, flush, answer and ending of a simulated process, knows what the
 *  kernel and the store promise, and names the first promise that is broken.
 *
 *  answers     each ask is answered exactly once; no answer to a durable command leaves before its flush; what
 *              storage has lost is reported as lost, what is durable is not
 *  memory      a rule decides on the fold of what is stored and accepted, and on nothing else
 *  disk        rows, counters, states and expiry on disk are what the flushed commits say; conditions held
 *  activities  run only for a phase that is durable; what they tell is decided, in order, each when the one
 *              before it is durable
 *  watchers    are told once, and "ended" only of an actor that has ended durably
 *  time        expiry is delivered, the sweep goes on, deadlines are met (see liveness.ts) */
import { isDeepStrictEqual } from "node:util"
import { expiryKey, mapKeyOf } from "../../storage/keys.ts"
import type { StorageFault, Write } from "../../storage/store.ts"
import type { Change } from "../../storage/writer.ts"
import type { AnyDefinition } from "../../runtime/actor.ts"
import type { Outcome } from "../../runtime/mailbox.ts"
import type { Ending } from "../../runtime/registry.ts"
import {
  Books,
  expiryOf,
  hasActivity,
  nameOf,
  newLedger,
  type AnyDecision,
  type CommitRecord,
  type Errand,
  type Ledger,
  type Tagged,
  type Token
} from "./books.ts"
import type { Disk } from "./disk.ts"
import { Fingerprint } from "./random.ts"
import type { Tally } from "./tally.ts"

/** One question of a client, from the call to its answer. */
export interface Ask {
  readonly number: number
  readonly ledger: Ledger
  readonly command: string
  readonly askedMs: number
  /** Monotonic; undefined where the way of asking has none. */
  readonly deadlineMs: number | undefined
  answers: number
  /** The client went away, or the process died under it. */
  abandoned: boolean
  decision: AnyDecision | undefined
  /** The newest commit of the actor when the answer was decided: it may not leave before. */
  dependsOn: CommitRecord | undefined
  own: CommitRecord | undefined
}

export interface Watch {
  readonly ledger: Ledger
  readonly endsBefore: number
  told: number
  removed: boolean
}

export interface RunOptions {
  readonly keepsLines?: boolean | undefined
  /** Watches over this promise alone. */
  readonly only?: string | undefined
}

export interface Violation {
  readonly promise: string
  readonly words: string
}

/** The decision that the kernel is working on: between a rule's return and its commit nothing else runs. */
interface Current {
  readonly ledger: Ledger
  readonly decision: AnyDecision
  readonly ask: Ask | undefined
  readonly token: Token | undefined
  folded: number
  state: Tagged
}

export class Model {
  readonly books = new Books()
  readonly ledgers = new Map<string, Ledger>()
  readonly asks = new Set<Ask>()
  readonly watches = new Set<Watch>()
  readonly fingerprint = new Fingerprint()
  readonly lines: Array<string> = []
  violation: Violation | undefined
  private readonly tally: Tally
  private readonly options: RunOptions
  private readonly askOf = new WeakMap<object, Ask>()
  private current: Current | undefined
  private accepted: Array<CommitRecord> = []
  private leaving: Array<CommitRecord> = []
  private commits = 0

  constructor(tally: Tally, options: RunOptions) {
    this.tally = tally
    this.options = options
  }

  /** The kernel logs. What it calls a stumble is a bug, unless a step has thrown there. */
  logged(message: string, fields: Record<string, unknown> | undefined): void {
    this.log(`log ${message} ${fields === undefined ? "" : JSON.stringify(fields)}`)
    const part = fields?.["part"]
    if (message === "the actor system stumbled" && part !== "expiry" && part !== "watchers")
      this.violate("nothing escapes", `${String(part)}: ${String(fields?.["fault"])}`)
  }

  /** Keeps a line for the reader that is no part of the run's fingerprint. */
  note(line: string): void {
    if (this.options.keepsLines === true) this.lines.push(line)
  }

  log(line: string): void {
    this.fingerprint.add(line)
    this.note(line)
  }

  /** Names the first broken promise; later ones may only follow from it. */
  violate(promise: string, words: string): void {
    if (this.violation !== undefined) return
    if (this.options.only !== undefined && this.options.only !== promise) return
    this.violation = { promise, words }
    this.log(`VIOLATION ${promise}: ${words}`)
  }

  ledger(definition: AnyDefinition, id: string): Ledger {
    const name = `${definition.kind}/${id}`
    const existing = this.ledgers.get(name)
    if (existing !== undefined) return existing
    const created = newLedger(definition, id)
    this.ledgers.set(name, created)
    return created
  }

  // Clients

  asked(ask: Ask, payload: object): void {
    this.asks.add(ask)
    this.askOf.set(payload, ask)
    this.log(`ask ${ask.number} ${nameOf(ask.ledger)} ${ask.command}`)
  }

  answered(ask: Ask, outcome: Outcome): void {
    ask.answers++
    this.asks.delete(ask)
    const { decision, ledger, own, dependsOn } = ask
    const what = `${nameOf(ledger)} ${ask.command} (ask ${ask.number})`
    const tag = "fault" in outcome ? faultName(outcome.fault) : Object.keys(outcome)[0]!
    this.log(`answer ${ask.number} ${tag}`)
    if (ask.answers > 1) return this.violate("answered once", `${what} was answered twice, then with ${tag}`)
    if ("fault" in outcome) {
      if (outcome.fault._tag === "AskTimeout" || own === undefined) return
      if (own.fate === "durable")
        this.violate("answers are true", `${what} is durable and was answered with ${tag}`)
      if (own.fate === "pending")
        this.violate("answers are true", `${what} is on its way to disk and was answered with ${tag}`)
      return
    }
    if (decision === undefined)
      return this.violate("answers are true", `${what} was answered, and no rule decided it`)
    if (!sameAnswer(outcome, decision))
      this.violate("answers are true", `${what} was not answered as its rule decided`)
    if (dependsOn?.fate === "pending")
      this.violate("no answer before its flush", `${what} was answered before commit ${dependsOn.number} was`)
    if (dependsOn?.fate === "lost")
      this.violate(
        "no answer before its flush",
        `${what} was answered, and commit ${dependsOn.number} is lost`
      )
  }

  ended(watch: Watch, ending: Ending): void {
    const { ledger } = watch
    this.log(`told ${nameOf(ledger)} ${ending}`)
    watch.told++
    if (watch.told > 1) this.violate("watchers told once", `a watcher of ${nameOf(ledger)} was told twice`)
    if (watch.removed)
      this.violate("watchers told once", `a watcher of ${nameOf(ledger)} was told after it left`)
    if (ending === "ended" && ledger.ends === watch.endsBefore)
      this.violate(
        "watchers are told the truth",
        `"ended" was told of ${nameOf(ledger)}, which has not ended durably`
      )
    if (ending === "failed" && ledger.crashes === 0)
      this.violate(
        "watchers are told the truth",
        `"failed" was told of ${nameOf(ledger)}, which never crashed`
      )
  }

  // The definitions' rules, folds and activities (probe.ts)

  deciding(ledger: Ledger, state: Tagged, command: string): void {
    this.current = undefined
    if (command === "Expire") ledger.overdueSweeps = 0
    if (state === ledger.accepted) return
    if (isDeepStrictEqual(state, ledger.accepted)) {
      ledger.accepted = state
      return
    }
    if (!ledger.durable && isDeepStrictEqual(state, ledger.definition.initial)) return this.beginsAnew(ledger)
    this.violate(
      "memory is the fold of disk",
      `${nameOf(ledger)} decided ${command} on ${json(state)}, and stored and accepted is ${json(ledger.accepted)}`
    )
  }

  decided(ledger: Ledger, payload: unknown, state: Tagged, decision: AnyDecision): void {
    const ask = this.askOf.get(payload as object)
    const token = (payload as { readonly [marker]?: Token } | undefined)?.[marker]
    this.current = { ledger, decision, ask, token, folded: 0, state }
    if (token !== undefined) this.decidedFor(token)
    if (ask === undefined) return
    if (ask.decision !== undefined)
      this.violate(
        "nothing doubled",
        `${nameOf(ledger)} ${ask.command} (ask ${ask.number}) was decided twice`
      )
    ask.decision = decision
    ask.dependsOn = ledger.newest
  }

  ruleThrew(ledger: Ledger): void {
    this.crashed(ledger)
  }

  crashed(ledger: Ledger): void {
    ledger.crashes++
    this.beginsAnew(ledger)
  }

  /** An actor that is not durable begins anew: after a crash, a passivation, or at an operator's request. */
  beginsAnew(ledger: Ledger): void {
    if (ledger.durable) return
    ledger.accepted = ledger.definition.initial
    ledger.toldPhase = ledger.accepted._tag
    ledger.owesActivity = false
  }

  private entered(ledger: Ledger, phase: string): void {
    if (phase !== ledger.toldPhase) ledger.owesActivity = hasActivity(ledger, phase)
    ledger.toldPhase = phase
  }

  /** True when the event is the next of the decision that the kernel is working on. */
  folds(event: Tagged): boolean {
    const { current } = this
    return current !== undefined && event === current.decision.events[current.folded]
  }

  folded(before: Tagged, after: Tagged): void {
    const current = this.current!
    if (before !== current.state)
      this.violate(
        "memory is the fold of disk",
        `${nameOf(current.ledger)} folds an event into another state`
      )
    current.state = after
    current.folded++
    const { ledger, decision } = current
    const inMemory = !ledger.durable && decision.rows.length === 0
    if (!inMemory || current.folded < decision.events.length) return
    const ends = ledger.definition.endsIn?.includes(after._tag) === true
    if (ends) ledger.ends++
    ledger.accepted = ends ? ledger.definition.initial : after
    this.entered(ledger, ledger.accepted._tag)
    this.log(`fold ${nameOf(ledger)} ${after._tag}`)
  }

  activityStarts(ledger: Ledger, phase: string): Errand {
    this.log(`activity ${nameOf(ledger)} ${phase}`)
    if (phase === ledger.definition.initial._tag) this.beginsAnew(ledger)
    ledger.workingPhase = phase
    if (phase === ledger.toldPhase) ledger.owesActivity = false
    else
      this.violate(
        "activities run for durable phases",
        `${nameOf(ledger)} works for ${phase}, and the newest durable phase is ${ledger.toldPhase}`
      )
    return { ledger, phase, tokens: [] }
  }

  /** The activity has a command for its actor, which is marked so that it is known again. */
  emitted(errand: Errand, command: Tagged): Tagged {
    const token: Token = {
      errand,
      command: command._tag,
      before: errand.tokens.at(-1),
      decisions: 0,
      dependsOn: undefined
    }
    errand.tokens.push(token)
    return { ...command, [marker]: token } as Tagged
  }

  private decidedFor(token: Token): void {
    const { errand, before, command } = token
    token.decisions++
    token.dependsOn = errand.ledger.newest
    if (before !== undefined && !isSettled(before))
      this.violate(
        "activities are heard",
        `${nameOf(errand.ledger)} decided its activity's ${command} before ${before.command} was durable`
      )
  }

  activityEnded({ ledger, phase }: Errand): void {
    if (ledger.workingPhase === phase) ledger.workingPhase = undefined
  }

  activityFinished({ ledger, phase, tokens }: Errand): void {
    this.log(`finished ${nameOf(ledger)} ${phase}`)
    for (const token of tokens)
      if (!isSettled(token))
        this.violate(
          "activities are heard",
          `the activity of ${nameOf(ledger)} told ${token.command} in vain`
        )
  }

  activityDied({ ledger, phase }: Errand): void {
    this.log(`died ${nameOf(ledger)} ${phase}`)
    ledger.crashes++
    if (phase === ledger.toldPhase) ledger.owesActivity = true
  }

  // The store (store.ts) and its disk

  /** Takes the decision that a commit belongs to. */
  get committing(): Current | undefined {
    return this.current
  }

  committed(current: Current, writes: ReadonlyArray<Write>): CommitRecord {
    const { ledger, decision, state, ask, token } = current
    const ends = writes.some(({ _tag }) => _tag === "forget")
    if (current.folded !== decision.events.length)
      this.violate(
        "nothing durable lost",
        `${nameOf(ledger)} commits ${current.folded} of ${decision.events.length} events`
      )
    const lastSeq = ends ? 0 : ledger.acceptedSeq + (ledger.durable ? decision.events.length : 0)
    const after = ends || !ledger.durable ? ledger.definition.initial : state
    const record: CommitRecord = {
      number: ++this.commits,
      ledger,
      writes,
      after,
      lastSeq,
      ends,
      fate: "pending"
    }
    ledger.accepted = ends ? ledger.definition.initial : state
    ledger.acceptedSeq = lastSeq
    ledger.newest = record
    ledger.pending++
    this.accepted.push(record)
    if (ask !== undefined) {
      ask.own = record
      ask.dependsOn = record
    }
    if (token !== undefined) token.dependsOn = record
    this.current = undefined
    this.log(`commit ${record.number} ${nameOf(ledger)} ${decision.events.map(({ _tag }) => _tag).join("+")}`)
    return record
  }

  /** The kernel is about to hear of its commit. */
  told({ ledger, number, after, fate }: CommitRecord, fault: StorageFault | undefined): void {
    this.log(`settled ${number} ${fault === undefined ? "" : fault.reason}`)
    if (fault === undefined && fate !== "durable")
      this.violate(
        "nothing durable lost",
        `commit ${number} of ${nameOf(ledger)} is called durable and is ${fate}`
      )
    if (fault !== undefined && fate !== "lost")
      this.violate("nothing doubled", `commit ${number} of ${nameOf(ledger)} is called lost and is ${fate}`)
    if (fault === undefined) this.entered(ledger, after._tag)
  }

  /** A transaction leaves with everything accepted so far. */
  readonly leave = (): void => {
    this.leaving = this.accepted
    this.accepted = []
  }

  written(changes: ReadonlyArray<Change>, disk: Disk): void {
    const records = this.leaving
    this.leaving = []
    const touched = new Set<Ledger>()
    for (const record of records) {
      const { ledger, writes } = record
      record.fate = "durable"
      for (const write of writes) {
        const fault = this.books.enter(write)
        if (fault !== undefined) this.violate("conditions hold", `${nameOf(ledger)}: ${fault}`)
      }
      ledger.stored = record.after
      ledger.storedSeq = record.lastSeq
      ledger.pending--
      ledger.overdueSweeps = 0
      if (record.ends) ledger.ends++
      touched.add(ledger)
    }
    this.compareRows(changes)
    for (const ledger of touched) this.compareExpiry(ledger, disk)
  }

  /** Everything accepted and not written is lost at once. */
  readonly lose = (): void => {
    for (const record of [...this.leaving, ...this.accepted]) {
      const { ledger } = record
      record.fate = "lost"
      ledger.pending--
      ledger.accepted = ledger.stored
      ledger.acceptedSeq = ledger.storedSeq
      ledger.newest = undefined
      ledger.toldPhase = ledger.stored._tag
    }
    this.leaving = []
    this.accepted = []
  }

  private compareRows(changes: ReadonlyArray<Change>): void {
    for (const { key, value } of changes) {
      if (key[0] !== "t" && key[0] !== "c") continue
      const name = mapKeyOf(key)
      if (key[0] === "c") {
        const sum = this.books.counters.get(name) ?? 0
        const stored = value === undefined ? 0 : Number(Buffer.from(value).toString("latin1"))
        this.lastCounters.set(name, [stored, sum])
      } else this.lastRows.set(name, [value, this.books.rows.get(name)])
    }
    for (const [name, [stored, expected]] of this.lastRows)
      if (!sameBytes(stored, expected))
        this.violate("nothing durable lost", `the row ${printable(name)} is not what was committed`)
    for (const [name, [stored, expected]] of this.lastCounters)
      if (stored !== expected)
        this.violate(
          "nothing durable lost",
          `the counter ${printable(name)} is ${stored} and must be ${expected}`
        )
    this.lastRows.clear()
    this.lastCounters.clear()
  }

  private readonly lastRows = new Map<string, readonly [Uint8Array | undefined, Uint8Array | undefined]>()
  private readonly lastCounters = new Map<string, readonly [number, number]>()

  private compareExpiry(ledger: Ledger, disk: Disk): void {
    if (!ledger.durable) return
    const bytes = disk.get(expiryKey(ledger.kind, ledger.id))
    const stored = bytes === undefined ? undefined : Number(Buffer.from(bytes).toString("latin1"))
    const expected = expiryOf(ledger)
    if (stored !== expected)
      this.violate(
        "expiry is stored",
        `${nameOf(ledger)} expires at ${expected}, and on disk stands ${stored}`
      )
  }

  /** The process has died: nobody in it will be answered or told any more. */
  processDied(): void {
    for (const ask of this.asks) ask.abandoned = true
    for (const watch of this.watches) watch.removed = true
    this.asks.clear()
    this.watches.clear()
    this.current = undefined
    for (const ledger of this.ledgers.values()) {
      ledger.accepted = ledger.stored
      ledger.acceptedSeq = ledger.storedSeq
      ledger.newest = undefined
      ledger.toldPhase = ledger.stored._tag
      ledger.workingPhase = undefined
      ledger.owesActivity = ledger.durable && ledger.definition.resume?.includes(ledger.stored._tag) === true
      ledger.overdueSweeps = 0
    }
  }

  count(fault: string): void {
    this.tally.count(fault)
  }
}

/** Marks a command of an activity; it is copied with the other members of a payload, and never stored. */
const marker = Symbol("token")

const isSettled = ({ decisions, dependsOn }: Token): boolean =>
  decisions > 0 && (dependsOn === undefined || dependsOn.fate === "durable")

const faultName = (fault: { readonly _tag: string; readonly reason?: string }): string =>
  fault.reason === undefined ? fault._tag : `${fault._tag} (${fault.reason})`

const sameAnswer = (outcome: Outcome, { answer, otherwise }: AnyDecision): boolean =>
  [answer, otherwise?.answer].some((decided) => {
    if (decided === undefined) return false
    if ("reply" in outcome) return "reply" in decided && Object.is(decided.reply, outcome.reply)
    return "refuse" in outcome && "refuse" in decided && Object.is(decided.refuse, outcome.refuse)
  })

const sameBytes = (a: Uint8Array | undefined, b: Uint8Array | undefined): boolean =>
  a === undefined || b === undefined ? a === b : Buffer.compare(a, b) === 0

export const json = (value: unknown): string => JSON.stringify(value)

const printable = (name: string): string => name.split("\0").join(" ")
