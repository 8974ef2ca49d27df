/** An OpenAI-compatible transcription service as recognizer: whole utterances go as WAV. It is guaranteed
 *  that the open one goes again at most every two seconds, for partials. Source: docs/spec/engines.md,
 *  section 4.4. */
import { Effect, Stream } from "effect"
import type { EngineFault, RecognitionEvent, Recognizer } from "../ports.ts"
import { callUpstream, type OpenAiService } from "../upstream-call.ts"
import { UtteranceSegmenter, type Utterance } from "./utterance-segmenter.ts"

const id = "openai-transcription"

const languages =
  "ar bg bn cs da de el en es et fi fr he hi hr hu id it ja ko lt lv ms nb nl pl pt ro ru sk sl sv ta th tl tr uk vi zh".split(
    " "
  )

const recognitionsMax = 64
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

export const openaiTranscription = ({ url, key, model }: OpenAiService): Recognizer => {
  let used = 0
  const ask = (
    { pcm }: Utterance,
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
    capacity: () => ({ used, max: recognitionsMax }),
    recognize: (audio, { language, hints = [] }) =>
      Stream.unwrap(
        Effect.gen(function* () {
          yield* Effect.acquireRelease(
            Effect.sync(() => {
              used++
            }),
            () =>
              Effect.sync(() => {
                used--
              })
          )
          const utterances = new UtteranceSegmenter()
          let partialMs = 0
          let positionMs = 0
          const eventsOf = (tag: "partial" | "final") => (piece: Utterance) =>
            Effect.map(ask(piece, language, hints), (text): ReadonlyArray<RecognitionEvent> =>
              text === ""
                ? []
                : [
                    {
                      _tag: tag,
                      text,
                      startMs: Math.round(piece.startMs),
                      endMs: Math.round(piece.endMs),
                      language: language ?? "en"
                    }
                  ]
            )
          const finals = (pieces: ReadonlyArray<Utterance>) =>
            Stream.flatMap(Stream.fromIterable(pieces), (piece) =>
              Stream.flatMap(Stream.fromEffect(eventsOf("final")(piece)), (events) =>
                Stream.fromIterable(events)
              )
            )
          const step = (pcm: Int16Array): Stream.Stream<RecognitionEvent, EngineFault> => {
            positionMs += pcm.length / 16
            const done = utterances.push(pcm)
            const open = utterances.open
            if (done.length > 0) {
              partialMs = positionMs
              return finals(done)
            }
            if (open === undefined || positionMs - partialMs < partialEveryMs) return Stream.empty
            partialMs = positionMs
            return Stream.flatMap(Stream.fromEffect(eventsOf("partial")(open)), (events) =>
              Stream.fromIterable(events)
            )
          }
          return Stream.concat(
            Stream.flatMap(audio, step),
            Stream.suspend(() => finals(utterances.end()))
          )
        })
      )
  }
}
