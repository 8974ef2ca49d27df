/** Recognizers that own a worker thread per live hearing (pocketsphinx, sherpa): the thread's protocol,
 *  slots, and the hearing itself. */
import { Effect, Stream } from "effect"
import { LanePipe } from "../../../runtime/lane.ts"
import { EngineFault, type RecognitionEvent, type Language, type Pcm, type Recognizer } from "../ports.ts"
import type { Start, Supervised } from "../engine-process.ts"
import { startWorker, type EngineWorker } from "../worker.ts"

/** `end`: no more sound, tell the rest and `done`; `abandon`: forget it. Both leave the thread ready for the
 *  next. */
export type ToThread =
  | { readonly op: "open" | "end" | "abandon" }
  | { readonly op: "audio"; readonly pcm: Int16Array }

export type FromThread =
  | { readonly is: "ready" | "done" }
  /** Cannot start, and will not the next time either. */
  | { readonly is: "failed"; readonly reason: string }
  | {
      readonly is: "partial" | "final"
      readonly text: string
      readonly startMs: number
      readonly endMs: number
    }
  | { readonly is: "silence"; readonly untilMs: number }
  /** So many samples of what was sent are worked off. */
  | { readonly is: "heard"; readonly samples: number }

export type Thread = EngineWorker<ToThread, FromThread>
type Item = { readonly heard: RecognitionEvent } | { readonly fault: EngineFault }

export const threadStartMs = 60_000
const canaryMs = 20_000

/** Sound in a thread's queue at most; beyond it the caller waits. */
const behindSamplesMax = 16_000 * 3

export interface Canary {
  readonly pcm: Int16Array
  readonly word: string
}

/** A thread that runs and has understood its canary. */
export const thread = (
  id: string,
  worker: string,
  data: unknown,
  canary: (() => Canary) | undefined
): Start<Thread> =>
  Effect.gen(function* () {
    const live = yield* Effect.acquireRelease(
      Effect.sync(() => startWorker<ToThread, FromThread>(worker, data)),
      (started) => Effect.sync(() => started.kill())
    )
    const crashed = (detail: string) => new EngineFault({ reason: "crashed", engine: id, detail })
    const unavailable = (detail: string) => new EngineFault({ reason: "unavailable", engine: id, detail })
    yield* Effect.callback<void, EngineFault>((resume) => {
      live.onDeath((reason) => resume(Effect.fail(crashed(reason))))
      live.listen((message) => {
        if (message.is === "ready") resume(Effect.void)
        if (message.is === "failed") resume(Effect.fail(unavailable(message.reason)))
      })
    }).pipe(
      Effect.timeoutOrElse({
        duration: threadStartMs,
        orElse: () => Effect.fail(crashed("did not start in time"))
      })
    )
    if (canary !== undefined) {
      const { pcm, word } = canary()
      const heard = yield* Effect.callback<string, EngineFault>((resume) => {
        let text = ""
        live.onDeath((reason) => resume(Effect.fail(crashed(reason))))
        live.listen((message) => {
          if (message.is === "final") text += ` ${message.text}`
          if (message.is === "done") resume(Effect.succeed(text.trim()))
        })
        live.send({ op: "open" })
        live.send({ op: "audio", pcm })
        live.send({ op: "end" })
      }).pipe(
        Effect.timeoutOrElse({
          duration: canaryMs,
          orElse: () => Effect.fail(crashed("no answer to its canary"))
        })
      )
      if (!heard.includes(word)) return yield* Effect.fail(unavailable("it does not understand its canary"))
    }
    return {
      handle: live,
      death: Effect.callback<never, EngineFault>((resume) =>
        live.onDeath((reason) => resume(Effect.fail(crashed(reason))))
      )
    }
  })

export interface Slot {
  readonly engine: Supervised<Thread>
  busy: boolean
}

export interface Words {
  readonly phrase: (heard: string) => string
  readonly sentence: (heard: string) => string
}

export const recognizeOn = (
  id: string,
  slots: ReadonlyArray<Slot>,
  language: Language,
  words: Words,
  onMissing: (reason: string) => void
): Recognizer["recognize"] => {
  const take = Effect.suspend(() => {
    // A slot that is up already hears at once; another has to start first.
    const slot =
      slots.find(({ busy, engine }) => !busy && engine.readiness().ready) ?? slots.find(({ busy }) => !busy)
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
  return (audio) =>
    Stream.unwrap(
      Effect.gen(function* () {
        const slot = yield* Effect.acquireRelease(take, (taken) =>
          Effect.sync(() => {
            taken.busy = false
          })
        )
        const worker = yield* slot.engine
          .use(
            (live) =>
              live.dead
                ? Effect.fail(
                    new EngineFault({ reason: "crashed", engine: id, detail: "its thread has just died" })
                  )
                : Effect.succeed(live),
            threadStartMs
          )
          .pipe(
            Effect.tapError((fault) =>
              Effect.sync(() => {
                if (fault.reason === "unavailable") onMissing(fault.detail)
              })
            )
          )
        const out = new LanePipe<Item>(1_000)
        let behind = 0
        let over = false
        let room: (() => void) | undefined
        worker.onDeath((reason) => {
          if (!over) {
            over = true
            out.offer({ fault: new EngineFault({ reason: "crashed", engine: id, detail: reason }) })
            out.end()
            room?.()
          }
        })
        worker.listen((message) => {
          if (message.is === "heard") {
            behind -= message.samples
            room?.()
          } else if (message.is === "partial")
            out.offer({
              heard: {
                _tag: "partial",
                text: words.phrase(message.text),
                startMs: message.startMs,
                endMs: message.endMs,
                language
              }
            })
          else if (message.is === "final")
            out.offer({
              heard: {
                _tag: "final",
                text: words.sentence(message.text),
                startMs: message.startMs,
                endMs: message.endMs,
                language
              }
            })
          else if (message.is === "silence")
            out.offer({ heard: { _tag: "silence", untilMs: message.untilMs } })
          else if (message.is === "done") {
            over = true
            out.end()
          }
        })
        yield* Effect.addFinalizer(() =>
          Effect.sync(() => {
            if (!over && !worker.dead) worker.send({ op: "abandon" })
            over = true
            worker.listen(undefined)
          })
        )
        worker.send({ op: "open" })
        const roomy = Effect.callback<void>((resume) => {
          if (behind <= behindSamplesMax || over) return resume(Effect.void)
          room = () => {
            if (behind <= behindSamplesMax || over) {
              room = undefined
              resume(Effect.void)
            }
          }
        })
        yield* Effect.forkScoped(
          Stream.runForEach(audio, (pcm: Pcm) =>
            Effect.andThen(
              roomy,
              Effect.sync(() => {
                if (over || pcm.length === 0) return
                behind += pcm.length
                const copy = pcm.slice()
                worker.send({ op: "audio", pcm: copy }, [copy.buffer])
              })
            )
          ).pipe(
            Effect.andThen(
              Effect.sync(() => {
                if (!over) worker.send({ op: "end" })
              })
            )
          )
        )
        return Stream.flatMap(out.stream, (item) =>
          "heard" in item ? Stream.succeed(item.heard) : Stream.fail(item.fault)
        )
      })
    )
}
