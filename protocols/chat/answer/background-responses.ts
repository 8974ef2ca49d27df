/** Responses made behind their request: accepted on disk first, worked on whether or not anybody listens,
 *  their events stored for a replay.
 *
 *    accept ─► stored as queued ─► answered ─► in_progress ─► events stored in batches ─► stored at its end
 *    restart: what was queued begins again, what was in_progress has failed
 *
 *  Guarantee: a listener learns of the end only when it is on disk; no listener slows the work.
 *  Source: docs/spec/chat.md, sections 9.5, 10, 16 and 17.6. */
import type { Response } from "../../../runtime/http.ts"
import { doneFrame, namedFrame } from "../../shared/sse.ts"
import { Refusal, responseErrorOf } from "../problems.ts"
import type { Json } from "../request/json-body.ts"
import type { Turn } from "../turn/turn.ts"
import { newId } from "../wire.ts"
import { okJson } from "./foreground-responses.ts"
import { failUnfinished } from "./interrupted-response.ts"
import { ResponseBuilder, type ResponseStatus } from "./response-builder.ts"
import type { AcceptedResponse, ResponseJob, ResponseRuns } from "./response-runs.ts"
import type { StoredEvent, UnfinishedResponse } from "./sessions.ts"
import { StreamReply } from "./stream-reply.ts"

/** Maximum time in ms that events wait before they are written to disk. */
const batchMs = 50

const terminalTypes = new Set(["response.completed", "response.incomplete", "response.failed"])

type Listener = () => void

interface BackgroundJob {
  readonly job: ResponseJob
  readonly turn: Turn
  readonly body: Json
  readonly streamed: boolean
  readonly events: Array<StoredEvent>
  /** Number of events that are on disk. */
  storedEvents: number
  status: ResponseStatus
  readonly listeners: Set<Listener>
  readonly done: Promise<void>
  readonly resolveDone: () => void
}

interface Origin {
  readonly id: string
  readonly createdS: number
  readonly body: Json
}

const isTerminal = (status: ResponseStatus): boolean => status !== "queued" && status !== "in_progress"

const notify = ({ listeners }: BackgroundJob): void => {
  for (const listener of listeners) listener()
}

export class BackgroundResponses {
  private readonly runs: ResponseRuns
  private readonly working = new Map<string, BackgroundJob>()

  constructor(runs: ResponseRuns) {
    this.runs = runs
  }

  /** The response object of a background response under way. */
  currentObject(id: string): Json | undefined {
    const work = this.working.get(id)
    return work?.job.builder.responseObject(work.status)
  }

  /** Stores the response as queued, then answers, then works on it. */
  async accept(accepted: AcceptedResponse, body: Json): Promise<Response> {
    const work = this.prepareOrLeave(accepted, { id: newId("resp"), createdS: this.runs.turns.nowS(), body })
    try {
      await this.store(work, "queued")
    } catch (fault) {
      this.end(work, "failed")
      throw fault
    }
    const object = work.job.builder.responseObject("queued")
    this.start(work)
    return work.streamed ? this.stream(work, -1) : okJson(object)
  }

  private prepareOrLeave(accepted: AcceptedResponse, origin: Origin): BackgroundJob {
    try {
      return this.prepare(accepted, origin)
    } catch (refusal) {
      this.runs.sessions.turnLimit.leave(accepted.sessionId)
      throw refusal
    }
  }

  /** Begins the turn, which may be refused, and lists the job as running. */
  private prepare(accepted: AcceptedResponse, { id, createdS, body }: Origin): BackgroundJob {
    const { spec } = accepted
    const turn = this.runs.turns.beginTurn(undefined)
    const events: Array<StoredEvent> = []
    const streamed = spec.request.stream
    const store = (type: string, event: Json): void => {
      events.push({ type, data: JSON.stringify(event) })
    }
    const builder = new ResponseBuilder({
      id,
      createdS,
      echo: spec.echo,
      background: true,
      summarized: spec.summarized,
      onFirstEvent: () => turn.noteFirstEvent(),
      emit: streamed ? store : undefined,
      flush: () => notify(work)
    })
    let resolveDone!: () => void
    const done = new Promise<void>((resolve) => {
      resolveDone = resolve
    })
    const work: BackgroundJob = {
      job: { ...accepted, id, builder },
      turn,
      body,
      streamed,
      events,
      storedEvents: 0,
      status: "queued",
      listeners: new Set(),
      done,
      resolveDone
    }
    builder.emit("response.created", { response: builder.responseObject("queued") })
    builder.emit("response.queued", { response: builder.responseObject("queued") })
    this.working.set(id, work)
    this.runs.running.set(id, work.job)
    return work
  }

  /** Resolves when the state and the new events are on disk. The request body is stored with them until the
   *  end, because a restart begins from it. */
  private async store(work: BackgroundJob, status: ResponseStatus, object?: Json): Promise<void> {
    const { job, turn, events, streamed } = work
    const eventsFrom = work.storedEvents
    work.storedEvents = events.length
    const state = { status, object: object ?? job.builder.responseObject(status), streamed }
    await this.runs.sessions.commit({
      id: job.id,
      record: this.runs.recordOf(job, turn, state),
      events: events.slice(eventsFrom),
      eventsFrom,
      ...(isTerminal(status) ? {} : { work: JSON.stringify(work.body) })
    })
  }

  private start(work: BackgroundJob): void {
    void this.complete(work).catch((fault: unknown) => this.fail(work, fault))
  }

  private async complete(work: BackgroundJob): Promise<void> {
    const { job, turn } = work
    const { builder } = job
    work.status = "in_progress"
    builder.emit("response.in_progress", { response: builder.responseObject("in_progress") })
    await this.store(work, "in_progress")
    const stopBatches = work.streamed ? this.storeInBatches(work) : () => {}
    try {
      await this.runs.run(job, turn)
      builder.closeAll()
      const status = this.runs.statusOf(job)
      const object = builder.responseObject(status, { completedS: this.runs.turns.nowS() })
      await this.finish(work, status, { type: `response.${status}`, object })
      this.end(work, status)
    } finally {
      stopBatches()
    }
  }

  /** Stores new events periodically; the returned function stops it. */
  private storeInBatches(work: BackgroundJob): () => void {
    const { deadlines } = this.runs.turns.deps
    const storeNew = (): void => {
      if (work.storedEvents < work.events.length) void this.store(work, "in_progress").catch(() => {})
      batch = deadlines.start(batchMs, storeNew)
    }
    let batch = deadlines.start(batchMs, storeNew)
    return () => batch.stop()
  }

  private async fail(work: BackgroundJob, fault: unknown): Promise<void> {
    const { job, turn } = work
    if (turn.interrupted) return this.requeue(work)
    const problem = turn.problem(fault, job.spec.model)
    turn.logFailure(problem, fault, job.id)
    const status = turn.cancelled ? "cancelled" : "failed"
    const end = turn.cancelled ? {} : { error: responseErrorOf(problem) }
    const object = job.builder.responseObject(status, end)
    const type = turn.cancelled ? "response.incomplete" : "response.failed"
    await this.finish(work, status, { type, object }).catch(() => {})
    this.end(work, status)
  }

  /** Takes the response back to its beginning: another process will take it up. */
  private async requeue(work: BackgroundJob): Promise<void> {
    work.job.builder.reset()
    work.events.length = 0
    work.storedEvents = 0
    await this.store(work, "queued").catch(() => {})
    this.end(work, "cancelled")
  }

  /** The last event becomes visible only when it is on disk. */
  private async finish(
    work: BackgroundJob,
    status: ResponseStatus,
    { type, object }: { readonly type: string; readonly object: Json }
  ): Promise<void> {
    work.job.builder.emit(type, { response: object })
    await this.store(work, status, object)
    work.status = status
  }

  private end(work: BackgroundJob, outcome: "completed" | "incomplete" | "failed" | "cancelled"): void {
    const { job, turn } = work
    this.working.delete(job.id)
    this.runs.end(job)
    turn.end(outcome)
    work.status = outcome
    notify(work)
    work.resolveDone()
  }

  private ownWork(id: string, owner: string): BackgroundJob | undefined {
    const work = this.working.get(id)
    return work?.job.owner === owner ? work : undefined
  }

  /** Ends a background response that is under way; resolves when its end is on disk. */
  async cancel(id: string, owner: string): Promise<void> {
    const work = this.ownWork(id, owner)
    if (work === undefined) return
    work.turn.stop("cancelled")
    await work.done
  }

  /** Returns the events above `after`, and while the response is in progress those that follow. */
  async replay(id: string, owner: string, after: number): Promise<Response> {
    const work = this.ownWork(id, owner)
    if (work !== undefined) {
      if (!work.streamed) throw new Refusal({ _tag: "ResponseNotStreamed" })
      return this.stream(work, after)
    }
    const { sessions } = this.runs
    const record = await sessions.get(owner, id)
    if (!record.background || !record.streamed) throw new Refusal({ _tag: "ResponseNotStreamed" })
    const frames = sessions.events(id, after).map(({ type, data }) => namedFrame(type, data))
    const reply = this.reply(() => {})
    reply.sendHeaders()
    reply.write(frames.join("") + doneFrame)
    reply.end()
    return reply.response
  }

  private reply(onStalled: () => void, onBody?: () => () => void): StreamReply {
    const { deadlines, settings, metrics } = this.runs.turns.deps
    return new StreamReply({
      deadlines,
      commitMs: settings.commitMs,
      keepAliveMs: settings.keepAliveMs,
      headers: () => [],
      onStalled,
      onBackpressure: () => metrics.backpressure(),
      ...(onBody === undefined ? {} : { onBody })
    })
  }

  /** Streams the events above `after`, then new ones until the end. The work does not wait for a listener,
   *  and a listener that disconnects stops nothing. */
  private stream(work: BackgroundJob, after: number): Promise<Response> {
    let next = after + 1
    const leave = (): void => {
      work.listeners.delete(listener)
    }
    const reply = this.reply(leave, () => {
      work.listeners.add(listener)
      listener()
      return () => {
        leave()
        reply.abandon()
      }
    })
    const listener = (): void => {
      const ended = !this.working.has(work.job.id)
      let frames = ""
      for (; next < work.events.length; next++) {
        const { type, data } = work.events[next]!
        if (terminalTypes.has(type) && !ended) break
        frames += namedFrame(type, data)
      }
      if (ended) frames += doneFrame
      if (frames !== "") reply.write(frames)
      if (!ended) return
      leave()
      reply.end()
    }
    reply.sendHeaders()
    return reply.response
  }

  /** Runs at startup: queued responses begin again, and those in progress have failed. */
  async resume(): Promise<void> {
    const { sessions, turns } = this.runs
    const { log } = turns.deps
    for (const unfinished of sessions.unfinished()) {
      if (unfinished.record.status === "in_progress") {
        await failUnfinished(sessions, unfinished, { message: "interrupted by restart", log })
        continue
      }
      try {
        await this.restart(unfinished)
      } catch {
        await failUnfinished(sessions, unfinished, { message: "could not be resumed", log })
      }
    }
  }

  /** Restarts a queued response, under its id and in its session. */
  private async restart({ id, record, body }: UnfinishedResponse): Promise<void> {
    const { turnLimit } = this.runs.sessions
    const { sessionId, owner } = record
    const request = JSON.parse(body) as Json
    const accepted = await this.runs.accept(request, owner)
    turnLimit.leave(accepted.sessionId)
    turnLimit.enter(sessionId)
    const createdS = (JSON.parse(record.object) as Json)["created_at"] as number
    const work = this.prepareOrLeave({ ...accepted, sessionId }, { id, createdS, body: request })
    this.start(work)
  }
}
