/** A list's parameters: paging, sort, fields, expand, and the query syntax of fields. Parsing is pure and
 *  bounded; a fault names its parameter. A field's conditions are one unit (AND before OR inside it); units
 *  are joined by AND, or by OR where a field begins with `OR `, again AND first.
 *  Source: docs/spec/store.md, sections 6.3, 6.4. */
import type { Cell } from "./columns.ts"
import { fold, isLong, moneyUnit, searchable, type Field } from "./fields.ts"
import { invalid, type Refusal } from "../problems.ts"
import type { Resource } from "./resource.ts"
import type { Zone } from "../wire.ts"

type Operator = "eq" | "not" | "like" | "startwith" | "gt" | "gte" | "lt" | "lte"

const operators: ReadonlySet<string> = new Set<Operator>([
  "eq",
  "not",
  "like",
  "startwith",
  "gt",
  "gte",
  "lt",
  "lte"
])

type Test = (cell: Cell) => boolean

/** The conditions of one field. */
export interface Unit {
  readonly field: string
  readonly test: Test
}

export interface SortKey {
  readonly field: string
  readonly descending: boolean
}

export interface Query {
  readonly page: number
  readonly count: number
  readonly sort: ReadonlyArray<SortKey>
  /** Selected fields; undefined selects all. */
  readonly fields: ReadonlySet<string> | undefined
  readonly expand: ReadonlySet<string>
  /** An OR of ANDs; empty selects everything. */
  readonly where: ReadonlyArray<ReadonlyArray<Unit>>
  /** The ids that `select_many` names. */
  readonly ids: ReadonlyArray<number> | undefined
  readonly hasLongField: boolean
}

const conditionsMax = 20
const countMax = 250
const countDefault = 100
const idsMax = 1_000
const bad = (name: string, why: string): Refusal => invalid(`parameter ${name}: ${why}`)

/** Name and value of each pair, in order; `+` is a space. */
export const pairsOf = (query: string): ReadonlyArray<readonly [string, string]> =>
  query === "" ? [] : [...new URLSearchParams(query)]

/** One field of a query: its parameter, and how its values are read. */
interface Searched {
  readonly name: string
  readonly field: Field
  readonly zone: Zone
}

const isText = ({ kind }: Field): boolean => kind === "string" || kind === "text" || kind === "html"

const isNumeric = (text: string): boolean => text.trim() !== "" && Number.isFinite(Number(text))

const testOf = (searched: Searched, operator: Operator, text: string): Test => {
  const { name, field } = searched
  if (text === "null" && operator === "eq") return (cell) => cell === null
  if (text === "null" && operator === "not") return (cell) => cell !== null
  if (operator === "like" || operator === "startwith") {
    if (!isText(field)) throw bad(name, `${operator} is for text only`)
    return partTest(operator, fold(text))
  }
  const value = isText(field) ? fold(text) : numberOf(searched, text)
  if (field.numeric === true && isNumeric(text)) return numericTest(operator, Number(text), value)
  if (operator === "not") return (cell) => cell !== value
  return (cell) => cell !== null && compare(operator, cell, value)
}

const partTest = (operator: "like" | "startwith", part: string): Test =>
  operator === "like"
    ? (cell) => typeof cell === "string" && cell.includes(part)
    : (cell) => typeof cell === "string" && cell.startsWith(part)

/** Compares numbers where the cell is one, else as the text is. */
const numericTest =
  (operator: Operator, number: number, value: string | number): Test =>
  (cell) =>
    typeof cell === "string" && isNumeric(cell)
      ? compare(operator, Number(cell), number)
      : cell !== null && compare(operator, cell, value)

const compare = (operator: Operator, a: string | number, b: string | number): boolean => {
  switch (operator) {
    case "gt":
      return a > b
    case "gte":
      return a >= b
    case "lt":
      return a < b
    case "lte":
      return a <= b
    case "not":
      return a !== b
    default:
      return a === b
  }
}

const numberOf = ({ name, field, zone }: Searched, text: string): number => {
  if (field.kind === "boolean" || field.kind === "flag") {
    if (text === "true" || text === "1") return 1
    if (text === "false" || text === "0") return 0
    throw bad(name, "wants true or false")
  }
  if (field.kind === "datetime") {
    const ms = zone.parse(text.replace(/ (\d\d:?\d\d)$/, "+$1"))
    if (ms === undefined) throw bad(name, "wants an ISO 8601 datetime")
    return ms
  }
  if (!/^[+-]?(?:\d+\.?\d*|\.\d+)$/.test(text)) throw bad(name, "wants a number")
  return field.kind === "money" ? Math.round(Number(text) * moneyUnit) : Number(text)
}

const integer = (name: string, text: string, max: number): number => {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (value < 1 || value > max) throw bad(name, `wants an integer from 1 to ${max}`)
  return value
}

const wordsOf = (text: string): ReadonlyArray<string> =>
  text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "")

export const idOf = (text: string): number | undefined =>
  /^[1-9]\d{0,15}$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : undefined

const pageMax = 999_999_999

interface JoinedUnit {
  readonly unit: Unit
  /** True when it is joined to the preceding condition by OR. */
  readonly byOr: boolean
}

/** Collects the parameters of one query, each at most once. */
class QueryParser {
  private readonly resource: Resource
  private readonly zone: Zone
  private readonly withIds: boolean
  private readonly seen = new Set<string>()
  private readonly units: Array<JoinedUnit> = []
  private readonly expand = new Set<string>()
  private conditions = 0
  private page = 1
  private count = countDefault
  private sort: ReadonlyArray<SortKey> = []
  private fields: Set<string> | undefined
  private ids: ReadonlyArray<number> | undefined

  constructor(resource: Resource, { zone, withIds = false }: QueryOptions) {
    this.resource = resource
    this.zone = zone
    this.withIds = withIds
  }

  parse(name: string, value: string): void {
    switch (name) {
      case "page":
        this.once(name)
        this.page = integer(name, value, pageMax)
        return
      case "count":
        this.once(name)
        this.count = integer(name, value, countMax)
        return
      case "sort":
        this.once(name)
        this.sort = wordsOf(value).map((word) => this.sortKey(word))
        return
      case "fields":
        this.once(name)
        this.selectFields(wordsOf(value))
        return
      case "expand":
        this.once(name)
        this.expandNested(wordsOf(value))
        return
    }
    if (name === "ids" && this.withIds) {
      this.once(name)
      this.selectIds(wordsOf(value))
      return
    }
    if (!Object.hasOwn(this.resource.fields, name)) throw invalid(`there is no parameter or field ${name}`)
    this.parseUnit(name, value)
  }

  private once(name: string): void {
    if (this.seen.has(name)) throw bad(name, "is given twice")
    this.seen.add(name)
  }

  finish(): Query {
    const { page, count, sort, fields, expand, ids, units } = this
    if (fields !== undefined) for (const nested of expand) fields.add(nested)
    const hasLongField = units.some(({ unit }) => isLong(this.resource.fields[unit.field]!))
    return { page, count, sort, fields, expand, where: this.where(), ids, hasLongField }
  }

  private sortKey(word: string): SortKey {
    const descending = word.startsWith("-")
    const name = descending ? word.slice(1) : word
    const field = Object.hasOwn(this.resource.fields, name) ? this.resource.fields[name]! : undefined
    if (field === undefined || !searchable(field) || isLong(field))
      throw bad("sort", `there is no field ${name} to sort by`)
    return { field: name, descending }
  }

  private selectFields(names: ReadonlyArray<string>): void {
    const { fields, nested } = this.resource
    this.fields = new Set(["id", ...names])
    for (const name of this.fields)
      if (!Object.hasOwn(fields, name) && !Object.hasOwn(nested, name))
        throw bad("fields", `there is no field ${name}`)
    for (const name of this.fields) if (Object.hasOwn(nested, name)) this.expand.add(name)
  }

  private expandNested(names: ReadonlyArray<string>): void {
    for (const name of names) {
      if (!Object.hasOwn(this.resource.nested, name))
        throw bad("expand", `there is nothing nested called ${name}`)
      this.expand.add(name)
    }
  }

  private selectIds(words: ReadonlyArray<string>): void {
    this.ids = words.flatMap((word) => idOf(word) ?? [])
    if (this.ids.length > idsMax) throw bad("ids", `at most ${idsMax} ids`)
  }

  private parseUnit(name: string, value: string): void {
    const searched: Searched = { name, field: this.resource.fields[name]!, zone: this.zone }
    if (!searchable(searched.field)) throw bad(name, "cannot be searched")
    const byOr = value.startsWith("OR ")
    const either = (byOr ? value.slice(3) : value)
      .split(" OR ")
      .map((part) => part.split(" AND ").map((condition) => this.condition(searched, condition)))
    const isOneCondition = either.length === 1 && either[0]!.length === 1
    const test: Test = isOneCondition
      ? either[0]![0]!
      : (cell) => either.some((all) => all.every((one) => one(cell)))
    this.units.push({ unit: { field: name, test }, byOr })
  }

  private condition(searched: Searched, text: string): Test {
    if (++this.conditions > conditionsMax) throw invalid(`at most ${conditionsMax} conditions`)
    const colon = text.indexOf(":")
    const word = colon < 0 ? "" : text.slice(0, colon)
    return operators.has(word)
      ? testOf(searched, word as Operator, text.slice(colon + 1))
      : testOf(searched, "eq", text)
  }

  /** An `OR ` before the first unit joins the first two. */
  private where(): Query["where"] {
    const where: Array<Array<Unit>> = []
    this.units.forEach(({ unit, byOr }, at) => {
      if (at === 0 || byOr || (at === 1 && this.units[0]!.byOr)) where.push([unit])
      else where.at(-1)!.push(unit)
    })
    return where
  }
}

export interface QueryOptions {
  readonly zone: Zone
  /** The query may name ids, as that of `select_many` does. */
  readonly withIds?: boolean
}

/** Parses the query of a list. Throws Refusal (400). */
export const parseQuery = (resource: Resource, query: string, options: QueryOptions): Query => {
  const parser = new QueryParser(resource, options)
  for (const [name, value] of pairsOf(query)) parser.parse(name, value)
  return parser.finish()
}
