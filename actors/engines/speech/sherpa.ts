/** Speech by streaming models which the operator supplies
 *  (models/stt/<lang>/{encoder*,decoder*,joiner*}.onnx, tokens.txt) and sherpa-onnx-node, an optional
 *  package, in workers. It is guaranteed that what is missing is said in the readiness. Source:
 *  docs/spec/engines.md, section 4.3. */
import { existsSync, readdirSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { Stream } from "effect"
import type { ActorSystem } from "../../../runtime/registry.ts"
import { EngineFault, type Language, type Recognizer } from "../ports.ts"
import { supervise, type EngineStartMap } from "../engine-process.ts"
import { recognizeOn, recognizerWorker, type Slot } from "./worker-recognizer.ts"
import { phraseOf } from "./transcript.ts"

const id = "sherpa-onnx"
const slotsPerLanguage = 2

const wording = {
  phrase: phraseOf,
  sentence: (recognized: string) => {
    const phrase = phraseOf(recognized)
    return phrase === "" ? "" : `${phrase}.`
  }
}

export interface SherpaOptions {
  readonly system: ActorSystem
  readonly starts: EngineStartMap
  readonly folder: string
}

const isInstalled = (): boolean => {
  try {
    createRequire(join(process.cwd(), "package.json")).resolve("sherpa-onnx-node")
    return true
  } catch {
    return false
  }
}

export const sherpa = ({ system, starts, folder }: SherpaOptions): Recognizer => {
  const found = existsSync(folder)
    ? readdirSync(folder).filter((name) => existsSync(join(folder, name, "tokens.txt")))
    : []
  const missing = new Map<Language, string>()
  const slots = new Map<Language, ReadonlyArray<Slot>>(
    found.length === 0 || !isInstalled()
      ? []
      : found.map((language) => [
          language,
          Array.from({ length: slotsPerLanguage }, (_, i) => ({
            engine: supervise({
              system,
              starts,
              id: `${id}/${language}/${i}`,
              start: recognizerWorker({ id, name: "sherpa", data: { folder: join(folder, language) } })
            }),
            busy: false
          }))
        ])
  )
  const ready = (): ReadonlyArray<Language> => [...slots.keys()].filter((language) => !missing.has(language))
  return {
    info: { id, version: "1", tier: "local", licence: "Apache-2.0" },
    readiness: () =>
      ready().length > 0
        ? { ready: true }
        : {
            ready: false,
            reason:
              [...missing.values()][0] ??
              (found.length === 0
                ? `no models in ${folder}`
                : "the package is missing: npm i --no-save sherpa-onnx-node@1.13.8")
          },
    languages: ready,
    detects: false,
    capacity: () => {
      const all = [...slots.values()].flat()
      return { used: all.filter(({ busy }) => busy).length, max: all.length }
    },
    recognize: (audio, options) => {
      const language = options.language ?? ready()[0]
      const slotsOfLanguage = language === undefined ? undefined : slots.get(language)
      if (language === undefined || slotsOfLanguage === undefined)
        return Stream.fail(
          new EngineFault({
            reason: "unsupported",
            engine: id,
            detail: `no model for ${language ?? "any language"}`
          })
        )
      const recognize = recognizeOn({
        id,
        slots: slotsOfLanguage,
        language,
        wording,
        onMissing: (reason) => missing.set(language, reason)
      })
      return recognize(audio, options)
    }
  }
}
