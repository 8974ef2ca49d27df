/** Lists and single records as JSON text, with their nested lists and the addresses of the pages beside them.
 *  Source: docs/spec/store.md, sections 6.2 to 6.4. */
import { thenLater, type Later } from "../later.ts"
import { notFound } from "../problems.ts"
import type { Engine } from "./engine.ts"
import { pairsOf, type Query } from "./query.ts"
import type { Nested, Reader, Resource, Row } from "./resource.ts"
import { find, type Page } from "./search.ts"

/** Maximum number of records of a nested list inside a record. */
export const nestedMax = 1_000

/** Writes a nested list. Positional parameters: this runs once per record of a list. */
export const nestedList = (read: Reader, nested: Nested, row: Row, limit: number): ReadonlyArray<unknown> =>
  "of" in nested
    ? read.children(nested.of, nested.by, row.id, limit).map((child) => read.represent(nested.of, child))
    : nested.list(read, row, limit)

/** The parts of a record that an answer shows; `fields` undefined shows all. */
export interface Selection {
  readonly expand: ReadonlySet<string>
  readonly fields: ReadonlySet<string> | undefined
}

const representSelected = (
  engine: Engine,
  resource: Resource,
  row: Row,
  { expand, fields }: Selection
): Record<string, unknown> => {
  const all = Object.entries(engine.represent(resource.name, row))
  const representation: Record<string, unknown> = Object.fromEntries(
    all.filter(([name]) => fields === undefined || fields.has(name))
  )
  for (const name of expand) {
    const list = nestedList(engine, resource.nested[name]!, row, nestedMax + 1)
    representation[name] = list.slice(0, nestedMax)
    if (list.length > nestedMax) representation[`${name}_truncated`] = true
  }
  return representation
}

/** The JSON text of a record. Positional parameters: this runs once per record of a list. */
export const recordText = (engine: Engine, resource: Resource, row: Row, selection: Selection): string =>
  selection.expand.size === 0 && selection.fields === undefined
    ? engine.text(resource.name, row)
    : JSON.stringify(representSelected(engine, resource, row, selection))

/** Names of the collections from which an answer is made. */
export const involved = (resource: Resource, expand: Iterable<string>): ReadonlyArray<string> => {
  const names = new Set([resource.name])
  for (const name of expand) {
    const nested = resource.nested[name]!
    for (const collection of "of" in nested ? [nested.of] : nested.from) names.add(collection)
  }
  return [...names]
}

export interface Address {
  /** Address of the list, such as https://host/api/v1/products; with .json when the request had it. */
  readonly url: string
  readonly query: string
}

const pageUrl = ({ url, query }: Address, page: number, count: number): string => {
  const parameters = new URLSearchParams({ page: String(page), count: String(count) })
  for (const [name, value] of pairsOf(query))
    if (name !== "page" && name !== "count") parameters.append(name, value)
  return `${url}?${parameters.toString()}`
}

/** Records of one page as JSON texts, and how many there are on all pages. */
export interface ListPage {
  readonly records: ReadonlyArray<string>
  readonly total: number
}

/** Writes the list object. Throws Refusal (404) beyond the last page. */
export const listObject = (
  key: string,
  { records, total }: ListPage,
  { page, count }: Pick<Query, "page" | "count">,
  address: Address
): string => {
  if (page > 1 && (page - 1) * count >= total) throw notFound(`there is no page ${page}`)
  const hasNext = page * count < total
  const previous = page > 1 ? `"previous_page":${JSON.stringify(pageUrl(address, page - 1, count))},` : ""
  const next = hasNext ? `"next_page":${JSON.stringify(pageUrl(address, page + 1, count))},` : ""
  return `{"total_count":${total},${previous}${next}"${key}":[${records.join(",")}]}`
}

export const list = (engine: Engine, resource: Resource, query: Query, address: Address): Later<string> =>
  thenLater(find(engine, resource, query), ({ ids, total }: Page) => {
    const records = ids.flatMap((id) => {
      const row = engine.get(resource.name, id)
      return row === undefined ? [] : [recordText(engine, resource, row, query)]
    })
    return listObject(resource.name, { records, total }, query, address)
  })
