/** The work of a document job: wait for a turn, open the source, extract, translate in batches, rebuild, seal
 *  the result. Checkpoints make what an engine has said survive a crash; the rest is done again and comes out
 *  the same. Ends with one command to the job itself: Finish, Fail, or Lock when nobody has shown the key
 *  since the process started. Source: documents 9.5–9.7, 10. */
import { Cause, Data, Effect, Schedule, type Scope, Stream } from "effect"
import { retryable, type EngineFault } from "../engines/ports.ts"
import {
  customizationsEngine,
  blobOf,
  DocumentWork,
  JobFault,
  type ExtractedDocument,
  type DocumentMeta,
  type DocumentPort,
  type WorkSegment
} from "./ports.ts"
import { opened, sealing, type DocumentKeys } from "./sealed.ts"

export type WorkCall =
  | { readonly _tag: "Begin" }
  | { readonly _tag: "Lock" }
  | { readonly _tag: "Fail"; readonly text: string }
  | { readonly _tag: "Finish"; readonly billed: number; readonly resultBytes: number }

const batchSegmentsMax = 50
const batchCharsMax = 16_384
const batchesAtOnce = 2
const retriesMax = 3
const checkpointEvery = 512
const checkpointMs = 2_000
const checkpointsMax = 100_000
const detectedCharsMax = 2_000
const interrupted = "The translation engine is not available, please upload the document again."

class Stopped extends Data.TaggedError("Stopped")<{}> {}

export const translating = (id: string, meta: DocumentMeta): Stream.Stream<WorkCall, never, DocumentWork> =>
  Stream.unwrap(
    Effect.map(DocumentWork, (ports) => {
      const keys = ports.keyring.get(id)
      if (keys === undefined) return Stream.succeed<WorkCall>({ _tag: "Lock" })
      const turn = Effect.callback<void>((resume) => {
        ports.scheduler.enter(id, meta.accountId, () => resume(Effect.void))
        return Effect.sync(() => ports.scheduler.leave(id))
      })
      return Stream.unwrap(
        Effect.acquireRelease(turn, () => Effect.sync(() => ports.scheduler.leave(id))).pipe(
          Effect.as(
            Stream.concat(
              Stream.succeed<WorkCall>({ _tag: "Begin" }),
              Stream.fromEffect(Effect.scoped(worked(id, meta, keys, ports)))
            )
          )
        )
      )
    })
  )

const worked = (
  id: string,
  meta: DocumentMeta,
  keys: DocumentKeys,
  ports: DocumentPort
): Effect.Effect<WorkCall, never, Scope.Scope> =>
  Effect.gen(function* () {
    const work = yield* ports.work(meta, yield* sourceOf(id, keys, ports))
    const billed = ports.billed(meta, work.characters)
    if (!ports.reserve(id, meta, billed)) return yield* new JobFault({ text: "Quota Exceeded" })
    const source =
      work.segments.length === 0 ? (meta.source ?? "") : ports.languageOf(meta, sampleOf(work.segments))
    if (typeof source !== "string") return yield* source
    const translated = yield* translate(id, meta, source, work, keys, ports)
    const result = yield* work.rebuild(translated)
    const resultBytes = result.length
    yield* Effect.tryPromise({
      try: () => ports.blobs.write(blobOf.result(id), sealing([result], keys, "result")),
      catch: () => new JobFault({ text: "The result could not be stored." })
    })
    return { _tag: "Finish", billed, resultBytes } as const
  }).pipe(
    Effect.catchTag("JobFault", ({ text }) => Effect.succeed<WorkCall>({ _tag: "Fail", text })),
    Effect.tapCause((cause) =>
      Effect.sync(() => {
        if (!Cause.hasInterruptsOnly(cause)) ports.log("warn", "a document job crashed", { document: id })
      })
    )
  )

/** undefined source: it was never received whole, which the start sweeps away; a source that does not open is
 *  our fault or the disk's. */
const sourceOf = (id: string, keys: DocumentKeys, ports: DocumentPort): Effect.Effect<Buffer, JobFault> =>
  Effect.tryPromise({
    try: () => {
      const sealed = ports.blobs.read(blobOf.source(id))
      return sealed === undefined ? Promise.reject(new Error("no source")) : opened(sealed, keys, "source")
    },
    catch: () =>
      new JobFault({ text: "The document could not be read from storage, please upload it again." })
  })

/** Enough to tell the language by, from the whole of the document. */
const sampleOf = (segments: ReadonlyArray<WorkSegment>): ReadonlyArray<string> => {
  const sample: Array<string> = []
  const step = Math.max(1, Math.floor(segments.length / 40))
  let chars = 0
  for (let i = 0; i < segments.length && chars < detectedCharsMax; i += step) {
    sample.push(segments[i]!.text.slice(0, 300))
    chars += segments[i]!.text.length
  }
  return sample
}

interface Batch {
  readonly texts: Array<string>
  readonly context: string | undefined
  chars: number
  billed: number
}

/** Each text once, however often it stands in the document. */
const batchesOf = (
  segments: ReadonlyArray<WorkSegment>,
  known: ReadonlyMap<string, string>
): ReadonlyArray<Batch> => {
  const batches: Array<Batch> = []
  const seen = new Set<string>()
  let batch: Batch | undefined
  for (const { text, billed, context } of segments) {
    if (known.has(text) || seen.has(text)) continue
    seen.add(text)
    if (
      batch === undefined ||
      batch.texts.length >= batchSegmentsMax ||
      batch.chars + text.length > batchCharsMax
    )
      batches.push((batch = { texts: [], context, chars: 0, billed: 0 }))
    batch.texts.push(text)
    batch.chars += text.length
    batch.billed += billed
  }
  return batches
}

/** An engine that answers at once would otherwise keep the event loop for the whole document: each batch
 *  waits for a turn of its own. */
const breath = Effect.callback<void>((resume) => {
  const waiting = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(waiting))
})

const translate = (
  id: string,
  meta: DocumentMeta,
  source: string,
  work: ExtractedDocument,
  keys: DocumentKeys,
  ports: DocumentPort
): Effect.Effect<ReadonlyMap<number, string>, JobFault> =>
  Effect.gen(function* () {
    const { segments } = work
    if (segments.length === 0) return new Map()
    const checkpoints = new Checkpoints(id, ports.fingerprint(meta, source), keys, ports)
    const known = yield* checkpoints.load
    const batches = batchesOf(segments, known)
    const all = segments.reduce((sum, { billed }) => sum + billed, 0)
    const left = batches.reduce((sum, { billed }) => sum + billed, 0)
    ports.scheduler.begin(id, all, all - left)
    yield* Effect.forEach(
      batches,
      ({ texts, context, billed }) =>
        Effect.andThen(
          breath,
          ports.translate({
            source,
            target: meta.target,
            accountId: meta.accountId,
            options: meta.options,
            texts,
            ...(context === undefined ? {} : { context })
          })
        ).pipe(
          Effect.retry({
            times: retriesMax,
            schedule: Schedule.exponential("200 millis"),
            while: (fault: EngineFault) => retryable(fault)
          }),
          Effect.catch((fault: EngineFault) =>
            Effect.fail(
              new JobFault({
                text:
                  fault.engine === customizationsEngine
                    ? fault.detail
                    : fault.reason === "unsupported"
                      ? "Value for 'target_lang' not supported."
                      : interrupted
              })
            )
          ),
          Effect.flatMap(({ texts: made }) => {
            for (const [i, text] of texts.entries()) known.set(text, made[i]!)
            ports.scheduler.advance(id, billed)
            return checkpoints.keep(texts, made)
          })
        ),
      { concurrency: batchesAtOnce, discard: true }
    )
    yield* checkpoints.flush
    return new Map(
      segments.flatMap(({ id: at, text }) => {
        const made = known.get(text)
        return made === undefined || made === text ? [] : [[at, made] as const]
      })
    )
  }).pipe(
    Effect.catchTag("Stopped", () => Effect.fail(new JobFault({ text: "The result could not be stored." })))
  )

/** What has been translated, on disk in sealed pieces of its own: a piece is whole or absent. */
class Checkpoints {
  private readonly id: string
  private readonly fingerprint: string
  private readonly keys: DocumentKeys
  private readonly ports: DocumentPort
  private next = 0
  private pending: Array<readonly [string, string]> = []
  private sinceMs = Date.now()

  constructor(id: string, fingerprint: string, keys: DocumentKeys, ports: DocumentPort) {
    this.id = id
    this.fingerprint = fingerprint
    this.keys = keys
    this.ports = ports
  }

  /** Of the same engine and options; pieces of others are written over. */
  get load(): Effect.Effect<Map<string, string>> {
    return Effect.promise(async () => {
      const known = new Map<string, string>()
      for (let n = 0; n < checkpointsMax; n++) {
        const sealed = this.ports.blobs.read(blobOf.checkpoint(this.id, n))
        if (sealed === undefined) break
        try {
          const { of, pairs } = JSON.parse(
            (await opened(sealed, this.keys, "segments")).toString("utf8")
          ) as { readonly of: string; readonly pairs: ReadonlyArray<readonly [string, string]> }
          if (of !== this.fingerprint) break
          for (const [text, made] of pairs) known.set(text, made)
          this.next = n + 1
        } catch {
          break
        }
      }
      return known
    })
  }

  keep(texts: ReadonlyArray<string>, made: ReadonlyArray<string>): Effect.Effect<void, Stopped> {
    for (const [i, text] of texts.entries()) this.pending.push([text, made[i]!])
    return this.pending.length >= checkpointEvery || Date.now() - this.sinceMs >= checkpointMs
      ? this.flush
      : Effect.void
  }

  get flush(): Effect.Effect<void, Stopped> {
    return Effect.suspend(() => {
      if (this.pending.length === 0) return Effect.void
      const pairs = this.pending
      const n = this.next++
      this.pending = []
      this.sinceMs = Date.now()
      const bytes = Buffer.from(JSON.stringify({ of: this.fingerprint, pairs }))
      return Effect.asVoid(
        Effect.tryPromise({
          try: () =>
            this.ports.blobs.write(blobOf.checkpoint(this.id, n), sealing([bytes], this.keys, "segments")),
          catch: () => new Stopped()
        })
      )
    })
  }
}

/** What a job leaves on disk: everything, or all but the result. */
export const tidied = (id: string, keepResult: boolean): Stream.Stream<never, never, DocumentWork> =>
  Stream.fromEffectDrain(
    Effect.flatMap(DocumentWork, ({ blobs, keyring: vault }) =>
      Effect.ignore(
        Effect.tryPromise(async () => {
          if (!keepResult) vault.drop(id)
          await blobs.delete(blobOf.source(id))
          if (!keepResult) await blobs.delete(blobOf.result(id))
          for (const blob of await blobs.ids())
            if (blob.startsWith(`doc-${id}.segments.`)) await blobs.delete(blob)
        })
      )
    )
  )
