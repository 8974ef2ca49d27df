/** Defines a resource: one declaration in a file of resources/, from which the engine derives every call of
 *  it, and the interfaces through which its rules read and write records.
 *  Source: docs/spec/store.md, sections 6 and 8. */
import { field, type Field, type FieldFault, type Fields } from "./fields.ts"
import type { OnDelete, Stored, ValueOf, Values } from "./fields.ts"
import type { Area, Scope, Subject } from "../access/scopes.ts"
import type { Key, Store, Write } from "../../../storage/store.ts"
import type { JsonObject, Zone } from "../wire.ts"

/** A stored record. `values` holds only what differs from the field's initial value. */
export interface Row {
  readonly id: number
  readonly version: number
  readonly createdMs: number
  readonly updatedMs: number
  readonly values: Values
}

/** Reads records: of the store as it is, or of a transaction with what it has staged. */
export interface Reader {
  get(resource: string, id: number): Row | undefined
  /** Records of `resource` whose reference `field` is `id`, by id, at most `limit`. */
  children(resource: string, field: string, id: number, limit: number): ReadonlyArray<Row>
  /** Returns a record in the form of an answer, without nested ones. */
  represent(resource: string, row: Row): Record<string, unknown>
}

/** Encrypts the fields that only `/decrypted` shows. `address` binds a sealed value to its place. */
export interface FieldCipher {
  readonly seal: (plain: string, address: string) => Uint8Array
  /** Decrypts a value; throws when it is not authentic. */
  readonly open: (sealed: Uint8Array, address: string) => string
}

/** Takes events of the webhooks, inside the transaction that makes them. */
export interface Outbox {
  readonly wants: (event: string) => boolean
  readonly put: (tx: Transaction, event: string, body: unknown) => void
}

/** A field of another resource that refers to this one. */
export interface Referrer {
  readonly resource: string
  readonly field: string
  readonly onDelete: OnDelete
}

/** All resources and their records, as a transaction needs them. */
export interface Catalog extends Reader {
  readonly store: Store
  readonly zone: Zone
  readonly cipher: FieldCipher
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
  insert(name: string, input: Values): Row
  update(name: string, row: Row, changes: Values): Row
  remove(name: string, row: Row): void
  decode(name: string, body: JsonObject, creating: boolean): Values
}

/** A record about to be written. `values` may be changed; `faults` become one 409. */
export interface Draft {
  readonly tx: Transaction
  readonly id: number
  readonly before: Row | undefined
  /** The values that the caller has set, before defaults. */
  readonly input: Values
  readonly values: Record<string, Stored>
  readonly faults: Array<FieldFault>
}

/** Records of another resource, found by their field that refers to this one. */
export interface NestedRecords {
  readonly of: string
  readonly by: string
}

/** A list made from other resources; `from` names them all, for the cache. */
export interface NestedView {
  readonly from: ReadonlyArray<string>
  readonly list: (read: Reader, row: Row, limit: number) => ReadonlyArray<unknown>
}

export type Nested = NestedRecords | NestedView

/** The change of one record by one transaction. */
export interface Change {
  readonly resource: string
  readonly id: number
  readonly before: Row | undefined
  readonly after: Row | undefined
}

export interface Resource<F extends Fields = Fields> {
  readonly name: string
  readonly singular: string
  readonly subject: Subject
  readonly area: Area
  readonly fields: F
  /** Names of fields by kind, collected once: a product has 150 fields, a write touches five. */
  readonly required: ReadonlyArray<string>
  readonly references: ReadonlyArray<string>
  readonly uniques: ReadonlyArray<string>
  readonly nested: { readonly [name: string]: Nested }
  /** True when the API only reads it. */
  readonly readOnly?: boolean
  readonly uncached?: boolean
  readonly firstId?: number
  readonly rowsMax?: number
  /** The event whose reply webhooks are asked before a create or update. */
  readonly validate?: string
  /** Computes and checks a record before it is written; throws Refusal or adds faults. */
  readonly prepare?: (draft: Draft) => void
  /** Runs after a create, in the same transaction. The answer to the create has what it returns beside the
   *  record. */
  readonly created?: (tx: Transaction, row: Row, body: JsonObject) => JsonObject | undefined
  /** Runs before a record is removed; throws Refusal. */
  readonly removing?: (tx: Transaction, row: Row) => void
  /** Emits the events of the webhooks that a change means. */
  readonly events?: (change: Change, tx: Transaction) => void
  /** Additional scopes, of which a writer needs one, by the content of the body. */
  readonly alsoNeeds?: (body: JsonObject) => ReadonlyArray<Scope> | undefined
  /** The existing record that a create without an id means. */
  readonly existing?: (tx: Transaction, values: Values) => Row | undefined
}

/** The fields that every resource has. */
const commonFields = {
  id: field.integer(0, { readOnly: true }),
  created_at: field.datetime({ readOnly: true }),
  updated_at: field.datetime({ readOnly: true })
}

type Declaration<F extends Fields> = Omit<Resource<F>, "nested" | "required" | "references" | "uniques"> & {
  readonly nested?: Resource["nested"]
}

/** Declares a resource: adds the common fields, and gathers the names that every write asks for. */
export const resource = <F extends Fields>(
  declaration: Declaration<F>
): Resource<F & typeof commonFields> => {
  const fields = {
    id: commonFields.id,
    ...declaration.fields,
    created_at: commonFields.created_at,
    updated_at: commonFields.updated_at
  }
  const namesWhere = (test: (declared: Field) => boolean): ReadonlyArray<string> =>
    Object.entries<Field>(fields)
      .filter(([, declared]) => test(declared))
      .map(([name]) => name)
  return {
    ...declaration,
    nested: declaration.nested ?? {},
    fields,
    required: namesWhere(({ required }) => required === true),
    references: namesWhere(({ references }) => references !== undefined),
    uniques: namesWhere(({ unique }) => unique !== undefined)
  }
}

/** The stored value of a record's field, or the field's initial one. */
export const valueOf = <F extends Fields, Name extends keyof F & string>(
  { fields }: { readonly fields: F },
  row: Row,
  name: Name
): ValueOf<F[Name]> => storedOf(fields, row, name) as ValueOf<F[Name]>

const storedOf = (fields: Fields, row: Row, name: string): Stored => {
  if (name === "id") return row.id
  if (name === "updated_at") return row.updatedMs
  if (name === "created_at") return row.createdMs
  return Object.hasOwn(row.values, name) ? row.values[name]! : fields[name]!.initial
}
