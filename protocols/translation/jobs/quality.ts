/** Quality evaluation over HTTP: segments are uploaded, a job evaluates them, and the findings of each are
 *  returned. Errors have a message only.
 *  Source: docs/spec/translation.md, section 14. */
import { Cause, Effect, Result } from "effect"
import { randomUUID } from "node:crypto"
import type { Engines } from "../../../actors/engines/ports.ts"
import { QualityJob, type QualityView, type QualityPort } from "../../../actors/quality-job.ts"
import { RateWindow } from "../../../actors/rate-window.ts"
import {
  askLater,
  effectOf,
  json,
  type Answer,
  type Request,
  type Response,
  type Route
} from "../../../runtime/http.ts"
import type { ActorSystem } from "../../../runtime/registry.ts"
import type { Store } from "../../../storage/store.ts"
import type { Guard, Guarded } from "../account/guard.ts"
import type { KeyInUse } from "../account/keys.ts"
import { problem } from "../problems.ts"
import { buffered, unavailable, isResponse, noStore, bodyOf, objectIn, sendWhole } from "../endpoint.ts"
import { checkPair, inconsistentTargets, spanOf, summaryOf, type Issue, type Pair } from "./quality-checks.ts"
import { codePoints } from "../../shared/code-points.ts"
import { isUuid } from "../../shared/uuid.ts"
import { nextTurn } from "../../shared/event-loop.ts"

const bytesMax = 48 * 1_048_576
const segmentsMax = 500
const charsMax = 10_000
const minuteMs = 60_000
const postsPerMinute = 100
const getsPerMinute = 1_000

const targetsBySource: Readonly<Record<string, string>> = {
  de: "en-gb en-us",
  en: "de es es-419 fr it ja ko",
  es: "en-gb en-us",
  fr: "en-gb en-us",
  it: "en-gb en-us",
  ja: "en-gb en-us ko zh-hans zh-hant",
  ko: "en-gb en-us ja",
  zh: "ja"
}

const refused = (status: 400 | 403 | 404 | 413 | 415, message: string): Response =>
  problem({ _tag: "MessageOnly", status, message })
const pollAfter = [...noStore, ["Retry-After", "5"]] as const
const spellingMax = 20

/** Maps the corrector's kinds of edit to the published sub-types; any other kind is grammar. */
const subTypeOf: Readonly<Record<string, string>> = { spelling: "Spelling", punctuation: "Punctuation" }

/** Evaluates the segments of the file, one per turn of the event loop. */
export const qualityWork = (store: Store, engines: Engines, clean: Effect.Effect<void>): QualityPort => {
  const spelling = (target: string, language: string): Effect.Effect<ReadonlyArray<Issue>> => {
    const { corrector } = engines
    if (corrector === undefined || !corrector.languages().includes(language.split("-")[0]!))
      return Effect.succeed([])
    return Effect.map(Effect.result(corrector.correct(target, language)), (result) =>
      !Result.isSuccess(result)
        ? []
        : result.success
            .slice(0, spellingMax)
            .map(({ from, to, kind }): Issue => ({
              type: "Fluency",
              sub_type: subTypeOf[kind] ?? "Grammar",
              severity: "Minor",
              explanation: "A checker of the target language would change this.",
              source_spans: [],
              target_spans: [spanOf(target, from, to)]
            }))
    )
  }
  const segmentsOf = async (blob: string): Promise<ReadonlyArray<Pair>> => {
    const bytes = store.blobs.read(blob)
    const parts: Array<Uint8Array> = []
    if (bytes === undefined) throw new Error("the segments are gone")
    for await (const part of bytes) parts.push(part)
    return JSON.parse(Buffer.concat(parts).toString()) as ReadonlyArray<Pair>
  }
  const write = async (
    report: string,
    segments: ReadonlyArray<Pair>,
    found: ReadonlyArray<ReadonlyArray<Issue>>
  ): Promise<string> => {
    await store.blobs.write(
      report,
      (async function* () {
        yield Buffer.from(`"segments":[`)
        for (const [i, errors] of found.entries())
          yield Buffer.from(`${i === 0 ? "" : ","}${JSON.stringify({ segment_index: i, errors })}`)
        yield Buffer.from(`],"summary":${JSON.stringify(summaryOf(segments, found))}`)
      })()
    )
    return report
  }
  const attempt = <A>(work: () => Promise<A>): Effect.Effect<A, unknown> =>
    Effect.tryPromise({ try: work, catch: (cause) => cause })
  const evaluate = (
    { source, target, blob }: { readonly source: string; readonly target: string; readonly blob: string },
    jobId: string
  ): Effect.Effect<string, unknown> =>
    Effect.gen(function* () {
      const segments = yield* attempt(() => segmentsOf(blob))
      const twice = inconsistentTargets(segments)
      const found: Array<ReadonlyArray<Issue>> = []
      for (const [i, segment] of segments.entries()) {
        const detection = engines.detector.detect(segment.target)
        const issues = checkPair(
          segment,
          { source, target },
          detection.reliable ? detection.language?.split("-")[0] : undefined
        )
        const isCritical = issues.some(({ severity }) => severity === "Critical")
        const spelled = isCritical ? [] : yield* spelling(segment.target, target)
        found.push([...issues, ...spelled, ...(twice.has(i) ? [twice.get(i)!] : [])])
        yield* nextTurn
      }
      return yield* attempt(() => write(`quality-${jobId}-report`, segments, found))
    })
  return {
    evaluate: (job, jobId) =>
      Effect.catchCause(evaluate(job, jobId), (cause) =>
        Cause.hasInterruptsOnly(cause) ? Effect.interrupt : Effect.fail({ message: "The evaluation failed." })
      ),
    clean
  }
}

export interface QualityDeps {
  readonly store: Store
  readonly actors: ActorSystem
}

export class QualityRoutes {
  private readonly deps: QualityDeps

  constructor(deps: QualityDeps) {
    this.deps = deps
  }

  routes(guard: Guard): ReadonlyArray<Route> {
    const base = "/v1/quality-evaluation"
    return [
      {
        method: "POST",
        path: base,
        body: buffered(bytesMax),
        handle: guard(undefined, this.rateLimited("post", postsPerMinute, this.create))
      },
      {
        method: "GET",
        path: `${base}/:job_id`,
        handle: guard(undefined, this.rateLimited("get", getsPerMinute, this.read))
      }
    ]
  }

  /** Adds the rate limit of this group of endpoints, per key and minute. */
  private rateLimited(what: string, limit: number, handle: Guarded): Guarded {
    return (request, using) =>
      using.account.tier === "free"
        ? refused(403, "Forbidden")
        : askLater<Response>((done) =>
            this.deps.actors
              .ref(RateWindow, `quality-${what}/${using.key.keyId}`)
              .askNow("Take", { cost: 1, limit, windowMs: minuteMs }, (answer) => {
                if ("reply" in answer) done(() => handle(request, using))
                else if ("refuse" in answer)
                  done(() => problem({ ...answer.refuse, message: "Too many requests." }))
                else done(() => problem({ _tag: "Overloaded", cause: answer }))
              })
          )
  }

  private readonly create = (request: Request, { account: { accountId } }: KeyInUse): Answer => {
    const type = (request.headers.get("content-type") ?? "application/json")
      .split(";")[0]!
      .trim()
      .toLowerCase()
    if (type !== "application/json") return refused(415, "The body must be application/json.")
    const params = bodyOf(request)
    if (isResponse(params)) {
      if (params.status === 413) return refused(413, "The body holds too many JSON values.")
      return refused(params.status === 415 ? 415 : 400, "The body is not valid JSON.")
    }
    const metadata = objectIn(params, "metadata")
    const language = (name: string): string => {
      const value = metadata?.raw[name]
      return typeof value === "string" ? value.toLowerCase() : ""
    }
    const source = language("source_language")
    const target = language("target_language")
    if (metadata === undefined) return refused(400, "metadata is required.")
    if (source === "") return refused(400, "metadata.source_language is required.")
    if (target === "") return refused(400, "metadata.target_language is required.")
    if (!Object.hasOwn(targetsBySource, source))
      return refused(400, "metadata.source_language is not supported.")
    if (!targetsBySource[source]!.split(" ").includes(target))
      return refused(400, "metadata.target_language is not supported for this source_language.")
    const items = params.raw["segments"]
    if (!Array.isArray(items) || items.length === 0) return refused(400, "segments is required.")
    if (items.length > segmentsMax) return refused(400, `segments must hold at most ${segmentsMax} items.`)
    const segments: Array<Pair> = []
    for (const [i, one] of items.entries())
      for (const name of ["source", "target"] as const) {
        const text: unknown = typeof one === "object" && one !== null ? one[name] : undefined
        if (text === undefined || text === null || text === "")
          return refused(400, `segments[${i}].${name} is required.`)
        if (typeof text !== "string") return refused(400, `segments[${i}].${name} must be a string.`)
        if (text.length > charsMax && codePoints(text) > charsMax)
          return refused(400, `segments[${i}].${name} must have at most ${charsMax} characters.`)
        if (name === "target") segments.push({ source: one.source, target: text })
      }
    return this.accepted(accountId, { source, target }, segments)
  }

  /** It is not interrupted: what has been accepted stays accepted, and what was not leaves no file. */
  private accepted(
    accountId: string,
    languages: { readonly source: string; readonly target: string },
    segments: ReadonlyArray<Pair>
  ): Effect.Effect<Response> {
    const { store, actors } = this.deps
    const jobId = randomUUID()
    const blob = `quality-${jobId}`
    const stored = Effect.promise(() =>
      store.blobs.write(
        blob,
        (async function* () {
          yield Buffer.from(JSON.stringify(segments))
        })()
      )
    )
    const refuse = (answer: Response): Effect.Effect<Response> =>
      Effect.as(
        Effect.promise(() => store.blobs.delete(blob)),
        answer
      )
    const ask = Effect.suspend(() =>
      effectOf<Response>(
        askLater<Response>((done) =>
          actors
            .ref(QualityJob, jobId)
            .askNow("Accept", { accountId, ...languages, blob }, (answer) =>
              done(() =>
                "reply" in answer
                  ? json(202, { job_id: jobId, poll_url: `/v1/quality-evaluation/${jobId}` }, pollAfter)
                  : refuse(unavailable(answer))
              )
            )
        )
      )
    )
    return Effect.uninterruptible(Effect.andThen(stored, ask))
  }

  private readonly read = (request: Request, { account: { accountId } }: KeyInUse): Answer => {
    const jobId = (request.params["job_id"] ?? "").toLowerCase()
    if (!isUuid(jobId)) return refused(400, "job_id must be a valid UUID.")
    return askLater<Response>((done) =>
      this.deps.actors.ref(QualityJob, jobId).askNow("Read", {}, (answer) => {
        if ("reply" in answer) done(() => this.jobOf(jobId, accountId, answer.reply))
        else done(() => ("refuse" in answer ? refused(404, "The job was not found.") : unavailable(answer)))
      })
    )
  }

  private jobOf(jobId: string, accountId: string, view: QualityView): Response {
    if (view.accountId !== accountId) return refused(404, "The job was not found.")
    if (view._tag === "Processing") return json(202, { job_id: jobId, status: "processing" }, pollAfter)
    if (view._tag === "Failed")
      return json(
        200,
        { job_id: jobId, status: "error", error: { code: "evaluation_failed", message: view.message } },
        noStore
      )
    const report = this.deps.store.blobs.read(view.blob)
    return report === undefined
      ? refused(404, "The job was not found.")
      : {
          status: 200,
          headers: [["Content-Type", "application/json"], ...noStore],
          body: (sink) => {
            const chunks = async function* (): AsyncGenerator<Uint8Array> {
              yield Buffer.from(`{"job_id":"${jobId}","status":"done",`)
              yield* report
              yield Buffer.from("}")
            }
            return sendWhole(sink, chunks())
          }
        }
  }
}
