/** The resource engine: rows, the references among them, their versions for the cache, and the single commit
 *  of every write. Guarantee: an answer is sent only after its commit is flushed; a lost commit drops
 *  everything derived from it.
 *  Source: docs/spec/store.md, sections 1, 6, 10. */
import { Effect } from "effect"
import { Conflict, type StorageFault, type Store } from "../../../storage/store.ts"
import { Columns } from "./columns.ts"
import { encodeField, fold, type Field } from "./fields.ts"
import { conflict, failureOf, unavailable, type Refusal } from "../problems.ts"
import {
  valueOf,
  type Catalog,
  type Outbox,
  type Referrer,
  type Resource,
  type Row,
  type Transaction,
  type FieldCipher
} from "./resource.ts"
import { Collections, References, Rows, Uniques } from "./records.ts"
import { StagedTransaction } from "./transaction.ts"
import type { Zone } from "../wire.ts"

/** A field of a resource, and the text of its initial value. */
type InitialText = readonly [name: string, field: Field, text: string]

export class Engine implements Catalog {
  readonly store: Store
  readonly zone: Zone
  readonly cipher: FieldCipher
  readonly clock: () => number
  readonly resources: ReadonlyMap<string, Resource>
  outbox: Outbox = { wants: () => false, put: () => {} }
  private readonly versions = new Map<string, number>()
  private readonly columns = new Map<string, Columns>()
  private readonly initial = new Map<string, ReadonlyArray<InitialText>>()
  private readonly referring = new Map<string, Array<Referrer>>()

  constructor(
    store: Store,
    resources: ReadonlyArray<Resource>,
    options: { readonly zone: Zone; readonly cipher: FieldCipher; readonly clock: () => number }
  ) {
    this.store = store
    this.zone = options.zone
    this.cipher = options.cipher
    this.clock = options.clock
    this.resources = new Map(resources.map((resource) => [resource.name, resource]))
    for (const { name, fields } of resources)
      for (const [field, { references, onDelete = "refuse" }] of Object.entries(fields)) {
        if (references !== undefined)
          this.referring.set(references, [
            ...(this.referring.get(references) ?? []),
            { resource: name, field, onDelete }
          ])
      }
  }

  resource(name: string): Resource {
    return this.resources.get(name)!
  }

  referrers(name: string): ReadonlyArray<Referrer> {
    return this.referring.get(name) ?? []
  }

  get(resource: string, id: number): Row | undefined {
    const row = Rows.get(this.store, [resource, id])
    return row === undefined ? undefined : { id, ...row }
  }

  children(resource: string, field: string, id: number, limit: number): ReadonlyArray<Row> {
    return References.range(this.store, { prefix: [resource, field, id], limit }).flatMap(
      ({ key }) => this.get(resource, key[3] as number) ?? []
    )
  }

  /** Returns a record in the form of an answer, without nested ones. */
  represent(name: string, row: Row): Record<string, unknown> {
    const resource = this.resource(name)
    const representation: Record<string, unknown> = {}
    for (const field in resource.fields)
      representation[field] = encodeField(resource.fields[field]!, valueOf(resource, row, field), this.zone)
    return representation
  }

  /** The number of records of a small collection, counted by reading. */
  count(resource: string): number {
    return Rows.range(this.store, { prefix: [resource], limit: 10_000 }).length
  }

  all(resource: string, limit = 1_000): ReadonlyArray<Row> {
    return Rows.range(this.store, { prefix: [resource], limit }).map(({ key, value }) => ({
      id: key[1] as number,
      ...value
    }))
  }

  /** The ids that come after `after`, ascending. */
  page(resource: string, after: number, limit: number): ReadonlyArray<number> {
    return Rows.range(this.store, {
      prefix: [resource],
      ...(after === 0 ? {} : { after: [resource, after] }),
      limit
    }).map(({ key }) => key[1] as number)
  }

  /** `represent` as JSON text. Most fields of a record have their initial value, which is written once for
   *  all records. */
  text(name: string, row: Row): string {
    const { values } = row
    const fields = this.initialTexts(name)
    let text = `{"id":${row.id}`
    for (let at = 1; at < fields.length; at++) {
      const [fieldName, field, initialText] = fields[at]!
      if (Object.hasOwn(values, fieldName))
        text += `,"${fieldName}":${JSON.stringify(encodeField(field, values[fieldName]!, this.zone))}`
      else if (fieldName === "created_at") text += `,"created_at":"${this.zone.format(row.createdMs)}"`
      else if (fieldName === "updated_at") text += `,"updated_at":"${this.zone.format(row.updatedMs)}"`
      else text += initialText
    }
    return `${text}}`
  }

  private initialTexts(name: string): ReadonlyArray<InitialText> {
    const existing = this.initial.get(name)
    if (existing !== undefined) return existing
    const texts = Object.entries(this.resource(name).fields).map(([fieldName, field]): InitialText => {
      const initial = JSON.stringify(encodeField(field, field.initial, this.zone))
      return [fieldName, field, `,${JSON.stringify(fieldName)}:${initial}`]
    })
    this.initial.set(name, texts)
    return texts
  }

  columnsOf(name: string): Columns {
    const existing = this.columns.get(name)
    if (existing !== undefined) return existing
    const columns = new Columns(this.resource(name), this.store)
    this.columns.set(name, columns)
    return columns
  }

  version(resource: string): number {
    return this.versions.get(resource) ?? 0
  }

  changedMs(resource: string): number {
    return Collections.get(this.store, [resource]) ?? 0
  }

  /** The resource and id of the record that has a unique value. */
  byUnique(space: string, value: string): readonly [string, number] | undefined {
    return value === "" ? undefined : Uniques.get(this.store, [space, fold(value)])
  }

  /** Returns what `work` would answer; nothing is written. */
  attempt<A>(work: (tx: Transaction) => A): A {
    return work(new StagedTransaction(this, this.clock()))
  }

  /** Runs `work` and commits what it wrote, in one turn; answers when that is durable. When `work` throws,
   *  nothing is written. Who is interrupted stops waiting; the commit is on its way. */
  write<A>(work: (tx: Transaction) => A): Effect.Effect<A, Refusal> {
    return Effect.callback((resume) => {
      try {
        this.commit(work, resume)
      } catch (cause) {
        resume(failureOf(cause))
      }
    })
  }

  private commit<A>(work: (tx: Transaction) => A, resume: (answer: Effect.Effect<A, Refusal>) => void): void {
    const tx = new StagedTransaction(this, this.clock())
    const value = work(tx)
    const writes = tx.finish()
    if (writes.length === 0) return resume(Effect.succeed(value))
    const lost = this.store.commit(writes, (fault) => {
      if (fault === undefined) {
        for (const then of tx.afterwards) then()
        return resume(Effect.succeed(value))
      }
      this.forget()
      resume(Effect.fail(storageRefusal(fault)))
    })
    if (lost instanceof Conflict)
      return resume(Effect.fail(conflict("another write came first, please repeat")))
    for (const change of tx.changes.values()) {
      this.versions.set(change.resource, this.version(change.resource) + 1)
      this.columns.get(change.resource)?.apply(change)
    }
  }

  /** Drops what was derived from a commit that was lost. */
  private forget(): void {
    this.columns.clear()
    for (const name of this.resources.keys()) this.versions.set(name, this.version(name) + 1)
  }
}

const storageRefusal = (fault: StorageFault): Refusal =>
  unavailable(fault.reason === "full" ? "storage is full" : "storage is not available", fault)
