/** Lists and single records as JSON: which records a query means (from columns; long text row by row), in
 *  which order, and how they are shown with nested lists. A page is decided in one turn, so it is consistent
 *  in itself. Source: store sections 6.2 to 6.4. */
import type { Columns, Cell } from "./columns.ts"
import type { Engine } from "./engine.ts"
import { comparable, isLong } from "./fields.ts"
import { pairsOf, type Query, type Unit } from "./query.ts"
import { Refused } from "../problems.ts"
import { valueOf, type Nested, type Reader, type Resource, type Row } from "./resource.ts"

const nestedMax = 1_000

/** Pages this near the start are picked by a heap; further ones from an order that is sorted once per write.
 *  */
const heapMax = 2_000

const sliceMs = 4

const turn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve)
  })

const order = (a: Cell | undefined, b: Cell | undefined): number => {
  if (a === b) return 0
  if (a === null || a === undefined) return b === null || b === undefined ? 0 : -1
  if (b === null || b === undefined) return 1
  return a < b ? -1 : 1
}

type Comparator = (a: number, b: number) => number

const comparatorOf = (columns: Columns, sort: Query["sort"]): Comparator => {
  const by = sort.map(({ field, descending }) => ({
    cells: columns.column(field),
    sign: descending ? -1 : 1
  }))
  return (a, b) => {
    for (const { cells, sign } of by) {
      const found = order(cells[a], cells[b])
      if (found !== 0) return found * sign
    }
    return a - b
  }
}

/** The `keep` least positions, as a heap whose greatest is on top. */
const push = (heap: Array<number>, keep: number, at: number, compare: Comparator): void => {
  if (heap.length === keep) {
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

const pick = (columns: Columns, query: Query, matches: (at: number) => boolean): Page => {
  const from = (query.page - 1) * query.count
  const to = from + query.count
  const { ids, dead } = columns
  if (
    query.sort.length === 0 ||
    (query.sort.length === 1 && query.sort[0]!.field === "id" && !query.sort[0]!.descending)
  ) {
    const found: Array<number> = []
    let total = 0
    for (let at = 0; at < ids.length; at++)
      if (!dead.has(at) && matches(at)) {
        if (total >= from && total < to) found.push(ids[at]!)
        total++
      }
    return { ids: found, total }
  }
  const compare = comparatorOf(columns, query.sort)
  if (to <= heapMax) {
    const heap: Array<number> = []
    let total = 0
    for (let at = 0; at < ids.length; at++)
      if (!dead.has(at) && matches(at)) {
        total++
        push(heap, to, at, compare)
      }
    return {
      ids: heap
        .sort(compare)
        .slice(from)
        .map((at) => ids[at]!),
      total
    }
  }
  const found: Array<number> = []
  let total = 0
  for (const at of columns.order(
    query.sort.map(({ field, descending }) => `${descending ? "-" : ""}${field}`).join(),
    compare
  )) {
    if (!dead.has(at) && matches(at)) {
      if (total >= from && total < to) found.push(ids[at]!)
      total++
    }
  }
  return { ids: found, total }
}

/** Text too long for a column: the rows are read, a few milliseconds at a time. */
const pickByRows = async (
  engine: Engine,
  resource: Resource,
  columns: Columns,
  query: Query
): Promise<Page> => {
  const test = (row: Row, { field, test }: Unit): boolean =>
    test(comparable(resource.fields[field]!, valueOf(resource, row, field)))
  const matched = new Set<number>()
  let untilMs = Date.now() + sliceMs
  for (let at = 0; at < columns.ids.length; at++) {
    const row = columns.dead.has(at) ? undefined : engine.get(resource.name, columns.ids[at]!)
    if (row !== undefined && query.where.some((all) => all.every((unit) => test(row, unit)))) matched.add(at)
    if (Date.now() >= untilMs) {
      await turn()
      untilMs = Date.now() + sliceMs
    }
  }
  return pick(columns, query, (at) => matched.has(at))
}

const select = (
  engine: Engine,
  resource: Resource,
  columns: Columns,
  query: Query,
  ids: ReadonlyArray<number>
): Page => {
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

const neededOf = (resource: Resource, query: Query): ReadonlyArray<string> =>
  [
    ...new Set([...query.sort.map(({ field }) => field), ...query.where.flat().map(({ field }) => field)])
  ].filter((field) => !isLong(resource.fields[field]!))

/** Synchronous when the columns are in memory. */
export const find = (engine: Engine, resource: Resource, query: Query): Page | Promise<Page> => {
  const columns = engine.columnsOf(resource.name)
  const waiting = columns.ready(neededOf(resource, query))
  if (waiting !== undefined) return waiting.then(() => find(engine, resource, query))
  if (query.hasLongField) return pickByRows(engine, resource, columns, query)
  return query.ids !== undefined
    ? select(engine, resource, columns, query, query.ids)
    : pick(columns, query, matcherOf(columns, query.where))
}

export const showNested = (
  read: Reader,
  nested: Nested,
  row: Row,
  limit = nestedMax + 1
): ReadonlyArray<unknown> =>
  "of" in nested
    ? read.children(nested.of, nested.by, row.id, limit).map((child) => read.show(nested.of, child))
    : nested.show(read, row, limit)

const showRecord = (
  engine: Engine,
  resource: Resource,
  row: Row,
  expand: ReadonlySet<string>,
  fields?: ReadonlySet<string>
): Record<string, unknown> => {
  const whole = engine.show(resource.name, row)
  const shown: Record<string, unknown> =
    fields === undefined
      ? whole
      : Object.fromEntries(Object.entries(whole).filter(([name]) => fields.has(name)))
  for (const name of expand) {
    const list = showNested(engine, resource.nested[name]!, row)
    shown[name] = list.length > nestedMax ? list.slice(0, nestedMax) : list
    if (list.length > nestedMax) shown[`${name}_truncated`] = true
  }
  return shown
}

/** Which collections an answer is made of. */
export const involved = (resource: Resource, expand: Iterable<string>): ReadonlyArray<string> => {
  const names = new Set([resource.name])
  for (const name of expand) {
    const nested = resource.nested[name]!
    for (const from of "of" in nested ? [nested.of] : nested.from) names.add(from)
  }
  return [...names]
}

export interface Address {
  /** https://host/api/v1/products, with .json when it was asked so. */
  readonly url: string
  readonly query: string
}

const pageUrl = ({ url, query }: Address, page: number, count: number): string => {
  const kept = pairsOf(query).filter(([name]) => name !== "page" && name !== "count")
  return `${url}?${new URLSearchParams([["page", String(page)], ["count", String(count)], ...kept.map(([name, value]) => [name, value] as [string, string])]).toString()}`
}

/** As JSON. */
export const recordText = (
  engine: Engine,
  resource: Resource,
  row: Row,
  expand: ReadonlySet<string>,
  fields?: ReadonlySet<string>
): string =>
  expand.size === 0 && fields === undefined
    ? engine.text(resource.name, row)
    : JSON.stringify(showRecord(engine, resource, row, expand, fields))

/** The list object, of records as JSON. Throws Refused (404) beyond the last page. */
export const listObject = (
  key: string,
  records: ReadonlyArray<string>,
  total: number,
  { page, count }: Pick<Query, "page" | "count">,
  address: Address
): string => {
  if (page > 1 && (page - 1) * count >= total) throw new Refused(404, `there is no page ${page}`)
  const previous = page > 1 ? `"previous_page":${JSON.stringify(pageUrl(address, page - 1, count))},` : ""
  const next = page * count < total ? `"next_page":${JSON.stringify(pageUrl(address, page + 1, count))},` : ""
  return `{"total_count":${total},${previous}${next}"${key}":[${records.join(",")}]}`
}

export const list = (
  engine: Engine,
  resource: Resource,
  query: Query,
  address: Address
): string | Promise<string> => {
  const found = find(engine, resource, query)
  const shown = ({ ids, total }: Page): string =>
    listObject(
      resource.name,
      ids.flatMap((id) => {
        const row = engine.get(resource.name, id)
        return row === undefined ? [] : [recordText(engine, resource, row, query.expand, query.fields)]
      }),
      total,
      query,
      address
    )
  return found instanceof Promise ? found.then(shown) : shown(found)
}
