/** Voice translation jobs over HTTP: declare, upload, poll, download. Each file has an address with a
 *  signature of its own.
 *  Source: docs/spec/translation.md, section 13. */
import { randomUUID } from "node:crypto"
import { Effect } from "effect"
import type { Engines } from "../../../actors/engines/ports.ts"
import { encoderFor } from "../../../actors/engines/speech/encoder.ts"
import {
  OpenVoiceJobs,
  uploadWithinMs,
  VoiceJob,
  type Job,
  type VoiceJobView
} from "../../../actors/voice-job.ts"
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
import type { Params } from "../../shared/params.ts"
import type { Guard, Guarded } from "../account/guard.ts"
import { pairFor, sourceOf, targetOf, voiceSources, voiceTargets } from "../languages.ts"
import { problem } from "../problems.ts"
import type { HashKey } from "../account/records.ts"
import {
  bodyOf,
  buffered,
  bytesOf,
  download,
  unavailable,
  idIn,
  isResponse,
  noContent,
  notFound,
  objectIn,
  objectsIn,
  ok,
  publicBaseOf,
  queryOf,
  sameSignature,
  smallBytesMax,
  takeUpload
} from "../endpoint.ts"
import { usedOf, type Usage } from "../account/usage.ts"
import { readable } from "./voice-file.ts"

const fileBytesMax = 1_073_741_824
const nameBytesMax = 1_024
const targetsMax = 50
const openMax = 10
const largeMax = 2

/** Jobs of all accounts that wait for a recognizer; beyond it none is accepted. */
const queuedMax = 200

const largeBytes = 104_857_600
const texts = new Set(["text/plain", "application/x-subrip"])
const jobNotFound = notFound("Job")
const assets = "/v1/assets/voice"

const invalidAt = (pointer: string, what = "Value is not valid"): Response =>
  problem({ _tag: "Refused", message: `${pointer}: ${what}` })

const wrongLength = invalidAt("/source_file/content_length", "Another length than declared")

const baseOf = (language: string): string => language.split("-")[0]!

export interface VoiceJobDeps {
  readonly store: Store
  readonly actors: ActorSystem
  readonly engines: Engines
  readonly usage: Usage
  readonly clock: () => number
  readonly sign: HashKey
  readonly publicBase?: string | undefined
  /** Called when a job has been deleted. */
  readonly ended?: () => void
}

type VoiceJobAnswer<A> =
  | { readonly reply: A }
  | { readonly refuse: { readonly _tag: string } }
  | { readonly fault: unknown }

const storedBytes = (view: VoiceJobView): number => {
  switch (view._tag) {
    case "Waiting":
      return 0
    case "Processing":
      return view.job.contentLength
    case "Done":
      return view.results.reduce((sum, { bytes }) => sum + bytes, 0)
  }
}

export class VoiceJobRoutes {
  private readonly deps: VoiceJobDeps

  constructor(deps: VoiceJobDeps) {
    this.deps = deps
  }

  routes(guard: Guard): ReadonlyArray<Route> {
    const base = "/v1/jobs/voice/translate"
    return [
      { method: "POST", path: base, body: buffered(smallBytesMax), handle: guard(undefined, this.create) },
      { method: "GET", path: `${base}/:job_id`, handle: guard(undefined, this.read) },
      {
        method: "PUT",
        path: `${assets}/:job_id/upload`,
        body: { as: "stream", bytesMax: fileBytesMax },
        handle: this.upload
      },
      { method: "GET", path: `${assets}/:job_id/results/:index`, handle: this.fetch }
    ]
  }

  /** Asks the job's actor, and goes on with its answer. */
  private ask<A>(
    jobId: string,
    command: "Read" | "Create" | "Upload",
    payload: any,
    next: (answer: VoiceJobAnswer<A>) => Answer
  ): Answer {
    return askLater<Response>((done) =>
      this.deps.actors
        .ref(VoiceJob, jobId)
        .askNow(command, payload, (answer) => done(() => next(answer as VoiceJobAnswer<A>)))
    )
  }

  private signature(jobId: string, what: string): string {
    return this.deps.sign(`voice job ${what} ${jobId}`)
  }

  private asset(
    request: Request,
    jobId: string,
    what: string
  ): { readonly url: string; readonly signature: string; readonly signed: string } {
    const url = `${publicBaseOf(request, this.deps.publicBase)}${assets}/${jobId}/${what}`
    const signature = this.signature(jobId, what)
    return { url, signature, signed: `${url}?X-Signature=${encodeURIComponent(signature)}` }
  }

  /** Returns whether the request asks for signed addresses. */
  private includes(request: Request): boolean | Response {
    const query = queryOf(request)
    return isResponse(query) ? query : query.names("include").includes("signed_url")
  }

  private readonly create: Guarded = (request, using) => {
    const {
      account: { accountId, tier, limits },
      key
    } = using
    const { store, clock, usage, actors } = this.deps
    if (tier === "free") return problem({ _tag: "Forbidden" })
    const include = this.includes(request)
    const params = bodyOf(request)
    if (isResponse(params)) return params
    if (typeof include !== "boolean") return include
    const read = this.jobIn(params)
    if (isResponse(read)) return read
    const { account, key: ofKey } = usage.read(using)
    const full = (limit: number | null, used: number): boolean => limit !== null && used >= limit
    if (full(limits.speechToTextMs, usedOf(account, "speechToTextMs")))
      return problem({ _tag: "QuotaExceeded", owner: "account" })
    if (full(key.limits.speechToTextMs, usedOf(ofKey, "speechToTextMs")))
      return problem({ _tag: "QuotaExceeded", owner: "key" })
    const open = OpenVoiceJobs.range(store, { prefix: [accountId], limit: openMax })
    if (
      open.length >= openMax ||
      (read.contentLength > largeBytes && open.filter(({ value }) => value > largeBytes).length >= largeMax)
    )
      return problem({ _tag: "Limited", retryAfterMs: 30_000 })
    const { recognizer } = this.deps.engines
    const readiness = recognizer.readiness()
    if (!readiness.ready) return unavailable(readiness)
    if (recognizer.places.waiting("job") >= queuedMax) return unavailable("too many jobs wait")
    const jobId = randomUUID()
    const nowMs = clock()
    const job: Job = { ...read, accountId, keyId: key.keyId, createdMs: nowMs, updatedMs: nowMs }
    actors.watch("voice-job", jobId, () => this.deps.ended?.())
    return this.ask<void>(jobId, "Create", { job }, (answer) => {
      if (!("reply" in answer)) return unavailable(answer)
      const { url, signature, signed } = this.asset(request, jobId, "upload")
      return ok(
        { job_id: jobId, upload_url: url, signature, ...(include ? { signed_upload_url: signed } : {}) },
        201
      )
    })
  }

  private jobIn(params: Params): Omit<Job, "accountId" | "keyId" | "createdMs" | "updatedMs"> | Response {
    const { recognizer, translator, synthesizer } = this.deps.engines
    const file = objectIn(params, "source_file")
    if (file === undefined)
      return invalidAt("/source_file", params.fault === undefined ? "Value is required" : undefined)
    const name = file.string("name") ?? ""
    const contentType = file.string("content_type") ?? ""
    const contentLength = file.integer("content_length", 1, fileBytesMax)
    if (name === "" || bytesOf(name) > nameBytesMax) return invalidAt("/source_file/name")
    if (!readable(contentType)) return invalidAt("/source_file/content_type")
    if (contentLength === undefined) return invalidAt("/source_file/content_length")
    const requestedLanguage = objectIn(params, "parameters")?.string("source_language")
    if (params.fault !== undefined) return invalidAt(`/${params.fault.name}`)
    const recognizable = recognizer.languages().map(baseOf)
    const source =
      requestedLanguage === undefined || requestedLanguage === "" ? undefined : sourceOf(requestedLanguage)
    if (
      requestedLanguage !== undefined &&
      requestedLanguage !== "" &&
      (source === undefined || !voiceSources.has(source.code) || !recognizable.includes(source.base))
    )
      return invalidAt("/parameters/source_language")
    const targets = objectsIn(params, "targets") ?? []
    const sources = source === undefined ? recognizable : [source.base]
    if (params.fault !== undefined || targets.length === 0 || targets.length > targetsMax)
      return invalidAt("/targets")
    const read: Array<Job["targets"][number]> = []
    for (const [i, one] of targets.entries()) {
      const language = one.string("language") ?? ""
      const type = (one.string("type") ?? "").replace(/\s+/g, "").toLowerCase()
      const target = targetOf(language)
      if (
        target === undefined ||
        !(voiceTargets.has(target.code) || voiceTargets.has(target.base)) ||
        !sources.some((from) => from === target.base || pairFor(translator, from, target) !== undefined)
      )
        return invalidAt(`/targets/${i}/language`)
      if (
        !texts.has(type) &&
        (encoderFor(type) === undefined ||
          type === "audio/webm" ||
          type === "audio/ogg" ||
          !synthesizer.languages().map(baseOf).includes(target.base))
      )
        return invalidAt(`/targets/${i}/type`)
      read.push({ language, type })
    }
    return { name, contentType, contentLength, sourceLanguage: source?.code ?? null, targets: read }
  }

  private readonly read: Guarded = (request, { account }) => {
    const jobId = idIn(request, "job_id")
    const include = this.includes(request)
    if (isResponse(jobId)) return jobId
    if (typeof include !== "boolean") return include
    return this.ask<VoiceJobView>(jobId, "Read", {}, (answer) => {
      if ("fault" in answer) return unavailable(answer)
      return "reply" in answer && answer.reply.job.accountId === account.accountId
        ? ok(this.jobJson(request, jobId, answer.reply, include))
        : jobNotFound
    })
  }

  private jobJson(request: Request, jobId: string, view: VoiceJobView, include: boolean): object {
    const { job } = view
    const { name, contentType, contentLength, sourceLanguage, targets, createdMs, updatedMs } = job
    return {
      job_id: jobId,
      product: "voice",
      operation: "translate",
      created_at: new Date(createdMs).toISOString(),
      updated_at: new Date(updatedMs).toISOString(),
      usage: { storage_used: storedBytes(view) },
      source_file: { name, content_type: contentType, content_length: contentLength },
      ...(sourceLanguage === null ? {} : { parameters: { source_language: sourceLanguage } }),
      targets,
      results: targets.map((_, i) => {
        if (view._tag !== "Done") return { status: view._tag === "Waiting" ? "pending" : "processing" }
        const { blob, message, fetched } = view.results[i]!
        if (blob === "") return { status: "failed", error: { message } }
        if (fetched) return { status: "downloaded" }
        const { url, signature, signed } = this.asset(request, jobId, `results/${i}`)
        return {
          status: "complete",
          download_url: url,
          signature,
          ...(include ? { signed_download_url: signed } : {})
        }
      })
    }
  }

  /** Finds the job of an asset whose signature, in the header or the query, is valid. */
  private signed(
    request: Request,
    what: string,
    next: (jobId: string, view: VoiceJobView) => Answer
  ): Answer {
    const jobId = idIn(request, "job_id")
    const query = queryOf(request)
    if (isResponse(jobId) || isResponse(query)) return problem({ _tag: "Forbidden" })
    const presented =
      /^deepl-signature\s+(\S+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ??
      query.string("X-Signature") ??
      ""
    if (!sameSignature(presented, this.signature(jobId, what))) return problem({ _tag: "Forbidden" })
    return this.ask<VoiceJobView>(jobId, "Read", {}, (answer) => {
      if ("reply" in answer) return next(jobId, answer.reply)
      return "refuse" in answer ? jobNotFound : unavailable(answer)
    })
  }

  private readonly upload = (request: Request): Answer =>
    this.signed(request, "upload", (jobId, view) => {
      if (view._tag !== "Waiting" || this.deps.clock() >= view.job.createdMs + uploadWithinMs)
        return problem({
          _tag: "Forbidden",
          detail: "The file was uploaded already, or the time for it is over."
        })
      const declared = request.headers.get("content-length")
      return declared !== undefined && Number(declared) !== view.job.contentLength
        ? wrongLength
        : this.receive(request, jobId, view.job.contentLength)
    })

  /** It is not interrupted: the body ends when its client goes, and a file that was received in whole is the
   *  job's, or deleted. */
  private receive(request: Request, jobId: string, length: number): Answer {
    const { store } = this.deps
    const blob = `voice-${jobId}-source-${randomUUID()}`
    const refused = (answer: Response): Effect.Effect<Response> =>
      Effect.as(
        Effect.promise(() => store.blobs.delete(blob)),
        answer
      )
    const handed = (): Answer =>
      this.ask<void>(jobId, "Upload", { blob }, (answer) => {
        if ("reply" in answer) return noContent
        return refused("refuse" in answer ? problem({ _tag: "Forbidden" }) : unavailable(answer))
      })
    return Effect.uninterruptible(
      Effect.flatMap(takeUpload(store, blob, length, request.stream), (isWhole) =>
        isWhole ? effectOf<Response>(handed()) : Effect.succeed(wrongLength)
      )
    )
  }

  private readonly fetch = (request: Request): Answer => {
    const index = request.params["index"] ?? ""
    return this.signed(request, `results/${index}`, (jobId, view) => {
      const result = view._tag === "Done" ? view.results[Number(index)] : undefined
      if (result === undefined || result.blob === "") return jobNotFound
      const { type } = view.job.targets[Number(index)]!
      return (
        download(
          this.deps.store,
          result.blob,
          [["Content-Type", type === "text/plain" ? "text/plain; charset=utf-8" : type]],
          () => {
            this.deps.actors.ref(VoiceJob, jobId).tell("Fetch", { index: Number(index) })
          }
        ) ?? jobNotFound
      )
    })
  }
}
