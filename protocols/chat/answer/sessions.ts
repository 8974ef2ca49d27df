/** Stored responses behind their sessions' actors: begin a continuation, commit, look up, delete; contexts,
 *  room for new sessions, and what upstreams have to forget. Source: chat sections 15 and 16. */
import {
  BackgroundEvents,
  BackgroundWork,
  Forgotten,
  ProxySession,
  Responses,
  sessionsCounter,
  type Ending,
  type ResponseRecord
} from "../../../actors/proxy-session.ts"
import type { Message } from "../../../actors/engines/chat/model.ts"
import type { Upstreams } from "../../../actors/engines/chat/upstreams.ts"
import type { ActorSystem, Ref } from "../../../runtime/registry.ts"
import { committed as commitNow, type Store } from "../../../storage/store.ts"
import type { Item } from "../request/response-items.ts"
import type { ChatMetrics } from "../metrics.ts"
import { responsePrefixOf } from "../wire.ts"
import {
  contextExceeded,
  internal,
  previousNotFound,
  previousNotReady,
  responseNotFound,
  sessionBusy
} from "../problems.ts"

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

/** What a commit keeps besides the record. */
export interface ResponseCommit {
  readonly id: string
  readonly record: ResponseRecord
  readonly work?: string
  readonly events?: ReadonlyArray<StoredEvent>
  readonly eventsFrom?: number
}

const chainTimes = 8
const failedRestMs = 10_000
const forgetAttempts = 3
const forgetBatch = 16
const forgetEveryMs = 1_000

export class Sessions {
  private readonly deps: SessionsDeps

  /** Turns under way per session: what dies with the process is not kept. */
  private readonly under = new Map<string, number>()

  private readonly failedAtMs = new Map<string, number>()
  private stopped = false

  constructor(deps: SessionsDeps) {
    this.deps = deps
    this.sweepForgotten()
  }

  close(): void {
    this.stopped = true
  }

  get activeCount(): number {
    return this.deps.store.counter(sessionsCounter.table, [...sessionsCounter.key])
  }

  endedCount(why: Ending): number {
    return this.deps.store.counter(sessionsCounter.table, [why])
  }

  private ref(sessionId: string): Ref<typeof ProxySession> {
    return this.deps.actors.ref(ProxySession, sessionId)
  }

  /** The actor's answer; a session beyond its restart intensity starts again after a rest. */
  private ask<C extends "Begin" | "Inspect" | "Commit" | "Delete" | "Evict">(
    sessionId: string,
    command: C,
    payload: any
  ): Promise<{ readonly reply: unknown } | { readonly refuse: { readonly _tag: string } }> {
    const failedAt = this.failedAtMs.get(sessionId)
    const now = this.deps.actors.nowMs()
    if (failedAt !== undefined && now - failedAt >= failedRestMs) {
      this.failedAtMs.delete(sessionId)
      this.deps.actors.restart("proxy-session", sessionId)
    }
    return new Promise((resolve, reject) => {
      this.ref(sessionId).askNow(command, payload, (answer: any) => {
        if (!("fault" in answer)) return resolve(answer)
        if (answer.fault.reason === "failed" && !this.failedAtMs.has(sessionId))
          this.failedAtMs.set(sessionId, now)
        reject(internal())
      })
    })
  }

  enter(sessionId: string): void {
    const count = this.under.get(sessionId) ?? 0
    if (count >= this.deps.turnsMax) throw sessionBusy()
    this.under.set(sessionId, count + 1)
  }

  leave(sessionId: string): void {
    const count = (this.under.get(sessionId) ?? 1) - 1
    if (count === 0) this.under.delete(sessionId)
    else this.under.set(sessionId, count)
  }

  /** The record that is continued; the session is entered, and whoever began leaves it. */
  async begin(owner: string, previousId: string): Promise<ResponseRecord> {
    const record = plainId.test(previousId) ? Responses.get(this.deps.store, [previousId]) : undefined
    if (record === undefined || record.owner !== owner) throw previousNotFound(previousId)
    this.enter(record.sessionId)
    try {
      const answer = await this.ask(record.sessionId, "Begin", {
        owner,
        previousId,
        holdMs: this.deps.turnMs
      })
      if ("refuse" in answer)
        throw answer.refuse._tag === "ResponseNotReady"
          ? previousNotReady(previousId)
          : previousNotFound(previousId)
      return record
    } catch (fault) {
      this.leave(record.sessionId)
      throw fault
    }
  }

  /** What a turn after this response hears: every ancestor's input and output from the root. */
  context(previousId: string): ReadonlyArray<Message> {
    const turns: Array<ReadonlyArray<Message>> = []
    let bytes = 0
    for (let id: string | null = previousId; id !== null;) {
      const record: ResponseRecord | undefined = Responses.get(this.deps.store, [id])
      if (record === undefined) throw internal()
      if ((bytes += record.bytes) > this.deps.responseBytesMax * chainTimes) throw contextExceeded()
      turns.push(JSON.parse(record.messages) as ReadonlyArray<Message>)
      id = record.parentId
    }
    return turns.toReversed().flat()
  }

  /** Resolves when it is on disk. */
  async commit({ id, record, work, events = [], eventsFrom = 0 }: ResponseCommit): Promise<void> {
    const began = performance.now()
    const answer = await this.ask(record.sessionId, "Commit", {
      id,
      record,
      retentionMs: this.deps.retentionMs,
      others: (this.under.get(record.sessionId) ?? 0) > 1,
      work: work ?? null,
      events,
      eventsFrom
    })
    this.deps.metrics.committed(performance.now() - began)
    if ("refuse" in answer) throw responseNotFound(id)
    if (this.activeCount > this.deps.sessionsMax) this.makeRoom(record.sessionId)
  }

  /** The session that would expire first leaves, unless a turn is under way there. */
  private makeRoom(newest: string): void {
    for (const { kind, id } of this.deps.store.expired(Number.MAX_SAFE_INTEGER, 64)) {
      if (kind !== "proxy-session" || id === newest || this.under.has(id)) continue
      void this.ask(id, "Evict", {}).catch(() => {})
      return
    }
  }

  /** A response that can be seen by its owner now. */
  async get(owner: string, id: string): Promise<ResponseRecord> {
    const record = plainId.test(id) ? Responses.get(this.deps.store, [id]) : undefined
    if (record === undefined || record.owner !== owner) throw responseNotFound(id)
    if ("refuse" in (await this.ask(record.sessionId, "Inspect", { owner, id }))) throw responseNotFound(id)
    return record
  }

  async remove(owner: string, id: string): Promise<void> {
    const record = await this.get(owner, id)
    if ("refuse" in (await this.ask(record.sessionId, "Delete", { owner, id }))) throw responseNotFound(id)
  }

  events(id: string, after: number): ReadonlyArray<StoredEvent> {
    return BackgroundEvents.range(this.deps.store, { prefix: [id], after: [id, after], limit: 100_000 }).map(
      ({ value }) => value
    )
  }

  /** Background responses that were not at their end when the process was. */
  unfinished(): ReadonlyArray<{
    readonly id: string
    readonly record: ResponseRecord
    readonly body: string
  }> {
    return BackgroundWork.range(this.deps.store, { limit: 100_000 }).flatMap(({ key, value }) => {
      const id = String(key[0])
      const record = Responses.get(this.deps.store, [id])
      return record === undefined ? [] : [{ id, record, body: value.body }]
    })
  }

  /** An output item of a stored response of the owner, by its id. */
  findItem(owner: string, id: string): Item | undefined {
    const prefix = responsePrefixOf(id)
    if (prefix === undefined) return undefined
    const [found] = Responses.range(this.deps.store, { after: [prefix], limit: 1 })
    if (
      found === undefined ||
      !String(found.key[0]).startsWith(prefix) ||
      found.value.owner !== owner ||
      found.value.hidden
    )
      return undefined
    return (JSON.parse(found.value.object) as { readonly output: ReadonlyArray<Item> }).output.find(
      (item) => item.id === id
    )
  }

  private sweepForgotten(): void {
    const { actors, store, upstreams } = this.deps
    actors.timers.schedule(actors.nowMs() + forgetEveryMs, () => {
      if (this.stopped || !actors.running) return
      for (const { key, value } of Forgotten.range(store, { limit: forgetBatch })) {
        const [upstreamId, session] = key as [string, string]
        if (this.forgetting.has(session)) continue
        this.forgetting.add(session)
        const forget = upstreams.all.find(({ record }) => record.id === upstreamId)?.model.forget
        const told =
          forget === undefined
            ? Promise.resolve(true)
            : forget(session).then(
                () => true,
                () => false
              )
        void told
          .then((gone) =>
            commitNow(store, [
              gone || value.attempts + 1 >= forgetAttempts
                ? Forgotten.delete(key)
                : Forgotten.put(key, { attempts: value.attempts + 1 })
            ])
          )
          .catch(() => {})
          .finally(() => this.forgetting.delete(session))
      }
      this.sweepForgotten()
    })
  }

  private readonly forgetting = new Set<string>()
}

const plainId = /^resp_[0-9a-f]{48}$/
