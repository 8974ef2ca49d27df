/** Create, update, delete and batch import of any resource, under the preconditions of their request. Each
 *  write is one commit, and its answer leaves after it.
 *  Source: docs/spec/store.md, sections 6.5 to 6.8. */
import { Effect } from "effect"
import { ruled } from "../later.ts"
import { invalid, notFound, Refusal, wordingOf } from "../problems.ts"
import type { JsonObject } from "../wire.ts"
import type { Engine } from "./engine.ts"
import type { Resource, Row, Transaction } from "./resource.ts"

/** The answer to a write. `row` is absent when it is an earlier answer again. */
export interface WriteAnswer {
  readonly status: number
  readonly body: string
  readonly row?: Row
}

/** Stores an answer inside the transaction of its write. */
export type StoreAnswer = (tx: Transaction, answer: WriteAnswer) => void

/** A record after it was created or changed. Only this answer has `extra` beside the record. */
interface WriteResult {
  readonly status: number
  readonly row: Row
  readonly extra: JsonObject | undefined
}

/** Asks the reply webhooks about what is to be written. */
export interface Validation {
  /** Returns whether any webhook would be asked. */
  readonly isAsked: (event: string) => boolean
  /** Asks the webhooks; fails when one objects. */
  readonly ask: (event: string, body: unknown) => Effect.Effect<void, Refusal>
}

export const etagOf = (row: Row): string => `"${row.id}-${row.version}"`

export interface Preconditions {
  readonly match: string | undefined
  readonly unmodifiedSince: string | undefined
}

/** No precondition at all. */
export const unconditional: Preconditions = { match: undefined, unmodifiedSince: undefined }

const holds = ({ match, unmodifiedSince }: Preconditions, row: Row): boolean => {
  if (match !== undefined)
    return match.trim() === "*" || match.split(",").some((tag) => tag.trim() === etagOf(row))
  const sinceMs = unmodifiedSince === undefined ? NaN : Date.parse(unmodifiedSince)
  return Number.isNaN(sinceMs) || row.updatedMs < sinceMs + 1_000
}

/** The record that a request names. */
export interface RecordAddress {
  readonly resource: Resource
  readonly id: number
}

const rowToWrite = (tx: Transaction, { resource, id }: RecordAddress, conditions: Preconditions): Row => {
  const row = tx.get(resource.name, id)
  if (row === undefined) throw notFound(`there is no such ${resource.singular}`)
  if (!holds(conditions, row)) throw new Refusal({ _tag: "Changed" })
  return row
}

/** Members that an entry of an import names beside its product, which then refers to them. */
const importedWithProduct = [
  { member: "category", resource: "categories", field: "primary_category_id" },
  { member: "manufacturer", resource: "manufacturers", field: "manufacturer_id" }
] as const

/** A member of an import's entry: an object, or absent. */
const memberOf = (entry: JsonObject, name: string): JsonObject | undefined => {
  const value = Object.hasOwn(entry, name) ? entry[name] : undefined
  if (value === undefined || value === null) return undefined
  if (typeof value !== "object" || Array.isArray(value)) throw invalid(`${name} must be an object`)
  return value as JsonObject
}

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export class RecordWrites {
  private readonly engine: Engine
  private readonly validation: Validation

  constructor(engine: Engine, validation: Validation) {
    this.engine = engine
    this.validation = validation
  }

  create(resource: Resource, body: JsonObject, store?: StoreAnswer): Effect.Effect<WriteAnswer, Refusal> {
    const attempt = (tx: Transaction): WriteAnswer => this.answer(resource, this.upsert(tx, resource, body))
    const written = this.engine.write((tx) => {
      const answer = attempt(tx)
      store?.(tx, answer)
      return answer
    })
    return this.validated(resource, attempt, written)
  }

  update(
    address: RecordAddress,
    body: JsonObject,
    conditions: Preconditions = unconditional
  ): Effect.Effect<WriteAnswer, Refusal> {
    const { resource } = address
    const attempt = (tx: Transaction): WriteAnswer => {
      const changes = tx.decode(resource.name, body, false)
      const row = tx.update(resource.name, rowToWrite(tx, address, conditions), changes)
      return this.answer(resource, { status: 200, row, extra: undefined })
    }
    return this.validated(resource, attempt, this.engine.write(attempt))
  }

  remove(address: RecordAddress, conditions: Preconditions): Effect.Effect<void, Refusal> {
    return this.engine.write((tx) => {
      tx.remove(address.resource.name, rowToWrite(tx, address, conditions))
    })
  }

  /** Imports each entry in a transaction of its own, in order; several may share a flush. */
  importMany(resource: Resource, entries: ReadonlyArray<unknown>): Effect.Effect<string> {
    const imported = Effect.forEach(
      entries,
      (entry, line) =>
        Effect.match(
          ruled(() => this.importOne(resource, entry)),
          {
            onSuccess: ({ status, row }) => ({ line_item: line, status_code: status, entity_id: row.id }),
            onFailure: ({ problem }) => {
              const { status, details, errors } = wordingOf(problem)
              return { line_item: line, status_code: status, details, errors }
            }
          }
        ),
      { concurrency: "unbounded" }
    )
    return Effect.map(imported, (results) =>
      JSON.stringify({
        total_errors: results.filter(({ status_code }) => status_code >= 400).length,
        results
      })
    )
  }

  private importOne(resource: Resource, entry: unknown): Effect.Effect<WriteResult, Refusal> {
    const members = isObject(entry) ? entry : {}
    const body = memberOf(members, resource.singular)
    if (body === undefined) throw invalid(`an entry holds a ${resource.singular}`)
    const attempt = (tx: Transaction): WriteResult => {
      const completed = resource.name === "products" ? this.completeProduct(tx, members, body) : body
      return this.upsert(tx, resource, completed)
    }
    return this.validated(resource, (tx) => this.answer(resource, attempt(tx)), this.engine.write(attempt))
  }

  /** The body of an imported product, with the ids of what its entry names beside it. */
  private completeProduct(tx: Transaction, entry: JsonObject, body: JsonObject): JsonObject {
    const completed: Record<string, unknown> = { ...body }
    for (const { member, resource, field } of importedWithProduct) {
      const record = memberOf(entry, member)
      if (record !== undefined)
        completed[field] = this.upsert(tx, this.engine.resource(resource), record).row.id
    }
    if (entry["lookup_by_sku"] === true && typeof completed["item_number"] === "string") {
      const holder = this.engine.byUnique("item_number", completed["item_number"])
      if (holder?.[0] === "products") completed["id"] = holder[1]
    }
    return completed
  }

  /** Creates a record, or changes the one that the body means. Synchronous, so it can be tried before it is
   *  done. */
  private upsert(tx: Transaction, resource: Resource, body: JsonObject): WriteResult {
    const { id } = body
    const addressed =
      typeof id === "number" && Number.isSafeInteger(id) && id > 0 ? tx.get(resource.name, id) : undefined
    const values = tx.decode(resource.name, body, addressed === undefined)
    const existing = addressed ?? resource.existing?.(tx, values)
    if (existing !== undefined)
      return { status: 200, row: tx.update(resource.name, existing, values), extra: undefined }
    const row = tx.insert(resource.name, values)
    const extra = resource.created?.(tx, row, body)
    return { status: 201, row: tx.get(resource.name, row.id) ?? row, extra }
  }

  private answer({ name }: Resource, { status, row, extra }: WriteResult): WriteAnswer {
    const body =
      extra === undefined
        ? this.engine.text(name, row)
        : JSON.stringify({ ...this.engine.represent(name, row), ...extra })
    return { status, row, body }
  }

  /** Asks the reply webhooks about the record that the write would produce, then writes. */
  private validated<A>(
    { validate, singular }: Resource,
    attempt: (tx: Transaction) => WriteAnswer,
    written: Effect.Effect<A, Refusal>
  ): Effect.Effect<A, Refusal> {
    if (validate === undefined || !this.validation.isAsked(validate)) return written
    const asked = ruled(() => {
      const { body } = this.engine.attempt(attempt)
      return this.validation.ask(validate, { [singular]: JSON.parse(body) })
    })
    return Effect.andThen(asked, written)
  }
}
