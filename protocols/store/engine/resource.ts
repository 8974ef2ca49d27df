/** What a resource is: one declaration per file of resources/, from which the engine makes every call of it.
 *  Source: store sections 6 and 8. */
import { d, i, type Field, type FieldFault, type Fields, type Stored, type Values } from "./fields.ts"
import type { Area, Scope, Subject } from "../access/access.ts"
import type { Key, Store, Write } from "../../../storage/store.ts"
import type { Zone } from "../wire.ts"

/** A stored record. `values` holds only what differs from the field's initial value. */
export interface Row {
  readonly id: number
  readonly version: number
  readonly createdMs: number
  readonly updatedMs: number
  readonly values: Values
}

/** What reads records: the store as it is, or a transaction with what it has staged. */
export interface Reader {
  get(resource: string, id: number): Row | undefined
  /** Records of `resource` whose reference `field` is `id`, by id, at most `limit`. */
  children(resource: string, field: string, id: number, limit: number): ReadonlyArray<Row>
  show(resource: string, row: Row): Record<string, unknown>
}

/** Seals what only `/decrypted` shows. */
export interface FieldCipher {
  readonly seal: (plain: string, address: string) => Uint8Array
  /** Throws when it does not open. */
  readonly open: (sealed: Uint8Array, address: string) => string
}

/** Takes events into the outbox, inside the transaction. */
export interface Outbox {
  readonly wants: (event: string) => boolean
  readonly put: (tx: Transaction, event: string, body: unknown) => void
}

export interface Referrer {
  readonly of: string
  readonly field: string
  readonly gone: "refuse" | "cascade" | "keep"
}

/** All resources and their records: what a transaction stands on. */
export interface Catalog extends Reader {
  readonly store: Store
  readonly zone: Zone
  readonly vault: FieldCipher
  readonly outbox: Outbox
  resource(name: string): Resource
  referrers(name: string): ReadonlyArray<Referrer>
  count(name: string): number
  byUnique(space: string, value: string): readonly [string, number] | undefined
}

/** A transaction, as a resource's rules see it. */
export interface Transaction extends Reader {
  readonly engine: Catalog
  readonly nowMs: number
  readonly writes: Array<Write>
  readonly afterwards: Array<() => void>
  value(resource: string, row: Row, field: string): Stored
  next(table: string, key: Key): number
  emit(event: string, body: () => unknown): void
  add(table: string, key: Key, amount: number): void
  insert(name: string, given: Values): Row
  update(name: string, row: Row, given: Values): Row
  remove(name: string, row: Row): void
  decode(name: string, body: Readonly<Record<string, unknown>>, creating: boolean): Values
}

/** A record about to be written. `values` may be changed; `faults` become one 409. */
export interface Draft {
  readonly tx: Transaction
  readonly id: number
  readonly before: Row | undefined
  /** What the caller gave (by name), before defaults. */
  readonly given: Values
  readonly values: Record<string, Stored>
  readonly faults: Array<FieldFault>
}

export type Nested =
  /** Records of another resource which refer to this one. */
  | { readonly of: string; readonly by: string }
  /** Made from other resources; `from` names them all, for the cache. */
  | {
      readonly from: ReadonlyArray<string>
      readonly show: (read: Reader, row: Row, limit: number) => ReadonlyArray<unknown>
    }

export interface Change {
  readonly resource: string
  readonly id: number
  readonly before: Row | undefined
  readonly after: Row | undefined
}

export interface Resource {
  readonly name: string
  readonly singular: string
  readonly subject: Subject
  readonly area: Area
  readonly fields: Fields
  /** Names of some of them, gathered once: a product has 150 fields, a write touches five. */
  readonly required: ReadonlyArray<string>
  readonly references: ReadonlyArray<string>
  readonly uniques: ReadonlyArray<string>
  readonly nested: { readonly [name: string]: Nested }
  /** Only read through the API. */
  readonly readOnly?: boolean
  readonly uncached?: boolean
  readonly firstId?: number
  readonly rowsMax?: number
  /** A reply webhook asked before a create or update. */
  readonly validate?: string
  /** Computes and checks; throws Refused or adds faults. */
  readonly prepare?: (draft: Draft) => void
  /** After a create, in the same transaction; `extra` is the body. Its answer is shown beside the record,
   *  this once. */
  readonly created?: (
    tx: Transaction,
    row: Row,
    extra: Readonly<Record<string, unknown>>
  ) => Readonly<Record<string, unknown>> | undefined
  readonly removing?: (tx: Transaction, row: Row) => void
  /** Tells the webhooks what a change means. */
  readonly events?: (change: Change, tx: Transaction) => void
  /** Scopes of which a writer needs one more, by what it writes. */
  readonly alsoNeeds?: (body: Readonly<Record<string, unknown>>) => ReadonlyArray<Scope> | undefined
  /** An existing record that a create without an id means. */
  readonly same?: (tx: Transaction, values: Values) => Row | undefined
}

/** Fields every resource has. */
export const ownFields: Fields = {
  id: i(0, { readOnly: true }),
  created_at: d({ readOnly: true }),
  updated_at: d({ readOnly: true })
}

type Given = Omit<Resource, "nested" | "required" | "references" | "uniques"> & {
  readonly nested?: Resource["nested"]
}

export const resource = (given: Given): Resource => {
  const fields: Fields = {
    id: ownFields["id"]!,
    ...given.fields,
    created_at: ownFields["created_at"]!,
    updated_at: ownFields["updated_at"]!
  }
  const names = (of: (field: Field) => boolean): ReadonlyArray<string> =>
    Object.keys(fields).filter((name) => of(fields[name]!))
  return {
    ...given,
    nested: given.nested ?? {},
    fields,
    required: names(({ required }) => required === true),
    references: names(({ to }) => to !== undefined),
    uniques: names(({ unique }) => unique !== undefined)
  }
}

export const valueOf = ({ fields }: Pick<Resource, "fields">, row: Row, name: string): Stored => {
  if (name === "id") return row.id
  if (name === "updated_at") return row.updatedMs
  if (name === "created_at") return row.createdMs
  return Object.hasOwn(row.values, name) ? row.values[name]! : fields[name]!.initial
}
