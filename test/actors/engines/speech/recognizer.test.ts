/** The embedded recognizer itself, in its worker, on sentences which Flite speaks: both are
 *  deterministic, so what is heard is too. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Result, Stream } from "effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import {
  EngineFault,
  type RecognitionEvent,
  type Pcm,
  type Speech
} from "../../../../actors/engines/ports.ts"
import { pocketsphinx } from "../../../../actors/engines/speech/pocketsphinx.ts"
import { Resampler } from "../../../../actors/engines/speech/resampler.ts"
import { flite } from "../../../../actors/engines/speech/synthesizers.ts"
import { wordErrors, wordsOf } from "../../../../bench/word-errors.ts"
import { hosted } from "../hosted.ts"
import { endBySignal, workerProcesses } from "../worker-processes.ts"

/** Every worker of this process, in the order of their start: Flite's, then the recognizer's. */
const workers = workerProcesses()
const host = hosted("real")
const cacheFolder = mkdtempSync(join(tmpdir(), "troupe-ear-"))

afterAll(async () => {
  await host.close()
  rmSync(cacheFolder, { recursive: true, force: true })
})

const mouth = flite(host.system, host.starts)
const ear = pocketsphinx({ system: host.system, starts: host.starts, cacheFolder, sessionsMax: 1 })

beforeAll(async () => {
  await said("ready")
  await heardIn([])
}, 60_000)

const sentences = [
  "the weather is nice today and we will go to the park",
  "where is the train station",
  "can you hear me now",
  "she opened the window and looked at the garden",
  "we are going to the city in the morning",
  "please tell me what time it is"
]

const at16k = async ({ pcm, rate }: Speech): Promise<Pcm> => {
  if (rate === 16_000) return pcm
  const resampler = await Resampler.make(rate, 16_000)
  try {
    return resampler.push(pcm)
  } finally {
    resampler.close()
  }
}

/** Said with a second of silence around it, as chunks of 200 ms. */
const said = async (text: string): Promise<ReadonlyArray<Pcm>> => {
  const speech = await at16k(await Effect.runPromise(mouth.speak(text, { language: "en", voice: "female" })))
  const whole = new Int16Array(speech.length + 32_000)
  whole.set(speech, 16_000)
  return Array.from({ length: Math.ceil(whole.length / 3_200) }, (_, i) =>
    whole.slice(i * 3_200, (i + 1) * 3_200)
  )
}

const hear = (audio: Stream.Stream<Pcm>) =>
  Effect.runPromise(Effect.result(Stream.runCollect(ear.recognize(audio, { language: "en" }))))

const heardIn = async (chunks: ReadonlyArray<Pcm>): Promise<ReadonlyArray<RecognitionEvent>> =>
  Result.getOrThrow(await hear(Stream.fromIterable(chunks)))

const textOf = (heard: ReadonlyArray<RecognitionEvent>): string =>
  heard.flatMap((item) => (item._tag === "final" ? [item.text] : [])).join(" ")

describe("pocketsphinx hears what Flite says", () => {
  it("six sentences, one hearing each: at most one word in five is wrong, and finals are cased and marked", async () => {
    let errors = 0
    let words = 0
    const told: Array<string> = []
    for (const sentence of sentences) {
      const text = textOf(await heardIn(await said(sentence)))
      told.push(`${sentence} → ${text}`)
      expect(text).toMatch(/^[A-Z].*[.?]$/)
      errors += wordErrors(wordsOf(sentence), wordsOf(text))
      words += wordsOf(sentence).length
    }
    expect(errors / words, told.join("\n")).toBeLessThanOrEqual(0.2)
  }, 120_000)
  it("the same sound is heard the same, partials and times included, however it is cut", async () => {
    const chunks = await said(sentences[0]!)
    const whole = Int16Array.from(chunks.flatMap((chunk) => [...chunk]))
    const first = await heardIn(chunks)
    expect(await heardIn(chunks)).toEqual(first)
    const odd: Array<Pcm> = []
    for (let at = 0, size = 1; at < whole.length; at += size, size = 1 + ((size * 7 + 331) % 5_000))
      odd.push(whole.slice(at, at + size))
    expect(await heardIn(odd)).toEqual(first)
    expect(first.filter(({ _tag }) => _tag === "partial").length).toBeGreaterThan(3)
  }, 60_000)
  it("times lie where the speech is, partials come before their final, silence moves on behind it", async () => {
    const chunks = await said(sentences[1]!)
    const spokenMs = (chunks.reduce((n, { length }) => n + length, 0) - 32_000) / 16
    const heard = await heardIn(chunks)
    const final = heard.find((item) => item._tag === "final")!
    expect(Math.abs(final.startMs - 1_000)).toBeLessThanOrEqual(400)
    expect(Math.abs(final.endMs - 1_000 - spokenMs)).toBeLessThanOrEqual(500)
    const partials = heard.filter((item) => item._tag === "partial")
    expect(heard.indexOf(partials.at(-1)!)).toBeLessThan(heard.indexOf(final))
    for (const { startMs, endMs } of partials)
      expect([startMs === final.startMs, endMs > startMs]).toEqual([true, true])
    const after = heard.at(-1)!
    expect(after._tag === "silence" && after.untilMs >= final.endMs).toBe(true)
  }, 60_000)
  it("silence and noise below speech are nothing, and no fault", async () => {
    const hum = Int16Array.from({ length: 48_000 }, (_, i) => Math.round(40 * Math.sin(i / 5)))
    expect(textOf(await heardIn([new Int16Array(16_000), hum]))).toBe("")
    expect(textOf(await heardIn([]))).toBe("")
  }, 60_000)
  it("one hearing at a time: the second is refused as overloaded while the first lasts", async () => {
    let go!: () => void
    const gate = new Promise<void>((resolve) => {
      go = resolve
    })
    const chunks = await said(sentences[2]!)
    const first = hear(
      Stream.concat(
        Stream.fromIterable(chunks),
        Stream.fromEffect(
          Effect.as(
            Effect.promise(() => gate),
            new Int16Array(0)
          )
        )
      )
    )
    while (ear.capacity().used === 0) await new Promise((resolve) => setImmediate(resolve))
    expect(await hear(Stream.empty)).toMatchObject({ failure: { reason: "overloaded" } })
    go()
    expect(wordsOf(textOf(Result.getOrThrow(await first)))).toContain("hear")
    expect(ear.capacity()).toEqual({ used: 0, max: 1 })
  }, 60_000)
  it("its worker crashes in the middle of a hearing: that one fails as crashed, the next one hears", async () => {
    const chunks = await said(sentences[0]!)
    const victim = workers[1]!
    const before = workers.length
    const endless = Stream.concat(
      Stream.fromIterable(chunks.slice(0, 12)),
      Stream.fromEffect(
        Effect.promise(async (): Promise<Pcm> => {
          await endBySignal(victim, "SIGSEGV")
          return new Promise<Pcm>(() => {})
        })
      )
    )
    const broken = await hear(endless)
    expect(broken).toMatchObject({ failure: { reason: "crashed", engine: "pocketsphinx" } })
    expect(Result.isFailure(broken) && broken.failure instanceof EngineFault).toBe(true)
    expect(ear.capacity().used).toBe(0)
    const text = textOf(await heardIn(chunks))
    expect(workers.length).toBe(before + 1)
    expect(
      wordErrors(wordsOf(sentences[0]!), wordsOf(text)) / wordsOf(sentences[0]!).length,
      text
    ).toBeLessThanOrEqual(0.2)
  }, 60_000)
})
