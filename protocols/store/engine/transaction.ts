/** One write to the store: reads see what it has staged; records, their indexes, sequences, outbox entries
 *  and whatever else it adds become one commit, or nothing. It is begun and committed within one turn, so two
 *  of them never interleave.
 *  Source: store sections 6.1, 6.5, 9.2, 10; design section 3 (rows are no actors). */
import type { Key, Write } from "../../../storage/store.ts"
import { decodeField, fold, type FieldFault, type Stored, type Values } from "./fields.ts"
import { fieldsRefused, Refused } from "../problems.ts"
import { References, Rows, Uniques, Collections } from "./records.ts"
import {
  valueOf,
  type Catalog,
  type Change,
  type Draft,
  type Resource,
  type Row,
  type Transaction
} from "./resource.ts"

const idCounter = "store-ids"

const cascadeMax = 10_000
const uniqueKey = (space: string, value: string): Key => [space, fold(value)]

const same = (a: Stored | undefined, b: Stored | undefined): boolean =>
  a === b ||
  (typeof a === "object" &&
    typeof b === "object" &&
    a !== null &&
    b !== null &&
    JSON.stringify(a) === JSON.stringify(b))

export class StagedTransaction implements Transaction {
  readonly engine: Catalog
  readonly nowMs: number
  readonly changes = new Map<string, Change>()
  readonly writes: Array<Write> = []

  /** Called once the commit is durable. */
  readonly afterwards: Array<() => void> = []

  private readonly counters = new Map<string, { table: string; key: Key; value: number; added: number }>()
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
    const known = this.engine.children(resource, field, id, limit + this.changes.size)
    const about = this.engine.resource(resource)
    const rows = known.filter((row) => !this.changes.has(`${resource}/${row.id}`))
    for (const { resource: of, after } of this.changes.values())
      if (of === resource && after !== undefined && valueOf(about, after, field) === id) rows.push(after)
    return rows.sort((a, b) => a.id - b.id).slice(0, limit)
  }

  show(resource: string, row: Row): Record<string, unknown> {
    return this.engine.show(resource, row)
  }

  value(resource: string, row: Row, field: string): Stored {
    return valueOf(this.engine.resource(resource), row, field)
  }

  /** The next number of a durable counter, this transaction's own steps counted. */
  next(table: string, key: Key): number {
    const name = `${table}\0${key.join("\0")}`
    let counter = this.counters.get(name)
    if (counter === undefined)
      this.counters.set(
        name,
        (counter = { table, key, value: this.engine.store.counter(table, key), added: 0 })
      )
    counter.added++
    return ++counter.value
  }

  /** Into the outbox of whoever subscribes; `body` is made only then. */
  emit(event: string, body: () => unknown): void {
    if (this.engine.outbox.wants(event)) this.engine.outbox.put(this, event, body())
  }

  add(table: string, key: Key, amount: number): void {
    this.writes.push({ _tag: "add", table, key, amount })
  }

  /** Creates a record with a new id; `given` are stored values. */
  insert(name: string, given: Values): Row {
    const resource = this.engine.resource(name)
    if (resource.rowsMax !== undefined && this.engine.count(name) >= resource.rowsMax)
      throw new Refused(409, `there are at most ${resource.rowsMax} ${name}`)
    const id = this.next(idCounter, [name]) + (resource.firstId ?? 1) - 1
    return this.stage(resource, id, undefined, given)
  }

  /** Changes a record; the same record comes back when nothing differs. */
  update(name: string, row: Row, given: Values): Row {
    return this.stage(this.engine.resource(name), row.id, row, given)
  }

  private stage(resource: Resource, id: number, before: Row | undefined, given: Values): Row {
    const values: Record<string, Stored> = { ...before?.values, ...given }
    const draft: Draft = { tx: this, id, before, given, values, faults: [] }
    resource.prepare?.(draft)
    for (const [name, value] of Object.entries(values)) {
      const field = resource.fields[name]!
      if (field.sealed === true && typeof value === "string")
        values[name] = value === "" ? null : this.engine.vault.seal(value, `${resource.name}/${id}/${name}`)
      if (same(values[name], field.initial)) delete values[name]
    }
    const changed = Object.keys({ ...before?.values, ...values }).filter(
      (name) => !same(before?.values[name], values[name])
    )
    if (before !== undefined && changed.length === 0 && draft.faults.length === 0) return before
    for (const name of changed) this.checkReference(resource, name, values[name], draft.faults)
    if (before === undefined)
      for (const name of resource.required)
        if (resource.fields[name]!.to !== undefined && !changed.includes(name))
          this.checkReference(resource, name, resource.fields[name]!.initial, draft.faults)
    for (const name of changed)
      this.checkUnique(resource, id, name, before?.values[name], values[name], draft.faults)
    if (draft.faults.length > 0) throw fieldsRefused(409, draft.faults)
    const updatedMs = before === undefined ? this.nowMs : Math.max(this.nowMs, before.updatedMs + 1)
    return this.put(resource.name, {
      id,
      version: (before?.version ?? 0) + 1,
      createdMs: before?.createdMs ?? this.nowMs,
      updatedMs,
      values
    })
  }

  private checkReference(
    { fields, name: resource }: Resource,
    name: string,
    value: Stored | undefined,
    faults: Array<FieldFault>
  ): void {
    const field = fields[name]!
    if (field.to === undefined) return
    if (
      typeof value === "number" && value > 0
        ? this.get(field.to, value) === undefined
        : field.required === true
    ) {
      faults.push({ field: name, code: "not_found", message: `names no record of ${field.to} (${resource})` })
    }
  }

  private checkUnique(
    { fields, name: resource }: Resource,
    id: number,
    name: string,
    before: Stored | undefined,
    value: Stored | undefined,
    faults: Array<FieldFault>
  ): void {
    const space = fields[name]!.unique
    if (space === undefined) return
    const nameOf = (text: string): string => `${space}\0${fold(text)}`
    if (typeof value === "string" && value !== "") {
      const holder = this.uniques.has(nameOf(value))
        ? this.uniques.get(nameOf(value))
        : Uniques.get(this.engine.store, uniqueKey(space, value))
      if (holder !== undefined && (holder[0] !== resource || holder[1] !== id)) {
        faults.push({ field: name, code: "not_unique", message: "is taken by another record" })
        return
      }
    }
    if (typeof before === "string" && before !== "") this.uniques.set(nameOf(before), undefined)
    if (typeof value === "string" && value !== "") this.uniques.set(nameOf(value), [resource, id])
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

  /** Deletes a record and what goes with it; 409 when others need it. */
  remove(name: string, row: Row): void {
    const resource = this.engine.resource(name)
    resource.removing?.(this, row)
    for (const { of, field, gone } of this.engine.referrers(name)) {
      if (gone === "keep") continue
      const found = this.children(of, field, row.id, gone === "refuse" ? 1 : cascadeMax)
      if (gone === "refuse" && found.length > 0)
        throw new Refused(409, `this ${resource.singular} is in use by ${of}`, [
          { field, code: "in_use", message: `${of} use it` }
        ])
      if (found.length >= cascadeMax) throw new Refused(409, `too many ${of} belong to it`)
      for (const child of found) this.remove(of, child)
    }
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

  /** Reads fields from a body: what is unknown or read-only is ignored, every fault is told at once (400). */
  decode(name: string, body: Readonly<Record<string, unknown>>, creating: boolean): Values {
    const { fields, required } = this.engine.resource(name)
    const values: Record<string, Stored> = {}
    const faults: Array<FieldFault> = []
    if (creating)
      for (const field of required) {
        if (
          !hasDefault(fields[field]!.initial) &&
          (Object.hasOwn(body, field) ? (body[field] ?? undefined) : undefined) === undefined
        )
          faults.push({ field, code: "required", message: "is required" })
      }
    for (const field of Object.keys(body)) {
      const about = Object.hasOwn(fields, field) ? fields[field]! : undefined
      const given = body[field]
      if (
        about === undefined ||
        about.readOnly === true ||
        given === undefined ||
        (given === null && creating && about.required === true)
      )
        continue
      const decoded = decodeField(about, given, this.engine.zone)
      if ("code" in decoded) faults.push({ field, ...decoded })
      else values[field] = decoded.value
    }
    if (faults.length > 0) throw fieldsRefused(400, faults)
    return values
  }

  /** The events first, because what they tell is part of the commit; then every write. */
  finish(): ReadonlyArray<Write> {
    for (const change of this.changes.values()) this.engine.resource(change.resource).events?.(change, this)
    const writes: Array<Write> = []
    const touched = new Set<string>()
    for (const { resource, id, before, after } of this.changes.values()) {
      if (before === after) continue
      touched.add(resource)
      if (after === undefined) writes.push(Rows.delete([resource, id]))
      else {
        const { id: _, ...row } = after
        writes.push(Rows.put([resource, id], row))
      }
      for (const field of this.engine.resource(resource).references) {
        const was = before?.values[field] ?? 0
        const is = after?.values[field] ?? 0
        if (was === is && (before === undefined) === (after === undefined)) continue
        if (typeof was === "number" && was > 0) writes.push(References.delete([resource, field, was, id]))
        if (typeof is === "number" && is > 0) writes.push(References.put([resource, field, is, id], null))
      }
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
}

/** A required field with a sensible default (a store id) need not be given. */
const hasDefault = (initial: Stored): boolean => initial !== "" && initial !== 0 && initial !== null
