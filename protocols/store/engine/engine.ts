/** The resource engine's heart: rows, what refers to them, their versions for the cache, and the one commit
 *  of every write. An answer leaves only after its commit is flushed; a lost commit drops all that was
 *  derived from it. Source: store sections 1, 6, 10. */
import { Conflict, StorageFault, type Store } from "../../../storage/store.ts"
import { Columns } from "./columns.ts"
import { encodeField, fold, type Field } from "./fields.ts"
import { Refused } from "../problems.ts"
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

export class Engine implements Catalog {
  readonly store: Store
  readonly zone: Zone
  readonly vault: FieldCipher
  readonly clock: () => number
  readonly resources: ReadonlyMap<string, Resource>
  outbox: Outbox = { wants: () => false, put: () => {} }
  private readonly versions = new Map<string, number>()
  private readonly columns = new Map<string, Columns>()
  private readonly initial = new Map<string, ReadonlyArray<readonly [string, Field, string]>>()
  private readonly referring = new Map<string, Array<Referrer>>()

  constructor(
    store: Store,
    resources: ReadonlyArray<Resource>,
    options: { readonly zone: Zone; readonly vault: FieldCipher; readonly clock: () => number }
  ) {
    this.store = store
    this.zone = options.zone
    this.vault = options.vault
    this.clock = options.clock
    this.resources = new Map(resources.map((resource) => [resource.name, resource]))
    for (const { name, fields } of resources)
      for (const [field, { to, gone }] of Object.entries(fields)) {
        if (to !== undefined)
          this.referring.set(to, [
            ...(this.referring.get(to) ?? []),
            { of: name, field, gone: gone ?? "refuse" }
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

  /** What goes out for a record, without nested ones. */
  show(name: string, row: Row): Record<string, unknown> {
    const resource = this.resource(name)
    const shown: Record<string, unknown> = {}
    for (const field in resource.fields)
      shown[field] = encodeField(resource.fields[field]!, valueOf(resource, row, field), this.zone)
    return shown
  }

  /** Of a small collection: counted by reading. */
  count(resource: string): number {
    return Rows.range(this.store, { prefix: [resource], limit: 10_000 }).length
  }

  all(resource: string, limit = 1_000): ReadonlyArray<Row> {
    return Rows.range(this.store, { prefix: [resource], limit }).map(({ key, value }) => ({
      id: key[1] as number,
      ...value
    }))
  }

  /** Ids after `after`, ascending. */
  page(resource: string, after: number, limit: number): ReadonlyArray<number> {
    return Rows.range(this.store, {
      prefix: [resource],
      ...(after === 0 ? {} : { after: [resource, after] }),
      limit
    }).map(({ key }) => key[1] as number)
  }

  /** `show` as JSON text, the fields at their initial values written once for all: most of a record is. */
  text(name: string, row: Row): string {
    let initial = this.initial.get(name)
    const resource = this.resource(name)
    const { values } = row
    if (initial === undefined)
      this.initial.set(
        name,
        (initial = Object.entries(resource.fields).map(
          ([field, about]) =>
            [
              field,
              about,
              `,${JSON.stringify(field)}:${JSON.stringify(encodeField(about, about.initial, this.zone))}`
            ] as const
        ))
      )
    let text = `{"id":${row.id}`
    for (let at = 1; at < initial.length; at++) {
      const [field, about, unset] = initial[at]!
      text += Object.hasOwn(values, field)
        ? `,"${field}":${JSON.stringify(encodeField(about, values[field]!, this.zone))}`
        : field === "created_at" || field === "updated_at"
          ? `,"${field}":"${this.zone.format(field === "created_at" ? row.createdMs : row.updatedMs)}"`
          : unset
    }
    return `${text}}`
  }

  columnsOf(name: string): Columns {
    let columns = this.columns.get(name)
    if (columns === undefined)
      this.columns.set(name, (columns = new Columns(this.resource(name), this.store)))
    return columns
  }

  version(resource: string): number {
    return this.versions.get(resource) ?? 0
  }

  changedMs(resource: string): number {
    return Collections.get(this.store, [resource]) ?? 0
  }

  /** Which record has that unique value: resource and id. */
  byUnique(space: string, value: string): readonly [string, number] | undefined {
    return value === "" ? undefined : Uniques.get(this.store, [space, fold(value)])
  }

  /** What `work` would answer; nothing is written. */
  attempt<A>(work: (tx: Transaction) => A): A {
    return work(new StagedTransaction(this, this.clock()))
  }

  /** Runs `work` and commits what it wrote, in this turn; resolves with its answer when that is durable. What
   *  it throws, nothing was written. */
  write<A>(work: (tx: Transaction) => A): Promise<A> {
    return new Promise((resolve, reject) => {
      const tx = new StagedTransaction(this, this.clock())
      const value = work(tx)
      const writes = tx.finish()
      if (writes.length === 0) return resolve(value)
      const conflict = this.store.commit(writes, (fault) => {
        if (fault === undefined) {
          for (const then of tx.afterwards) then()
          return resolve(value)
        }
        this.forget()
        reject(storageRefused(fault))
      })
      if (conflict instanceof Conflict)
        return reject(new Refused(409, "another write came first, please repeat"))
      for (const change of tx.changes.values()) {
        this.versions.set(change.resource, this.version(change.resource) + 1)
        this.columns.get(change.resource)?.apply(change)
      }
    })
  }

  /** A commit was lost: nothing derived from it may stay. */
  private forget(): void {
    this.columns.clear()
    for (const name of this.resources.keys()) this.versions.set(name, this.version(name) + 1)
  }
}

export const storageRefused = (fault: StorageFault): Refused =>
  new Refused(503, fault.reason === "full" ? "storage is full" : "storage is not available")
