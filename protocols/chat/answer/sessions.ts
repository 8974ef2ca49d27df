/** Stored responses behind their sessions' actors: begin a continuation, commit, look up, delete; contexts,
 *  and room for new sessions.
 *  Guarantee: what a commit stores is on disk when it resolves, and a response is found only by its owner.
 *  Source: docs/spec/chat.md, sections 15 and 16. */
import {
  BackgroundEvents,
  BackgroundWork,
  ProxySession,
  Responses,
  sessionsCounter,
  type Ending,
  type ResponseRecord
} from "../../../actors/proxy-session.ts"
import type { Message } from "../../../actors/engines/chat/model.ts"
import type { Upstreams } from "../../../actors/engines/chat/upstreams.ts"
import type { ActorSystem } from "../../../runtime/registry.ts"
import type { Store } from "../../../storage/store.ts"
import type { ChatMetrics } from "../metrics.ts"
import { Refusal } from "../problems.ts"
import { SessionTurnLimit } from "../rate-limit.ts"
import type { Item } from "../request/response-items.ts"
import { responsePrefixOf } from "../wire.ts"
import { UpstreamSessionCleanup } from "./upstream-session-cleanup.ts"

export interface SessionsDeps {
  readonly store: Store
  readonly actors: ActorSystem
  readonly metrics: ChatMetrics
  readonly upstreams: Upstreams
  readonly retentionMs: number
  readonly turnsMax: number
  readonly sessionsMax: number
  readonly responseBytesMax: number
  readonly turnMs: number
}

export interface StoredEvent {
  readonly type: string
  readonly data: string
}

/** Content of a commit: the record, and for a background response its work and its events. */
export interface ResponseCommit {
  readonly id: string
  readonly record: ResponseRecord
  readonly work?: string
  readonly events?: ReadonlyArray<StoredEvent>
  readonly eventsFrom?: number
}

/** A background response that was unfinished when its process ended. */
export interface UnfinishedResponse {
  readonly id: string
  readonly record: ResponseRecord
  readonly body: string
}

type SessionCommand = "Begin" | "Inspect" | "Commit" | "Delete" | "Evict"
type SessionAnswer = { readonly reply: unknown } | { readonly refuse: { readonly _tag: string } }

/** A stored chain may be so many times as large as one response. */
const chainFactor = 8

/** A session beyond its restart intensity starts again after a rest. */
const failedRestMs = 10_000

const rangeMax = 100_000
const responseIdPattern = /^resp_[0-9a-f]{48}$/

const previousNotFound = (id: string): Refusal => new Refusal({ _tag: "PreviousNotFound", id })
const responseNotFound = (id: string): Refusal => new Refusal({ _tag: "ResponseNotFound", id })

export class Sessions {
  private readonly deps: SessionsDeps
  readonly turnLimit: SessionTurnLimit
  private readonly cleanup: UpstreamSessionCleanup
  private readonly failedAtMs = new Map<string, number>()

  constructor(deps: SessionsDeps) {
    this.deps = deps
    this.turnLimit = new SessionTurnLimit(deps.turnsMax)
    this.cleanup = new UpstreamSessionCleanup(deps)
  }

  close(): void {
    this.cleanup.close()
  }

  get activeCount(): number {
    return this.deps.store.counter(sessionsCounter.table, [...sessionsCounter.key])
  }

  endedCount(ending: Ending): number {
    return this.deps.store.counter(sessionsCounter.table, [ending])
  }

  private ask(sessionId: string, command: SessionCommand, payload: any): Promise<SessionAnswer> {
    const { actors } = this.deps
    const nowMs = actors.nowMs()
    const failedAtMs = this.failedAtMs.get(sessionId)
    if (failedAtMs !== undefined && nowMs - failedAtMs >= failedRestMs) {
      this.failedAtMs.delete(sessionId)
      actors.restart("proxy-session", sessionId)
    }
    return new Promise((resolve, reject) => {
      actors.ref(ProxySession, sessionId).askNow(command, payload, (answer: any) => {
        if (!("fault" in answer)) return resolve(answer)
        if (answer.fault.reason === "failed" && !this.failedAtMs.has(sessionId))
          this.failedAtMs.set(sessionId, nowMs)
        const isStorage = answer.fault.reason === "storage"
        reject(new Refusal({ _tag: isStorage ? "StorageUnavailable" : "InternalError" }, answer.fault))
      })
    })
  }

  /** Returns the record that is continued, and enters its session; the caller must leave the session
   *  afterwards. */
  async begin(owner: string, previousId: string): Promise<ResponseRecord> {
    const record = this.recordFor(owner, previousId)
    if (record === undefined) throw previousNotFound(previousId)
    this.turnLimit.enter(record.sessionId)
    try {
      const payload = { owner, previousId, holdMs: this.deps.turnMs }
      const answer = await this.ask(record.sessionId, "Begin", payload)
      if (!("refuse" in answer)) return record
      if (answer.refuse._tag === "ResponseNotReady")
        throw new Refusal({ _tag: "PreviousNotReady", id: previousId })
      throw previousNotFound(previousId)
    } catch (fault) {
      this.turnLimit.leave(record.sessionId)
      throw fault
    }
  }

  /** Returns the context of a turn after this response: the input and output of every ancestor, from the
   *  root. */
  context(previousId: string): ReadonlyArray<Message> {
    const bytesMax = this.deps.responseBytesMax * chainFactor
    const turns: Array<ReadonlyArray<Message>> = []
    let bytes = 0
    for (let id: string | null = previousId; id !== null;) {
      const record: ResponseRecord | undefined = Responses.get(this.deps.store, [id])
      if (record === undefined) throw new Refusal({ _tag: "InternalError" })
      bytes += record.bytes
      if (bytes > bytesMax) throw new Refusal({ _tag: "ContextExceeded" })
      turns.push(JSON.parse(record.messages) as ReadonlyArray<Message>)
      id = record.parentId
    }
    return turns.toReversed().flat()
  }

  /** Resolves when the response is on disk. */
  async commit({ id, record, work, events = [], eventsFrom = 0 }: ResponseCommit): Promise<void> {
    const startedMs = performance.now()
    const answer = await this.ask(record.sessionId, "Commit", {
      id,
      record,
      retentionMs: this.deps.retentionMs,
      others: this.turnLimit.count(record.sessionId) > 1,
      work: work ?? null,
      events,
      eventsFrom
    })
    this.deps.metrics.committed(performance.now() - startedMs)
    if ("refuse" in answer) throw responseNotFound(id)
    if (this.activeCount > this.deps.sessionsMax) this.makeRoom(record.sessionId)
  }

  /** Evicts the session that would expire first, unless a turn is in progress there. */
  private makeRoom(newest: string): void {
    for (const { kind, id } of this.deps.store.expired(Number.MAX_SAFE_INTEGER, 64)) {
      if (kind !== "proxy-session" || id === newest || this.turnLimit.count(id) > 0) continue
      void this.ask(id, "Evict", {}).catch(() => {})
      return
    }
  }

  private recordFor(owner: string, id: string): ResponseRecord | undefined {
    if (!responseIdPattern.test(id)) return undefined
    const record = Responses.get(this.deps.store, [id])
    return record?.owner === owner ? record : undefined
  }

  /** A response that its owner can see now. */
  async get(owner: string, id: string): Promise<ResponseRecord> {
    const record = this.recordFor(owner, id)
    if (record === undefined) throw responseNotFound(id)
    if ("refuse" in (await this.ask(record.sessionId, "Inspect", { owner, id }))) throw responseNotFound(id)
    return record
  }

  async remove(owner: string, id: string): Promise<void> {
    const record = await this.get(owner, id)
    if ("refuse" in (await this.ask(record.sessionId, "Delete", { owner, id }))) throw responseNotFound(id)
  }

  events(id: string, after: number): ReadonlyArray<StoredEvent> {
    const rows = BackgroundEvents.range(this.deps.store, {
      prefix: [id],
      after: [id, after],
      limit: rangeMax
    })
    return rows.map(({ value }) => value)
  }

  unfinished(): ReadonlyArray<UnfinishedResponse> {
    const { store } = this.deps
    return BackgroundWork.range(store, { limit: rangeMax }).flatMap(({ key, value }) => {
      const id = String(key[0])
      const record = Responses.get(store, [id])
      return record === undefined ? [] : [{ id, record, body: value.body }]
    })
  }

  /** An output item of a stored response of the owner, by its id: the id begins with half of its
   *  response's. */
  findItem(owner: string, id: string): Item | undefined {
    const prefix = responsePrefixOf(id)
    if (prefix === undefined) return undefined
    const [row] = Responses.range(this.deps.store, { after: [prefix], limit: 1 })
    if (row === undefined || !String(row.key[0]).startsWith(prefix)) return undefined
    if (row.value.owner !== owner || row.value.hidden) return undefined
    const { output } = JSON.parse(row.value.object) as { readonly output: ReadonlyArray<Item> }
    return output.find((item) => item.id === id)
  }
}
