/** The actor system maps addresses to live actors: it activates and passivates them, limits how many stay in
 *  memory, delivers expiry, and is what the rest of the program uses to ask, tell, watch and inspect an
 *  actor. Guarantee: an address has at most one live cell; what stumbles (a timer, the sweep, a watcher, one
 *  unreadable actor) is logged and counted, and holds up nobody else. Source: docs/architecture.md, "The
 *  kernel". */
import { Clock, Context, Effect, Layer, Schedule, Schema, type Scope } from "effect"
import type { Expiring, Store } from "../storage/store.ts"
import type { AnyDefinition, Definition } from "./actor.ts"
import { Cell } from "./cell.ts"
import { Kind, type Log, type Resident } from "./kind.ts"
import { Reference, type Activator, type Ref } from "./reference.ts"
import { RunQueue, type Scheduler } from "./run-queue.ts"
import type { DeadLetter } from "./supervisor.ts"
import { tickMs, Timers } from "./timers.ts"

export type { Answer, Ref } from "./reference.ts"

type NeedsOf<D> = D extends Definition<any, any, any, any, infer R> ? R : never

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
  readonly deadLetters: number
  /** True when so many of its actors failed of late that the kind as a whole is in trouble. */
  readonly degraded: boolean
}

export type Ending = "ended" | "failed"

export interface SystemOptions {
  readonly store: Store
  /** Wall time, epoch ms. */
  readonly nowMs: () => number
  /** Monotonic time in ms (default: `nowMs`, for tests whose clock is not set back). */
  readonly monotonicMs?: () => number
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

const sweepEveryMs = 1_000
const expiredPerSweep = 1_000

const cellsPerSweep = 50_000

/** A kind together with its live actors, by id. */
class HostedKind extends Kind {
  readonly cells = new Map<string, Cell>()
}

export class ActorSystem implements Activator<HostedKind> {
  readonly store: Store
  readonly runQueue: RunQueue
  readonly timers: Timers
  readonly nowMs: () => number
  readonly monotonicMs: () => number
  readonly random: () => number
  readonly newId: () => string
  readonly log: Log
  readonly residentMax: number
  readonly strict: boolean
  sweeps = 0

  /** Counts what stumbled, by part: timers, sweep, expiry, watchers, run queue. */
  readonly stumbles: Record<string, number> = {}

  private readonly kinds = new Map<string, HostedKind>()
  private readonly watchers = new Map<string, Set<(ending: Ending) => void>>()
  /** Where the last sweep of the expiry index ended; undefined at its beginning. */
  private expiryCursor: Expiring | undefined
  private resident = 0
  private sweptAtMs: number
  private stopped = false

  constructor(options: SystemOptions) {
    this.store = options.store
    this.nowMs = options.nowMs
    this.monotonicMs = options.monotonicMs ?? options.nowMs
    this.random = options.random ?? Math.random
    this.newId = options.newId ?? (() => crypto.randomUUID())
    this.runQueue = new RunQueue(options.scheduler, (defect) => this.stumbled("run queue", defect))
    this.log = options.log ?? (() => {})
    this.residentMax = options.residentMax ?? 200_000
    this.strict = options.strict ?? false
    this.timers = new Timers(this.monotonicMs, (defect) => this.stumbled("timers", defect))
    this.sweptAtMs = this.monotonicMs()
  }

  /** Registers a definition, so that its actors can be asked. `context` holds the services its activities
   *  need. It must be called once per kind, before the first `ref`. */
  host<D extends AnyDefinition>(definition: D, context: Context.Context<NeedsOf<D>>): void {
    if (this.kinds.has(definition.kind)) throw new Error(`two definitions of kind ${definition.kind}`)
    this.kinds.set(definition.kind, new HostedKind(definition, context as Context.Context<any>, this))
  }

  /** Activates every stored actor whose phase is listed in its definition's `resume`, and returns how many
   *  there are. The process calls it after a start, because such work must continue without being asked
   *  for. An actor that cannot be read is failed, and named in the log; the others go on. */
  resume(): number {
    let resumed = 0
    for (const kind of this.kinds.values()) {
      const { resume } = kind.definition
      if (resume === undefined) continue
      for (let after: string | undefined; ;) {
        const ids = this.store.ids(kind.name, after, 1_000)
        for (const id of ids) {
          if (!mustResume(kind, id, resume)) continue
          if (this.cell(kind, id) !== undefined) resumed++
          else this.log("error", "no room to resume an actor", { actor: kind.name, id })
        }
        if (ids.length === 0) break
        after = ids.at(-1)
      }
    }
    return resumed
  }

  ref<D extends AnyDefinition>(definition: D, id: string): Ref<D> {
    return new Reference(this, this.kind(definition.kind), id) as unknown as Ref<D>
  }

  /** Calls `onEnding` once when the actor ends or fails; passivation does not count as an end. The returned
   *  function stops watching. */
  watch(kind: string, id: string, onEnding: (ending: Ending) => void): () => void {
    const address = `${kind}/${id}`
    const watching = this.watchers.get(address) ?? new Set()
    this.watchers.set(address, watching.add(onEnding))
    return () => {
      watching.delete(onEnding)
      // Those who were told already are no longer the ones who watch now.
      if (watching.size === 0 && this.watchers.get(address) === watching) this.watchers.delete(address)
    }
  }

  private kind(name: string): HostedKind {
    const kind = this.kinds.get(name)
    if (kind === undefined) throw new Error(`no actor kind ${name} is hosted`)
    return kind
  }

  cell(kind: HostedKind, id: string): Cell | undefined {
    const live = kind.cells.get(id)
    if (live !== undefined) return live
    if (!this.makeRoom(kind)) return undefined
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
    cell.kind.counts.passivations++
    this.leave(cell)
  }

  leave(cell: Cell): void {
    this.forget(cell)
    cell.release()
  }

  failed(cell: Resident): void {
    const { health, name } = cell.kind
    if (health.record(this.monotonicMs())) this.log("error", "a kind of actor is degraded", { actor: name })
    this.notifyWatchers(cell, "failed")
  }

  ended(cell: Resident): void {
    this.notifyWatchers(cell, "ended")
  }

  private notifyWatchers(cell: Resident, ending: Ending): void {
    const address = `${cell.kind.name}/${cell.id}`
    const watching = this.watchers.get(address)
    this.watchers.delete(address)
    if (watching === undefined) return
    for (const onEnding of watching) this.attempt("watchers", () => onEnding(ending))
  }

  /** Runs one part of the system's own work; what it throws is logged and counted. */
  attempt(part: string, work: () => void): void {
    try {
      work()
    } catch (defect) {
      this.stumbled(part, defect)
    }
  }

  private stumbled(part: string, defect: unknown): void {
    const count = (this.stumbles[part] ?? 0) + 1
    this.stumbles[part] = count
    // A part that stumbles at every tick must not fill the log.
    if (Number.isInteger(Math.log2(count)))
      this.log("error", "the actor system stumbled", { part, count, fault: String(defect) })
  }

  /** Advances time: deadlines, backoffs after crashes, passivation and expiry. It is called every `tickMs`;
   *  tests call it with a clock of their own. */
  tick(): void {
    const nowMs = this.monotonicMs()
    this.timers.tick()
    if (nowMs - this.sweptAtMs < sweepEveryMs) return
    const elapsed = Math.max(1, Math.round((nowMs - this.sweptAtMs) / sweepEveryMs))
    this.sweptAtMs = nowMs
    this.sweeps += elapsed
    this.attempt("sweep", () => this.sweepIdle())
    this.attempt("expiry", () => this.sweepExpired())
  }

  /** Tells the next actors that are due to expire. It goes on where the last sweep ended, because an actor that
   *  cannot expire (it has failed) keeps its place in the index and must not hold up those behind it. */
  private sweepExpired(): void {
    const due = this.store.expired(this.nowMs(), expiredPerSweep, this.expiryCursor)
    this.expiryCursor = due.length === expiredPerSweep ? due.at(-1) : undefined
    for (const { kind, id } of due) {
      const hosted = this.kinds.get(kind)
      if (hosted !== undefined) this.attempt("expiry", () => this.expire(hosted, id))
    }
  }

  private expire(kind: HostedKind, id: string): void {
    const cell = this.cell(kind, id)
    if (cell !== undefined && !cell.failed) cell.tell("Expire", {})
  }

  private sweepIdle(): void {
    for (const kind of this.kinds.values()) {
      const restSweeps = Math.max(1, Math.ceil(kind.passivateAfterMs / sweepEveryMs))
      let visited = 0
      for (const cell of kind.cells.values()) {
        if (++visited > cellsPerSweep) break
        if (this.sweeps - cell.lastActiveSweep >= restSweeps && cell.mayPassivate) this.passivate(cell)
        else if (kind.cells.size > cellsPerSweep) {
          kind.cells.delete(cell.id)
          kind.cells.set(cell.id, cell)
        } // looked at last next time
      }
    }
  }

  /** Makes room for one more cell; returns false when every resident is at work. */
  private makeRoom(kind: HostedKind): boolean {
    if (kind.cells.size >= kind.residentMax) this.evictIdle([kind], kind.residentMax)
    else if (this.resident >= this.residentMax) this.evictIdle(this.kinds.values(), this.residentMax)
    return kind.cells.size < kind.residentMax && this.resident < this.residentMax
  }

  /** Evicts a tenth of the limit at once, so that this search is rare: idle cells, least recently used first.
   *  Those whose state only lives in memory leave after the durable ones, and failed ones, which would have to
   *  fail again, come last. */
  private evictIdle(kinds: Iterable<HostedKind>, limit: number): void {
    const candidates: Array<Cell> = []
    for (const kind of kinds)
      for (const cell of kind.cells.values()) if (cell.evictable) candidates.push(cell)
    candidates.sort((a, b) => evictionRank(a) - evictionRank(b) || a.lastActiveSweep - b.lastActiveSweep)
    for (const cell of candidates.slice(0, Math.ceil(limit / 10))) this.passivate(cell)
  }

  // The members below serve operators: the console and the command line.

  overview(): ReadonlyArray<KindView> {
    const nowMs = this.monotonicMs()
    return [...this.kinds.values()].map(({ name: kind, cells, counts, health }) => {
      let failed = 0
      if (counts.failures > 0) for (const cell of cells.values()) if (cell.failed) failed++
      return { kind, live: cells.size, failed, degraded: health.isDegraded(nowMs), ...counts }
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

  /** The newest commands that reached nobody, of all kinds. */
  get deadLetters(): ReadonlyArray<DeadLetter> {
    return [...this.kinds.values()].flatMap(({ deadLetters }) => deadLetters.samples)
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
        cell.release()
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

/** True when a stored actor has to go on. One that cannot be read is activated too: that is how it is failed,
 *  counted and named. */
const mustResume = (kind: Kind, id: string, phases: ReadonlyArray<string>): boolean => {
  try {
    return phases.includes(kind.load(id).state._tag)
  } catch {
    return true
  }
}

const evictionRank = (cell: Cell): number => {
  if (cell.failed) return 2
  return cell.kind.durable ? 0 : 1
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

/** Provides the actor system as an Effect service. */
export class Actors extends Context.Service<Actors, ActorSystem>()("runtime/Actors") {
  /** Makes a system that is driven by the Effect Clock and stops when the scope closes. */
  static readonly make = (
    options: Omit<SystemOptions, "nowMs" | "monotonicMs">
  ): Effect.Effect<ActorSystem, never, Scope.Scope> =>
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      const system = new ActorSystem({
        ...options,
        nowMs: () => clock.currentTimeMillisUnsafe(),
        monotonicMs: () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
      })
      yield* Effect.forkScoped(
        Effect.repeat(
          Effect.sync(() => system.attempt("clock", () => system.tick())),
          Schedule.spaced(tickMs)
        )
      )
      yield* Effect.addFinalizer(() => system.stop)
      return system
    })

  static readonly layer = (options: Omit<SystemOptions, "nowMs" | "monotonicMs">): Layer.Layer<Actors> =>
    Layer.effect(Actors)(Actors.make(options))
}
