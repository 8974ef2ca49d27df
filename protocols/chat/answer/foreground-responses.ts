/** Responses made while their client waits, whole or streamed.
 *
 *    whole    run ─► store ─► JSON
 *    stream   headers and `created` with the first event ─► deltas ─► store ─► terminal event ─► [DONE]
 *
 *  Guarantee: the terminal event, or the JSON answer, leaves only after the response is on disk.
 *  Source: docs/spec/chat.md, sections 9, 10 and 17.1. */
import type { Flow } from "../../../actors/engines/chat/model.ts"
import type { Header, Response } from "../../../runtime/http.ts"
import { doneFrame, namedFrame } from "../../shared/sse.ts"
import { errorBodyOf, responseErrorOf } from "../problems.ts"
import type { Json } from "../request/json-body.ts"
import type { Turn } from "../turn/turn.ts"
import { problemOf } from "../upstream-problems.ts"
import { ResponseBuilder, type BuilderOptions } from "./response-builder.ts"
import type { AcceptedResponse, ResponseJob, ResponseRuns } from "./response-runs.ts"
import { StreamReply } from "./stream-reply.ts"

export const okJson = (value: unknown, headers: ReadonlyArray<Header> = []): Response => ({
  status: 200,
  headers: [["Content-Type", "application/json; charset=utf-8"], ...headers],
  body: JSON.stringify(value)
})

const estimatedUsage: ReadonlyArray<Header> = [["x-proxy-usage", "estimated"]]

type StreamOptions = Pick<BuilderOptions, "onFirstEvent" | "emit" | "flush">

const startJob = (runs: ResponseRuns, accepted: AcceptedResponse, options: StreamOptions): ResponseJob =>
  runs.start(accepted, (id) => {
    const { echo, summarized } = accepted.spec
    const createdS = runs.turns.nowS()
    return new ResponseBuilder({ id, createdS, echo, background: false, summarized, ...options })
  })

/** Stores the partial response of a client that has disconnected. A failure is ignored, because nobody is
 *  left to receive it. */
const storeCancelled = async (runs: ResponseRuns, job: ResponseJob, turn: Turn): Promise<void> => {
  const object = job.builder.responseObject("cancelled")
  await runs.storeForeground(job, turn, { status: "cancelled", object }).catch(() => {})
}

export const wholeResponse = async (
  runs: ResponseRuns,
  accepted: AcceptedResponse,
  turn: Turn
): Promise<Response> => {
  const job = startJob(runs, accepted, { onFirstEvent: () => turn.noteFirstEvent() })
  const { builder } = job
  try {
    const { estimated } = await runs.run(job, turn)
    builder.closeAll()
    const status = runs.statusOf(job)
    const object = builder.responseObject(status, { completedS: runs.turns.nowS() })
    await runs.storeForeground(job, turn, { status, object })
    turn.end(status)
    return okJson(object, estimated ? [...turn.headers, ...estimatedUsage] : turn.headers)
  } catch (fault) {
    const problem = turn.problem(fault, job.spec.model)
    if (turn.cancelled) await storeCancelled(runs, job, turn)
    turn.end(turn.cancelled ? "cancelled" : "failed")
    return turn.problemResponse(problem, fault)
  } finally {
    runs.end(job)
  }
}

export class StreamedResponse {
  private readonly runs: ResponseRuns
  private readonly turn: Turn
  private readonly reply: StreamReply
  private readonly job: ResponseJob

  /** Frames that are sent in one write. */
  private batch = ""

  constructor(runs: ResponseRuns, accepted: AcceptedResponse, turn: Turn) {
    const { settings, deadlines, metrics } = runs.turns.deps
    this.runs = runs
    this.turn = turn
    this.reply = new StreamReply({
      deadlines,
      commitMs: settings.commitMs,
      keepAliveMs: settings.keepAliveMs,
      headers: () => turn.headers,
      onStalled: () => turn.stop("disconnected"),
      onBackpressure: () => metrics.backpressure(),
      onHeaders: () => this.emitCreated()
    })
    this.job = startJob(runs, accepted, {
      onFirstEvent: (flow) => this.onFirstEvent(flow),
      emit: (type, event) => {
        this.batch += namedFrame(type, JSON.stringify(event))
      },
      flush: () => this.flush()
    })
  }

  /** Runs the turn; the answer is there when its headers are. */
  start(): Promise<Response> {
    void this.run().catch((fault: unknown) => this.failWithoutObject(fault))
    return this.reply.response
  }

  private async run(): Promise<void> {
    try {
      await this.complete()
    } catch (fault) {
      await this.fail(fault)
    } finally {
      this.runs.end(this.job)
    }
  }

  private async complete(): Promise<void> {
    const { runs, turn, job } = this
    const { builder } = job
    await runs.run(job, turn)
    this.reply.sendHeaders()
    builder.closeAll()
    this.flush()
    const status = runs.statusOf(job)
    const object = builder.responseObject(status, { completedS: runs.turns.nowS() })
    await runs.storeForeground(job, turn, { status, object })
    turn.end(status)
    this.end(`response.${status}`, object)
  }

  private async fail(fault: unknown): Promise<void> {
    const { runs, turn, job, reply } = this
    const { builder } = job
    const problem = turn.problem(fault, job.spec.model)
    if (turn.disconnected) {
      await storeCancelled(runs, job, turn)
      reply.replaceWith(turn.problemResponse(problem, fault))
      reply.abandon()
      return turn.end("cancelled")
    }
    if (!reply.headersSent) {
      reply.replaceWith(turn.problemResponse(problem, fault))
      return turn.end("failed")
    }
    turn.logFailure(problem, fault)
    const object = builder.responseObject("failed", { error: responseErrorOf(problem) })
    // If even this cannot be stored, the client is informed all the same: the turn has failed either way.
    await runs.storeForeground(job, turn, { status: "failed", object }).catch(() => {})
    turn.end("failed")
    this.end("response.failed", object)
  }

  /** The response object cannot be built: `error` is the one event that needs none. */
  private failWithoutObject(fault: unknown): void {
    const problem = problemOf(fault)
    this.turn.logFailure(problem, fault)
    const { code, message } = errorBodyOf(problem)
    const sequence = this.job.builder.sequence++
    const event = { type: "error", code, message, param: null, sequence_number: sequence }
    this.reply.write(namedFrame("error", JSON.stringify(event)) + doneFrame)
    this.reply.end()
  }

  private onFirstEvent(flow: Flow | undefined): void {
    this.turn.noteFirstEvent()
    this.reply.sendHeaders(flow)
  }

  private emitCreated(): void {
    const { builder } = this.job
    builder.emit("response.created", { response: builder.responseObject("in_progress") })
    builder.emit("response.in_progress", { response: builder.responseObject("in_progress") })
    this.flush()
  }

  private flush(): void {
    const { batch } = this
    if (batch === "") return
    this.batch = ""
    this.reply.write(batch)
  }

  private end(type: string, object: Json): void {
    this.reply.sendHeaders()
    this.job.builder.emit(type, { response: object })
    this.batch += doneFrame
    this.flush()
    this.reply.end()
  }
}
