import { Effect, Fiber, Result } from "effect"
import { expect, it } from "vitest"
import type { Pcm, RecognizerClaim } from "../../../actors/engines/ports.ts"
import { recognizeInTurns } from "../../../actors/voice/job-recognition.ts"
import { scriptedRecognizer, soundOf, type Script } from "../engines/scripted-recognizer.ts"

const claimOf = (owner: string): RecognizerClaim => ({ use: "job", account: owner, owner, language: "en" })

/** The words from 1 on, a second a piece. */
async function* sound(count: number): AsyncGenerator<Pcm> {
  for (let first = 1; first <= count; first += 5) yield new Int16Array(soundOf(first, 5).buffer)
}

const wordsTo = (count: number): string => Array.from({ length: count }, (_, i) => `w${i + 1}`).join(" ")

const world = (script: Script = {}) => {
  const recognizer = scriptedRecognizer({ jobs: 1, ...script })
  const run = (owner: string, count: number) => {
    const finals: Array<{ readonly text: string; readonly startMs: number; readonly endMs: number }> = []
    const work = recognizeInTurns({
      recognizer,
      claim: claimOf(owner),
      sound: sound(count),
      onFinal: ({ text, startMs, endMs }) => finals.push({ text, startMs, endMs })
    })
    return { finals, work, text: () => finals.map(({ text }) => text).join(" ") }
  }
  const free = (): boolean => {
    const lease = recognizer.places.reserve(claimOf("free?"))
    lease?.release()
    return lease !== undefined
  }
  return { recognizer, run, free }
}

it("alone it has one turn, however long it is", async () => {
  const { recognizer, run, free } = world()
  const job = run("a", 400)
  await Effect.runPromise(job.work)
  expect([job.text(), recognizer.hearings, free()]).toEqual([wordsTo(400), 1, true])
})

it("V-3: two at once have turns, each hears everything once, and times go on over the turns", async () => {
  const { recognizer, run, free } = world()
  const [a, b] = [run("a", 800), run("b", 400)]
  await Effect.runPromise(Effect.all([a.work, b.work], { concurrency: "unbounded" }))
  expect([a.text(), b.text()]).toEqual([wordsTo(800), wordsTo(400)])
  expect(a.finals.map(({ startMs, endMs }) => [startMs, endMs])).toEqual(
    a.finals.map((_, i) => [i * 1_000, (i + 1) * 1_000])
  )
  expect(recognizer.lessees.slice(0, 4)).toEqual(["a", "b", "a", "b"])
  expect(free()).toBe(true)
})

it("a recognizer that crashes loses nothing; three times without a word between, the job fails and its place is free", async () => {
  const once = world({ crashAfter: 7 })
  const job = once.run("a", 20)
  await Effect.runPromise(job.work)
  expect([job.text(), once.recognizer.hearings]).toEqual([wordsTo(20), 2])
  const always = world({ alwaysCrashAfter: 3 })
  const result = await Effect.runPromise(Effect.result(always.run("a", 20).work))
  expect(Result.isFailure(result) && result.failure.reason).toBe("crashed")
  expect([always.recognizer.hearings, always.free()]).toEqual([3, true])
})

it("whoever is interrupted, waiting or at work, frees its place and closes its sound", async () => {
  const { run, recognizer, free } = world()
  const lease = recognizer.places.reserve(claimOf("first"))
  const fiber = Effect.runFork(run("a", 20).work)
  expect(recognizer.places.waiting("job")).toBe(1)
  await Effect.runPromise(Fiber.interrupt(fiber))
  expect(recognizer.places.waiting("job")).toBe(0)
  lease!.release()
  let closed = false
  const endless = async function* (): AsyncGenerator<Pcm> {
    try {
      for (;;) {
        yield new Int16Array(3_200)
        await new Promise((resolve) => setImmediate(resolve))
      }
    } finally {
      closed = true
    }
  }
  const working = Effect.runFork(
    recognizeInTurns({ recognizer, claim: claimOf("b"), sound: endless(), onFinal: () => {} })
  )
  while (recognizer.hearings === 0) await new Promise((resolve) => setImmediate(resolve))
  await Effect.runPromise(Fiber.interrupt(working))
  expect([closed, free()]).toEqual([true, true])
})
