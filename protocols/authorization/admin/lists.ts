/** Lists: newest first by id, with a limit and an opaque cursor that names the last row of the page, so that
 *  rows created meanwhile neither shift nor repeat the following pages. Long tables are read in slices, so
 *  that other requests run in between.
 *  Source: docs/spec/authorization.md, section 16, rule 3. */
import { defined } from "../../../runtime/defined.ts"
import type { Key, Table } from "../../../storage/store.ts"
import { isProblem, type Problem } from "../problems.ts"
import { invalid, ok, readCount, type AdminCall, type Outcome } from "./call.ts"

const pageMax = 200
const pageDefault = 50
const sliceRows = 250

const aside = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve)
  })

export interface Walk {
  readonly prefix?: Key
  /** Starts after this key. */
  readonly after?: Key
  readonly reverse?: boolean
}

/** Iterates over all rows of a table, one slice at a time. */
export async function* rowsOf<A>(
  { authority }: Pick<AdminCall, "authority">,
  table: Table<A>,
  walk: Walk = {}
): AsyncGenerator<{ readonly key: Key; readonly value: A }> {
  const { store } = authority.books
  for (let after = walk.after; ;) {
    const rows = table.range(store, { ...walk, limit: sliceRows, ...(after === undefined ? {} : { after }) })
    yield* rows
    if (rows.length < sliceRows) return
    after = rows.at(-1)!.key
    await aside()
  }
}

/** Counts the rows of a table without decoding them. */
export const countOf = async (
  { authority }: Pick<AdminCall, "authority">,
  table: { readonly name: string }
): Promise<number> => {
  let count = 0
  for (let after: Key | undefined; ; await aside()) {
    const rows = authority.books.store.range(table.name, defined({ limit: sliceRows, after }))
    count += rows.length
    if (rows.length < sliceRows) return count
    after = rows.at(-1)!.key
  }
}

const seal = ({ authority, request }: AdminCall, id: string): string =>
  authority.seal.hash(`${request.path}\0${id}`, "authorization admin cursor").slice(0, 16)

const cursorOf = (call: AdminCall, id: string): string =>
  `${Buffer.from(id).toString("base64url")}.${seal(call, id)}`

const readCursor = (call: AdminCall): Key | undefined | Problem => {
  const cursorText = call.query.get("cursor")
  if (cursorText === undefined) return undefined
  const [part = "", mark] = cursorText.split(".")
  const id = Buffer.from(part, "base64url").toString()
  return mark === seal(call, id) ? [id] : invalid("cursor is not one of this list")
}

export interface Listed<A> {
  readonly table: Table<A>
  readonly view: (row: A) => unknown
  readonly keep?: (row: A) => boolean
  /** Ends the walk at the first row for which it returns true, because no older row can match. */
  readonly until?: (row: A) => boolean
  readonly more?: (items: ReadonlyArray<unknown>) => Readonly<Record<string, unknown>>
}

/** Answers one page of a table whose key is a single id. */
export const list = async <A>(
  call: AdminCall,
  plural: string,
  { table, view, keep = () => true, until = () => false, more = () => ({}) }: Listed<A>
): Promise<Outcome> => {
  const limit = readCount(call, "limit", 1, pageMax, pageDefault)
  if (isProblem(limit)) return limit
  const after = readCursor(call)
  if (isProblem(after)) return after
  const items: Array<unknown> = []
  let last: string | undefined
  let further = false
  for await (const { key, value } of rowsOf(call, table, defined({ reverse: true, after }))) {
    if (until(value)) break
    if (!keep(value)) continue
    if (items.length === limit) {
      further = true
      break
    }
    items.push(view(value))
    last = String(key[0])
  }
  return ok({ [plural]: items, ...more(items), next_cursor: further ? cursorOf(call, last!) : null })
}

/** Builds a predicate that is true when every filter of the query matches the row exactly. */
export const matching = <A>(
  { query }: Pick<AdminCall, "query">,
  filters: Readonly<Record<string, (row: A) => string>>
): ((row: A) => boolean) => {
  const conditions = Object.entries(filters).flatMap(([name, of]) => {
    const wanted = query.get(name)
    return wanted === undefined ? [] : [(row: A) => of(row) === wanted]
  })
  return (row) => conditions.every((matches) => matches(row))
}
