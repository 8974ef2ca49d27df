/** The work of a document job: wait for a turn, open the source, extract, translate in batches, rebuild, seal
 *  the result. Checkpoints make an engine's answers survive a crash; the other steps are repeated and give
 *  the same result. The work ends with one command to the job itself: Finish, Fail, or Lock when nobody has
 *  presented the key since the process started. Source: docs/spec/documents.md, sections 9.5–9.7 and 10. */
import { Cause, Effect, Schedule, type Scope, Stream } from "effect"
import { defined } from "../../runtime/defined.ts"
import { retryable, type EngineFault } from "../engines/ports.ts"
import { blobOf, isCheckpointOf } from "./blobs.ts"
import { Checkpoints } from "./checkpoints.ts"
import type { DocumentMeta } from "./meta.ts"
import {
  customizationsEngine,
  DocumentWork,
  JobFault,
  type DocumentPort,
  type ExtractedDocument,
  type TranslatedBatch,
  type WorkSegment
} from "./ports.ts"
import { opened, sealing, type DocumentKeys } from "./sealed.ts"

export type DocumentCommand =
  | { readonly _tag: "Begin" }
  | { readonly _tag: "Lock" }
  | { readonly _tag: "Fail"; readonly text: string }
  | { readonly _tag: "Finish"; readonly billed: number; readonly resultBytes: number }

const batchSegmentsMax = 50
const batchCharsMax = 16_384
const batchesAtOnce = 2
const retriesMax = 3

/** Limits the sample that the language is detected from: its characters, its segments, and the length of
 *  each. */
const sampleCharsMax = 2_000
const sampleSegments = 40
const sampleSegmentCharsMax = 300

const engineUnavailable = "The translation engine is not available, please upload the document again."
const notStored = "The result could not be stored."

/** Holds what one run of a job works with. */
interface Run {
  readonly id: string
  readonly meta: DocumentMeta
  readonly keys: DocumentKeys
  readonly port: DocumentPort
}

export const translateDocument = (
  id: string,
  meta: DocumentMeta
): Stream.Stream<DocumentCommand, never, DocumentWork> =>
  Stream.unwrap(
    Effect.map(DocumentWork, (port) => {
      const keys = port.keyring.get(id)
      if (keys === undefined) return Stream.succeed<DocumentCommand>({ _tag: "Lock" })
      const commands = Stream.concat(
        Stream.succeed<DocumentCommand>({ _tag: "Begin" }),
        Stream.fromEffect(Effect.scoped(outcome({ id, meta, keys, port })))
      )
      return Stream.unwrap(Effect.as(turn(id, meta, port), commands))
    })
  )

/** Waits for the document's turn and holds it until the scope closes. */
const turn = (
  id: string,
  { accountId }: DocumentMeta,
  { scheduler }: DocumentPort
): Effect.Effect<void, never, Scope.Scope> => {
  const leave = Effect.sync(() => scheduler.leave(id))
  const entered = Effect.callback<void>((resume) => {
    scheduler.enter(id, accountId, () => resume(Effect.void))
  })
  // Not `acquireRelease`, whose wait cannot be interrupted: a document that is removed leaves the queue at once.
  return Effect.andThen(
    Effect.addFinalizer(() => leave),
    entered
  )
}

const outcome = (run: Run): Effect.Effect<DocumentCommand, never, Scope.Scope> =>
  work(run).pipe(
    Effect.catchTag("JobFault", ({ text }) => Effect.succeed<DocumentCommand>({ _tag: "Fail", text })),
    Effect.tapCause((cause) =>
      Effect.sync(() => {
        if (!Cause.hasInterruptsOnly(cause))
          run.port.log("warn", "a document job crashed", { document: run.id })
      })
    )
  )

const work = (run: Run): Effect.Effect<DocumentCommand, JobFault, Scope.Scope> =>
  Effect.gen(function* () {
    const { id, meta, keys, port } = run
    const document = yield* port.work(meta, yield* readSource(run))

    const billed = port.billed(meta, document.characters)
    if (!port.reserve(id, meta, billed)) return yield* new JobFault({ text: "Quota Exceeded" })

    const source =
      document.segments.length === 0
        ? (meta.source ?? "")
        : port.languageOf(meta, languageSample(document.segments))
    if (typeof source !== "string") return yield* source

    const translated = yield* translate(run, document, source)
    const result = yield* document.rebuild(translated)
    const resultBytes = result.length
    yield* Effect.tryPromise({
      try: () => port.blobs.write(blobOf.result(id), sealing([result], keys, "result")),
      catch: () => new JobFault({ text: notStored })
    })
    return { _tag: "Finish", billed, resultBytes } as const
  })

/** A source that is absent was never received whole, and the start sweeps it away; one that does not open is
 *  our fault or the disk's. */
const readSource = ({ id, keys, port }: Run): Effect.Effect<Buffer, JobFault> =>
  Effect.tryPromise({
    try: () => {
      const sealed = port.blobs.read(blobOf.source(id))
      return sealed === undefined ? Promise.reject(new Error("no source")) : opened(sealed, keys, "source")
    },
    catch: () =>
      new JobFault({ text: "The document could not be read from storage, please upload it again." })
  })

/** Returns a sample that suffices to detect the language, taken from the whole document. */
const languageSample = (segments: ReadonlyArray<WorkSegment>): ReadonlyArray<string> => {
  const sample: Array<string> = []
  const step = Math.max(1, Math.floor(segments.length / sampleSegments))
  let chars = 0
  for (let i = 0; i < segments.length && chars < sampleCharsMax; i += step) {
    sample.push(segments[i]!.text.slice(0, sampleSegmentCharsMax))
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

/** Divides the texts into batches; a text that is repeated in the document is translated once. */
const batchesOf = (
  segments: ReadonlyArray<WorkSegment>,
  translations: ReadonlyMap<string, string>
): ReadonlyArray<Batch> => {
  const batches: Array<Batch> = []
  const seen = new Set<string>()
  let batch: Batch | undefined
  for (const { text, billed, context } of segments) {
    if (translations.has(text) || seen.has(text)) continue
    seen.add(text)
    if (
      batch === undefined ||
      batch.texts.length >= batchSegmentsMax ||
      batch.chars + text.length > batchCharsMax
    ) {
      batch = { texts: [], context, chars: 0, billed: 0 }
      batches.push(batch)
    }
    batch.texts.push(text)
    batch.chars += text.length
    batch.billed += billed
  }
  return batches
}

const billedSum = (items: ReadonlyArray<{ readonly billed: number }>): number =>
  items.reduce((sum, { billed }) => sum + billed, 0)

/** Yields to the event loop before each batch: an engine that answers at once would otherwise block it for
 *  the whole document. */
const yieldToEventLoop = Effect.callback<void>((resume) => {
  const immediate = setImmediate(() => resume(Effect.void))
  return Effect.sync(() => clearImmediate(immediate))
})

/** Translates the segments; the result maps the ids of those whose text changes to their translations. */
const translate = (
  run: Run,
  { segments }: ExtractedDocument,
  source: string
): Effect.Effect<ReadonlyMap<number, string>, JobFault> =>
  Effect.gen(function* () {
    if (segments.length === 0) return new Map()
    const { id, meta, keys, port } = run
    const fingerprint = port.fingerprint(meta, source)
    const checkpoints = new Checkpoints({ id, fingerprint, keys, blobs: port.blobs })
    const translations = yield* checkpoints.load
    const batches = batchesOf(segments, translations)
    const total = billedSum(segments)
    port.scheduler.begin(id, total, total - billedSum(batches))
    yield* Effect.forEach(
      batches,
      (batch) =>
        Effect.flatMap(translateBatch(run, source, batch), (translated) => {
          for (const [i, text] of batch.texts.entries()) translations.set(text, translated.texts[i]!)
          port.scheduler.advance(id, batch.billed)
          return checkpoints.add(batch.texts, translated.texts)
        }),
      { concurrency: batchesAtOnce, discard: true }
    )
    yield* checkpoints.flush
    return changedSegments(segments, translations)
  }).pipe(Effect.catchTag("CheckpointFault", () => Effect.fail(new JobFault({ text: notStored }))))

const translateBatch = (
  { meta, port }: Run,
  source: string,
  { texts, context }: Batch
): Effect.Effect<TranslatedBatch, JobFault> => {
  const { target, accountId, options } = meta
  const translated = port.translate(defined({ source, target, accountId, options, texts, context }))
  return Effect.andThen(yieldToEventLoop, translated).pipe(
    Effect.retry({
      times: retriesMax,
      schedule: Schedule.exponential("200 millis"),
      while: (fault: EngineFault) => retryable(fault)
    }),
    Effect.mapError((fault: EngineFault) => new JobFault({ text: faultText(fault) }))
  )
}

const faultText = ({ engine, reason, detail }: EngineFault): string => {
  if (engine === customizationsEngine) return detail
  return reason === "unsupported" ? "Value for 'target_lang' not supported." : engineUnavailable
}

const changedSegments = (
  segments: ReadonlyArray<WorkSegment>,
  translations: ReadonlyMap<string, string>
): ReadonlyMap<number, string> => {
  const changed = new Map<number, string>()
  for (const { id, text } of segments) {
    const translation = translations.get(text)
    if (translation !== undefined && translation !== text) changed.set(id, translation)
  }
  return changed
}

/** Removes what the job no longer needs: the source and the checkpoints, and also the result and the keys
 *  unless the result waits for its download. */
export const removeBlobs = (
  id: string,
  { keepResult }: { readonly keepResult: boolean }
): Stream.Stream<never, never, DocumentWork> =>
  Stream.fromEffectDrain(
    Effect.flatMap(DocumentWork, ({ blobs, keyring }) =>
      Effect.ignore(
        Effect.tryPromise(async () => {
          if (!keepResult) keyring.drop(id)
          await blobs.delete(blobOf.source(id))
          if (!keepResult) await blobs.delete(blobOf.result(id))
          for (const blob of await blobs.ids()) if (isCheckpointOf(id, blob)) await blobs.delete(blob)
        })
      )
    )
  )

/** Releases the quota that was reserved for the bill. */
export const releaseReservation = (id: string): Stream.Stream<never, never, DocumentWork> =>
  Stream.fromEffectDrain(Effect.map(DocumentWork, (port) => port.release(id)))
