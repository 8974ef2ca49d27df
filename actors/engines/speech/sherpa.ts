/** Speech by streaming models which the operator supplies
 *  (models/stt/<lang>/{encoder*,decoder*,joiner*}.onnx, tokens.txt) and sherpa-onnx-node, an optional
 *  package, in workers. It is guaranteed that what is missing is said in the readiness. Source:
 *  docs/spec/engines.md, section 4.3. */
import { existsSync, readdirSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { Effect, Stream } from "effect"
import type { ActorSystem } from "../../../runtime/registry.ts"
import { EngineFault, type Language, type Recognizer, type RecognizerLease } from "../ports.ts"
import type { EngineStartMap } from "../engine-process.ts"
import { recognizeOn, recognizerSlots, type RecognizerSlots } from "./worker-recognizer.ts"
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

const noModel = (language: Language | undefined): EngineFault =>
  new EngineFault({ reason: "unsupported", engine: id, detail: `no model for ${language ?? "any language"}` })

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
  const recognizers = new Map<Language, RecognizerSlots>(
    found.length === 0 || !isInstalled()
      ? []
      : found.map((language) => [
          language,
          recognizerSlots({
            system,
            starts,
            id,
            actorId: `${id}/${language}`,
            name: "sherpa",
            data: { folder: join(folder, language) },
            liveMax: slotsPerLanguage
          })
        ])
  )
  const ready = (): ReadonlyArray<Language> =>
    [...recognizers].flatMap(([language, { lostReason }]) => (lostReason() === undefined ? [language] : []))
  const lostReason = (): string | undefined => {
    for (const recognizer of recognizers.values()) {
      const reason = recognizer.lostReason()
      if (reason !== undefined) return reason
    }
    return undefined
  }
  const all = [...recognizers.values()].map(({ pools }) => pools)
  /** Without a language the first that works is used. */
  const poolsOf = (language: Language | undefined) => {
    const chosen = language ?? ready()[0]
    return chosen === undefined ? undefined : recognizers.get(chosen)?.pools
  }
  return {
    info: { id, version: "1", tier: "local", licence: "Apache-2.0" },
    readiness: () =>
      ready().length > 0
        ? { ready: true }
        : {
            ready: false,
            reason:
              lostReason() ??
              (found.length === 0
                ? `no models in ${folder}`
                : "the package is missing: npm i --no-save sherpa-onnx-node@1.13.8")
          },
    languages: ready,
    detects: false,
    capacity: () =>
      all.reduce(
        (sum, pools) => {
          const { used, max } = pools.capacity()
          return { used: sum.used + used, max: sum.max + max }
        },
        { used: 0, max: 0 }
      ),
    places: {
      reserve: (claim) => poolsOf(claim.language)?.reserve(claim),
      lease: (claim) =>
        Effect.suspend(
          (): Effect.Effect<RecognizerLease, EngineFault> =>
            poolsOf(claim.language)?.lease(claim) ?? Effect.fail(noModel(claim.language))
        ),
      held: (owner) => {
        for (const pools of all) {
          const lease = pools.held(owner)
          if (lease !== undefined) return lease
        }
        return undefined
      },
      waiting: (use) => all.reduce((sum, pools) => sum + pools.waiting(use), 0)
    },
    recognize: (audio, options) => {
      const language = options.language ?? ready()[0]
      const pools = poolsOf(language)
      if (language === undefined || pools === undefined) return Stream.fail(noModel(language))
      return recognizeOn({ id, pools, language, wording })(audio, options)
    }
  }
}
