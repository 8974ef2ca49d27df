/** Recognizers that own a worker per live recognition (pocketsphinx, sherpa): the worker's protocol,
 *  its slots, and one recognition from the first sample to the last final. It is guaranteed that a worker has
 *  about three seconds of sound waiting at most, and that a slot is free again when its stream ends.
 *  Source: docs/spec/engines.md, sections 4.1 and 4.3. */
import { Effect, Stream } from "effect"
import { LanePipe } from "../../../runtime/lane.ts"
import type { Start, Supervised } from "../engine-process.ts"
import { EngineFault, type Language, type Pcm, type RecognitionEvent, type Recognizer } from "../ports.ts"
import { startWorker, type EngineWorker } from "../worker.ts"

/** What the worker is told. `End`: no more sound comes, it reports the rest and `Done`; `Abandon`: it
 *  forgets the recognition. Both leave the worker ready for the next. */
export type ToRecognizer =
  | { readonly _tag: "Open" }
  | { readonly _tag: "Audio"; readonly pcm: Int16Array }
  | { readonly _tag: "End" }
  | { readonly _tag: "Abandon" }

interface Recognized {
  readonly text: string
  readonly startMs: number
  readonly endMs: number
}

export type FromRecognizer =
  | { readonly _tag: "Ready" }
  /** It cannot start, and will not the next time either. */
  | { readonly _tag: "NotReady"; readonly reason: string }
  | ({ readonly _tag: "Partial" } & Recognized)
  | ({ readonly _tag: "Final" } & Recognized)
  | { readonly _tag: "Silence"; readonly untilMs: number }
  /** So many samples of what was sent have been worked off. */
  | { readonly _tag: "Consumed"; readonly samples: number }
  | { readonly _tag: "Done" }

export type RecognizerWorker = EngineWorker<ToRecognizer, FromRecognizer>

export const workerStartMs = 60_000
const canaryMs = 20_000

/** A worker's queue has at most so much sound; beyond it the caller waits. */
const queuedSamplesMax = 16_000 * 3

/** Events that the caller has not read yet. */
const eventsMax = 1_000

export interface Canary {
  readonly pcm: Int16Array
  readonly word: string
}

export interface RecognizerWorkerOptions {
  /** The engine's id, which faults name. */
  readonly id: string
  /** The name of its file in dist/workers. */
  readonly name: string
  readonly data: unknown
  readonly canary?: () => Canary
}

const faultsOf = (id: string) => ({
  crashed: (detail: string) => new EngineFault({ reason: "crashed", engine: id, detail }),
  unavailable: (detail: string) => new EngineFault({ reason: "unavailable", engine: id, detail })
})

/** Has the worker recognize the canary, and resolves with its text. */
const recognizeCanary = (id: string, worker: RecognizerWorker, pcm: Int16Array) => {
  const { crashed } = faultsOf(id)
  return Effect.callback<string, EngineFault>((resume) => {
    let text = ""
    worker.onDeath((reason) => resume(Effect.fail(crashed(reason))))
    worker.listen((message) => {
      if (message._tag === "Final") text += ` ${message.text}`
      if (message._tag === "Done") resume(Effect.succeed(text.trim()))
    })
    worker.send({ _tag: "Open" })
    worker.send({ _tag: "Audio", pcm })
    worker.send({ _tag: "End" })
  }).pipe(
    Effect.timeoutOrElse({
      duration: canaryMs,
      orElse: () => Effect.fail(crashed("no answer to its canary"))
    })
  )
}

/** Starts a worker that runs and has understood its canary. */
export const recognizerWorker = ({
  id,
  name,
  data,
  canary
}: RecognizerWorkerOptions): Start<RecognizerWorker> =>
  Effect.gen(function* () {
    const { crashed, unavailable } = faultsOf(id)
    const worker = yield* Effect.acquireRelease(
      Effect.sync(() => startWorker<ToRecognizer, FromRecognizer>(name, data)),
      (started) => Effect.sync(() => started.kill())
    )
    yield* Effect.callback<void, EngineFault>((resume) => {
      worker.onDeath((reason) => resume(Effect.fail(crashed(reason))))
      worker.listen((message) => {
        if (message._tag === "Ready") resume(Effect.void)
        if (message._tag === "NotReady") resume(Effect.fail(unavailable(message.reason)))
      })
    }).pipe(
      Effect.timeoutOrElse({
        duration: workerStartMs,
        orElse: () => Effect.fail(crashed("did not start in time"))
      })
    )
    if (canary !== undefined) {
      const { pcm, word } = canary()
      const text = yield* recognizeCanary(id, worker, pcm)
      if (!text.includes(word)) return yield* Effect.fail(unavailable("it does not understand its canary"))
    }
    return {
      handle: worker,
      death: Effect.callback<never, EngineFault>((resume) =>
        worker.onDeath((reason) => resume(Effect.fail(crashed(reason))))
      )
    }
  })

/** A worker, and whether a recognition has it. */
export interface Slot {
  readonly engine: Supervised<RecognizerWorker>
  busy: boolean
}

/** How a decoder's bare words are written for a reader. */
export interface Wording {
  readonly phrase: (words: string) => string
  readonly sentence: (words: string) => string
}

export interface RecognizeOnOptions {
  readonly id: string
  readonly slots: ReadonlyArray<Slot>
  readonly language: Language
  readonly wording: Wording
  readonly onMissing: (reason: string) => void
}

type Output =
  | { readonly _tag: "Event"; readonly event: RecognitionEvent }
  | { readonly _tag: "Fault"; readonly fault: EngineFault }

/** One recognition under way on a worker. */
class Recognition {
  private readonly output = new LanePipe<Output>(eventsMax)
  private queuedSamples = 0
  private ended = false

  /** Wakes the caller that waits for the worker's queue. */
  private onConsumed: (() => void) | undefined

  private readonly options: RecognizeOnOptions
  private readonly worker: RecognizerWorker

  constructor(options: RecognizeOnOptions, worker: RecognizerWorker) {
    this.options = options
    this.worker = worker
    worker.onDeath((reason) => this.onDeath(reason))
    worker.listen((message) => this.onMessage(message))
    worker.send({ _tag: "Open" })
  }

  private onDeath(detail: string): void {
    if (this.ended) return
    this.ended = true
    const fault = new EngineFault({ reason: "crashed", engine: this.options.id, detail })
    this.output.offer({ _tag: "Fault", fault })
    this.output.end()
    this.onConsumed?.()
  }

  private offer(event: RecognitionEvent): void {
    this.output.offer({ _tag: "Event", event })
  }

  private onMessage(message: FromRecognizer): void {
    const { wording, language } = this.options
    switch (message._tag) {
      case "Consumed":
        this.queuedSamples -= message.samples
        this.onConsumed?.()
        return
      case "Partial": {
        const { text, startMs, endMs } = message
        return this.offer({ _tag: "partial", text: wording.phrase(text), startMs, endMs, language })
      }
      case "Final": {
        const { text, startMs, endMs } = message
        return this.offer({ _tag: "final", text: wording.sentence(text), startMs, endMs, language })
      }
      case "Silence":
        return this.offer({ _tag: "silence", untilMs: message.untilMs })
      case "Done":
        this.ended = true
        this.output.end()
    }
  }

  private hasRoom(): boolean {
    return this.queuedSamples <= queuedSamplesMax || this.ended
  }

  /** Waits until the worker's queue has room. */
  private readonly room = Effect.callback<void>((resume) => {
    if (this.hasRoom()) return resume(Effect.void)
    this.onConsumed = () => {
      if (!this.hasRoom()) return
      this.onConsumed = undefined
      resume(Effect.void)
    }
  })

  private send(pcm: Pcm): void {
    if (this.ended || pcm.length === 0) return
    this.queuedSamples += pcm.length
    this.worker.send({ _tag: "Audio", pcm })
  }

  /** Hands the sound to the worker, as fast as it takes it. */
  feed(audio: Stream.Stream<Pcm>): Effect.Effect<void> {
    return Stream.runForEach(audio, (pcm) =>
      Effect.andThen(
        this.room,
        Effect.sync(() => this.send(pcm))
      )
    ).pipe(
      Effect.andThen(
        Effect.sync(() => {
          if (!this.ended) this.worker.send({ _tag: "End" })
        })
      )
    )
  }

  get events(): Stream.Stream<RecognitionEvent, EngineFault> {
    return Stream.flatMap(this.output.stream, (output) =>
      output._tag === "Event" ? Stream.succeed(output.event) : Stream.fail(output.fault)
    )
  }

  close(): void {
    if (!this.ended && !this.worker.dead) this.worker.send({ _tag: "Abandon" })
    this.ended = true
    this.worker.listen(undefined)
  }
}

/** Makes a recognizer's `recognize` of slots: each recognition has a slot for itself until it ends. */
export const recognizeOn = (options: RecognizeOnOptions): Recognizer["recognize"] => {
  const { id, slots, onMissing } = options
  const take = Effect.suspend(() => {
    const free = slots.filter(({ busy }) => !busy)
    // A slot that is up already recognizes at once; another has to start first.
    const slot = free.find(({ engine }) => engine.readiness().ready) ?? free[0]
    if (slot === undefined)
      return Effect.fail(
        new EngineFault({
          reason: "overloaded",
          engine: id,
          detail: `${slots.length} hearings are under way`
        })
      )
    slot.busy = true
    return Effect.succeed(slot)
  })
  const release = (slot: Slot) =>
    Effect.sync(() => {
      slot.busy = false
    })
  const liveWorker = ({ engine }: Slot) =>
    engine
      .use(
        (worker) =>
          worker.dead
            ? Effect.fail(faultsOf(id).crashed("its worker has just died"))
            : Effect.succeed(worker),
        workerStartMs
      )
      .pipe(
        Effect.tapError((fault) =>
          Effect.sync(() => {
            if (fault.reason === "unavailable") onMissing(fault.detail)
          })
        )
      )
  return (audio) =>
    Stream.unwrap(
      Effect.gen(function* () {
        const slot = yield* Effect.acquireRelease(take, release)
        const worker = yield* liveWorker(slot)
        const recognition = new Recognition(options, worker)
        yield* Effect.addFinalizer(() => Effect.sync(() => recognition.close()))
        yield* Effect.forkScoped(recognition.feed(audio))
        return recognition.events
      })
    )
}
