/** The disk of a simulation: an ordered map that outlives the process. A transaction is written when a step
 *  says so, refused when a step says so, and on its way when the process dies. */
import { compareKeys, mapKeyOf, startsWith } from "../../storage/keys.ts"
import { StorageFault, type Key, type Row } from "../../storage/store.ts"
import type { Backend, Change } from "../../storage/writer.ts"

interface Transaction {
  readonly changes: ReadonlyArray<Change>
  readonly onWritten: () => void
  readonly onFault: (fault: StorageFault) => void
}

/** What the disk reports to the model, before the program hears of it. */
export interface DiskObserver {
  readonly leaving: () => void
  readonly written: (changes: ReadonlyArray<Change>) => void
  readonly lost: () => void
}

const byKey = (a: Row, b: Row): number => compareKeys(a.key, b.key)

export class Disk implements Backend {
  private readonly rows = new Map<string, Row>()
  private transaction: Transaction | undefined
  private readonly observer: DiskObserver

  constructor(observer: DiskObserver) {
    this.observer = observer
  }

  get(key: Key): Uint8Array | undefined {
    return this.rows.get(mapKeyOf(key))?.value
  }

  range(prefix: Key, after: Key | undefined, limit: number, reverse: boolean): ReadonlyArray<Row> {
    const order = reverse ? (a: Row, b: Row) => compareKeys(b.key, a.key) : byKey
    const rows: Array<Row> = []
    for (const row of this.rows.values())
      if (row.key[0] === prefix[0] && row.key.length > prefix.length && startsWith(row.key, prefix))
        if (after === undefined || order(row, { key: after, value: row.value }) > 0) rows.push(row)
    return rows.sort(order).slice(0, limit)
  }

  /** Is pending until a step settles it. */
  apply(changes: ReadonlyArray<Change>): Promise<void> {
    this.observer.leaving()
    return new Promise((onWritten, onFault) => {
      this.transaction = { changes, onWritten, onFault }
    })
  }

  get writing(): boolean {
    return this.transaction !== undefined
  }

  /** Ends the transaction that is on its way. The writer hears of it when promises have run. */
  settle(fault: "full" | "io" | undefined): void {
    const transaction = this.transaction
    if (transaction === undefined) return
    this.transaction = undefined
    if (fault === undefined) {
      this.write(transaction.changes)
      transaction.onWritten()
    } else {
      this.observer.lost()
      transaction.onFault(new StorageFault({ reason: fault, detail: "as the seed has it" }))
    }
  }

  /** The process dies: the transaction on its way is on disk as a whole, or not at all. */
  crash(landed: boolean): void {
    const transaction = this.transaction
    this.transaction = undefined
    if (transaction !== undefined && landed) this.write(transaction.changes)
    this.observer.lost()
  }

  private write(changes: ReadonlyArray<Change>): void {
    for (const { key, value } of changes) {
      const name = mapKeyOf(key)
      if (value === undefined) this.rows.delete(name)
      else this.rows.set(name, { key, value })
    }
    this.observer.written(changes)
  }
}
