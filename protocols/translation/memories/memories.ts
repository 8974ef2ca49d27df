/** Translation memories over HTTP: lists, segments, import and export jobs, and the files of both, whose
 *  addresses are their credentials.
 *  Source: docs/spec/translation.md, section 9. */
import { randomUUID } from "node:crypto"
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
import type { Request, Response, Route } from "../../../runtime/http.ts"
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
import { LastUsed, MemorySegments, sourceIdOf, targetIdOf } from "./records.ts"
import { codePoints } from "../../shared/code-points.ts"
import { yieldToEventLoop } from "../../shared/event-loop.ts"

export const fileBytesMax = 1_073_741_824
const fileNameCharsMax = 100
const contentTypeCharsMax = 127
const memoriesPerAccountMax = 1_000
const filterCharsMin = 2
const scanRows = 1_000
const unknownJob: Response = notFound("Job")
const unknownMemory: Response = notFound("Translation memory")
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

  private with(handle: (memory: Memory, request: Request) => Response | Promise<Response>): Guarded {
    return (request, { account }) => {
      const id = idIn(request, "translation_memory_id")
      if (isResponse(id)) return id
      const memory = Memories.get(this.deps.store, [account.accountId, id])
      return memory === undefined ? unknownMemory : handle(memory, request)
    }
  }

  private ask<A>(
    jobId: string,
    command: "Read" | "Declare" | "Export" | "Upload",
    payload: any
  ): Promise<Asked<A>> {
    return new Promise((resolve) =>
      this.deps.actors.ref(MemoryJob, jobId).askNow(command, payload, (answer) => resolve(answer as Asked<A>))
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

  private readonly remove = ({ accountId, memoryId }: Memory): Promise<Response> => {
    const { store, actors, clean } = this.deps
    const exporting = MemoryExports.get(store, [memoryId])
    return durable(
      store,
      [
        Memories.delete([accountId, memoryId], "present"),
        MemoryExports.delete([memoryId]),
        ...(this.deps.shared?.has(memoryId) === true ? [] : [Garbage.put(["memory", memoryId], true)])
      ],
      () => {
        if (exporting !== undefined)
          actors.ref(MemoryJob, exporting).tell("Fail", { message: "The translation memory was deleted." })
        clean?.()
        return noContent
      },
      () => unknownMemory
    )
  }

  /** Searches rows in import order, a slice per turn of the event loop, until the page and one more row are
   *  found. */
  private readonly segments = async ({ memoryId, segments }: Memory, request: Request): Promise<Response> => {
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
    const wanted = cased ? filter : filter.toLowerCase()
    const has = (text: string): boolean => (cased ? text : text.toLowerCase()).includes(wanted)
    const found: Array<{
      readonly place: number
      readonly text: string
      readonly targets: ReadonlyArray<readonly [string, string]>
    }> = []
    for (let from = after; found.length <= size;) {
      const rows = MemorySegments.range(store, {
        prefix: [memoryId],
        after: [memoryId, from],
        limit: filter === "" ? size + 1 : scanRows
      })
      for (const { key, value } of rows)
        if (filter === "" || has(value.text) || value.targets.some(([, text]) => has(text))) {
          found.push({ place: key[1] as number, ...value })
          if (found.length > size) break
        }
      if (rows.length === 0 || filter === "") break
      from = rows.at(-1)!.key[1] as number
      await yieldToEventLoop()
      if (request.signal.aborted) return unavailable()
    }
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

  private readonly declare: Guarded = async (request, { account: { accountId } }) => {
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
    const answer = await this.ask<void>(jobId, "Declare", { job })
    return "reply" in answer
      ? ok(
          {
            job_id: jobId,
            upload_url: this.address(request, jobId, "upload"),
            expires_at: new Date(nowMs + uploadWithinMs).toISOString()
          },
          202
        )
      : unavailable(answer)
  }

  private readonly export = async ({ accountId, memoryId, name }: Memory): Promise<Response> => {
    const { store, clock } = this.deps
    const before = MemoryExports.get(store, [memoryId])
    const accepted = (jobId: string, status: 200 | 202): Response =>
      ok({ job_id: jobId, parameters: { translation_memory_id: memoryId } }, status)
    if (before !== undefined) {
      const existing = await this.ask<MemoryJobView>(before, "Read", {})
      if ("fault" in existing) return unavailable(existing)
      if ("reply" in existing && existing.reply._tag === "Exporting")
        return problem({ _tag: "Conflict", detail: "An export of this memory is being processed." })
      if ("reply" in existing && existing.reply._tag === "Exported" && clock() < existing.reply.expiresMs)
        return accepted(before, 200)
    }
    const jobId = randomUUID()
    const nowMs = clock()
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
    const answer = await this.ask<void>(jobId, "Export", { job, after: before ?? null })
    if ("reply" in answer) return accepted(jobId, 202)
    if ("refuse" in answer)
      return problem({ _tag: "Conflict", detail: "An export of this memory is being processed." })
    return unavailable(answer)
  }

  private readonly job: Guarded = async (request, { account: { accountId } }) => {
    const jobId = idIn(request, "job_id")
    if (isResponse(jobId)) return jobId
    const answer = await this.ask<MemoryJobView>(jobId, "Read", {})
    if ("fault" in answer) return unavailable(answer)
    return "reply" in answer && answer.reply.job.accountId === accountId
      ? ok(jobJson(jobId, answer.reply, this.address(request, jobId, "download")))
      : unknownJob
  }

  /** Finds the job in an asset's path when its signature is valid. */
  private async asset(
    request: Request,
    what: "upload" | "download"
  ): Promise<{ readonly jobId: string; readonly view: MemoryJobView } | Response> {
    const jobId = idIn(request, "job_id")
    if (isResponse(jobId)) return problem({ _tag: "Forbidden" })
    if (!sameSignature(request.params["signature"] ?? "", this.signature(jobId, what)))
      return problem({ _tag: "Forbidden" })
    const answer = await this.ask<MemoryJobView>(jobId, "Read", {})
    if ("reply" in answer) return { jobId, view: answer.reply }
    return "refuse" in answer ? unknownJob : unavailable(answer)
  }

  private readonly upload = async (request: Request): Promise<Response> => {
    const found = await this.asset(request, "upload")
    if (isResponse(found)) return found
    const { jobId, view } = found
    const { job } = view
    const { store, clock } = this.deps
    if (view._tag === "Expired" || (view._tag === "Awaiting" && clock() >= job.createdMs + uploadWithinMs))
      return problem({ _tag: "Forbidden", detail: "The time for the upload is over." })
    if (view._tag !== "Awaiting")
      return problem({ _tag: "Conflict", detail: "The file was uploaded already." })
    const plain = (type: string): string => type.split(";")[0]!.trim().toLowerCase()
    if (plain(request.headers.get("content-type") ?? "") !== plain(job.contentType))
      return invalid("content_type", "Another content type than declared.")
    const wrongLength = (): Response => invalid("content_length", "Another length than declared.")
    const declared = request.headers.get("content-length")
    if (declared !== undefined && Number(declared) !== job.contentLength) return wrongLength()
    const blob = `tm-${jobId}-${randomUUID()}`
    if (!(await takeUpload(store, blob, job.contentLength, request.stream))) return wrongLength()
    const answer = await this.ask<void>(jobId, "Upload", { blob })
    if ("reply" in answer) return { status: 200, headers: noStore, body: "" }
    await store.blobs.delete(blob)
    return "refuse" in answer
      ? problem({ _tag: "Conflict", detail: "The file was uploaded already." })
      : unavailable(answer)
  }

  private readonly fetch = async (request: Request): Promise<Response> => {
    const found = await this.asset(request, "download")
    if (isResponse(found)) return found
    const { jobId, view } = found
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
  }
}
