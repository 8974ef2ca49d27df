/** POST /v1/chat/completions, as one answer or as a stream. Guarantee: nothing of it is stored.
 *  Source: docs/spec/chat.md, sections 7 and 8. */
import type { Effect } from "effect"
import { badResponse } from "../../../actors/engines/chat/model.ts"
import type { Header, Request, Response } from "../../../runtime/http.ts"
import { errorBodyOf } from "../problems.ts"
import { readCompletions, type CompletionsSpec } from "../request/completions-request.ts"
import { readBody } from "../request/json-body.ts"
import type { Turn, Turns } from "../turn/turn.ts"
import { completionJson, newCompletionId, type Choice } from "../wire.ts"
import { CollectedAnswer } from "./collected-answer.ts"
import { CompletionChunks } from "./completion-chunks.ts"
import { StreamReply } from "./stream-reply.ts"

const contentType: Header = ["Content-Type", "application/json; charset=utf-8"]
const estimatedUsage: Header = ["x-proxy-usage", "estimated"]

export const completions =
  (turns: Turns) =>
  (request: Request): Effect.Effect<Response, unknown> => {
    const { object, text } = readBody(request.body)
    const spec = readCompletions(object, text)
    const turn = turns.beginTurn(request)
    return turn.answered(spec.request.stream ? streamed(turns, spec, turn) : whole(turns, spec, turn))
  }

const isIncomplete = ({ finish }: Choice): boolean => finish === "length" || finish === "content_filter"

const whole = async (turns: Turns, spec: CompletionsSpec, turn: Turn): Promise<Response> => {
  const answer = new CollectedAnswer()
  try {
    const { usage, estimated } = await turn.run(spec, answer)
    const { choices } = answer
    if (choices.length === 0) throw badResponse("no choices")
    turn.end(choices.some(isIncomplete) ? "incomplete" : "completed")
    return {
      status: 200,
      headers: estimated ? [contentType, ...turn.headers, estimatedUsage] : [contentType, ...turn.headers],
      body: completionJson({
        id: newCompletionId(),
        created: turns.nowS(),
        model: spec.model,
        choices,
        usage,
        legacy: spec.legacy
      })
    }
  } catch (fault) {
    const problem = turn.problem(fault, spec.model)
    turn.end("failed")
    return turn.problemResponse(problem, fault)
  }
}

const streamed = (turns: Turns, spec: CompletionsSpec, turn: Turn): Promise<Response> => {
  const { deadlines, settings, metrics, upstreams } = turns.deps
  const reply = new StreamReply({
    deadlines,
    commitMs: settings.commitMs,
    keepAliveMs: settings.keepAliveMs,
    headers: () => turn.headers,
    onStalled: () => turn.stop("disconnected"),
    onBackpressure: () => metrics.backpressure()
  })
  const splitsText = upstreams.find(spec.model)?.upstream.record.supports?.stream === false
  const chunks = new CompletionChunks(
    {
      id: newCompletionId(),
      created: turns.nowS(),
      model: spec.model,
      includeUsage: spec.includeUsage,
      legacy: spec.legacy,
      onFirstEvent: (flow) => {
        turn.noteFirstEvent()
        reply.sendHeaders(flow)
      },
      write: (text) => reply.write(text)
    },
    splitsText
  )
  void turn.run(spec, chunks).then(
    () => {
      reply.sendHeaders()
      chunks.done()
      turn.end("completed")
      reply.end()
    },
    (fault: unknown) => {
      const problem = turn.problem(fault, spec.model)
      turn.end("failed")
      if (turn.disconnected) {
        reply.replaceWith(turn.problemResponse(problem, fault))
        reply.abandon()
      } else if (reply.headersSent) {
        turn.logFailure(problem, fault)
        chunks.fail(errorBodyOf(problem))
        reply.end()
      } else reply.replaceWith(turn.problemResponse(problem, fault))
    }
  )
  return reply.response
}
