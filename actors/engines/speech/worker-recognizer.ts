/** Recognizers that own a worker per live recognition (pocketsphinx, sherpa): the worker's protocol,
 *  its slots, and one recognition from the first sample to the last final. It is guaranteed that a worker has
 *  about three seconds of sound waiting at most, and that a slot is free again when its stream ends.
 *  Source: docs/spec/engines.md, sections 4.1 and 4.3. */
import { Effect, Stream } from "effect"
import { LanePipe } from "../../../runtime/lane.ts"
import { supervise, type EngineStartMap, type Start, type Supervised } from "../engine-process.ts"
import type { ActorSystem } from "../../../runtime/registry.ts"
import { EngineFault, type Language, type Pcm, type RecognitionEvent, type Recognizer } from "../ports.ts"
import { startWorker, type EngineWorker } from "../worker.ts"
import { RecognizerPools } from "./recognizer-pools.ts"

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
  readonly canary?: (() => Canary) | undefined
  /** It gets the processor when nobody else wants it. */
  readonly background?: boolean
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
  canary,
  background = false
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
    // It starts as fast as the others: one that starts slowly looks like one that does not start.
    if (background) worker.stepBack()
    return {
      handle: worker,
      death: Effect.callback<never, EngineFault>((resume) =>
        worker.onDeath((reason) => resume(Effect.fail(crashed(reason))))
      )
    }
  })

/** A worker of its own for one recognition at a time. */
export type RecognizerSlot = Supervised<RecognizerWorker>

export interface RecognizerSlotsOptions extends Omit<RecognizerWorkerOptions, "background"> {
  readonly system: ActorSystem
  readonly starts: EngineStartMap
  /** What the actors of the slots are called. */
  readonly actorId: string
  readonly liveMax: number
}

export interface RecognizerSlots {
  readonly pools: RecognizerPools<RecognizerSlot>
  /** Why none of them recognizes, once one was given up and no other is up. */
  readonly lostReason: () => string | undefined
  readonly warm: () => void
}

/** The pools of a recognizer whose every place is a worker: those of live speech, and one for jobs, which works
 *  when the others leave the processor to it. */
export const recognizerSlots = ({
  system,
  starts,
  actorId,
  liveMax,
  ...options
}: RecognizerSlotsOptions): RecognizerSlots => {
  const slot = (part: string, background: boolean): RecognizerSlot =>
    supervise({
      system,
      starts,
      id: `${actorId}/${part}`,
      start: recognizerWorker({ ...options, background })
    })
  const live = Array.from({ length: liveMax }, (_, i) => slot(String(i), false))
  const pools = new RecognizerPools({
    id: options.id,
    live,
    jobs: [slot("jobs", true)],
    clock: system,
    // A worker that is up recognizes at once; another has to start first.
    prefer: (engine) => engine.readiness().ready,
    usable: (engine) => !engine.lost(),
    // It starts while its session is still being connected.
    onLend: (engine) => engine.start()
  })
  const lostReason = (): string | undefined => {
    const lost = live.find((engine) => engine.lost())?.readiness()
    if (lost === undefined || lost.ready || live.some((engine) => engine.readiness().ready)) return undefined
    return lost.reason
  }
  return { pools, lostReason, warm: () => live[0]?.start() }
}

/** How a decoder's bare words are written for a reader. */
export interface Wording {
  readonly phrase: (words: string) => string
  readonly sentence: (words: string) => string
}

export interface RecognizeOnOptions {
  readonly id: string
  readonly pools: RecognizerPools<RecognizerSlot>
  readonly language: Language
  readonly wording: Wording
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

/** Makes a recognizer's `recognize` of its pools: each recognition has a worker for itself until it ends. */
export const recognizeOn = (options: RecognizeOnOptions): Recognizer["recognize"] => {
  const { id, pools } = options
  const liveWorker = (slot: RecognizerSlot) =>
    slot.use(
      (worker) =>
        worker.dead ? Effect.fail(faultsOf(id).crashed("its worker has just died")) : Effect.succeed(worker),
      workerStartMs
    )
  return (audio, { lease }) =>
    pools.recognizeWith(lease, (slot) =>
      Stream.unwrap(
        Effect.gen(function* () {
          const recognition = new Recognition(options, yield* liveWorker(slot))
          yield* Effect.addFinalizer(() => Effect.sync(() => recognition.close()))
          yield* Effect.forkScoped(recognition.feed(audio))
          return recognition.events
        })
      )
    )
}
