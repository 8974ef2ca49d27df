/** The audit log: denials and administrative changes are written in the transaction of the change itself,
 *  successful token requests in batches. It never contains a token, code, secret or assertion.
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

const gatherMs = 500
const gatheredMax = 1_000
const textMax = 254

export class Audit {
  private readonly books: CachedTables
  private gathered: Array<Write> = []
  private timer: NodeJS.Timeout | undefined

  /** Counts each action since the process started, for /metrics. */
  readonly counts = new Map<string, number>()

  /** Hears of rows of a batch that could not be written. */
  private readonly lost: (cause: unknown) => void

  constructor(books: CachedTables, lost: (cause: unknown) => void = () => {}) {
    this.books = books
    this.lost = lost
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

  /** Writes the event in a batch within half a second. A crash may lose it, so it is for successes only. */
  later(action: string, details: AuditDetails = {}): void {
    this.gathered.push(this.event(action, details))
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
