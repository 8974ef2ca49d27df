/** /v1/responses and what hangs below it. The terminal event, or the JSON answer, leaves only after the
 *  response is on disk.
 *  Source: chat sections 9, 10, 15, 16. */
import type { Request, Response } from "../../../runtime/http.ts"
import { doneFrame, namedFrame } from "../../shared/sse.ts"
import type { OwnerHandler } from "../access.ts"
import type { BackgroundResponses } from "./background-responses.ts"
import { Fields, readBody, type Json } from "../request/fields.ts"
import { type Item } from "../request/response-items.ts"
import { answerOf, badValue, failureOf, refusalOf, wrongType } from "../problems.ts"
import { StreamReply } from "./stream-reply.ts"
import type { ResponseJob, ResponseRuns } from "./response-runs.ts"
import { ResponseBuilder, type ResponseStatus } from "./response-builder.ts"
import type { Turn } from "../turn/turn.ts"
import { newId } from "../wire.ts"

export interface ResponsesApi {
  readonly create: OwnerHandler
  readonly retrieve: OwnerHandler
  readonly remove: OwnerHandler
  readonly cancel: OwnerHandler
  readonly inputItems: OwnerHandler
}

const jsonHeaders = [["Content-Type", "application/json; charset=utf-8"]] as const

const ok = (value: unknown, headers: ReadonlyArray<readonly [string, string]> = []): Response => ({
  status: 200,
  headers: [...jsonHeaders, ...headers],
  body: JSON.stringify(value)
})

export const responsesApi = (runs: ResponseRuns, background: BackgroundResponses): ResponsesApi => {
  const { turns, sessions } = runs
  const { settings, deadlines, metrics } = turns.deps

  const create: OwnerHandler = async (request, owner) => {
    const { object: body } = readBody(request.body)
    const opened = await runs.open(body, owner)
    if (opened.spec.background) return background.accept(opened, body, request)
    let turn: Turn
    try {
      turn = turns.beginTurn(request)
    } catch (refusal) {
      sessions.leave(opened.sessionId)
      throw refusal
    }
    return opened.spec.request.stream ? streamed(opened, turn) : whole(opened, turn)
  }
  /** Ends a foreground turn: what is to be stored is on disk when it resolves. */
  const store = async (job: ResponseJob, turn: Turn, status: ResponseStatus, object: Json): Promise<void> => {
    if (job.spec.store)
      await sessions.commit({ id: job.id, record: runs.recordOf(job, turn, status, object, false) })
  }
  const over = (job: ResponseJob): void => {
    runs.running.delete(job.id)
    sessions.leave(job.sessionId)
  }
  const jobOf = (
    opened: Pick<ResponseJob, "owner" | "sessionId" | "spec" | "parent">,
    make: (id: string) => ResponseBuilder
  ): ResponseJob => {
    const id = newId("resp")
    const job: ResponseJob = { ...opened, id, builder: make(id) }
    runs.running.set(id, job)
    return job
  }

  const whole = async (
    opened: Pick<ResponseJob, "owner" | "sessionId" | "spec" | "parent">,
    turn: Turn
  ): Promise<Response> => {
    const job = jobOf(
      opened,
      (id) =>
        new ResponseBuilder({
          id,
          createdS: turns.nowS(),
          echo: opened.spec.echo,
          background: false,
          summarized: opened.spec.summarized,
          onFirstEvent: () => turn.noteFirstEvent()
        })
    )
    try {
      const { estimated } = await runs.run(job, turn)
      job.builder.closeAll()
      const status = runs.statusOf(job)
      const object = job.builder.responseObject(status, { completedS: turns.nowS() })
      await store(job, turn, status, object)
      turn.end(status)
      return ok(object, [...turn.headers, ...(estimated ? [["x-proxy-usage", "estimated"] as const] : [])])
    } catch (fault) {
      const refusal = turn.refusal(fault, job.spec.model)
      if (turn.cancelled)
        await store(job, turn, "cancelled", job.builder.responseObject("cancelled")).catch(() => {})
      turn.end(turn.cancelled ? "cancelled" : "failed")
      const answer = answerOf(refusal)
      return { ...answer, headers: [...answer.headers!, ...turn.headers] }
    } finally {
      over(job)
    }
  }

  const streamed = (
    opened: Pick<ResponseJob, "owner" | "sessionId" | "spec" | "parent">,
    turn: Turn
  ): Promise<Response> => {
    let out = ""
    const flush = (): void => {
      if (out !== "") {
        const text = out
        out = ""
        reply.write(text)
      }
    }
    const reply = new StreamReply({
      deadlines,
      commitMs: settings.commitMs,
      keepAliveMs: settings.keepAliveMs,
      headers: () => turn.headers,
      onStalled: () => turn.stop("gone"),
      onBackpressure: () => metrics.backpressure(),
      onHeaders: () => {
        builder.emit("response.created", { response: builder.responseObject("in_progress") })
        builder.emit("response.in_progress", { response: builder.responseObject("in_progress") })
        flush()
      }
    })
    const job = jobOf(
      opened,
      (id) =>
        new ResponseBuilder({
          id,
          createdS: turns.nowS(),
          echo: opened.spec.echo,
          background: false,
          summarized: opened.spec.summarized,
          onFirstEvent: (flow) => {
            turn.noteFirstEvent()
            reply.sendHeaders(flow)
          },
          emit: (type, event) => {
            out += namedFrame(type, JSON.stringify(event))
          },
          flush
        })
    )
    const { builder } = job
    const end = (type: string, object: Json): void => {
      reply.sendHeaders()
      builder.emit(type, { response: object })
      out += doneFrame
      flush()
      reply.end()
    }
    const failed = async (fault: unknown): Promise<void> => {
      const refusal = turn.refusal(fault, job.spec.model)
      if (turn.disconnected) {
        await store(job, turn, "cancelled", builder.responseObject("cancelled")).catch(() => {})
        reply.replaceWith(answerOf(refusal))
        reply.abandon()
        return turn.end("cancelled")
      }
      if (!reply.headersSent) {
        const answer = answerOf(refusal)
        reply.replaceWith({ ...answer, headers: [...answer.headers!, ...turn.headers] })
        return turn.end("failed")
      }
      const object = builder.responseObject("failed", { error: failureOf(refusal) })
      // Where even this cannot be kept, the client is told all the same: the turn has failed either way.
      await store(job, turn, "failed", object).catch(() => {})
      turn.end("failed")
      end("response.failed", object)
    }
    void (async () => {
      try {
        await runs.run(job, turn)
        reply.sendHeaders()
        builder.closeAll()
        flush()
        const status = runs.statusOf(job)
        const object = builder.responseObject(status, { completedS: turns.nowS() })
        await store(job, turn, status, object)
        turn.end(status)
        end(`response.${status}`, object)
      } catch (fault) {
        await failed(fault)
      } finally {
        over(job)
      }
    })().catch((fault: unknown) => {
      // The response object cannot be built: the one event that needs none.
      const { body } = refusalOf(fault)
      reply.write(
        namedFrame(
          "error",
          JSON.stringify({
            type: "error",
            code: body.code,
            message: body.message,
            param: null,
            sequence_number: builder.sequence++
          })
        ) + doneFrame
      )
      reply.end()
    })
    return reply.response
  }

  const idOf = (request: Request): string => request.params["id"] ?? ""
  const seen = async (request: Request, owner: string): Promise<Json> => {
    const job = runs.running.get(idOf(request))
    if (job !== undefined && job.owner === owner)
      return background.stateOf(job.id) ?? job.builder.responseObject("in_progress")
    return JSON.parse((await sessions.get(owner, idOf(request))).object) as Json
  }
  const queryOf = ({ query }: Request): URLSearchParams => new URLSearchParams(query)
  const integer = (query: URLSearchParams, name: string, min: number, max: number): number | undefined => {
    const text = query.get(name)
    if (text === null) return undefined
    if (!/^-?\d{1,15}$/.test(text)) throw wrongType(name, "an integer")
    return new Fields({ [name]: Number(text) }).integer(name, min, max)
  }
  return {
    create,
    retrieve: async (request, owner) => {
      const query = queryOf(request)
      if (query.get("stream") !== "true") return ok(await seen(request, owner))
      const job = runs.running.get(idOf(request))
      if (job?.owner === owner && !job.spec.background)
        throw badValue("stream", "This response has no stream.")
      const after = integer(query, "starting_after", 0, Number.MAX_SAFE_INTEGER) ?? -1
      return background.replay(idOf(request), owner, after)
    },
    remove: async (request, owner) => {
      const id = idOf(request)
      await background.cancel(id, owner)
      await sessions.remove(owner, id)
      return ok({ id, object: "response", deleted: true })
    },
    cancel: async (request, owner) => {
      const id = idOf(request)
      const job = runs.running.get(id)
      if (job?.owner === owner && !job.spec.background)
        throw badValue("response_id", "Cannot cancel a synchronous response.")
      if (job === undefined && !(await sessions.get(owner, id)).background)
        throw badValue("response_id", "Cannot cancel a synchronous response.")
      await background.cancel(id, owner)
      return ok(await seen(request, owner))
    },
    inputItems: async (request, owner) => {
      const query = queryOf(request)
      const limit = integer(query, "limit", 1, 100) ?? 20
      const order = query.get("order") ?? "desc"
      const after = query.get("after")
      if (order !== "asc" && order !== "desc")
        throw badValue("order", "Invalid value for 'order': supported are 'asc', 'desc'.")
      const job = runs.running.get(idOf(request))
      const given =
        job?.owner === owner
          ? job.spec.items
          : (JSON.parse((await sessions.get(owner, idOf(request))).input) as ReadonlyArray<Item>)
      const items = order === "asc" ? given : given.toReversed()
      const from = after === null ? 0 : items.findIndex(({ id }) => id === after) + 1
      if (after !== null && from === 0) throw badValue("after", `Item '${after.slice(0, 64)}' not found.`)
      const page = items.slice(from, from + limit)
      return ok({
        object: "list",
        data: page,
        first_id: page[0]?.id ?? null,
        last_id: page.at(-1)?.id ?? null,
        has_more: from + limit < items.length
      })
    }
  }
}
