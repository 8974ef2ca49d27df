/** A store for tests of optimistic locking: another write comes between what a request has read and what it
 *  commits. */
import { openMemory } from "../../storage/memory.ts"
import type { Store, Write } from "../../storage/store.ts"

export class RacedStore {
  readonly store: Store
  private rival: { readonly table: string; readonly writes: () => ReadonlyArray<Write> } | undefined

  constructor(inner: Store = openMemory()) {
    this.store = Object.assign(Object.create(inner) as Store, {
      commit: (...[writes, settled]: Parameters<Store["commit"]>) => {
        const { rival } = this
        if (rival !== undefined && writes.some((write) => "table" in write && write.table === rival.table)) {
          this.rival = undefined
          const conflict = inner.commit(rival.writes(), () => {})
          if (conflict !== undefined) throw conflict
        }
        return inner.commit(writes, settled)
      }
    })
  }

  /** Puts `writes` before the next commit that concerns `table`. */
  race(table: string, writes: () => ReadonlyArray<Write>): void {
    this.rival = { table, writes }
  }
}
