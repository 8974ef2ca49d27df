/** The real writer over the simulated disk, with the model listening at its door: which commit it accepts,
 *  refuses and settles. Reads fail where a step has made a record unreadable. */
import { storeOf, Writer } from "../../storage/writer.ts"
import { StorageFault, type Store } from "../../storage/store.ts"
import type { Disk } from "./disk.ts"
import type { Loop } from "./loop.ts"
import type { Model } from "./model.ts"

/** What steps have broken, until they mend it. */
export interface Breakage {
  readonly unreadable: Set<string>
  /** So many reads of the expiry index fail. */
  expiryFaults: number
}

const noFiles = {
  blobs: undefined as never,
  durability: "full" as const,
  writeFault: () => undefined,
  backup: async () => ({ entries: 0, files: 0, bytes: 0 }),
  check: async () => ({ ok: true, entries: 0, faults: [] }),
  close: async () => {}
}

export const observedStore = ({
  disk,
  loop,
  model,
  breakage,
  sweep
}: {
  readonly disk: Disk
  readonly loop: Loop
  readonly model: Model
  readonly breakage: Breakage
  readonly sweep: { readonly attempted: () => void; readonly succeeded: () => void }
}): Store => {
  const store = storeOf(new Writer(disk, loop.putOff), noFiles)
  const corrupt = (kind: string, id: string): void => {
    if (!breakage.unreadable.has(`${kind}/${id}`)) return
    model.count("record unreadable")
    const ledger = model.ledgers.get(`${kind}/${id}`)!
    ledger.crashes++
    // Somebody has tried to tell it: it fails, and may be evicted as failed before the next sweep.
    ledger.overdueSweeps = 0
    throw new StorageFault({ reason: "corrupt", detail: `${kind}/${id} cannot be decoded` })
  }
  return {
    ...store,
    commit: (writes, settled) => {
      const current = model.committing
      if (current === undefined) return store.commit(writes, settled)
      let record: ReturnType<Model["committed"]> | undefined
      const conflict = store.commit(writes, (fault) => {
        model.told(record!, fault)
        settled(fault)
      })
      if (conflict === undefined) record = model.committed(current, writes)
      else {
        model.count("condition refused")
        if (current.decision.otherwise === undefined || conflict.reason === "sequence")
          model.crashed(current.ledger)
      }
      return conflict
    },
    readSnapshot: (kind, id) => {
      corrupt(kind, id)
      return store.readSnapshot(kind, id)
    },
    readJournal: (kind, id, after) => {
      corrupt(kind, id)
      return store.readJournal(kind, id, after)
    },
    expired: (nowMs, limit, after) => {
      sweep.attempted()
      if (breakage.expiryFaults > 0) {
        breakage.expiryFaults--
        model.count("expiry index unreadable")
        throw new StorageFault({ reason: "io", detail: "the expiry index cannot be read" })
      }
      sweep.succeeded()
      return store.expired(nowMs, limit, after)
    }
  }
}
