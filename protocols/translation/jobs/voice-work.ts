/** The work of a voice job: decode, recognize, translate, and write one file per target. Guarantee: a target
 *  that fails does not fail the others.
 *  Source: docs/spec/translation.md, sections 13.1, 13.5. */
import { Effect } from "effect"
import { AudioFault, EngineFault, type Engines } from "../../../actors/engines/ports.ts"
import { encoderFor } from "../../../actors/engines/speech/encoder.ts"
import type { Job, Result, VoiceJobPort } from "../../../actors/voice-job.ts"
import { recognizeInTurns } from "../../../actors/voice/job-recognition.ts"
import type { Store } from "../../../storage/store.ts"
import type { KeyRing } from "../account/keys.ts"
import { pairFor, targetOf } from "../languages.ts"
import type { Usage } from "../account/usage.ts"
import { isRefusal } from "../problems.ts"
import { pcmOf, srtOf, textOf, type Line } from "./voice-file.ts"

const audioMsMax = 3 * 3_600_000
const samplesPerMs = 16
const linesPerCall = 20
const baseOf = (language: string): string => language.split("-")[0]!.toLowerCase()
const unspaced = new Set(["ja", "zh", "th"])
class AudioTooLong extends Error {}

interface FailureMessage {
  readonly message: string
}

export interface VoiceWorkDeps {
  readonly store: Store
  readonly engines: Engines
  readonly ring: KeyRing
  readonly usage: Usage
  readonly clean: Effect.Effect<void>
}

export const resultBlob = (jobId: string, index: number): string => `voice-${jobId}-${index}`

export const voiceWork = ({ store, engines, ring, usage, clean }: VoiceWorkDeps): VoiceJobPort => {
  const recognizeLines = (
    job: Job,
    blob: string,
    jobId: string
  ): Effect.Effect<
    { readonly lines: ReadonlyArray<Line>; readonly language: string; readonly audioMs: number },
    EngineFault | FailureMessage
  > =>
    Effect.suspend(() => {
      const bytes = store.blobs.read(blob)
      if (bytes === undefined) return Effect.fail({ message: "The uploaded file is gone." })
      let samples = 0
      let broken: FailureMessage | undefined
      const sound = async function* () {
        try {
          for await (const pcm of pcmOf(job.contentType, bytes)) {
            samples += pcm.length
            if (samples > audioMsMax * samplesPerMs)
              throw new AudioTooLong("The file holds more than 3 hours of audio.")
            yield pcm
          }
        } catch (cause) {
          if (!(cause instanceof AudioFault) && !(cause instanceof AudioTooLong)) throw cause
          broken = {
            message:
              cause instanceof AudioFault ? "The file is not audio of the declared type." : cause.message
          }
        }
      }
      const language = job.sourceLanguage === null ? undefined : baseOf(job.sourceLanguage)
      const lines: Array<Line & { readonly language: string }> = []
      return recognizeInTurns({
        recognizer: engines.recognizer,
        claim: { use: "job", account: job.accountId, owner: jobId, language },
        sound: sound(),
        onFinal: ({ text, startMs, endMs, language: heard }) => {
          if (text !== "") lines.push({ text, startMs, endMs, language: heard })
        }
      }).pipe(
        Effect.flatMap(() =>
          broken !== undefined
            ? Effect.fail(broken)
            : Effect.succeed({
                lines,
                language: language ?? baseOf(lines[0]?.language ?? "en"),
                audioMs: Math.round(samples / samplesPerMs)
              })
        )
      )
    })
  const translateLines = (
    { accountId }: Job,
    lines: ReadonlyArray<Line>,
    source: string,
    target: string
  ): Effect.Effect<ReadonlyArray<Line>, EngineFault | FailureMessage> => {
    const supported = targetOf(target)
    const code = supported === undefined ? undefined : pairFor(engines.translator, source, supported)
    if (source === baseOf(target)) return Effect.succeed(lines)
    if (code === undefined) return Effect.fail({ message: `Nothing translates ${source} to ${target}.` })
    const parts = Array.from({ length: Math.ceil(lines.length / linesPerCall) }, (_, i) =>
      lines.slice(i * linesPerCall, (i + 1) * linesPerCall)
    )
    return Effect.map(
      Effect.forEach(parts, (part) =>
        Effect.map(
          engines.translator.translate({
            account: accountId,
            source,
            target: code,
            segments: part.map(({ text }) => ({ units: [{ _tag: "text" as const, text }] }))
          }),
          ({ segments }) =>
            part.map((line, i) => ({
              ...line,
              text: segments[i]!.units.map((unit) => (unit._tag === "text" ? unit.text : "")).join("")
            }))
        )
      ),
      (translatedParts) => translatedParts.flat()
    )
  }
  const encodeResult = (
    lines: ReadonlyArray<Line>,
    language: string,
    type: string
  ): Effect.Effect<Uint8Array, EngineFault | FailureMessage> => {
    if (type === "text/plain")
      return Effect.succeed(Buffer.from(textOf(lines, !unspaced.has(baseOf(language)))))
    if (type === "application/x-subrip") return Effect.succeed(Buffer.from(srtOf(lines)))
    return Effect.suspend(() => {
      const encoder = encoderFor(type)!()
      return Effect.forEach(lines, ({ text }) =>
        Effect.flatMap(engines.synthesizer.speak(text, { language: baseOf(language) }), ({ pcm, rate }) =>
          Effect.promise(() => encoder.encode(pcm, rate))
        )
      ).pipe(
        Effect.map((parts) =>
          Buffer.concat([...encoder.headers, ...parts.flatMap(({ packets }) => packets)])
        ),
        Effect.ensuring(Effect.sync(() => encoder.close()))
      )
    })
  }
  const messageOf = (fault: EngineFault | FailureMessage): FailureMessage =>
    fault instanceof EngineFault
      ? {
          message:
            fault.reason === "unsupported"
              ? "Not supported by the installed engines."
              : "The engines are not available."
        }
      : fault
  return {
    run: (job, blob, jobId) =>
      Effect.mapError(
        Effect.flatMap(recognizeLines(job, blob, jobId), ({ lines, language, audioMs }) =>
          Effect.map(
            Effect.forEach(
              job.targets,
              (target, index): Effect.Effect<Result> =>
                translateLines(job, lines, language, target.language).pipe(
                  Effect.flatMap((translatedLines) =>
                    encodeResult(translatedLines, target.language, target.type)
                  ),
                  Effect.flatMap((bytes) =>
                    Effect.promise(async () => {
                      await store.blobs.write(
                        resultBlob(jobId, index),
                        (async function* () {
                          yield bytes
                        })()
                      )
                      return {
                        blob: resultBlob(jobId, index),
                        bytes: bytes.length,
                        message: "",
                        fetched: false
                      }
                    })
                  ),
                  Effect.catch((fault: EngineFault | FailureMessage) =>
                    Effect.succeed({ blob: "", bytes: 0, message: messageOf(fault).message, fetched: false })
                  )
                ),
              { concurrency: 2 }
            ),
            (results) => ({ results, audioMs })
          )
        ),
        messageOf
      ),
    bill: ({ accountId, keyId }, audioMs) =>
      Effect.promise(async () => {
        const using = ring.byKeyId(accountId, keyId)
        const reserved = using === undefined ? undefined : usage.reserve(using, "speechToTextMs", audioMs)
        if (reserved !== undefined && !isRefusal(reserved)) await reserved.book()
      }),
    clean
  }
}
