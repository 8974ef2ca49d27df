/** Streaming models which the operator supplies (models/stt/<lang>/{encoder*,decoder*,joiner*}.onnx,
 *  tokens.txt), by sherpa-onnx-node, an optional package, in worker threads. Source: spec engines 4.3. */
import { existsSync, readdirSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { Stream } from "effect"
import type { ActorSystem } from "../../../runtime/registry.ts"
import { EngineFault, type Language, type Recognizer } from "../ports.ts"
import { supervise } from "../engine-process.ts"
import { recognizeOn, thread, type Slot } from "./thread-recognizer.ts"
import { phraseOf } from "./transcript.ts"

const id = "sherpa-onnx"
const hearingsPerLanguage = 2

const words = {
  phrase: phraseOf,
  sentence: (heard: string) => {
    const phrase = phraseOf(heard)
    return phrase === "" ? "" : `${phrase}.`
  }
}

export const sherpa = ({
  system,
  starts,
  folder
}: {
  readonly system: ActorSystem
  readonly starts: Map<string, any>
  readonly folder: string
}): Recognizer => {
  const installed = (): boolean => {
    try {
      createRequire(join(process.cwd(), "package.json")).resolve("sherpa-onnx-node")
      return true
    } catch {
      return false
    }
  }
  const found = existsSync(folder)
    ? readdirSync(folder).filter((name) => existsSync(join(folder, name, "tokens.txt")))
    : []
  const missing = new Map<Language, string>()
  const slots = new Map<Language, ReadonlyArray<Slot>>(
    found.length === 0 || !installed()
      ? []
      : found.map((language) => [
          language,
          Array.from({ length: hearingsPerLanguage }, (_, i) => ({
            engine: supervise(
              system,
              starts,
              `${id}/${language}/${i}`,
              thread(id, "sherpa", { folder: join(folder, language) }, undefined)
            ),
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
      const free = language === undefined ? undefined : slots.get(language)
      return free === undefined
        ? Stream.fail(
            new EngineFault({
              reason: "unsupported",
              engine: id,
              detail: `no model for ${language ?? "any language"}`
            })
          )
        : recognizeOn(id, free, language!, words, (reason) => missing.set(language!, reason))(audio, options)
    }
  }
}
