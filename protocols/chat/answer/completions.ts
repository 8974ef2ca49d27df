/** POST /v1/chat/completions, whole or streamed. Nothing of it is stored. Source: chat sections 7 and 8. */
import { badResponse } from "../../../actors/engines/chat/model.ts"
import type { Request, Response } from "../../../runtime/http.ts"
import { readCompletions, type CompletionsSpec } from "../request/completions-request.ts"
import { CompletionChunks } from "./completion-chunks.ts"
import { CollectedAnswer } from "./collected-answer.ts"
import { readBody } from "../request/fields.ts"
import { answerOf } from "../problems.ts"
import { StreamReply } from "./stream-reply.ts"
import type { Turn, Turns } from "../turn/turn.ts"
import { completionJson, newCompletionId } from "../wire.ts"

const jsonType = ["Content-Type", "application/json; charset=utf-8"] as const

export const completions =
  (turns: Turns) =>
  (request: Request): Promise<Response> => {
    const { object, text } = readBody(request.body)
    const spec = readCompletions(object, text)
    const turn = turns.beginTurn(request)
    return spec.request.stream ? streamed(turns, spec, turn) : whole(turns, spec, turn)
  }

const whole = async (turns: Turns, spec: CompletionsSpec, turn: Turn): Promise<Response> => {
  const output = new CollectedAnswer()
  try {
    const { usage, estimated } = await turn.run(spec, output)
    const { choices } = output
    if (choices.length === 0) throw badResponse("no choices")
    turn.end(
      choices.some(({ finish }) => finish === "length" || finish === "content_filter")
        ? "incomplete"
        : "completed"
    )
    return {
      status: 200,
      headers: estimated
        ? [jsonType, ...turn.headers, ["x-proxy-usage", "estimated"]]
        : [jsonType, ...turn.headers],
      body: completionJson({
        id: newCompletionId(),
        created: turns.nowS(),
        model: spec.model,
        choices,
        used: usage,
        legacy: spec.legacy
      })
    }
  } catch (fault) {
    const refusal = turn.refusal(fault, spec.model)
    turn.end("failed")
    const answer = answerOf(refusal)
    return { ...answer, headers: [...answer.headers!, ...turn.headers] }
  }
}

const streamed = (turns: Turns, spec: CompletionsSpec, turn: Turn): Promise<Response> => {
  const { deadlines, settings, metrics } = turns.deps
  const reply = new StreamReply({
    deadlines,
    commitMs: settings.commitMs,
    keepAliveMs: settings.keepAliveMs,
    headers: () => turn.headers,
    onStalled: () => turn.stop("gone"),
    onBackpressure: () => metrics.backpressure()
  })
  const unstreamed = turns.deps.upstreams.find(spec.model)?.upstream.record.supports?.stream === false
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
    unstreamed
  )
  void turn.run(spec, chunks).then(
    () => {
      reply.sendHeaders()
      chunks.done()
      turn.end("completed")
      reply.end()
    },
    (fault: unknown) => {
      const refusal = turn.refusal(fault, spec.model)
      turn.end("failed")
      if (turn.disconnected) {
        reply.replaceWith(answerOf(refusal))
        reply.abandon()
        return
      }
      if (!reply.headersSent) {
        const answer = answerOf(refusal)
        reply.replaceWith({ ...answer, headers: [...answer.headers!, ...turn.headers] })
        return
      }
      chunks.fail(refusal.body)
      reply.end()
    }
  )
  return reply.response
}
