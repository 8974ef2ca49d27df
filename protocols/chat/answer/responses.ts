/** /v1/responses and the paths below it: create, retrieve, delete, cancel, list the input items.
 *  Source: docs/spec/chat.md, sections 9, 10, 15 and 16. */
import { Effect } from "effect"
import type { Request, Response } from "../../../runtime/http.ts"
import type { OwnerHandler } from "../access.ts"
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
    const acceptance = Effect.tryPromise({ try: () => runs.accept(body, owner), catch: (thrown) => thrown })
    // A place in a session is taken here: its turn, or the background, gives it back.
    return Effect.uninterruptible(
      Effect.flatMap(acceptance, (accepted): Effect.Effect<Response, unknown> => {
        if (accepted.spec.background) return Effect.promise(() => background.accept(accepted, body, request))
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

  readonly retrieve: OwnerHandler = async (request, owner) => {
    const query = new URLSearchParams(request.query)
    return query.get("stream") === "true"
      ? this.replay(request, owner, query)
      : okJson(await this.currentObject(idOf(request), owner))
  }

  private replay(request: Request, owner: string, query: URLSearchParams): Promise<Response> {
    const id = idOf(request)
    const job = this.ownJob(id, owner)
    if (job !== undefined && !job.spec.background) throw new Refusal({ _tag: "ResponseNotStreamed" })
    const after = queryInteger(query, "starting_after", { min: 0, max: Number.MAX_SAFE_INTEGER }) ?? -1
    return this.background.replay(id, owner, after)
  }

  readonly remove: OwnerHandler = async (request, owner) => {
    const id = idOf(request)
    await this.background.cancel(id, owner)
    await this.runs.sessions.remove(owner, id)
    return okJson({ id, object: "response", deleted: true })
  }

  readonly cancel: OwnerHandler = async (request, owner) => {
    const id = idOf(request)
    if (!(await this.isBackground(id, owner))) throw new Refusal({ _tag: "ResponseNotBackground" })
    await this.background.cancel(id, owner)
    return okJson(await this.currentObject(id, owner))
  }

  /** Another owner's running job counts as background here: what follows does not find it. */
  private async isBackground(id: string, owner: string): Promise<boolean> {
    const job = this.runs.running.get(id)
    if (job === undefined) return (await this.runs.sessions.get(owner, id)).background
    return job.owner !== owner || job.spec.background
  }

  readonly inputItems: OwnerHandler = async (request, owner) => {
    const query = new URLSearchParams(request.query)
    const limit = queryInteger(query, "limit", { min: 1, max: 100 }) ?? 20
    const order = query.get("order") ?? "desc"
    if (order !== "asc" && order !== "desc") throw notSupported("order", ["asc", "desc"])
    return okJson(pageOf(query, await this.itemsOf(idOf(request), owner), limit))
  }

  private async itemsOf(id: string, owner: string): Promise<ReadonlyArray<Item>> {
    const job = this.ownJob(id, owner)
    if (job !== undefined) return job.spec.items
    return JSON.parse((await this.runs.sessions.get(owner, id)).input) as ReadonlyArray<Item>
  }

  private ownJob(id: string, owner: string): ResponseJob | undefined {
    const job = this.runs.running.get(id)
    return job?.owner === owner ? job : undefined
  }

  /** The response as its owner sees it now, under way or stored. */
  private async currentObject(id: string, owner: string): Promise<Json> {
    const job = this.ownJob(id, owner)
    if (job !== undefined)
      return this.background.currentObject(id) ?? job.builder.responseObject("in_progress")
    return JSON.parse((await this.runs.sessions.get(owner, id)).object) as Json
  }
}
