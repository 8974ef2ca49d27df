/** Documents over HTTP: an upload streamed into encrypted storage, the status, and a single download. The
 *  handlers hold the client's document key only for the length of a request; the job belongs to its actor.
 *  Guarantee: a refused or broken upload leaves nothing behind, and a download is billed when its last byte
 *  has been sent.
 *  Source: docs/spec/translation.md, section 4; docs/spec/documents.md, sections 9, 11. */
import { Effect } from "effect"
import {
  DocumentJob,
  Documents as Rows,
  openCount,
  documentCounts,
  openMax,
  type DocumentStatus
} from "../../../actors/document-job.ts"
import { blobOf, jobOfBlob } from "../../../actors/documents/blobs.ts"
import type { DocumentMeta } from "../../../actors/documents/meta.ts"
import {
  keysOf,
  newDocumentId,
  newDocumentKey,
  opened,
  openedText,
  opening,
  sameCheck,
  sealedText,
  sealing,
  type DocumentKeys
} from "../../../actors/documents/sealed.ts"
import { BodyFault, json, type Request, type Response, type Route } from "../../../runtime/http.ts"
import type { ActorSystem } from "../../../runtime/registry.ts"
import { documentTypeOf } from "../../formats/catalogue.ts"
import { readBody, readForm } from "../../shared/body.ts"
import { boundaryOf, multipart, MultipartFault } from "../../shared/multipart.ts"
import { Params, type RawParams } from "../../shared/params.ts"
import { readDocumentOptions, fileNameOf, type DocumentOptions } from "./upload-options.ts"
import { DocumentWorker, type DocumentWorkDeps } from "./document-work.ts"
import type { Guard, Guarded } from "../account/guard.ts"
import type { KeyInUse } from "../account/keys.ts"
import { sendWhole } from "../endpoint.ts"
import { isRefusal, problem, type Refusal } from "../problems.ts"
import { documentHandle, documentStatus } from "../wire.ts"
import { readReportingTag } from "../reporting-tag.ts"

export interface DocumentDeps extends DocumentWorkDeps {
  readonly actors: ActorSystem
  /** Checks that the glossaries, style lists and memories named by a request exist for the account and cover
   *  the language pair. By default none exists. */
  readonly references?: (accountId: string, options: DocumentOptions) => Refusal | undefined
}

const path = "/v2/document"
const mebibyte = 1_048_576
const uploadBytesMax = 101 * mebibyte
const fieldBytesMax = 65_536
const fieldsMax = 100
const queryBodyBytesMax = 65_536
const charactersMax = { free: 500_000, paid: 1_000_000 } as const
const noStore = ["Cache-Control", "no-store"] as const

/** The lower of two limits: an account is its own team, so both apply to it. */
const leastOf = (own: number | null, team: number | null): number | null => {
  if (own === null) return team
  return team === null ? own : Math.min(own, team)
}

const notFound: Refusal = { _tag: "NotFound", what: "Document" }
const noFile: Refusal = { _tag: "Refused", message: "Invalid file data." }

const unknownReferences = (
  _: string,
  { steering: { glossaryIds, styleId, memoryId } }: DocumentOptions
): Refusal | undefined => {
  if (glossaryIds.length > 0) return { _tag: "NotFound", what: "Glossary" }
  if (styleId !== null) return { _tag: "NotFound", what: "Style list" }
  if (memoryId !== null) return { _tag: "NotFound", what: "Translation memory" }
  return undefined
}

/** State of one upload in progress. */
interface ReceivedUpload {
  readonly fields: Record<string, Array<string>>
  fileName: string | undefined
  bytes: number | undefined
}

interface FoundDocument {
  readonly id: string
  readonly keys: DocumentKeys
}

/** Marks the part of an upload that is interrupted when the client goes. */
type Interruptible = <A, E>(work: Effect.Effect<A, E>) => Effect.Effect<A, E>

interface UploadCall extends FoundDocument {
  readonly upload: ReceivedUpload
  readonly using: KeyInUse
  readonly tag: string | null
  readonly interruptible: Interruptible
}

const down = (cause: unknown): Refusal => ({ _tag: "Down", status: 504, cause })

export class DocumentRoutes {
  readonly worker: DocumentWorker
  private readonly deps: DocumentDeps

  constructor(deps: DocumentDeps) {
    this.deps = deps
    this.worker = new DocumentWorker(deps)
  }

  routes(guard: Guard): ReadonlyArray<Route> {
    const small = { as: "buffer", bytesMax: queryBodyBytesMax } as const
    const each = (method: string, under: string, handle: Guarded): Route => ({
      method,
      path: `${path}/:id${under}`,
      body: small,
      handle: guard("translate:document", handle)
    })
    return [
      {
        method: "POST",
        path,
        body: { as: "stream", bytesMax: uploadBytesMax },
        handle: guard("translate:document", this.upload)
      },
      each("POST", "", this.status),
      each("GET", "", this.status),
      each("POST", "/result", this.result),
      each("GET", "/result", this.result)
    ]
  }

  /** Runs at startup, before listening: deletes files that no job owns, and reserves quota again for what is
   *  still to be billed. */
  readonly recover = Effect.fnUntraced({ self: this }, function* () {
    const { store } = this.deps
    const living = new Set<string>()
    for (let after: string | undefined; ;) {
      const ids = store.ids(DocumentJob.kind, after, 1_000)
      for (const id of ids) {
        living.add(id)
        // An actor that cannot be read has failed, and keeps its files; the others go on (G-6).
        const job = yield* Effect.orElseSucceed(this.inspect(id), () => undefined)
        if (job?._tag === "Done") this.worker.reserve(id, job.meta, job.billed)
      }
      if (ids.length === 0) break
      after = ids.at(-1)
    }
    for (const blob of yield* Effect.promise(() => store.blobs.ids())) {
      const id = jobOfBlob(blob)
      if (id !== undefined && !living.has(id)) yield* Effect.promise(() => store.blobs.delete(blob))
    }
  })

  private inspect(id: string): Effect.Effect<typeof DocumentStatus.Type, Refusal> {
    return Effect.mapError(this.deps.actors.ref(DocumentJob, id).ask("Inspect", {}), down)
  }

  /** Only the queue of inspections and the inspection itself are interrupted when the client goes: a body ends
   *  by itself then, and what has been accepted stays accepted. Whatever is refused leaves nothing. */
  private readonly upload: Guarded = (request, using) => {
    const boundary = boundaryOf(request.headers.get("content-type"))
    if (boundary === undefined)
      return problem({
        _tag: "BodyRefusal",
        reason: "content-type",
        detail: "Content type must be multipart/form-data."
      })
    const tag = readReportingTag(request.headers.get("x-deepl-reporting-tag"))
    const id = newDocumentId()
    const key = newDocumentKey()
    const keys = keysOf(key, id)!
    const discard = Effect.promise(async () => {
      await this.deps.store.blobs.delete(blobOf.source(id))
      this.worker.release(id)
    })
    return Effect.uninterruptibleMask((interruptible) => {
      const accepted = Effect.flatMap(this.received(request, using, boundary, id, keys), (upload) =>
        isRefusal(tag)
          ? Effect.fail(tag)
          : this.accept({ upload, using, id, keys, tag: tag ?? null, interruptible })
      )
      return Effect.match(
        Effect.onError(accepted, () => discard),
        { onFailure: problem, onSuccess: () => json(200, documentHandle(id, key), [noStore]) }
      )
    })
  }

  private received(
    ...upload: Parameters<DocumentRoutes["receiveParts"]>
  ): Effect.Effect<ReceivedUpload, Refusal> {
    const parts = Effect.tryPromise({ try: () => this.receiveParts(...upload), catch: (cause) => cause })
    return Effect.matchEffect(parts, {
      onFailure: (cause) =>
        cause instanceof MultipartFault
          ? Effect.fail<Refusal>({ _tag: "Refused", message: "The multipart body is not acceptable." })
          : Effect.die(cause),
      onSuccess: (result) => (isRefusal(result) ? Effect.fail(result) : Effect.succeed(result))
    })
  }

  /** Receives the parts in any order; the file is encrypted to disk as it arrives. */
  private async receiveParts(
    request: Request,
    { account }: KeyInUse,
    boundary: string,
    id: string,
    keys: DocumentKeys
  ): Promise<ReceivedUpload | Refusal> {
    const upload: ReceivedUpload = { fields: {}, fileName: undefined, bytes: undefined }
    let fault: unknown
    let refused: Refusal | undefined
    let fields = 0
    for await (const part of multipart(request.stream, boundary)) {
      if (part.name === "file" && upload.bytes === undefined) {
        upload.fileName = part.fileName
        const bytesMax = bytesMaxOf(part.fileName ?? "", account.tier)
        const counted = { bytes: 0 }
        try {
          await this.deps.store.blobs.write(
            blobOf.source(id),
            sealing(limited(part.bytes, bytesMax, counted), keys, "source")
          )
        } catch (cause) {
          if (cause instanceof BodyFault || cause instanceof MultipartFault) throw cause
          fault = cause // the rest is read all the same, so that the client hears the answer
        }
        upload.bytes = counted.bytes
      } else {
        const text: Array<Buffer> = []
        let bytes = 0
        for await (const piece of part.bytes)
          if ((bytes += piece.length) <= fieldBytesMax) text.push(Buffer.from(piece))
        if (bytes > fieldBytesMax || ++fields > fieldsMax) {
          refused ??= { _tag: "Invalid", name: part.name.slice(0, 100) }
          continue
        }
        const name = part.name.endsWith("[]") ? part.name.slice(0, -2) : part.name
        ;(upload.fields[name] ??= []).push(Buffer.concat(text).toString("utf8"))
      }
    }
    if (fault !== undefined) throw fault
    return refused ?? upload
  }

  private accept(call: UploadCall): Effect.Effect<void, Refusal> {
    const { upload, using, id, keys, interruptible } = call
    const { engines, store, references = unknownReferences } = this.deps
    const { account } = using
    const { bytes } = upload
    if (bytes === undefined) return Effect.fail(noFile)
    const options = readDocumentOptions(
      Object.assign(Object.create(null), upload.fields) as RawParams,
      upload.fileName,
      engines.translator
    )
    if (isRefusal(options)) return Effect.fail(options)
    const { source, target, extension } = options
    if (bytes > bytesMaxOf(`.${extension}`, account.tier)) return Effect.fail({ _tag: "TooLarge" })
    const missing = references(account.accountId, options)
    if (missing !== undefined) return Effect.fail(missing)
    if (store.counter(documentCounts, openCount(account.accountId)) >= openMax)
      return Effect.fail({ _tag: "Limited", retryAfterMs: 60_000 })
    const inspection = this.worker.threads.inspect(
      () => opened(store.blobs.read(blobOf.source(id))!, keys, "source"),
      extension,
      source?.code.toLowerCase(),
      target.code.toLowerCase()
    )
    return interruptible(inspection).pipe(
      Effect.mapError(({ text }): Refusal => ({ _tag: "Refused", message: text })),
      Effect.andThen(Effect.promise(() => this.metaOf(call, options, bytes))),
      Effect.flatMap((meta) => this.receive(call, meta))
    )
  }

  private async metaOf(
    { using, keys, tag }: UploadCall,
    options: DocumentOptions,
    sourceBytes: number
  ): Promise<DocumentMeta> {
    const { account, key } = using
    const { type, source, target } = options
    return {
      accountId: account.accountId,
      keyId: key.keyId,
      format: options.extension,
      extension: options.outExtension,
      convertTo: options.outType.id === type.id ? null : options.outType.id,
      sealedName: await sealedText(options.baseName, keys),
      check: keys.check,
      sourceBytes,
      source: source?.base ?? null,
      target: target.code,
      options: options.steering,
      watermark: options.watermark,
      tag,
      charactersMax: charactersMax[account.tier],
      periodMs: this.deps.usage.read(using).account.startMs
    }
  }

  /** Reserves the quota and hands the document over to its actor. */
  private receive(
    { id, keys, using: { account } }: UploadCall,
    meta: DocumentMeta
  ): Effect.Effect<void, Refusal> {
    const { keyring } = this.worker
    if (!this.worker.reserve(id, meta, Math.max(1, this.worker.billed(meta, 0))))
      return Effect.fail({ _tag: "QuotaExceeded", owner: "account" })
    keyring.put(id, keys)
    const documentsMax = leastOf(account.limits.documents, account.limits.teamDocuments)
    return this.deps.actors
      .ref(DocumentJob, id)
      .ask("Receive", { meta, documentsMax })
      .pipe(
        Effect.tapError(() => Effect.sync(() => keyring.drop(id))),
        Effect.mapError((fault): Refusal =>
          fault._tag === "DocumentsUsedUp" ? { _tag: "QuotaExceeded", owner: "account" } : down(fault)
        )
      )
  }

  /** Finds the document of a request: it must belong to the account, and the document key must match.
   *  Anything else is the same 404 after the same amount of work. */
  private find(request: Request, { account: { accountId } }: KeyInUse): FoundDocument | Refusal {
    const bag = bagOf(request)
    if (isRefusal(bag)) return bag
    const params = new Params(bag.bag)
    const presentedKey = params.string("document_key")
    if (presentedKey === undefined || presentedKey === "") return { _tag: "Missing", name: "document_key" }
    const id = request.params["id"]!.toUpperCase()
    const keys = keysOf(presentedKey, id) ?? keysOf("0".repeat(64), id)!
    const row = /^[0-9A-F]{32}$/.test(id) ? Rows.get(this.deps.store, [accountId, id]) : undefined
    return sameCheck(keys.check, row?.check ?? "AAAAAAAAAAAAAAAAAAAAAA==") && row !== undefined
      ? { id, keys }
      : notFound
  }

  private readonly status: Guarded = (request, using) => {
    const found = this.find(request, using)
    if (isRefusal(found)) return problem(found)
    return Effect.match(this.inspect(found.id), {
      onFailure: problem,
      onSuccess: (job) => this.statusOf(found, job)
    })
  }

  private statusOf({ id, keys }: FoundDocument, job: typeof DocumentStatus.Type): Response {
    const ok = (...status: Parameters<typeof documentStatus>): Response =>
      json(200, documentStatus(...status), [noStore])
    switch (job._tag) {
      case "Unknown":
        return problem(notFound)
      case "Locked":
        this.unlock(id, keys)
        return ok(id, "queued", {})
      case "Queued":
        return ok(id, "queued", {})
      case "Translating":
        return ok(id, "translating", { secondsRemaining: this.worker.scheduler.secondsRemaining(id) })
      case "Done":
        return ok(id, "done", { billed: job.billed })
      case "Failed":
        return ok(id, "error", { error: job.text })
    }
  }

  private unlock(id: string, keys: DocumentKeys): void {
    this.worker.keyring.put(id, keys)
    this.deps.actors.ref(DocumentJob, id).tell("Unlock", {})
  }

  private readonly result: Guarded = (request, using) => {
    const found = this.find(request, using)
    if (isRefusal(found)) return problem(found)
    return Effect.match(
      Effect.flatMap(this.inspect(found.id), (job) => this.resultOf(found, job)),
      { onFailure: problem, onSuccess: (response) => response }
    )
  }

  private resultOf(
    { id, keys }: FoundDocument,
    job: typeof DocumentStatus.Type
  ): Effect.Effect<Response, Refusal> {
    if (job._tag === "Locked") this.unlock(id, keys)
    if (job._tag === "Unknown" || job._tag === "Failed") return Effect.fail(notFound)
    if (job._tag !== "Done") return Effect.fail({ _tag: "DocumentNotReady" })
    const sealed = this.deps.store.blobs.read(blobOf.result(id))
    const { meta, billed } = job
    if (sealed === undefined) return Effect.fail(notFound)
    const opened = Effect.promise(() => openedText(meta.sealedName, keys))
    return Effect.map(opened, (name) => ({
      status: 200,
      headers: [
        ["Content-Type", documentTypeOf(meta.extension)!.mime],
        ["Content-Disposition", disposition(`${name}.${meta.extension}`)],
        noStore
      ],
      body: (sink) => sendWhole(sink, opening(sealed, keys, "result"), this.downloaded(id, meta, billed))
    }))
  }

  /** Bills and deletes a downloaded document in one commit. */
  private downloaded(id: string, meta: DocumentMeta, billed: number): Effect.Effect<void> {
    return Effect.suspend(() => {
      const bill = this.worker.bill(id, meta, billed)
      const rows = bill?.rows.map((row) => ({ ...row, key: [...row.key] })) ?? []
      return Effect.match(this.deps.actors.ref(DocumentJob, id).ask("Downloaded", { bill: rows }), {
        onFailure: () => bill?.undo(),
        onSuccess: (isCounted) => {
          if (!isCounted) bill?.undo()
        }
      })
    })
  }
}

const bytesMaxOf = (fileName: string, tier: "free" | "paid"): number => {
  const type = documentTypeOf(fileNameOf(fileName).extension)
  return type === undefined
    ? uploadBytesMax
    : Math.floor((tier === "free" ? type.freeMiB : type.paidMiB) * mebibyte)
}

/** Passes a body on up to a limit. Beyond it reading stops: the transport answers 413 and closes. A consumer
 *  that stops early leaves the rest to the parser. */
async function* limited(
  bytes: AsyncIterable<Buffer>,
  bytesMax: number,
  counted: { bytes: number }
): AsyncGenerator<Buffer> {
  const source = bytes[Symbol.asyncIterator]()
  for (;;) {
    const next = await source.next()
    if (next.done === true) return
    if ((counted.bytes += next.value.length) > bytesMax) throw new BodyFault("too-large")
    yield next.value
  }
}

/** Reads parameters from body and query, because older clients send the document key in the query of a
 *  GET. */
const bagOf = (request: Request): { readonly bag: RawParams } | Refusal => {
  const query = readForm(request.query)
  if (isRefusal(query)) return query
  if (request.body.length === 0) return query
  const body = readBody(request.headers.get("content-type"), request.body)
  return isRefusal(body) ? body : { bag: { ...query.bag, ...body.bag } }
}

/** Content-Disposition by RFC 6266: an ASCII name for old clients, followed by the full name. */
const disposition = (name: string): string => {
  const plain = name.replace(/[^\x20-\x7E]|["\\%]/g, "_")
  const encoded = encodeURIComponent(name).replace(
    /['()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`
  )
  return `attachment; filename="${plain}"${plain === name ? "" : `; filename*=UTF-8''${encoded}`}`
}
