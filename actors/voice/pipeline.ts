/** The work of a live voice session: audio → decoder → recognizer → translators → speech. It tells its actor
 *  what is concluded, in order, and goes on when that is durable; what is tentative goes straight to the lane
 *  out. An engine's crash is survived once: the sound since the last final is kept and heard again. Plain
 *  arrays and batches of at least `updateMs` per wake-up: never work per chunk (bench/voice-chunk). */
import { Data, Effect, Schedule, Stream, type Context, type Scope } from "effect"
import { batches, LanePipe, type LaneIn, type LaneOut } from "../../runtime/lane.ts"
import { decoderFor, pcmFormatOf } from "../engines/speech/decoder.ts"
import { encoderFor, type MediaEncoder } from "../engines/speech/encoder.ts"
import {
  AudioFault,
  type AudioDecoder,
  type EngineFault,
  type Engines,
  type Formality,
  type RecognitionEvent,
  type Pcm,
  type TranslateRequest,
  type TranslateResult
} from "../engines/ports.ts"

/** Bytes as they came. */
export type AudioChunk = Uint8Array

interface Utterance {
  readonly text: string
  readonly startMs: number
  readonly endMs: number
  readonly language: string
}

interface To {
  readonly to: string
  readonly spoken: Utterance
}

export type VoiceFault = "audio-undecodable" | "too-fast" | "engine-unavailable"

export type SessionEvent =
  /** Replaces all tentative text of that transcript; `to`: "" is the source. */
  | { readonly is: "tentative"; readonly to: string; readonly spoken: Utterance | undefined }
  /** Something waits to be delivered: ask the actor. */
  | { readonly is: "concluded" }
  | {
      readonly is: "media"
      readonly language: string
      readonly packets: ReadonlyArray<Uint8Array>
      readonly headers: ReadonlyArray<Uint8Array>
      readonly durationMs: number
      readonly text: string
    }
  /** Sound decoded since this was last said, of types whose length only the decoder knows. */
  | { readonly is: "decoded"; readonly ms: number }
  | { readonly is: "finished" }
  | { readonly is: "fault"; readonly fault: VoiceFault }

export interface HearingState {
  readonly config: {
    readonly contentType: string
    readonly sourceLanguage: string | null
    readonly fixed: boolean
    readonly targets: ReadonlyArray<string>
    readonly mediaTargets: ReadonlyArray<string>
    readonly mediaType: string
    readonly voice: "male" | "female" | null
    readonly formality: Formality
  }
  readonly audioMs: number
  readonly segments: number
  readonly untranslated: ReadonlyArray<Utterance>
  readonly sourceEnded: boolean
  readonly finished: boolean
}

/** Glossary and spoken terms of a session, where the service has them. */
export interface HearingEngines extends Engines {
  readonly aids?: {
    readonly translate: (named: any, request: TranslateRequest) => Effect.Effect<TranslateResult, EngineFault>
    readonly hints: (named: any, language: string | undefined) => ReadonlyArray<string>
  }
}

type PipelineCommand =
  | { readonly _tag: "Conclude"; readonly spoken: Utterance }
  | { readonly _tag: "Translate"; readonly said: ReadonlyArray<To> }
  | { readonly _tag: "Finish" }
  | { readonly _tag: "End" }

/** What is said before the call is told, and after it is durable. */
interface Step {
  readonly before?: SessionEvent
  readonly call: PipelineCommand
  readonly after?: SessionEvent
}

interface Self {
  readonly lanes: { readonly audio: LaneOut<AudioChunk>; readonly said: LaneIn<SessionEvent> }
}

/** What the recognizer is woken for, in the weight of the audio lane (ms). */
export const updateMs = 200

const tentativeEveryMs = 300

/** Sound kept for hearing again after a crash. */
const keptMsMax = 30_000

const hearingsMax = 2
const samplesPerMs = 16

class Failed extends Data.TaggedError("Failed")<{ readonly fault: VoiceFault }> {}
const base = (language: string): string => language.split("-", 1)[0]!.toLowerCase()

/** Written without blanks between sentences. */
const unspaced = new Set(["ja", "zh", "th"])

const joined = (text: string, language: string, first: boolean): string =>
  first || unspaced.has(base(language)) ? text : ` ${text}`

export const hearing = <R>(
  state: HearingState,
  { lanes }: Self,
  service: Context.Service<R, HearingEngines>
): Stream.Stream<any, never, R> =>
  Stream.unwrap(
    Effect.map(service, (engines) => {
      const steps = new LanePipe<Step>(64)
      const session = new VoicePipeline(state, lanes, engines as HearingEngines, steps)
      const say = (said: SessionEvent | undefined) =>
        Stream.fromEffectDrain(said === undefined ? Effect.void : lanes.said.put(said))
      // The kernel asks for the next element when this one is durable.
      const told = Stream.flatMap(steps.stream, ({ before, call, after }) =>
        Stream.concat(say(before), Stream.concat(Stream.succeed(call), say(after)))
      )
      return Stream.unwrap(Effect.as(Effect.forkScoped(session.run), told))
    })
  )

class VoicePipeline {
  private readonly state: HearingState
  private readonly lanes: Self["lanes"]
  private readonly engines: HearingEngines
  private readonly steps: LanePipe<Step>
  private segments: number

  /** Source position where the present hearing began, and sound since its last final. */
  private startMs: number

  private kept: Array<Pcm> = []
  private keptSamples = 0
  private unmeteredSamples = 0
  private decoder: AudioDecoder | undefined
  private readonly encoders = new Map<string, MediaEncoder>()
  private latest: { readonly spoken: Utterance; readonly turn: number } | undefined
  private turn = 0
  private audioFault: Failed | undefined

  constructor(state: HearingState, lanes: Self["lanes"], engines: HearingEngines, steps: LanePipe<Step>) {
    this.state = state
    this.lanes = lanes
    this.engines = engines
    this.steps = steps
    this.segments = state.segments
    this.startMs = state.audioMs
  }

  get run(): Effect.Effect<void, never, Scope.Scope> {
    const work = Effect.gen({ self: this }, function* () {
      yield* Effect.forEach(this.state.untranslated, (spoken) => this.translate(spoken, true), {
        discard: true
      })
      if (!this.state.finished) {
        if (this.state.config.targets.length > 0) yield* Effect.forkScoped(this.tentatives)
        yield* this.hear(1)
        yield* this.steps.put({ call: { _tag: "Finish" }, after: { is: "finished" } })
      } else yield* this.lanes.said.put({ is: "finished" })
    })
    return Effect.catch(work, ({ fault }: Failed) =>
      this.steps.put({ before: { is: "fault", fault }, call: { _tag: "End" } })
    ).pipe(
      Effect.ensuring(
        Effect.sync(() => {
          this.decoder?.close()
          for (const encoder of this.encoders.values()) encoder.close()
        })
      )
    )
  }

  /** Sound from the lane, as batches of PCM; ends with the source, or where it cannot be decoded. */
  private get audio(): Stream.Stream<Pcm> {
    const { contentType } = this.state.config
    const decoder = (this.decoder ??= decoderFor(contentType)!())
    const undecodable = (): Failed => new Failed({ fault: "audio-undecodable" })
    const decoded = (
      batch: ReadonlyArray<AudioChunk> | undefined
    ): ReadonlyArray<Pcm> | Effect.Effect<ReadonlyArray<Pcm>, Failed> | Failed => {
      try {
        const plain =
          batch === undefined
            ? decoder.flush()
            : batch.length === 1
              ? decoder.push(batch[0]!)
              : decoder.push(Buffer.concat(batch))
        return plain instanceof Promise ? Effect.tryPromise({ try: () => plain, catch: undecodable }) : plain
      } catch (cause) {
        if (cause instanceof AudioFault) return undecodable()
        throw cause
      }
    }
    let over = false
    const kept = (parts: ReadonlyArray<Pcm>): ReadonlyArray<Pcm> => {
      for (const pcm of parts) if (pcm.length > 0) this.keep(pcm)
      return parts
    }
    const failed = (fault: Failed): Effect.Effect<undefined> => {
      this.audioFault = fault
      return Effect.succeed(undefined)
    }
    return batches(
      Effect.suspend((): Effect.Effect<ReadonlyArray<Pcm> | undefined> => {
        if (over) return Effect.succeed(undefined)
        const taking =
          this.state.sourceEnded && this.lanes.audio.depth === 0
            ? Effect.succeed(undefined)
            : this.lanes.audio.take(updateMs)
        return Effect.flatMap(taking, (batch) => {
          over = batch === undefined
          const made = decoded(batch)
          return made instanceof Failed
            ? failed(made)
            : Effect.isEffect(made)
              ? Effect.catch(Effect.map(made, kept), failed)
              : Effect.succeed(kept(made))
        })
      })
    )
  }

  private keep(pcm: Pcm): void {
    this.kept.push(pcm)
    this.keptSamples += pcm.length
    this.unmeteredSamples += pcm.length
    while (this.keptSamples > keptMsMax * samplesPerMs && this.kept.length > 1)
      this.forget(this.kept[0]!.length)
    if (
      pcmFormatOf(this.state.config.contentType) === undefined &&
      this.lanes.said.offer({ is: "decoded", ms: this.unmeteredSamples / samplesPerMs })
    )
      this.unmeteredSamples = 0
  }

  /** The oldest `samples` of the kept sound are over. */
  private forget(samples: number): void {
    let left = Math.min(samples, this.keptSamples)
    this.startMs += left / samplesPerMs
    this.keptSamples -= left
    while (left > 0) {
      const first = this.kept[0]!
      if (first.length <= left) {
        this.kept.shift()
        left -= first.length
      } else {
        this.kept[0] = first.subarray(left)
        left = 0
      }
    }
  }

  /** Hears to the end of the source; a crash is survived by hearing the kept sound again. */
  private hear(attempt: number): Effect.Effect<void, Failed, Scope.Scope> {
    const { sourceLanguage } = this.state.config
    const again = [...this.kept]
    const from = this.startMs
    const sound = again.length === 0 ? this.audio : Stream.concat(Stream.fromIterable(again), this.audio)
    return Effect.gen({ self: this }, function* () {
      // No recognizer is held before there is something to hear.
      if (again.length === 0 && !this.state.sourceEnded) yield* this.firstSound
      let heard = attempt
      yield* Stream.runForEachArray(
        this.engines.recognizer.recognize(sound, {
          language: sourceLanguage === null ? undefined : base(sourceLanguage),
          hints: this.engines.aids?.hints(this.state.config, sourceLanguage ?? undefined) ?? []
        }),
        (items) => {
          if (items.some(({ type }) => type === "final")) heard = 1
          return this.notes(items, 0, from)
        }
      ).pipe(
        Effect.catch((fault: EngineFault | Failed) => {
          if (fault instanceof Failed) return Effect.fail(fault)
          return fault.reason === "crashed" && heard < hearingsMax
            ? Effect.suspend(() => this.hear(heard + 1))
            : Effect.fail(new Failed({ fault: "engine-unavailable" }))
        })
      )
      if (this.audioFault !== undefined) return yield* Effect.fail(this.audioFault)
    })
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

  /** In order; only a final has to wait for anything. */
  private notes(
    items: ReadonlyArray<RecognitionEvent>,
    at: number,
    fromMs: number
  ): Effect.Effect<void, Failed> {
    for (let i = at; i < items.length; i++) {
      const waits = this.note(items[i]!, fromMs)
      if (waits !== undefined) return Effect.flatMap(waits, () => this.notes(items, i + 1, fromMs))
    }
    return Effect.void
  }

  private note(heard: RecognitionEvent, fromMs: number): Effect.Effect<void, Failed> | undefined {
    if (heard.type === "silence") {
      // Sound that will not be part of any text need not be heard again.
      const samples = Math.floor((fromMs + heard.untilMs - this.startMs) * samplesPerMs)
      if (samples > 0) this.forget(Math.min(samples, this.keptSamples))
      return undefined
    }
    const language = this.state.config.fixed ? this.state.config.sourceLanguage! : heard.language
    const spoken: Utterance = {
      text: joined(heard.text, language, this.segments === 0),
      startMs: Math.round(fromMs + heard.startMs),
      endMs: Math.round(fromMs + heard.endMs),
      language
    }
    if (heard.type === "partial") {
      this.latest = { spoken, turn: ++this.turn }
      this.lanes.said.offer({ is: "tentative", to: "", spoken })
      return undefined
    }
    if (heard.text === "") return undefined
    this.turn++
    this.latest = undefined
    this.segments++
    const samples = Math.floor((spoken.endMs - this.startMs) * samplesPerMs)
    if (samples > 0) this.forget(Math.min(samples, this.keptSamples))
    return Effect.andThen(
      this.tell({ _tag: "Conclude", spoken }),
      this.state.config.targets.length === 0 ? Effect.void : this.translate(spoken, this.segments === 1)
    )
  }

  private tell(call: PipelineCommand): Effect.Effect<void> {
    return this.steps.put({ call, after: { is: "concluded" } })
  }

  private translated(spoken: Utterance, target: string, first: boolean): Effect.Effect<Utterance, Failed> {
    const source = base(spoken.language)
    if (source === base(target)) return Effect.succeed({ ...spoken, language: target })
    const { formality } = this.state.config
    const { aids, translator } = this.engines
    const translate =
      aids === undefined
        ? translator.translate
        : (request: TranslateRequest) => aids.translate(this.state.config, request)
    const once = translate({
      source,
      target: target.toLowerCase(),
      segments: [{ units: [{ kind: "text", text: spoken.text.trim() }] }],
      formality: translator.formality(target.toLowerCase()) ? formality : "default"
    })
    return Effect.retry(once, { times: 1, schedule: Schedule.spaced("100 millis") }).pipe(
      Effect.map(({ segments }) => ({
        ...spoken,
        language: target,
        text: joined(
          segments[0]!.units.map((unit) => (unit.kind === "text" ? unit.text : "")).join(""),
          target,
          first
        )
      })),
      Effect.catch(() => Effect.fail(new Failed({ fault: "engine-unavailable" })))
    )
  }

  private translate(spoken: Utterance, first: boolean): Effect.Effect<void, Failed> {
    const { targets, mediaTargets } = this.state.config
    return Effect.gen({ self: this }, function* () {
      const said = yield* Effect.forEach(
        targets,
        (target) =>
          Effect.map(this.translated(spoken, target, first), (text) => ({ to: target, spoken: text })),
        { concurrency: "unbounded" }
      )
      yield* this.tell({ _tag: "Translate", said })
      for (const { to, spoken: text } of said) if (mediaTargets.includes(to)) yield* this.speak(to, text.text)
    })
  }

  private speak(language: string, text: string): Effect.Effect<void, Failed> {
    const { mediaType, voice } = this.state.config
    return this.engines.synthesizer
      .speak(text.trim(), { language: base(language), ...(voice === null ? {} : { voice }) })
      .pipe(
        Effect.flatMap(({ pcm, rate }) =>
          Effect.promise(async () => {
            let encoder = this.encoders.get(language)
            if (encoder === undefined) this.encoders.set(language, (encoder = encoderFor(mediaType)!()))
            return { ...(await encoder.encode(pcm, rate)), headers: encoder.headers }
          })
        ),
        Effect.flatMap(({ packets, headers, durationMs }) =>
          this.lanes.said.put({ is: "media", language, packets, headers, durationMs, text })
        ),
        Effect.catch(() => Effect.fail(new Failed({ fault: "engine-unavailable" })))
      )
  }

  /** Tentative target text, at most one round per `tentativeEveryMs`, of the newest partial; stale ones are
   *  dropped. A failure here is no failure of the session: the concluded text will tell. */
  private get tentatives(): Effect.Effect<void> {
    let done: { readonly turn: number } | undefined
    const round = Effect.suspend(() => {
      const newest = this.latest
      if (newest === undefined || newest === done) return Effect.void
      done = newest
      const first = this.segments === 0
      return Effect.forEach(
        this.state.config.targets,
        (target) =>
          Effect.map(this.translated(newest.spoken, target, first), (spoken) => {
            if (this.turn === newest.turn || this.latest !== undefined)
              this.lanes.said.offer({ is: "tentative", to: target, spoken })
          }),
        { concurrency: "unbounded", discard: true }
      ).pipe(Effect.ignore)
    })
    return Effect.repeat(round, Schedule.spaced(tentativeEveryMs)).pipe(Effect.asVoid)
  }
}
