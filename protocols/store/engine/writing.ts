/** Create, update, delete and batch import of any resource; preconditions, and the keys that make a POST
 *  repeatable. Each write is one commit, and its answer leaves after it. Source: store sections 6.5 to 6.8.
 *  */
import { createHash } from "node:crypto"
import { Schema } from "effect"
import { table } from "../../../storage/store.ts"
import type { Engine } from "./engine.ts"
import { encodeField } from "./fields.ts"
import { problemBody, Refused, type Problem } from "../problems.ts"
import type { Resource, Row } from "./resource.ts"
import type { Transaction } from "./resource.ts"

export interface Written {
  readonly status: number
  readonly body: string
  readonly row?: Row
}

interface Placed {
  readonly status: number
  readonly row: Row
  readonly extra: Body | undefined
}

export type Body = Readonly<Record<string, unknown>>

/** Asks the reply webhooks about what is to be written; throws Refused. Its second answer says whether
 *  anybody would be asked. */
export interface Validation {
  readonly wanted: (event: string) => boolean
  readonly ask: (event: string, body: unknown) => Promise<void>
}

export const etagOf = (row: Row): string => `"${row.id}-${row.version}"`

export interface Preconditions {
  readonly match: string | undefined
  readonly unmodifiedSince: string | undefined
}

export const met = (row: Row, { match, unmodifiedSince }: Preconditions): boolean => {
  if (match !== undefined)
    return match.trim() === "*" || match.split(",").some((tag) => tag.trim() === etagOf(row))
  const sinceMs = unmodifiedSince === undefined ? NaN : Date.parse(unmodifiedSince)
  return Number.isNaN(sinceMs) || row.updatedMs < sinceMs + 1_000
}

const missing = (resource: Resource): Refused => new Refused(404, `there is no such ${resource.singular}`)

export class Writing {
  private readonly engine: Engine
  private readonly validation: Validation

  constructor(engine: Engine, validation: Validation) {
    this.engine = engine
    this.validation = validation
  }

  private answer(resource: Resource, { status, row, extra }: Placed): Written {
    return {
      status,
      row,
      body:
        extra === undefined
          ? this.engine.text(resource.name, row)
          : JSON.stringify({ ...this.engine.show(resource.name, row), ...extra })
    }
  }

  /** What the body means: a new record, or a change of the one it names. Synchronous, so it can be tried
   *  before it is done. */
  private place(resource: Resource, body: Body, tx: Transaction): Placed {
    const known =
      typeof body["id"] === "number" && Number.isSafeInteger(body["id"]) && body["id"] > 0
        ? tx.get(resource.name, body["id"])
        : undefined
    const values = tx.decode(resource.name, body, known === undefined)
    const same = known ?? resource.same?.(tx, values)
    if (same !== undefined)
      return { status: 200, row: tx.update(resource.name, same, values), extra: undefined }
    const row = tx.insert(resource.name, values)
    const extra = resource.created?.(tx, row, body)
    return { status: 201, row: tx.get(resource.name, row.id) ?? row, extra }
  }

  private change(
    resource: Resource,
    id: number,
    body: Body,
    conditions: Preconditions,
    tx: Transaction
  ): Written {
    const values = tx.decode(resource.name, body, false)
    const row = tx.get(resource.name, id)
    if (row === undefined) throw missing(resource)
    if (!met(row, conditions)) throw new Refused(412, "the record has changed since")
    return this.answer(resource, {
      status: 200,
      row: tx.update(resource.name, row, values),
      extra: undefined
    })
  }

  private async validated(resource: Resource, attempt: (tx: Transaction) => Written): Promise<void> {
    if (resource.validate === undefined || !this.validation.wanted(resource.validate)) return
    const { body } = this.engine.attempt(attempt)
    await this.validation.ask(resource.validate, { [resource.singular]: JSON.parse(body) })
  }

  async create(resource: Resource, body: Body, keep?: Keep): Promise<Written> {
    const attempt = (tx: Transaction): Written => this.answer(resource, this.place(resource, body, tx))
    await this.validated(resource, attempt)
    return this.engine.write((tx) => {
      const written = attempt(tx)
      keep?.(tx, written)
      return written
    })
  }

  async update(resource: Resource, id: number, body: Body, conditions: Preconditions): Promise<Written> {
    const attempt = (tx: Transaction): Written => this.change(resource, id, body, conditions, tx)
    await this.validated(resource, attempt)
    return this.engine.write(attempt)
  }

  remove(resource: Resource, id: number, conditions: Preconditions): Promise<void> {
    return this.engine.write((tx) => {
      const row = tx.get(resource.name, id)
      if (row === undefined) throw missing(resource)
      if (!met(row, conditions)) throw new Refused(412, "the record has changed since")
      tx.remove(resource.name, row)
    })
  }

  /** Each entry is a transaction of its own, in order; several may share a flush. */
  async importMany(resource: Resource, entries: ReadonlyArray<unknown>): Promise<string> {
    const results = await Promise.all(
      entries.map((entry, line) =>
        this.importOne(resource, entry).then(
          ({ status, row }) => ({ line_item: line, status_code: status, entity_id: row.id }),
          (cause: unknown) => {
            if (!(cause instanceof Refused)) throw cause
            return {
              line_item: line,
              status_code: cause.status,
              details: cause.details,
              ...(cause.errors === undefined ? {} : { errors: cause.errors })
            }
          }
        )
      )
    )
    return JSON.stringify({
      total_errors: results.filter(({ status_code }) => status_code >= 400).length,
      results
    })
  }

  private async importOne(resource: Resource, entry: unknown): Promise<Placed> {
    const given = typeof entry === "object" && entry !== null && !Array.isArray(entry) ? (entry as Body) : {}
    const part = (name: string): Body | undefined => {
      const value = Object.hasOwn(given, name) ? given[name] : undefined
      if (value === undefined || value === null) return undefined
      if (typeof value !== "object" || Array.isArray(value))
        throw new Refused(400, `${name} must be an object`)
      return value as Body
    }
    const body = part(resource.singular)
    if (body === undefined) throw new Refused(400, `an entry holds a ${resource.singular}`)
    const attempt = (tx: Transaction): Placed => {
      const whole: Record<string, unknown> = { ...body }
      if (resource.name === "products") {
        for (const [name, of, field] of [
          ["category", "categories", "primary_category_id"],
          ["manufacturer", "manufacturers", "manufacturer_id"]
        ] as const) {
          const made = part(name)
          if (made !== undefined) whole[field] = this.place(this.engine.resource(of), made, tx).row.id
        }
        if (given["lookup_by_sku"] === true && typeof whole["item_number"] === "string") {
          const holder = this.engine.byUnique("item_number", whole["item_number"])
          if (holder?.[0] === "products") whole["id"] = holder[1]
        }
      }
      return this.place(resource, whole, tx)
    }
    await this.validated(resource, (tx) => this.answer(resource, attempt(tx)))
    return this.engine.write(attempt)
  }
}

type Keep = (tx: Transaction, written: Written) => void

interface Kept {
  readonly bodyHash: string
  readonly status: number
  readonly body: string
  readonly atMs: number
}

/** [app, key] */
const Answers = table("store-idempotency", Schema.Any as Schema.Codec<Kept, any>)

/** [time, app, key]: which are old. */
const AnswerTimes = table("store-idempotency-times", Schema.Any as Schema.Codec<null, any>)

const keptMs = 86_400_000
const sweptPerWrite = 2

/** POSTs with a key: the first answer is kept with the write, a repeat gets it again, and one that comes
 *  meanwhile waits for it. */
export class Idempotency {
  private readonly running = new Map<string, Promise<unknown>>()
  private readonly engine: Engine

  constructor(engine: Engine) {
    this.engine = engine
  }

  static readonly wellFormed = (key: string): boolean => /^[\x21-\x7e]{1,255}$/.test(key)

  async once(
    app: string,
    key: string,
    body: Uint8Array,
    path: string,
    work: (keep: Keep) => Promise<Written>
  ): Promise<Written & { readonly replayed: boolean }> {
    const name = `${app}\0${key}`
    const bodyHash = createHash("sha256").update(path).update("\0").update(body).digest("base64url")
    for (let other = this.running.get(name); other !== undefined; other = this.running.get(name))
      await other.catch(() => {})
    const known = Answers.get(this.engine.store, [app, key])
    if (known !== undefined && known.atMs + keptMs > this.engine.clock()) {
      if (known.bodyHash !== bodyHash)
        throw new Refused(409, "this Idempotency-Key came with another body before")
      return { status: known.status, body: known.body, replayed: true }
    }
    const kept = (tx: Transaction, status: number, text: string): void => {
      tx.writes.push(
        Answers.put([app, key], { bodyHash, status, body: text, atMs: tx.nowMs }),
        AnswerTimes.put([tx.nowMs, app, key], null)
      )
      for (const {
        key: [atMs, ...old]
      } of AnswerTimes.range(this.engine.store, { limit: sweptPerWrite })) {
        if ((atMs as number) + keptMs > tx.nowMs) break
        const renewed =
          (old[0] === app && old[1] === key) || Answers.get(this.engine.store, old)?.atMs !== atMs
        tx.writes.push(
          AnswerTimes.delete([atMs as number, ...old]),
          ...(renewed ? [] : [Answers.delete(old)])
        )
      }
    }
    const run = work((tx, { status, body: text }) => kept(tx, status, text)).then(
      (written) => ({ ...written, replayed: false }),
      async (cause: unknown) => {
        if (cause instanceof Refused && cause.status === 409)
          await this.engine.write((tx) => kept(tx, 409, problemBody(cause as Problem)))
        throw cause
      }
    )
    this.running.set(name, run)
    try {
      return await run
    } finally {
      this.running.delete(name)
    }
  }
}

/** The fields of a record that `/decrypted` adds. */
export const opened = (engine: Engine, resource: Resource, row: Row): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(resource.fields).flatMap(([name, field]) => {
      const value = row.values[name]
      return field.sealed !== true
        ? []
        : [
            [
              name,
              value instanceof Uint8Array
                ? engine.vault.open(value, `${resource.name}/${row.id}/${name}`)
                : encodeField({ ...field, sealed: false }, value ?? null, engine.zone)
            ]
          ]
    })
  )
