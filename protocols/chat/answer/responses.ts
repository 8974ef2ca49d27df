/** /v1/responses and the paths below it: create, retrieve, delete, cancel, list the input items.
 *  Source: docs/spec/chat.md, sections 9, 10, 15 and 16. */
import { Effect } from "effect"
import type { ResponseRecord } from "../../../actors/proxy-session.ts"
import type { Request, Response } from "../../../runtime/http.ts"
import { waitFor, type OwnerHandler } from "../access.ts"
import { notSupported, Refusal, wrongType } from "../problems.ts"
import { Fields } from "../request/fields.ts"
import { readBody, type Json } from "../request/json-body.ts"
import type { Item } from "../request/response-items.ts"
import type { Turn } from "../turn/turn.ts"
import type { BackgroundResponses } from "./background-responses.ts"
import { okJson, StreamedResponse, wholeResponse } from "./foreground-responses.ts"
import type { AcceptedResponse, ResponseJob, ResponseRuns } from "./response-runs.ts"

const idOf = (request: Request): string => request.params["id"] ?? ""

interface Range {
  readonly min: number
  readonly max: number
}

const queryInteger = (query: URLSearchParams, name: string, { min, max }: Range): number | undefined => {
  const text = query.get(name)
  if (text === null) return undefined
  if (!/^-?\d{1,15}$/.test(text)) throw wrongType(name, "an integer")
  return new Fields({ [name]: Number(text) }).integer(name, min, max)
}

/** One page of the items, newest first unless the query says otherwise. */
const pageOf = (query: URLSearchParams, items: ReadonlyArray<Item>, limit: number): Json => {
  const after = query.get("after")
  const ordered = query.get("order") === "asc" ? items : items.toReversed()
  const start = after === null ? 0 : ordered.findIndex(({ id }) => id === after) + 1
  if (after !== null && start === 0) throw new Refusal({ _tag: "ItemNotFound", param: "after", id: after })
  const page = ordered.slice(start, start + limit)
  return {
    object: "list",
    data: page,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
    has_more: start + limit < ordered.length
  }
}

export class ResponsesApi {
  private readonly runs: ResponseRuns
  private readonly background: BackgroundResponses

  constructor(runs: ResponseRuns, background: BackgroundResponses) {
    this.runs = runs
    this.background = background
  }

  readonly create: OwnerHandler = (request, owner) => {
    const { object: body } = readBody(request.body)
    const { runs, background } = this
    const acceptance = waitFor(() => runs.accept(body, owner))
    // A place in a session is taken here: its turn, or the background, gives it back.
    return Effect.uninterruptible(
      Effect.flatMap(acceptance, (accepted): Effect.Effect<Response, unknown> => {
        if (accepted.spec.background) return waitFor(() => background.accept(accepted, body))
        const turn = this.beginTurn(accepted, request)
        const answer = accepted.spec.request.stream
          ? new StreamedResponse(runs, accepted, turn).start()
          : wholeResponse(runs, accepted, turn)
        return turn.answered(answer)
      })
    )
  }

  /** Begins the turn, or leaves the session that was entered for it. */
  private beginTurn({ sessionId }: AcceptedResponse, request: Request): Turn {
    try {
      return this.runs.turns.beginTurn(request)
    } catch (refusal) {
      this.runs.sessions.turnLimit.leave(sessionId)
      throw refusal
    }
  }

  readonly retrieve: OwnerHandler = (request, owner) => {
    const query = new URLSearchParams(request.query)
    if (query.get("stream") === "true") return this.replay(request, owner, query)
    return Effect.map(this.currentObject(idOf(request), owner), (object) => okJson(object))
  }

  private replay(request: Request, owner: string, query: URLSearchParams): Effect.Effect<Response, unknown> {
    const id = idOf(request)
    const job = this.ownJob(id, owner)
    if (job !== undefined && !job.spec.background) throw new Refusal({ _tag: "ResponseNotStreamed" })
    const after = queryInteger(query, "starting_after", { min: 0, max: Number.MAX_SAFE_INTEGER }) ?? -1
    return waitFor(() => this.background.replay(id, owner, after))
  }

  /** It is not interrupted: a response that was cancelled for it is removed too. */
  readonly remove: OwnerHandler = (request, owner) => {
    const id = idOf(request)
    return Effect.andThen(
      waitFor(() => this.background.cancel(id, owner)),
      waitFor(() => this.runs.sessions.remove(owner, id))
    ).pipe(Effect.as(okJson({ id, object: "response", deleted: true })), Effect.uninterruptible)
  }

  readonly cancel: OwnerHandler = (request, owner) => {
    const id = idOf(request)
    return Effect.flatMap(this.isBackground(id, owner), (isBackground) =>
      isBackground
        ? Effect.andThen(
            waitFor(() => this.background.cancel(id, owner)),
            Effect.map(this.currentObject(id, owner), (object) => okJson(object))
          )
        : Effect.fail(new Refusal({ _tag: "ResponseNotBackground" }))
    )
  }

  /** Another owner's running job counts as background here: what follows does not find it. */
  private isBackground(id: string, owner: string): Effect.Effect<boolean, unknown> {
    const job = this.runs.running.get(id)
    return job === undefined
      ? Effect.map(this.stored(id, owner), ({ background }) => background)
      : Effect.succeed(job.owner !== owner || job.spec.background)
  }

  readonly inputItems: OwnerHandler = (request, owner) => {
    const query = new URLSearchParams(request.query)
    const limit = queryInteger(query, "limit", { min: 1, max: 100 }) ?? 20
    const order = query.get("order") ?? "desc"
    if (order !== "asc" && order !== "desc") throw notSupported("order", ["asc", "desc"])
    const id = idOf(request)
    const job = this.ownJob(id, owner)
    if (job !== undefined) return okJson(pageOf(query, job.spec.items, limit))
    return Effect.flatMap(this.stored(id, owner), ({ input }) =>
      Effect.try({
        try: () => okJson(pageOf(query, JSON.parse(input) as ReadonlyArray<Item>, limit)),
        catch: (thrown) => thrown
      })
    )
  }

  private stored(id: string, owner: string): Effect.Effect<ResponseRecord, unknown> {
    return waitFor(() => this.runs.sessions.get(owner, id))
  }

  private ownJob(id: string, owner: string): ResponseJob | undefined {
    const job = this.runs.running.get(id)
    return job?.owner === owner ? job : undefined
  }

  /** The response as its owner sees it when it is asked for, under way or stored. */
  private currentObject(id: string, owner: string): Effect.Effect<Json, unknown> {
    return Effect.suspend(() => {
      const job = this.ownJob(id, owner)
      return job === undefined
        ? Effect.map(this.stored(id, owner), ({ object }) => JSON.parse(object) as Json)
        : Effect.succeed(this.background.currentObject(id) ?? job.builder.responseObject("in_progress"))
    })
  }
}
