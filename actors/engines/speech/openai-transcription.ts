/** An OpenAI-compatible transcription service as recognizer: whole utterances go as WAV. It is guaranteed
 *  that the open one goes again at most every two seconds, for partials. Source: docs/spec/engines.md,
 *  section 4.4. */
import { Effect, Stream } from "effect"
import type { EngineFault, RecognitionEvent, Recognizer } from "../ports.ts"
import { callUpstream, type OpenAiService } from "../upstream-call.ts"
import { places, type PoolClock } from "../pool.ts"
import { RecognizerPools } from "./recognizer-pools.ts"
import { UtteranceSegmenter, type Utterance } from "./utterance-segmenter.ts"

const id = "openai-transcription"

const languages =
  "ar bg bn cs da de el en es et fi fr he hi hr hu id it ja ko lt lv ms nb nl pl pt ro ru sk sl sv ta th tl tr uk vi zh".split(
    " "
  )

const recognitionsMax = 64
const jobsMax = 8
const partialEveryMs = 2_000

/** Writes 16 kHz mono sound as a WAV file. */
export const wavOf = (pcm: Int16Array): Uint8Array<ArrayBuffer> => {
  const wav = Buffer.alloc(44 + pcm.byteLength)
  wav.write("RIFF")
  wav.writeUInt32LE(36 + pcm.byteLength, 4)
  wav.write("WAVEfmt ", 8)
  wav.writeUInt32LE(16, 16)
  wav.writeUInt16LE(1, 20)
  wav.writeUInt16LE(1, 22)
  wav.writeUInt32LE(16_000, 24)
  wav.writeUInt32LE(32_000, 28)
  wav.writeUInt16LE(2, 32)
  wav.writeUInt16LE(16, 34)
  wav.write("data", 36)
  wav.writeUInt32LE(pcm.byteLength, 40)
  new Uint8Array(wav.buffer, wav.byteOffset + 44, pcm.byteLength).set(
    new Uint8Array(pcm.buffer, pcm.byteOffset, pcm.byteLength)
  )
  return new Uint8Array(wav)
}

type Transcribe = (pcm: Int16Array) => Effect.Effect<string, EngineFault>

/** One recognition under way: it cuts the sound, and has each utterance transcribed. */
class Recognition {
  private readonly utterances = new UtteranceSegmenter()

  /** How much sound has come, and had come at the last partial or final. */
  private positionMs = 0
  private reportedMs = 0

  private readonly transcribe: Transcribe
  private readonly language: string

  constructor(transcribe: Transcribe, language: string) {
    this.transcribe = transcribe
    this.language = language
  }

  /** Transcribes one utterance; silence has no event. */
  private report(
    tag: "partial" | "final",
    { pcm, startMs, endMs }: Utterance
  ): Stream.Stream<RecognitionEvent, EngineFault> {
    return Stream.flatMap(Stream.fromEffect(this.transcribe(pcm)), (text) => {
      if (text === "") return Stream.empty
      return Stream.succeed({
        _tag: tag,
        text,
        startMs: Math.round(startMs),
        endMs: Math.round(endMs),
        language: this.language
      })
    })
  }

  private reportFinals(utterances: ReadonlyArray<Utterance>): Stream.Stream<RecognitionEvent, EngineFault> {
    return Stream.flatMap(Stream.fromIterable(utterances), (utterance) => this.report("final", utterance))
  }

  push(pcm: Int16Array): Stream.Stream<RecognitionEvent, EngineFault> {
    this.positionMs += pcm.length / 16
    const ended = this.utterances.push(pcm)
    const { open } = this.utterances
    if (ended.length > 0) {
      this.reportedMs = this.positionMs
      return this.reportFinals(ended)
    }
    if (open === undefined || this.positionMs - this.reportedMs < partialEveryMs) return Stream.empty
    this.reportedMs = this.positionMs
    return this.report("partial", open)
  }

  end(): Stream.Stream<RecognitionEvent, EngineFault> {
    return this.reportFinals(this.utterances.end())
  }
}

export const openaiTranscription = ({ url, key, model }: OpenAiService, clock: PoolClock): Recognizer => {
  const pools = new RecognizerPools({ id, live: places(recognitionsMax), jobs: places(jobsMax), clock })
  const transcribe = (
    pcm: Int16Array,
    language: string | undefined,
    hints: ReadonlyArray<string>
  ): Effect.Effect<string, EngineFault> =>
    Effect.suspend(() => {
      const body = new FormData()
      body.set("file", new Blob([wavOf(pcm)], { type: "audio/wav" }), "speech.wav")
      body.set("model", model)
      if (language !== undefined) body.set("language", language)
      if (hints.length > 0) body.set("prompt", hints.join(", "))
      return Effect.map(
        callUpstream({
          engine: id,
          url: `${url.replace(/\/+$/, "")}/audio/transcriptions`,
          headers: { Authorization: `Bearer ${key}` },
          body
        }),
        (answer) => String((answer as { readonly text?: unknown }).text ?? "").trim()
      )
    })
  return {
    info: { id, version: model, tier: "remote", licence: "service" },
    readiness: () => ({ ready: true }),
    languages: () => languages,
    detects: true,
    takesHints: true,
    capacity: pools.capacity,
    places: pools,
    recognize: (audio, { language, hints = [], lease }) =>
      pools.recognizeWith(lease, () => {
        const recognition = new Recognition((pcm) => transcribe(pcm, language, hints), language ?? "en")
        return Stream.concat(
          Stream.flatMap(audio, (pcm) => recognition.push(pcm)),
          Stream.suspend(() => recognition.end())
        )
      })
  }
}
