/** A recognizer whose words are the audio: each 200 ms block whose samples all hold the value n is heard as
 *  the word `wn`, each five words are a final. What it hears therefore depends on nothing but the bytes it
 *  was given. Failures are data. */
import { Stream } from "effect"
import { places, type Lease, type PoolClock } from "../../../actors/engines/pool.ts"
import { RecognizerPools } from "../../../actors/engines/speech/recognizer-pools.ts"
import {
  EngineFault,
  type RecognitionEvent,
  type Pcm,
  type RecognizeOptions,
  type Recognizer
} from "../../../actors/engines/ports.ts"

/** Leases by this clock never end by time. */
export const stillClock: PoolClock = { monotonicMs: () => 0, timers: { after: () => {} } }

export const blockSamples = 3_200
export const blockMs = 200
export const wordsPerFinal = 5

/** Sound for the words from `first` on, as bytes of s16le at 16 kHz. */
export const soundOf = (first: number, count: number): Uint8Array =>
  new Uint8Array(
    Int16Array.from({ length: blockSamples * count }, (_, i) => first + Math.floor(i / blockSamples)).buffer
  )

export interface Script {
  /** Crashes once, after this many words of the first hearing. */
  readonly crashAfter?: number
  /** Crashes in every hearing after this many words. */
  readonly alwaysCrashAfter?: number
  readonly capacity?: number
  /** Places for jobs. */
  readonly jobs?: number
  readonly partials?: boolean
}

export const scriptedRecognizer = (
  script: Script = {},
  clock: PoolClock = stillClock
): Recognizer & {
  hearings: number
  readonly hints: Array<ReadonlyArray<string>>
  /** The accounts that recognized by a lease, in their order. */
  readonly lessees: Array<string>
} => {
  const info = { id: "scripted", version: "1", tier: "embedded", licence: "MIT" } as const
  const pools = new RecognizerPools({
    id: info.id,
    live: places(script.capacity ?? 1_000),
    jobs: places(script.jobs ?? 1_000),
    clock
  })
  const recognizer = {
    info,
    readiness: () => ({ ready: true }) as const,
    languages: () => ["en"],
    detects: false,
    takesHints: true,
    hearings: 0,
    lessees: [] as Array<string>,
    hints: [] as Array<ReadonlyArray<string>>,
    capacity: pools.capacity,
    places: pools,
    recognize: (audio: Stream.Stream<Pcm>, options?: Partial<RecognizeOptions>) =>
      pools.recognizeWith(options?.lease, () =>
        Stream.suspend(() => {
          if (options?.lease !== undefined) recognizer.lessees.push((options.lease as Lease<number>).account)
          recognizer.hints.push(options?.hints ?? [])
          const hearing = ++recognizer.hearings
          let rest = new Int16Array(0)
          let at = 0
          let heard = 0
          let words: Array<string> = []
          let startMs = 0
          const told: (final: boolean) => RecognitionEvent = (final) => ({
            _tag: final ? "final" : "partial",
            text: words.join(" "),
            startMs,
            endMs: at,
            language: "en"
          })
          const step = (pcm: Pcm): Stream.Stream<RecognitionEvent, EngineFault> => {
            const whole = new Int16Array(rest.length + pcm.length)
            whole.set(rest)
            whole.set(pcm, rest.length)
            const out: Array<RecognitionEvent> = []
            let offset = 0
            let crashed = false
            for (; offset + blockSamples <= whole.length && !crashed; offset += blockSamples) {
              words.push(`w${whole[offset]!}`)
              at += blockMs
              heard++
              if (
                heard === (hearing === 1 ? script.crashAfter : undefined) ||
                heard === script.alwaysCrashAfter
              ) {
                crashed = true
                break
              }
              if (words.length === wordsPerFinal) {
                out.push(told(true))
                words = []
                startMs = at
              } else if (script.partials !== false) out.push(told(false))
            }
            rest = whole.slice(offset)
            const said = Stream.fromIterable(out)
            return crashed
              ? Stream.concat(
                  said,
                  Stream.fail(
                    new EngineFault({ reason: "crashed", engine: "scripted", detail: "as scripted" })
                  )
                )
              : said
          }
          return Stream.concat(
            Stream.flatMap(audio, step),
            Stream.suspend(() => (words.length > 0 ? Stream.succeed(told(true)) : Stream.empty))
          )
        })
      )
  }
  return recognizer
}
