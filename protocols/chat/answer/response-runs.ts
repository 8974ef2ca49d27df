/** Responses while they are made: the request checked against models and sessions, the turn run, the record
 *  that is stored.
 *  Source: chat sections 9, 10, 15, 16. */
import { badResponse, UpstreamFault, type Message } from "../../../actors/engines/chat/model.ts"
import type { ResponseRecord } from "../../../actors/proxy-session.ts"
import type { Json } from "../request/fields.ts"
import { pairCallsWithResults, hasContent } from "../request/response-items.ts"
import { badValue, modelNotFound, previousNotFound, previousNotReady } from "../problems.ts"
import type { ResponseBuilder, ResponseStatus } from "./response-builder.ts"
import { readResponses, type ResponsesSpec } from "../request/responses-request.ts"
import type { Sessions } from "./sessions.ts"
import { truncated } from "../request/truncation.ts"
import type { Turn, Turns } from "../turn/turn.ts"
import { newSessionId } from "../wire.ts"

/** One response while it is made, foreground or background. */
export interface ResponseJob {
  readonly id: string
  readonly owner: string
  readonly sessionId: string
  readonly spec: ResponsesSpec
  readonly parent: ResponseRecord | undefined
  readonly builder: ResponseBuilder
}

export class ResponseRuns {
  readonly turns: Turns
  readonly sessions: Sessions

  /** Under way, by id: visible to their owners, not yet to be continued. */
  readonly running = new Map<string, ResponseJob>()

  constructor(turns: Turns, sessions: Sessions) {
    this.turns = turns
    this.sessions = sessions
  }

  /** The request checked against models and sessions; the session is entered. */
  async open(
    body: Json,
    owner: string
  ): Promise<Pick<ResponseJob, "owner" | "sessionId" | "spec" | "parent">> {
    const { upstreams } = this.turns.deps
    const read = readResponses(
      body,
      (id) => this.sessions.findItem(owner, id),
      (model) => {
        const record = upstreams.find(model)?.upstream.record
        return record?.kind === "openai-responses" && record.native_tools === true
      }
    )
    if ((await upstreams.resolve(read.model)) === undefined) throw modelNotFound(read.model)
    const { previousId } = read
    if (previousId === undefined) {
      const sessionId = newSessionId()
      const spec = this.inContext(read, [], undefined)
      this.sessions.enter(sessionId)
      return { owner, sessionId, spec, parent: undefined }
    }
    const now = this.running.get(previousId)
    if (now !== undefined)
      throw now.owner === owner ? previousNotReady(previousId) : previousNotFound(previousId)
    const parent = await this.sessions.begin(owner, previousId)
    try {
      return {
        owner,
        sessionId: parent.sessionId,
        spec: this.inContext(read, this.sessions.context(previousId), parent),
        parent
      }
    } catch (fault) {
      this.sessions.leave(parent.sessionId)
      throw fault
    }
  }

  private inContext(
    spec: ResponsesSpec,
    ancestors: ReadonlyArray<Message>,
    parent: ResponseRecord | undefined
  ): ResponsesSpec {
    const system: ReadonlyArray<Message> =
      spec.instructions === undefined ? [] : [{ role: "system", content: spec.instructions }]
    const messages = pairCallsWithResults([...ancestors, ...system, ...spec.request.messages])
    if (messages.length === 0) throw badValue("input", "There is nothing to answer.")
    return {
      ...spec,
      request: {
        ...spec.request,
        messages,
        ...(parent?.upstream === undefined || parent.upstream === null
          ? {}
          : { continues: { id: parent.upstream.session, freshFrom: ancestors.filter(hasContent).length } })
      }
    }
  }

  /** The model's answer into the builder; a context that is too long is cut once where the request allows it.
   *  */
  async run(job: ResponseJob, turn: Turn): Promise<{ readonly estimated: boolean }> {
    const { spec, builder, parent } = job
    const of = (request: ResponsesSpec["request"]): ResponsesSpec => ({ ...spec, request })
    const target = this.turns.deps.upstreams.find(spec.model)
    const same = parent?.upstream?.id === target?.upstream.record.id
    const { continues, ...rest } = spec.request
    let request = same && continues !== undefined ? { ...rest, continues } : rest
    const window = target?.upstream.record.context_tokens
    if (spec.truncation === "auto" && window !== undefined)
      request = { ...request, messages: truncated(request.messages, window) }
    try {
      return await turn.run(of(request), builder)
    } catch (fault) {
      if (
        !(fault instanceof UpstreamFault) ||
        fault.reason !== "context" ||
        spec.truncation !== "auto" ||
        builder.firstEventSent
      )
        throw fault
      builder.reset()
      return await turn.run(of({ ...rest, messages: truncated(rest.messages, undefined) }), builder)
    }
  }

  recordOf(
    { builder, spec, sessionId, owner }: ResponseJob,
    turn: Turn | undefined,
    status: ResponseStatus,
    object: Json,
    streamed: boolean
  ): ResponseRecord {
    const bound = builder.bound
    const whole = status === "completed"
    const upstreamId = turn?.target?.upstream.record.id
    const output = builder
      .contextMessages(whole)
      .map((message) =>
        whole && bound.length > 0 && upstreamId !== undefined
          ? { ...message, bound: bound.map((value) => ({ upstream: upstreamId, value })) }
          : message
      )
    const session = bound
      .map((value) => (value as { readonly session?: unknown } | null)?.session)
      .findLast((value) => typeof value === "string")
    const input = JSON.stringify(spec.items)
    const text = JSON.stringify(object)
    const messages = JSON.stringify([...spec.own, ...output])
    const bytes = Buffer.byteLength(messages)
    if (bytes > this.turns.deps.settings.responseBytesMax) throw badResponse("it is too large to be stored")
    return {
      sessionId,
      owner,
      parentId: spec.previousId ?? null,
      status,
      hidden: false,
      background: spec.background,
      streamed,
      object: text,
      input,
      messages,
      bytes,
      upstream: typeof session === "string" && upstreamId !== undefined ? { id: upstreamId, session } : null
    }
  }

  statusOf({ builder }: ResponseJob): "completed" | "incomplete" {
    return builder.finishReason === "stop" ? "completed" : "incomplete"
  }
}
