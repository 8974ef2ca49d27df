/** One resource's fields as columns in memory, for filters, sorts and counts over all records without
 *  reading them: 100,000 comparisons take a millisecond. They are derived from the rows, read in slices so
 *  that no request waits long, updated by every write, and dropped when memory is short or a commit is lost.
 *  Source: docs/spec/store.md, sections 6.3, 6.4, 10.8. */
import { Effect, Fiber } from "effect"
import type { Store } from "../../../storage/store.ts"
import { nextTurn } from "../../shared/event-loop.ts"
import { comparable } from "./fields.ts"
import { valueOf, type Change, type Resource, type Row } from "./resource.ts"
import { Rows } from "./records.ts"

export type Cell = string | number | null

interface Column {
  readonly cells: Array<Cell>
  /** The column holds the records up to this id. */
  loadedTo: number
  /** The time of its last use, by the clock that counts uses. */
  used: number
}

const sliceRows = 500
const cellsMax = 16_000_000
const ordersMax = 8

export class Columns {
  /** The id of every record that ever was in memory, ascending. */
  readonly ids: Array<number> = []

  /** The positions of records that are deleted. */
  readonly dead = new Set<number>()
  private readonly columns = new Map<string, Column>()
  private readonly orders = new Map<string, { readonly version: number; readonly order: Uint32Array }>()
  private readonly resource: Resource
  private readonly store: Store
  private idsTo = 0
  private version = 0
  private clock = 0
  private loading: Fiber.Fiber<void> | undefined

  constructor(resource: Resource, store: Store) {
    this.resource = resource
    this.store = store
  }

  private get idsLoaded(): boolean {
    return this.idsTo === Infinity
  }

  private missing(fields: ReadonlyArray<string>): ReadonlyArray<string> {
    return fields.filter((field) => field !== "id" && this.columns.get(field)?.loadedTo !== Infinity)
  }

  /** Undefined when the columns are in memory; else what waits for them. They are everybody's, so their load
   *  does not stop with who asked for it first. */
  ready(fields: ReadonlyArray<string>): Effect.Effect<void> | undefined {
    if (this.idsLoaded && this.missing(fields).length === 0) return undefined
    return Effect.flatMap(
      Effect.suspend(() => Fiber.join(this.loading ?? this.load(fields))),
      () => this.ready(fields) ?? Effect.void
    )
  }

  private load(fields: ReadonlyArray<string>): Fiber.Fiber<void> {
    const missing = this.missing(fields)
    this.makeRoom(missing.length)
    for (const field of missing) this.columns.set(field, { cells: [], loadedTo: 0, used: ++this.clock })
    const loading = Effect.runFork(this.readAll(missing))
    this.loading = loading
    loading.addObserver(() => {
      this.loading = undefined
    })
    return loading
  }

  private readonly readAll = Effect.fnUntraced({ self: this }, function* (fields: ReadonlyArray<string>) {
    // The turn of the request that asks reads nothing.
    yield* nextTurn
    for (let after = 0; ;) {
      const rows = Rows.range(this.store, {
        prefix: [this.resource.name],
        ...(after === 0 ? {} : { after: [this.resource.name, after] }),
        limit: sliceRows
      })
      for (const { key, value } of rows) {
        after = key[1] as number
        this.loadRow(fields, { id: after, ...value })
      }
      if (rows.length < sliceRows) break
      yield* nextTurn
    }
    this.idsTo = Infinity
    for (const field of fields) {
      const column = this.columns.get(field)
      if (column !== undefined) column.loadedTo = Infinity
    }
  })

  private loadRow(fields: ReadonlyArray<string>, row: Row): void {
    const { id } = row
    if (!this.idsLoaded && id > this.idsTo) {
      this.ids.push(id)
      this.idsTo = id
    }
    const at = this.position(id)
    for (const field of fields) {
      const column = this.columns.get(field)
      if (column !== undefined && at >= 0) {
        column.cells[at] = this.cell(field, row)
        column.loadedTo = id
      }
    }
  }

  private cell(field: string, row: Row): Cell {
    return comparable(valueOf(this.resource, row, field))
  }

  /** Drops the least recently used columns until there is room. */
  private makeRoom(more: number): void {
    const rows = Math.max(1, this.ids.length)
    const idle = [...this.columns]
      .filter(([, { loadedTo }]) => loadedTo === Infinity)
      .sort(([, a], [, b]) => a.used - b.used)
    while ((this.columns.size + more) * rows > cellsMax && idle.length > 0)
      this.columns.delete(idle.shift()![0])
  }

  /** Finds an id by binary search; -1 when it was never in memory. */
  position(id: number): number {
    let low = 0
    let high = this.ids.length - 1
    while (low <= high) {
      const middle = (low + high) >> 1
      const found = this.ids[middle]!
      if (found === id) return middle
      if (found < id) low = middle + 1
      else high = middle - 1
    }
    return -1
  }

  apply({ id, after }: Change): void {
    if (this.idsTo === 0) return
    this.version++
    let at = this.position(id)
    if (after === undefined) {
      if (at >= 0) this.dead.add(at)
      return
    }
    if (at < 0) {
      if (!this.idsLoaded) return // the load under way has not come so far, and will find it
      at = this.ids.push(id) - 1
    }
    for (const [field, column] of this.columns)
      if (id <= column.loadedTo) column.cells[at] = this.cell(field, after)
  }

  get count(): number {
    return this.ids.length - this.dead.size
  }

  column(field: string): ReadonlyArray<Cell> {
    if (field === "id") return this.ids
    const column = this.columns.get(field)!
    column.used = ++this.clock
    return column.cells
  }

  /** All positions in the order of `key`, remembered until the next write. */
  order(key: string, compare: (a: number, b: number) => number): Uint32Array {
    const cached = this.orders.get(key)
    if (cached !== undefined && cached.version === this.version && cached.order.length === this.ids.length)
      return cached.order
    const order = Uint32Array.from(this.ids.keys()).sort(compare)
    this.orders.delete(key)
    if (this.orders.size >= ordersMax) this.orders.delete(this.orders.keys().next().value!)
    this.orders.set(key, { version: this.version, order })
    return order
  }
}
