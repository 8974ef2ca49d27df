/** Responses made behind their request: accepted on disk first, worked on whether or not anybody listens,
 *  resumed or failed after a restart, their events kept for a replay. Source: chat sections 9.5, 10, 16,
 *  17.6. */
import type { Request, Response } from "../../../runtime/http.ts"
import { doneFrame, namedFrame } from "../../shared/sse.ts"
import type { Json } from "../request/fields.ts"
import { badValue, failureOf } from "../problems.ts"
import { StreamReply } from "./stream-reply.ts"
import { ResponseBuilder, type ResponseStatus } from "./response-builder.ts"
import type { ResponseJob, ResponseRuns } from "./response-runs.ts"
import type { StoredEvent } from "./sessions.ts"
import type { Turn } from "../turn/turn.ts"
import { newId } from "../wire.ts"

/** Events wait at most this long for the disk. */
const batchMs = 50

const terminal = new Set(["response.completed", "response.incomplete", "response.failed"])

interface Work {
  readonly job: ResponseJob
  readonly turn: Turn
  readonly body: Json
  readonly streamed: boolean
  readonly events: Array<StoredEvent>
  storedEvents: number
  status: ResponseStatus
  readonly listeners: Set<() => void>
  readonly done: Promise<void>
}

export class BackgroundResponses {
  private readonly runs: ResponseRuns
  private readonly working = new Map<string, Work>()

  constructor(runs: ResponseRuns) {
    this.runs = runs
  }

  stateOf(id: string): Json | undefined {
    const work = this.working.get(id)
    return work?.job.builder.responseObject(work.status)
  }

  /** On disk as queued, then answered, then worked on. */
  async accept(
    opened: Pick<ResponseJob, "owner" | "sessionId" | "spec" | "parent">,
    body: Json,
    request: Request
  ): Promise<Response> {
    const { turns, sessions } = this.runs
    let work: Work
    try {
      work = this.prepare(newId("resp"), opened, body, turns.nowS())
    } catch (refusal) {
      sessions.leave(opened.sessionId)
      throw refusal
    }
    const { job } = work
    this.runs.running.set(job.id, job)
    try {
      await this.keep(work, "queued")
    } catch (fault) {
      this.end(work, "failed")
      throw fault
    }
    const object = job.builder.responseObject("queued")
    this.start(work)
    return work.streamed
      ? this.stream(work, -1, request.signal)
      : {
          status: 200,
          headers: [["Content-Type", "application/json; charset=utf-8"]],
          body: JSON.stringify(object)
        }
  }

  private prepare(
    id: string,
    opened: Pick<ResponseJob, "owner" | "sessionId" | "spec" | "parent">,
    body: Json,
    createdS: number
  ): Work {
    const { turns } = this.runs
    const turn = turns.beginTurn(undefined)
    const events: Array<StoredEvent> = []
    const listeners = new Set<() => void>()
    const streamed = opened.spec.request.stream
    const builder = new ResponseBuilder({
      id,
      createdS,
      echo: opened.spec.echo,
      background: true,
      summarized: opened.spec.summarized,
      onFirstEvent: () => turn.noteFirstEvent(),
      emit: streamed
        ? (type, event) => {
            events.push({ type, data: JSON.stringify(event) })
          }
        : undefined,
      flush: () => tell()
    })
    const tell = (): void => {
      for (const heard of listeners) heard()
    }
    const work: Work = {
      job: { ...opened, id, builder },
      turn,
      body,
      streamed,
      events,
      storedEvents: 0,
      status: "queued",
      listeners,
      done: new Promise((resolve) => {
        this.finishing.set(id, resolve)
      })
    }
    builder.emit("response.created", { response: builder.responseObject("queued") })
    builder.emit("response.queued", { response: builder.responseObject("queued") })
    this.working.set(id, work)
    return work
  }

  private readonly finishing = new Map<string, () => void>()

  /** The state and the events that are new, on disk when it resolves. */
  private async keep(work: Work, status: ResponseStatus, object?: Json): Promise<void> {
    const { job, turn, events } = work
    const from = work.storedEvents
    work.storedEvents = events.length
    const ends = status !== "queued" && status !== "in_progress"
    await this.runs.sessions.commit({
      id: job.id,
      record: this.runs.recordOf(
        job,
        turn,
        status,
        object ?? job.builder.responseObject(status),
        work.streamed
      ),
      events: events.slice(from),
      eventsFrom: from,
      ...(ends ? {} : { work: JSON.stringify(work.body) })
    })
  }

  private start(work: Work): void {
    const { job, turn } = work
    const { builder } = job
    const { turns } = this.runs
    void (async () => {
      let batch: { stop(): void } | undefined
      try {
        work.status = "in_progress"
        builder.emit("response.in_progress", { response: builder.responseObject("in_progress") })
        await this.keep(work, "in_progress")
        const later = (): void => {
          batch = turns.deps.deadlines.start(batchMs, () => {
            if (work.storedEvents < work.events.length) void this.keep(work, "in_progress").catch(() => {})
            later()
          })
        }
        if (work.streamed) later()
        await this.runs.run(job, turn)
        builder.closeAll()
        const status = this.runs.statusOf(job)
        await this.finish(
          work,
          status,
          `response.${status}`,
          builder.responseObject(status, { completedS: turns.nowS() })
        )
        this.end(work, status)
      } catch (fault) {
        if (turn.interrupted) {
          // Back to the beginning: another process will take it up.
          builder.reset()
          work.events.length = work.storedEvents = 0
          await this.keep(work, "queued").catch(() => {})
          return this.end(work, "cancelled")
        }
        const refusal = turn.refusal(fault, job.spec.model)
        const status = turn.cancelled ? "cancelled" : "failed"
        const object = builder.responseObject(
          status,
          status === "failed" ? { error: failureOf(refusal) } : {}
        )
        await this.finish(
          work,
          status,
          status === "cancelled" ? "response.incomplete" : "response.failed",
          object
        ).catch(() => {})
        this.end(work, status)
      } finally {
        batch?.stop()
      }
    })()
  }

  private async finish(work: Work, status: ResponseStatus, type: string, object: Json): Promise<void> {
    const { builder } = work.job
    builder.emit(type, { response: object })
    // The last event is heard only when it is on disk.
    await this.keep(work, status, object)
    work.status = status
  }

  private end(work: Work, outcome: "completed" | "incomplete" | "failed" | "cancelled"): void {
    const { job, turn, listeners } = work
    this.working.delete(job.id)
    this.runs.running.delete(job.id)
    this.runs.sessions.leave(job.sessionId)
    turn.end(outcome)
    work.status = outcome
    for (const heard of listeners) heard()
    this.finishing.get(job.id)?.()
    this.finishing.delete(job.id)
  }

  /** Ends a background response that is under way; resolves when its end is on disk. */
  async cancel(id: string, owner: string): Promise<void> {
    const work = this.working.get(id)
    if (work === undefined || work.job.owner !== owner) return
    work.turn.stop("cancelled")
    await work.done
  }

  async replay(id: string, owner: string, after: number): Promise<Response> {
    const work = this.working.get(id)
    if (work !== undefined && work.job.owner === owner) {
      if (!work.streamed) throw badValue("stream", "This response has no stream.")
      return this.stream(work, after, undefined)
    }
    const record = await this.runs.sessions.get(owner, id)
    if (!record.background || !record.streamed) throw badValue("stream", "This response has no stream.")
    const events = this.runs.sessions.events(id, after)
    const reply = this.replyFor(() => {})
    reply.sendHeaders()
    reply.write(events.map(({ type, data }) => namedFrame(type, data)).join("") + doneFrame)
    reply.end()
    return reply.response
  }

  private replyFor(onStalled: () => void): StreamReply {
    const { deadlines, settings, metrics } = this.runs.turns.deps
    return new StreamReply({
      deadlines,
      commitMs: settings.commitMs,
      keepAliveMs: settings.keepAliveMs,
      headers: () => [],
      onStalled,
      onBackpressure: () => metrics.backpressure()
    })
  }

  /** Events above `after`, then what comes, until the end. Nobody waits for a listener, and its going stops
   *  nothing. */
  private stream(work: Work, after: number, client: AbortSignal | undefined): Promise<Response> {
    let next = after + 1
    const leave = (): void => {
      work.listeners.delete(heard)
      client?.removeEventListener("abort", gone)
    }
    const gone = (): void => {
      leave()
      reply.abandon()
    }
    const reply = this.replyFor(leave)
    const heard = (): void => {
      const over = !this.working.has(work.job.id)
      let out = ""
      for (; next < work.events.length; next++) {
        const { type, data } = work.events[next]!
        if (terminal.has(type) && !over) break
        out += namedFrame(type, data)
      }
      if (over) out += doneFrame
      if (out !== "") reply.write(out)
      if (over) {
        leave()
        reply.end()
      }
    }
    work.listeners.add(heard)
    client?.addEventListener("abort", gone, { once: true })
    reply.sendHeaders()
    heard()
    return reply.response
  }

  /** After a start: what was queued begins again, what was under way has failed. */
  async resume(): Promise<void> {
    const { sessions, turns } = this.runs
    for (const { id, record, body } of sessions.unfinished()) {
      const object = JSON.parse(record.object) as Json
      const given = JSON.parse(body) as Json
      try {
        if (record.status === "in_progress") throw new Error("interrupted by restart")
        const opened = await this.runs.open(given, record.owner)
        sessions.leave(opened.sessionId)
        sessions.enter(record.sessionId)
        const work = this.prepare(
          id,
          { ...opened, sessionId: record.sessionId },
          given,
          object["created_at"] as number
        )
        this.runs.running.set(id, work.job)
        this.start(work)
      } catch (cause) {
        // What was open stays so for ever: the items say it as those of any other failed response do.
        const output = (object["output"] as ReadonlyArray<Json>).map((item) =>
          item["status"] === "in_progress" ? { ...item, status: "incomplete" } : item
        )
        const failed = {
          ...object,
          status: "failed",
          output,
          error: {
            code: "server_error",
            message:
              cause instanceof Error && cause.message === "interrupted by restart"
                ? cause.message
                : "could not be resumed"
          }
        }
        const events = sessions.events(id, -1)
        const streamed = record.streamed
        await sessions
          .commit({
            id,
            record: { ...record, status: "failed", object: JSON.stringify(failed) },
            eventsFrom: events.length,
            events: streamed
              ? [
                  {
                    type: "response.failed",
                    data: JSON.stringify({
                      type: "response.failed",
                      sequence_number: events.length,
                      response: failed
                    })
                  }
                ]
              : []
          })
          .catch((fault: unknown) =>
            turns.deps.log("error", "a background response could not be ended", { fault: String(fault) })
          )
      }
    }
  }
}
