/** The actor system maps addresses to live actors: it activates and passivates them, limits how many stay in
 *  memory, delivers expiry, and is what the rest of the program uses to ask, tell, watch and inspect an
 *  actor. Guarantee: an address has at most one live cell. Source: docs/architecture.md, "The kernel". */
import { Clock, Context, Effect, Layer, Schedule, Schema, type Scope } from "effect"
import type { Store } from "../storage/store.ts"
import type { AnyDefinition, Commands, Definition, OuterEnds, Payload, Refusal, Reply } from "./actor.ts"
import { Cell } from "./cell.ts"
import { Kind, type Host, type Log, type Resident } from "./kind.ts"
import type { Done, Outcome } from "./mailbox.ts"
import { RunQueue, type Scheduler } from "./run-queue.ts"
import { AskTimeout, Unavailable, type AskFault } from "./supervisor.ts"
import { tickMs, Timers } from "./timers.ts"

type CommandsOf<D> = D extends Definition<any, infer Cs, any, any, any> ? Cs : never
type LanesOf<D> = D extends Definition<any, any, any, infer Ls, any> ? Ls : never
type NeedsOf<D> = D extends Definition<any, any, any, any, infer R> ? R : never

/** The answer to an ask: the reply, a refusal which the command declares, or a fault that says why there is
 *  neither. */
export type Answer<C> =
  | { readonly reply: Reply<C> }
  | { readonly refuse: Refusal<C> }
  | { readonly fault: AskFault }

/** A reference to one actor. Callers should keep it, because asking through it again costs no look-up. */
export interface Ref<D> {
  readonly kind: string
  readonly id: string
  ask<C extends keyof CommandsOf<D> & string>(
    command: C,
    payload: Payload<CommandsOf<D>[C]>,
    timeoutMs?: number
  ): Effect.Effect<Reply<CommandsOf<D>[C]>, Refusal<CommandsOf<D>[C]> | AskFault>
  /** Works like `ask`, but answers by callback and has no deadline. The callback runs in this very turn when
   *  the actor is idle and nothing has to reach the disk. */
  askNow<C extends keyof CommandsOf<D> & string>(
    command: C,
    payload: Payload<CommandsOf<D>[C]>,
    done: (answer: Answer<CommandsOf<D>[C]>) => void
  ): void
  /** Sends a command without waiting for an answer. Returns false when the command was not accepted, for
   *  example because the mailbox is full. */
  tell<C extends keyof CommandsOf<D> & string>(command: C, payload: Payload<CommandsOf<D>[C]>): boolean
  readonly lanes: OuterEnds<LanesOf<D>>
}

export interface ActorView {
  readonly kind: string
  readonly id: string
  readonly phase: string
  readonly status: "idle" | "busy" | "working" | "failed"
  readonly mailbox: number
  readonly restarts: number
  readonly lastFault: string | undefined
  readonly lanes: Readonly<Record<string, number>>
}

export interface KindView {
  readonly kind: string
  readonly live: number
  readonly failed: number
  readonly handled: number
  readonly refused: number
  readonly restarts: number
  readonly failures: number
  readonly activations: number
  readonly passivations: number
}

export type Ending = "ended" | "failed"

export interface SystemOptions {
  readonly store: Store
  readonly nowMs: () => number
  readonly log?: Log
  /** The most cells that stay in memory (default 200,000). When the limit is reached, idle ones are evicted,
   *  least recently used first. */
  readonly residentMax?: number
  /** Default: the event loop, `Math.random` and `crypto.randomUUID`. The simulation supplies its own. */
  readonly scheduler?: Scheduler
  readonly random?: () => number
  readonly newId?: () => string
  /** Passes every message through its Schema, as it would travel between machines. Tests switch this on. */
  readonly strict?: boolean
}

const askTimeoutMsDefault = 5_000
const sweepEveryMs = 1_000
const expiredPerSweep = 1_000
const cellsPerSweep = 50_000

/** A kind together with its live actors, by id. */
class HostedKind extends Kind {
  readonly cells = new Map<string, Cell>()
}

export class ActorSystem implements Host {
  readonly store: Store
  readonly runQueue: RunQueue
  readonly timers: Timers
  readonly nowMs: () => number
  readonly random: () => number
  readonly newId: () => string
  readonly log: Log
  sweeps = 0
  private readonly kinds = new Map<string, HostedKind>()
  private readonly watchers = new Map<string, Set<(ending: Ending) => void>>()
  private readonly residentMax: number
  private readonly strict: boolean
  private resident = 0
  private sweptAtMs: number
  private stopped = false

  constructor(options: SystemOptions) {
    this.store = options.store
    this.nowMs = options.nowMs
    this.random = options.random ?? Math.random
    this.newId = options.newId ?? (() => crypto.randomUUID())
    this.runQueue = new RunQueue(options.scheduler)
    this.log = options.log ?? (() => {})
    this.residentMax = options.residentMax ?? 200_000
    this.strict = options.strict ?? false
    this.timers = new Timers(options.nowMs())
    this.sweptAtMs = options.nowMs()
  }

  /** Registers a definition, so that its actors can be asked. `context` holds the services its activities
   *  need. It must be called once per kind, before the first `ref`. */
  host<D extends AnyDefinition>(definition: D, context: Context.Context<NeedsOf<D>>): void {
    if (this.kinds.has(definition.kind)) throw new Error(`two definitions of kind ${definition.kind}`)
    this.kinds.set(definition.kind, new HostedKind(definition, context as Context.Context<any>, this))
  }

  /** Activates every stored actor whose phase is listed in its definition's `resume`, and returns how many
   *  there are. The process calls it after a start, because such work must continue without being asked
   *  for. */
  resume(): number {
    let resumed = 0
    for (const kind of this.kinds.values()) {
      const { resume } = kind.definition
      if (resume === undefined) continue
      for (let after: string | undefined; ;) {
        const ids = this.store.ids(kind.name, after, 1_000)
        for (const id of ids)
          if (resume.includes(kind.load(id).state._tag)) {
            this.cell(kind, id)
            resumed++
          }
        if (ids.length === 0) break
        after = ids.at(-1)
      }
    }
    return resumed
  }

  ref<D extends AnyDefinition>(definition: D, id: string): Ref<D> {
    return new Reference(this, this.kind(definition.kind), id, this.strict) as unknown as Ref<D>
  }

  /** Calls `onEnding` once when the actor ends or fails; passivation does not count as an end. The returned
   *  function stops watching. */
  watch(kind: string, id: string, onEnding: (ending: Ending) => void): () => void {
    const address = `${kind}/${id}`
    const watching = this.watchers.get(address) ?? new Set()
    this.watchers.set(address, watching.add(onEnding))
    return () => {
      if (watching.delete(onEnding) && watching.size === 0) this.watchers.delete(address)
    }
  }

  private kind(name: string): HostedKind {
    const kind = this.kinds.get(name)
    if (kind === undefined) throw new Error(`no actor kind ${name} is hosted`)
    return kind
  }

  cell(kind: HostedKind, id: string): Cell {
    const live = kind.cells.get(id)
    if (live !== undefined) return live
    if (this.resident >= this.residentMax) this.evictIdle()
    const cell = new Cell(kind, id)
    kind.cells.set(id, cell)
    kind.counts.activations++
    this.resident++
    cell.start()
    return cell
  }

  private forget(cell: Resident): void {
    const { cells } = this.kinds.get(cell.kind.name)!
    if (cells.get(cell.id) === cell) {
      cells.delete(cell.id)
      this.resident--
    }
  }

  private passivate(cell: Cell): void {
    this.forget(cell)
    cell.kind.counts.passivations++
    cell.release("stopped")
  }

  failed(cell: Resident): void {
    this.notifyWatchers(cell, "failed")
  }

  ended(cell: Resident): void {
    this.forget(cell)
    this.notifyWatchers(cell, "ended")
  }

  private notifyWatchers(cell: Resident, ending: Ending): void {
    const address = `${cell.kind.name}/${cell.id}`
    const watching = this.watchers.get(address)
    this.watchers.delete(address)
    if (watching !== undefined) for (const onEnding of watching) onEnding(ending)
  }

  /** Advances time: deadlines, backoffs after crashes, passivation and expiry. It is called every `tickMs`;
   *  tests call it with a clock of their own. */
  tick(): void {
    const nowMs = this.nowMs()
    this.timers.tick(nowMs)
    if (nowMs - this.sweptAtMs < sweepEveryMs) return
    const elapsed = Math.max(1, Math.round((nowMs - this.sweptAtMs) / sweepEveryMs))
    this.sweptAtMs = nowMs
    this.sweeps += elapsed
    this.sweepIdle()
    for (const { kind, id } of this.store.expired(nowMs, expiredPerSweep)) {
      const hosted = this.kinds.get(kind)
      if (hosted !== undefined) this.cell(hosted, id).tell("Expire", {})
    }
  }

  private sweepIdle(): void {
    for (const kind of this.kinds.values()) {
      const restSweeps = Math.max(1, Math.ceil(kind.passivateAfterMs / sweepEveryMs))
      let visited = 0
      for (const cell of kind.cells.values()) {
        if (++visited > cellsPerSweep) break
        if (this.sweeps - cell.lastActiveSweep >= restSweeps && cell.idle) this.passivate(cell)
        else if (kind.cells.size > cellsPerSweep) {
          kind.cells.delete(cell.id)
          kind.cells.set(cell.id, cell)
        } // looked at last next time
      }
    }
  }

  /** Evicts a tenth of the limit at once, least recently used first, so that this search is rare. */
  private evictIdle(): void {
    const idle: Array<Cell> = []
    for (const kind of this.kinds.values())
      if (kind.durable) for (const cell of kind.cells.values()) if (cell.idle) idle.push(cell)
    idle.sort((a, b) => a.lastActiveSweep - b.lastActiveSweep)
    for (const cell of idle.slice(0, Math.ceil(this.residentMax / 10))) this.passivate(cell)
  }

  // The members below serve operators: the console and the command line.

  overview(): ReadonlyArray<KindView> {
    return [...this.kinds.values()].map(({ name: kind, cells, counts }) => {
      let failed = 0
      if (counts.failures > 0) for (const cell of cells.values()) if (cell.failed) failed++
      return { kind, live: cells.size, failed, ...counts }
    })
  }

  list(kind: string, limit: number): ReadonlyArray<ActorView> {
    const cells = this.kinds.get(kind)?.cells.values() ?? []
    const views: Array<ActorView> = []
    for (const cell of cells) {
      if (views.length >= limit) break
      views.push(view(cell))
    }
    return views
  }

  /** Returns undefined when the actor is not in memory. */
  inspect(kind: string, id: string): (ActorView & { readonly state: unknown }) | undefined {
    const cell = this.kinds.get(kind)?.cells.get(id)
    return cell === undefined
      ? undefined
      : { ...view(cell), state: Schema.encodeSync(cell.kind.definition.state)(cell.state) }
  }

  journal(kind: string, id: string): ReadonlyArray<{ readonly seq: number; readonly event: unknown }> {
    const hosted = this.kind(kind)
    return this.store
      .readJournal(kind, id, 0)
      .map(({ seq, event }) => ({
        seq,
        event: Schema.encodeSync(hosted.definition.event)(hosted.unpackEvent(event))
      }))
  }

  /** Clears the actor's crash record and loads its state again; returns false when the actor is not in
   *  memory. */
  restart(kind: string, id: string): boolean {
    const cell = this.kinds.get(kind)?.cells.get(id)
    cell?.restart()
    return cell !== undefined
  }

  get residents(): number {
    return this.resident
  }

  /** Stops every activity, then waits until every accepted commit is on disk. */
  readonly stop: Effect.Effect<void> = Effect.suspend(() => {
    this.stopped = true
    const working: Array<Effect.Effect<void>> = []
    for (const kind of this.kinds.values())
      for (const cell of kind.cells.values()) {
        working.push(cell.activityEnded)
        cell.release("stopped")
      }
    return Effect.andThen(
      Effect.all(working, { concurrency: "unbounded" }),
      Effect.promise(() => this.store.flushed())
    )
  })

  get running(): boolean {
    return !this.stopped
  }
}

const statusOf = (cell: Cell): ActorView["status"] => {
  if (cell.failed) return "failed"
  if (cell.depth > 0) return "busy"
  return cell.working ? "working" : "idle"
}

const view = (cell: Cell): ActorView => ({
  kind: cell.kind.name,
  id: cell.id,
  phase: cell.state._tag,
  status: statusOf(cell),
  mailbox: cell.depth,
  restarts: cell.crashes?.total ?? 0,
  lastFault: cell.crashes?.lastFault,
  lanes: cell.laneDepths
})

class Reference {
  readonly id: string
  private readonly system: ActorSystem
  private readonly of: HostedKind
  private readonly strict: boolean
  private held: Cell | undefined = undefined

  constructor(system: ActorSystem, of: HostedKind, id: string, strict: boolean) {
    this.system = system
    this.of = of
    this.id = id
    this.strict = strict
  }

  get kind(): string {
    return this.of.name
  }

  get lanes(): unknown {
    return this.live().lanes()
  }

  private live(): Cell {
    const held = this.held
    return held !== undefined && !held.stopped ? held : (this.held = this.system.cell(this.of, this.id))
  }

  askNow(command: string, payload: unknown, done: Done): void {
    if (!this.system.running)
      return done({ fault: new Unavailable({ kind: this.of.name, id: this.id, reason: "stopped" }) })
    if (this.strict) payload = this.throughSchema(command, payload)
    this.live().ask(command, payload, done)
  }

  tell(command: string, payload: unknown): boolean {
    return (
      this.system.running &&
      this.live().tell(command, this.strict ? this.throughSchema(command, payload) : payload)
    )
  }

  ask(command: string, payload: unknown, timeoutMs = askTimeoutMsDefault): Effect.Effect<unknown, unknown> {
    return Effect.suspend(() => {
      let now: Outcome | undefined
      let later: ((outcome: Outcome) => void) | undefined
      this.askNow(command, payload, (outcome) => {
        if (later === undefined) now = outcome
        else later(outcome)
      })
      if (now !== undefined) return asEffect(now)
      return Effect.callback<unknown, unknown>((resume) => {
        const settle = (effect: Effect.Effect<unknown, unknown>): void => {
          later = ignore
          resume(effect)
        }
        later = (outcome) => settle(asEffect(outcome))
        this.system.timers.schedule(this.system.nowMs() + timeoutMs, () => {
          if (later !== ignore)
            settle(Effect.fail(new AskTimeout({ kind: this.of.name, id: this.id, afterMs: timeoutMs })))
        })
        return Effect.sync(() => {
          later = ignore
        })
      })
    })
  }

  private throughSchema(command: string, payload: unknown): unknown {
    const schema = (this.of.definition.commands as Commands)[command]!.payload
    return Schema.decodeUnknownSync(schema)(JSON.parse(JSON.stringify(Schema.encodeSync(schema)(payload))))
  }
}

const ignore = (): void => {}

const asEffect = (outcome: Outcome): Effect.Effect<unknown, unknown> =>
  "reply" in outcome
    ? Effect.succeed(outcome.reply)
    : Effect.fail("refuse" in outcome ? outcome.refuse : outcome.fault)

/** Provides the actor system as an Effect service. */
export class Actors extends Context.Service<Actors, ActorSystem>()("runtime/Actors") {
  /** Makes a system that is driven by the Effect Clock and stops when the scope closes. */
  static readonly make = (
    options: Omit<SystemOptions, "nowMs">
  ): Effect.Effect<ActorSystem, never, Scope.Scope> =>
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      const system = new ActorSystem({ ...options, nowMs: () => clock.currentTimeMillisUnsafe() })
      yield* Effect.forkScoped(
        Effect.repeat(
          Effect.sync(() => system.tick()),
          Schedule.spaced(tickMs)
        )
      )
      yield* Effect.addFinalizer(() => system.stop)
      return system
    })

  static readonly layer = (options: Omit<SystemOptions, "nowMs">): Layer.Layer<Actors> =>
    Layer.effect(Actors)(Actors.make(options))
}
