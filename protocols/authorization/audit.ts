/** The audit log: denials and administrative changes are written in the transaction of the change itself,
 *  successful token requests in batches. What strangers can cause is limited per hour and action, because rows
 *  stay for 90 days. It never contains a token, code, secret or assertion.
 *  Source: docs/spec/authorization.md, section 21. */
import type { Write } from "../../storage/store.ts"
import type { CachedTables } from "./cached-tables.ts"
import { AuditEvents } from "./records.ts"

export interface AuditDetails {
  readonly actorId?: string | undefined
  readonly clientId?: string | undefined
  readonly ip?: string | undefined
  readonly traceId?: string | undefined
  readonly detail?: Readonly<Record<string, string | number | undefined>>
}

const hourMs = 3_600_000
const gatherMs = 500
const gatheredMax = 1_000
const textMax = 254

interface Hour {
  startMs: number
  written: number
  /** How many rows were left out since the last one that was written. */
  omitted: number
}

export class Audit {
  private readonly books: CachedTables
  private gathered: Array<Write> = []
  private timer: NodeJS.Timeout | undefined

  /** Counts each action since the process started, for /metrics. */
  readonly counts = new Map<string, number>()

  /** Hears of rows of a batch that could not be written. */
  private readonly lost: (cause: unknown) => void

  private readonly strangersPerHourMax: number

  /** The rows of this hour that strangers have caused, by action. */
  private readonly hours = new Map<string, Hour>()

  constructor(
    books: CachedTables,
    lost: (cause: unknown) => void = () => {},
    strangersPerHourMax = Infinity
  ) {
    this.books = books
    this.lost = lost
    this.strangersPerHourMax = strangersPerHourMax
  }

  /** Builds the audit row, to be committed in the transaction that it describes. */
  event(action: string, details: AuditDetails = {}): Write {
    this.counts.set(action, (this.counts.get(action) ?? 0) + 1)
    const id = this.books.id()
    let detail = ""
    for (const [name, value] of Object.entries(details.detail ?? {}))
      if (value !== undefined)
        detail += `${detail === "" ? "" : " "}${name}=${encodeURIComponent(String(value).slice(0, textMax))}`
    return AuditEvents.put([id], {
      id,
      action,
      actorId: details.actorId ?? "",
      clientId: details.clientId ?? "",
      ip: details.ip ?? "",
      detail,
      traceId: details.traceId ?? "",
      createdMs: this.books.nowMs()
    })
  }

  /** Builds the row of an event that a stranger can cause, as long as this hour has room for it. The first row
   *  after a pause tells how many were left out. */
  strangerEvent(action: string, details: AuditDetails = {}): ReadonlyArray<Write> {
    const hour = this.hourOf(action)
    if (hour.written >= this.strangersPerHourMax) {
      hour.omitted++
      this.counts.set(action, (this.counts.get(action) ?? 0) + 1)
      return []
    }
    hour.written++
    const { omitted } = hour
    if (omitted === 0) return [this.event(action, details)]
    hour.omitted = 0
    return [this.event(action, { ...details, detail: { ...details.detail, omitted } })]
  }

  private hourOf(action: string): Hour {
    const startMs = this.books.nowMs() - (this.books.nowMs() % hourMs)
    let hour = this.hours.get(action)
    if (hour === undefined) this.hours.set(action, (hour = { startMs, written: 0, omitted: 0 }))
    if (hour.startMs !== startMs) {
      hour.startMs = startMs
      hour.written = 0
    }
    return hour
  }

  /** Like `strangerEvent`, written in a batch within half a second. */
  strangerLater(action: string, details: AuditDetails = {}): void {
    for (const write of this.strangerEvent(action, details)) this.gather(write)
  }

  /** Writes the event in a batch within half a second. A crash may lose it, so it is for successes only. */
  later(action: string, details: AuditDetails = {}): void {
    this.gather(this.event(action, details))
  }

  private gather(write: Write): void {
    this.gathered.push(write)
    if (this.gathered.length >= gatheredMax) void this.settle().catch(this.lost)
    else if (this.timer === undefined) {
      this.timer = setTimeout(() => void this.settle().catch(this.lost), gatherMs)
      this.timer.unref()
    }
  }

  /** Writes the event in a transaction of its own, and resolves when it is durable. */
  now(action: string, details: AuditDetails = {}): Promise<void> {
    return this.books.write([this.event(action, details)])
  }

  async settle(): Promise<void> {
    clearTimeout(this.timer)
    this.timer = undefined
    const writes = this.gathered
    this.gathered = []
    if (writes.length > 0) await this.books.write(writes)
  }
}
