/** Sessions of the client test-suites. A header names the session, its first request fixes the settings, and
 *  an idle session is dropped.
 *  Source: docs/spec/translation.md, section 18.2. */
import type { Request } from "../../../runtime/http.ts"

export interface LastRequest {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string>>
  readonly body: string
}

export interface Session {
  readonly name: string
  noResponse: number
  tooMany: number
  failing: number
  documentFailures: number
  readonly failingStatus: number
  /** Limit of billed characters; null means unlimited. */
  readonly characterLimit: number | null
  readonly documentLimit: number | null
  readonly teamDocumentLimit: number | null
  readonly documentQueueMs: number
  readonly documentTranslateMs: number
  readonly expectsProxy: boolean
  readonly allowsMissingUserAgent: boolean
  readonly memoryPolls: number
  readonly polled: Map<string, number>
  last: LastRequest | undefined
  usedMs: number
}

const idleMs = 600_000
const sessionsMax = 10_000
const polledMax = 1_000
const prefix = "mock-server-session-"

export class Sessions {
  private readonly byName = new Map<string, Session>()

  /** Sessions by the account that their requests created. */
  private readonly byAccount = new Map<string, Session>()

  private readonly clock: () => number

  constructor(clock: () => number) {
    this.clock = clock
  }

  of(request: Pick<Request, "headers">): Session | undefined {
    const name = request.headers.get("mock-server-session")
    if (name === undefined || name === "") return undefined
    const nowMs = this.clock()
    let session = this.byName.get(name)
    if (session === undefined || nowMs - session.usedMs >= idleMs)
      this.byName.set(name, (session = sessionOf(name, request)))
    session.usedMs = nowMs
    if (this.byName.size > sessionsMax)
      for (const [other, { usedMs }] of this.byName) {
        if (nowMs - usedMs >= idleMs || this.byName.size > sessionsMax) this.byName.delete(other)
        else break
      }
    return session
  }

  owns(accountId: string, session: Session): void {
    if (this.byAccount.size >= sessionsMax) this.byAccount.delete(this.byAccount.keys().next().value!)
    this.byAccount.set(accountId, session)
  }

  ofAccount(accountId: string): Session | undefined {
    return this.byAccount.get(accountId)
  }

  find(name: string): Session | undefined {
    return this.byName.get(name)
  }

  /** Returns true while a job of the session must still look unfinished. */
  polling(session: Session, jobId: string): boolean {
    const polls = (session.polled.get(jobId) ?? 0) + 1
    if (session.polled.size < polledMax || session.polled.has(jobId)) session.polled.set(jobId, polls)
    return polls <= session.memoryPolls
  }
}

const sessionOf = (name: string, { headers }: Pick<Request, "headers">): Session => {
  const number = (header: string): number | undefined => {
    const text = headers.get(prefix + header)
    return text !== undefined && /^\d{1,15}$/.test(text.trim()) ? Number(text) : undefined
  }
  const status = number("5xx-status") ?? 503
  const limit = (header: string, initial: number | null): number | null => {
    const value = number(header)
    if (value === undefined) return initial
    return value === 0 ? null : value
  }
  return {
    name,
    noResponse: number("no-response-count") ?? 0,
    tooMany: number("429-count") ?? 0,
    failing: number("5xx-count") ?? 0,
    failingStatus: status >= 500 && status <= 599 ? status : 503,
    documentFailures: number("doc-failure") ?? 0,
    characterLimit: limit("init-character-limit", 20_000_000),
    documentLimit: limit("init-document-limit", 10_000),
    teamDocumentLimit: limit("init-team-document-limit", null),
    documentQueueMs: number("doc-queue-time") ?? 0,
    documentTranslateMs: number("doc-translate-time") ?? 0,
    expectsProxy: (number("expect-proxy") ?? 0) > 0,
    allowsMissingUserAgent: (number("allow-missing-user-agent") ?? 0) > 0,
    memoryPolls: number("tm-job-processing-polls") ?? 0,
    polled: new Map(),
    last: undefined,
    usedMs: 0
  }
}
