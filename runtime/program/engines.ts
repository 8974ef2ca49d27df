/** Creates the engines of this process from the configuration. Nothing heavy is loaded here: an engine that
 *  owns a process starts it at the first use, or when `warm` is called after listening has
 *  begun. Part of the composition root. */
import { join } from "node:path"
import { Context, Effect, Layer } from "effect"
import { EngineProcess, EngineStarts, type EngineStartMap } from "../../actors/engines/engine-process.ts"
import type { Engine, Engines, Recognizer, Synthesizer, Translator } from "../../actors/engines/ports.ts"
import { eldDetector } from "../../actors/engines/detection/eld.ts"
import { correctorRouter, harper, hunspell } from "../../actors/engines/correction/correctors.ts"
import { openaiRephraser, plainRephraser } from "../../actors/engines/correction/rephrasers.ts"
import { recognizerRouter, synthesizerRouter, translatorRouter } from "../../actors/engines/router.ts"
import { pocketsphinx } from "../../actors/engines/speech/pocketsphinx.ts"
import { espeak, flite } from "../../actors/engines/speech/synthesizers.ts"
import { apertium } from "../../actors/engines/translation/apertium.ts"
import { deeplUpstream } from "../../actors/engines/translation/deepl-upstream.ts"
import { firefox } from "../../actors/engines/translation/firefox.ts"
import { openaiUpstream } from "../../actors/engines/translation/openai-upstream.ts"
import { openaiTranscription } from "../../actors/engines/speech/openai-transcription.ts"
import { sherpa } from "../../actors/engines/speech/sherpa.ts"
import { openCacheFolder } from "./cache-folder.ts"
import type { Config } from "./config/config.ts"
import { Actors, type ActorSystem } from "../registry.ts"
import { Configuration, step } from "./parts.ts"
import { Telemetry } from "./telemetry/telemetry.ts"

export interface BuiltEngines extends Engines {
  readonly warm: () => Promise<void>
}

export const buildEngines = (config: Config, system: ActorSystem, starts: EngineStartMap): BuiltEngines => {
  const pipelines = apertium({
    system,
    starts,
    enabled: config.apertium === "auto",
    pairsWarm: config.pairsWarm
  })
  const factories: Record<string, () => Translator | undefined> = {
    deepl: () =>
      config.deeplUpstreamUrl === undefined
        ? undefined
        : deeplUpstream({ url: config.deeplUpstreamUrl, key: config.deeplUpstreamKey ?? "" }),
    openai: () =>
      config.openaiBaseUrl === undefined || config.openaiModel === undefined
        ? undefined
        : openaiUpstream({
            url: config.openaiBaseUrl,
            key: config.openaiApiKey ?? "",
            model: config.openaiModel
          }),
    firefox: () => firefox({ system, starts, folder: join(config.modelsDir, "mt") }),
    apertium: () => pipelines
  }
  const translators = config.enginesTranslate.flatMap((name) => factories[name]?.() ?? [])
  const listeners: Array<Recognizer> = []
  if (config.openaiBaseUrl !== undefined && config.openaiSttModel !== undefined) {
    listeners.push(
      openaiTranscription(
        { url: config.openaiBaseUrl, key: config.openaiApiKey ?? "", model: config.openaiSttModel },
        system
      )
    )
  }
  listeners.push(sherpa({ system, starts, folder: join(config.modelsDir, "stt") }))
  const embedded =
    config.sttMaxSessions === 0
      ? undefined
      : pocketsphinx({
          system,
          starts,
          cacheFolder: openCacheFolder(config),
          sessionsMax: config.sttMaxSessions
        })
  if (embedded !== undefined) listeners.push(embedded)
  const espeaking = espeak(system)
  const speakers: ReadonlyArray<Synthesizer> = [flite(system, starts), espeaking]
  const detector = eldDetector()
  const correctors = [harper(system, starts), hunspell(system, starts)]
  const corrector = correctorRouter(correctors)
  const rephraser =
    config.openaiBaseUrl === undefined || config.openaiModel === undefined
      ? plainRephraser(corrector)
      : openaiRephraser({
          url: config.openaiBaseUrl,
          key: config.openaiApiKey ?? "",
          model: config.openaiModel
        })
  const tagged = <P extends string>(port: P, engines: ReadonlyArray<Engine>) =>
    engines.map((engine) => ({ info: engine.info, readiness: engine.readiness, port }))
  return {
    translator: translatorRouter(translators, system.nowMs),
    detector,
    recognizer: recognizerRouter(listeners),
    synthesizer: synthesizerRouter(speakers),
    corrector,
    rephraser,
    all: () => [
      ...tagged("translator", translators),
      ...tagged("detector", [detector]),
      ...tagged("recognizer", listeners),
      ...tagged("synthesizer", speakers),
      ...tagged("corrector", correctors),
      ...tagged("rephraser", [rephraser])
    ],
    warm: async () => {
      embedded?.warm()
      if (translators.includes(pipelines)) pipelines.warm()
      await Promise.all([detector.warm(), espeaking.warm()])
    }
  }
}

/** The engines of this process. Their processes and threads are actors, so they end with the actor system. */
export class EnginePorts extends Context.Service<EnginePorts, BuiltEngines>()("program/Engines") {
  static readonly layer = Layer.effect(EnginePorts)(
    Effect.gen(function* () {
      const config = yield* Configuration
      const system = yield* Actors
      const { tracing } = yield* Telemetry
      return yield* step("engines", () => {
        const starts: EngineStartMap = new Map()
        system.host(EngineProcess, Context.make(EngineStarts, starts))
        const engines = buildEngines(config, system, starts)
        return tracing?.engines(engines) ?? engines
      })
    })
  )
}
