/** Responses while they are under way, foreground or background: the request checked against models and
 *  sessions, the turn run, the record that is stored.
 *  Source: docs/spec/chat.md, sections 9, 10, 15 and 16. */
import { badResponse, UpstreamFault, type Message } from "../../../actors/engines/chat/model.ts"
import type { ResponseRecord } from "../../../actors/proxy-session.ts"
import { Refusal } from "../problems.ts"
import type { Json } from "../request/json-body.ts"
import { hasContent, pairCallsWithResults } from "../request/response-items.ts"
import { readResponses, type ResponsesSpec } from "../request/responses-request.ts"
import { truncated } from "../request/truncation.ts"
import type { TurnResult } from "../turn/turn-run.ts"
import type { Turn, Turns } from "../turn/turn.ts"
import { newId, newSessionId } from "../wire.ts"
import type { ResponseBuilder, ResponseStatus } from "./response-builder.ts"
import type { Sessions } from "./sessions.ts"

/** A request that was accepted, its session entered. */
export interface AcceptedResponse {
  readonly owner: string
  readonly sessionId: string
  readonly spec: ResponsesSpec
  readonly parent: ResponseRecord | undefined
}

/** One response under way. */
export interface ResponseJob extends AcceptedResponse {
  readonly id: string
  readonly builder: ResponseBuilder
}

/** The state of a job in which it is stored. */
export interface JobState {
  readonly status: ResponseStatus
  readonly object: Json
  /** A background response whose events are stored for a replay. */
  readonly streamed: boolean
}

const sessionIn = (value: unknown): unknown => (value as { readonly session?: unknown } | null)?.session

export class ResponseRuns {
  readonly turns: Turns
  readonly sessions: Sessions

  /** Jobs by id: visible to their owners, not yet to be continued. */
  readonly running = new Map<string, ResponseJob>()

  constructor(turns: Turns, sessions: Sessions) {
    this.turns = turns
    this.sessions = sessions
  }

  /** Makes the accepted response a job. Whoever starts one ends it. */
  start(accepted: AcceptedResponse, builderOf: (id: string) => ResponseBuilder): ResponseJob {
    const id = newId("resp")
    const job: ResponseJob = { ...accepted, id, builder: builderOf(id) }
    this.running.set(id, job)
    return job
  }

  end(job: ResponseJob): void {
    this.running.delete(job.id)
    this.sessions.turnLimit.leave(job.sessionId)
  }

  private hasHostedTools(model: string): boolean {
    const record = this.turns.deps.upstreams.find(model)?.upstream.record
    return record?.kind === "openai-responses" && record.native_tools === true
  }

  /** Checks the request against models and sessions, and enters the session. Whoever has it accepted leaves
   *  it. */
  async accept(body: Json, owner: string): Promise<AcceptedResponse> {
    const spec = readResponses(body, {
      findItem: (id) => this.sessions.findItem(owner, id),
      hasHostedTools: (model) => this.hasHostedTools(model)
    })
    if ((await this.turns.deps.upstreams.resolve(spec.model)) === undefined)
      throw new Refusal({ _tag: "ModelNotFound", model: spec.model })
    return spec.previousId === undefined
      ? this.startSession(spec, owner)
      : this.continueSession(spec, spec.previousId, owner)
  }

  private startSession(spec: ResponsesSpec, owner: string): AcceptedResponse {
    const sessionId = newSessionId()
    const accepted = { owner, sessionId, spec: inContext(spec, [], undefined), parent: undefined }
    this.sessions.turnLimit.enter(sessionId)
    return accepted
  }

  private async continueSession(
    spec: ResponsesSpec,
    previousId: string,
    owner: string
  ): Promise<AcceptedResponse> {
    const running = this.running.get(previousId)
    if (running !== undefined) {
      const _tag = running.owner === owner ? "PreviousNotReady" : "PreviousNotFound"
      throw new Refusal({ _tag, id: previousId })
    }
    const parent = await this.sessions.begin(owner, previousId)
    const { sessionId } = parent
    try {
      const ancestors = this.sessions.context(previousId)
      return { owner, sessionId, spec: inContext(spec, ancestors, parent), parent }
    } catch (fault) {
      this.sessions.turnLimit.leave(sessionId)
      throw fault
    }
  }

  /** Feeds the model's answer to the builder. A context that is too long is truncated once where the request
   *  allows it. */
  async run({ spec, builder, parent }: ResponseJob, turn: Turn): Promise<TurnResult> {
    const target = this.turns.deps.upstreams.find(spec.model)
    const isSameUpstream = parent?.upstream?.id === target?.upstream.record.id
    const { continues, ...whole } = spec.request
    const truncates = spec.truncation === "auto"
    const windowTokens = target?.upstream.record.context_tokens
    let request = isSameUpstream && continues !== undefined ? { ...whole, continues } : whole
    if (truncates && windowTokens !== undefined)
      request = { ...request, messages: truncated(request.messages, windowTokens) }
    try {
      return await turn.run({ ...spec, request }, builder)
    } catch (fault) {
      const isTooLong = fault instanceof UpstreamFault && fault.reason === "context"
      if (!isTooLong || !truncates || builder.firstEventSent) throw fault
      builder.reset()
      const messages = truncated(whole.messages, undefined)
      return await turn.run({ ...spec, request: { ...whole, messages } }, builder)
    }
  }

  /** Stores a foreground response, unless the request says not to; resolves when it is on disk. */
  async storeForeground(
    job: ResponseJob,
    turn: Turn,
    state: Pick<JobState, "status" | "object">
  ): Promise<void> {
    if (!job.spec.store) return
    const record = this.recordOf(job, turn, { ...state, streamed: false })
    await this.sessions.commit({ id: job.id, record })
  }

  recordOf(job: ResponseJob, turn: Turn, { status, object, streamed }: JobState): ResponseRecord {
    const { builder, spec, sessionId, owner } = job
    const upstreamId = turn.target?.upstream.record.id
    const output = outputMessages(builder, status === "completed", upstreamId)
    const session = builder.upstreamState
      .map(sessionIn)
      .findLast((candidate): candidate is string => typeof candidate === "string")
    const messages = JSON.stringify([...spec.ownMessages, ...output])
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
      object: JSON.stringify(object),
      input: JSON.stringify(spec.items),
      messages,
      bytes,
      upstream: session !== undefined && upstreamId !== undefined ? { id: upstreamId, session } : null
    }
  }

  statusOf({ builder }: ResponseJob): "completed" | "incomplete" {
    return builder.finishReason === "stop" ? "completed" : "incomplete"
  }
}

/** The request with its ancestors' messages and its instructions before its own. */
const inContext = (
  spec: ResponsesSpec,
  ancestors: ReadonlyArray<Message>,
  parent: ResponseRecord | undefined
): ResponsesSpec => {
  const { instructions, request } = spec
  const system: ReadonlyArray<Message> =
    instructions === undefined ? [] : [{ role: "system", content: instructions }]
  const messages = pairCallsWithResults([...ancestors, ...system, ...request.messages])
  if (messages.length === 0) throw new Refusal({ _tag: "NothingToAnswer" })
  const session = parent?.upstream?.session
  if (session === undefined) return { ...spec, request: { ...request, messages } }
  const continues = { id: session, freshFrom: ancestors.filter(hasContent).length }
  return { ...spec, request: { ...request, messages, continues } }
}

/** The answer as context of later turns, with the state that only its upstream understands. */
const outputMessages = (
  builder: ResponseBuilder,
  whole: boolean,
  upstreamId: string | undefined
): ReadonlyArray<Message> => {
  const messages = builder.contextMessages(whole)
  const { upstreamState } = builder
  if (!whole || upstreamState.length === 0 || upstreamId === undefined) return messages
  const bound = upstreamState.map((value) => ({ upstream: upstreamId, value }))
  return messages.map((message) => ({ ...message, bound }))
}
