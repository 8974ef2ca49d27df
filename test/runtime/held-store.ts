/** A store for kernel tests whose flushes happen when the test says so, and fail when it says so. */
import { Conflict, StorageFault, type Expiring, type Store, type Write } from "../../storage/store.ts"

interface Content {
  rows: Map<string, Uint8Array>
  journal: Map<string, Array<Uint8Array>>
  base: Map<string, number>
  snapshots: Map<string, { seq: number; state: Uint8Array }>
  expiry: Map<string, number>
}

const empty = (): Content => ({
  rows: new Map(),
  journal: new Map(),
  base: new Map(),
  snapshots: new Map(),
  expiry: new Map()
})

const copy = (c: Content): Content => ({
  rows: new Map(c.rows),
  journal: new Map([...c.journal].map(([k, v]) => [k, [...v]])),
  base: new Map(c.base),
  snapshots: new Map(c.snapshots),
  expiry: new Map(c.expiry)
})

const compare = (a: Expiring, b: Expiring): number =>
  a.atMs - b.atMs || Buffer.compare(Buffer.from(a.kind + a.id), Buffer.from(b.kind + b.id))

export class HeldStore {
  private disk = empty()
  private seen = empty()
  private waiting: Array<{ settled: (fault: StorageFault | undefined) => void; after: Content }> = []

  /** Settle each commit at once, as soon as the present turn is over. */
  auto = true

  commits = 0

  /** Everything accepted becomes durable. */
  flush(count = this.waiting.length): void {
    for (const { settled, after } of this.waiting.splice(0, count)) {
      this.disk = after
      settled(undefined)
    }
  }

  /** Everything accepted and not flushed is lost. */
  fail(): void {
    this.seen = copy(this.disk)
    const fault = new StorageFault({ reason: "io", detail: "as the test wished" })
    for (const { settled } of this.waiting.splice(0)) settled(fault)
  }

  get pending(): number {
    return this.waiting.length
  }

  private apply(to: Content, write: Write, index: number): Conflict | undefined {
    const key = "id" in write ? `${write.kind}/${write.id}` : `${write.table}|${write.key.join("|")}`
    if (write._tag === "append") {
      const events = to.journal.get(key) ?? []
      const last = (to.base.get(key) ?? 0) + events.length
      if (write.seq !== last + 1) return new Conflict({ index, reason: "sequence" })
      to.journal.set(key, [...events, ...write.events])
    } else if (write._tag === "snapshot") {
      to.snapshots.set(key, { seq: write.seq, state: write.state })
      const events = to.journal.get(key) ?? []
      const base = to.base.get(key) ?? 0
      to.journal.set(key, events.slice(write.seq - base))
      to.base.set(key, write.seq)
    } else if (write._tag === "forget") {
      for (const part of [to.journal, to.snapshots, to.base, to.expiry]) part.delete(key)
    } else if (write._tag === "expire") {
      if (write.atMs === undefined) to.expiry.delete(key)
      else to.expiry.set(key, write.atMs)
    } else if (write._tag === "put" || write._tag === "check" || write._tag === "delete") {
      if (write.when === "absent" && to.rows.has(key)) return new Conflict({ index, reason: "condition" })
      if (write.when === "present" && !to.rows.has(key)) return new Conflict({ index, reason: "condition" })
      if (write._tag === "put") to.rows.set(key, write.value)
      if (write._tag === "delete") to.rows.delete(key)
    }
    return undefined
  }

  readonly store: Store = {
    commit: (writes, settled) => {
      const next = copy(this.seen)
      for (const [index, write] of writes.entries()) {
        const conflict = this.apply(next, write, index)
        if (conflict !== undefined) return conflict
      }
      this.seen = next
      this.commits++
      this.waiting.push({ settled, after: next })
      if (this.auto) queueMicrotask(() => this.flush())
      return undefined
    },
    flushed: async () => this.flush(),
    readJournal: (kind, id, after) => {
      const key = `${kind}/${id}`
      const base = this.seen.base.get(key) ?? 0
      return (this.seen.journal.get(key) ?? [])
        .map((event, i) => ({ seq: base + i + 1, event }))
        .filter(({ seq }) => seq > after)
    },
    readSnapshot: (kind, id) => this.seen.snapshots.get(`${kind}/${id}`),
    ids: (kind, after) =>
      [...new Set([...this.seen.journal.keys(), ...this.seen.snapshots.keys()])]
        .filter((key) => key.startsWith(`${kind}/`))
        .map((key) => key.slice(kind.length + 1))
        .sort()
        .filter((id) => after === undefined || id > after),
    get: (table, key) => this.seen.rows.get(`${table}|${key.join("|")}`),
    range: () => [],
    counter: () => 0,
    expired: (nowMs, limit, after) =>
      [...this.seen.expiry]
        .map(([key, atMs]) => {
          const [kind, id] = key.split("/") as [string, string]
          return { kind, id, atMs }
        })
        .filter((entry) => entry.atMs <= nowMs && (after === undefined || compare(entry, after) > 0))
        .sort(compare)
        .slice(0, limit),
    blobs: undefined as never,
    durability: "full",
    writeFault: () => undefined,
    backup: async () => ({ entries: 0, files: 0, bytes: 0 }),
    check: async () => ({ ok: true, entries: 0, faults: [] }),
    close: async () => {}
  }
}
