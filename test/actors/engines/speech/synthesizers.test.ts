/** Flite in its worker, and espeak-ng as a process where it is installed. */
import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Result } from "effect"
import { afterAll, describe, expect, it } from "vitest"
import type { Speech } from "../../../../actors/engines/ports.ts"
import { wavOf } from "../../../../actors/engines/speech/openai-transcription.ts"
import { espeak, flite, speechOf } from "../../../../actors/engines/speech/synthesizers.ts"
import { hosted } from "../hosted.ts"
import { stillClock } from "../scripted-recognizer.ts"
import { endBySignal, workerProcesses } from "../worker-processes.ts"

const workers = workerProcesses()
const host = hosted("real")
afterAll(() => host.close())

const loud = (pcm: Int16Array): number =>
  Math.sqrt(pcm.reduce((sum, sample) => sum + sample * sample, 0) / pcm.length)

const same = (a: Speech, b: Speech): boolean =>
  a.rate === b.rate && Buffer.from(a.pcm.buffer).equals(Buffer.from(b.pcm.buffer))

/** Speech: so long, not silent, and no silence at either end. */
const isSpeech = ({ pcm, rate }: Speech, leastMs: number, mostMs: number): void => {
  const ms = (pcm.length / rate) * 1_000
  expect(ms).toBeGreaterThan(leastMs)
  expect(ms).toBeLessThan(mostMs)
  expect(loud(pcm)).toBeGreaterThan(500)
  expect(Math.min(Math.abs(pcm[0]!), Math.abs(pcm.at(-1)!))).toBeGreaterThanOrEqual(200)
}

describe("Flite", () => {
  const mouth = flite(host.system, host.starts)
  const speak = (text: string, voice: "male" | "female" = "female") =>
    Effect.runPromise(mouth.speak(text, { language: "en", voice }))
  it("speaks English, longer text longer; the same text is the same sound, another voice another", async () => {
    expect([mouth.languages(), mouth.readiness()]).toEqual([["en"], { ready: true }])
    const short = await speak("Good morning.")
    const long = await speak("Good morning, the train to the airport leaves in twenty minutes.")
    isSpeech(short, 300, 2_000)
    isSpeech(long, 2_000, 8_000)
    expect(same(await speak("Good morning."), short)).toBe(true)
    const male = await speak("Good morning.", "male")
    isSpeech(male, 300, 2_000)
    expect(same(male, short)).toBe(false)
  }, 30_000)
  it("what looks like an option or a shell's word is only text; nothing to say is silence; what it cannot read is no fault", async () => {
    isSpeech(await speak("-voice kal; rm -rf $HOME `id` | x"), 500, 20_000)
    for (const text of ["", "   ", "...", "😀", "漢字"])
      expect((await speak(text)).rate, JSON.stringify(text)).toBe(16_000)
  }, 30_000)
  it("text beyond 2,000 characters is cut there", async () => {
    expect((await speak(`go${" ".repeat(2_000)}tomorrow`)).pcm.length).toBe((await speak("go")).pcm.length)
  }, 30_000)
  it("ten at once are answered each with its own", async () => {
    const texts = Array.from({ length: 10 }, (_, i) =>
      "one two three four five six seven eight nine ten"
        .split(" ")
        .slice(0, i + 1)
        .join(" ")
    )
    const lengths = (await Promise.all(texts.map((text) => speak(text)))).map(({ pcm }) => pcm.length)
    expect(lengths).toEqual([...lengths].sort((a, b) => a - b))
    expect(new Set(lengths).size).toBe(10)
  }, 30_000)
  it("its worker crashes: the next sentence is spoken by a new one", async () => {
    const before = await speak("Good morning.")
    const alive = workers.length
    await endBySignal(workers.at(-1)!, "SIGSEGV")
    expect(same(await speak("Good morning."), before)).toBe(true)
    expect(workers).toHaveLength(alive + 1)
  }, 30_000)
})

const installed = ((): boolean => {
  try {
    execFileSync("espeak-ng", ["--version"], { stdio: "ignore" })
    return true
  } catch {
    return false
  }
})()

if (!installed && process.env["CI"] === undefined)
  console.warn(
    "espeak-ng is not installed here (apt-get install --no-install-recommends espeak-ng): its tests are skipped, except in CI"
  )

describe.skipIf(!installed && process.env["CI"] === undefined)(
  "espeak-ng, the real one (skipped only where it is not installed and not CI)",
  () => {
    it("knows nothing before it has been looked for; then its languages and version", async () => {
      const mouth = espeak(stillClock)
      expect([mouth.languages(), mouth.readiness().ready]).toEqual([[], false])
      await mouth.warm()
      expect(mouth.readiness()).toEqual({ ready: true })
      expect(mouth.languages()).toEqual(expect.arrayContaining(["de", "en", "es", "fr", "it", "pl"]))
      expect(mouth.info.version).toMatch(/^\d+\.\d+/)
    })
    it.each([
      ["de", "Guten Morgen, der Zug fährt in zwanzig Minuten."],
      ["es", "El tren sale dentro de veinte minutos."],
      ["fr", "Le train part dans vingt minutes."],
      ["en-GB", "The train leaves in twenty minutes."]
    ])("%s: %s", async (language, text) => {
      const mouth = espeak(stillClock)
      const female = await Effect.runPromise(mouth.speak(text, { language, voice: "female" }))
      const male = await Effect.runPromise(mouth.speak(text, { language, voice: "male" }))
      isSpeech(female, 1_000, 8_000)
      isSpeech(male, 1_000, 8_000)
      expect(same(male, female)).toBe(false)
    })
    it("sixty-six at once are spoken by two processes in turn; one more is refused, and so is none after them", async () => {
      const mouth = espeak(stillClock)
      const speak = () => Effect.runPromise(Effect.result(mouth.speak("go", { language: "en" })))
      const all = await Promise.all(Array.from({ length: 67 }, speak))
      expect(all.filter(Result.isSuccess)).toHaveLength(66)
      expect(all[66]).toMatchObject({ failure: { reason: "overloaded", engine: "espeak-ng" } })
      expect(Result.isSuccess(await speak())).toBe(true)
    }, 60_000)
    it("text that looks like an option is spoken; a language it lacks is a fault", async () => {
      isSpeech(await Effect.runPromise(espeak(stillClock).speak("--version", { language: "en" })), 300, 8_000)
      expect(
        await Effect.runPromise(Effect.result(espeak(stillClock).speak("x", { language: "qq" })))
      ).toMatchObject({ failure: { reason: "crashed", engine: "espeak-ng" } })
    })
  }
)

describe("espeak-ng, where it is not installed", () => {
  it("says what to install, speaks no language, and fails a request in our words", async () => {
    const path = process.env["PATH"]
    const empty = mkdtempSync(join(tmpdir(), "troupe-mute-"))
    process.env["PATH"] = empty
    try {
      const mouth = espeak(stillClock)
      await mouth.warm()
      expect(mouth.readiness()).toEqual({
        ready: false,
        reason: expect.stringContaining("apt-get install --no-install-recommends espeak-ng")
      })
      expect(mouth.languages()).toEqual([])
      expect(await Effect.runPromise(Effect.result(mouth.speak("x", { language: "en" })))).toMatchObject({
        failure: { reason: "crashed" }
      })
    } finally {
      process.env["PATH"] = path
      rmSync(empty, { recursive: true })
    }
  })
})

describe("a WAV file's sound", () => {
  const tone = Int16Array.from({ length: 1_600 }, (_, i) => (i < 400 || i >= 1_200 ? 0 : 3_000))
  it("is what stands in its data chunk, without the silence around it, wherever that chunk lies", () => {
    const wav = Buffer.from(wavOf(tone))
    expect(speechOf(wav)).toEqual({ pcm: new Int16Array(800).fill(3_000), rate: 16_000 })
    const list = Buffer.alloc(8 + 6)
    list.write("LIST")
    list.writeUInt32LE(5, 4)
    expect(speechOf(Buffer.concat([wav.subarray(0, 36), list, wav.subarray(36)])).pcm).toHaveLength(800)
  })
  it("a length of streaming (unknown) or beyond the file ends where the file ends; silence is empty", () => {
    const wav = Buffer.from(wavOf(tone))
    wav.writeUInt32LE(0xffffffff, 40)
    expect(speechOf(wav).pcm).toHaveLength(800)
    expect(speechOf(wavOf(new Int16Array(1_600))).pcm).toHaveLength(0)
  })
})
