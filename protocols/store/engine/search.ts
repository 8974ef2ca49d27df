/** Finds the records of a query, in order: from columns, and long text row by row. Guarantee: a page is
 *  computed in one turn, so it is consistent in itself.
 *  Source: docs/spec/store.md, sections 6.3, 6.4. */
import { Effect } from "effect"
import { nextTurn } from "../../shared/event-loop.ts"
import { thenLater, type Later } from "../later.ts"
import type { Columns, Cell } from "./columns.ts"
import type { Engine } from "./engine.ts"
import { comparable, isLong } from "./fields.ts"
import type { Query, Unit } from "./query.ts"
import { valueOf, type Resource, type Row } from "./resource.ts"

/** Pages this near the start are picked by a heap; further ones from an order that is sorted once per write.
 *  */
const heapMax = 2_000

const sliceMs = 4

/** Compares two cells; what is absent comes first. */
const compareCells = (a: Cell | undefined, b: Cell | undefined): number => {
  if (a === b) return 0
  if (a === null || a === undefined) return b === null || b === undefined ? 0 : -1
  if (b === null || b === undefined) return 1
  return a < b ? -1 : 1
}

type Comparator = (a: number, b: number) => number

const comparatorOf = (columns: Columns, sort: Query["sort"]): Comparator => {
  const keys = sort.map(({ field, descending }) => ({
    cells: columns.column(field),
    sign: descending ? -1 : 1
  }))
  return (a, b) => {
    for (const { cells, sign } of keys) {
      const found = compareCells(cells[a], cells[b])
      if (found !== 0) return found * sign
    }
    return a - b
  }
}

/** The least positions, at most `size` of them, as a heap whose greatest is on top. */
interface Heap {
  readonly positions: Array<number>
  readonly size: number
  readonly compare: Comparator
}

const push = ({ positions: heap, size, compare }: Heap, at: number): void => {
  if (heap.length === size) {
    if (compare(at, heap[0]!) >= 0) return
    heap[0] = at
    for (let i = 0; ;) {
      const left = 2 * i + 1
      if (left >= heap.length) return
      const child = left + 1 < heap.length && compare(heap[left + 1]!, heap[left]!) > 0 ? left + 1 : left
      if (compare(heap[child]!, heap[i]!) <= 0) return
      ;[heap[i], heap[child]] = [heap[child]!, heap[i]!]
      i = child
    }
  }
  heap.push(at)
  for (let i = heap.length - 1; i > 0;) {
    const parent = (i - 1) >> 1
    if (compare(heap[i]!, heap[parent]!) <= 0) return
    ;[heap[i], heap[parent]] = [heap[parent]!, heap[i]!]
    i = parent
  }
}

const matcherOf = (columns: Columns, where: Query["where"]): ((at: number) => boolean) => {
  if (where.length === 0) return () => true
  const compiled = where.map((all) => all.map(({ field, test }) => ({ cells: columns.column(field), test })))
  return (at) => compiled.some((all) => all.every(({ cells, test }) => test(cells[at] ?? null)))
}

export interface Page {
  readonly ids: ReadonlyArray<number>
  readonly total: number
}

/** Collects the ids of one page, and counts all. */
class PageCollector {
  readonly ids: Array<number> = []
  total = 0
  private readonly from: number
  private readonly to: number

  constructor({ page, count }: Query) {
    this.from = (page - 1) * count
    this.to = this.from + count
  }

  add(id: number): void {
    if (this.total >= this.from && this.total < this.to) this.ids.push(id)
    this.total++
  }
}

const isById = ({ sort }: Query): boolean =>
  sort.length === 0 || (sort.length === 1 && sort[0]!.field === "id" && !sort[0]!.descending)

/** The page of a query over all positions, from the columns. */
const pick = (columns: Columns, query: Query, matches: (at: number) => boolean): Page => {
  const { ids, dead } = columns
  if (isById(query)) {
    const page = new PageCollector(query)
    for (let at = 0; at < ids.length; at++) if (!dead.has(at) && matches(at)) page.add(ids[at]!)
    return page
  }
  const compare = comparatorOf(columns, query.sort)
  const from = (query.page - 1) * query.count
  const to = from + query.count
  if (to <= heapMax) {
    const heap: Heap = { positions: [], size: to, compare }
    let total = 0
    for (let at = 0; at < ids.length; at++)
      if (!dead.has(at) && matches(at)) {
        total++
        push(heap, at)
      }
    const sorted = heap.positions.sort(compare).slice(from)
    return { ids: sorted.map((at) => ids[at]!), total }
  }
  const key = query.sort.map(({ field, descending }) => `${descending ? "-" : ""}${field}`).join()
  const page = new PageCollector(query)
  for (const at of columns.order(key, compare)) if (!dead.has(at) && matches(at)) page.add(ids[at]!)
  return page
}

/** Inputs of a search. */
interface Searched {
  readonly engine: Engine
  readonly resource: Resource
  readonly columns: Columns
}

/** The page of a query about text too long for a column: the rows are read, a few milliseconds at a time. */
const pickByRows = Effect.fnUntraced(function* ({ engine, resource, columns }: Searched, query: Query) {
  const test = (row: Row, { field, test }: Unit): boolean => test(comparable(valueOf(resource, row, field)))
  const matched = new Set<number>()
  let untilMs = Date.now() + sliceMs
  for (let at = 0; at < columns.ids.length; at++) {
    const row = columns.dead.has(at) ? undefined : engine.get(resource.name, columns.ids[at]!)
    if (row !== undefined && query.where.some((all) => all.every((unit) => test(row, unit)))) matched.add(at)
    if (Date.now() >= untilMs) {
      yield* nextTurn
      untilMs = Date.now() + sliceMs
    }
  }
  return pick(columns, query, (at) => matched.has(at))
})

/** The page of a query among records that are named by their ids. */
const select = (columns: Columns, query: Query, ids: ReadonlyArray<number>): Page => {
  const positions = [...new Set(ids)].flatMap((id) => {
    const at = columns.position(id)
    return at < 0 || columns.dead.has(at) ? [] : [at]
  })
  const matches = matcherOf(columns, query.where)
  const found = positions.filter((at) => matches(at))
  if (query.sort.length > 0) found.sort(comparatorOf(columns, query.sort))
  const from = (query.page - 1) * query.count
  return { ids: found.slice(from, from + query.count).map((at) => columns.ids[at]!), total: found.length }
}

/** The fields whose columns a query needs. */
const columnsFor = (resource: Resource, { sort, where }: Query): ReadonlyArray<string> => {
  const fields = new Set([...sort, ...where.flat()].map(({ field }) => field))
  return [...fields].filter((field) => !isLong(resource.fields[field]!))
}

/** Finds the page of a query. Synchronous when the columns are in memory. */
export const find = (engine: Engine, resource: Resource, query: Query): Later<Page> => {
  const columns = engine.columnsOf(resource.name)
  const waiting = columns.ready(columnsFor(resource, query))
  if (waiting !== undefined) return thenLater(waiting, () => find(engine, resource, query))
  if (query.hasLongField) return pickByRows({ engine, resource, columns }, query)
  return query.ids !== undefined
    ? select(columns, query, query.ids)
    : pick(columns, query, matcherOf(columns, query.where))
}
