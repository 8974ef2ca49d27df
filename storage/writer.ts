/** What every store shares: conditions checked at once against the newest accepted state, and group commit.
 *  This process is the only writer, so "newest accepted" is what is on disk, covered by the overlay of what
 *  is on its way there. Plain synchronous code: bench/durable-ask. */
import { Packr } from "msgpackr"
import {
  assertKey,
  compareKeys,
  counterKey,
  expiryIndexKey,
  expiryKey,
  journalKey,
  actorKey,
  mapKeyOf,
  rowKey,
  snapshotKey,
  startsWith
} from "./keys.ts"
import {
  Conflict,
  type Blobs,
  type Condition,
  type Integrity,
  type Key,
  type Range,
  type Row,
  type StorageFault,
  type Store,
  type Write
} from "./store.ts"

export interface Change {
  readonly key: Key
  readonly value: Uint8Array | undefined
}

/** An ordered map from keys to bytes, which applies a list of changes as one transaction. */
export interface Backend {
  get(key: Key): Uint8Array | undefined
  /** Entries below `prefix`, strictly after `after` in the direction of travel. */
  range(prefix: Key, after: Key | undefined, limit: number, reverse: boolean): ReadonlyArray<Row>
  /** Resolves when durable; rejects with a StorageFault, and then nothing was applied. */
  apply(changes: ReadonlyArray<Change>): Promise<void>
}

interface Overlaid extends Change {
  readonly name: string
}

type Overlay = Map<string, Overlaid>

interface Tail {
  readonly last: number
  readonly base: number
}

type Settled = (fault: StorageFault | undefined) => void

/** Actors whose journal's end is remembered, so that an append reads nothing. */
const tailsMax = 500_000

const packr = new Packr({ useRecords: false })
const text = new TextEncoder()

const numberOf = (bytes: Uint8Array | undefined): number =>
  bytes === undefined
    ? 0
    : Number(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1"))

const nothing = new Uint8Array(0)

export class Writer {
  private readonly backend: Backend

  /** What waits for the next transaction, and what the one under way carries: each is dropped whole, for a
   *  map that entries come and go in keeps them in its outgrown tables (bench/store-create). */
  private waiting: Overlay = new Map()

  private leaving: Overlay = new Map()
  private readonly tails = new Map<string, Tail>()
  private changes: Array<Overlaid> = []
  private settles: Array<Settled> = []
  private flushing: Promise<void> | undefined
  private scheduled = false

  /** For metrics. */
  commits = 0

  flushes = 0

  constructor(backend: Backend) {
    this.backend = backend
  }

  commit(writes: ReadonlyArray<Write>, settled: Settled): Conflict | undefined {
    let staged: Map<string, Uint8Array | undefined> | undefined
    const changes: Array<Overlaid> = []
    const tails: Array<readonly [string, Tail | undefined]> = []
    const stage = (key: Key, value: Uint8Array | undefined): void => {
      const name = mapKeyOf(key)
      if (writes.length > 1) (staged ??= new Map()).set(name, value)
      changes.push({ key, value, name })
    }
    const change = (key: Key, value: Uint8Array | undefined): void => {
      changes.push({ key, value, name: mapKeyOf(key) })
    }
    const read = (key: Key): Uint8Array | undefined => {
      const name = mapKeyOf(key)
      return staged?.has(name) === true ? staged.get(name) : this.look(name, key)
    }
    const holds = (key: Key, when: Condition | undefined): boolean => {
      if (when === undefined) return true
      const bytes = read(key)
      return when === "absent"
        ? bytes === undefined
        : when === "present"
          ? bytes !== undefined
          : bytes !== undefined && Buffer.compare(bytes, when.equals) === 0
    }
    const undo = (index: number, reason: Conflict["reason"]): Conflict => {
      for (const [address, tail] of tails.toReversed())
        if (tail === undefined) this.tails.delete(address)
        else this.tails.set(address, tail)
      return new Conflict({ index, reason })
    }
    const setTail = (address: string, tail: Tail | undefined): void => {
      tails.push([address, this.tails.get(address)])
      if (tail === undefined) this.tails.delete(address)
      else this.tails.set(address, tail)
    }
    for (let index = 0; index < writes.length; index++) {
      const write = writes[index]!
      switch (write.op) {
        case "append": {
          const address = `${write.kind}\0${write.id}`
          const tail = this.tailOf(address, write.kind, write.id)
          if (write.seq !== tail.last + 1) return undo(index, "sequence")
          if (tail.last === 0) {
            assertKey([write.kind, write.id])
            stage(actorKey(write.kind, write.id), nothing)
          }
          for (let i = 0; i < write.events.length; i++)
            change(journalKey(write.kind, write.id, write.seq + i), write.events[i])
          setTail(address, { last: tail.last + write.events.length, base: tail.base })
          break
        }
        case "snapshot": {
          const address = `${write.kind}\0${write.id}`
          const tail = this.tailOf(address, write.kind, write.id)
          if (write.seq < tail.base) return undo(index, "sequence")
          if (tail.last === 0) {
            assertKey([write.kind, write.id])
            stage(actorKey(write.kind, write.id), nothing)
          }
          for (let seq = tail.base + 1; seq <= Math.min(write.seq, tail.last); seq++)
            change(journalKey(write.kind, write.id, seq), undefined)
          stage(snapshotKey(write.kind, write.id), packr.pack([write.seq, write.state]))
          setTail(address, { last: Math.max(write.seq, tail.last), base: write.seq })
          break
        }
        case "forget": {
          const address = `${write.kind}\0${write.id}`
          const tail = this.tailOf(address, write.kind, write.id)
          for (let seq = tail.base + 1; seq <= tail.last; seq++)
            change(journalKey(write.kind, write.id, seq), undefined)
          for (const key of [snapshotKey(write.kind, write.id), actorKey(write.kind, write.id)])
            stage(key, undefined)
          this.stageExpiry(write.kind, write.id, undefined, read, stage)
          setTail(address, { last: 0, base: 0 })
          break
        }
        case "put":
        case "delete":
        case "check": {
          const key = rowKey(write.table, write.key)
          assertKey(key)
          if (!holds(key, write.when)) return undo(index, "condition")
          if (write.op !== "check") stage(key, write.op === "put" ? write.value : undefined)
          break
        }
        case "add": {
          const key = counterKey(write.table, write.key)
          assertKey(key)
          const sum = numberOf(read(key)) + write.amount
          if (sum < 0 || (write.max !== undefined && sum > write.max)) return undo(index, "limit")
          stage(key, text.encode(String(sum)))
          break
        }
        case "expire":
          this.stageExpiry(write.kind, write.id, write.atMs, read, stage)
      }
    }
    for (const overlaid of changes) this.waiting.set(overlaid.name, overlaid)
    if (this.changes.length === 0) this.changes = changes
    else for (const overlaid of changes) this.changes.push(overlaid)
    this.settles.push(settled)
    this.commits++
    this.schedule()
    return undefined
  }

  private stageExpiry(
    kind: string,
    id: string,
    atMs: number | undefined,
    read: (key: Key) => Uint8Array | undefined,
    stage: (key: Key, value: Uint8Array | undefined) => void
  ): void {
    const before = read(expiryKey(kind, id))
    if (before !== undefined) stage(expiryIndexKey(numberOf(before), kind, id), undefined)
    if (atMs === undefined) {
      if (before !== undefined) stage(expiryKey(kind, id), undefined)
      return
    }
    stage(expiryKey(kind, id), text.encode(String(atMs)))
    stage(expiryIndexKey(atMs, kind, id), nothing)
  }

  private tailOf(address: string, kind: string, id: string): Tail {
    const known = this.tails.get(address)
    if (known !== undefined) return known
    if (this.tails.size >= tailsMax) this.tails.clear()
    const base = this.readSnapshot(kind, id)?.seq ?? 0
    const tail = {
      base,
      last: (this.range(["j", kind, id], undefined, 1, true)[0]?.key[3] as number | undefined) ?? base
    }
    this.tails.set(address, tail)
    return tail
  }

  /** At the end of this event-loop turn, or when the flush under way is through: whichever is later. */
  private schedule(): void {
    if (this.scheduled || this.flushing !== undefined) return
    this.scheduled = true
    setImmediate(() => {
      this.scheduled = false
      this.flush()
    })
  }

  private flush(): void {
    if (this.settles.length === 0 || this.flushing !== undefined) return
    const { changes, settles } = this
    this.changes = []
    this.settles = []
    this.leaving = this.waiting
    this.waiting = new Map()
    this.flushes++
    this.flushing = this.backend.apply(changes).then(
      () => {
        this.leaving = new Map()
        this.flushing = undefined
        for (const settled of settles) settled(undefined)
        this.flush()
      },
      (fault: StorageFault) => {
        const lost = [...settles, ...this.settles]
        this.waiting = new Map()
        this.leaving = new Map()
        this.tails.clear()
        this.changes = []
        this.settles = []
        this.flushing = undefined
        for (const settled of lost) settled(fault)
        this.flush()
      }
    )
  }

  /** Everything accepted before this call has settled; what comes meanwhile is not waited for. */
  flushed(): Promise<void> {
    if (this.flushing === undefined && this.settles.length === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.settles.push(() => resolve())
      this.schedule()
    })
  }

  private look(name: string, key: Key): Uint8Array | undefined {
    const overlaid = this.waiting.get(name) ?? this.leaving.get(name)
    return overlaid !== undefined ? overlaid.value : this.backend.get(key)
  }

  get(key: Key): Uint8Array | undefined {
    return this.look(mapKeyOf(key), key)
  }

  range(prefix: Key, after: Key | undefined, limit: number, reverse = false): ReadonlyArray<Row> {
    const order = reverse ? (a: Key, b: Key) => compareKeys(b, a) : compareKeys
    const { waiting, leaving } = this
    const over =
      waiting.size + leaving.size === 0
        ? []
        : [...waiting.values(), ...[...leaving.values()].filter(({ name }) => !waiting.has(name))].filter(
            ({ key }) =>
              startsWith(key, prefix) &&
              key.length > prefix.length &&
              (after === undefined || order(key, after) > 0)
          )
    const under = this.backend.range(prefix, after, limit + over.length, reverse)
    if (over.length === 0) return under
    const covered = new Set(over.map(({ key }) => mapKeyOf(key)))
    const rows: Array<Row> = under.filter(({ key }) => !covered.has(mapKeyOf(key)))
    for (const { key, value } of over) if (value !== undefined) rows.push({ key, value })
    return rows.sort((a, b) => order(a.key, b.key)).slice(0, limit)
  }

  readSnapshot(kind: string, id: string): { readonly seq: number; readonly state: Uint8Array } | undefined {
    const bytes = this.get(snapshotKey(kind, id))
    if (bytes === undefined) return undefined
    const [seq, state] = packr.unpack(bytes as Buffer) as [number, Uint8Array]
    return { seq, state }
  }
}

/** The whole contract over a backend; what is left to the caller is what needs its files. */
export const storeOf = (
  writer: Writer,
  rest: Pick<Store, "blobs" | "durability" | "backup" | "check" | "close">
): Store => ({
  ...rest,
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
  counter: (table, key) => numberOf(writer.get(counterKey(table, key))),
  expired: (nowMs, limit) => {
    const due: Array<{ readonly kind: string; readonly id: string; readonly atMs: number }> = []
    for (const { key } of writer.range(["x"], undefined, limit)) {
      if ((key[1] as number) > nowMs) break
      due.push({ atMs: key[1] as number, kind: key[2] as string, id: key[3] as string })
    }
    return due
  }
})

/** Every rule that the layout of keys.ts promises, over all entries. */
export const integrityOf = async (entries: Iterable<Row>, blobs: Blobs): Promise<Integrity> => {
  const faults: Array<string> = []
  const kept = new Set<string>()
  const expiries = new Map<string, number>()
  const index = new Map<string, number>()
  const journals = new Map<string, { first: number; last: number }>()
  const snapshots = new Map<string, number>()
  let count = 0
  for (const { key, value } of entries) {
    count++
    const [room, kind, id] = key as [string, string, string]
    const address = `${kind}/${id}`
    if (room === "j") {
      const seq = key[3] as number
      const run = journals.get(address)
      if (run === undefined) journals.set(address, { first: seq, last: seq })
      else if (seq === run.last + 1) run.last = seq
      else {
        faults.push(`journal ${address}: event ${seq} follows ${run.last}`)
        run.last = seq
      }
    } else if (room === "s") {
      try {
        snapshots.set(address, (packr.unpack(value as Buffer) as [number, Uint8Array])[0])
      } catch {
        faults.push(`snapshot ${address} cannot be read`)
      }
    } else if (room === "i") kept.add(address)
    else if (room === "e") expiries.set(address, numberOf(value))
    else if (room === "x") index.set(`${key[2]}/${key[3]}`, key[1] as number)
    else if (room === "c") {
      if (!Number.isSafeInteger(numberOf(value)))
        faults.push(`counter ${key.slice(1).join("/")} is no integer`)
    } else if (room !== "t" && room !== "m") faults.push(`unknown room ${String(room)}`)
  }
  for (const [address, { first }] of journals) {
    if (first !== (snapshots.get(address) ?? 0) + 1)
      faults.push(
        `journal ${address}: starts at ${first}, its snapshot covers ${snapshots.get(address) ?? 0}`
      )
  }
  for (const address of new Set([...journals.keys(), ...snapshots.keys()]))
    if (!kept.has(address)) faults.push(`${address} is kept but not listed`)
  for (const [address, atMs] of expiries)
    if (index.get(address) !== atMs) faults.push(`expiry of ${address} is not in the index`)
  for (const [address, atMs] of index)
    if (expiries.get(address) !== atMs) faults.push(`the expiry index names ${address} wrongly`)
  for (const id of await blobs.ids()) {
    try {
      for await (const _ of blobs.read(id) ?? []) {
        /* reading is the check */
      }
    } catch {
      faults.push(`blob ${id} cannot be read`)
    }
  }
  return { ok: faults.length === 0, entries: count, faults }
}
