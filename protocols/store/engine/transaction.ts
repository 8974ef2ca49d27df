/** One write to the store: reads see what it has staged; records, their indexes, sequences, outbox entries
 *  and whatever else it adds become one commit, or nothing. It begins and commits within one turn, so two of
 *  them never interleave.
 *  Source: docs/spec/store.md, sections 6.1, 6.5, 9.2, 10; docs/design.md, section 3 (rows are no actors). */
import type { Key, Write } from "../../../storage/store.ts"
import { decodeField, fold, type FieldFault, type Stored, type Values } from "./fields.ts"
import { refuseFields, conflict } from "../problems.ts"
import { References, Rows, Uniques, Collections } from "./records.ts"
import {
  valueOf,
  type Catalog,
  type Change,
  type Draft,
  type Referrer,
  type Resource,
  type Row,
  type Transaction
} from "./resource.ts"
import type { JsonObject } from "../wire.ts"

const idCounter = "store-ids"

const cascadeMax = 10_000
const uniqueKey = (space: string, value: string): Key => [space, fold(value)]

/** Returns whether two stored values are equal; lists and objects are compared as JSON. */
const same = (a: Stored | undefined, b: Stored | undefined): boolean =>
  a === b ||
  (typeof a === "object" &&
    typeof b === "object" &&
    a !== null &&
    b !== null &&
    JSON.stringify(a) === JSON.stringify(b))

/** A durable counter, with this transaction's own steps. */
interface Counter {
  readonly table: string
  readonly key: Key
  value: number
  added: number
}

/** A field's value before and after a write. */
interface FieldChange {
  readonly name: string
  readonly before: Stored | undefined
  readonly after: Stored | undefined
}

export class StagedTransaction implements Transaction {
  readonly engine: Catalog
  readonly nowMs: number
  readonly changes = new Map<string, Change>()
  readonly writes: Array<Write> = []

  /** They are called once the commit is durable. */
  readonly afterwards: Array<() => void> = []

  private readonly counters = new Map<string, Counter>()
  private readonly uniques = new Map<string, readonly [string, number] | undefined>()

  constructor(engine: Catalog, nowMs: number) {
    this.engine = engine
    this.nowMs = nowMs
  }

  get(resource: string, id: number): Row | undefined {
    const staged = this.changes.get(`${resource}/${id}`)
    return staged === undefined ? this.engine.get(resource, id) : staged.after
  }

  children(resource: string, field: string, id: number, limit: number): ReadonlyArray<Row> {
    const committed = this.engine.children(resource, field, id, limit + this.changes.size)
    const { fields } = this.engine.resource(resource)
    const rows = committed.filter((row) => !this.changes.has(`${resource}/${row.id}`))
    for (const change of this.changes.values()) {
      const { after } = change
      if (change.resource === resource && after !== undefined && valueOf({ fields }, after, field) === id)
        rows.push(after)
    }
    return rows.sort((a, b) => a.id - b.id).slice(0, limit)
  }

  represent(resource: string, row: Row): Record<string, unknown> {
    return this.engine.represent(resource, row)
  }

  value(resource: string, row: Row, field: string): Stored {
    return valueOf(this.engine.resource(resource), row, field)
  }

  /** The next number of a durable counter. */
  next(table: string, key: Key): number {
    const counter = this.counter(table, key)
    counter.added++
    return ++counter.value
  }

  private counter(table: string, key: Key): Counter {
    const name = `${table}\0${key.join("\0")}`
    const existing = this.counters.get(name)
    if (existing !== undefined) return existing
    const counter = { table, key, value: this.engine.store.counter(table, key), added: 0 }
    this.counters.set(name, counter)
    return counter
  }

  /** Puts an event into the outbox of its subscribers; its body is built only when there are any. */
  emit(event: string, body: () => unknown): void {
    if (this.engine.outbox.wants(event)) this.engine.outbox.put(this, event, body())
  }

  add(table: string, key: Key, amount: number): void {
    this.writes.push({ _tag: "add", table, key, amount })
  }

  /** Creates a record with a new id; `input` are stored values. */
  insert(name: string, input: Values): Row {
    const resource = this.engine.resource(name)
    if (resource.rowsMax !== undefined && this.engine.count(name) >= resource.rowsMax)
      throw conflict(`there are at most ${resource.rowsMax} ${name}`)
    const id = this.next(idCounter, [name]) + (resource.firstId ?? 1) - 1
    return this.stage(resource, { id, before: undefined }, input)
  }

  /** Changes a record; the same record comes back when nothing differs. */
  update(name: string, row: Row, changes: Values): Row {
    return this.stage(this.engine.resource(name), { id: row.id, before: row }, changes)
  }

  private stage(
    resource: Resource,
    { id, before }: { readonly id: number; readonly before: Row | undefined },
    input: Values
  ): Row {
    const values: Record<string, Stored> = { ...before?.values, ...input }
    const draft: Draft = { tx: this, id, before, input, values, faults: [] }
    resource.prepare?.(draft)
    this.normalize(resource, id, values)
    const changes = Object.keys({ ...before?.values, ...values }).flatMap((name): Array<FieldChange> => {
      const change = { name, before: before?.values[name], after: values[name] }
      return same(change.before, change.after) ? [] : [change]
    })
    if (before !== undefined && changes.length === 0 && draft.faults.length === 0) return before
    draft.faults.push(
      ...this.referenceFaults(resource, changes, before === undefined),
      ...changes.flatMap((change) => this.claimUnique(resource, id, change) ?? [])
    )
    if (draft.faults.length > 0) throw refuseFields("conflict", draft.faults)
    const updatedMs = before === undefined ? this.nowMs : Math.max(this.nowMs, before.updatedMs + 1)
    return this.put(resource.name, {
      id,
      version: (before?.version ?? 0) + 1,
      createdMs: before?.createdMs ?? this.nowMs,
      updatedMs,
      values
    })
  }

  /** Encrypts what is sealed, and leaves out what has its initial value. */
  private normalize(resource: Resource, id: number, values: Record<string, Stored>): void {
    for (const [name, value] of Object.entries(values)) {
      const field = resource.fields[name]!
      if (field.sealed === true && typeof value === "string")
        values[name] = value === "" ? null : this.engine.cipher.seal(value, `${resource.name}/${id}/${name}`)
      if (same(values[name], field.initial)) delete values[name]
    }
  }

  /** A required reference of a new record is checked even when it was left out. */
  private referenceFaults(
    resource: Resource,
    changes: ReadonlyArray<FieldChange>,
    isNew: boolean
  ): ReadonlyArray<FieldFault> {
    const { fields, required } = resource
    const changed = new Set(changes.map(({ name }) => name))
    const leftOut = isNew
      ? required.filter((name) => fields[name]!.references !== undefined && !changed.has(name))
      : []
    return [
      ...changes.flatMap(({ name, after }) => this.referenceFault(resource, name, after) ?? []),
      ...leftOut.flatMap((name) => this.referenceFault(resource, name, fields[name]!.initial) ?? [])
    ]
  }

  private referenceFault(
    { fields, name: resource }: Resource,
    name: string,
    value: Stored | undefined
  ): FieldFault | undefined {
    const { references, required } = fields[name]!
    if (references === undefined) return undefined
    const isFault =
      typeof value === "number" && value > 0 ? this.get(references, value) === undefined : required === true
    return isFault
      ? { field: name, code: "not_found", message: `names no record of ${references} (${resource})` }
      : undefined
  }

  /** Claims a unique value for the record and releases its former one; returns a fault when another record
   *  has it. */
  private claimUnique(
    { fields, name: resource }: Resource,
    id: number,
    { name, before, after }: FieldChange
  ): FieldFault | undefined {
    const space = fields[name]!.unique
    if (space === undefined) return undefined
    const nameOf = (text: string): string => `${space}\0${fold(text)}`
    if (typeof after === "string" && after !== "") {
      const holder = this.uniques.has(nameOf(after))
        ? this.uniques.get(nameOf(after))
        : Uniques.get(this.engine.store, uniqueKey(space, after))
      if (holder !== undefined && (holder[0] !== resource || holder[1] !== id))
        return { field: name, code: "not_unique", message: "is taken by another record" }
    }
    if (typeof before === "string" && before !== "") this.uniques.set(nameOf(before), undefined)
    if (typeof after === "string" && after !== "") this.uniques.set(nameOf(after), [resource, id])
    return undefined
  }

  private put(resource: string, after: Row): Row {
    const name = `${resource}/${after.id}`
    const staged = this.changes.get(name)
    this.changes.set(name, {
      resource,
      id: after.id,
      before: staged === undefined ? this.engine.get(resource, after.id) : staged.before,
      after
    })
    return after
  }

  /** Deletes a record and what belongs to it; refuses with 409 when others need it. */
  remove(name: string, row: Row): void {
    const resource = this.engine.resource(name)
    resource.removing?.(this, row)
    for (const referrer of this.engine.referrers(name)) this.removeReferring(resource, row.id, referrer)
    for (const field of resource.uniques) {
      const value = row.values[field]
      if (typeof value === "string" && value !== "")
        this.uniques.set(`${resource.fields[field]!.unique}\0${fold(value)}`, undefined)
    }
    const staged = this.changes.get(`${name}/${row.id}`)
    this.changes.set(`${name}/${row.id}`, {
      resource: name,
      id: row.id,
      before: staged === undefined ? row : staged.before,
      after: undefined
    })
  }

  /** Applies to the records that refer to a removed one the rule that their field declares. */
  private removeReferring(
    resource: Resource,
    id: number,
    { resource: name, field, onDelete }: Referrer
  ): void {
    if (onDelete === "keep") return
    const referring = this.children(name, field, id, onDelete === "refuse" ? 1 : cascadeMax)
    if (onDelete === "refuse" && referring.length > 0)
      throw conflict(`this ${resource.singular} is in use by ${name}`, [
        { field, code: "in_use", message: `${name} use it` }
      ])
    if (referring.length >= cascadeMax) throw conflict(`too many ${name} belong to it`)
    for (const child of referring) this.remove(name, child)
  }

  /** Reads fields from a body. Unknown and read-only members are ignored; all faults are reported together
   *  (400). */
  decode(name: string, body: JsonObject, creating: boolean): Values {
    const resource = this.engine.resource(name)
    const values: Record<string, Stored> = {}
    const faults = creating ? missingFields(resource, body) : []
    for (const [fieldName, input] of Object.entries(body)) {
      const field = Object.hasOwn(resource.fields, fieldName) ? resource.fields[fieldName]! : undefined
      if (field === undefined || field.readOnly === true || input === undefined) continue
      // A required field that is null is a missing one.
      if (input === null && creating && field.required === true) continue
      const decoded = decodeField(field, input, this.engine.zone)
      if ("code" in decoded) faults.push({ field: fieldName, ...decoded })
      else values[fieldName] = decoded.value
    }
    if (faults.length > 0) throw refuseFields("invalid", faults)
    return values
  }

  /** Returns the writes of this transaction. Events come first, because what they write is part of the
   *  commit. */
  finish(): ReadonlyArray<Write> {
    for (const change of this.changes.values()) this.engine.resource(change.resource).events?.(change, this)
    const writes: Array<Write> = []
    const touched = new Set<string>()
    for (const change of this.changes.values()) {
      const { resource, id, before, after } = change
      if (before === after) continue
      touched.add(resource)
      if (after === undefined) writes.push(Rows.delete([resource, id]))
      else {
        const { id: _, ...row } = after
        writes.push(Rows.put([resource, id], row))
      }
      writes.push(...this.referenceWrites(change))
    }
    for (const [name, holder] of this.uniques) {
      const [space, folded] = name.split("\0") as [string, string]
      writes.push(
        holder === undefined ? Uniques.delete([space, folded]) : Uniques.put([space, folded], holder)
      )
    }
    for (const { table, key, added } of this.counters.values())
      writes.push({ _tag: "add", table, key, amount: added })
    for (const resource of touched) writes.push(Collections.put([resource], this.nowMs))
    return [...writes, ...this.writes]
  }

  private referenceWrites({ resource, id, before, after }: Change): ReadonlyArray<Write> {
    const writes: Array<Write> = []
    for (const field of this.engine.resource(resource).references) {
      const former = before?.values[field] ?? 0
      const current = after?.values[field] ?? 0
      if (former === current && (before === undefined) === (after === undefined)) continue
      if (typeof former === "number" && former > 0)
        writes.push(References.delete([resource, field, former, id]))
      if (typeof current === "number" && current > 0)
        writes.push(References.put([resource, field, current, id], null))
    }
    return writes
  }
}

/** Returns whether a required field may be omitted because it has a sensible default, such as a store id. */
const hasDefault = (initial: Stored): boolean => initial !== "" && initial !== 0 && initial !== null

const missingFields = ({ fields, required }: Resource, body: JsonObject): Array<FieldFault> =>
  required.flatMap((field): Array<FieldFault> => {
    const input = Object.hasOwn(body, field) ? (body[field] ?? undefined) : undefined
    return hasDefault(fields[field]!.initial) || input !== undefined
      ? []
      : [{ field, code: "required", message: "is required" }]
  })
