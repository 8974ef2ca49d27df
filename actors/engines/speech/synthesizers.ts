/** Synthesizes speech: by Flite (WASM, English) in a worker, and by espeak-ng (GPL, a process per
 *  sentence) for the other languages. It is guaranteed that speech has no silence around it. Source:
 *  docs/spec/engines.md, section 6. */
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import { Effect } from "effect"
import type { ActorSystem } from "../../../runtime/registry.ts"
import { EngineFault, type Language, type Speech, type Synthesizer } from "../ports.ts"
import { supervise, type EngineStartMap, type Start } from "../engine-process.ts"
import { places, Pool, type PoolClock } from "../pool.ts"
import { startWorker } from "../worker.ts"
import type { FromFlite, ToFlite } from "../workers/flite.ts"

const textMax = 2_000

/** Texts that wait for one synthesizer. */
const waitingMax = 64

/** Samples below this are silence. */
const silenceMax = 200

/** Reads the sound of a WAV file, 16-bit mono, without the silence around it. */
export const speechOf = (wav: Uint8Array): Speech => {
  const view = new DataView(wav.buffer, wav.byteOffset, wav.byteLength)
  const rate = view.getUint32(24, true)
  let at = 12
  while (at + 8 < wav.length && view.getUint32(at, false) !== 0x64617461)
    at += 8 + view.getUint32(at + 4, true) + (view.getUint32(at + 4, true) % 2)
  const bytes = Math.min(view.getUint32(at + 4, true), wav.length - at - 8) & ~1
  // A Buffer's own slice would not be a copy.
  const pcm = new Int16Array(Uint8Array.prototype.slice.call(wav, at + 8, at + 8 + bytes).buffer)
  let from = 0
  let to = pcm.length
  while (from < to && Math.abs(pcm[from]!) < silenceMax) from++
  while (to > from && Math.abs(pcm[to - 1]!) < silenceMax) to--
  return { pcm: pcm.slice(from, to), rate }
}

interface Flite {
  readonly speak: (text: string, voice: string) => Effect.Effect<Uint8Array, EngineFault>
}

const fliteWorker: Start<Flite> = Effect.gen(function* () {
  const worker = yield* Effect.acquireRelease(
    Effect.sync(() => startWorker<ToFlite, FromFlite>("flite", {})),
    (started) => Effect.sync(() => started.kill())
  )
  const fault = (reason: "crashed" | "bad-input" | "overloaded", detail: string) =>
    new EngineFault({ reason, engine: "flite", detail })
  const waiting = new Map<number, (effect: Effect.Effect<Uint8Array, EngineFault>) => void>()
  let next = 0
  yield* Effect.callback<void, EngineFault>((resume) => {
    worker.onDeath((detail) => resume(Effect.fail(fault("crashed", detail))))
    worker.listen((message) => {
      if (message._tag === "Ready") return resume(Effect.void)
      waiting.get(message.id)?.(
        message._tag === "Spoken"
          ? Effect.succeed(message.wav)
          : Effect.fail(fault("bad-input", message.detail))
      )
      waiting.delete(message.id)
    })
  })
  worker.onDeath((detail) => {
    for (const settle of waiting.values()) settle(Effect.fail(fault("crashed", detail)))
    waiting.clear()
  })
  const speak = (text: string, voice: string) =>
    Effect.callback<Uint8Array, EngineFault>((resume) => {
      if (waiting.size >= waitingMax) return resume(Effect.fail(fault("overloaded", "too many texts wait")))
      const id = next++
      waiting.set(id, resume)
      worker.send({ id, text, voice })
      return Effect.sync(() => {
        waiting.delete(id)
      })
    })
  const canary = yield* speak("ready", "slt")
  if (speechOf(canary).pcm.length < 1_000)
    return yield* Effect.fail(
      new EngineFault({ reason: "unavailable", engine: "flite", detail: "it does not speak its canary" })
    )
  return {
    handle: { speak },
    death: Effect.callback<never, EngineFault>((resume) =>
      worker.onDeath((detail) => resume(Effect.fail(fault("crashed", detail))))
    )
  }
})

export const flite = (system: ActorSystem, starts: EngineStartMap): Synthesizer => {
  const engine = supervise({ system, starts, id: "flite", start: fliteWorker })
  return {
    info: { id: "flite", version: "0.1.1", tier: "embedded", licence: "BSD-like" },
    readiness: () => ({ ready: true }),
    languages: () => ["en"],
    speak: (text, { voice }) =>
      Effect.map(
        engine.use(({ speak }) => speak(text.slice(0, textMax), voice === "male" ? "rms" : "slt")),
        speechOf
      )
  }
}

const run = promisify(execFile)
const wavBytesMax = 64 * 1_048_576
const speakMs = 10_000

/** Processes of espeak-ng at once. */
const speakersMax = 2

export const espeak = (clock: PoolClock): Synthesizer & { readonly warm: () => Promise<void> } => {
  const pool = new Pool({ id: "espeak-ng", resources: places(speakersMax), waitersMax: waitingMax, clock })
  let voices: ReadonlyArray<Language> = []
  let version = ""
  let reason = "espeak-ng is not installed: apt-get install --no-install-recommends espeak-ng"
  let loading: Promise<void> | undefined
  const loadVoices = (): Promise<void> =>
    (loading ??= run("espeak-ng", ["--voices"], { timeout: speakMs }).then(
      async ({ stdout }) => {
        version =
          /\d+\.\d+(?:\.\d+)?/.exec(
            (await run("espeak-ng", ["--version"], { timeout: speakMs })).stdout
          )?.[0] ?? ""
        voices = [
          ...new Set(
            stdout
              .split("\n")
              .slice(1)
              .map((line) => line.trim().split(/\s+/)[1]?.split("-")[0] ?? "")
              .filter((code) => code.length === 2)
          )
        ]
        if (voices.length === 0) reason = "espeak-ng has no voices"
      },
      () => {}
    ))
  return {
    get info() {
      return { id: "espeak-ng", version, tier: "local" as const, licence: "GPL-3.0 (separate process)" }
    },
    readiness: () => (voices.length > 0 ? { ready: true } : { ready: false, reason }),
    languages: () => voices,
    warm: loadVoices,
    speak: (text, { language, voice }) =>
      pool
        .use({ account: "" }, () =>
          Effect.tryPromise({
            try: (signal) =>
              run(
                "espeak-ng",
                [
                  "-v",
                  `${language.split("-")[0]!}${voice === "male" ? "" : "+f2"}`,
                  "--stdout",
                  "--",
                  text.slice(0, textMax)
                ],
                { encoding: "buffer", maxBuffer: wavBytesMax, timeout: speakMs, signal }
              ),
            catch: (cause) =>
              new EngineFault({ reason: "crashed", engine: "espeak-ng", detail: String(cause) })
          })
        )
        .pipe(Effect.map(({ stdout }) => speechOf(stdout)))
  }
}
