/** The writer is what both stores share: conditions checked at once against the newest accepted state, and
 *  group commit. This process is the only writer, so the newest accepted state is what is on disk, covered by
 *  the overlay of writes on their way there. It is plain synchronous code (bench/durable-ask). Source:
 *  docs/architecture.md, "Storage". */
import {
  actorKey,
  compareKeys,
  counterKey,
  expiryIndexKey,
  mapKeyOf,
  rowKey,
  snapshotKey,
  startsWith
} from "./keys.ts"
import {
  decodeNumber,
  StagedCommit,
  unpackSnapshot,
  type AcceptedState,
  type Change,
  type JournalTail,
  type OverlaidChange
} from "./staged-commit.ts"
import {
  Conflict,
  type Expiring,
  type Key,
  type Range,
  type Row,
  type StorageFault,
  type Store,
  type Write
} from "./store.ts"

export type { Change }

/** An ordered map from keys to bytes, which applies a list of changes as one transaction. */
export interface Backend {
  get(key: Key): Uint8Array | undefined
  /** Returns the entries below `prefix`, strictly after `after` in the direction of travel. */
  range(prefix: Key, after: Key | undefined, limit: number, reverse: boolean): ReadonlyArray<Row>
  /** Resolves when durable; rejects with a StorageFault, and then nothing was applied. */
  apply(changes: ReadonlyArray<Change>): Promise<void>
}

type Overlay = Map<string, OverlaidChange>
type Settled = (fault: StorageFault | undefined) => void

/** Limits how many journal tails are remembered; a remembered tail saves an append its read. */
const tailsMax = 500_000

export class Writer implements AcceptedState {
  private readonly backend: Backend

  /** Two overlays: this one collects the next transaction, `leaving` holds the one being written. Each is
   *  dropped as a whole, because a map whose entries come and go retains them in its outgrown tables
   *  (bench/store-create). */
  private waiting: Overlay = new Map()

  private leaving: Overlay = new Map()
  readonly tails = new Map<string, JournalTail>()
  private changes: Array<OverlaidChange> = []
  private settledCallbacks: Array<Settled> = []
  private flushing: Promise<void> | undefined
  private scheduled = false

  /** Metrics count the commits accepted and the transactions written so far. */
  commits = 0

  flushes = 0

  /** Puts a flush off to a later turn of the event loop; the simulation supplies its own. */
  private readonly later: (work: () => void) => void

  constructor(backend: Backend, later: (work: () => void) => void = setImmediate) {
    this.backend = backend
    this.later = later
  }

  commit(writes: ReadonlyArray<Write>, settled: Settled): Conflict | undefined {
    const commit = new StagedCommit(this, writes.length > 1)
    for (let index = 0; index < writes.length; index++) {
      const reason = this.tryStage(commit, writes[index]!)
      if (reason !== undefined) {
        commit.undo()
        return new Conflict({ index, reason })
      }
    }

    const { changes } = commit
    for (const change of changes) this.waiting.set(change.name, change)
    if (this.changes.length === 0) this.changes = changes
    else for (const change of changes) this.changes.push(change)
    this.settledCallbacks.push(settled)
    this.commits++
    this.schedule()
    return undefined
  }

  /** Stages a write; nothing stays of the commit when it throws, because a key is too long for example. */
  private tryStage(commit: StagedCommit, write: Write): Conflict["reason"] | undefined {
    try {
      return commit.stage(write)
    } catch (defect) {
      commit.undo()
      throw defect
    }
  }

  tailOf(address: string, kind: string, id: string): JournalTail {
    const cached = this.tails.get(address)
    if (cached !== undefined) return cached

    if (this.tails.size >= tailsMax) this.tails.clear()
    const base = this.readSnapshot(kind, id)?.seq ?? 0
    const newest = this.range(["j", kind, id], undefined, 1, true)[0]
    const tail = { base, last: (newest?.key[3] as number | undefined) ?? base }
    this.tails.set(address, tail)
    return tail
  }

  /** Schedules the next transaction at the end of this event-loop turn, or when the current flush has ended,
   *  whichever is later. */
  private schedule(): void {
    if (this.scheduled || this.flushing !== undefined) return
    this.scheduled = true
    this.later(() => {
      this.scheduled = false
      this.flush()
    })
  }

  private flush(): void {
    if (this.settledCallbacks.length === 0 || this.flushing !== undefined) return
    const { changes, settledCallbacks } = this
    this.changes = []
    this.settledCallbacks = []
    this.leaving = this.waiting
    this.waiting = new Map()
    this.flushes++
    this.flushing = this.backend.apply(changes).then(
      () => {
        this.leaving = new Map()
        this.flushing = undefined
        for (const settled of settledCallbacks) tell(settled, undefined)
        this.flush()
      },
      (fault: StorageFault) => {
        const lost = [...settledCallbacks, ...this.settledCallbacks]
        this.waiting = new Map()
        this.leaving = new Map()
        this.tails.clear()
        this.changes = []
        this.settledCallbacks = []
        this.flushing = undefined
        for (const settled of lost) tell(settled, fault)
        this.flush()
      }
    )
  }

  /** Resolves when everything accepted before this call has settled; it does not wait for later commits. */
  flushed(): Promise<void> {
    if (this.flushing === undefined && this.settledCallbacks.length === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.settledCallbacks.push(() => resolve())
      this.schedule()
    })
  }

  readNamed(name: string, key: Key): Uint8Array | undefined {
    const overlaid = this.waiting.get(name) ?? this.leaving.get(name)
    return overlaid !== undefined ? overlaid.value : this.backend.get(key)
  }

  get(key: Key): Uint8Array | undefined {
    return this.readNamed(mapKeyOf(key), key)
  }

  range(prefix: Key, after: Key | undefined, limit: number, reverse = false): ReadonlyArray<Row> {
    const order = reverse ? (a: Key, b: Key) => compareKeys(b, a) : compareKeys
    const overlaid = this.overlaidChanges().filter(
      ({ key }) =>
        startsWith(key, prefix) &&
        key.length > prefix.length &&
        (after === undefined || order(key, after) > 0)
    )
    const stored = this.backend.range(prefix, after, limit + overlaid.length, reverse)
    if (overlaid.length === 0) return stored

    const covered = new Set(overlaid.map(({ key }) => mapKeyOf(key)))
    const rows: Array<Row> = stored.filter(({ key }) => !covered.has(mapKeyOf(key)))
    for (const { key, value } of overlaid) if (value !== undefined) rows.push({ key, value })
    return rows.sort((a, b) => order(a.key, b.key)).slice(0, limit)
  }

  /** Returns the changes on their way to disk: each key once, with its newest value. */
  private overlaidChanges(): ReadonlyArray<OverlaidChange> {
    const { waiting, leaving } = this
    if (waiting.size + leaving.size === 0) return []
    const uncovered = [...leaving.values()].filter(({ name }) => !waiting.has(name))
    return [...waiting.values(), ...uncovered]
  }

  readSnapshot(kind: string, id: string): { readonly seq: number; readonly state: Uint8Array } | undefined {
    const bytes = this.get(snapshotKey(kind, id))
    return bytes === undefined ? undefined : unpackSnapshot(bytes)
  }
}

/** Calls back. One that throws is a bug of its owner, and must not keep the others from hearing. */
const tell = (settled: Settled, fault: StorageFault | undefined): void => {
  try {
    settled(fault)
  } catch (defect) {
    process.emitWarning(`a commit's callback threw: ${String(defect)}`)
  }
}

/** Makes a complete store of a writer. The caller supplies the operations that need its files. */
export const storeOf = (
  writer: Writer,
  files: Pick<Store, "blobs" | "durability" | "writeFault" | "backup" | "check" | "close">
): Store => ({
  ...files,
  commit: (writes, settled) => writer.commit(writes, settled),
  flushed: () => writer.flushed(),
  readJournal: (kind, id, after) =>
    writer
      .range(["j", kind, id], ["j", kind, id, after], Infinity)
      .map(({ key, value }) => ({ seq: key[3] as number, event: value })),
  readSnapshot: (kind, id) => writer.readSnapshot(kind, id),
  ids: (kind, after, limit) =>
    writer
      .range(["i", kind], after === undefined ? undefined : actorKey(kind, after), limit)
      .map(({ key }) => key[2] as string),
  get: (table, key) => writer.get(rowKey(table, key)),
  range: (table, { prefix = [], after, limit, reverse = false }: Range) =>
    writer
      .range(rowKey(table, prefix), after === undefined ? undefined : rowKey(table, after), limit, reverse)
      .map(({ key, value }) => ({ key: key.slice(2), value })),
  counter: (table, key) => decodeNumber(writer.get(counterKey(table, key))),
  expired: (nowMs, limit, after) => {
    const due: Array<Expiring> = []
    const cursor = after === undefined ? undefined : expiryIndexKey(after.atMs, after.kind, after.id)
    for (const { key } of writer.range(["x"], cursor, limit)) {
      if ((key[1] as number) > nowMs) break
      due.push({ atMs: key[1] as number, kind: key[2] as string, id: key[3] as string })
    }
    return due
  }
})
