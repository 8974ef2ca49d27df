/** The storage contract, which lmdb.ts and memory.ts implement; one suite of laws (test/laws) runs over both.
 *  Guarantee: when `settled` is called without a fault, every write of that commit survives SIGKILL and power
 *  loss (durability "full"), and so does every commit accepted before it. Source: docs/architecture.md,
 *  "Storage". */
import { Data, Schema } from "effect"
import { Packr } from "msgpackr"
import { identityGuard } from "./identity-guard.ts"

/** A table key: strings and safe integers, ordered element by element (numbers before strings). At most 1,900
 *  bytes when packed. */
export type Key = ReadonlyArray<string | number>

/** The condition that a row must meet when a commit is accepted. `equals` compares the packed bytes. */
export type Condition = "absent" | "present" | { readonly equals: Uint8Array }

/** One write. A commit is a list of them: all or nothing, checked in order, each seeing those before it. */
export type Write =
  /** Appends events of one actor. `seq` is the sequence number of the first: the journal's last + 1, and 1
   *  for the very first event. */
  | {
      readonly _tag: "append"
      readonly kind: string
      readonly id: string
      readonly seq: number
      readonly events: ReadonlyArray<Uint8Array>
    }
  /** Stores the state after event `seq` and removes the events up to it. */
  | {
      readonly _tag: "snapshot"
      readonly kind: string
      readonly id: string
      readonly seq: number
      readonly state: Uint8Array
    }
  /** Removes an actor's journal, snapshot and expiry. */
  | { readonly _tag: "forget"; readonly kind: string; readonly id: string }
  | {
      readonly _tag: "put"
      readonly table: string
      readonly key: Key
      readonly value: Uint8Array
      readonly when?: Condition
    }
  | { readonly _tag: "delete"; readonly table: string; readonly key: Key; readonly when?: Condition }
  | { readonly _tag: "check"; readonly table: string; readonly key: Key; readonly when: Condition }
  /** Adds to an integer counter (absent = 0); refused when the sum would pass `max` or fall below 0. */
  | {
      readonly _tag: "add"
      readonly table: string
      readonly key: Key
      readonly amount: number
      readonly max?: number
    }
  /** Sets the one time at which an actor expires, or clears it with undefined; the expiry index is ordered by
   *  that time. */
  | { readonly _tag: "expire"; readonly kind: string; readonly id: string; readonly atMs: number | undefined }

/** Reports the condition that did not hold: the index of its write, and the reason. Nothing of the commit was
 *  written. */
export class Conflict extends Data.TaggedError("Conflict")<{
  readonly index: number
  readonly reason: "condition" | "sequence" | "limit"
}> {}

/** The disk or the operating system failed under the store. `full`: no space is left, nothing is corrupt, and
 *  writes may succeed again once there is room. */
export class StorageFault extends Data.TaggedError("StorageFault")<{
  readonly reason: "full" | "io" | "corrupt" | "newer-schema" | "wrong-key" | "locked" | "closed"
  readonly detail: string
}> {
  override get message(): string {
    return `storage (${this.reason}): ${this.detail}`
  }
}

export interface Row {
  readonly key: Key
  readonly value: Uint8Array
}

export interface Range {
  /** Limits the range to keys that begin with these elements. */
  readonly prefix?: Key
  /** Starts strictly after this whole key (before it when `reverse`), which is the cursor of the previous
   *  page. */
  readonly after?: Key
  readonly limit: number
  readonly reverse?: boolean
}

/** Stores bulk bytes by id. A blob is streamed to a temporary name, flushed, then renamed, so that a reader
 *  never sees half of it. */
export interface Blobs {
  /** Resolves with the size in bytes once durable. On failure or abort of `bytes` nothing remains. */
  write(id: string, bytes: AsyncIterable<Uint8Array>): Promise<number>
  /** Reads a blob in chunks of at most 64 KiB; returns undefined when there is no such blob. */
  read(id: string): AsyncIterable<Uint8Array> | undefined
  delete(id: string): Promise<void>
  ids(): Promise<ReadonlyArray<string>>
}

/** An actor and the time (epoch ms) at which it expires. */
export interface Expiring {
  readonly kind: string
  readonly id: string
  readonly atMs: number
}

export interface Integrity {
  readonly ok: boolean
  readonly entries: number
  readonly faults: ReadonlyArray<string>
}

/** What a backup holds. */
export interface BackupSummary {
  readonly entries: number
  readonly files: number
  readonly bytes: number
}

export interface Store {
  /** Accepts or refuses a commit at once: every condition is checked against the newest accepted state (on
   *  disk or still on its way there). When it refuses, it returns the Conflict, nothing has changed, and
   *  `settled` is never called. When it accepts, it returns undefined, reads see the writes from now on, and
   *  `settled` is called once, in order of acceptance: after the flush, or with the fault that lost the
   *  commit. The commits of one event-loop turn form one transaction; while it is flushed, the next one
   *  gathers. After a fault, every commit accepted since is lost too (each `settled` gets the fault), and
   *  reads return what is on disk. */
  commit(
    writes: ReadonlyArray<Write>,
    settled: (fault: StorageFault | undefined) => void
  ): Conflict | undefined
  /** Resolves when every commit accepted before this call has settled. */
  flushed(): Promise<void>

  /** Events with a sequence number above `after`, in order. */
  readJournal(
    kind: string,
    id: string,
    after: number
  ): ReadonlyArray<{ readonly seq: number; readonly event: Uint8Array }>
  readSnapshot(kind: string, id: string): { readonly seq: number; readonly state: Uint8Array } | undefined
  /** Ids of a kind that have a journal or snapshot, ordered, strictly after `after`. */
  ids(kind: string, after: string | undefined, limit: number): ReadonlyArray<string>
  get(table: string, key: Key): Uint8Array | undefined
  range(table: string, range: Range): ReadonlyArray<Row>
  /** Reads the counter that `add` changes; it is 0 when absent. */
  counter(table: string, key: Key): number
  /** Actors whose time of expiry is at or before `nowMs`, earliest first, strictly after `after`. */
  expired(nowMs: number, limit: number, after?: Expiring): ReadonlyArray<Expiring>

  readonly blobs: Blobs
  readonly durability: "full" | "relaxed"
  /** Returns the fault that writes meet now, while the disk is full; undefined while they are taken. */
  writeFault(): StorageFault | undefined
  /** Copies the data folder consistently, while writes continue, into an empty or absent folder (backup.ts).
   *  When it is aborted, nothing is left behind. */
  backup(folder: string, signal?: AbortSignal): Promise<BackupSummary>
  check(signal?: AbortSignal): Promise<Integrity>
  close(): Promise<void>
}

/** Commits and returns a promise, which rejects with Conflict or StorageFault. */
export const committed = (store: Store, writes: ReadonlyArray<Write>): Promise<void> =>
  new Promise((resolve, reject) => {
    const conflict = store.commit(writes, (fault) => (fault === undefined ? resolve() : reject(fault)))
    if (conflict !== undefined) reject(conflict)
  })

const packr = new Packr({ useRecords: false, mapsAsObjects: true })

/** Converts Schema values to bytes and back: MessagePack of `[version, encoded]`. A value of an older version
 *  passes through `upcast` before it is decoded. */
export interface Packing<A> {
  readonly pack: (value: A) => Uint8Array
  readonly unpack: (bytes: Uint8Array) => A
}

export const packing = <A>(
  schema: Schema.Codec<A, any>,
  version = 1,
  upcast?: (old: any, version: number) => unknown
): Packing<A> => {
  const encode = Schema.encodeSync(schema)
  const decode = Schema.decodeUnknownSync(schema)
  const isPlain = identityGuard(schema.ast) ?? (() => false)
  return {
    pack: (value) => packr.pack([version, isPlain(value) ? value : encode(value)]),
    unpack: (bytes) => {
      const [stored, encoded] = packr.unpack(bytes as Buffer) as [number, unknown]
      if (stored > version)
        throw new StorageFault({
          reason: "newer-schema",
          detail: `value of version ${stored}, this build knows ${version}`
        })
      const current = stored < version && upcast !== undefined ? upcast(encoded, stored) : encoded
      return isPlain(current) ? (current as A) : decode(current)
    }
  }
}

/** A table holds durable rows of one shape, without an actor. Reads take the store; writes are values for a
 *  commit or a decision. */
export interface Table<A> {
  readonly name: string
  get(store: Store, key: Key): A | undefined
  range(store: Store, range: Range): ReadonlyArray<{ readonly key: Key; readonly value: A }>
  put(key: Key, value: A, when?: Condition): Write
  delete(key: Key, when?: Condition): Write
  check(key: Key, when: Condition): Write
  /** Makes the condition that the row is still the one that was read: optimistic locking. */
  unchanged(value: A): Condition
}

export const table = <A>(
  name: string,
  schema: Schema.Codec<A, any>,
  version = 1,
  upcast?: (old: any, version: number) => unknown
): Table<A> => {
  const { pack, unpack } = packing(schema, version, upcast)
  return {
    name,
    get: (store, key) => {
      const bytes = store.get(name, key)
      return bytes === undefined ? undefined : unpack(bytes)
    },
    range: (store, range) =>
      store.range(name, range).map(({ key, value }) => ({ key, value: unpack(value) })),
    put: (key, value, when) => ({
      _tag: "put",
      table: name,
      key,
      value: pack(value),
      ...(when === undefined ? {} : { when })
    }),
    delete: (key, when) => ({ _tag: "delete", table: name, key, ...(when === undefined ? {} : { when }) }),
    check: (key, when) => ({ _tag: "check", table: name, key, when }),
    unchanged: (value) => ({ equals: pack(value) })
  }
}
