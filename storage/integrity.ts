/** Checks that a store obeys the layout of keys.ts: every journal is without gaps and begins where its
 *  snapshot ends, every actor has an index entry, every expiry is in both tables, every blob is readable. */
import { keyMarkKey } from "./keys.ts"
import { decodeNumber, unpackSnapshot } from "./staged-commit.ts"
import type { Blobs, Integrity, Key, Row } from "./store.ts"
import { entriesPerTurn, turn } from "./turn.ts"

type EntryReader = (address: string, key: Key, value: Uint8Array) => void

class IntegrityCheck {
  readonly faults: Array<string> = []
  /** Counts what the store holds about its key: nobody's entry. */
  marks = 0
  private readonly listedActors = new Set<string>()
  private readonly expiries = new Map<string, number>()
  private readonly expiryIndex = new Map<string, number>()
  private readonly journals = new Map<string, { readonly first: number; last: number }>()
  private readonly snapshots = new Map<string, number>()

  /** Holds one reader per kind of entry, by the first element of its key. */
  private readonly readers = new Map<string, EntryReader>([
    ["j", (address, key) => this.readEvent(address, key[3] as number)],
    ["s", (address, _, value) => this.readSnapshot(address, value)],
    ["i", (address) => void this.listedActors.add(address)],
    ["e", (address, _, value) => void this.expiries.set(address, decodeNumber(value))],
    ["x", (_, key) => void this.expiryIndex.set(`${key[2]}/${key[3]}`, key[1] as number)],
    ["c", (_, key, value) => this.readCounter(key, value)],
    ["t", () => {}],
    ["m", (_, key) => void (this.marks += key[1] === keyMarkKey[1] ? 1 : 0)]
  ])

  read({ key, value }: Row): void {
    const [room, kind, id] = key
    const reader = this.readers.get(String(room))
    if (reader === undefined) this.faults.push(`unknown room ${String(room)}`)
    else reader(`${kind}/${id}`, key, value)
  }

  private readCounter(key: Key, value: Uint8Array): void {
    if (!Number.isSafeInteger(decodeNumber(value)))
      this.faults.push(`counter ${key.slice(1).join("/")} is no integer`)
  }

  private readEvent(address: string, seq: number): void {
    const run = this.journals.get(address)
    if (run === undefined) {
      this.journals.set(address, { first: seq, last: seq })
      return
    }
    if (seq !== run.last + 1) this.faults.push(`journal ${address}: event ${seq} follows ${run.last}`)
    run.last = seq
  }

  private readSnapshot(address: string, value: Uint8Array): void {
    try {
      this.snapshots.set(address, unpackSnapshot(value).seq)
    } catch {
      this.faults.push(`snapshot ${address} cannot be read`)
    }
  }

  /** Compares, after the last entry, what only all entries together can show. */
  compare(): void {
    for (const [address, { first }] of this.journals) {
      const covered = this.snapshots.get(address) ?? 0
      if (first !== covered + 1)
        this.faults.push(`journal ${address}: starts at ${first}, its snapshot covers ${covered}`)
    }
    for (const address of new Set([...this.journals.keys(), ...this.snapshots.keys()]))
      if (!this.listedActors.has(address)) this.faults.push(`${address} is kept but not listed`)
    for (const [address, atMs] of this.expiries)
      if (this.expiryIndex.get(address) !== atMs) this.faults.push(`expiry of ${address} is not in the index`)
    for (const [address, atMs] of this.expiryIndex)
      if (this.expiries.get(address) !== atMs) this.faults.push(`the expiry index names ${address} wrongly`)
  }

  async readBlobs(blobs: Blobs, signal: AbortSignal | undefined): Promise<void> {
    for (const id of await blobs.ids()) {
      signal?.throwIfAborted()
      try {
        for await (const _ of blobs.read(id) ?? []) {
          /* reading is the check */
        }
      } catch {
        this.faults.push(`blob ${id} cannot be read`)
      }
    }
  }
}

/** Walks entries that stay as they are while others have their turns. */
export const integrityOf = async (
  entries: Iterable<Row>,
  blobs: Blobs,
  signal?: AbortSignal
): Promise<Integrity> => {
  const check = new IntegrityCheck()
  let count = 0
  for (const entry of entries) {
    check.read(entry)
    if (++count % entriesPerTurn === 0) {
      await turn()
      signal?.throwIfAborted()
    }
  }
  check.compare()
  await check.readBlobs(blobs, signal)
  return { ok: check.faults.length === 0, entries: count - check.marks, faults: check.faults }
}
