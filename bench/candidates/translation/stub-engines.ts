/** Engines that do nothing, so that the server's own share becomes visible: the translator answers its text,
 *  the recognizer one partial per 200 ms of audio. */
import { Effect, Stream } from "effect"
import { places } from "../../../actors/engines/pool.ts"
import { RecognizerPools } from "../../../actors/engines/speech/recognizer-pools.ts"
import type { Engines, Pcm, RecognitionEvent } from "../../../actors/engines/ports.ts"
import { stampOf } from "./chunk-stamp.ts"

const partialSamples = 3_200

/** Each partial carries the stamp of the chunk which completed it. */
const stubRecognizer =
  (chunkSamples: number): Engines["recognizer"]["recognize"] =>
  (audio) => {
    let samples = 0
    let partials = 0
    return Stream.mapArray(
      audio,
      (parts: ReadonlyArray<Pcm>): readonly [RecognitionEvent, ...Array<RecognitionEvent>] => {
        const events: Array<RecognitionEvent> = []
        for (const pcm of parts) {
          samples += pcm.length
          if (samples < partialSamples) continue
          samples -= partialSamples
          const last = new Uint8Array(pcm.buffer, pcm.byteOffset + 2 * (pcm.length - chunkSamples), 8)
          events.push({
            _tag: "partial",
            text: `t=${stampOf(last.slice())} the quick brown fox jumps over the lazy dog`,
            startMs: partials * 200,
            endMs: ++partials * 200,
            language: "en"
          })
        }
        // All audio counts as recognized: none is stored to be recognized again.
        events.push({ _tag: "silence", untilMs: partials * 200 })
        return events as unknown as readonly [RecognitionEvent, ...Array<RecognitionEvent>]
      }
    )
  }

const info = { id: "stub", version: "1", tier: "embedded", licence: "MIT" } as const
const ready = () => ({ ready: true }) as const

export const stubEngines = (chunkSamples: number): Engines => {
  const translator: Engines["translator"] = {
    info,
    readiness: ready,
    supports: () => "direct",
    pairs: () => [["en", "de"]],
    formality: () => true,
    translate: ({ segments }) => Effect.succeed({ segments, engine: info.id })
  }
  const pools = new RecognizerPools({
    id: "stub",
    live: places(10_000),
    jobs: [],
    clock: { monotonicMs: () => performance.now(), timers: { after: () => {} } }
  })
  return {
    translator,
    detector: { info, readiness: ready, detect: () => ({ language: "en", confidence: 1, reliable: true }) },
    recognizer: {
      info,
      readiness: ready,
      languages: () => ["en"],
      detects: false,
      capacity: pools.capacity,
      places: pools,
      recognize: stubRecognizer(chunkSamples)
    },
    synthesizer: { info, readiness: ready, languages: () => [], speak: () => Effect.never },
    all: () => [{ ...translator, port: "translator" }]
  }
}
