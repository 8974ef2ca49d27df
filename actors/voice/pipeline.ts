/** The work of a live voice session: audio in, transcripts, translations and speech out. It tells its actor
 *  what is concluded, in order, and continues when that is durable; tentative text is sent directly to the
 *  lane out. One crash of the recognizer is survived: the sound since the last final is recognized again.
 *
 *      lane audio ─► decoder ─► replay buffer ─► recognizer
 *                                                  │
 *        partial ─────────────────────────────────┤─► lane events: Tentative   (source; then each target)
 *        final ───────────────────────────────────┘─► actor: Conclude          (journaled)
 *                                                        ├─► lane events: Concluded   the bell: no text in it
 *                     translators ─► actor: Translate ───┴─► lane events: Concluded   (journaled, bell)
 *                     synthesizer ─► encoder ──────────────► lane events: Media
 *
 *      At the bell the connection asks the actor to Deliver: the actor marks the text delivered (journaled)
 *      and answers it. So a text that a client has seen is durable.
 *
 *  It works in plain arrays and batches of at least `updateMs` per wake-up, never per chunk
 *  (bench/voice-chunk).
 *  Source: docs/spec/translation.md, section 12. */
import { Data, Effect, Schedule, Stream, type Scope } from "effect"
import { batches, LanePipe, type LaneIn, type LaneOut } from "../../runtime/lane.ts"
import { decoderFor, pcmFormatOf } from "../engines/speech/decoder.ts"
import { encoderFor, type MediaEncoder } from "../engines/speech/encoder.ts"
import {
  AudioFault,
  type AudioDecoder,
  type EngineFault,
  type Pcm,
  type RecognitionEvent,
  type RecognizerClaim,
  type RecognizerLease,
  type TranslateRequest
} from "../engines/ports.ts"
import { ReplayBuffer, samplesPerMs } from "./replay-buffer.ts"
import {
  VoiceEngines,
  type AudioChunk,
  type SessionEngines,
  type SessionEvent,
  type Undelivered,
  type Utterance,
  type VoiceConfig,
  type VoiceFault
} from "./session-types.ts"

/** The part of the session's state that its work depends on. */
export interface PipelineState {
  readonly config: VoiceConfig
  readonly audioMs: number
  readonly segments: number
  readonly untranslated: ReadonlyArray<Utterance>
  readonly sourceEnded: boolean
  readonly finished: boolean
}

export type PipelineCommand =
  | { readonly _tag: "Conclude"; readonly utterance: Utterance }
  | { readonly _tag: "Translate"; readonly translated: ReadonlyArray<Undelivered> }
  | { readonly _tag: "Finish" }
  | { readonly _tag: "End" }

/** One command to the actor. The events of `before` are sent ahead of it, those of `after` when it is
 *  durable. */
interface Step {
  readonly before?: SessionEvent
  readonly command: PipelineCommand
  readonly after?: SessionEvent
}

interface PipelineLanes {
  readonly audio: LaneOut<AudioChunk>
  readonly events: LaneIn<SessionEvent>
}

interface PipelineParts {
  readonly sessionId: string
  readonly state: PipelineState
  readonly lanes: PipelineLanes
  readonly engines: SessionEngines
  readonly steps: LanePipe<Step>
}

/** The least audio that wakes a recognizer, in the weight of the audio lane (ms). */
export const updateMs = 200

const tentativeEveryMs = 300
/** How long a session keeps its recognizer without a connection. */
export const leaseMs = 15_000

const recognitionAttemptsMax = 2
const stepsMax = 64

/** The session cannot continue. */
class SessionFailure extends Data.TaggedError("SessionFailure")<{
  readonly fault: VoiceFault
  readonly cause?: unknown
}> {}

const engineFailure = (cause: EngineFault | string): SessionFailure =>
  new SessionFailure({ fault: "engine", cause })
const baseLanguage = (language: string): string => language.split("-", 1)[0]!.toLowerCase()

/** Languages written without blanks between sentences. */
const unspaced = new Set(["ja", "zh", "th"])

/** Returns a segment's text; each but the first begins with the blank that separates it from the text
 *  before. */
const segmentText = (text: string, language: string, first: boolean): string =>
  first || unspaced.has(baseLanguage(language)) ? text : ` ${text}`

export const voicePipeline = (
  state: PipelineState,
  { id: sessionId, lanes }: { readonly id: string; readonly lanes: PipelineLanes }
): Stream.Stream<PipelineCommand, never, VoiceEngines> =>
  Stream.unwrap(
    Effect.map(VoiceEngines, (engines) => {
      const steps = new LanePipe<Step>(stepsMax)
      const pipeline = new VoicePipeline({ sessionId, state, lanes, engines, steps })
      const emit = (event: SessionEvent | undefined) =>
        Stream.fromEffectDrain(event === undefined ? Effect.void : lanes.events.put(event))
      // The kernel pulls the next element when this one is durable.
      const commands = Stream.flatMap(steps.stream, ({ before, command, after }) =>
        Stream.concat(emit(before), Stream.concat(Stream.succeed(command), emit(after)))
      )
      return Stream.unwrap(Effect.as(Effect.forkScoped(pipeline.run), commands))
    })
  )

/** The claim of a live session to a recognizer. */
export const liveClaim = (
  sessionId: string,
  { accountId, sourceLanguage }: Pick<VoiceConfig, "accountId" | "sourceLanguage">
): RecognizerClaim => ({
  use: "live",
  account: accountId,
  owner: sessionId,
  language: sourceLanguage === null ? undefined : baseLanguage(sourceLanguage)
})

/** How one recognition ended. "lost": its lease ended, because the client is away. */
type RecognitionEnd = "finished" | "crashed" | "lost"

class VoicePipeline {
  private readonly sessionId: string
  private readonly state: PipelineState
  private readonly lanes: PipelineLanes
  private readonly engines: SessionEngines
  private readonly steps: LanePipe<Step>
  private readonly unconcluded: ReplayBuffer
  private readonly encoders = new Map<string, MediaEncoder>()
  private segments: number
  private unreportedSamples = 0
  private decoder: AudioDecoder | undefined
  private audioFailure: SessionFailure | undefined

  /** The newest partial, until a final replaces it. Each partial has a revision of its own. */
  private partial: { readonly utterance: Utterance; readonly revision: number } | undefined

  private revision = 0

  constructor({ sessionId, state, lanes, engines, steps }: PipelineParts) {
    this.sessionId = sessionId
    this.state = state
    this.lanes = lanes
    this.engines = engines
    this.steps = steps
    this.segments = state.segments
    this.unconcluded = new ReplayBuffer(state.audioMs)
  }

  /** Translates what a crash left untranslated, then recognizes to the end of the source. */
  get run(): Effect.Effect<void, never, Scope.Scope> {
    const work = Effect.gen({ self: this }, function* () {
      yield* Effect.forEach(this.state.untranslated, (utterance) => this.translate(utterance, true), {
        discard: true
      })
      if (this.state.finished) return yield* this.lanes.events.put({ _tag: "Finished" })
      if (this.state.config.targets.length > 0) yield* Effect.forkScoped(this.tentativeTranslations)
      yield* this.recognize
      yield* this.steps.put({ command: { _tag: "Finish" }, after: { _tag: "Finished" } })
    })
    return Effect.catch(work, ({ fault, cause }: SessionFailure) =>
      this.steps.put({ before: { _tag: "Fault", fault, cause }, command: { _tag: "End" } })
    ).pipe(Effect.ensuring(Effect.sync(() => this.close())))
  }

  private close(): void {
    this.engines.recognizer.places.held(this.sessionId)?.release()
    this.decoder?.close()
    for (const encoder of this.encoders.values()) encoder.close()
  }

  /** Streams the lane's sound as batches of PCM; it ends with the source, or where the sound cannot be
   *  decoded. */
  private get audio(): Stream.Stream<Pcm> {
    let ended = false
    return batches(
      Effect.suspend(() => {
        if (ended) return Effect.succeed(undefined)
        return Effect.flatMap(this.nextChunks, (chunks) => {
          ended = chunks === undefined
          // Chunks that were taken are decoded, whatever ends the recognition meanwhile.
          return Effect.uninterruptible(this.decode(chunks))
        })
      })
    )
  }

  /** Takes the next chunks; undefined means that the source has ended. */
  private get nextChunks(): Effect.Effect<ReadonlyArray<AudioChunk> | undefined> {
    const { audio } = this.lanes
    return this.state.sourceEnded && audio.depth === 0 ? Effect.succeed(undefined) : audio.take(updateMs)
  }

  /** Decodes chunks; without chunks it flushes the decoder. A failure is recorded, and raised when the
   *  recognizer has answered everything before it. */
  private decode(
    chunks: ReadonlyArray<AudioChunk> | undefined
  ): Effect.Effect<ReadonlyArray<Pcm> | undefined> {
    let decoded: ReadonlyArray<Pcm> | Promise<ReadonlyArray<Pcm>>
    try {
      decoded = decodeWith((this.decoder ??= decoderFor(this.state.config.contentType)!()), chunks)
    } catch (cause) {
      if (cause instanceof AudioFault) return this.undecodable
      throw cause
    }
    if (!(decoded instanceof Promise)) return Effect.succeed(this.buffer(decoded))
    const pending = decoded
    return Effect.tryPromise(() => pending).pipe(
      Effect.map((parts) => this.buffer(parts)),
      Effect.catch(() => this.undecodable)
    )
  }

  private get undecodable(): Effect.Effect<undefined> {
    return Effect.sync(() => {
      this.audioFailure = new SessionFailure({ fault: "audio" })
      return undefined
    })
  }

  private buffer(parts: ReadonlyArray<Pcm>): ReadonlyArray<Pcm> {
    for (const pcm of parts)
      if (pcm.length > 0) {
        this.unconcluded.push(pcm)
        this.reportDecoded(pcm.length)
      }
    return parts
  }

  /** Reports decoded sound for metering. PCM is metered by its bytes when it arrives; the length of any other
   *  type is known only here. */
  private reportDecoded(samples: number): void {
    this.unreportedSamples += samples
    if (pcmFormatOf(this.state.config.contentType) !== undefined) return
    if (this.lanes.events.offer({ _tag: "Decoded", ms: this.unreportedSamples / samplesPerMs }))
      this.unreportedSamples = 0
  }

  /** Recognizes to the end of the source. After a crash, and when the recognizer was taken from an absent client
   *  that has returned, it begins again with the buffered sound. */
  private get recognize(): Effect.Effect<void, SessionFailure, Scope.Scope> {
    return Effect.gen({ self: this }, function* () {
      let attempts = 1
      for (let end: RecognitionEnd = "lost"; end !== "finished";) {
        // No recognizer is started, or taken from others, before there is sound to recognize.
        const replays = end === "crashed" || (end === "lost" && this.state.sourceEnded)
        if (!replays) yield* this.firstSound
        const lease = yield* this.lease
        end = yield* Effect.raceFirst(
          this.recognizeWith(lease, () => {
            attempts = 1
          }),
          Effect.as(lease.end, "lost" as const)
        )
        if (end === "crashed" && attempts++ >= recognitionAttemptsMax)
          return yield* Effect.fail(engineFailure("the recognizer crashed again and again"))
      }
      if (this.audioFailure !== undefined) return yield* Effect.fail(this.audioFailure)
    })
  }

  /** The session's recognizer. It has one since it was created, unless the client has been away; then it goes
   *  before those that are new. */
  private get lease(): Effect.Effect<RecognizerLease, SessionFailure> {
    const claim = { ...liveClaim(this.sessionId, this.state.config), urgent: true }
    return this.engines.recognizer.places.lease(claim).pipe(
      Effect.tap((lease) => Effect.sync(() => lease.renew(leaseMs))),
      Effect.mapError(engineFailure)
    )
  }

  private recognizeWith(
    lease: RecognizerLease,
    onFinal: () => void
  ): Effect.Effect<RecognitionEnd, SessionFailure, Scope.Scope> {
    const { sourceLanguage } = this.state.config
    const replayed = this.unconcluded.contents
    const fromMs = this.unconcluded.startMs
    const sound =
      replayed.length === 0 ? this.audio : Stream.concat(Stream.fromIterable(replayed), this.audio)
    return Stream.runForEachArray(
      this.engines.recognizer.recognize(sound, {
        language: sourceLanguage === null ? undefined : baseLanguage(sourceLanguage),
        hints: this.engines.customizations?.hints(this.state.config, sourceLanguage ?? undefined) ?? [],
        lease
      }),
      (events) => {
        if (events.some(({ _tag }) => _tag === "final")) onFinal()
        // What is concluded is also translated, even if the lease ends meanwhile.
        return Effect.uninterruptible(this.onRecognition(events, 0, fromMs))
      }
    ).pipe(
      Effect.as("finished" as const),
      Effect.catch((fault: EngineFault | SessionFailure): Effect.Effect<RecognitionEnd, SessionFailure> => {
        if (fault instanceof SessionFailure) return Effect.fail(fault)
        return fault.reason === "crashed" ? Effect.succeed("crashed") : Effect.fail(engineFailure(fault))
      })
    )
  }

  /** Waits until the lane holds an update or has ended; takes nothing. */
  private get firstSound(): Effect.Effect<void> {
    const { audio } = this.lanes
    return Effect.callback<void>((resume) => {
      if (audio.depth > 0 || audio.ended) return resume(Effect.void)
      audio.onReadable(() => {
        audio.onReadable(undefined)
        resume(Effect.void)
      })
      return Effect.sync(() => audio.onReadable(undefined))
    })
  }

  /** Handles events in their order, beginning at `index`; only a final has to wait for anything. */
  private onRecognition(
    events: ReadonlyArray<RecognitionEvent>,
    index: number,
    fromMs: number
  ): Effect.Effect<void, SessionFailure> {
    for (let i = index; i < events.length; i++) {
      const pending = this.onRecognitionEvent(events[i]!, fromMs)
      if (pending !== undefined)
        return Effect.flatMap(pending, () => this.onRecognition(events, i + 1, fromMs))
    }
    return Effect.void
  }

  private onRecognitionEvent(
    event: RecognitionEvent,
    fromMs: number
  ): Effect.Effect<void, SessionFailure> | undefined {
    if (event._tag === "silence") {
      // Sound that cannot become part of any text need not be recognized again.
      this.unconcluded.dropUntil(fromMs + event.untilMs)
      return undefined
    }
    const language = this.state.config.fixed ? this.state.config.sourceLanguage! : event.language
    const utterance: Utterance = {
      text: segmentText(event.text, language, this.segments === 0),
      startMs: Math.round(fromMs + event.startMs),
      endMs: Math.round(fromMs + event.endMs),
      language
    }
    if (event._tag === "partial") {
      this.partial = { utterance, revision: ++this.revision }
      this.lanes.events.offer({ _tag: "Tentative", transcript: "", utterance })
      return undefined
    }
    return event.text === "" ? undefined : this.conclude(utterance)
  }

  private conclude(utterance: Utterance): Effect.Effect<void, SessionFailure> {
    this.revision++
    this.partial = undefined
    this.segments++
    this.unconcluded.dropUntil(utterance.endMs)
    return Effect.andThen(
      this.tell({ _tag: "Conclude", utterance }),
      this.state.config.targets.length === 0 ? Effect.void : this.translate(utterance, this.segments === 1)
    )
  }

  private tell(command: PipelineCommand): Effect.Effect<void> {
    return this.steps.put({ command, after: { _tag: "Concluded" } })
  }

  private translate(utterance: Utterance, first: boolean): Effect.Effect<void, SessionFailure> {
    const { targets, mediaTargets } = this.state.config
    return Effect.gen({ self: this }, function* () {
      const translated = yield* Effect.forEach(
        targets,
        (target) =>
          Effect.map(this.translatedInto(utterance, target, first), (spoken) => ({ to: target, spoken })),
        { concurrency: "unbounded" }
      )
      yield* this.tell({ _tag: "Translate", translated })
      for (const { to, spoken } of translated)
        if (mediaTargets.includes(to)) yield* this.speak(to, spoken.text)
    })
  }

  private translatedInto(
    utterance: Utterance,
    target: string,
    first: boolean
  ): Effect.Effect<Utterance, SessionFailure> {
    const source = baseLanguage(utterance.language)
    if (source === baseLanguage(target)) return Effect.succeed({ ...utterance, language: target })
    const { formality } = this.state.config
    const { customizations, translator } = this.engines
    const translate =
      customizations === undefined
        ? translator.translate
        : (request: TranslateRequest) => customizations.translate(this.state.config, request)
    const once = translate({
      account: this.state.config.accountId,
      source,
      target: target.toLowerCase(),
      segments: [{ units: [{ _tag: "text", text: utterance.text.trim() }] }],
      formality: translator.formality(target.toLowerCase()) ? formality : "default"
    })
    return Effect.retry(once, { times: 1, schedule: Schedule.spaced("100 millis") }).pipe(
      Effect.map(({ segments }) => {
        const text = segments[0]!.units.map((unit) => (unit._tag === "text" ? unit.text : "")).join("")
        return { ...utterance, language: target, text: segmentText(text, target, first) }
      }),
      Effect.mapError(engineFailure)
    )
  }

  private speak(language: string, text: string): Effect.Effect<void, SessionFailure> {
    const { voice } = this.state.config
    return this.engines.synthesizer
      .speak(text.trim(), { language: baseLanguage(language), ...(voice === null ? {} : { voice }) })
      .pipe(
        Effect.flatMap(({ pcm, rate }) =>
          Effect.promise(async () => {
            const encoder = this.encoderOf(language)
            return { ...(await encoder.encode(pcm, rate)), headers: encoder.headers }
          })
        ),
        Effect.flatMap(({ packets, headers, durationMs }) =>
          this.lanes.events.put({ _tag: "Media", language, packets, headers, durationMs, text })
        ),
        Effect.mapError(engineFailure)
      )
  }

  /** Returns a language's encoder: each language has one stream of speech, so one encoder. */
  private encoderOf(language: string): MediaEncoder {
    const existing = this.encoders.get(language)
    if (existing !== undefined) return existing
    const created = encoderFor(this.state.config.mediaType)!()
    this.encoders.set(language, created)
    return created
  }

  /** Translates the newest partial, at most one round per `tentativeEveryMs`; outdated results are dropped. A
   *  failure here does not end the session, because the concluded text will reveal it. */
  private get tentativeTranslations(): Effect.Effect<void> {
    let translated: { readonly revision: number } | undefined
    const round = Effect.suspend(() => {
      const newest = this.partial
      if (newest === undefined || newest === translated) return Effect.void
      translated = newest
      const first = this.segments === 0
      return Effect.forEach(
        this.state.config.targets,
        (target) =>
          Effect.map(this.translatedInto(newest.utterance, target, first), (utterance) => {
            if (this.revision === newest.revision || this.partial !== undefined)
              this.lanes.events.offer({ _tag: "Tentative", transcript: target, utterance })
          }),
        { concurrency: "unbounded", discard: true }
      ).pipe(Effect.ignore)
    })
    return Effect.repeat(round, Schedule.spaced(tentativeEveryMs)).pipe(Effect.asVoid)
  }
}

/** Decodes the chunks of one wake-up as one. It throws AudioFault. */
const decodeWith = (
  decoder: AudioDecoder,
  chunks: ReadonlyArray<AudioChunk> | undefined
): ReadonlyArray<Pcm> | Promise<ReadonlyArray<Pcm>> => {
  if (chunks === undefined) return decoder.flush()
  return decoder.push(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks))
}
