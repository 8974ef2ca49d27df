/** A staged commit is one commit while it is checked: its writes are tried in order, each seeing those before
 *  it, against the newest accepted state. Guarantee: either every write is staged, or `undo` leaves the
 *  accepted state as it was. It is plain synchronous code, one object and no closures (bench/durable-ask).
 *  Source: docs/architecture.md, "Storage". */
import { Packr } from "msgpackr"
import {
  actorKey,
  assertKey,
  counterKey,
  expiryIndexKey,
  expiryKey,
  journalKey,
  mapKeyOf,
  rowKey,
  snapshotKey
} from "./keys.ts"
import type { Condition, Conflict, Key, Write } from "./store.ts"

export interface Change {
  readonly key: Key
  readonly value: Uint8Array | undefined
}

/** A change on its way to disk, with its key as one string for the overlay's map. */
export interface OverlaidChange extends Change {
  readonly name: string
}

/** Says where an actor's journal ends (`last`), and which sequence number its snapshot covers (`base`). */
export interface JournalTail {
  readonly last: number
  readonly base: number
}

/** The newest accepted state, which a commit is checked against. */
export interface AcceptedState {
  readonly tails: Map<string, JournalTail>
  readNamed(name: string, key: Key): Uint8Array | undefined
  tailOf(address: string, kind: string, id: string): JournalTail
}

type WriteOf<Tag extends Write["_tag"]> = Extract<Write, { readonly _tag: Tag }>

/** The reason why a write was refused; undefined when it was staged. */
type Refusal = Conflict["reason"] | undefined

const packr = new Packr({ useRecords: false })
const text = new TextEncoder()
const emptyValue = new Uint8Array(0)
const noTail: JournalTail = { last: 0, base: 0 }

export const packSnapshot = (seq: number, state: Uint8Array): Uint8Array => packr.pack([seq, state])

export const unpackSnapshot = (bytes: Uint8Array): { readonly seq: number; readonly state: Uint8Array } => {
  const [seq, state] = packr.unpack(bytes as Buffer) as [number, Uint8Array]
  return { seq, state }
}

const encodeNumber = (value: number): Uint8Array => text.encode(String(value))

/** Decodes a counter or a time, which are stored as decimal text; an absent one counts as 0. */
export const decodeNumber = (bytes: Uint8Array | undefined): number =>
  bytes === undefined
    ? 0
    : Number(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1"))

export class StagedCommit {
  readonly changes: Array<OverlaidChange> = []
  private readonly accepted: AcceptedState
  private readonly hasSeveralWrites: boolean

  /** Holds what this commit has staged so far, because its later writes must see it. */
  private own: Map<string, Uint8Array | undefined> | undefined

  /** Remembers each journal tail as it was before this commit changed it, in order of change. */
  private readonly tailsBefore: Array<readonly [address: string, tail: JournalTail | undefined]> = []

  constructor(accepted: AcceptedState, hasSeveralWrites: boolean) {
    this.accepted = accepted
    this.hasSeveralWrites = hasSeveralWrites
  }

  stage(write: Write): Refusal {
    switch (write._tag) {
      case "append":
        return this.append(write)
      case "snapshot":
        return this.snapshot(write)
      case "forget":
        return this.forget(write)
      case "put":
      case "delete":
      case "check":
        return this.changeRow(write)
      case "add":
        return this.add(write)
      case "expire":
        this.expire(write.kind, write.id, write.atMs)
    }
    return undefined
  }

  /** Restores the remembered tails. Nothing else of the accepted state was changed. */
  undo(): void {
    for (const [address, tail] of this.tailsBefore.toReversed()) this.putTail(address, tail)
  }

  private append({ kind, id, seq, events }: WriteOf<"append">): Refusal {
    const address = addressOf(kind, id)
    const tail = this.accepted.tailOf(address, kind, id)
    if (seq !== tail.last + 1) return "sequence"

    if (tail.last === 0) this.listActor(kind, id)
    for (let i = 0; i < events.length; i++) this.push(journalKey(kind, id, seq + i), events[i])
    this.setTail(address, { last: tail.last + events.length, base: tail.base })
    return undefined
  }

  private snapshot({ kind, id, seq, state }: WriteOf<"snapshot">): Refusal {
    const address = addressOf(kind, id)
    const tail = this.accepted.tailOf(address, kind, id)
    if (seq < tail.base) return "sequence"

    if (tail.last === 0) this.listActor(kind, id)
    this.truncateJournal(kind, id, tail.base + 1, Math.min(seq, tail.last))
    this.put(snapshotKey(kind, id), packSnapshot(seq, state))
    this.setTail(address, { last: Math.max(seq, tail.last), base: seq })
    return undefined
  }

  private forget({ kind, id }: WriteOf<"forget">): Refusal {
    const address = addressOf(kind, id)
    const tail = this.accepted.tailOf(address, kind, id)
    this.truncateJournal(kind, id, tail.base + 1, tail.last)
    this.put(snapshotKey(kind, id), undefined)
    this.put(actorKey(kind, id), undefined)
    this.expire(kind, id, undefined)
    this.setTail(address, noTail)
    return undefined
  }

  private changeRow(write: WriteOf<"put" | "delete" | "check">): Refusal {
    const key = rowKey(write.table, write.key)
    assertKey(key)
    if (write.when !== undefined && !conditionHolds(this.read(key), write.when)) return "condition"

    if (write._tag === "put") this.put(key, write.value)
    else if (write._tag === "delete") this.put(key, undefined)
    return undefined
  }

  private add({ table, key: counter, amount, max }: WriteOf<"add">): Refusal {
    const key = counterKey(table, counter)
    assertKey(key)
    const sum = decodeNumber(this.read(key)) + amount
    if (sum < 0 || (max !== undefined && sum > max)) return "limit"

    this.put(key, encodeNumber(sum))
    return undefined
  }

  private expire(kind: string, id: string, atMs: number | undefined): void {
    const before = this.read(expiryKey(kind, id))
    if (before !== undefined) this.put(expiryIndexKey(decodeNumber(before), kind, id), undefined)
    if (atMs === undefined) {
      if (before !== undefined) this.put(expiryKey(kind, id), undefined)
      return
    }
    this.put(expiryKey(kind, id), encodeNumber(atMs))
    this.put(expiryIndexKey(atMs, kind, id), emptyValue)
  }

  private listActor(kind: string, id: string): void {
    assertKey([kind, id])
    this.put(actorKey(kind, id), emptyValue)
  }

  private truncateJournal(kind: string, id: string, first: number, last: number): void {
    for (let seq = first; seq <= last; seq++) this.push(journalKey(kind, id, seq), undefined)
  }

  private read(key: Key): Uint8Array | undefined {
    const name = mapKeyOf(key)
    return this.own?.has(name) === true ? this.own.get(name) : this.accepted.readNamed(name, key)
  }

  /** Stages a change that a later write of this commit may read. */
  private put(key: Key, value: Uint8Array | undefined): void {
    const name = mapKeyOf(key)
    if (this.hasSeveralWrites) (this.own ??= new Map()).set(name, value)
    this.changes.push({ key, value, name })
  }

  /** Stages a change that no write of this commit reads: a journal entry. */
  private push(key: Key, value: Uint8Array | undefined): void {
    this.changes.push({ key, value, name: mapKeyOf(key) })
  }

  private setTail(address: string, tail: JournalTail): void {
    this.tailsBefore.push([address, this.accepted.tails.get(address)])
    this.putTail(address, tail)
  }

  private putTail(address: string, tail: JournalTail | undefined): void {
    if (tail === undefined) this.accepted.tails.delete(address)
    else this.accepted.tails.set(address, tail)
  }
}

const addressOf = (kind: string, id: string): string => `${kind}\0${id}`

const conditionHolds = (bytes: Uint8Array | undefined, when: Condition): boolean => {
  if (when === "absent") return bytes === undefined
  if (when === "present") return bytes !== undefined
  return bytes !== undefined && Buffer.compare(bytes, when.equals) === 0
}
