/** Translation memories over HTTP: lists, segments, import and export jobs, and the files of both, whose
 *  addresses are their credentials.
 *  Source: docs/spec/translation.md, section 9. */
import { randomUUID } from "node:crypto"
import { Effect } from "effect"
import { Garbage } from "../../../actors/garbage.ts"
import {
  Memories,
  MemoryExports,
  MemoryJob,
  uploadWithinMs,
  type Job,
  type Memory,
  type MemoryJobView
} from "../../../actors/memory-job.ts"
import {
  askLater,
  effectOf,
  type Answer,
  type Request,
  type Response,
  type Route
} from "../../../runtime/http.ts"
import type { ActorSystem } from "../../../runtime/registry.ts"
import type { Store } from "../../../storage/store.ts"
import type { Guard, Guarded } from "../account/guard.ts"
import { problem } from "../problems.ts"
import type { HashKey } from "../account/records.ts"
import {
  bodyOf,
  buffered,
  bytesOf,
  download,
  unavailable,
  durable,
  faultOf,
  idIn,
  invalid,
  isResponse,
  noContent,
  noStore,
  notFound,
  objectIn,
  ok,
  pageOf,
  publicBaseOf,
  queryOf,
  sameSignature,
  smallBytesMax,
  takeUpload
} from "../endpoint.ts"
import { jobJson, memoryJson, segmentJson } from "./memories-wire.ts"
import { LastUsed, MemorySegments, type MemorySegment, sourceIdOf, targetIdOf } from "./records.ts"
import { codePoints } from "../../shared/code-points.ts"
import { nextTurn } from "../../shared/event-loop.ts"

export const fileBytesMax = 1_073_741_824
const fileNameCharsMax = 100
const contentTypeCharsMax = 127
const memoriesPerAccountMax = 1_000
const filterCharsMin = 2
const scanRows = 1_000
const unknownJob: Response = notFound("Job")
const unknownMemory: Response = notFound("Translation memory")
const exporting = problem({ _tag: "Conflict", detail: "An export of this memory is being processed." })
const uploaded = problem({ _tag: "Conflict", detail: "The file was uploaded already." })
const wrongLength = invalid("content_length", "Another length than declared.")
const assets = "/v3/assets/translation_memories"

export interface MemoryDeps {
  readonly store: Store
  readonly actors: ActorSystem
  readonly clock: () => number
  readonly sign: HashKey
  readonly publicBase?: string | undefined
  /** Removes the rows of deleted memories. */
  readonly clean?: () => void
  /** Memories whose segments several accounts share (test mode): deleting one hides it from that account
   *  only. */
  readonly shared?: ReadonlySet<string> | undefined
}

type Asked<A> =
  | { readonly reply: A }
  | { readonly refuse: { readonly _tag: string } }
  | { readonly fault: unknown }

type FoundSegment = MemorySegment & { readonly place: number }

interface SegmentSearch {
  readonly memoryId: string
  /** The place after which the search begins. */
  readonly after: number
  readonly size: number
  readonly filter: string
  readonly cased: boolean
}

export class MemoryRoutes {
  private readonly deps: MemoryDeps

  constructor(deps: MemoryDeps) {
    this.deps = deps
  }

  routes(guard: Guard): ReadonlyArray<Route> {
    const base = "/v3/translation_memories"
    const one = `${base}/:translation_memory_id`
    const read = (handle: Guarded) => guard("translation_memories:read", handle)
    const write = (handle: Guarded) => guard("translation_memories:write", handle)
    return [
      { method: "GET", path: base, handle: read(this.list) },
      { method: "POST", path: `${base}/import`, body: buffered(smallBytesMax), handle: write(this.declare) },
      { method: "GET", path: `${base}/jobs/:job_id`, handle: read(this.job) },
      { method: "GET", path: one, handle: read(this.with((memory) => ok(memoryJson(memory)))) },
      { method: "DELETE", path: one, handle: write(this.with(this.remove)) },
      { method: "GET", path: `${one}/segments`, handle: read(this.with(this.segments)) },
      {
        method: "POST",
        path: `${one}/export`,
        body: buffered(smallBytesMax),
        handle: write(this.with(this.export))
      },
      ...["PUT", "POST"].map((method): Route => ({
        method,
        path: `${assets}/:job_id/upload/:signature`,
        body: { as: "stream", bytesMax: fileBytesMax },
        handle: this.upload
      })),
      { method: "GET", path: `${assets}/:job_id/download/:signature`, handle: this.fetch }
    ]
  }

  private with(handle: (memory: Memory, request: Request) => Answer): Guarded {
    return (request, { account }) => {
      const id = idIn(request, "translation_memory_id")
      if (isResponse(id)) return id
      const memory = Memories.get(this.deps.store, [account.accountId, id])
      return memory === undefined ? unknownMemory : handle(memory, request)
    }
  }

  /** Asks the job's actor, and goes on with its answer. */
  private ask<A>(
    jobId: string,
    command: "Read" | "Declare" | "Export" | "Upload",
    payload: any,
    next: (answer: Asked<A>) => Answer
  ): Answer {
    return askLater<Response>((done) =>
      this.deps.actors
        .ref(MemoryJob, jobId)
        .askNow(command, payload, (answer) => done(() => next(answer as Asked<A>)))
    )
  }

  private address(request: Request, jobId: string, what: "upload" | "download"): string {
    return `${publicBaseOf(request, this.deps.publicBase)}${assets}/${jobId}/${what}/${this.signature(jobId, what)}`
  }

  private signature(jobId: string, what: "upload" | "download"): string {
    return this.deps.sign(`memory ${what} ${jobId}`)
  }

  private readonly list: Guarded = (request, { account: { accountId } }) => {
    const query = queryOf(request)
    if (isResponse(query)) return query
    const { from, size } = pageOf(query, 25, 10)
    const fault = faultOf(query)
    if (fault !== undefined) return fault
    const all = Memories.range(this.deps.store, { prefix: [accountId], limit: memoriesPerAccountMax })
      .map(({ value }) => value)
      .sort((a, b) => a.createdMs - b.createdMs)
    return ok({ translation_memories: all.slice(from, from + size).map(memoryJson), total_count: all.length })
  }

  private readonly remove = ({ accountId, memoryId }: Memory): Answer => {
    const { store, actors, clean } = this.deps
    const underWay = MemoryExports.get(store, [memoryId])
    return durable(
      store,
      [
        Memories.delete([accountId, memoryId], "present"),
        MemoryExports.delete([memoryId]),
        ...(this.deps.shared?.has(memoryId) === true ? [] : [Garbage.put(["memory", memoryId], true)])
      ],
      () => noContent,
      () => unknownMemory,
      () => {
        if (underWay !== undefined)
          actors.ref(MemoryJob, underWay).tell("Fail", { message: "The translation memory was deleted." })
        clean?.()
      }
    )
  }

  private readonly segments = ({ memoryId, segments }: Memory, request: Request): Answer => {
    const { store, sign } = this.deps
    const query = queryOf(request)
    if (isResponse(query)) return query
    const size = query.integer("page_size", 1, 100) ?? 50
    const cased = query.boolean("filter_case_sensitive") ?? false
    const filter = query.string("filter_text") ?? ""
    const cursor = query.string("page_cursor")
    if (filter !== "" && codePoints(filter) < filterCharsMin)
      query.invalid("filter_text", `At least ${filterCharsMin} characters.`)
    const bound = (place: string): string =>
      sign(`memory cursor ${memoryId} ${cased} ${place} ${filter}`).slice(0, 22)
    let after = -1
    if (cursor !== undefined && cursor !== "") {
      const [place = "", signature = ""] = cursor.split(".")
      if (/^\d{1,15}$/.test(place) && sameSignature(signature, bound(place))) after = Number(place)
      else query.invalid("page_cursor")
    }
    const fault = faultOf(query)
    if (fault !== undefined) return fault
    const search = { memoryId, after, size, filter, cased }
    const answer = (found: ReadonlyArray<FoundSegment>): Response => {
      const page = found.slice(0, size)
      const last = page.at(-1)?.place
      return ok({
        segments: page.map(({ place, text, targets }) =>
          segmentJson({
            id: sourceIdOf(memoryId, place),
            text,
            usedMs: LastUsed.get(store, [memoryId, place]),
            targets: targets.map(([language, target]) => ({
              id: targetIdOf(memoryId, place, language),
              language,
              text: target
            }))
          })
        ),
        segment_count: segments,
        ...(found.length > size ? { next_page_cursor: `${last}.${bound(String(last))}` } : {})
      })
    }
    return filter === "" ? answer(this.rowsAfter(search)) : Effect.map(this.found(search), answer)
  }

  private rowsAfter({ memoryId, after, size }: SegmentSearch): ReadonlyArray<FoundSegment> {
    const rows = MemorySegments.range(this.deps.store, {
      prefix: [memoryId],
      after: [memoryId, after],
      limit: size + 1
    })
    return rows.map(({ key, value }) => ({ place: key[1] as number, ...value }))
  }

  /** Searches rows in import order, a slice per turn of the event loop, until the page and one more row are
   *  found. */
  private readonly found = Effect.fnUntraced(
    { self: this },
    function* ({ memoryId, after, size, filter, cased }: SegmentSearch) {
      const wanted = cased ? filter : filter.toLowerCase()
      const has = (text: string): boolean => (cased ? text : text.toLowerCase()).includes(wanted)
      const found: Array<FoundSegment> = []
      for (let from = after; found.length <= size;) {
        const rows = MemorySegments.range(this.deps.store, {
          prefix: [memoryId],
          after: [memoryId, from],
          limit: scanRows
        })
        for (const { key, value } of rows)
          if (has(value.text) || value.targets.some(([, text]) => has(text))) {
            found.push({ place: key[1] as number, ...value })
            if (found.length > size) break
          }
        if (rows.length === 0) break
        from = rows.at(-1)!.key[1] as number
        yield* nextTurn
      }
      return found
    }
  )

  private readonly declare: Guarded = (request, { account: { accountId } }) => {
    const params = bodyOf(request)
    if (isResponse(params)) return params
    const file = objectIn(params, "source_file")
    const name = objectIn(params, "parameters")?.string("display_name")
    if (params.fault === undefined && file === undefined) params.missing("source_file")
    const fault = faultOf(params)
    if (fault !== undefined) return fault
    const fileName = file!.string("file_name") ?? ""
    const length = file!.integer("content_length", 1, fileBytesMax)
    const contentType = file!.string("content_type") ?? "application/xml"
    if (file!.fault !== undefined) return problem({ ...file!.fault, name: `source_file.${file!.fault.name}` })
    if (fileName === "") return problem({ _tag: "Missing", name: "source_file.file_name" })
    if (length === undefined) return problem({ _tag: "Missing", name: "source_file.content_length" })
    if (codePoints(fileName) > fileNameCharsMax)
      return invalid("source_file.file_name", `At most ${fileNameCharsMax} characters.`)
    if (contentType === "" || codePoints(contentType) > contentTypeCharsMax)
      return invalid("source_file.content_type", `At most ${contentTypeCharsMax} characters.`)
    if (name !== undefined && bytesOf(name) > 1_024)
      return invalid("parameters.display_name", "At most 1024 bytes.")
    if (
      Memories.range(this.deps.store, { prefix: [accountId], limit: memoriesPerAccountMax }).length >=
      memoriesPerAccountMax
    )
      return problem({ _tag: "QuotaExceeded", owner: "account" })
    const jobId = randomUUID()
    const nowMs = this.deps.clock()
    const job: Job = {
      accountId,
      operation: "import",
      memoryId: randomUUID(),
      name: name === undefined || name === "" ? null : name,
      fileName,
      contentType,
      contentLength: length,
      createdMs: nowMs,
      updatedMs: nowMs
    }
    return this.ask<void>(jobId, "Declare", { job }, (answer) =>
      "reply" in answer
        ? ok(
            {
              job_id: jobId,
              upload_url: this.address(request, jobId, "upload"),
              expires_at: new Date(nowMs + uploadWithinMs).toISOString()
            },
            202
          )
        : unavailable(answer)
    )
  }

  private readonly export = (memory: Memory): Answer => {
    const before = MemoryExports.get(this.deps.store, [memory.memoryId])
    if (before === undefined) return this.exportAfter(null, memory)
    return this.ask<MemoryJobView>(before, "Read", {}, (existing) => {
      if ("fault" in existing) return unavailable(existing)
      if ("reply" in existing && existing.reply._tag === "Exporting") return exporting
      const { clock } = this.deps
      return "reply" in existing && existing.reply._tag === "Exported" && clock() < existing.reply.expiresMs
        ? exportAccepted(before, memory, 200)
        : this.exportAfter(before, memory)
    })
  }

  private exportAfter(before: string | null, memory: Memory): Answer {
    const { accountId, memoryId, name } = memory
    const jobId = randomUUID()
    const nowMs = this.deps.clock()
    const job: Job = {
      accountId,
      operation: "export",
      memoryId,
      name,
      fileName: "",
      contentType: "application/xml",
      contentLength: 0,
      createdMs: nowMs,
      updatedMs: nowMs
    }
    return this.ask<void>(jobId, "Export", { job, after: before }, (answer) => {
      if ("reply" in answer) return exportAccepted(jobId, memory, 202)
      return "refuse" in answer ? exporting : unavailable(answer)
    })
  }

  private readonly job: Guarded = (request, { account: { accountId } }) => {
    const jobId = idIn(request, "job_id")
    if (isResponse(jobId)) return jobId
    return this.ask<MemoryJobView>(jobId, "Read", {}, (answer) => {
      if ("fault" in answer) return unavailable(answer)
      return "reply" in answer && answer.reply.job.accountId === accountId
        ? ok(jobJson(jobId, answer.reply, this.address(request, jobId, "download")))
        : unknownJob
    })
  }

  /** Finds the job in an asset's path when its signature is valid. */
  private asset(
    request: Request,
    what: "upload" | "download",
    next: (jobId: string, view: MemoryJobView) => Answer
  ): Answer {
    const jobId = idIn(request, "job_id")
    if (isResponse(jobId)) return problem({ _tag: "Forbidden" })
    if (!sameSignature(request.params["signature"] ?? "", this.signature(jobId, what)))
      return problem({ _tag: "Forbidden" })
    return this.ask<MemoryJobView>(jobId, "Read", {}, (answer) => {
      if ("reply" in answer) return next(jobId, answer.reply)
      return "refuse" in answer ? unknownJob : unavailable(answer)
    })
  }

  private readonly upload = (request: Request): Answer =>
    this.asset(request, "upload", (jobId, view) => {
      const { job } = view
      if (
        view._tag === "Expired" ||
        (view._tag === "Awaiting" && this.deps.clock() >= job.createdMs + uploadWithinMs)
      )
        return problem({ _tag: "Forbidden", detail: "The time for the upload is over." })
      if (view._tag !== "Awaiting") return uploaded
      const plain = (type: string): string => type.split(";")[0]!.trim().toLowerCase()
      if (plain(request.headers.get("content-type") ?? "") !== plain(job.contentType))
        return invalid("content_type", "Another content type than declared.")
      const declared = request.headers.get("content-length")
      if (declared !== undefined && Number(declared) !== job.contentLength) return wrongLength
      return this.receive(request, jobId, job.contentLength)
    })

  /** It is not interrupted: the body ends when its client goes, and a file that was received in whole is the
   *  job's, or deleted. */
  private receive(request: Request, jobId: string, length: number): Answer {
    const { store } = this.deps
    const blob = `tm-${jobId}-${randomUUID()}`
    const refused = (answer: Response): Effect.Effect<Response> =>
      Effect.as(
        Effect.promise(() => store.blobs.delete(blob)),
        answer
      )
    const handed = (): Answer =>
      this.ask<void>(jobId, "Upload", { blob }, (answer) => {
        if ("reply" in answer) return { status: 200, headers: noStore, body: "" }
        return refused("refuse" in answer ? uploaded : unavailable(answer))
      })
    return Effect.uninterruptible(
      Effect.flatMap(takeUpload(store, blob, length, request.stream), (isWhole) =>
        isWhole ? effectOf<Response>(handed()) : Effect.succeed(wrongLength)
      )
    )
  }

  private readonly fetch = (request: Request): Answer =>
    this.asset(request, "download", (jobId, view) => {
      const { store, actors, clock } = this.deps
      if (view._tag === "Expired" || (view._tag === "Exported" && clock() >= view.expiresMs))
        return problem({ _tag: "Gone" })
      if (view._tag !== "Exported") return unknownJob
      return (
        download(
          store,
          view.blob,
          [
            ["Content-Type", "application/xml"],
            ["Content-Disposition", `attachment; filename="${view.job.memoryId}.tmx"`]
          ],
          () => {
            actors.ref(MemoryJob, jobId).tell("Fetch", {})
          }
        ) ?? problem({ _tag: "Gone" })
      )
    })
}

const exportAccepted = (jobId: string, { memoryId }: Memory, status: 200 | 202): Response =>
  ok({ job_id: jobId, parameters: { translation_memory_id: memoryId } }, status)
