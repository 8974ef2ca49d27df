/** Recognizes the sound of a job from beginning to end, in turns: while others wait for its recognizer it lets go
 *  after each half minute of sound, where nothing is being said, and continues when its turn has come again. Two
 *  crashes of the recognizer in a row are survived: the sound since the last final is recognized again. It is
 *  guaranteed that no sound is lost between turns, and that no lease outlives the work.
 *  Source: docs/spec/translation.md, section 13.5; docs/spec/engines.md, section 11.1. */
import { Data, Effect, Stream } from "effect"
import { batches } from "../../runtime/lane.ts"
import type {
  EngineFault,
  Pcm,
  RecognitionEvent,
  Recognizer,
  RecognizerClaim,
  RecognizerLease
} from "../engines/ports.ts"
import { ReplayBuffer } from "./replay-buffer.ts"

/** How much sound a turn has at least. */
export const turnMs = 30_000

/** A compressed file may hold this much sound in one piece. */
const bufferedMsMax = 300_000

const attemptsMax = 3

export interface JobRecognitionOptions {
  readonly recognizer: Recognizer
  readonly claim: RecognizerClaim
  readonly sound: AsyncIterator<Pcm>
  /** Takes each final, with its times from the beginning of the sound. */
  readonly onFinal: (final: Extract<RecognitionEvent, { _tag: "final" }>) => void
}

type TurnEnd = "finished" | "interrupted" | "over"

/** The turn is over, because others wait. */
class TurnOver extends Data.TaggedError("TurnOver") {}

class JobRecognition {
  private readonly options: JobRecognitionOptions
  private readonly buffer = new ReplayBuffer(0, bufferedMsMax)

  /** The piece that is being read. An interrupted turn leaves it to the next. */
  private reading: Promise<ReadonlyArray<Pcm> | undefined> | undefined

  private attempts = 1

  constructor(options: JobRecognitionOptions) {
    this.options = options
  }

  private read(): Promise<ReadonlyArray<Pcm> | undefined> {
    this.reading ??= this.options.sound.next().then(({ done, value }) => {
      this.reading = undefined
      if (done === true) return undefined
      this.buffer.push(value)
      return [value]
    })
    return this.reading
  }

  private get sound(): Stream.Stream<Pcm> {
    return Stream.suspend(() =>
      Stream.concat(Stream.fromIterable(this.buffer.contents), batches(Effect.promise(() => this.read())))
    )
  }

  /** Notes what the recognizer says; its times count from the beginning of its turn. */
  private onEvents(events: ReadonlyArray<RecognitionEvent>, fromMs: number): void {
    for (const event of events) {
      if (event._tag === "partial") continue
      if (event._tag === "silence") {
        this.buffer.dropUntil(fromMs + event.untilMs)
        continue
      }
      this.attempts = 1
      const startMs = Math.round(fromMs + event.startMs)
      const endMs = Math.round(fromMs + event.endMs)
      this.buffer.dropUntil(endMs)
      this.options.onFinal({ ...event, startMs, endMs })
    }
  }

  private turn(lease: RecognizerLease): Effect.Effect<TurnEnd, EngineFault> {
    const { recognizer, claim } = this.options
    const fromMs = this.buffer.startMs
    return Stream.runForEachArray(
      recognizer.recognize(this.sound, { language: claim.language, lease }),
      (events): Effect.Effect<void, TurnOver> => {
        this.onEvents(events, fromMs)
        return lease.contended && this.buffer.startMs - fromMs >= turnMs
          ? Effect.fail(new TurnOver())
          : Effect.void
      }
    ).pipe(
      Effect.as("finished" as const),
      Effect.catch((fault: EngineFault | TurnOver): Effect.Effect<TurnEnd, EngineFault> => {
        if (fault._tag === "TurnOver") return Effect.succeed("over")
        // A busy machine may start a recognizer late: a job has the time to ask again.
        const again = fault.reason === "crashed" || fault.reason === "timeout"
        return again && this.attempts++ < attemptsMax ? Effect.succeed("interrupted") : Effect.fail(fault)
      })
    )
  }

  get run(): Effect.Effect<void, EngineFault> {
    const { recognizer, claim, sound } = this.options
    const { places } = recognizer
    return Effect.gen({ self: this }, function* () {
      for (let end: TurnEnd = "over"; end !== "finished";) {
        const lease = yield* places.lease(claim)
        end = yield* this.turn(lease)
        lease.release()
      }
    }).pipe(
      Effect.ensuring(
        Effect.suspend(() => {
          places.held(claim.owner)?.release()
          return Effect.promise(async () => {
            await this.reading
            await sound.return?.()
          })
        })
      )
    )
  }
}

export const recognizeInTurns = (options: JobRecognitionOptions): Effect.Effect<void, EngineFault> =>
  Effect.suspend(() => new JobRecognition(options).run)
