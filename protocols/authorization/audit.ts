/** What happened, for the operator: denials and administration in the transaction they belong to, successes
 *  of tokens gathered for a moment. Never a token, code, secret or assertion in it. Source: authorization
 *  section 21. */
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

const gatherMs = 500
const gatheredMax = 1_000
const textMax = 254

export class Audit {
  private readonly books: CachedTables
  private gathered: Array<Write> = []
  private timer: NodeJS.Timeout | undefined

  /** Of every action since the start, for /metrics. */
  readonly counts = new Map<string, number>()

  constructor(books: CachedTables) {
    this.books = books
  }

  /** A row for the transaction that it tells of. */
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

  /** Written with others, within half a second; a crash may lose it. For successes only. */
  later(action: string, details: AuditDetails = {}): void {
    this.gathered.push(this.event(action, details))
    if (this.gathered.length >= gatheredMax) void this.settle().catch(() => {})
    else if (this.timer === undefined) {
      this.timer = setTimeout(() => void this.settle().catch(() => {}), gatherMs)
      this.timer.unref()
    }
  }

  /** On its own, durable when it resolves. */
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
