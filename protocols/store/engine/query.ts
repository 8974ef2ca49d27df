/** A list's parameters: paging, sort, fields, expand, and the query syntax of fields. Parsing is pure and
 *  bounded; a fault names its parameter. A field's conditions are one unit (AND before OR inside it); units
 *  are joined by AND, or by OR where a field begins with `OR `, again AND first. Source: store sections 6.3,
 *  6.4. */
import type { Cell } from "./columns.ts"
import { fold, isLong, searchable, type Field } from "./fields.ts"
import { Refused } from "../problems.ts"
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

export interface Unit {
  readonly field: string
  readonly test: Test
}

export interface Query {
  readonly page: number
  readonly count: number
  readonly sort: ReadonlyArray<{ readonly field: string; readonly descending: boolean }>
  /** undefined: all. */
  readonly fields: ReadonlySet<string> | undefined
  readonly expand: ReadonlySet<string>
  /** OR of ANDs; empty: everything. */
  readonly where: ReadonlyArray<ReadonlyArray<Unit>>
  /** Of `select_many`. */
  readonly ids: ReadonlyArray<number> | undefined
  readonly hasLongField: boolean
}

const conditionsMax = 20
const countMax = 250
const countDefault = 100
const idsMax = 1_000
const bad = (name: string, why: string): Refused => new Refused(400, `parameter ${name}: ${why}`)

/** Name and value of each pair, in order; `+` is a space. */
export const pairsOf = (query: string): ReadonlyArray<readonly [string, string]> =>
  query === "" ? [] : [...new URLSearchParams(query)]

const testOf = (name: string, field: Field, op: Operator, text: string, zone: Zone): Test => {
  if (text === "null" && (op === "eq" || op === "not"))
    return op === "eq" ? (cell) => cell === null : (cell) => cell !== null
  const textual = field.kind === "string" || field.kind === "text" || field.kind === "html"
  if (op === "like" || op === "startwith") {
    if (!textual) throw bad(name, `${op} is for text only`)
    const part = fold(text)
    return op === "like"
      ? (cell) => typeof cell === "string" && cell.includes(part)
      : (cell) => typeof cell === "string" && cell.startsWith(part)
  }
  const value = textual ? fold(text) : numberOf(name, field, text, zone)
  if (field.numeric === true && text.trim() !== "" && Number.isFinite(Number(text))) {
    const number = Number(text)
    return (cell) =>
      typeof cell === "string" && cell.trim() !== "" && Number.isFinite(Number(cell))
        ? compared(op, Number(cell), number)
        : cell !== null && compared(op, cell, value)
  }
  return op === "not" ? (cell) => cell !== value : (cell) => cell !== null && compared(op, cell, value)
}

const compared = (op: Operator, a: string | number, b: string | number): boolean => {
  switch (op) {
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

const numberOf = (name: string, field: Field, text: string, zone: Zone): number => {
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
  if (field.kind !== "money") return Number(text)
  return Math.round(Number(text) * 10_000)
}

interface Parsed {
  readonly units: Array<{ readonly unit: Unit; readonly orLeft: boolean }>
  conditions: number
}

const parseField = (into: Parsed, name: string, field: Field, given: string, zone: Zone): void => {
  if (!searchable(field)) throw bad(name, "cannot be searched")
  const orLeft = given.startsWith("OR ")
  const either = (orLeft ? given.slice(3) : given).split(" OR ").map((part) =>
    part.split(" AND ").map((condition) => {
      if (++into.conditions > conditionsMax) throw new Refused(400, `at most ${conditionsMax} conditions`)
      const colon = condition.indexOf(":")
      const word = colon < 0 ? "" : condition.slice(0, colon)
      return operators.has(word)
        ? testOf(name, field, word as Operator, condition.slice(colon + 1), zone)
        : testOf(name, field, "eq", condition, zone)
    })
  )
  const test: Test =
    either.length === 1 && either[0]!.length === 1
      ? either[0]![0]!
      : (cell) => either.some((all) => all.every((one) => one(cell)))
  into.units.push({ unit: { field: name, test }, orLeft })
}

const integer = (name: string, text: string, max: number): number => {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : 0
  if (value < 1 || value > max) throw bad(name, `wants an integer from 1 to ${max}`)
  return value
}

export const idOf = (text: string): number | undefined =>
  /^[1-9]\d{0,15}$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : undefined

/** Throws Refused (400). */
export const parseQuery = (resource: Resource, query: string, zone: Zone, selecting = false): Query => {
  let page = 1
  let count = countDefault
  let sort: Query["sort"] = []
  let fields: Set<string> | undefined
  let ids: Array<number> | undefined
  const expand = new Set<string>()
  const seen = new Set<string>()
  const parsed: Parsed = { units: [], conditions: 0 }
  const once = (name: string): void => {
    if (seen.has(name)) throw bad(name, "is given twice")
    seen.add(name)
  }
  const list = (text: string): ReadonlyArray<string> =>
    text
      .split(",")
      .map((part) => part.trim())
      .filter((part) => part !== "")
  for (const [name, value] of pairsOf(query)) {
    switch (name) {
      case "page":
        once(name)
        page = integer(name, value, 999_999_999)
        continue
      case "count":
        once(name)
        count = integer(name, value, countMax)
        continue
      case "sort":
        once(name)
        sort = list(value).map((part) => {
          const descending = part.startsWith("-")
          const field = descending ? part.slice(1) : part
          const about = Object.hasOwn(resource.fields, field) ? resource.fields[field]! : undefined
          if (about === undefined || !searchable(about) || isLong(about))
            throw bad(name, `there is no field ${field} to sort by`)
          return { field, descending }
        })
        continue
      case "fields":
        once(name)
        fields = new Set(["id", ...list(value)])
        for (const field of fields)
          if (!Object.hasOwn(resource.fields, field) && !Object.hasOwn(resource.nested, field))
            throw bad(name, `there is no field ${field}`)
        for (const field of fields) if (Object.hasOwn(resource.nested, field)) expand.add(field)
        continue
      case "expand":
        once(name)
        for (const nested of list(value)) {
          if (!Object.hasOwn(resource.nested, nested))
            throw bad(name, `there is nothing nested called ${nested}`)
          expand.add(nested)
        }
        continue
    }
    if (selecting && name === "ids") {
      once(name)
      ids = list(value).flatMap((part) => idOf(part) ?? [])
      if (ids.length > idsMax) throw bad(name, `at most ${idsMax} ids`)
      continue
    }
    if (!Object.hasOwn(resource.fields, name))
      throw new Refused(400, `there is no parameter or field ${name}`)
    parseField(parsed, name, resource.fields[name]!, value, zone)
  }
  if (fields !== undefined) for (const nested of expand) fields.add(nested)
  const where: Array<Array<Unit>> = []
  parsed.units.forEach(({ unit, orLeft }, at) => {
    if (at === 0 || (orLeft && at > 0) || (at === 1 && parsed.units[0]!.orLeft)) where.push([unit])
    else where.at(-1)!.push(unit)
  })
  return {
    page,
    count,
    sort,
    fields,
    expand,
    where,
    ids,
    hasLongField: parsed.units.some(({ unit }) => isLong(resource.fields[unit.field]!))
  }
}
